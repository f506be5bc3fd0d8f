"""The data behind the Host screen, over a true host and over stores that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.tui.host_support import HostClient, child, configure, evidence, record
from workbench.client import Client
from workbench.host.config import AgentConfig, WorkbenchConfig
from workbench.hostview import HostReader
from workbench.hostview_assembly import (
    CHANGED,
    NONE,
    NOT_COMPARABLE,
    ONLY,
    SAME,
    AgentUse,
    Change,
    agent_uses,
    changes,
)
from workbench.hostview_stores import AssemblyRow, read_stores
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchRequest
from workflows_core.model import now

STUBS = "- {step: a, reply: {n: 1}}\n"
SCRIPT = "return (await agent({stepId: 'a', agentRef: 'lead_agent', task: {}})).output;"


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace.find(tmp_path, tmp_path)


def one(*rows: AssemblyRow, lifetime: str | None = None) -> AgentUse:
    """How the agent ``a`` compares with these assemblies."""
    config = WorkbenchConfig(agents={"a": AgentConfig(name="a")})
    return agent_uses(config, rows, lifetime)[0]


def row(at: int, value: Any = None, lifetime: str = "h1") -> AssemblyRow:
    text = value if isinstance(value, str) else json.dumps(evidence() if value is None else value)
    return AssemblyRow("a", lifetime, text, at, "stub", "wr_1", "s")


class TestComparison:
    def test_never_assembled(self) -> None:
        assert one().comparison == NONE

    def test_the_only_one(self) -> None:
        assert one(row(1)).comparison == ONLY

    def test_the_same_since_its_first(self) -> None:
        use = one(row(3), row(2), row(1))
        assert (use.comparison, use.since, use.assemblies) == (SAME, 1, 3)

    def test_what_changed_and_since_when_whatever_order_the_rows_come_in(self) -> None:
        old, new = evidence("m1", ("x",), t=0.2), evidence("m2", ("y",), t=0.7)
        use = one(row(2, old), row(4, new), row(1, old), row(3, new))
        assert (use.comparison, use.since, use.before, use.assemblies) == (CHANGED, 3, 2, 2)
        assert use.changes == [
            Change("model", "changed"),
            Change("parameter:t", "changed", "0.2 → 0.7"),
            Change("tool:x", "removed"),
            Change("tool:y", "added"),
        ]

    def test_another_lifetime_is_never_compared_with(self) -> None:
        use = one(row(2, evidence("m1"), "h2"), row(1, evidence("m2"), "h1"))
        assert (use.comparison, use.earlier, use.changes) == (NOT_COMPARABLE, 1, ())

    def test_an_assembly_before_this_host_started_says_so(self) -> None:
        assert one(row(1, lifetime="h1"), lifetime="h2").past
        assert not one(row(1, lifetime="h1"), lifetime="h1").past
        assert not one(row(1, lifetime="h1")).past

    @pytest.mark.parametrize("text", ["", "[]", "3", '{"components": 3}', "[" * 100_000])
    def test_evidence_that_is_none_gives_no_components(self, text: str) -> None:
        assert one(row(2, text), row(1)).components == {}

    def test_an_order_of_components_is_no_change(self) -> None:
        value = evidence()
        turned = {
            "components": dict(reversed(value["components"].items())),
            "fingerprint": value["fingerprint"],
        }
        assert changes(value, turned) == []
        assert one(row(2, turned), row(1, value)).comparison == SAME

    def test_agents_that_are_not_configured_follow(self) -> None:
        config = WorkbenchConfig(agents={"z": AgentConfig(name="z", backend="langchain")})
        found = agent_uses(config, [row(1)])
        assert [(use.name, use.backend, use.available, use.allowed) for use in found] == [
            ("z", "langchain", False, False),
            ("a", "", False, False),
        ]


def test_reading_where_nothing_was_stored_writes_nothing(space: Workspace) -> None:
    stored = read_stores(space, now())
    assert stored.events == [] and stored.captured == {} and stored.problems == {}
    assert [each.size for each in stored.files] == [None, None, None]
    assert list(space.root.iterdir()) == []


def test_a_store_that_is_damaged_is_a_problem_of_its_sections(space: Workspace) -> None:
    record(space, child(1))
    space.storage_path.write_bytes(b"no store at all" * 100)
    stored = read_stores(space, now())
    assert set(stored.problems) == {"stores"} and "damaged" in stored.problems["stores"]
    assert len(stored.events) == 4


async def test_a_true_host_is_read_by_its_owner_and_by_another_process(space: Workspace) -> None:
    (space.root / "a.stubs.yaml").write_text(STUBS)
    owner = await Client.open(space, host="required")
    try:
        request = LaunchRequest(
            script=SCRIPT,
            args={},
            name="one",
            request_id="r1",
            options=space.options(stubs=space.root / "a.stubs.yaml"),
        )
        await owner.launch(request)
        await owner.wait_idle()
        view = await HostReader(owner, space).read(await owner.runs(None))
        assert view.own and view.problems == {}
        assert [each.outcome for each in view.extensions] == ["loaded"]
        assert view.extensions[0].contributions["service"] == 1
        assert view.agents[0].comparison == ONLY and not view.agents[0].past
        assert len(view.agents[0].fingerprint) == 16
        assert {each.event_type for each in view.events} >= {"run_start", "run_end"}
        used = {each.key: (each.used, each.by) for each in view.limits}
        assert used["retained_runs"][0] == 1 and used["max_workflows"] == (0, "")
        assert len(view.sessions) == 1
        other = await Client.open(space, host="never")
        try:
            seen = await HostReader(other, space).read(await other.runs(None))
        finally:
            await other.close()
        assert not seen.own and seen.owner_pid == view.owner_pid and seen.problems == {}
        assert seen.extensions == view.extensions and seen.events == view.events
    finally:
        await owner.close()
    late = await Client.open(space, host="never")
    try:
        alone = await HostReader(late, space).read(await late.runs(None))
    finally:
        await late.close()
    assert alone.owner_pid is None and [each.outcome for each in alone.extensions] == ["configured"]
    assert alone.events == view.events


async def test_an_owner_is_asked_again_only_where_that_is_wanted(space: Workspace) -> None:
    configure(space)
    client = HostClient(owner=False)
    reader = HostReader(client, space)  # type: ignore[arg-type]
    first = await reader.read([])
    second = await reader.read([], ask=False)
    assert client.asked == 1 and second.extensions == first.extensions
    client.pid = 4712  # another process took the workspace over
    await reader.read([], ask=False)
    assert client.asked == 2
    client.pid = None
    assert (await reader.read([])).extensions[0].outcome == "configured"
    assert client.asked == 2
