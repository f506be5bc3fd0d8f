"""A worker that is given recorded responses before it asks for them, so that a replay never waits for a pipe.

The process reads a batch whenever a turn has ended, as ever; here the batches lie in its pipe already. What it
says is checked turn by turn like that of any worker. Once the batches are used up it goes on with ``give``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from . import protocol
from .launch import CHILD_PARTS, PRELUDE_PARTS, Program
from .process import Worker
from .protocol import pack
from .turns import Position, RequestFrame, Turn, TurnReader


class _Result(msgspec.Struct):
    id: int


class _Results(msgspec.Struct):
    results: list[_Result]


_RESULTS = msgspec.json.Decoder(_Results)
_JSON = msgspec.json.Decoder()
_SORTED = msgspec.json.Encoder(order="sorted")

#: A recorded request: its canonical body, and where each of its calls was made.
Expected = tuple[bytes, Sequence[Position | None]]


class ExpectingReader(TurnReader):
    """A reader that knows what will be asked: a request that is byte for byte what was recorded needs no checks.

    Any other takes the ordinary way, and so does everything after it.
    """

    def __init__(self, script: str) -> None:
        super().__init__(script)
        self.expected: deque[Expected] = deque()

    def _read_request(self, payload: bytes) -> RequestFrame:
        found = self._expected_request(payload) if self.expected else None
        if found is None:
            self.expected.clear()
            return super()._read_request(payload)
        return found

    def _expected_request(self, payload: bytes) -> RequestFrame | None:
        body, positions = self.expected.popleft()
        if self._end is not None or self._places is None or (self._requests and not self._more):
            return None
        try:
            parsed = _JSON.decode(payload)
        except (msgspec.MsgspecError, RecursionError):
            return None
        # Where the two encodings differ for equal values, the ordinary way compares them.
        if _SORTED.encode(parsed) != body:
            return None
        calls = tuple(parsed["calls"])
        if len(positions) != len(calls):
            return None
        for call in calls:
            if "id" in call:
                self._last_id = call["id"]
                self._outstanding.add(call["id"])
                if "step_id" in call:
                    self._steps.add(call["step_id"])
        self._more = "more" in parsed
        self._places = None
        return RequestFrame(body, calls, tuple(positions))


#: The plain worker, with the same prelude and the same child but for how it reads and writes.
AHEAD = Program((*CHILD_PARTS, "ahead_child.py"), PRELUDE_PARTS)


class ReplayWorker(Worker):
    """A worker with ``run_ahead`` and ``next_turn`` beside ``first_turn`` and ``give``.

    Where it dies, the last turns before its death may be missing: it writes in larger pieces.
    """

    _program = AHEAD

    def __init__(self, script: str) -> None:
        super().__init__(script)
        self._expecting = ExpectingReader(script)
        self._reader = self._expecting
        self._turns: deque[Turn] = deque()
        self._answers: deque[list[int]] = deque()
        self._left = 0

    def run_ahead(self, batches: Sequence[Sequence[bytes]], expected: Iterable[Expected] = ()) -> None:
        """Start the script and hand over every batch at once; ``next_turn`` then yields one turn more than batches.

        Each batch is a sequence of response bodies as for ``give``. ``expected`` are the recorded requests, in
        order: what agrees with them is read faster. Raises ValueError for a batch that is empty or has a body too
        large for a frame.
        """
        self._expecting.expected.extend(expected)
        data = pack(protocol.GO, b"") + self._laid_ahead(batches)
        self._outgoing += data
        self._flush()

    def _laid_ahead(self, batches: Sequence[Sequence[bytes]]) -> bytes:
        """The frames of all batches; remembers which calls each of them answers."""
        data = bytearray()
        for batch in batches:
            if not batch:
                raise ValueError("an empty batch")
            ids: list[int] = []
            last = len(batch) - 1
            for index, body in enumerate(batch):
                if len(body) > protocol.FRAME_BYTES:
                    raise ValueError(f"a response frame of {len(body)} bytes; at most {protocol.FRAME_BYTES}")
                ids += [result.id for result in _RESULTS.decode(body).results]
                data += pack(protocol.RESPONSE_LAST if index == last else protocol.RESPONSE, body)
            self._answers.append(ids)
        self._left = len(batches) + 1
        return bytes(data)

    async def next_turn(self) -> Turn:
        """The next turn in order. Raises WorkerDied once the turns that came before its death are used up."""
        if self._turns:
            return self._turns.popleft()
        turn: Turn = await self._wait()
        return turn

    def _frame(self, kind: int, payload: bytes) -> None:
        if self._starting or self._left == 0:
            super()._frame(kind, payload)
            return
        turn = self._reader.feed(kind, payload)
        if turn is None:
            return
        self._left -= 1
        if self._answers:
            try:
                self._reader.answer(self._answers.popleft())
            except ValueError:
                # The script has not asked what the next batch answers: whoever compares the turns finds out.
                self._answers.clear()
                self._left = 0
                self.kill()
        self._turn_done(turn)

    def _turn_done(self, turn: Turn) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(turn)
        else:
            self._turns.append(turn)
