"""Time travel: what is in sight at each frame and statement, forwards and backwards, and what stays untouched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from workflows_core.errors import UsageError
from workflows_core.journal.debugger import Debugger, explain, locals_document
from workflows_core.journal.expressions import can_be_read, is_plain, is_pure
from workflows_core.journal.frames import Frame
from workflows_core.journal.moments import Moment
from workflows_core.journal.verify import verify
from workflows_core.jsontext import parse
from workflows_core.script.instrument import InstrumentRefused
from workflows_core.worker import probe
from workflows_core.worker.probe import ProbedWorker

from .recording import Fails, chained, rechained, record

ROUNDS = """\
let total = 0;
const seen = [];
for (const round of [1, 2]) {
  const r = await agent({stepId: `a-${round}`, agentRef: 'lead_agent', task: {n: round}});
  total += r.output.n;
  seen.push(r.output);
}
return {total, seen};
"""
UNASSIGNED = {"$type": "unassigned"}


@asynccontextmanager
async def opened(script: str, frames: list[Frame] | None = None, **options: Any) -> AsyncIterator[Debugger]:
    debugger = await Debugger.open(script, frames if frames is not None else await record(script), **options)
    try:
        yield debugger
    finally:
        await debugger.close()


def where(moment: Moment) -> tuple[str, int, int, int | None]:
    return moment.kind, moment.frame, moment.statement, moment.line


def values(moment: Moment) -> dict[str, Any]:
    return locals_document(moment)


async def test_each_frame_has_its_place_and_its_variables() -> None:
    async with opened(ROUNDS) as debugger:
        assert debugger.level == "statements" and debugger.notes == []
        assert debugger.statements == 10
        assert where(debugger.at) == ("start", 0, 1, 1)
        moment = await debugger.go_to_frame(3)
        assert where(moment) == ("request", 3, 7, 4)
        assert (moment.line, moment.column) == (4, 19)
        assert values(moment) == {"r": UNASSIGNED, "round": 2, "total": 1, "seen": [{"n": 1}]}
        assert [(local.name, local.kind, local.scope) for local in moment.locals] == [
            ("r", "const", "block"), ("round", "const", "loop"), ("total", "let", "script"), ("seen", "const", "script"),
        ]  # fmt: skip
        moment = await debugger.go_to_frame(4)
        assert where(moment) == ("response", 4, 7, 4)
        assert values(moment)["r"] == UNASSIGNED
        assert [(one.call, one.label, one.line) for one in moment.pending] == [(2, "a-2", 4)]
        moment = await debugger.go_to_frame(5)
        assert where(moment) == ("end", 5, 10, 8)
        assert values(moment) == {"total": 3, "seen": [{"n": 1}, {"n": 2}]}
        assert moment.pending == ()


async def test_frames_are_walked_both_ways() -> None:
    async with opened(ROUNDS) as debugger:
        forward = [debugger.at]
        while debugger.at.frame < 5:
            forward.append(await debugger.next_frame())
        assert [moment.frame for moment in forward] == [0, 1, 2, 3, 4, 5]
        assert await debugger.next_frame() == forward[-1]
        backward = [debugger.at]
        while debugger.at.frame > 0:
            backward.append(await debugger.previous_frame())
        assert backward == list(reversed(forward))
        assert await debugger.previous_frame() == forward[0]


async def test_statements_are_walked_both_ways() -> None:
    async with opened(ROUNDS) as debugger:
        forward = [await debugger.go_to_statement(1)]
        for _ in range(9):
            forward.append(await debugger.step())
        assert [moment.line for moment in forward] == [1, 2, 3, 4, 5, 6, 4, 5, 6, 8]
        assert [moment.frame for moment in forward] == [0, 0, 0, 0, 2, 2, 2, 4, 4, 4]
        after = await debugger.step()
        assert after.kind == "end"
        back = [await debugger.go_to_statement(10)]
        for _ in range(9):
            back.append(await debugger.step_back())
        assert back == list(reversed(forward))
        assert (await debugger.step_back()).statement == 1


async def test_from_a_frame_the_statements_around_it_are_reached() -> None:
    async with opened(ROUNDS) as debugger:
        await debugger.go_to_frame(4)
        assert where(await debugger.step()) == ("statement", 4, 8, 5)
        await debugger.go_to_frame(4)
        assert where(await debugger.step_back()) == ("statement", 2, 7, 4)
        assert where(await debugger.next_frame()) == ("request", 3, 7, 4)
        await debugger.go_to_statement(8)
        assert where(await debugger.previous_frame()) == ("response", 4, 7, 4)


async def test_breakpoints_stop_both_ways() -> None:
    async with opened(ROUNDS) as debugger:
        assert debugger.breakable(5) == 5
        assert debugger.breakable(7) == 8
        assert debugger.breakable(9) is None
        assert where(await debugger.run_to([5])) == ("breakpoint", 2, 5, 5)
        assert where(await debugger.run_to([5])) == ("breakpoint", 4, 8, 5)
        assert (await debugger.run_to([5])).kind == "end"
        assert where(await debugger.run_back_to([5])) == ("breakpoint", 4, 8, 5)
        assert where(await debugger.run_back_to([5])) == ("breakpoint", 2, 5, 5)
        assert where(await debugger.run_back_to([5])) == ("start", 0, 1, 1)


async def test_watches_and_histories() -> None:
    async with opened(ROUNDS) as debugger:
        await debugger.go_to_frame(3)
        found = await debugger.watch(
            ["total", "seen[0].n + 1", "r", "nothing", "({a: args})", "seen.nothing.here"]
        )
        assert found["total"] == 1
        assert found["seen[0].n + 1"] == 2
        assert found["r"] == UNASSIGNED
        assert found["nothing"] == {
            "$type": "error",
            "name": "ReferenceError",
            "message": "nothing is not defined",
        }
        assert found["({a: args})"] == {"a": {}}
        assert found["seen.nothing.here"]["name"] == "TypeError"
        here = debugger.at
        assert await debugger.history("total") == [(0, UNASSIGNED), (1, 0), (2, 0), (3, 1), (4, 1), (5, 3)]
        assert debugger.at == here
        with pytest.raises(UsageError, match="might change"):
            await debugger.history("total++")


async def test_an_expression_with_effects_does_not_change_what_follows() -> None:
    async with opened(ROUNDS) as debugger:
        await debugger.go_to_frame(1)
        assert await debugger.watch(["total = 100", "seen.push(7)"]) == {
            "total = 100": 100,
            "seen.push(7)": 1,
        }
        moment = await debugger.go_to_frame(5)
        assert values(moment) == {"total": 3, "seen": [{"n": 1}, {"n": 2}]}
        refused = await debugger.watch(["agent({stepId: 'x', agentRef: 'lead_agent', task: 1})"])
        assert refused != {}
        assert (await debugger.go_to_frame(3)).diverged is None


async def test_an_expression_that_does_not_end_is_given_up() -> None:
    async with opened(ROUNDS) as debugger:
        await debugger.go_to_frame(3)
        found = await debugger.watch(["(() => { for (;;); })()"])
        (value,) = found.values()
        assert value["$type"] == "error" and "did not end" in value["message"]
        assert values(await debugger.go_to_frame(3))["total"] == 1
        assert await debugger.watch(["total"]) == {"total": 1}


VALUES = """\
const e = new Map([[1, {a: [1, , undefined]}]]), set = new Set(['x']), nan = NaN, minus = -0, far = Infinity;
const proxy = new Proxy({}, {get() { throw 1; }}), other = Proxy.revocable({}, {}).proxy;
const f = () => 1, named = function inner() {}, er = new TypeError('bad'), re = /x+/gi, big = 2n ** 70n;
const lone = '\\ud800', cyc = {}, sym = Symbol('s'), bytes = new Uint8Array([1, 2]), none = null, un = undefined;
class Point { constructor() { this.x = 1; } get y() { throw new Error('asked'); } }
cyc.self = cyc;
const point = new Point(), own = {get z() { throw new Error('asked'); }}, made = Object.create(null);
const promise = agent({stepId: 'a', agentRef: 'lead_agent', task: 'x'.repeat(9000)});
const plain = Promise.resolve(1);
const r = await promise;
return 1;
"""


async def test_what_json_cannot_say_is_named_and_nothing_of_the_script_runs() -> None:
    async with opened(VALUES) as debugger:
        found = values(await debugger.go_to_frame(2))
        expected: dict[str, Any] = {
            "e": {
                "$type": "map",
                "size": 1,
                "value": [[1, {"a": [1, {"$type": "hole"}, {"$type": "undefined"}]}]],
            },
            "set": {"$type": "set", "size": 1, "value": ["x"]},
            "nan": {"$type": "number", "value": "NaN"},
            "minus": {"$type": "number", "value": "-0"},
            "far": {"$type": "number", "value": "Infinity"},
            "proxy": {"$type": "proxy"},
            "other": {"$type": "proxy"},
            "f": {"$type": "function", "name": "f"},
            "named": {"$type": "function", "name": "inner"},
            "er": {"$type": "error", "name": "TypeError", "message": "bad"},
            "re": {"$type": "regexp", "value": "x+", "flags": "gi"},
            "big": {"$type": "bigint", "value": "1180591620717411303424"},
            "lone": {"$type": "text", "value": "\ufffd", "length": 1},
            "cyc": {"self": {"$type": "cycle"}},
            "sym": {"$type": "symbol", "value": "Symbol(s)"},
            "bytes": {"$type": "typed array", "value": [1, 2]},
            "none": None,
            "un": {"$type": "undefined"},
            "point": {"$type": "object", "class": "Point", "value": {"x": 1}},
            "own": {"z": {"$type": "getter"}},
            "made": {},
            "promise": {"$type": "promise", "state": "pending", "of": "step 'a'"},
            "plain": {"$type": "promise"},
            "r": UNASSIGNED,
            "Point": {"$type": "function", "name": "Point"},
        }
        assert found == expected
        long = (
            await debugger.watch(["r", "'y'.repeat(30000)", "Array.from({length: 3000}, (_, i) => i)"])
        ).values()
        _, text, many = long
        assert text == {"$type": "text", "value": "y" * 20_000, "length": 30_000}
        assert many[-1] == {"$type": "more", "count": 1000}


async def test_a_value_of_the_script_does_not_read_as_what_json_cannot_say() -> None:
    script = """\
