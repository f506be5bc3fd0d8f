"""A recorded run as the Replay screen shows it, without a screen: its frames, what recovery would do, and time travel.

Everything is read once from a :class:`~workflows_core.journal.bundle.Bundle` and stays as it was then. Only a
:class:`Traveller` runs the script, in a worker that is thrown away (invariant 9). Texts are those of the bundle,
from anywhere: whoever shows them makes them inert.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from workflows_core import jsontext
from workflows_core.engine.recovery import Preview, StepAt
from workflows_core.errors import UsageError, WorkflowError
from workflows_core.journal.bundle import Bundle
from workflows_core.journal.debugger import Debugger, explain
from workflows_core.journal.frames import Frame, FrameKind
from workflows_core.journal.moments import Moment
from workflows_core.journal.preview import preview_bundle
from workflows_core.journal.verify import Verdict, verify_bundle
from workflows_core.model import RunView, StepView
from workflows_core.script.steps import api_steps
from workflows_core.worker.process import WorkerDied

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


class Opened(msgspec.Struct, frozen=True):
    """A run that was opened. ``view`` is None where its frames cannot be read as those of a run."""

    bundle: Bundle
    view: RunView | None
    verdict: Verdict
    preview: Preview
    frames: tuple[FrameLine, ...]

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
        """The place in the source that a frame belongs to: of its last call, or of the call that it answers."""
        line = self.frames[number]
        if line.kind is FrameKind.END:
            return self.bundle.frames[number].side.position
        return next((each for each in reversed(line.places) if each is not None), None)


async def read_run(bundle: Bundle) -> Opened:
    """Verify ``bundle`` and say what recovery would do. Runs the script in workers of its own; asks no Agent."""
    verdict = await verify_bundle(bundle)
    view: RunView | None = None
    if verdict.verdict != "incompatible":
        try:
            view = bundle.view()
        except WorkflowError:
            view = None
    found = verdict.divergence
    if found is not None and not bundle.redacted:
        known = await explain(bundle.script, bundle.frames, found, expand=bundle.expand)
        verdict = msgspec.structs.replace(verdict, divergence=known)
    preview = (
        await preview_bundle(bundle)
        if view is not None
        else Preview(compatible=False, reasons=("it cannot be read as a journal",))
    )
    return Opened(bundle, view, verdict, preview, _frame_lines(bundle.frames))


def _frame_lines(frames: tuple[Frame, ...]) -> tuple[FrameLine, ...]:
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


# -- time travel


class Seen(msgspec.Struct, frozen=True):
    """What is in sight at a moment, with the values of the watches there."""

    moment: Moment
    watches: tuple[tuple[str, Any], ...]
    level: str
    statements: int
    notes: tuple[str, ...]

    @property
    def at_statement(self) -> bool:
        return self.moment.kind in ("statement", "breakpoint")


Act = Callable[[Debugger], Awaitable[object]]


class Traveller:
    """Goes through one run, one move at a time, in a worker that is made when it is first needed.

    A move that is cancelled takes its worker along; the next one begins with a fresh worker at the place that
    was reached last. ``close`` ends the worker and may be followed by more moves.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._lock = asyncio.Lock()
        self._debugger: Debugger | None = None
        self._at: Moment | None = None
        #: Expressions whose values are looked up after every move.
        self.watches: list[str] = []

    @property
    def running(self) -> bool:
        """Whether it has a worker."""
        return self._debugger is not None

    async def move(self, act: Act) -> Seen:
        """Do ``act`` and look around. Raises UsageError where the run cannot be gone through that way."""
        if self._opened.travels:
            raise UsageError(self._opened.travels)
        async with self._lock:
            try:
                debugger = await self._ready()
                await act(debugger)
                values: Mapping[str, Any] = {}
                if self.watches and debugger.at.limit is None:
                    values = await debugger.watch(self.watches)
                self._at = debugger.at
                return Seen(
                    debugger.at,
                    tuple((each, values.get(each)) for each in self.watches),
                    debugger.level,
                    debugger.statements,
                    tuple(debugger.notes),
                )
            except WorkerDied as death:
                await self._drop()
                raise UsageError(f"the worker that looks around ended: {death.message}") from None
            except UsageError:
                raise
            except BaseException:
                await self._drop()
                raise

    async def breakable(self, line: int) -> int | None:
        """The line on which a breakpoint set on ``line`` stops, or None. Raises UsageError as ``move`` does."""
        found: list[int | None] = []

        async def ask(debugger: Debugger) -> None:
            found.append(debugger.breakable(line))

        await self.move(ask)
        return found[0]

    async def _ready(self) -> Debugger:
        if self._debugger is None:
            bundle = self._opened.bundle
            self._debugger = await Debugger.open(
                bundle.script, bundle.frames, expand=bundle.expand, plain=self._opened.verdict.divergence
            )
            here = self._at
            if here is not None and here.kind in ("statement", "breakpoint") and here.statement:
                await self._debugger.go_to_statement(here.statement)
            elif here is not None:
                await self._debugger.go_to_frame(here.frame)
        return self._debugger

    async def _drop(self) -> None:
        debugger, self._debugger = self._debugger, None
        if debugger is not None:
            await debugger.close()

    async def close(self) -> None:
        """End the worker."""
        async with self._lock:
            await self._drop()
