"""For tests that ``workbench export-test`` writes: a journal from plain values, and a run of a script on stubs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from .. import jsontext
from ..limits import FRAME_BYTES
from ..script.source import script_hash
from ..worker.process import Worker
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

    None where it waits for something that nothing answers. Outside Agent calls (pauses, checkpoints, captures) the
    recorded answer is given, by step id.
    """
    start = read_start(frames)
    recorded = _recorded(frames)
    worker = await Worker.start(script=script, args=start.args_json, limits=start.limits, replay=True)
    try:
        turn = await worker.first_turn()
        while turn.end is None:
            calls = [call for request in turn.requests for call in request.calls if "id" in call]
            results = [result for call in calls if (result := _answer(call, stubs, recorded)) is not None]
            if not results:
                return None
            turn = await worker.give(pack_results([jsontext.encode(one) for one in results], FRAME_BYTES))
        found: dict[str, Any] = jsontext.parse(turn.end.body, "the end")
        return found
    finally:
        await worker.close()


def _recorded(frames: Sequence[Frame]) -> dict[str, dict[str, Any]]:
    """The recorded result of each step by step id."""
    steps: dict[int, str] = {}
    found: dict[str, dict[str, Any]] = {}
    for frame in frames:
        body = jsontext.parse(frame.body, f"frame {frame.number}")
        steps |= {call["id"]: call["step_id"] for call in body.get("calls", ()) if "step_id" in call}
        found |= {steps[result["id"]]: result for result in body.get("results", ()) if result["id"] in steps}
    return found


def _answer(
    call: Mapping[str, Any], stubs: Sequence[Mapping[str, Any]], recorded: Mapping[str, dict[str, Any]]
) -> dict[str, Any] | None:
    step = str(call.get("step_id", ""))
    known = recorded.get(step)
    if call["op"] != "agent":
        return None if known is None else {**known, "id": call["id"]}
    for stub in stubs:
        if fnmatchcase(call["agent_ref"], stub.get("agent", "*")) and fnmatchcase(
            step, stub.get("step", "*")
        ):
            if "fail" in stub:
                error = {"code": "agent_failed", "message": stub["fail"], "name": "AgentError"}
                if known is not None and not known["ok"]:
                    error = {**known["error"], "message": stub["fail"]}
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
