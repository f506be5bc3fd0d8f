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
from workbench.agents.stuborder import Order, Orders
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
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
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


def test_an_unedited_fork_gets_the_errors_of_its_parent(command: Command, folder: Path) -> None:
    (folder / "fails.js").write_text(
        "try { await agent({stepId: 'a', agentRef: 'lead_agent', task: 1}); } catch (e) { return [e.code, e.message]; }"
    )
    (folder / "fails.yaml").write_text("- {fail: it ended with 3, code: program_failed}\n")
    parent = command("run", "fails.js", "--stubs", "fails.yaml", "--json")
    assert parent.document["result"] == ["program_failed", "it ended with 3"]
    forked_run = command("fork", parent.document["run_id"], "--json")
    assert forked_run.document["result"] == parent.document["result"]


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


@pytest.mark.parametrize("stubs", [[5], "x", {"a": 1}, [{"repyl": 1}], [{"reply": 1, "turn": 1}]])
async def test_a_stub_set_of_a_bundle_that_is_none_is_refused(stubs: Any) -> None:
    made = await bundle(options={"agents": "stub", "stubs": stubs})
    with pytest.raises(UsageError, match=r"the stub set that this run ran on cannot be used: .*--stubs"):
        await prepare_fork(made)
    assert (await prepare_fork(made, stubs=[{"reply": 1}])).notes == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"agents": "real"}, "asked real"),
        ({"agents": 7}, "no launch options"),
        ({"x": 1}, "no launch options"),
    ],
)
async def test_a_parent_that_ran_on_no_stub_set_is_told(options: dict[str, Any], said: str) -> None:
    (note,) = (await prepare_fork(await bundle(options=options))).notes
    assert said in note


async def frames_in(script: str, order: Chosen) -> Bundle:
    frames = tuple(await record(script, {}, order=order))
    return msgspec.structs.replace(await bundle(script, {}), frames=frames)


def order_of(turns: dict[str, int]) -> Order:
    order = Order()
    order.expect(turns)
    return order


async def test_calls_that_never_come_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.agents.stuborder.PATIENCE", 0)
    given: list[str] = []

    async def one(step: str, turn: int) -> None:
        await order.turn(step, turn)
        given.append(step)
        order.delivered([step])

    order = order_of({"a": 1, "b": 2, "c": 3, "d": 3})
    await asyncio.wait_for(asyncio.gather(one("d", 3), one("b", 2)), 90)
    assert given == ["b", "d"]
    assert order.idle


async def test_a_batch_is_given_once_the_one_before_it_is_committed_however_long_that_takes() -> None:
    order = order_of({"a": 1, "b": 1, "c": 2})
    first = [asyncio.ensure_future(order.turn(step, 1)) for step in ("a", "b")]
    second = asyncio.ensure_future(order.turn("c", 2))
    await asyncio.wait_for(asyncio.gather(*first), 90)
    order.delivered(["a", "another"])
    for _ in range(5):
        await asyncio.sleep(0)
    assert not order.idle and order._timer is None, "nothing but the commit of both gives the next one"
    order.delivered(["b"])
    await asyncio.wait_for(second, 90)


async def test_what_an_earlier_process_left_open_waits_for_each_other() -> None:
    """Whichever of them is taken up first."""
    still_open, whole = {"b": 4, "c": 5}, {"a": 3, "b": 4, "c": 5, "d": 6}
    orders, given = Orders(), list[str]()

    async def one(step: str, turn: int) -> None:
        await orders.of("run", still_open, whole=False).turn(step, turn)
        given.append(step)
        orders.delivered("run", [step])

    late = asyncio.ensure_future(one("c", 5))
    await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(one("b", 4), late), 90)
    assert given == ["b", "c"]
    order = orders.of("run", whole, whole=True)
    assert order._missing == {"a": 3, "d": 6}, "what came is not expected again"


async def test_an_interrupted_call_keeps_no_other_waiting() -> None:
    order = order_of({"a": 1, "b": 2})
    first, second = asyncio.ensure_future(order.turn("a", 1)), asyncio.ensure_future(order.turn("b", 2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait_for(second, 90)
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