Object.defineProperty(RegExp.prototype, 'flags', {get() { throw new Error('ran'); }});
const fake = {$type: 'promise'};
const list = [{$type: 'missing', value: 1}];
const re = /a/gi;
return 1;
"""
    async with opened(script) as debugger:
        found = values(await debugger.go_to_statement(5))
        named = {"$type": "object", "class": "Object"}
        assert found["fake"] == {**named, "value": {"$type": "promise"}}
        assert found["list"] == [{**named, "value": {"$type": "missing", "value": 1}}]
        assert found["re"] == {"$type": "regexp", "value": "a", "flags": "gi"}


async def test_parallel_calls_show_their_own_variables_and_what_is_in_flight() -> None:
    script = """\
const names = ['x', 'y', 'z'];
const all = await parallel(names.map((name, index) => async () => {
  const first = await agent({stepId: `one-${name}`, agentRef: 'lead_agent', task: index});
  const second = await agent({stepId: `two-${name}`, agentRef: 'lead_agent', task: first.output + 10});
  return [name, second.output];
}));
return all;
"""
    frames = await record(script, order=lambda waiting: waiting[-1:])
    async with opened(script, frames) as debugger:
        seen = []
        for number, frame in enumerate(frames[:-1]):
            moment = await debugger.go_to_frame(number)
            if frame.kind.value == "response":
                (answer,) = parse(frame.body)["results"]
                (call,) = [one for one in moment.pending if one.call == answer["id"]]
                found = values(moment)
                seen.append((call.label, found["name"], moment.line))
                assert found["index"] == ["x", "y", "z"].index(found["name"])
        assert seen == [
            ("one-z", "z", 3), ("two-z", "z", 4), ("one-y", "y", 3), ("two-y", "y", 4), ("one-x", "x", 3), ("two-x", "x", 4),
        ]  # fmt: skip
        moment = await debugger.go_to_frame(2)
        assert [one.label for one in moment.pending] == ["one-x", "one-y", "one-z"]


async def test_a_call_after_an_await_in_the_same_statement_shows_its_own_function() -> None:
    script = """\
