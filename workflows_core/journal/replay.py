"""Replay: run the recorded script again in a real worker and compare what it asks with what was recorded.

A :class:`Replayer` drives one worker through a journal. It touches no network, no Agent and no store
(invariant 9): recorded responses are given back in their recorded batches, and the first request that
differs, is missing or is surplus stops it. A journal that was cut off by a crash "ends here", which is not a
divergence: recovery goes on from exactly that place with the same worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final, NoReturn

import msgspec

from .. import jsontext
from ..limits import FRAME_BYTES
from ..worker.ahead import Expected, ReplayWorker
from ..worker.process import RequestFrame, Turn, Worker
from .frames import Frame, FrameKind, pack_results

_MISSING: Final = {"$type": "missing"}
MOST_DIFFERENCES: Final = 50
#: How a script ends at a bound that depends on the machine, or that replay sets laxer.
LIMIT_CODES: Final = frozenset({"time_limit", "memory_limit", "stack_limit", "job_limit"})

#: Turns a recorded response body into the one that JavaScript is given (captured bytes are put in).
Expand = Callable[[bytes], bytes]


class _Result(msgspec.Struct):
    id: int


class _Response(msgspec.Struct):
    results: list[_Result]
    more: bool = False


#: Reads only what the order of a replay depends on.
_RESPONSE: Final = msgspec.json.Decoder(_Response)


class Difference(msgspec.Struct, frozen=True):
    """One place at which two JSON values differ. ``path`` is like ``calls[0].task.round``."""

    path: str
    recorded: Any
    now: Any


class Divergence(msgspec.Struct, frozen=True):
    """Where a replay stopped agreeing.

    ``frame`` is the number of the first frame that differs, ``agreed`` that of the last one that agreed.
    ``recorded`` or ``now`` is None where that side has nothing at this place. ``line`` and ``column`` are
    where the script is now, or was when the frame was recorded; an edited script has only the former. ``call``
    counts the calls, from 0 over the whole run, up to the first one of this frame that differs; it is None where
    the script makes no call there. ``locals`` are the variables in sight where
    that call was made, once somebody looked (debugger.explain).
    """

    frame: int
    agreed: int
    line: int | None
    column: int | None
    recorded: Any
    now: Any
    differences: tuple[Difference, ...]
    call: int | None = None
    locals: dict[str, Any] | None = None


class Ending(StrEnum):
    """How a replay ended without diverging. LIMIT: a bound of the machine was reached, which proves nothing."""

    COMPLETE = "complete"
    ENDS_EARLY = "ends_early"
    LIMIT = "limit"


class ReplayEnd(msgspec.Struct, frozen=True):
    """A replay that agreed to its end.

    ``next_turn`` is what the script did beyond the journal: requests that no frame recorded, or its end. It is
    None where the script waits for responses that the journal does not hold. ``unanswered`` lists the calls
    that were recorded and have no recorded response, in their order. ``frames`` counts those of the journal,
    ``agreed`` is the number of the last one that agreed.
    """

    ending: Ending
    frames: int
    next_turn: Turn | None
    unanswered: tuple[dict[str, Any], ...]
    agreed: int = 0


class Diverged(Exception):
    """Raised by the replayer at the first frame that differs."""

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(f"the replay differs at frame {divergence.frame}")
        self.divergence = divergence


class Replayer:
    """Replays ``frames`` (from frame 0 on) in ``worker``, which was started and has not yet run.

    A ReplayWorker gets the recorded responses ahead and needs no round trip a turn; after ``run`` both kinds
    of worker stand where the journal ends. ``expand`` is applied to the bodies that the script is given. ``edited``
    says that the script is another than the recorded one: recorded places are then none of its places.
    """

    def __init__(
        self, worker: Worker, frames: Sequence[Frame], expand: Expand | None = None, *, edited: bool = False
    ) -> None:
        self.worker = worker
        self.edited = edited
        self.frames = frames
        self.position = 1
        self.expand = expand
        self._open: dict[int, dict[str, Any]] = {}
        self._calls = 0
        self._limited = False

    async def run(self) -> ReplayEnd:
        """Go to the end of the journal. Raises Diverged, and WorkerDied where the worker does not survive."""
        worker = self.worker
        ahead = isinstance(worker, ReplayWorker)
        if isinstance(worker, ReplayWorker):
            worker.run_ahead(
                response_batches(self.frames, self.expand),
                expected_requests(self.frames),
            )
            turn = await worker.next_turn()
        else:
            turn = await worker.first_turn()
        while True:
            beyond = self.match(turn)
            if beyond is not None:
                return self._end(Ending.ENDS_EARLY, beyond)
            if self._limited or turn.end is not None:
                return self._end(Ending.LIMIT if self._limited else Ending.COMPLETE, None)
            batch = self.batch()
            if batch is None:
                ended = self.position < len(self.frames)
                return self._end(Ending.COMPLETE if ended else Ending.ENDS_EARLY, None)
            if isinstance(worker, ReplayWorker) and ahead:
                turn = await worker.next_turn()
            else:
                turn = await worker.give(expanded(batch, self.expand))

    def match(self, turn: Turn) -> Turn | None:
        """Compare one turn with the next recorded frames.

        Returns None where it was recorded whole, or where a limit ended either side; otherwise what of the
        turn lies beyond the journal. Raises Diverged.
        """
        for index, request in enumerate(turn.requests):
            frame = self._next()
            if frame is None:
                return replace(turn, requests=turn.requests[index:])
            if frame.kind is not FrameKind.REQUEST:
                if self._engine_end(frame):
                    return None
                if frame.kind is FrameKind.END and limit_code(frame.body) is not None:
                    self._limited = True
                    return None
                self._diverge(frame, turn, index)
            if frame.body != request.body:
                if self._cut_by_limit(frame, turn, index):
                    self._limited = True
                    return None
                self._diverge(frame, turn, index)
            for call in request.calls:
                self._calls += 1
                if "id" in call:
                    self._open[call["id"]] = call
            self.position += 1
        if turn.end is None:
            return None
        frame = self._next()
        if frame is None:
            return replace(turn, requests=())
        if self._only_one_limited(frame, turn):
            self._limited = True
            return None
        if frame.kind is not FrameKind.END or (
            not self._engine_end(frame) and frame.body != turn.end.body and not _same_limit(frame, turn)
        ):
            now = jsontext.parse(turn.end.body, "the end")
            raise Diverged(self._divergence(frame, now, turn.end.position))
        self.position += 1
        surplus = self._next()
        if surplus is not None:
            self._diverge(surplus)
        return None

    def batch(self) -> list[bytes] | None:
        """The next recorded response batch, or None where the journal holds none, or not the whole of it."""
        bodies: list[bytes] = []
        answered: list[int] = []
        while True:
            frame = self._next()
            if frame is None:
                return None
            if frame.kind is FrameKind.END and self._engine_end(frame) and not bodies:
                return None
            if frame.kind is not FrameKind.RESPONSE:
                self._diverge(frame)
            body = _RESPONSE.decode(frame.body)
            for result in body.results:
                if result.id not in self._open or result.id in answered:
                    self._diverge(frame)
                answered.append(result.id)
            bodies.append(frame.body)
            self.position += 1
            if not body.more:
                for call_id in answered:
                    del self._open[call_id]
                return bodies

    def _next(self) -> Frame | None:
        return self.frames[self.position] if self.position < len(self.frames) else None

    def _engine_end(self, frame: Frame) -> bool:
        """Whether the engine, not the script, ended the recorded run here."""
        return frame.kind is FrameKind.END and jsontext.parse(frame.body, "the end").get("by") == "engine"

    def _only_one_limited(self, frame: Frame, turn: Turn) -> bool:
        """Whether a bound of the machine ended one side here and not the other."""
        assert turn.end is not None
        recorded = limit_code(frame.body) if frame.kind is FrameKind.END else None
        return recorded != limit_code(turn.end.body)

    def _cut_by_limit(self, frame: Frame, turn: Turn, index: int) -> bool:
        """Whether one side asks what the other one asks in this frame, and less, because a bound ended it there."""
        recorded = jsontext.parse(frame.body, f"frame {frame.number}")["calls"]
        now = list(turn.requests[index].calls)
        if len(now) < len(recorded):
            ended = turn.end if index + 1 == len(turn.requests) else None
            limited = ended is not None and limit_code(ended.body) is not None
        else:
            following = self.frames[self.position + 1 : self.position + 2]
            limited = any(
                each.kind is FrameKind.END and limit_code(each.body) is not None for each in following
            )
        most = min(len(now), len(recorded))
        return limited and now[:most] == recorded[:most]

    def _end(self, ending: Ending, turn: Turn | None) -> ReplayEnd:
        return ReplayEnd(ending, len(self.frames), turn, tuple(self._open.values()), self.position - 1)

    def _diverge(self, frame: Frame, turn: Turn | None = None, at: int = 0) -> NoReturn:
        """``frame`` differs from request number ``at`` of ``turn``; without a turn the script asks nothing here."""
        if turn is None:
            raise Diverged(self._divergence(frame, None, None))
        request = turn.requests[at]
        now = jsontext.parse(request.body, "a request")
        index = _first_difference(frame, request)
        places = [place for each in turn.requests[at:] for place in each.positions]
        position = next((place for place in places[index:] if place is not None), None)
        if index < len(places):
            raise Diverged(self._divergence(frame, now, position, self._calls + index))
        # All that it asks is as recorded, and then it ends or waits: none of its calls is the one that differs.
        if turn.end is not None:
            position = turn.end.position
        elif not self.edited:
            position = next((place for place in frame.side.positions[index:] if place is not None), None)
        raise Diverged(self._divergence(frame, now, position))

    def _divergence(
        self, frame: Frame | None, now: Any, position: tuple[int, int] | None, call: int | None = None
    ) -> Divergence:
        recorded = None if frame is None else jsontext.parse(frame.body, f"frame {frame.number}")
        if position is None and frame is not None and not self.edited:
            position = next((place for place in frame.side.positions if place is not None), None)
            position = position or frame.side.position
        line, column = position if position is not None else (None, None)
        return Divergence(
            frame=self.position,
            agreed=self.position - 1,
            line=line,
            column=column,
            recorded=recorded,
            now=now,
            differences=tuple(differences(recorded, now)),
            call=call,
        )


def limit_code(body: bytes) -> str | None:
    """The code of LIMIT_CODES by which an end body says that the script ended, or None."""
    end = jsontext.parse(body, "the end")
    code = (end.get("error") or {}).get("code") if end.get("by") == "script" else None
    return code if code in LIMIT_CODES else None


def _same_limit(frame: Frame, turn: Turn) -> bool:
    assert turn.end is not None
    recorded = limit_code(frame.body)
    return recorded is not None and recorded == limit_code(turn.end.body)


def _first_difference(frame: Frame, request: RequestFrame) -> int:
    """The index of the first call in which a recorded request frame and the one of now differ.

    It is the number of calls now where all of them are as recorded.
    """
    if frame.kind is not FrameKind.REQUEST:
        return 0
    recorded = jsontext.parse(frame.body, f"frame {frame.number}").get("calls", [])
    for index, call in enumerate(request.calls):
        if index >= len(recorded) or recorded[index] != call:
            return index
    return len(request.calls)


def expanded(bodies: Sequence[bytes], expand: Expand | None) -> list[bytes]:
    """One batch as JavaScript is given it. Bodies that no longer fit a frame are packed anew."""
    if expand is None:
        return list(bodies)
    given = [expand(body) for body in bodies]
    if all(len(body) <= FRAME_BYTES for body in given):
        return given
    results = [jsontext.encode(result) for body in given for result in jsontext.parse(body)["results"]]
    return pack_results(results, FRAME_BYTES)


def response_batches(frames: Sequence[Frame], expand: Expand | None = None) -> list[list[bytes]]:
    """The response batches of a journal in order, as JavaScript is given them; a batch that was cut is left out."""
    batches: list[list[bytes]] = []
    bodies: list[bytes] = []
    for frame in frames:
        if frame.kind is not FrameKind.RESPONSE:
            bodies = []
            continue
        bodies.append(frame.body)
        if not _RESPONSE.decode(frame.body).more:
            batches.append(expanded(bodies, expand))
            bodies = []
    return batches


def expected_requests(frames: Sequence[Frame]) -> list[Expected]:
    """The recorded requests, for a worker that reads what was expected faster."""
    return [(frame.body, frame.side.positions) for frame in frames if frame.kind is FrameKind.REQUEST]


def differences(recorded: Any, now: Any) -> list[Difference]:
    """The places at which two JSON values differ, in document order, at most MOST_DIFFERENCES."""
    found: list[Difference] = []
    _compare("", recorded, now, found)
    return found


def _compare(path: str, recorded: Any, now: Any, found: list[Difference]) -> None:
    if len(found) >= MOST_DIFFERENCES:
        return
    if recorded is _MISSING or now is _MISSING:
        found.append(Difference(path, recorded, now))
    elif isinstance(recorded, dict) and isinstance(now, dict):
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
