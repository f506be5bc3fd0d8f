"""The two replaying workers from the outside: responses ahead, stops, values, and what must not change with them."""

from __future__ import annotations

import signal

import pytest

from workflows_core.errors import ScriptRefused
from workflows_core.jsontext import sha256
from workflows_core.limits import Limits
from workflows_core.script.instrument import instrument
from workflows_core.worker import launch, process
from workflows_core.worker.ahead import ReplayWorker
from workflows_core.worker.probe import PROBING, Bounds, ProbedWorker
from workflows_core.worker.process import WorkerDied

from .support import echo, response, result, run

SCRIPT = """\
const a = await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});
const b = await agent({stepId: 'b', agentRef: 'lead_agent', task: a.output + 1});
return b.output;
"""


def answer(call_id: int, task: int) -> bytes:
    return response(result(call_id, echo({"task": task})))


async def probed(script: str, *batches: list[bytes]) -> ProbedWorker:
    code = instrument(script)
    return await ProbedWorker.open(
        script=code.script,
        probe=code.probe,
        sites=len(code.sites),
        args=b"{}",
        limits=Limits(),
        batches=batches,
    )


async def test_a_worker_that_cannot_be_given_the_responses_is_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[launch.Spawned] = []

    def remember(first: bytes, program: launch.Program) -> tuple[launch.Spawned, int]:
        made = launch.spawn(first, program)
        started.append(made[0])
        return made

    monkeypatch.setattr(process, "spawn", remember)
    with pytest.raises(ValueError, match="an empty batch"):
        await probed(SCRIPT, [])
    assert [spawned.process.returncode for spawned in started] == [-signal.SIGKILL]


async def test_turns_come_without_being_asked_for() -> None:
    plain = await run(SCRIPT)
    worker = await ReplayWorker.start(script=SCRIPT, args=b"{}", limits=Limits(), replay=True)
    try:
        expected = [(frame.body, frame.positions) for turn in plain.turns for frame in turn.requests]
        worker.run_ahead([[answer(1, 1)], [answer(2, 2)]], expected)
        turns = [await worker.next_turn() for _ in range(3)]
        assert [turn.requests for turn in turns] == [turn.requests for turn in plain.turns]
        assert [turn.outstanding for turn in turns] == [1, 1, 0]
        assert turns[2].end is not None and turns[2].end.value == 2
    finally:
        await worker.close()


async def test_what_was_not_expected_is_read_with_all_checks() -> None:
    worker = await ReplayWorker.start(script=SCRIPT, args=b"{}", limits=Limits(), replay=True)
    try:
        worker.run_ahead([[answer(1, 5)]], [(b'{"calls":[]}', ()), (b"{}", ())])
        first, second = await worker.next_turn(), await worker.next_turn()
        assert first.requests[0].calls[0]["step_id"] == "a"
        assert second.requests[0].calls[0]["task"] == 6
        assert second.requests[0].positions == ((2, 17),)
        assert (await worker.give([answer(2, 6)])).end is not None
    finally:
        await worker.close()


async def test_an_answer_to_nothing_ends_the_worker_after_the_turns_before_it() -> None:
    worker = await ReplayWorker.start(script=SCRIPT, args=b"{}", limits=Limits(), replay=True)
    try:
        worker.run_ahead([[answer(7, 1)], [answer(2, 2)]])
        assert (await worker.next_turn()).requests[0].calls[0]["id"] == 1
        with pytest.raises(WorkerDied):
            await worker.next_turn()
    finally:
        await worker.close()


async def test_batches_are_checked_before_anything_runs() -> None:
    worker = await ReplayWorker.start(script=SCRIPT, args=b"{}", limits=Limits(), replay=True)
    try:
        with pytest.raises(ValueError, match="empty"):
            worker.run_ahead([[]])
        with pytest.raises(ValueError, match="at most"):
            worker.run_ahead([[response(result(1, "x" * 60_000))]])
    finally:
        await worker.close()


async def test_a_probed_worker_stops_where_it_is_told() -> None:
    worker = await probed(SCRIPT, [answer(1, 1)], [answer(2, 2)])
    try:
        stop = await worker.go(call=1)
        assert (stop.stop, stop.statements, stop.queued) == ("call", 2, 1)
        assert await worker.look(["a.output", "b"]) == [1, {"$type": "unassigned"}]
        stop = await worker.go(turns=2)
        assert (stop.stop, stop.queued) == ("idle", 2)
        assert await worker.look(["a.output"], call=2) == [1]
        stop = await worker.go()
        assert (stop.stop, stop.ended) == ("end", True)
        assert len(worker.taken_turns()) == 3
    finally:
        await worker.close()


async def test_what_is_shown_is_bounded() -> None:
    worker = await probed(
        "const list = Array.from({length: 50}, () => ({deep: {deeper: 'x'.repeat(50)}}));\nreturn 1;"
    )
    try:
        await worker.go(statement=52)
        (value,) = await worker.look(["list"], bounds=Bounds(depth=2, keys=3, text=5, budget=10_000))
        assert value[3] == {"$type": "more", "count": 47}
        assert value[0] == {"deep": {"$type": "more"}}
        (value,) = await worker.look(["list"], bounds=Bounds(budget=200))
        assert len(str(value)) < 1_000
    finally:
        await worker.close()


async def test_the_console_cannot_ask_agents() -> None:
    worker = await probed(SCRIPT)
    try:
        await worker.go(statement=1)
        (value,) = await worker.look(
            ["agent({stepId: 'x', agentRef: 'lead_agent', task: 1}).catch((e) => globalThis.said = e.code)"]
        )
        assert value["$type"] == "promise"
        stop = await worker.go(turns=1)
        assert stop.queued == 1
        assert await worker.look(["said"]) == ["console"]
        (turn,) = worker.taken_turns()
        assert [call["step_id"] for call in turn.requests[0].calls] == ["a"]
    finally:
        await worker.close()


async def test_a_script_without_probes_runs_too_and_a_bad_one_is_refused() -> None:
    worker = await ProbedWorker.open(
        script=SCRIPT,
        probe="",
        sites=0,
        args=b"{}",
        limits=Limits(),
        batches=[[answer(1, 1)], [answer(2, 2)]],
    )
    try:
        assert (await worker.go(call=1)).stop == "call"
        assert (await worker.go()).stop == "end"
    finally:
        await worker.close()
    with pytest.raises(ScriptRefused):
        await ProbedWorker.open(
            script="return (;", probe="", sites=0, args=b"{}", limits=Limits(), batches=[]
        )


def test_looking_on_is_not_part_of_the_runtime_signature() -> None:
    looking = set(PROBING.child + PROBING.prelude) - set(launch.PLAIN.child + launch.PLAIN.prelude)
    assert looking == {"ahead_child.py", "probe_child.py", "probe.js"}
    assert not looking & {*launch.CHILD_PARTS, *launch.PRELUDE_PARTS}
    assert sha256(launch.prelude()) != sha256(launch.prelude(PROBING))


async def test_a_probed_script_cannot_reach_the_way_out() -> None:
    names = "return Object.getOwnPropertyNames(globalThis).filter((name) => name.includes('wait')).length;"
    worker = await probed(names)
    try:
        await worker.go()
        (turn,) = worker.taken_turns()
        assert turn.end is not None and turn.end.value == 0
    finally:
        await worker.close()