const ask = (id, task) => agent({stepId: id, agentRef: 'lead_agent', task});
async function left() { const mine = 'left'; return (await ask('l1', 1)).output + (await ask('l2', 2)).output; }
async function right() { const mine = 'right'; return (await ask('r1', 1)).output + (await ask('r2', 2)).output; }
return await parallel([left, right]);
"""
    frames = await record(script, order=lambda waiting: waiting[:1])
    async with opened(script, frames) as debugger:
        moment = await debugger.go_to_frame(3)
        assert parse(frames[3].body)["calls"][0]["step_id"] == "l2"
        assert values(moment)["id"] == "l2"


async def test_an_unfinished_run_is_visited_up_to_where_it_was_cut() -> None:
    frames = (await record(ROUNDS))[:4]
    async with opened(ROUNDS, frames) as debugger:
        moment = await debugger.go_to_frame(3)
        assert (moment.kind, [one.label for one in moment.pending]) == ("request", [])
        last = await debugger.run_to([8])
        assert (last.kind, last.line) == ("end", 4)
        assert [one.label for one in last.pending] == ["a-2"]
        with pytest.raises(UsageError, match="frames 0 to 3"):
            await debugger.go_to_frame(4)


async def test_where_a_run_was_cut_the_call_without_an_answer_and_its_variables_are_shown() -> None:
    script = """\
