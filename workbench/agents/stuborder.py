"""The recorded order of answers: a fork gets its recorded answers in the batches in which its parent got them.

An entry with a ``turn`` belongs to a batch. A batch is given once every call of it and of the batches before it is
there; the calls of one batch are given in one step of the event loop, so that the engine delivers them together.
An edited script may never make some of those calls: where nothing more comes for PATIENCE seconds, the earliest
batch is given as it is, and what is still missing up to it is not waited for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

#: Seconds without a further call after which a batch is given although calls of it are missing.
PATIENCE: Final = 0.5
#: Seconds between two batches where no call in between shows that the first was delivered.
GAP: Final = 0.05
_KEPT_RUNS: Final = 64


class Order:
    """The batches of one run. ``turns`` is the batch of each entry that has one, by the entry's index."""

    def __init__(self, turns: Mapping[int, int]) -> None:
        self._missing = dict(turns)
        self._waiting: dict[int, tuple[int, asyncio.Future[None]]] = {}
        self._timer: asyncio.Handle | None = None
        self._given = False

    @property
    def idle(self) -> bool:
        return not self._waiting

    async def turn(self, index: int, turn: int) -> None:
        """Return when the answer of entry ``index``, which belongs to the batch ``turn``, is to be given."""
        self._missing.pop(index, None)
        done = asyncio.get_running_loop().create_future()
        self._waiting[index] = (turn, done)
        self._given = False  # a new call: what was given before has been delivered
        self._plan()
        try:
            await done
        finally:
            if self._waiting.pop(index, None) is not None:
                self._plan()

    def _plan(self) -> None:
        """Set the one timer that gives the next batch."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        first = min(turn for turn, _ in self._waiting.values())
        if any(turn <= first for turn in self._missing.values()):
            self._timer = loop.call_later(PATIENCE, self._give)
        elif self._given:
            self._timer = loop.call_later(GAP, self._give)
        else:
            self._timer = loop.call_soon(self._give)

    def _give(self) -> None:
        self._timer = None
        first = min(turn for turn, _ in self._waiting.values())
        self._missing = {index: turn for index, turn in self._missing.items() if turn > first}
        for index, (turn, done) in list(self._waiting.items()):
            if turn == first:
                del self._waiting[index]
                if not done.done():
                    done.set_result(None)
        self._given = True
        self._plan()


class Orders:
    """The orders of the runs that go on, the latest few: an idle one that is dropped waits for nothing."""

    def __init__(self) -> None:
        self._runs: dict[str, Order] = {}

    def of(self, run_id: str, turns: Mapping[int, int]) -> Order:
        known = self._runs.get(run_id)
        if known is None:
            for other in [name for name, order in self._runs.items() if order.idle]:
                if len(self._runs) < _KEPT_RUNS:
                    break
                del self._runs[other]
            known = self._runs[run_id] = Order(turns)
        return known
