"""Child runs as the host keeps them: their events, and assemblies compared with the one before."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.workbench.tui.host_support import evidence
from workbench import child_runs
from workbench.child_runs import assemblies, child_run
from workbench.client import Client
from workbench.hostview_assembly import CHANGED, NOT_COMPARABLE, ONLY, SAME
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchRequest
from workflows_core.errors import StoreError
from workflows_core.model import RunView

SCRIPT = """\
const a = await agent({stepId: 'a', agentRef: 'lead_agent', task: {n: 1}});
const b = await agent({stepId: 'b', agentRef: 'lead_agent', task: a.output});
return b.output;
"""


@pytest.fixture
async def run(tmp_path: Path) -> tuple[Workspace, RunView]:
    """A run of two steps that a true host has made."""
    space = Workspace.find(tmp_path, tmp_path)
    client = await Client.open(space, host="required")
    try:
        launched = await client.launch(
            LaunchRequest(script=SCRIPT, args={}, name="two", request_id="r", options=space.options())
        )
        await client.wait_idle()
        return space, await client.view(launched.run_id)
    finally:
        await client.close()


def change(space: Workspace, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(space.host_store_path)) as store, store:
        store.execute(sql, values)


async def test_the_events_of_a_child_run_are_read_in_their_order(run: tuple[Workspace, RunView]) -> None:
    space, view = run
    client = await Client.open(space)
    try:
        found = await client.child_run(view.steps[0].child_run_id or "")
    finally:
        await client.close()
    assert found is not None
    assert (found.step_id, found.agent, found.workflow_run) == ("a", "lead_agent", view.run_id)
    kinds = [event.event_type for event in found.events]
    assert kinds == ["run_start", "human_message", "ai_message", "run_end"] and not found.more
    assert json.loads(found.events[2].content or "") == view.steps[0].output
    assert [event.seq for event in found.events] == sorted(event.seq for event in found.events)


async def test_what_is_not_there_is_none_and_a_broken_store_is_said(
    run: tuple[Workspace, RunView], tmp_path: Path
) -> None:
    space, _view = run
    assert child_run(space.host_store_path, "cr_none") is None
    assert child_run(tmp_path / "no-such-store", "cr_none") is None
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"no store at all, and long enough for that" * 10)
    with pytest.raises(StoreError):
        child_run(broken, "cr_none")


async def test_of_long_contents_and_of_many_events_the_beginning_is_read(
    run: tuple[Workspace, RunView], monkeypatch: pytest.MonkeyPatch
) -> None:
    space, view = run
    monkeypatch.setattr(child_runs, "MOST_EVENTS", 3)
    monkeypatch.setattr(child_runs, "MOST_CONTENT", 4)
    found = child_run(space.host_store_path, view.steps[0].child_run_id or "")
    assert found is not None and found.more and len(found.events) == 3
    assert [event.cut for event in found.events] == [False, True, True]
    assert len(found.events[1].content or "") == 4


async def test_an_assembly_is_compared_with_the_one_before_it_of_the_same_agent(
    run: tuple[Workspace, RunView],
) -> None:
    space, view = run
    client = await Client.open(space)
    try:
        first = await client.assemblies(view)
    finally:
        await client.close()
    assert (first["a"].comparison, first["b"].comparison) == (ONLY, SAME)
    assert (first["b"].before_run, first["b"].before_step) == (view.run_id, "a")

    ids = [step.child_run_id for step in view.steps]
    for child, made in zip(ids, (evidence("m1", t=0.2), evidence("m2", t=0.7)), strict=True):
        change(space, "UPDATE child_runs SET evidence = ? WHERE run_id = ?", json.dumps(made), child)
    found = assemblies(space.host_store_path, view)["b"]
    assert found.comparison == CHANGED
    assert ("parameter:t", "changed", "0.2 → 0.7") in [tuple(each) for each in found.changes]

    change(space, "UPDATE child_runs SET incarnation = 'earlier' WHERE run_id = ?", ids[0])
    assert assemblies(space.host_store_path, view)["b"].comparison == NOT_COMPARABLE
    change(space, "UPDATE child_runs SET agent_ref = 'other' WHERE run_id = ?", ids[0])
    assert assemblies(space.host_store_path, view)["b"].comparison == ONLY


async def test_evidence_that_is_no_json_changes_nothing_else(run: tuple[Workspace, RunView]) -> None:
    space, view = run
    change(space, "UPDATE child_runs SET evidence = 'broken {' WHERE run_id = ?", view.steps[0].child_run_id)
    assert assemblies(space.host_store_path, view)["b"].comparison == CHANGED


async def test_a_step_whose_child_run_the_host_forgot_is_left_out(run: tuple[Workspace, RunView]) -> None:
    space, view = run
    change(space, "DELETE FROM child_runs WHERE run_id = ?", view.steps[0].child_run_id)
    assert set(assemblies(space.host_store_path, view)) == {"b"}