const ask = async (name, task) => {
  const mine = name.toUpperCase();
  return (await agent({stepId: name, agentRef: 'lead_agent', task})).output + mine;
};
const first = await ask('one', 1);
const both = await parallel([() => ask('two', first), () => ask('three', first)]);
return both;
"""
    frames = await record(script, order=lambda waiting: waiting[:1], rounds=2)
    async with opened(script, frames) as debugger:
        last = await debugger.go_to_statement(debugger.statements + 1)
        assert (last.kind, last.line, last.column) == ("end", 3, 17)
        assert [one.label for one in last.pending] == ["three"]
        assert values(last)["mine"] == "THREE"
        assert await debugger.watch(["mine + task"]) == {"mine + task": "THREE1ONE"}


@pytest.mark.parametrize("probes", [True, False])
async def test_looking_where_a_run_was_cut_keeps_that_place(
    probes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """\
let y = 0;
const p = agent({stepId: 'a', agentRef: 'lead_agent', task: 1});
y = 1;
y = 2;
return await p;
"""
    frames = (await record(script))[:2]
    if not probes:
        monkeypatch.setattr("workflows_core.journal.debugger.instrument", _refuse)
    async with opened(script, frames) as debugger:
        end = await debugger.go_to_end()
        assert where(end)[:2] == ("end", 1) and [one.label for one in end.pending] == ["a"]
        for spoil in (debugger.history("y"), debugger.watch(["y + 0"]), debugger.watches(["y + 0", "y"])):
            await spoil
            assert await debugger.afresh() == end
            if probes:
                assert await debugger.watch(["y"]) == {"y": 2}
        await debugger.go_to_frame(0)
        await debugger.go_back_to(end)
        assert debugger.at == end


def _refuse(script: str) -> None:
    raise InstrumentRefused("for this test")


async def test_the_end_of_a_completed_run_is_its_return_and_not_a_function_that_it_called() -> None:
    script = """\
