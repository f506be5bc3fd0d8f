"""The execution budget of a run and the deadline of its wait.

Inside a process time is boot time (see clock.py). Across restarts the record keeps what was used and since when
it has been running, in microseconds since the epoch:
a crash during execution consumes the time until someone recovers, a wait for a person consumes none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..clock import boot_time, now
from ..model import RunRecord


def used_by(record: RunRecord, at: int) -> int:
    """Microseconds of the execution budget that a record has used at time ``at``."""
    if record.active_since is None:
        return record.used
    return record.used + max(0, at - record.active_since)


def seconds_left(record: RunRecord, at: int) -> float:
    return record.limits.timeout_seconds - used_by(record, at) / 1e6


class Deadline:
    """Calls ``passed`` once boot time reaches the deadline; looks at least once a second.

    A loop timer alone does not count time asleep.
    """

    def __init__(self, passed: Callable[[], None]) -> None:
        self._passed = passed
        self._at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        self._at = boot_time() + seconds
        self._tick()

    def clear(self) -> None:
        self._at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        if self._at is None:
            return
        left = self._at - boot_time()
        if left <= 0:
            self._at = None
            self._passed()
            return
        self._timer = asyncio.get_running_loop().call_later(min(left, 1.0), self._tick)


def suspended(record: RunRecord) -> dict[str, Any]:
    """The changes of a record whose budget stops running now."""
    return {"used": used_by(record, now()), "active_since": None}


def resumed(record: RunRecord) -> dict[str, Any]:
    """The changes of a record whose budget runs from now on, with what is used so far kept."""
    at = now()
    return {"used": used_by(record, at), "active_since": at}
