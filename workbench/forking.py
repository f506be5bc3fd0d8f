"""What if: a new run from a recorded one, with another answer or another script.

Recorded answers are pinned by step id and the hash of the request, never by position: a call that asks exactly
what was recorded gets the recorded answer, any other is answered by the stub set that the parent ran on, by one that
is given, or by real Agents. The new run names its parent and inherits no approval: pauses and checkpoints wait again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from extension_api.hashing import canonical_hash
from workflows_core import jsontext
from workflows_core.engine.requests import LaunchRequest
from workflows_core.errors import UsageError
from workflows_core.journal.bundle import Bundle
from workflows_core.journal.driving import Recorded, batches
from workflows_core.journal.frames import Frame, FrameKind, JournalWriter
from workflows_core.journal.verify import Verdict, verify
from workflows_core.limits import OUTPUT_BYTES
from workflows_core.model import new_id

from .agents.stubset import StubSet, request_hash
from .recordings import child_input, recorded, stub_entries

_NOTHING = object()


class Fork(msgspec.Struct, frozen=True):
    """A fork that is ready to launch. ``verdict`` says where it first differs from its parent, if it does."""

    request: LaunchRequest
    script: str
    verdict: Verdict
    notes: tuple[str, ...]


async def prepare_fork(
    bundle: Bundle,
    *,
    script: str | None = None,
    at: int | None = None,
    step: str | None = None,
    reply: Any = _NOTHING,
    stubs: Sequence[Mapping[str, Any]] | None = None,
    real: bool = False,
    request_id: str | None = None,
) -> Fork:
    """The launch of a fork: ``reply`` replaces the output of the Agent call that frame ``at`` answers or asks for
    (``step`` names which, where it is several), ``script`` the script, ``stubs`` the parent's stub set. With
    ``real`` real Agents answer what was not recorded, instead of a stub set.

    Raises UsageError where the frame has no such answer, or the run has no values.
    """
    if real and stubs is not None:
        raise UsageError(
            "what was not recorded is answered by stubs or by real Agents; leave one of the two out"
        )
    calls = recorded(bundle)
    frames: Sequence[Frame] = bundle.frames
    edited: Recorded | None = None
    if reply is not _NOTHING:
        if at is None:
            raise UsageError("name the frame whose answer is replaced: --at FRAME")
        size = jsontext.size(reply, "the reply")
        if size > OUTPUT_BYTES:
            raise UsageError(
                f"the reply takes {size:,} bytes; an Agent's output takes at most {OUTPUT_BYTES:,}"
            )
        edited = _answer_at(bundle, calls, at, step)
        frames = _with_reply(frames, edited, reply)
    elif at is not None or step is not None:
        raise UsageError("a frame is named, and nothing to put there: add --reply @FILE")
    text = bundle.script if script is None else script
    entries, notes = stub_entries(bundle, pinned=True)
    entries = in_turns(entries, calls, bundle.frames)
    if edited is not None:
        entries = [_edited(entry, edited, reply) for entry in entries]
    rest: Sequence[Mapping[str, Any]] = ()
    if not real:
        rest = stubs if stubs is not None else _parent_stubs(bundle, notes)
    # The turns of an earlier fork are no turns of this one.
    others = ({key: value for key, value in entry.items() if key != "turn"} for entry in rest)
    whole = [*entries, *others]
    options = {
        "agents": "real" if real else "stub",
        "stubs": whole,
        "stubs_hash": canonical_hash(whole),
        "label": f"recorded in {bundle.run_id}" + (", then real Agents" if real else ""),
    }
    request = LaunchRequest(
        script=text,
        args=bundle.args,
        name=bundle.record.name,
        request_id=request_id if request_id is not None else new_id("req"),
        options=options,
        parent_run_id=bundle.run_id,
    )
    verdict = await verify(text, frames, expand=bundle.expand, edited=True)
    return Fork(request, text, verdict, tuple(notes))


def in_turns(
    entries: Sequence[dict[str, Any]], calls: Sequence[Recorded], frames: Sequence[Frame]
) -> list[dict[str, Any]]:
    """``entries`` with the batch in which each was answered, where any answer came later than it could have.

    ``entries`` are those of the answered Agent calls in ``calls``, in order. Where every answer came in the first
    batch after its call, giving each at once keeps the order.
    """
    found = batches(frames)
    answered = [one.id for one in calls if one.call["op"] == "agent" and one.result is not None]
    if all(found.answered[call] == found.asked[call] + 1 for call in answered):
        return list(entries)
    return [{**entry, "turn": found.answered[call]} for call, entry in zip(answered, entries, strict=True)]


def _parent_stubs(bundle: Bundle, notes: list[str]) -> Sequence[Mapping[str, Any]]:
    """The stub set that the parent ran on. Raises UsageError where it is none: a bundle may hold anything there."""
    options = bundle.read_options()
    agents = options.get("agents")
    if agents != "stub":
        asked = "asked real Agents" if agents == "real" else "has no launch options that are known here"
        notes.append(
            f"The parent {asked}: a call that was not recorded gets its own task back, unless a stub set answers it."
        )
        return ()
    found = options.get("stubs", [])
    try:
        if not isinstance(found, list | tuple):
            raise UsageError("it is not a list of entries")
        StubSet(found)
    except UsageError as error:
        raise UsageError(
            f"the stub set that this run ran on cannot be used: {error}. Give another one with --stubs",
            code="stub_set",
        ) from None
    return found


def _answer_at(bundle: Bundle, calls: Sequence[Recorded], at: int, step: str | None) -> Recorded:
    """The answered Agent call that a frame answers, or asks for."""
    if not 0 <= at < len(bundle.frames):
        raise UsageError(f"there is no frame {at}; the run has frames 0 to {len(bundle.frames) - 1}")
    frame = bundle.frames[at]
    body = jsontext.parse(frame.body, f"frame {at}")
    ids = {entry.get("id") for entry in (*body.get("results", ()), *body.get("calls", ()))}
    found = [one for one in calls if one.id in ids and one.call["op"] == "agent" and one.result is not None]
    if step is not None:
        found = [one for one in found if one.label == step]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"frame {at} has no recorded answer of an Agent{f' for {step}' if step else ''}")
    names = ", ".join(one.label for one in found)
    raise UsageError(f"frame {at} has the answers of {names}; name one with --step")


def _with_reply(frames: Sequence[Frame], edited: Recorded, reply: Any) -> list[Frame]:
    """The journal with another output for one call, chained anew."""
    writer = JournalWriter()
    made: list[Frame] = []
    for frame in frames:
        body = frame.body
        if frame.kind is FrameKind.RESPONSE:
            parsed = jsontext.parse(body, f"frame {frame.number}")
            if any(result["id"] == edited.id for result in parsed["results"]):
                results = [
                    _replied(result, reply) if result["id"] == edited.id else result
                    for result in parsed["results"]
                ]
                body = jsontext.encode({**parsed, "results": results}, "the reply")
        made.append(writer.frame(frame.kind, body, frame.at, frame.side))
    return made


def _replied(result: Mapping[str, Any], reply: Any) -> dict[str, Any]:
    value = result.get("value") if result["ok"] else {"status": "success"}
    return {"id": result["id"], "ok": True, "value": {**(value or {}), "output": reply}}


def _edited(entry: dict[str, Any], edited: Recorded, reply: Any) -> dict[str, Any]:
    call = edited.call
    if (
        entry.get("request") != request_hash(str(call["agent_ref"]), child_input(call))
        or entry["step"] != edited.label
    ):
        return entry
    kept = {key: value for key, value in entry.items() if key not in ("fail", "code", "reply")}
    return {**kept, "reply": reply}