const r = await agent({stepId: 'a', agentRef: 'lead_agent', task: {list: [1, 2]}});
const twice = one => 2 * one;
function sum(list) { let total = 0; for (const one of list) total += one; return total; }
return {
  doubled: r.output.list.map(one => twice(one)), sum: sum(r.output.list),
};
"""
    async with opened(script) as debugger:
        moment = await debugger.go_to_frame(3)
        assert where(moment)[0::3] == ("end", 4) and moment.column == 1
        assert set(values(moment)) == {"r", "twice", "sum"}
        assert await debugger.watch(["r.output.list.length", "one"]) == {
            "r.output.list.length": 2,
            "one": {"$type": "error", "name": "ReferenceError", "message": "one is not defined"},
        }
        assert (await debugger.step_back()).line == 3
        assert await debugger.go_to_frame(3) == moment
    async with opened("const a = [1].map(one => one);\nlog('x');\nif (a[0]) { log('y'); }\n") as debugger:
        moment = await debugger.go_to_frame(len(debugger.frames) - 1)
        assert (moment.line, moment.column) == (3, 13)


async def test_the_end_of_a_run_that_threw_is_where_it_threw() -> None:
    script = """\
const check = list => {
  const wanted = 2;
  if (list.length < wanted) throw new Error('too few');
  return list;
};
const r = await agent({stepId: 'a', agentRef: 'lead_agent', task: [1]});
return check(r.output);
"""
    async with opened(script) as debugger:
        moment = await debugger.go_to_frame(3)
        assert (moment.kind, moment.line) == ("end", 3)
        assert values(moment)["wanted"] == 2 and values(moment)["list"] == [1]


async def test_a_divergence_bounds_the_travel_and_shows_what_fed_the_request() -> None:
    frames = await record(ROUNDS)
    edited = ROUNDS.replace("task: {n: round}", "task: {n: round * 2 - 1}")
    verdict = await verify(edited, frames, edited=True)
    assert verdict.divergence is not None
    found = await explain(edited, frames, verdict.divergence)
    assert found.locals == {"r": UNASSIGNED, "round": 2, "total": 1, "seen": [{"n": 1}]}
    async with opened(edited, frames, plain=verdict.divergence) as debugger:
        moment = await debugger.go_to_frame(5)
        assert moment.diverged == verdict.divergence
        assert (moment.frame, moment.line) == (3, 4)
        assert await debugger.step() == moment
        assert await debugger.run_to([8]) == moment
        assert values(await debugger.go_to_frame(1))["total"] == 0
        assert (await debugger.go_to_statement(5)).line == 5


async def test_an_altered_answer_diverges_with_its_variables() -> None:
    frames = await record(ROUNDS + "\n")
    script = ROUNDS.replace("return {total, seen}", "return total") + "\n"
    verdict = await verify(script, frames, edited=True)
    assert verdict.divergence is not None and verdict.divergence.frame == 5
    assert verdict.divergence.line is None
    found = await explain(script, frames, verdict.divergence)
    assert found == msgspec.structs.replace(verdict.divergence, line=8, column=1)
    async with opened(script, frames, plain=verdict.divergence) as debugger:
        moment = await debugger.go_to_frame(5)
        assert moment.diverged == verdict.divergence


async def test_a_script_that_sees_the_probes_is_stepped_by_frames() -> None:
    script = """\
globalThis.eval = () => 'mine';
const kind = eval('1');
const r = await agent({stepId: 'a', agentRef: 'lead_agent', task: String(kind)});
return r.output;
"""
    frames = await record(script)
    async with opened(script, frames) as debugger:
        assert debugger.level == "frames"
        assert "asks something else" in debugger.notes[0]
        moment = await debugger.go_to_frame(1)
        assert (moment.kind, moment.line, moment.locals) == ("request", 3, ())
        assert (await debugger.go_to_frame(3)).kind == "end"
        assert (await debugger.previous_frame()).frame == 2
        told = "no variable is in sight: stepping is by frames"
        assert (await debugger.watch(["kind"]))["kind"]["message"] == told
        assert {value["message"] for _, value in await debugger.history("kind")} == {told}
        with pytest.raises(UsageError, match="only be stepped by frames"):
            await debugger.step()
        assert await debugger.watch(["1 + 1"]) == {"1 + 1": 2}
        assert debugger.breakable(1) is None


async def test_a_frame_of_several_calls_is_emitted_with_its_last_one() -> None:
    script = """\
