"""The worker behind time travel: it is taken to a stop, forwards in the same process, backwards in a fresh one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from .. import jsontext
from ..limits import Limits
from ..script.instrument import Instrumented
from ..worker.probe import ProbedWorker, Stop
from ..worker.process import WorkerDied
from .frames import Frame
from .moments import Table
from .replay import Diverged, Divergence, Expand, Replayer, expected_requests, response_batches
from .verify import Start

#: How many statements are looked at for the one at which a limit is reached.
_SEARCHED: Final = 20_000


class Session:
    """One recorded run in a probed worker. ``level`` is statements or frames, ``notes`` say why it is frames."""

    def __init__(
        self, script: str, frames: Sequence[Frame], start: Start, limits: Limits, expand: Expand | None
    ) -> None:
        self.script = script
        self.frames = frames
        self.level = "statements"
        self.notes: list[str] = []
        self.statements = 0
        self.diverged: Divergence | None = None
        self._start = start
        self._limits = limits
        self._batches = response_batches(frames, expand)
        self._expected = expected_requests(frames)
        self._code: Instrumented | None = None
        self._worker: ProbedWorker | None = None
        self._stop: Stop | None = None
        self._turns = 0
        self._dirty = False
        self._last_turn = -1
        self._ended_turns = 0
        #: The latest statement before a limit of the worker, and what the limit is.
        self._limit_at: tuple[int, str] | None = None
        self._table = Table(frames)
        self._edited = jsontext.sha256(script.encode("utf-8", "replace")) != start.script_hash
        self._call_sites: list[int] = []

    def _frames_only(self, note: str) -> None:
        self._code = None
        self._call_sites = []
        self.level = "frames"
        self.notes.append(note)

    def _site_number(self, place: tuple[int, int]) -> int:
        assert self._code is not None
        found = self._code.site_at(*place)
        return -1 if found is None else found

    async def close(self) -> None:
        worker, self._worker, self._stop = self._worker, None, None
        if worker is not None:
            await worker.close()

    # -- moving the worker

    async def _renew(self) -> None:
        await self.close()
        code = self._code
        self._worker = await ProbedWorker.open(
            script=self.script if code is None else code.script,
            probe="" if code is None else code.probe,
            sites=0 if code is None else len(code.sites),
            args=self._start.args_json,
            limits=self._limits,
            batches=self._batches,
            expected=self._expected,
        )
        self._turns = 0
        self._dirty = False
        self._stop = Stop("idle", 0, -1, 0, -1, False)
        if self._call_sites:
            await self._worker.tell_sites(self._call_sites)

    async def _run(
        self,
        *,
        turns: int = -1,
        statement: int = -1,
        call: int = -1,
        stops: Sequence[int] = (),
        after: int = 0,
    ) -> Stop:
        """Move the worker to a stop, with a fresh one where the place lies behind. Raises WorkerDied."""
        stop = self._stop
        bound = self.diverged
        if (
            stop is None
            or self._worker is None
            or self._worker.exited.done()
            or self._dirty
            or _lies_behind(stop, self._turns, turns, statement, call)
        ):
            await self._renew()
        elif stop.stop == "call" and bound is not None and stop.queued == bound.call:
            return stop  # nothing that follows was recorded
        if bound is not None and bound.call is not None and (call == -1 or call > bound.call):
            call = bound.call
        if self._last_turn != -1 and (turns == -1 or turns > self._last_turn):
            turns = self._last_turn
        limit = self._limit_at
        to_limit = limit is not None and (statement == -1 or statement > limit[0])
        if limit is not None and to_limit:
            if self._stop is not None and self._stop.statements >= limit[0]:
                return msgspec.structs.replace(self._stop, stop=f"limit: {limit[1]}")
            statement = limit[0]
        assert self._worker is not None
        try:
            self._stop = await self._worker.go(
                turns=turns, statement=statement, call=call, stops=stops, after=after
            )
        except WorkerDied as death:
            known = self._stop
            await self.close()
            return Stop(f"limit: {death.message}", known.statements if known else 0, -1, 0, -1, False)
        self._turns += len(self._worker.taken_turns())
        if limit is not None and to_limit and self._stop.stop == "statement":
            return msgspec.structs.replace(self._stop, stop=f"limit: {limit[1]}")
        return self._stop

    async def _survey(self) -> Divergence | None:
        """Run to the end once: count the statements and find where the script stops agreeing, if it does."""
        await self._renew()
        assert self._worker is not None
        replayer = Replayer(self._worker, self.frames, edited=self._edited)
        died: WorkerDied | None = None
        try:
            self.statements = (await self._worker.go(capture=False)).statements
        except WorkerDied as death:
            died = death
        matched = 0
        turns = self._worker.taken_turns()
        self._ended_turns = len(turns)
        try:
            for turn in turns:
                matched += 1
                if replayer.match(turn) is not None or turn.end is not None or replayer.batch() is None:
                    break
        except Diverged as found:
            self._last_turn = matched
            # What was recorded behind the difference may answer calls that this script never makes: a worker that
            # is handed such an answer is of no use any more.
            del self._batches[matched - 1 :]
            divergence = found.divergence
            if died is not None:
                await self._count_statements(divergence.call)
            if self._code is not None and divergence.line is not None and divergence.column is not None:
                line, column = self._code.original(divergence.line, divergence.column)
                divergence = msgspec.structs.replace(divergence, line=line, column=column)
            return divergence
        finally:
            self._dirty = True
        if died is not None:
            self.notes.append(f"Limit here: {died.message}")
            await self._find_limit(died.message)
        return None

    async def _count_statements(self, call: int | None) -> None:
        """Count the statements up to the difference."""
        await self._renew()
        assert self._worker is not None
        try:
            stop = await self._worker.go(turns=self._last_turn, call=-1 if call is None else call)
            self.statements = stop.statements
        except WorkerDied as death:
            self.notes.append(f"Limit here: {death.message}")

    async def _find_limit(self, message: str) -> None:
        """Find the statement at which a script reaches a limit of its worker, so that one can look from there.

        The worker tells of each statement after the last turn that ended, so that the latest is known when it is
        killed. Of a loop that never ends any statement is the place.
        """
        if self._code is None:
            return
        await self._renew()
        assert self._worker is not None
        worker, count = self._worker, 0
        try:
            stop = await worker.go(turns=self._ended_turns)
            count = stop.statements
            stop = await worker.go(statement=count + _SEARCHED, trace=True)
            if stop.stop != "statement":
                return  # this time it came further
            count = stop.statements
        except WorkerDied:
            count = max(count, worker.began)
        finally:
            self._dirty = True
        if count:
            self.statements = count
            self._limit_at = (count, message)


def _lies_behind(stop: Stop, done: int, turns: int, statement: int, call: int) -> bool:
    """Whether a worker at ``stop``, with ``done`` turns behind it, has passed the place that is wanted."""
    inside = stop.stop in ("call", "statement", "breakpoint")
    return (
        (statement != -1 and statement <= stop.statements)
        or (call != -1 and call <= stop.queued - (0 if stop.stop == "call" else 1))
        or (turns != -1 and turns < done + inside)
    )


def same_place(one: Divergence | None, other: Divergence | None) -> bool:
    """Whether two replays stop agreeing at the same call, or neither does."""
    if one is None or other is None:
        return one is other
    return (one.frame, one.call) == (other.frame, other.call)
