"""Time travel through a recorded run: stop at any frame or statement, look around, go either way.

The script runs again, with probes, in a worker that knows all recorded responses; going back is a fresh worker,
milliseconds. Nothing else is touched (invariant 9). Expressions run in that worker only, and one that might have
changed something spoils it: the next move takes a fresh one.

Where the probes would change what the script asks, or the script cannot be instrumented, stepping by statements
is off (``level`` is ``frames``, ``notes`` say why): frames can still be visited, without variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ..errors import UsageError
from ..limits import Limits
from ..script.instrument import InstrumentRefused, Site, instrument
from ..worker.probe import Bounds, Stop
from ..worker.process import WorkerDeath, WorkerDied
from .expressions import is_plain, is_pure
from .frames import Frame, FrameKind
from .moments import Local, Moment, Pending
from .replay import Divergence, Expand
from .session import Session, same_place
from .verify import read_start

#: Values of watches may be larger than those of locals.
WATCH: Final = Bounds(depth=40, keys=2_000, text=20_000, budget=200_000)
LOCAL: Final = Bounds()
_LIMITS: Final = frozenset({WorkerDeath.CPU_LIMIT, WorkerDeath.TURN_LIMIT, WorkerDeath.MEMORY})


class Debugger(Session):
    """Made by ``open``; one move at a time; ``close`` it. ``at`` is the present moment."""

    at: Moment
    #: From where one looks at this moment: the number of a call, of a statement, or neither (where the script stands).
    _view: tuple[int | None, int | None] = (None, None)

    @classmethod
    async def open(
        cls,
        script: str,
        frames: Sequence[Frame],
        limits: Limits | None = None,
        *,
        expand: Expand | None = None,
        plain: Divergence | None = None,
    ) -> Debugger:
        """Instrument ``script``, run it once to its end, and stand before its first statement.

        ``frames`` must have passed ``verify``; ``plain`` is the divergence that it found, if any. Raises
        ScriptRefused where the script does not compile, JournalBroken without a start frame.
        """
        start = read_start(frames)
        self = cls(script, frames, start, limits or start.limits, expand)
        try:
            self._code = instrument(script)
            if not self._edited:
                self._call_sites = [
                    -1 if place is None else self._site_number(place) for place in self._table.places
                ]
        except InstrumentRefused as error:
            self._frames_only(f"{str(error)[:1].upper()}{str(error)[1:]}: stepping is by frames.")
        try:
            found = await self._survey()
            if self._code is not None and not same_place(found, plain):
                self._frames_only("With probes this script asks something else: stepping is by frames.")
                found = await self._survey()
            self.diverged = plain if plain is not None else found
            self.at = await self.go_to_frame(0)
        except BaseException:
            await self.close()
            raise
        return self

    # -- positions by frame

    async def go_to_frame(self, number: int, *, looks: bool = True) -> Moment:
        """Stand where frame ``number`` is emitted (a request), or before it is delivered (a response).

        Without ``looks`` the moment has no variables and no calls in flight. Raises UsageError for a number that the
        journal does not have.
        """
        if not 0 <= number < len(self.frames):
            raise UsageError(
                f"there is no frame {number}; the journal has frames 0 to {len(self.frames) - 1}"
            )
        entry = self._table.entries[number]
        if entry.kind is FrameKind.START:
            stop = await self._run(statement=1) if self._code is not None else await self._run(turns=0)
        elif entry.kind is FrameKind.REQUEST:
            stop = await self._run(call=entry.call)
        elif entry.kind is FrameKind.RESPONSE:
            stop = await self._run(turns=entry.turns)
        else:
            stop = await self._run()
        return await self._arrive(stop, number, looks=looks)

    async def next_frame(self) -> Moment:
        return await self.go_to_frame(min(self.at.frame + 1, len(self.frames) - 1))

    async def previous_frame(self) -> Moment:
        at_frame = self.at.kind not in ("statement", "breakpoint")
        return await self.go_to_frame(max(self.at.frame - 1 if at_frame else self.at.frame, 0))

    async def go_to_end(self) -> Moment:
        """Stand where the script ends, or where it waits for what a cut journal does not hold."""
        return await self._arrive(await self._run())

    # -- positions by statement

    async def go_to_statement(self, count: int) -> Moment:
        """Stand before the ``count``-th statement of the run, from 1; at its end where there are fewer."""
        self._need_statements()
        return await self._arrive(await self._run(statement=max(count, 1)))

    async def step(self) -> Moment:
        """The next statement, wherever it is."""
        return await self.go_to_statement(self.at.statement + 1)

    async def step_back(self) -> Moment:
        """The statement before; from a frame, the statement that led to it."""
        at_statement = self.at.kind in ("statement", "breakpoint")
        return await self.go_to_statement(self.at.statement - 1 if at_statement else self.at.statement)

    def breakable(self, line: int) -> int | None:
        """The line on which a breakpoint set on ``line`` stops: the next one with a statement, or None."""
        if self._code is None:
            return None
        numbers = self._code.sites_on(line)
        return self._code.sites[numbers[0]].line if numbers else None

    async def run_to(self, lines: Sequence[int]) -> Moment:
        """On to the next statement on one of ``lines``; to the end where none follows."""
        self._need_statements()
        return await self._arrive(await self._run(stops=self._sites_on(lines), after=self.at.statement))

    async def run_back_to(self, lines: Sequence[int]) -> Moment:
        """Back to the latest statement before this one on one of ``lines``; to the start where there is none."""
        self._need_statements()
        at_statement = self.at.kind in ("statement", "breakpoint")
        until = self.at.statement if at_statement else self.at.statement + 1
        stops = self._sites_on(lines)
        await self._renew()
        # Breakpoints are only noted up to the statement at which this pass stops.
        stop = await self._run(statement=until, stops=stops, after=until)
        if stop.recorded < 1:
            return await self.go_to_frame(0)
        return await self._arrive(await self._run(statement=stop.recorded), kind="breakpoint")

    def _sites_on(self, lines: Sequence[int]) -> list[int]:
        assert self._code is not None
        return sorted({number for line in lines for number in self._code.sites_on(line)})

    def _need_statements(self) -> None:
        if self._code is None:
            raise UsageError(f"this run can only be stepped by frames. {' '.join(self.notes)}")

    # -- looking

    async def watch(self, expressions: Sequence[str]) -> dict[str, Any]:
        """The values of expressions at this moment; one that throws shows its error.

        An expression that does not end, or spoils the worker, is told as an error too; the position stays.
        """
        if self._worker is None or self._worker.exited.done():
            await self._return()
        if self._worker is None:
            return dict.fromkeys(expressions, _unseen("Limit", self.at.limit or "its worker is gone"))
        if not all(is_pure(each, self.script) for each in expressions):
            self._dirty = True
        try:
            call, site = self._view
            found = await self._worker.look(expressions, call=call, site=site, bounds=WATCH)
        except WorkerDied as death:
            self._dirty = True
            # Only what the worker itself ended of was a limit: another death says nothing about the expression.
            if death.reason in _LIMITS:
                return dict.fromkeys(expressions, _unseen("Limit", f"it did not end here. {death.message}"))
            return dict.fromkeys(expressions, _unseen("WorkerDied", death.message))
        if self._code is None:
            found = [_BY_FRAMES if _is_unknown_name(value) else value for value in found]
        return dict(zip(expressions, found, strict=True))

    async def watches(self, expressions: Sequence[str]) -> dict[str, Any]:
        """``watch``, each expression as if it were the only one: what one changes does not show in another.

        Members are looked at together even where they might be getters, unless looking has run the script's code.
        """
        here = self.at
        still = [each for each in expressions if is_pure(each, self.script)]
        paths = [each for each in expressions if is_pure(each)]
        await self.afresh()
        found = await self.watch(paths) if paths else {}
        if len(paths) > len(still) and (
            self._worker is None or self._worker.ran or self._code is None or "bind" in self.script
        ):
            await self.afresh()
            found = await self.watch(still) if still else {}
        for each in expressions:
            if each not in found:
                await self.afresh()
                found |= await self.watch([each])
        self.at = here
        return {each: found[each] for each in expressions}

    async def afresh(self) -> Moment:
        """The same place, without what expressions may have changed there."""
        if self._dirty:
            await self._return()
        return self.at

    async def history(self, expression: str) -> list[tuple[int, Any]]:
        """The value of an expression at every frame from 0 on, as (frame, value). The position stays.

        Raises UsageError for an expression that changes something itself: its values would depend on the looking.
        One whose operators may call methods of the script's objects is looked at in a fresh worker each time.
        """
        if not is_plain(expression):
            raise UsageError(
                "a history takes names, members and operators; this expression might change something"
            )
        here = self.at
        found: list[tuple[int, Any]] = []
        for number in range(len(self.frames)):
            await self.go_to_frame(number, looks=False)
            found.append((number, (await self.watch([expression]))[expression]))
            if self.at.diverged is not None or self.at.limit is not None:
                break
        await self.go_back_to(here)
        return found

    async def _return(self) -> None:
        await self.go_back_to(self.at)

    async def go_back_to(self, moment: Moment) -> None:
        """Stand where ``moment`` was made, by this debugger or by another one of the same run."""
        cut = self.frames[-1].kind is not FrameKind.END
        if moment.limit is not None:
            await self._arrive(await self._run(), moment.frame)
        elif moment.kind == "end" and moment.diverged is None and cut:
            await self.go_to_end()
        elif moment.kind in ("statement", "breakpoint") and moment.statement:
            await self.go_to_statement(moment.statement)
        else:
            await self.go_to_frame(moment.frame)

    # -- what a stop means

    async def _arrive(
        self, stop: Stop, number: int | None = None, kind: str | None = None, *, looks: bool = True
    ) -> Moment:
        """Make the moment of a stop. ``number`` is the frame that was wanted; ``looks`` as for ``go_to_frame``."""
        if stop.stop.startswith("limit: "):
            frame = number if number is not None else self.at.frame
            self._view = (None, None)
            code, site = self._code, None
            if self._worker is not None and code is not None and 0 <= stop.site < len(code.sites):
                site = code.sites[stop.site]
            line, column = (None, None) if site is None else (site.line, site.column)
            pending = self._pending(stop) if looks and site is not None else ()
            values = await self._locals(site) if looks else ()
            said = stop.stop[7:]
            self.at = Moment("end", frame, stop.statements, line, column, values, pending, None, said)
            return self.at
        frame = self._frame_of(stop)
        diverged = None
        bound = self.diverged
        at_bound = stop.stop == "call" and bound is not None and stop.queued == bound.call
        if bound is not None and (
            at_bound or (stop.stop in ("idle", "end") and bound.call is None and frame >= bound.agreed)
        ):
            diverged, frame = bound, bound.frame
        elif number is not None and stop.stop in ("call", "idle", "end", "waiting"):
            frame = number
        frame = min(frame, len(self.frames) - 1)
        words = kind or self._kind(stop, frame, number)
        pending = self._pending(stop) if looks else ()
        self._view, site = await self._look_from(stop, frame, words, pending)
        place = self._place(frame, words, pending, site, diverged)
        values = await self._locals(site) if looks else ()
        self.at = Moment(words, frame, stop.statements, *place, values, pending, diverged)
        return self.at

    def _kind(self, stop: Stop, frame: int, number: int | None) -> str:
        if stop.stop in ("statement", "breakpoint"):
            return stop.stop if number != 0 else "start"
        if stop.stop == "call":
            return "request"
        if stop.stop == "idle" and number is not None and self.frames[frame].kind is FrameKind.RESPONSE:
            return "response"
        return "start" if number == 0 else "end"

    async def _look_from(
        self, stop: Stop, frame: int, kind: str, pending: Sequence[Pending]
    ) -> tuple[tuple[int | None, int | None], Site | None]:
        """From where one looks (see ``_view``), and the statement whose variables are in sight there.

        At the end of a script that is its last statement outside its functions, or the one that threw; where a
        journal is cut off, the latest call without an answer.
        """
        worker, code = self._worker, self._code
        if worker is None or code is None:
            return (self._table.entries[frame].answers if kind == "response" else None, None), None
        call = self._table.entries[frame].answers if kind == "response" else None
        if stop.stop in ("idle", "waiting") and kind == "end" and pending:
            call = pending[-1].call
        number, site = stop.site, None
        if call is not None:
            number = await worker.site_of(call)
        elif stop.stop == "end" and kind == "end":
            thrown = self.frames[frame].side.position if not self._edited else None
            found = code.site_at(*thrown) if thrown is not None else None
            outer = [one.number for one in code.sites if not one.nested]
            site = number = found if found is not None else await worker.latest(outer)
        return (call, site), code.sites[number] if 0 <= number < len(code.sites) else None

    def _place(
        self,
        frame: int,
        kind: str,
        pending: Sequence[Pending],
        site: Site | None,
        diverged: Divergence | None,
    ) -> tuple[int | None, int | None]:
        """The line and column to show."""
        if diverged is not None and diverged.line is not None:
            return diverged.line, diverged.column
        entry = self._table.entries[frame]
        if not self._edited:
            if kind in ("request", "response") and entry.place is not None:
                return entry.place
            ended = self.frames[frame].kind is FrameKind.END
            if kind == "end" and ended and self.frames[frame].side.position is not None:
                return self.frames[frame].side.position or (None, None)
            if kind == "end" and not ended and pending and pending[-1].line is not None:
                return pending[-1].line, pending[-1].column
        return (None, None) if site is None else (site.line, site.column)

    async def _locals(self, site: Site | None) -> tuple[Local, ...]:
        if site is None or self._worker is None or not site.names:
            return ()
        call, number = self._view
        values = await self._worker.look(
            [name.name for name in site.names], call=call, site=number, bounds=LOCAL
        )
        return tuple(
            Local(name.name, name.kind, name.scope, value)
            for name, value in zip(site.names, values, strict=True)
        )

    def _frame_of(self, stop: Stop) -> int:
        """The latest frame that has been emitted or delivered where the script stands."""
        if stop.stop == "end" and self.frames[-1].kind is FrameKind.END:
            return len(self.frames) - 1
        inside = stop.stop in ("statement", "breakpoint", "call")
        return self._table.latest(stop.queued, self._turns + inside)

    def _pending(self, stop: Stop) -> tuple[Pending, ...]:
        """Calls that were made and not answered yet where the script stands."""
        inside = stop.stop in ("statement", "breakpoint", "call") or stop.stop.startswith("limit: ")
        return self._table.pending(stop.queued, self._turns + inside)


async def explain(
    script: str,
    frames: Sequence[Frame],
    divergence: Divergence,
    *,
    limits: Limits | None = None,
    expand: Expand | None = None,
) -> Divergence:
    """``divergence`` with the variables in sight where the differing call was made, where they can be had.

    Where the script makes no call there and no place is known, it gets the place at which the script stands.
    """
    if divergence.call is None and divergence.line is not None:
        return divergence
    debugger = await Debugger.open(script, frames, limits, expand=expand, plain=divergence)
    try:
        moment = await debugger.go_to_frame(min(divergence.frame, len(frames) - 1))
        if moment.diverged is None or debugger.level != "statements":
            return divergence
        if divergence.call is None:
            return msgspec.structs.replace(divergence, line=moment.line, column=moment.column)
        return msgspec.structs.replace(divergence, locals=locals_document(moment))
    finally:
        await debugger.close()


def _unseen(name: str, message: str) -> dict[str, str]:
    return {"$type": "error", "name": name, "message": message}


#: What a name of the script comes to where stepping is by frames.
_BY_FRAMES: Final = _unseen("ReferenceError", "no variable is in sight: stepping is by frames")


def _is_unknown_name(value: Any) -> bool:
    return isinstance(value, dict) and (value.get("$type"), value.get("name")) == ("error", "ReferenceError")


def locals_document(moment: Moment) -> dict[str, Any]:
    """The variables of a moment by name; the innermost of two with the same name."""
    return {local.name: local.value for local in moment.locals}
