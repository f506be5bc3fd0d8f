"""A fork of an unedited run is its parent again: the same requests, the same answers, in the same batches."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workbench.cli.conftest import Command
from tests.workflows_core.journal.recording import Order as Chosen
from tests.workflows_core.journal.recording import record
from tests.workflows_core.journal.runs import bundle
from workbench.agents.stuborder import Order
from workbench.agents.stubset import StubSet
from workbench.forking import prepare_fork
from workbench.opening import open_run
from workbench.workspace import Workspace
from workflows_core.errors import UsageError
from workflows_core.journal.bundle import Bundle
from workflows_core.jsontext import parse

SCRIPT = """\
const seen = [];
const ask = async (id, task) => {
  const r = await agent({stepId: id, agentRef: 'lead_agent', task});
  seen.push(id);
  return r.output;
};
"""
LANES = st.lists(st.integers(1, 3), min_size=2, max_size=4)


def script_of(lanes: list[int]) -> str:
    """Parallel lanes of calls, each call asked with what was seen before it; then one with everything."""
    calls = [
        "".join(f"await ask('l{lane}-{n}', [...seen]);" for n in range(length))
        for lane, length in enumerate(lanes)
    ]
    made = [f"async () => {{ {each} }}" for each in calls]
    return SCRIPT + f"await parallel([{', '.join(made)}]);\nreturn await ask('last', [...seen]);\n"


def journal(folder: Path, run_id: str) -> list[Any]:
    """The frames behind the start, without what names the child runs."""
    made: list[Any] = []
    for frame in open_run(Workspace(folder), run_id, None).frames[1:]:
        body = parse(frame.body)
        for result in body.get("results", ()):
            result["value"] = result["value"]["output"]
        made.append((frame.kind.value, body))
    return made


def forked(command: Command, folder: Path, run_id: str) -> str:
    made = command("fork", run_id, "--json")
    assert made.status == 0, made
    return str(made.document["run_id"])


@given(lanes=LANES, data=st.data())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_unedited_fork_has_the_frames_of_its_parent(
    command: Command, folder: Path, lanes: list[int], data: st.DataObject
) -> None:
    steps = [f"l{lane}-{n}" for lane, length in enumerate(lanes) for n in range(length)]
    stubs = [
        {"step": step, "after": data.draw(st.sampled_from([0, 0.03, 0.06])), "reply": step} for step in steps
    ]
    (folder / "lanes.js").write_text(script_of(lanes))
    (folder / "lanes.yaml").write_text(yaml.safe_dump(stubs))
    parent = command("run", "lanes.js", "--stubs", "lanes.yaml", "--json").document["run_id"]
    child = forked(command, folder, parent)
    assert journal(folder, child) == journal(folder, parent)


async def test_an_answer_has_its_turn_only_where_one_came_later_than_it_could() -> None:
    script = script_of([1, 2])
    plain = await prepare_fork(await frames_in(script, list))
    assert all("turn" not in entry for entry in plain.request.options["stubs"])
    late = await prepare_fork(await frames_in(script, lambda waiting: waiting[-1:]))
    assert [entry["turn"] for entry in late.request.options["stubs"][:4]] == [3, 1, 2, 4]


async def test_a_fork_of_a_fork_waits_for_no_turns_of_the_first() -> None:
    made = await frames_in(script_of([1, 2]), lambda waiting: waiting[-1:])
    first = await prepare_fork(made)
    old = first.request.options["stubs"]
    again = await prepare_fork(made, stubs=old)
    assert again.request.options["stubs"][:4] == old[:4]
    assert not any("turn" in entry for entry in again.request.options["stubs"][4:])


async def frames_in(script: str, order: Chosen) -> Bundle:
    frames = tuple(await record(script, {}, order=order))
    return msgspec.structs.replace(await bundle(script, {}), frames=frames)


async def test_calls_that_never_come_are_not_waited_for() -> None:
    given: list[int] = []

    async def one(index: int, turn: int) -> None:
        await order.turn(index, turn)
        given.append(index)

    order = Order({0: 1, 1: 2, 2: 3, 3: 3})
    await asyncio.wait_for(asyncio.gather(one(3, 3), one(1, 2)), 30)
    assert given == [1, 3]
    assert order.idle


async def test_an_interrupted_call_keeps_no_other_waiting() -> None:
    order = Order({0: 1, 1: 2})
    first, second = asyncio.ensure_future(order.turn(0, 1)), asyncio.ensure_future(order.turn(1, 2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait_for(second, 30)
    assert first.cancelled() or first.done()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"turn": 0, "request": "0" * 64}, "whole number"),
        ({"turn": True, "request": "0" * 64}, "whole number"),
        ({"turn": 1}, "recorded answer"),
    ],
)
def test_a_turn_that_is_none_is_refused(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        StubSet([{"reply": 1, **entry}])
