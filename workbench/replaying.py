"""A recorded run as the Replay screen shows it, without a screen: its frames, the verdict, and what recovery would do.

Everything is read once from a :class:`~workflows_core.journal.bundle.Bundle` and stays as it was then. Texts are
those of the bundle, from anywhere: whoever shows them makes them inert. ``travelling`` goes through it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from workflows_core import jsontext
from workflows_core.engine.recovery import Preview, StepAt
from workflows_core.errors import WorkflowError
from workflows_core.journal.bundle import Bundle
from workflows_core.journal.debugger import explain
from workflows_core.journal.frames import Frame, FrameKind
from workflows_core.journal.preview import preview_bundle
from workflows_core.journal.verify import Verdict, verify_bundle
from workflows_core.model import RunView, StepView
from workflows_core.script.steps import api_steps

from .words import count, place

#: A text and the name of its tone.
Piece = tuple[str, str]
_VERDICTS: Final = {
    "complete": ("✓", "+", "good"),
    "ends_early": ("‖", "=", "waiting"),
}


class FrameLine(msgspec.Struct, frozen=True):
    """A frame for people. ``took`` is the time since the frame before, in microseconds.

    ``labels`` are the step ids, or operations, of its calls; ``places`` where they were called. ``body`` is the
    parsed JSON, or None where it is none.
    """

    number: int
    kind: FrameKind
    labels: tuple[str, ...]
    places: tuple[tuple[int, int] | None, ...]
    took: int | None
    failed: bool
    body: Mapping[str, Any] | None
    raw: str

    def entries(self, name: str) -> list[Mapping[str, Any]]:
        """The objects of the list ``name`` of the body: ``calls`` or ``results``."""
        found = (self.body or {}).get(name)
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


class Given(msgspec.Struct, frozen=True):
    """What is to be opened: a run, and the script that is to be replayed against its record (None: its own)."""

    bundle: Bundle
    script: str | None = None


class Opened(msgspec.Struct, frozen=True):
    """A run that was opened. ``view`` is None where its frames cannot be read as those of a run.

    ``script`` is the script that is run; ``edited`` says whether it is another than the recorded one.
    """

    bundle: Bundle
    view: RunView | None
    verdict: Verdict
    preview: Preview
    frames: tuple[FrameLine, ...]
    script: str
    edited: bool = False

    @property
    def name(self) -> str:
        return self.bundle.record.name or self.bundle.run_id

    @property
    def travels(self) -> str:
        """Why its script cannot be run again, in words; empty where it can."""
        if self.bundle.redacted:
            return "The bundle is redacted: its values are gone, so there is nothing to look at."
        if self.verdict.verdict == "incompatible":
            return "This cannot be read as a journal, so its script is not run."
        found = self.verdict.divergence
        if found is not None and isinstance(found.now, Mapping) and not found.now.keys() & {"calls", "by"}:
            return self.verdict.notes[-1] if self.verdict.notes else "The script cannot run here."
        return ""

    @property
    def ending(self) -> str:
        """What stands behind the last frame where the journal was cut off; else empty."""
        ended = bool(self.frames) and self.frames[-1].kind is FrameKind.END
        return "" if ended else f"ends here: {self.bundle.record.state.value.replace('_', ' ')}"

    def step(self, call: Mapping[str, Any]) -> StepView | None:
        """The step that a call of a frame made."""
        steps = self.view.steps if self.view is not None else ()
        return next((step for step in steps if step.call_id == call.get("id") and "id" in call), None)

    def frame_place(self, number: int) -> tuple[int, int] | None:
        """The place in the source that a frame belongs to: of its last call, or of the call that it answers.

        None in an edited script, where the places of the record do not hold.
        """
        if self.edited:
            return None
        line = self.frames[number]
        if line.kind is FrameKind.END:
            return self.bundle.frames[number].side.position
        return next((each for each in reversed(line.places) if each is not None), None)


async def read_run(bundle: Bundle, script: str | None = None) -> Opened:
    """Verify ``bundle`` and say what recovery would do. Runs the script in workers of its own; asks no Agent.

    With ``script`` that one is replayed against the record instead. Raises UsageError where it cannot be: the
    bundle is redacted, or the script does not compile.
    """
    edited = script is not None and script != bundle.script
    text = bundle.script if script is None else script
    verdict = await verify_bundle(bundle, text if edited else None)
    view: RunView | None = None
    if verdict.verdict != "incompatible":
        try:
            view = bundle.view()
        except WorkflowError:
            view = None
    found = verdict.divergence
    if found is not None and not bundle.redacted:
        known = await explain(text, bundle.frames, found, expand=bundle.expand)
        verdict = msgspec.structs.replace(verdict, divergence=known)
    preview = (
        await preview_bundle(bundle)
        if view is not None
        else Preview(compatible=False, reasons=("it cannot be read as a journal",))
    )
    return Opened(bundle, view, verdict, preview, described(bundle.frames), text, edited)


def described(frames: Sequence[Frame]) -> tuple[FrameLine, ...]:
    """Frames for people, each with the names and places of its calls."""
    lines: list[FrameLine] = []
    names: dict[Any, tuple[str, tuple[int, int] | None]] = {}
    before: int | None = None
    for frame in frames:
        took = None if before is None else max(0, frame.at - before)
        before = frame.at
        line = FrameLine(
            frame.number,
            frame.kind,
            (),
            (),
            took,
            False,
            _parsed(frame),
            frame.body.decode("utf-8", "replace"),
        )
        labels: list[str] = []
        places: list[tuple[int, int] | None] = []
        failed = False
        if frame.kind is FrameKind.REQUEST:
            positions = frame.side.positions
            for index, call in enumerate(line.entries("calls")):
                label = str(call.get("step_id", call.get("op", "?")))
                at = positions[index] if index < len(positions) else None
                labels.append(label)
                places.append(at)
                if type(call.get("id")) is int:
                    names[call["id"]] = (label, at)
        elif frame.kind is FrameKind.RESPONSE:
            for result in line.entries("results"):
                number = result.get("id")
                label, at = names.get(number if type(number) is int else None, ("?", None))
                labels.append(label)
                places.append(at)
                failed = failed or result.get("ok") is False
        elif frame.kind is FrameKind.END:
            failed = (line.body or {}).get("ok") is False
        lines.append(msgspec.structs.replace(line, labels=tuple(labels), places=tuple(places), failed=failed))
    return tuple(lines)


def _parsed(frame: Frame) -> Mapping[str, Any] | None:
    try:
        body = jsontext.parse(frame.body, f"frame {frame.number}")
    except jsontext.JsonRefused:
        return None
    return body if isinstance(body, dict) else None


# -- sentences


def verdict_pieces(opened: Opened, *, unicode: bool = True) -> list[Piece]:
    """The verdict in one line, with where it differs."""
    verdict = opened.verdict
    glyph, ascii_form, tone = _VERDICTS.get(verdict.verdict, ("✗", "x", "bad"))
    mark = glyph if unicode else ascii_form
    pieces = [(f"{mark} {verdict.verdict.replace('_', ' ')}", tone)]
    found = verdict.divergence
    if found is not None:
        where = place(found.line, found.column)
        pieces.append((f" at frame {found.frame}{f', {where}' if where else ''}", tone))
    notes = " ".join(verdict.notes)
    return [*pieces, (f"  {notes}", "")] if notes else pieces


def recovery_pieces(opened: Opened) -> list[Piece]:
    """What recovering the run would do, for the support engineer: counts, places, and what is unknown here."""
    preview = opened.preview
    state = opened.bundle.record.state
    if state.final:
        return [(f"none needed: the run is {state.value.replace('_', ' ')}", "quiet")]
    pieces: list[Piece] = []
    for word, steps, tone in (
        ("reused", preview.reused, ""),
        ("observed", preview.observed, ""),
        ("uncertain", preview.uncertain, "bad"),
        ("new", preview.new, ""),
    ):
        if not steps:
            continue
        pieces.append((f"{' · ' if pieces else ''}{len(steps)} {word}", tone))
        if word != "reused":
            pieces.append((f" at {', '.join(map(_named, steps))}", tone))
    waits = _waits(opened)
    if waits:
        pieces.append((f"{' · ' if pieces else ''}then {waits}", ""))
    if preview.uncertain:
        pieces.append(
            (f". Recover will stop at {preview.uncertain[0].step_id} until someone settles it", "bad")
        )
    tone = "bad" if preview.compatible is False else "quiet"
    if preview.compatible is False:
        pieces.append((f"{'. ' if pieces else ''}It cannot be recovered here", tone))
    pieces += [(f". {reason[:1].upper()}{reason[1:]}", tone) for reason in preview.reasons]
    return (
        [(pieces[0][0].removeprefix(". "), pieces[0][1]), *pieces[1:]] if pieces else [("nothing", "quiet")]
    )


def _named(step: StepAt) -> str:
    where = place(step.line, step.column)
    return f"{where} {step.step_id}" if where else step.step_id


def _waits(opened: Opened) -> str:
    """The checkpoints and pauses that the script names and that were not settled yet."""
    view = opened.view
    done = {step.step_id for step in view.steps if step.response_frame is not None} if view else set()
    sites = api_steps(opened.bundle.script)
    parts = []
    for kind in ("checkpoint", "pause"):
        ids = {site.step_id for site in sites if site.kind == kind} - done
        if ids:
            parts.append(count(len(ids), kind))
    return " and ".join(parts)
