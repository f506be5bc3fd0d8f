"""Explorers: orders of answers that matter are found, crash points are told, coverage is counted."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from workflows_core.errors import UsageError
from workflows_core.journal.coverage import coverage, coverage_document
from workflows_core.journal.driving import recorded_calls
from workflows_core.journal.explore import count_orders, explore_crashes, explore_orders
from workflows_core.journal.frames import ChildNote, Mark, Side
from workflows_core.journal.redact import redact

from .recording import Fails, record
from .runs import bundle

CAREFUL = """\
const all = await parallel(['x', 'y', 'z'].map((name) => () =>
  agent({stepId: name, agentRef: 'lead_agent', task: name})));
return all.map((one) => one.output);
"""
CARELESS = """\
const seen = [];
await parallel(['x', 'y', 'z'].map((name) => async () => {
  seen.push((await agent({stepId: name, agentRef: 'lead_agent', task: name})).output);
}));
return seen;
"""
FIRST = """\
let first = null;
await parallel(['x', 'y'].map((name) => async () => {
  const one = await agent({stepId: name, agentRef: 'lead_agent', task: name});
  if (first === null) first = one.output;
}));
return await agent({stepId: 'next', agentRef: 'lead_agent', task: first}).then((one) => 1);
"""


async def test_orders_that_do_not_matter() -> None:
    found = await explore_orders(CAREFUL, await record(CAREFUL))
    assert (found.exist, found.ran, found.changed) == (6, 6, ())
    assert found.concurrent == (("x", "y", "z"),)


async def test_orders_that_change_the_result() -> None:
    found = await explore_orders(CARELESS, await record(CARELESS))
    assert (found.exist, found.ran, len(found.changed)) == (6, 6, 5)
    case = next(case for case in found.changed if case.order == ("z", "y", "x"))
    assert case.what == "result"
    assert [difference.path for difference in case.differences] == ["value[0]", "value[2]"]


async def test_orders_that_change_a_later_request() -> None:
    found = await explore_orders(FIRST, await record(FIRST))
    assert (found.exist, found.ran) == (2, 2)
    (case,) = found.changed
    assert (case.order, case.what, case.step_id) == (("y", "x"), "request", "next")
    assert [(d.recorded, d.now) for d in case.differences] == [("x", "y")]


async def test_orders_that_are_one_without_a_call_are_told_once() -> None:
    script = FIRST.replace("first = one.output;", "{ first = one.output; if (name === 'x') await extra(); }")
    script = "const extra = () => agent({stepId: 'extra', agentRef: 'lead_agent', task: 1});\n" + script
    found = await explore_orders(script, await record(script, order=lambda waiting: waiting[:1]))
    assert found.exist == found.ran == 3
    assert [case.order for case in found.changed] == [("y", "x")]


async def test_the_recorded_order_is_what_the_others_are_compared_with() -> None:
    frames = await record(CARELESS, order=lambda waiting: waiting[-1:])
    found = await explore_orders(CARELESS, frames)
    assert ("z", "y", "x") not in [case.order for case in found.changed]
    assert len(found.changed) == 5


async def test_more_orders_than_are_run_are_said() -> None:
    script = CAREFUL.replace("['x', 'y', 'z']", "['a','b','c','d','e','f','g']")
    found = await explore_orders(script, await record(script), limit=5)
    assert (found.exist, found.ran) == (math.factorial(7), 5)
    again = await explore_orders(script, await record(script), limit=5)
    assert again == found


async def test_answers_never_come_before_what_they_wait_for() -> None:
    script = """\
    const chain = (name) => async () => {
      const one = await agent({stepId: `${name}1`, agentRef: 'lead_agent', task: 1});
      return agent({stepId: `${name}2`, agentRef: 'lead_agent', task: one.output});
    };
    await parallel([chain('a'), chain('b')]);
    return 1;
    """
    frames = await record(script, order=lambda waiting: waiting[:1])
    recorded = recorded_calls(frames)
    assert [one.label for one in recorded] == ["a1", "b1", "a2", "b2"]
    found = await explore_orders(script, frames)
    assert found.changed == ()
    assert found.exist == count_orders(recorded) == 5
    assert found.ran == 5


async def test_a_run_without_parallel_calls_has_one_order() -> None:
    script = "await agent({stepId: 'a', agentRef: 'lead_agent', task: 1}); return 1;"
    found = await explore_orders(script, await record(script))
    assert (found.exist, found.ran, found.concurrent) == (1, 1, ())


async def test_calls_without_a_recorded_answer_are_named() -> None:
    script = """\
