"""The worker behind time travel: it is taken to a stop, forwards in the same process, backwards in a fresh one."""

from __future__ import annotations

from collections.abc import Sequence

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
        return self._stop

    async def _survey(self) -> Divergence | None:
        """Run to the end once: count the statements and find where the script stops agreeing, if it does."""
        await self._renew()
        assert self._worker is not None
        replayer = Replayer(self._worker, self.frames)
        try:
            stop = await self._worker.go(capture=False)
            self.statements = stop.statements
        except WorkerDied as death:
            self.notes.append(f"Limit here: {death.message}")
        matched = 0
        try:
            for turn in self._worker.taken_turns():
                matched += 1
                if replayer.match(turn) is not None or turn.end is not None or replayer.batch() is None:
                    break
        except Diverged as found:
            self._last_turn = matched
            divergence = found.divergence
            if self._code is not None and divergence.line is not None and divergence.column is not None:
                line, column = self._code.original(divergence.line, divergence.column)
                divergence = msgspec.structs.replace(divergence, line=line, column=column)
            return divergence
        finally:
            self._dirty = True
        return None


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