const a = 1;
log('first');
const b = 2;
const r = await agent({stepId: 'a', agentRef: 'lead_agent', task: b});
return r.output;
"""
    frames = await record(script)
    assert [call["op"] for call in parse(frames[1].body)["calls"]] == ["log", "agent"]
    async with opened(script, frames) as debugger:
        moment = await debugger.go_to_frame(1)
        assert (moment.line, values(moment)) == (4, {"a": 1, "b": 2, "r": UNASSIGNED})
        assert where(await debugger.go_to_statement(3)) == ("statement", 0, 3, 3)


async def test_a_failed_call_and_its_catch() -> None:
    def fail(call: dict[str, Any]) -> Any:
        raise Fails("no luck")

    script = """\
try {
  await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});
} catch (e) {
  log(e.message);
}
return 1;
"""
    frames = await record(script, answer=fail)
    async with opened(script, frames) as debugger:
        moment = await debugger.run_to([4])
        assert values(moment) == {"e": {"$type": "error", "name": "AgentError", "message": "no luck"}}
        assert moment.locals[0].scope == "catch"
        assert await debugger.watch(["e.code"]) == {"e.code": "agent_failed"}


async def test_a_computation_that_never_ends_is_a_limit_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PROBE_FACTOR", 1)
    script = "let n = 0;\nawait agent({stepId: 'a', agentRef: 'lead_agent', task: 1});\nfor (;;) n++;\n"
    frames = await record(script)
    assert parse(frames[-1].body)["error"]["code"] == "time_limit"
    async with opened(script, frames) as debugger:
        assert any(note.startswith("Limit here") for note in debugger.notes)
        assert values(await debugger.go_to_frame(2)) == {"n": 0}
        moment = await debugger.go_to_frame(3)
        assert moment.limit is not None
        assert values(await debugger.go_to_statement(40)) == {"n": 36}


async def test_a_run_that_hung_is_examined_where_it_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PROBE_FACTOR", 1)
    script = "const a = await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});\nlet i = 0;\nfor (;;);\n"
    frames = await record(script)
    assert parse(frames[-1].body)["error"]["code"] == "time_limit"
    async with opened(script, frames) as debugger:
        assert debugger.statements == 3
        moment = await debugger.go_to_frame(3)
        assert moment.limit is not None
        assert where(moment) == ("end", 3, 3, 3)
        assert values(moment)["i"] == 0 and moment.pending == ()
        assert await debugger.watch(["a.output", "++i"]) == {"a.output": 1, "++i": 1}
        assert await debugger.afresh() == moment
        assert (await debugger.history("i"))[-1] == (3, 0)
        assert where(await debugger.step_back()) == ("statement", 2, 3, 3)


async def test_a_run_that_hung_is_told_by_frames_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PROBE_FACTOR", 1)
    script = "await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});\nfor (;;) { async: for (;;) break async; }\n"
    frames = await record(script)
    debugger = await Debugger.open(script, frames)
    try:
        debugger._frames_only("By frames.")
        debugger._limit_at = None
        await debugger._renew()
        moment = await debugger.go_to_frame(3)
        assert moment.limit is not None and moment.line is None
        assert (await debugger.watch(["1"]))["1"]["name"] == "Limit"
    finally:
        await debugger.close()


async def test_a_statement_that_hangs_is_found_however_many_ran_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "PROBE_FACTOR", 1)
    script = "let n = 0;\nwhile (n < 5_300) n++;\n/(a*)*$/.test('a'.repeat(40) + 'b');\nreturn n;\n"
    async with opened(script, await record(script)) as debugger:
        assert where(await debugger.go_to_frame(1)) == ("end", 1, 5_303, 3)
        assert debugger.at.limit is not None and values(debugger.at) == {"n": 5_300}


async def test_an_answer_to_a_call_that_was_not_made_is_found_at_its_frame() -> None:
    frames = await record(ROUNDS)
    parts = [(frame.kind, frame.body, frame.side) for frame in frames]
    surplus = chained([*parts[:3], parts[2], *parts[3:]])
    other = rechained(frames, {2: frames[2].body.replace(b'"id":1', b'"id":2')})
    for changed, number in ((surplus, 3), (other, 2)):
        verdict = await verify(ROUNDS, changed)
        assert verdict.divergence is not None and verdict.divergence.frame == number
        found = await explain(ROUNDS, changed, verdict.divergence)
        assert found.line == 4
        async with opened(ROUNDS, changed, plain=verdict.divergence) as debugger:
            assert not debugger.notes and debugger.statements > 0
            for each in range(len(changed)):
                moment = await debugger.go_to_frame(each)
                assert (moment.diverged is not None) == (each >= number)
                assert moment.frame == min(each, number) and moment.line is not None


async def test_a_script_that_ends_before_the_record_does_has_places_of_its_own() -> None:
    frames = await record(ROUNDS)
    script = "let early = 1;\nreturn early;\n"
    verdict = await verify(script, frames, edited=True)
    assert verdict.divergence is not None and verdict.divergence.frame == 1
    assert verdict.divergence.line is None  # what was recorded is at 4:19, which is no place here
    assert (await explain(script, frames, verdict.divergence)).line == 2
    async with opened(script, frames, plain=verdict.divergence) as debugger:
        moment = await debugger.go_to_frame(3)
        assert where(moment) == ("end", 1, 2, 2)
        assert moment.diverged is not None and values(moment) == {"early": 1}
        assert await debugger.watch(["early", "args"]) == {"early": 1, "args": {}}
        assert await debugger.history("early") == [(0, UNASSIGNED), (1, 1)]


async def test_altered_frames_are_reported_and_not_followed() -> None:
    frames = await record(ROUNDS)
    body = frames[2].body.replace(b'"output":{"n":1}', b'"output":{"n":9}')
    assert (await verify(ROUNDS, rechained(frames, {2: body}))).verdict == "diverged"
    async with opened(ROUNDS, rechained(frames, {2: body})) as debugger:
        assert debugger.diverged is not None and debugger.diverged.frame == 5


@pytest.mark.parametrize(
    "expression", ["[...it]", "o + 1", "`${o}`", "-o", "o == 1", "keys[o]", "o in keys", "it instanceof Odd", "({[o]: 1})"],
)  # fmt: skip
async def test_an_expression_that_runs_code_of_the_script_spoils_only_its_worker(expression: str) -> None:
    script = """\
