"""Verify a recorded run offline: is it a journal of ours, and does its script still ask exactly that?

The answer is one of four words. ``complete``: the script, run again, asked and ended as recorded. ``ends_early``:
it agreed as far as the journal goes, or as far as the limits of this machine let it. ``diverged``: it asked
something else. ``incompatible``: this cannot be read as a journal of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from .. import jsontext
from ..errors import NotFound, ScriptRefused, UsageError
from ..limits import FRAME_BYTES, SETTABLE, Limits, recorded_limits
from ..script.source import script_hash
from ..worker.ahead import ReplayWorker
from ..worker.process import Worker, WorkerDeath, WorkerDied, runtime_signature
from .bundle import Bundle
from .frames import Frame, FrameKind, JournalBroken, verify_chain
from .redact import check_redacted
from .replay import Diverged, Divergence, Ending, Expand, ReplayEnd, Replayer, differences

#: The engine's own words for a worker that a limit ended.
_DEATHS = frozenset({WorkerDeath.CPU_LIMIT.value, WorkerDeath.TURN_LIMIT.value, "worker_died"})


class Verdict(msgspec.Struct, frozen=True):
    """What a replay came to. ``frames`` counts those of the journal; ``notes`` are sentences for people."""

    verdict: str
    frames: int
    notes: tuple[str, ...] = ()
    divergence: Divergence | None = None

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the journal."""
        return self.verdict in ("complete", "ends_early")


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """The JSON document of ``replay --headless``."""
    found = verdict.divergence
    return {
        "verdict": verdict.verdict,
        "frames": verdict.frames,
        "notes": list(verdict.notes),
        "divergence": None
        if found is None
        else {
            "frame": found.frame,
            "agreed": found.agreed,
            "line": found.line,
            "column": found.column,
            "recorded": found.recorded,
            "now": found.now,
            "differences": [msgspec.structs.asdict(difference) for difference in found.differences],
            "locals": found.locals,
        },
    }


class Start(msgspec.Struct, frozen=True):
    """Frame 0, checked."""

    script_hash: str
    args: Mapping[str, Any]
    limits: Limits
    runtime_signature: str
    #: Sentences on what this version does not know, or does not take over.
    notes: tuple[str, ...] = ()

    @property
    def args_json(self) -> bytes:
        return jsontext.encode(dict(self.args), "args")


def read_start(frames: Sequence[Frame]) -> Start:
    """What frame 0 says. Raises JournalBroken where there is none, or where a part is missing or of another kind."""
    if not frames:
        raise JournalBroken(0, "the journal is empty: not even its start frame is there")
    body = _parsed(frames[0])
    wanted = ("script_hash", str), ("args", dict), ("limits", dict), ("runtime_signature", str)
    for key, kind in wanted:
        if not isinstance(body.get(key), kind):
            raise JournalBroken(0, f"frame 0 is not a start frame: its {key} is missing or of another kind")
    agents = body.get("agents", [])
    if not isinstance(agents, list) or not all(isinstance(agent, str) for agent in agents):
        raise JournalBroken(0, "frame 0 is not a start frame: its agents are no list of names")
    limits, notes = _limits(body["limits"])
    return Start(body["script_hash"], body["args"], limits, body["runtime_signature"], notes)


def _limits(given: Mapping[str, Any]) -> tuple[Limits, tuple[str, ...]]:
    """The limits of a recorded run as far as this version knows them, and notes on those that it does not take over.

    The rest keep their defaults. Raises JournalBroken for a limit that is not a whole number.
    """
    for key, value in given.items():
        if key in SETTABLE and type(value) is not int:
            raise JournalBroken(0, f"frame 0 is not a start frame: its limit {key} is not a whole number")
    limits, left = recorded_limits(given)
    if not left:
        return limits, ()
    names = ", ".join(key[:40] for key in left[:5])
    return limits, (f"Frame 0 has limits that this version does not take over: {names}.",)


def check_journal(frames: Sequence[Frame]) -> None:
    """Raise JournalBroken at the first frame that breaks the chain or is not a body of its kind."""
    verify_chain(frames)
    read_start(frames)
    for frame in frames[1:]:
        if len(frame.body) > FRAME_BYTES:
            raise JournalBroken(frame.number, f"frame {frame.number} is larger than a frame can be")
        body = _parsed(frame)
        if not _is_body(frame.kind, body):
            raise JournalBroken(
                frame.number, f"frame {frame.number} has no body of a {frame.kind.value} frame"
            )


