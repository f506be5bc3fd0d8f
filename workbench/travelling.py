"""Going through a recorded run: the moves of the Replay screen, in a worker that is thrown away (invariant 9)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from workflows_core.errors import UsageError
from workflows_core.journal.debugger import Debugger
from workflows_core.journal.moments import Moment
from workflows_core.worker.process import WorkerDied

from .replaying import Opened
from .words import count


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
T = TypeVar("T")

_SIGNS: Final = {"#": "statement", ":": "line"}
_NUMBERS: Final = re.compile(r"([0-9]{1,9})(?:x([0-9]{1,6}))?")


class At(NamedTuple):
    """A place in a run that a person names: ``kind`` is frame, statement, line or end, ``number`` which.

    ``times`` says of a line that is stopped at more than once, how often: a loop comes by again.
    """

    kind: str
    number: int = 0
    times: int = 1


def read_place(text: str) -> At:
    """``6`` is frame 6, ``#40`` the 40th statement, ``:12`` the line 12, ``:12x3`` the third time that it runs.

    ``end`` is where the script ends, or waits for what a journal that was cut off does not hold. Raises UsageError
    for anything else.
    """
    text = text.strip()
    if text == "end":
        return At("end")
    kind = _SIGNS.get(text[:1], "frame")
    found = _NUMBERS.fullmatch(text if kind == "frame" else text[1:].strip())
    times = int(found[2]) if found is not None and found[2] is not None else 1
    if found is None or times < 1 or (found[2] is not None and kind != "line"):
        raise UsageError(
            f"{text!r} is no frame; write a number, '#STATEMENT', ':LINE', ':LINExTIMES' or 'end'"
        )
    return At(kind, int(found[1]), times)


async def go_to_place(debugger: Debugger, at: At, *, first: bool) -> Moment:
    """Stand at ``at``. The times of a line count from here, with ``first`` from the start of the run.

    ``first`` is for a debugger that was just opened. Raises UsageError where the run has no such place; without
    ``first`` the position is then the one before.
    """
    if at.kind == "frame":
        return await debugger.go_to_frame(at.number)
    if at.kind == "end":
        return await debugger.go_to_end()
    if at.kind == "statement":
        if debugger.level == "statements" and not 1 <= at.number <= debugger.statements:
            raise UsageError(
                f"there is no statement {at.number}; the run has statements 1 to {debugger.statements}"
            )
        return await debugger.go_to_statement(at.number)
    line, here = at.number, debugger.at
    following = debugger.breakable(line)
    if debugger.level == "statements" and following != line:
        hint = "" if following is None else f"; the next one is on line {following}"
        raise UsageError(f"line {line} does not run in this run: no statement begins on it{hint}")
    moment, came = here, 1 if first and here.line == line else 0
    while came < at.times:
        moment = await debugger.run_to([line])
        if moment.kind != "breakpoint":
            if not first:
                await debugger.go_back_to(here)
            where = "in this run" if first else "after this place"
            told = f"runs {count(came, 'time')} {where}, not {at.times}" if came else f"does not run {where}"
            raise UsageError(f"line {line} {told}")
        came += 1
    return moment


class Traveller:
    """Goes through one run, one move at a time, in a worker that is made when it is first needed.

    A move that is cancelled takes its worker along; the next one begins with a fresh worker at the place that
    was reached last. ``close`` ends the worker and may be followed by more moves, unless it is the last one.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._lock = asyncio.Lock()
        self._debugger: Debugger | None = None
        self._at: Moment | None = None
        self._ended = False
        #: Expressions whose values are looked up after every move.
        self.watches: list[str] = []

    @property
    def running(self) -> bool:
        """Whether it has a worker."""
        return self._debugger is not None

    async def move(self, act: Act) -> Seen:
        """Do ``act`` and look around. Raises UsageError where the run cannot be gone through that way."""

        async def look(debugger: Debugger) -> Seen:
            await act(debugger)
            values: Mapping[str, Any] = {}
            # Where a limit was reached and no statement is known there is nothing to look from.
            if self.watches and (debugger.at.limit is None or debugger.at.line is not None):
                values = await debugger.watches(self.watches)
            return Seen(
                debugger.at,
                tuple((each, values.get(each)) for each in self.watches),
                debugger.level,
                debugger.statements,
                tuple(debugger.notes),
            )

        return await self._do(look)

    async def _do(self, act: Callable[[Debugger], Awaitable[T]]) -> T:
        """Do ``act`` without looking around. Raises UsageError as ``move`` does."""
        if self._opened.travels:
            raise UsageError(self._opened.travels)
        async with self._lock:
            if self._ended:
                raise UsageError("another run was opened meanwhile")
            try:
                debugger = await self._ready()
                done = await act(debugger)
                self._at = debugger.at
                return done
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

        async def ask(debugger: Debugger) -> int | None:
            return debugger.breakable(line)

        return await self._do(ask)

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression at this place. Raises UsageError as ``move`` does.

        What it changes holds here, for the next expression too, until the next move or ``afresh``.
        """

        async def ask(debugger: Debugger) -> Any:
            return (await debugger.watch([expression]))[expression]

        return await self._do(ask)

    async def history(self, expression: str) -> list[tuple[int, Any]]:
        """The value of an expression at every frame, as (frame, value); the place stays.

        Raises UsageError for an expression that might change something, and as ``move`` does.
        """
        return await self._do(lambda debugger: debugger.history(expression))

    async def _ready(self) -> Debugger:
        if self._debugger is None:
            bundle = self._opened.bundle
            self._debugger = await Debugger.open(
                self._opened.script,
                bundle.frames,
                expand=bundle.expand,
                plain=self._opened.verdict.divergence,
            )
            if self._at is not None:
                await self._debugger.go_back_to(self._at)
        return self._debugger

    async def _drop(self) -> None:
        debugger, self._debugger = self._debugger, None
        if debugger is not None:
            await debugger.close()

    async def close(self, *, last: bool = False) -> None:
        """End the worker. With ``last`` every later move raises UsageError, those that are waiting included."""
        self._ended = self._ended or last
        async with self._lock:
            await self._drop()
