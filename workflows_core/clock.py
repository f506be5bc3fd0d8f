"""The time of this process, in microseconds since the epoch.

The wall clock is read once, at the start; from then on boot time counts, so that setting the clock neither ends a
deadline nor moves it. An owner of a store starts anew with ``start``: across restarts time is the wall clock, or the
latest time that was stored where that is later, so that it never goes back.
"""

from __future__ import annotations

import time
from typing import Final

#: Counts time asleep: Linux has a clock for it, elsewhere CLOCK_MONOTONIC does. Python's monotonic() does not.
_BOOT: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_offset: int | None = None


def boot_ns() -> int:
    """Nanoseconds since some moment of this boot, time asleep included."""
    return time.clock_gettime_ns(_BOOT)


def wall_ns() -> int:
    """The wall clock in nanoseconds since the epoch."""
    return time.time_ns()


def boot_time() -> float:
    """Seconds since some moment of this boot, time asleep included."""
    return boot_ns() / 1e9


def start(latest: int = 0) -> None:
    """Read the wall clock again; ``latest`` (microseconds since the epoch) is the earliest time it may be."""
    global _offset
    _offset = max(wall_ns(), latest * 1000) - boot_ns()


def now() -> int:
    """Microseconds since the epoch by this process's clock."""
    if _offset is None:
        start()
    assert _offset is not None
    return (boot_ns() + _offset) // 1000