def _parsed(frame: Frame) -> dict[str, Any]:
    try:
        body = jsontext.parse(frame.body, f"frame {frame.number}")
    except jsontext.JsonRefused as error:
        raise JournalBroken(frame.number, str(error)) from None
    if not isinstance(body, dict):
        raise JournalBroken(frame.number, f"frame {frame.number} is not a JSON object")
    return body


def _is_body(kind: FrameKind, body: Mapping[str, Any]) -> bool:
    if body.get("more", True) is not True:
        return False
    if kind is FrameKind.REQUEST:
        calls = body.get("calls")
        return (
            isinstance(calls, list)
            and bool(calls)
            and all(isinstance(call, dict) and isinstance(call.get("op"), str) for call in calls)
            and all(type(call.get("id", 1)) is int for call in calls)
        )
    if kind is FrameKind.RESPONSE:
        results = body.get("results")
        return isinstance(results, list) and bool(results) and all(map(_is_result, results))
    return body.get("by") in ("script", "engine") and isinstance(body.get("ok"), bool) and _has_error(body)


def _is_result(result: Any) -> bool:
    if not isinstance(result, dict) or type(result.get("id")) is not int:
        return False
    if result.get("ok") is True:
        return "value" in result or isinstance(result.get("artifact"), dict)
    return result.get("ok") is False and _has_error(result)


def _has_error(body: Mapping[str, Any]) -> bool:
    if body["ok"]:
        return True
    error = body.get("error")
    return isinstance(error, dict) and all(isinstance(part, str) for part in error.values())


async def verify(
    script: str,
    frames: Sequence[Frame],
    limits: Limits | None = None,
    *,
    expand: Expand | None = None,
    edited: bool = False,
) -> Verdict:
    """Check the journal and run ``script`` against it in a worker of its own; never raises for what it finds.

    ``limits`` default to the recorded ones. ``edited`` says that the script is meant to differ from the one
    that was recorded; otherwise another text is ``incompatible``.
    """
    try:
        check_journal(frames)
        start = read_start(frames)
    except JournalBroken as error:
        return Verdict("incompatible", len(frames), (f"{error}.",))
    notes = list(start.notes)
    if start.runtime_signature != runtime_signature():
        notes.append(
            "It was recorded by another version of the worker or its engine; replay still runs, recovery refuses."
        )
    try:
        if script_hash(script) != start.script_hash and not edited:
            notes.append("The script is not the one whose hash frame 0 holds.")
            return Verdict("incompatible", len(frames), tuple(notes))
        end, replayer = await _replayed(ReplayWorker, script, start, limits, frames, expand)
        if end is None:  # how far it came before its worker died, only a plain one tells
            end, replayer = await _replayed(Worker, script, start, limits, frames, expand)
    except ScriptRefused as error:
        return _refused(error, frames, notes)
    except Diverged as found:
        return Verdict("diverged", len(frames), tuple(notes), found.divergence)
    except NotFound as error:
        notes.append(f"{str(error)[:1].upper()}{str(error)[1:]}.")
        return Verdict("incompatible", len(frames), tuple(notes))
    if isinstance(end, WorkerDied):
        return _died(end, replayer, frames, notes)
    assert end is not None
    return Verdict(_word(end, notes), len(frames), tuple(notes))


async def _replayed(
    kind: type[Worker],
    script: str,
    start: Start,
    limits: Limits | None,
    frames: Sequence[Frame],
    expand: Expand | None,
) -> tuple[ReplayEnd | WorkerDied | None, Replayer | None]:
    """Run the script in a worker of ``kind``. Its death is the result of a plain one, and None of another."""
    replayer: Replayer | None = None
    try:
        worker = await kind.start(
            script=script, args=start.args_json, limits=limits or start.limits, replay=True
        )
        try:
            other = script_hash(script) != start.script_hash
            replayer = Replayer(worker, frames, expand, edited=other)
            return await replayer.run(), replayer
        finally:
            await worker.close()
    except WorkerDied as death:
        return (death if kind is Worker else None), replayer


