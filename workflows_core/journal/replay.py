"""Replay: run the recorded script again in a real worker and compare what it asks with what was recorded.

A :class:`Replayer` drives one worker through a journal. It touches no network, no Agent and no store
(invariant 9): recorded responses are given back in their recorded batches, and the first request that
differs, is missing or is surplus stops it. A journal that was cut off by a crash "ends here", which is not a
divergence: recovery goes on from exactly that place with the same worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from .. import jsontext
from ..worker.process import RequestFrame, Turn, Worker
from .frames import Frame, FrameKind

_MISSING: Final = {"$type": "missing"}
MOST_DIFFERENCES: Final = 50


class Difference(msgspec.Struct, frozen=True):
    """One place at which two JSON values differ. ``path`` is like ``calls[0].task.round``."""

    path: str
    recorded: Any
    now: Any


class Divergence(msgspec.Struct, frozen=True):
    """Where a replay stopped agreeing.

    ``frame`` is the number of the first frame that differs, ``agreed`` that of the last one that agreed.
    ``recorded`` or ``now`` is None where that side has nothing at this place. ``line`` and ``column`` are
    where the script is now, or was when the frame was recorded.
    """

    frame: int
    agreed: int
    line: int | None
    column: int | None
    recorded: Any
    now: Any
    differences: tuple[Difference, ...]


class Ending(StrEnum):
    """How a replay ended without diverging."""

    COMPLETE = "complete"
    ENDS_EARLY = "ends_early"


class ReplayEnd(msgspec.Struct, frozen=True):
    """A replay that agreed to its end.

    ``next_turn`` is what the script did beyond the journal: requests that no frame recorded, or its end. It is
    None where the script waits for responses that the journal does not hold. ``unanswered`` lists the calls
    that were recorded and have no recorded response, in their order.
    """

    ending: Ending
    frames: int
    next_turn: Turn | None
    unanswered: tuple[dict[str, Any], ...]


class Diverged(Exception):
    """Raised by the replayer at the first frame that differs."""

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(f"the replay differs at frame {divergence.frame}")
        self.divergence = divergence


class Replayer:
    """Replays ``frames`` (from frame 0 on) in ``worker``, which was started and has not yet run."""

    def __init__(self, worker: Worker, frames: Sequence[Frame]) -> None:
        self.worker = worker
        self.frames = frames
        self.position = 1
        self._open: dict[int, dict[str, Any]] = {}

    async def run(self) -> ReplayEnd:
        """Go to the end of the journal. Raises Diverged, and WorkerDied where the worker does not survive."""
        turn = await self.worker.first_turn()
        while True:
            ahead = self.match(turn)
            if ahead is not None:
                return self._end(Ending.ENDS_EARLY, ahead)
            if turn.end is not None:
                return self._end(Ending.COMPLETE, None)
            batch = self.batch()
            if batch is None:
                ended = self.position < len(self.frames)
                return self._end(Ending.COMPLETE if ended else Ending.ENDS_EARLY, None)
            turn = await self.worker.give(batch)

    def match(self, turn: Turn) -> Turn | None:
        """Compare one turn with the next recorded frames.

        Returns None where it was recorded whole, or the turn itself where the journal ends before it.
        """
        for index, request in enumerate(turn.requests):
            frame = self._next()
            if frame is None:
                if index:
                    self._diverge(None, request)
                return turn
            if frame.kind is not FrameKind.REQUEST:
                if self._engine_end(frame):
                    return None
                self._diverge(frame, request)
            if frame.body != request.body:
                self._diverge(frame, request)
            for call in request.calls:
                if "id" in call:
                    self._open[call["id"]] = call
            self.position += 1
        if turn.end is None:
            return None
        frame = self._next()
        if frame is None:
            return turn
        if frame.kind is FrameKind.END and not self._engine_end(frame) and frame.body != turn.end.body:
            raise Diverged(
                self._divergence(frame, jsontext.parse(turn.end.body, "the end"), turn.end.position)
            )
        if frame.kind is not FrameKind.END:
            raise Diverged(
                self._divergence(frame, jsontext.parse(turn.end.body, "the end"), turn.end.position)
            )
        self.position += 1
        self._check_surplus()
        return None

    def batch(self) -> list[bytes] | None:
        """The next recorded response batch, or None where the journal holds none (more)."""
        bodies: list[bytes] = []
        while True:
            frame = self._next()
            if frame is None:
                return None
            if frame.kind is FrameKind.END and self._engine_end(frame) and not bodies:
                return None
            if frame.kind is not FrameKind.RESPONSE:
                self._diverge(frame, None)
            body = jsontext.parse(frame.body, f"frame {frame.number}")
            for result in body.get("results", ()):
                if result.get("id") not in self._open:
                    self._diverge(frame, None)
                del self._open[result["id"]]
            bodies.append(frame.body)
            self.position += 1
            if not body.get("more"):
                return bodies

    def _next(self) -> Frame | None:
        return self.frames[self.position] if self.position < len(self.frames) else None

    def _engine_end(self, frame: Frame) -> bool:
        """Whether the engine, not the script, ended the recorded run here."""
        return frame.kind is FrameKind.END and jsontext.parse(frame.body, "the end").get("by") == "engine"

    def _check_surplus(self) -> None:
        frame = self._next()
        if frame is not None:
            self._diverge(frame, None)

    def _end(self, ending: Ending, turn: Turn | None) -> ReplayEnd:
        return ReplayEnd(ending, len(self.frames), turn, tuple(self._open.values()))

    def _diverge(self, frame: Frame | None, request: RequestFrame | None) -> None:
        now = None if request is None else jsontext.parse(request.body, "a request")
        position = None
        if request is not None:
            position = next((place for place in request.positions if place is not None), None)
        raise Diverged(self._divergence(frame, now, position))

    def _divergence(self, frame: Frame | None, now: Any, position: tuple[int, int] | None) -> Divergence:
        recorded = None if frame is None else jsontext.parse(frame.body, f"frame {frame.number}")
        if position is None and frame is not None:
            position = next((place for place in frame.side.positions if place is not None), None)
        line, column = position if position is not None else (None, None)
        return Divergence(
            frame=self.position,
            agreed=self.position - 1,
            line=line,
            column=column,
            recorded=recorded,
            now=now,
            differences=tuple(differences(recorded, now)),
        )


def differences(recorded: Any, now: Any) -> list[Difference]:
    """The places at which two JSON values differ, in document order, at most MOST_DIFFERENCES."""
    found: list[Difference] = []
    _compare("", recorded, now, found)
    return found


def _compare(path: str, recorded: Any, now: Any, found: list[Difference]) -> None:
    if len(found) >= MOST_DIFFERENCES:
        return
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in sorted(recorded.keys() | now.keys()):
            inner = f"{path}.{key}" if path else key
            _compare(inner, recorded.get(key, _MISSING), now.get(key, _MISSING), found)
    elif isinstance(recorded, list) and isinstance(now, list):
        for index in range(max(len(recorded), len(now))):
            left = recorded[index] if index < len(recorded) else _MISSING
            right = now[index] if index < len(now) else _MISSING
            _compare(f"{path}[{index}]", left, right, found)
    elif type(recorded) is not type(now) or recorded != now:
        found.append(Difference(path, recorded, now))
