"""A worker that is given recorded responses before it asks for them, so that a replay never waits for a pipe.

The process reads a batch whenever a turn has ended, as ever; here the batches lie in its pipe already. What it
says is checked turn by turn like that of any worker. Once the batches are used up it goes on with ``give``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from . import protocol
from .process import Worker
from .protocol import pack
from .turns import Turn


class _Result(msgspec.Struct):
    id: int


class _Results(msgspec.Struct):
    results: list[_Result]


_RESULTS = msgspec.json.Decoder(_Results)


class ReplayWorker(Worker):
    """A worker with ``run_ahead`` and ``next_turn`` beside ``first_turn`` and ``give``."""

    def __init__(self, script: str) -> None:
        super().__init__(script)
        self._turns: deque[Turn] = deque()
        self._answers: deque[list[int]] = deque()
        self._left = 0

    def run_ahead(self, batches: Sequence[Sequence[bytes]]) -> None:
        """Start the script and hand over every batch at once; ``next_turn`` then yields one turn more than batches.

        Each batch is a sequence of response bodies as for ``give``. Raises ValueError for a batch that is empty
        or has a body too large for a frame.
        """
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