const hit = {n: 0};
const o = {valueOf() { return ++hit.n; }, toString() { return `k${++hit.n}`; }};
const keys = {};
class Odd { static [Symbol.hasInstance]() { return ++hit.n > 0; } }
const it = (function* () { for (;;) { hit.n++; if (hit.n > 3) return; yield hit.n; } })();
const a = await agent({stepId: 'a', agentRef: 'lead_agent', task: hit.n});
let runs = 0;
for (const each of it) runs++;
return {runs, n: hit.n};
"""
    frames = await record(script)
    async with opened(script, frames) as debugger:
        await debugger.go_to_frame(2)
        await debugger.watch([expression])
        assert values(await debugger.go_to_frame(3))["runs"] == 3
        assert await debugger.watch(["hit.n"]) == {"hit.n": 4}
        history = await debugger.history("o + 1")
        assert [value for number, value in history if number in (1, 2, 3)] == [2, 2, 6]


@pytest.mark.parametrize(
    ("expression", "pure", "plain"),
    [
        ("a", True, True), ("a.b[0]?.c", True, True), ("a['b']", True, True), ("[a, -1, {c, d: 1}]", True, True),
        ("typeof a === 'x' && !b", True, True), ("a ?? b", True, True), ("a ? b : `c`", True, True),
        ("/x/.source", True, True), ("(a, b)", True, True), ("`${a}-${b}`", False, True), ("[...b]", False, True),
        ("({...a})", False, True), ("a[b]", False, True), ("a + 1", False, True), ("a == 1", False, True),
        ("a < 1", False, True), ("-a", False, True), ("a in b", False, True), ("({[a]: 1})", False, True),
        ("f()", False, False), ("a = 1", False, False), ("a++", False, False), ("new A", False, False),
        ("delete a.b", False, False), ("await x", False, False), ("tag`x`", False, False), ("a; b", False, False),
        ("(", False, False), ("x => 1", False, False), ("a += 1", False, False), ("", False, False),
    ],
)  # fmt: skip
def test_which_expressions_cannot_run_code_of_the_script(expression: str, pure: bool, plain: bool) -> None:
    assert (is_pure(expression), is_plain(expression)) == (pure, plain)


@pytest.mark.parametrize(
    ("expression", "read"), [("a", True), ("{a: 1}", True), ("a; b", True), ("", False), (" ", False), ("a +", False)]
)  # fmt: skip
def test_what_is_no_javascript_is_told_apart(expression: str, read: bool) -> None:
    assert can_be_read(expression) is read


@pytest.mark.parametrize(
    "script",
    ["x = {get a() {}}", "new Proxy({}, {})", "Object.defineProperty(x, 'a', {})", "Object['def' + 'ine']"],
)
def test_members_may_run_code_where_the_script_could_have_getters(script: str) -> None:
    assert is_pure("o.a") and not is_pure("o.a", script) and not is_pure("o['a']", script)
    assert is_pure("o", script)


SENSITIVE = """\
function* three() { yield 1; yield 2; yield 3; }
const it = three();
const o = {n: 0, valueOf() { return ++this.n; }, get next() { return ++this.n; }};
const sum = [it.next().value];
for (const each of it) sum.push(each);
const r = await agent({stepId: 'a', agentRef: 'lead_agent', task: {n: o.n, sum}});
return {sum, n: o.n};
"""


async def test_what_one_watch_changes_does_not_show_in_another() -> None:
    async with opened(SENSITIVE) as debugger:
        here = await debugger.run_to([5])
        wanted = {"o.next": 1, "o.n": 0, "o.n++": 0, "[...it]": [2, 3], "sum.push(9)": 2, "sum.length": 1}
        assert await debugger.watches(list(wanted)) == wanted
        assert await debugger.watches(list(reversed(wanted))) == wanted, "whatever their order"
        assert debugger.at == here and here.kind == "breakpoint"
        assert await debugger.watch(["o.n = 7", "o.n"]) == {"o.n = 7": 7, "o.n": 7}, "in a console it does"
        assert await debugger.watches(["o.n"]) == {"o.n": 0}
        assert values(await debugger.go_to_frame(1))["o"]["n"] == 0


async def test_members_are_looked_at_together_though_the_script_has_getters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fresh worker for each of them would make every move slow."""
    looks: list[list[str]] = []
    look = ProbedWorker.look

    async def noted(self: ProbedWorker, expressions: Sequence[str], **more: Any) -> list[Any]:
        looks.append(list(expressions))
        return await look(self, expressions, **more)

    async with opened(SENSITIVE) as debugger:
        await debugger.run_to([5])
        monkeypatch.setattr(ProbedWorker, "look", noted)
        assert await debugger.watches(["o.n", "sum.length", "sum[0]"]) == {
            "o.n": 0,
            "sum.length": 1,
            "sum[0]": 1,
        }
        assert looks == [["o.n", "sum.length", "sum[0]"]]


@pytest.mark.parametrize(
    ("watch", "shown"), [("[...it]", [2, 3]), ("o + 1", 2), ("`${o}`", "[object Object]"), ("o.next", 1)]
)
async def test_a_watch_that_runs_the_scripts_code_does_not_change_what_follows(
    watch: str, shown: Any
) -> None:
    async with opened(SENSITIVE) as debugger:
        assert (await debugger.run_to([5])).line == 5
        assert await debugger.watch([watch]) == {watch: shown}
        moment = await debugger.go_to_frame(1)
        found = values(moment)
        assert (found["sum"], found["o"]["n"]) == ([1, 2, 3], 0)
        # Each frame is looked at in a worker of its own: nothing adds up.
        assert [value for number, value in await debugger.history("o.next") if number > 0] == [1, 1, 1]