const ask = (name) => agent({stepId: name, agentRef: 'lead_agent', task: name});
const first = (await Promise.race([ask('x'), ask('y')])).output;
return [first, (await ask('z')).output];
"""
    found = await explore_orders(script, await record(script, order=lambda waiting: waiting[-1:]))
    assert (found.exist, found.ran, found.unanswered) == (1, 1, ("x",))
    assert found.concurrent == (("x", "y"), ("x", "z"))


async def test_every_commit_is_a_crash_point_with_its_recovery() -> None:
    script = CAREFUL + "\n"
    frames = await record(script)
    request = msgspec.structs.replace(
        frames[1], side=msgspec.structs.replace(frames[1].side, admitting=("x", "y"))
    )
    known = Side(
        children={
            "x": ChildNote(child_run_id="ar_1", badge="stub"),
            "y": ChildNote(child_run_id="ar_2", badge="live"),
        }
    )
    marks = [Mark(0, 2, 5, known)]
    found = explore_crashes([frames[0], request, *frames[2:]], marks)
    assert (found.exist, found.ran) == (5, 5)
    assert [(p.after, p.marks, p.reused, p.observed, p.uncertain, p.new) for p in found.points] == [
        (0, 0, (), (), (), ("x", "y", "z")),
        (1, 0, (), (), ("x", "y"), ("z",)),
        (1, 1, (), ("x",), ("y",), ("z",)),
        (2, 1, ("x", "y", "z"), (), (), ()),
        (3, 1, ("x", "y", "z"), (), (), ()),
    ]
    assert found.points[-1].what == "nothing: the run has ended"
    assert (
        found.points[2].what
        == "1 observed to the end, 1 uncertain unless the host knows the child run, 1 started"
    )


async def test_a_turn_of_several_frames_is_one_commit() -> None:
    script = """
    const all = [];
    for (let i = 0; i < 4; i++) all.push(agent({stepId: `s${i}`, agentRef: 'lead_agent', task: 'x'.repeat(15000)}));
    for (const one of all) await one;
    return 1;
    """
    frames = await record(script)
    assert sum(frame.kind.value == "request" for frame in frames) == 2
    assert [point.after for point in explore_crashes(frames, ()).points] == [0, 2, 4, 5]


BRANCHES = """\
const one = await agent({stepId: 'a', agentRef: 'lead_agent', task: args.n});
if (one.output > 1) {
  log('large');
} else log('small');
try { if (args.n === 9) throw new Error('no'); } catch (e) { log('never'); }
return 1;
"""


async def test_coverage_adds_up_over_runs_and_names_what_never_ran() -> None:
    first = await bundle(BRANCHES, {"n": 2}, captures=(), decisions=())
    second = await bundle(BRANCHES, {"n": 1}, captures=(), decisions=())
    (alone,) = await coverage([first])
    assert [(one.line, one.hits) for one in alone.statements if one.hits == 0] == [(4, 0), (5, 0), (5, 0)]
    (both,) = await coverage([first, second])
    assert {(one.line, one.column): one.hits for one in both.statements}[(1, 1)] == 2
    assert [(one.line, one.hits) for one in both.statements if one.hits == 0] == [(5, 0), (5, 0)]
    document = coverage_document([both])["scripts"][0]
    assert (document["statements"], document["covered"]) == (9, 7)
    assert document["never"] == [{"line": 5, "column": 25}, {"line": 5, "column": 62}]


async def test_scripts_are_counted_apart() -> None:
    first = await bundle(BRANCHES, {"n": 2}, captures=(), decisions=())
    second = await bundle("return 1;", {}, captures=(), decisions=(), marks=())
    found = await coverage([first, second])
    assert [len(one.statements) for one in found] == [9, 1]


async def test_what_cannot_be_counted_is_said() -> None:
    made = await bundle(BRANCHES, {"n": 2}, captures=(), decisions=())
    with pytest.raises(UsageError, match="redacted"):
        await coverage([redact(made, {"verdict": "complete"})])
    with pytest.raises(UsageError, match="does not replay"):
        await coverage([msgspec.structs.replace(made, frames=made.frames[1:])])


async def test_a_failed_answer_keeps_its_place_in_every_order() -> None:
    def answer(call: dict[str, Any]) -> Any:
        raise Fails(f"no {call['step_id']}")

    frames = await record(CAREFUL, answer=answer)
    found = await explore_orders(CAREFUL, frames)
    assert (found.exist, found.changed) == (6, ())
