"""Running a recorded script on its recorded results, in another order than they came.

A result belongs to its call, not to its place: it is found again by the call itself (step id and everything that it
asks), so that a call that asks something else is never given it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from .. import jsontext
from ..limits import Limits
from ..worker.process import Turn, Worker, WorkerDied
from .frames import Frame, FrameKind
from .replay import Expand, expanded

#: Which of the answerable outstanding calls is answered next, by its id.
Choose = Callable[[Sequence[int]], int]


class Recorded(msgspec.Struct, frozen=True):
    """One recorded call. ``before`` holds the ids of the calls that had been answered when it was asked."""

    call: dict[str, Any]
    result: dict[str, Any] | None
    before: frozenset[int]
    frame: int

    @property
    def id(self) -> int:
        return int(self.call["id"])

    @property
    def label(self) -> str:
        return str(self.call.get("step_id", self.call["op"]))


def recorded_calls(frames: Sequence[Frame]) -> list[Recorded]:
    """The calls of a journal that get an answer, in the order in which they were made."""
    results: dict[int, dict[str, Any]] = {}
    made: list[tuple[dict[str, Any], frozenset[int], int]] = []
    for frame in frames:
        body = jsontext.parse(frame.body, f"frame {frame.number}")
        if frame.kind is FrameKind.REQUEST:
            answered = frozenset(results)
            made += [(call, answered, frame.number) for call in body["calls"] if "id" in call]
        elif frame.kind is FrameKind.RESPONSE:
            results |= {result["id"]: result for result in body["results"]}
    return [Recorded(call, results.get(call["id"]), before, frame) for call, before, frame in made]


class Batches(msgspec.Struct, frozen=True):
    """``answered`` is the batch (from 1) of each answered call, ``asked`` the number of batches before each call."""

    answered: dict[int, int]
    asked: dict[int, int]


def batches(frames: Sequence[Frame]) -> Batches:
    """Which answers were delivered together. A batch too large for one frame has several."""
    found = Batches({}, {})
    batch = 0
    goes_on = False
    for frame in frames:
        body = jsontext.parse(frame.body, f"frame {frame.number}")
        if frame.kind is FrameKind.RESPONSE:
            batch += 0 if goes_on else 1
            goes_on = bool(body.get("more"))
            found.answered.update({result["id"]: batch for result in body["results"]})
        elif frame.kind is FrameKind.REQUEST:
            found.asked.update({call["id"]: batch for call in body["calls"] if "id" in call})
    return found


def key_of(call: dict[str, Any]) -> bytes:
    """What a call is known by: everything in it but its number."""
    return jsontext.encode({name: value for name, value in call.items() if name != "id"})


class Driven(msgspec.Struct):
    """What came of a run. ``calls`` are all calls with an answer, in order; ``end`` is the body of the end, parsed,
    or None where the script got no further. ``strangers`` are calls that nothing recorded answers, ``died`` says
    why the worker did not survive.
    """

    calls: list[dict[str, Any]]
    logs: list[str]
    end: dict[str, Any] | None = None
    strangers: list[dict[str, Any]] = []
    died: str | None = None
    order: list[str] = []


async def drive(
    script: str,
    args: bytes,
    recorded: Sequence[Recorded],
    choose: Choose,
    *,
    limits: Limits,
    expand: Expand | None = None,
) -> Driven:
    """Run ``script``, answering one call at a time with its recorded result in the order that ``choose`` wants.

    ``choose`` gets the recorded ids of the outstanding calls that have one. Raises ScriptRefused where the script
    does not compile.
    """
    answers = {key_of(one.call): one for one in recorded if one.result is not None}
    driven = Driven([], [])
    worker = await Worker.start(script=script, args=args, limits=limits, replay=True)
    outstanding: dict[int, dict[str, Any]] = {}  # recorded id → the call as it is asked now
    try:
        turn = await worker.first_turn()
        while True:
            _take(turn, driven, answers, outstanding)
            if turn.end is not None or not outstanding:
                break
            chosen = choose(tuple(outstanding))
            call = outstanding.pop(chosen)
            one = answers[key_of(call)]
            assert one.result is not None
            driven.order.append(one.label)
            body = jsontext.encode({"results": [{**one.result, "id": call["id"]}]})
            turn = await worker.give(expanded([body], expand))
    except WorkerDied as death:
        driven.died = death.message
    finally:
        await worker.close()
    return driven


def _take(
    turn: Turn, driven: Driven, answers: dict[bytes, Recorded], outstanding: dict[int, dict[str, Any]]
) -> None:
    for request in turn.requests:
        for call in request.calls:
            if "id" not in call:
                driven.logs.append(call["message"])
                continue
            driven.calls.append(call)
            one = answers.get(key_of(call))
            if one is None:
                driven.strangers.append(call)
            else:
                outstanding[one.id] = call
    if turn.end is not None:
        driven.end = jsontext.parse(turn.end.body, "the end")
