"""Going through a recorded run: the moves of the Replay screen, in a worker that is thrown away (invariant 9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from workflows_core.errors import UsageError
from workflows_core.journal.debugger import Debugger
from workflows_core.journal.moments import Moment
from workflows_core.worker.process import WorkerDied

from .replaying import Opened


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
                # Where a limit was reached and no statement is known there is nothing to look from.
                if self.watches and (debugger.at.limit is None or debugger.at.line is not None):
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

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression at this place. Raises UsageError as ``move`` does.

        What it changes holds here, for the next expression too, until the next move or ``afresh``.
        """
        found: list[Any] = []

        async def ask(debugger: Debugger) -> None:
            values = await debugger.watch([expression])
            found.append(values[expression])

        await self.move(ask)
        return found[0]

    async def history(self, expression: str) -> list[tuple[int, Any]]:
        """The value of an expression at every frame, as (frame, value); the place stays.

        Raises UsageError for an expression that might change something, and as ``move`` does.
        """
        found: list[tuple[int, Any]] = []

        async def ask(debugger: Debugger) -> None:
            found.extend(await debugger.history(expression))

        await self.move(ask)
        return found

    async def _ready(self) -> Debugger:
        if self._debugger is None:
            bundle = self._opened.bundle
            self._debugger = await Debugger.open(
                self._opened.script,
                bundle.frames,
                expand=bundle.expand,
                plain=self._opened.verdict.divergence,
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
