"""The run of an exported test ends as the recorded one did, in whatever order its answers came."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workflows_core.journal.recording import Fails, Order, record
from workflows_core.journal.frames import Frame, FrameKind, JournalWriter
from workflows_core.journal.testing import on_stubs
from workflows_core.jsontext import encode, parse
from workflows_core.worker.outcome import WorkerDeath
from workflows_core.worker.process import Worker, WorkerDied

ASK = "const ask = id => agent({stepId: id, agentRef: 'lead_agent', task: id});\n"
SEEN = ASK + (
    "const seen = [];\n"
    "await parallel(['a', 'b', 'c'].map(id => async () => { await ask(id); seen.push(id); }));\n"
    "return seen;\n"
)
RACE = (
    ASK
    + "const both = [ask('a'), ask('b')];\nconst first = await Promise.race(both);\nawait parallel(both.map(one => () => one));\nreturn first.output;\n"
)
MANY = ASK + "await ask('a');\nawait ask('b');\nreturn 1;\n"
STUBS = [{"step": name, "reply": name} for name in "abc"]


def backwards(waiting: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return waiting[-1:]


async def ended(script: str, frames: list[Frame], stubs: list[dict[str, Any]] = STUBS) -> Any:
    return await on_stubs(script, frames, stubs)


async def recorded(script: str, order: Order = list, rounds: int = 100) -> list[Frame]:
    return await record(script, order=order, rounds=rounds)


async def test_answers_come_in_the_recorded_order() -> None:
    frames = await recorded(SEEN, backwards)
    assert parse(frames[-1].body)["value"] == ["c", "b", "a"]
    assert await ended(SEEN, frames) == parse(frames[-1].body)


async def test_answers_that_came_together_are_given_together() -> None:
    frames = await recorded(SEEN, lambda waiting: waiting[1:] or waiting)
    assert await ended(SEEN, frames) == {"by": "script", "ok": True, "value": ["b", "c", "a"]}


@pytest.mark.parametrize("recorded_too", [True, False])
async def test_a_failure_has_the_code_that_its_stub_says(recorded_too: bool) -> None:
    script = ASK + "try { await ask('a'); } catch (e) { return e.code; }\n"

    def fail(call: dict[str, Any]) -> Any:
        raise Fails("no")

    frames = await record(script, answer=fail) if recorded_too else await recorded("return 1;")
    for stub, code in (({"fail": "no"}, "agent_failed"), ({"fail": "no", "code": "gone"}, "gone")):
        found = await ended(script, frames, [stub])
        assert found == {"by": "script", "ok": True, "value": code}


async def test_a_race_is_won_by_the_recorded_winner() -> None:
    frames = await recorded(RACE, backwards)
    assert await ended(RACE, frames) == {"by": "script", "ok": True, "value": "b"}


async def test_a_run_that_the_engine_stopped_is_not_run_on() -> None:
    frames = await recorded(MANY, rounds=1)
    body = encode({"by": "engine", "error": {"code": "max_calls"}, "ok": False})
    writer = JournalWriter()
    cut = [frame for frame in frames if frame.number < 3]  # the call past the limit is not committed
    made = [writer.frame(frame.kind, frame.body, frame.at, frame.side) for frame in cut]
    assert await ended(MANY, [*made, writer.frame(FrameKind.END, body, 9)]) is None


async def test_a_call_without_an_answer_gets_none() -> None:
    frames = await recorded(MANY, rounds=1)
    assert await ended(MANY, frames, []) is None
    both = ASK + "await ask('a');\nreturn await Promise.any([ask('b'), ask('c')]);\n"
    assert await ended(both, await recorded(both, rounds=1)) is None


async def test_a_script_that_ends_earlier_than_the_record_is_told() -> None:
    frames = await recorded(SEEN, backwards, rounds=2)
    assert await ended("return 1;\n", frames) == {"by": "script", "ok": True, "value": 1}


async def test_a_call_that_is_not_in_the_record_is_answered_by_stubs() -> None:
    frames = await recorded(RACE, backwards)
    edited = ASK + "const one = await ask('c');\nreturn [one.output, (await ask('b')).output];\n"
    assert (await ended(edited, frames))["value"] == ["c", "b"]


async def test_a_worker_that_dies_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = await recorded(RACE, backwards)

    async def dies(*_: Any) -> Any:
        raise WorkerDied(WorkerDeath.EXITED, "gone")

    monkeypatch.setattr(Worker, "give", dies)
    assert await ended(RACE, frames) is None