async def verify_bundle(bundle: Bundle, script: str | None = None) -> Verdict:
    """Verify a run that was opened. ``script`` replaces the recorded one.

    A redacted bundle is not executed: its chain, order, steps and positions are checked, and the verdict is
    the one that its exporter came to. Raises UsageError where an edited script is to run against one.
    """
    notes = tuple(bundle.notes)
    if not bundle.redacted:
        found = await verify(
            bundle.script if script is None else script,
            bundle.frames,
            expand=bundle.expand,
            edited=script is not None,
        )
        return msgspec.structs.replace(found, notes=(*notes, *found.notes))
    if script is not None:
        raise UsageError("this bundle is redacted, and its values are gone: no script can run against it")
    count = len(bundle.frames)
    try:
        check_journal(bundle.frames)
    except JournalBroken as error:
        return Verdict("incompatible", count, (*notes, f"{error}."))
    problems = check_redacted(bundle)
    if problems:
        return Verdict("incompatible", count, (*notes, *(f"{problem}." for problem in problems[:5])))
    claimed = read_verdict(bundle.verdict or {}, count)
    if claimed is None:
        return Verdict("incompatible", count, (*notes, "The bundle is redacted and carries no verdict."))
    said = "The bundle is redacted and was not executed: its chain, order, steps and positions hold, and the verdict is its exporter's."
    return msgspec.structs.replace(claimed, notes=(*notes, said))


async def replay_end(bundle: Bundle) -> ReplayEnd | None:
    """Where the replay of a bundle that holds ends, with what the script would do next; None at a limit here."""
    start = read_start(bundle.frames)
    worker = await ReplayWorker.start(
        script=bundle.script, args=start.args_json, limits=start.limits, replay=True
    )
    try:
        return await Replayer(worker, bundle.frames, bundle.expand).run()
    except WorkerDied:
        return None
    finally:
        await worker.close()


def read_verdict(document: Mapping[str, Any], frames: int) -> Verdict | None:
    """A verdict from its JSON document, or None where it is none."""
    word, found = document.get("verdict"), document.get("divergence")
    if word not in ("complete", "ends_early", "diverged", "incompatible"):
        return None
    try:
        divergence = None if found is None else msgspec.convert(found, Divergence)
    except msgspec.ValidationError:
        return None
    return Verdict(word, frames, (), divergence)


def _word(end: ReplayEnd, notes: list[str]) -> str:
    if end.ending is Ending.COMPLETE:
        return "complete"
    if end.ending is Ending.LIMIT:
        notes.append(
            f"Limit here: after frame {end.agreed} only one of the two runs reached a limit of its machine, "
            "which proves nothing about what follows."
        )
    elif end.next_turn is not None and end.next_turn.end is not None:
        notes.append(f"The journal ends after frame {end.agreed}; the script would end there.")
    elif end.next_turn is not None:
        steps = [
            call.get("step_id", call["op"]) for request in end.next_turn.requests for call in request.calls
        ]
        notes.append(
            f"The journal ends after frame {end.agreed}; the script would ask for {', '.join(steps)}."
        )
    else:
        names = ", ".join(str(call.get("step_id", call.get("op"))) for call in end.unanswered)
        notes.append(f"The journal ends after frame {end.agreed}, with no answer recorded for {names}.")
    return "ends_early"


def _died(death: WorkerDied, replayer: Replayer | None, frames: Sequence[Frame], notes: list[str]) -> Verdict:
    """A worker's death in replay: as recorded, or a limit here; it is never a divergence."""
    if replayer is None:
        notes.append(f"The replay could not start. {death.message}")
        return Verdict("ends_early", len(frames), tuple(notes))
    following = frames[replayer.position] if replayer.position < len(frames) else None
    if following is not None and following.kind is FrameKind.END:
        end = jsontext.parse(following.body, "the end")
        if end.get("by") == "engine" and (end.get("error") or {}).get("code") in _DEATHS:
            return Verdict("complete", len(frames), tuple(notes))
    notes.append(f"Limit here: after frame {replayer.position - 1}. {death.message}")
    return Verdict("ends_early", len(frames), tuple(notes))


def _refused(error: ScriptRefused, frames: Sequence[Frame], notes: list[str]) -> Verdict:
    """The script does not compile here: a divergence at the first frame behind the start."""
    now = {"error": {"code": error.code, "message": str(error)}}
    recorded = jsontext.parse(frames[1].body, "frame 1") if len(frames) > 1 else None
    found = Divergence(
        frame=1,
        agreed=0,
        line=error.line,
        column=error.column,
        recorded=recorded,
        now=now,
        differences=tuple(differences(recorded, now)),
    )
    return Verdict("diverged", len(frames), (*notes, f"The script cannot run here: {error}"), found)
