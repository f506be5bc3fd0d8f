"""Journals made by running a script in a real worker, without an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from workflows_core.journal.frames import Frame, FrameKind, JournalWriter, Side, pack_results, start_body
from workflows_core.jsontext import encode, parse
from workflows_core.limits import FRAME_BYTES, Limits
from workflows_core.script.source import script_hash
from workflows_core.worker.process import Turn, Worker, runtime_signature

Answer = Callable[[dict[str, Any]], Any]
#: Which of the outstanding calls are answered next, as one batch.
Order = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


class Fails(Exception):
    """Raised by an answer: the call is rejected with this text."""


def value_of(output: Any) -> dict[str, Any]:
    return {"artifactVersion": "v", "output": output, "runId": "ar", "status": "success", "threadId": "t"}


def echo(call: dict[str, Any]) -> Any:
    return value_of(call.get("task"))


def result(call: dict[str, Any], answer: Answer) -> dict[str, Any]:
    try:
        return {"id": call["id"], "ok": True, "value": answer(call)}
    except Fails as error:
        message = {"code": "agent_failed", "message": str(error), "name": "AgentError"}
        return {"error": message, "id": call["id"], "ok": False}


def start_frame(writer: JournalWriter, script: str, args: Any, **changes: Any) -> Frame:
    values: dict[str, Any] = {
        "script_hash": script_hash(script),
        "args": args,
        "limits": msgspec.structs.asdict(Limits()),
        "agents": ["lead_agent"],
        "options_hash": "o",
        "runtime_signature": runtime_signature(),
    }
    return writer.frame(FrameKind.START, start_body(**(values | changes)), 1)


async def record(
    script: str,
    args: Any = None,
    *,
    answer: Answer = echo,
    order: Order = list,
    rounds: int = 10_000,
) -> list[Frame]:
    """Run ``script`` to its end, or for ``rounds`` rounds, and return its journal."""
    writer = JournalWriter()
    given = {} if args is None else args
    frames = [start_frame(writer, script, given)]
    worker = await Worker.start(script=script, args=encode(given), limits=Limits())
    try:
        turn = await worker.first_turn()
        waiting: list[dict[str, Any]] = []
        while True:
            frames += requests(writer, turn, len(frames))
            waiting += [call for request in turn.requests for call in request.calls if "id" in call]
            if turn.end is not None:
                side = Side(position=turn.end.position)
                frames.append(writer.frame(FrameKind.END, turn.end.body, len(frames), side))
                return frames
            if rounds == 0:
                return frames
            rounds -= 1
            chosen = order(waiting)
            waiting = [call for call in waiting if call not in chosen]
            bodies = pack_results([encode(result(call, answer)) for call in chosen], FRAME_BYTES)
            at = len(frames)
            frames += [writer.frame(FrameKind.RESPONSE, body, at) for body in bodies]
            turn = await worker.give(bodies)
    finally:
        await worker.close()


def requests(writer: JournalWriter, turn: Turn, at: int) -> list[Frame]:
    return [
        writer.frame(FrameKind.REQUEST, request.body, at, Side(positions=request.positions))
        for request in turn.requests
    ]


def chained(frames: Sequence[tuple[FrameKind, bytes, Side]]) -> list[Frame]:
    """A journal of these bodies with a chain of its own."""
    writer = JournalWriter()
    return [writer.frame(kind, body, index, side) for index, (kind, body, side) in enumerate(frames)]


def rechained(frames: Sequence[Frame], changes: dict[int, bytes]) -> list[Frame]:
    """``frames`` with some bodies replaced and the chain computed anew."""
    return chained([(f.kind, changes.get(f.number, f.body), f.side) for f in frames])


def without(frames: Sequence[Frame], number: int) -> list[Frame]:
    return chained([(f.kind, f.body, f.side) for f in frames if f.number != number])


def end_value(frames: Sequence[Frame]) -> Any:
    return parse(frames[-1].body)["value"]
