"""The recorded order of answers: a fork gets its recorded answers in the batches in which its parent got them.

An entry with a ``turn`` belongs to a batch. A batch is given once the engine has committed the answers of the batch
before it, and every call of it and of the batches before it is there; the calls of one batch are given in one step
of the event loop, so that the engine delivers them together.
An edited script may never make some of those calls: where nothing more comes for PATIENCE seconds, the earliest
batch is given as it is, and what is still missing up to it is not waited for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

#: Seconds without a further call after which a batch is given although calls of it are missing.
PATIENCE: Final = 0.5
_KEPT_RUNS: Final = 64


class Order:
    """The batches of one run, of which each call that has one is expected (``expect``)."""

    def __init__(self) -> None:
        self._came: set[str] = set()
        self._missing: dict[str, int] = {}
        self._waiting: dict[str, tuple[int, asyncio.Future[None]]] = {}
        #: Answers that were given and that the engine has not committed yet.
        self._given: set[str] = set()
        self._timer: asyncio.Handle | None = None

    @property
    def idle(self) -> bool:
        return not self._waiting

    def expect(self, turns: Mapping[str, int]) -> None:
        """Wait for these calls, by their step, each with its batch; those that came already excepted."""
        self._missing |= {step: turn for step, turn in turns.items() if step not in self._came}

    async def turn(self, step: str, turn: int) -> None:
        """Return when the answer of the call ``step``, which belongs to the batch ``turn``, is to be given."""
        self._came.add(step)
        self._missing.pop(step, None)
        done = asyncio.get_running_loop().create_future()
        self._waiting[step] = (turn, done)
        self._plan()
        try:
            await done
        finally:
            if self._waiting.pop(step, None) is not None:
                self._plan()

    def delivered(self, steps: Collection[str]) -> None:
        """The engine has committed the answers of these calls: what comes now is delivered after them."""
        if self._given.intersection(steps):
            self._given.difference_update(steps)
            self._plan()

    def _plan(self) -> None:
        """Set the one timer that gives the next batch, where nothing is under way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting or self._given:
            return
        loop = asyncio.get_running_loop()
        first = min(turn for turn, _ in self._waiting.values())
        if any(turn <= first for turn in self._missing.values()):
            self._timer = loop.call_later(PATIENCE, self._give)
        else:
            self._timer = loop.call_soon(self._give)

    def _give(self) -> None:
        self._timer = None
        first = min(turn for turn, _ in self._waiting.values())
        self._missing = {step: turn for step, turn in self._missing.items() if turn > first}
        for step, (turn, done) in list(self._waiting.items()):
            if turn == first:
                del self._waiting[step]
                if not done.done():
                    done.set_result(None)
                    self._given.add(step)
        self._plan()


class Orders:
    """The orders of the runs that go on, the latest few: an idle one that is dropped waits for nothing."""

    def __init__(self) -> None:
        self._runs: dict[str, Order] = {}
        #: The runs whose whole recording is known; of the others, what an earlier process left open.
        self._whole: set[str] = set()

    def of(self, run_id: str, turns: Mapping[str, int], *, whole: bool) -> Order:
        """The order of a run. ``turns`` is the batch of each call of its recording, or (not ``whole``) of those that
        an earlier process of this workspace left open."""
        known = self._runs.get(run_id)
        if known is None:
            for other in [name for name, order in self._runs.items() if order.idle]:
                if len(self._runs) < _KEPT_RUNS:
                    break
                del self._runs[other]
                self._whole.discard(other)
            known = self._runs[run_id] = Order()
        elif run_id in self._whole:
            return known
        known.expect(turns)
        if whole:
            self._whole.add(run_id)
        return known

    def delivered(self, run_id: str, steps: Collection[str]) -> None:
        """As ``Order.delivered``; a run that has no order has nothing to wait for."""
        order = self._runs.get(run_id)
        if order is not None:
            order.delivered(steps)
