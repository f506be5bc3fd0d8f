"""For tests that ``workbench export-test`` writes: a journal from plain values, and a run of a script on stubs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from .. import jsontext
from ..limits import FRAME_BYTES
from ..script.source import script_hash
from ..worker.process import Worker, WorkerDied
from .driving import batches, key_of
from .frames import Frame, FrameKind, JournalWriter, Side, pack_results
from .verify import read_start


def frames_of(frames: Sequence[Sequence[Any]], script: str) -> list[Frame]:
    """A journal from (kind, body, positions) triples, chained; its start names ``script``."""
    writer = JournalWriter()
    made: list[Frame] = []
    for kind, body, positions in frames:
        if kind == FrameKind.START.value:
            body = {**body, "script_hash": script_hash(script)}
        places = tuple(None if place is None else (place[0], place[1]) for place in positions)
        made.append(writer.frame(FrameKind(kind), jsontext.encode(body), len(made), Side(positions=places)))
    return made


async def on_stubs(
    script: str, frames: Sequence[Frame], stubs: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Run ``script`` with Agents that answer from ``stubs``, all others as recorded; returns how it ended.

    Answers come in the recorded batches. A recorded call that had no answer gets none; a call that is not in the
    record gets its answer at once. Outside Agent calls (pauses, checkpoints, captures) the recorded answer is given,
    by step id. None where the script waits for something that nothing answers, where the worker dies, and where all
    recorded answers are given and the record ends there, other than by the script.
    """
    start = read_start(frames)
    record = _Record(frames)
    worker = await Worker.start(script=script, args=start.args_json, limits=start.limits, replay=True)
    waiting: list[dict[str, Any]] = []
    try:
        turn = await worker.first_turn()
        while not record.over and turn.end is None:
            waiting += [call for request in turn.requests for call in request.calls if "id" in call]
            chosen = record.choose(waiting)
            waiting = [call for call in waiting if call not in chosen]
            results = [
                result for call in chosen if (result := _answer(call, stubs, record.results)) is not None
            ]
            if not results:
                return None
            turn = await worker.give(pack_results([jsontext.encode(one) for one in results], FRAME_BYTES))
        if turn.end is None or record.over:
            return None
        found: dict[str, Any] = jsontext.parse(turn.end.body, "the end")
        return found
    except WorkerDied:
        return None
    finally:
        await worker.close()


class _Record:
    """What is recorded of each step, by step id: its result and the batch in which it came."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        steps: dict[int, str] = {}
        self.results: dict[str, dict[str, Any]] = {}
        for frame in frames:
            body = jsontext.parse(frame.body, f"frame {frame.number}")
            steps |= {call["id"]: _step(call) for call in body.get("calls", ()) if "id" in call}
            self.results |= {steps[result["id"]]: result for result in body.get("results", ())}
        self._asked = frozenset(steps.values())
        answered = batches(frames).answered
        #: The batch of every answer that is not given yet.
        self._left = {steps[call]: batch for call, batch in answered.items()}
        last = frames[-1]
        ended = last.kind is FrameKind.END and jsontext.parse(last.body, "the end").get("by") == "script"
        self._open = not ended

    @property
    def over(self) -> bool:
        """Whether the record says nothing more of the run."""
        return self._open and not self._left

    def choose(self, waiting: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The calls that are answered next: those that nothing was recorded of, else the earliest batch."""
        strangers = [call for call in waiting if _step(call) not in self._asked]
        known = [call for call in waiting if _step(call) in self._left]
        if strangers or not known:
            return strangers
        first = min(self._left[_step(call)] for call in known)
        places = {step: place for place, step in enumerate(self._left)}  # in the order of the record
        chosen = [call for call in known if self._left[_step(call)] == first]
        chosen.sort(key=lambda call: places[_step(call)])
        for call in chosen:
            del self._left[_step(call)]
        return chosen


def _step(call: Mapping[str, Any]) -> str:
    """What a call is found by: its step id, else all that it asks."""
    return str(call["step_id"]) if "step_id" in call else key_of(dict(call)).decode("utf-8")


def _answer(
    call: Mapping[str, Any], stubs: Sequence[Mapping[str, Any]], recorded: Mapping[str, dict[str, Any]]
) -> dict[str, Any] | None:
    """The result of a call: from its stub where it is an Agent's, else as recorded, or None."""
    step = _step(call)
    known = recorded.get(step)
    if call["op"] != "agent":
        return None if known is None else {**known, "id": call["id"]}
    for stub in stubs:
        if fnmatchcase(call["agent_ref"], stub.get("agent", "*")) and fnmatchcase(
            step, stub.get("step", "*")
        ):
            if "fail" in stub:
                error = {"code": "agent_failed", "name": "AgentError"}
                if known is not None and not known["ok"]:
                    error = known["error"]
                error = {**error, "code": stub.get("code", error["code"]), "message": stub["fail"]}
                return {"error": error, "id": call["id"], "ok": False}
            value = {**known["value"]} if known is not None and known["ok"] else _value(step)
            return {"id": call["id"], "ok": True, "value": {**value, "output": stub["reply"]}}
    return {"id": call["id"], "ok": True, "value": {**_value(step), "output": call["task"]}}


def _value(step: str) -> dict[str, Any]:
    version = jsontext.sha256(step.encode("utf-8"))
    return {
        "artifactVersion": version,
        "runId": "stub",
        "status": "success",
        "threadId": f"stub_{version[:8]}",
    }
