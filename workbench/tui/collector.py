"""Keeps Python's garbage collector out of the way of keys.

A full collection of a started application takes 50 to 70 ms, which a person feels. So what exists after the
start is frozen, and the rest is collected when nobody has pressed a key for a while. Scrolling makes 1,500 objects a
key that only a collection frees; so while somebody works young objects are collected alone, and what they leave
before it has piled up to more than 20 ms of work.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

#: Seconds without a key after which collecting disturbs nobody.
IDLE_SECONDS: Final = 1.0
#: New objects since the last collection from which a full one is worth while.
WORTH_WHILE: Final = 2_000
#: New objects from which they alone are collected, whatever a person does.
YOUNG: Final = 10_000
NEVER: Final = 1_000_000
#: Collections of young objects after which what they left is collected too.
PILED: Final = 5


class IdleCollector:
    """``start`` after the first paint, ``stop`` at the end. ``clock`` gives seconds, rising."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last_key = clock()
        self._before = (gc.isenabled(), gc.get_threshold())
        self.started = False

    def start(self) -> None:
        self._before = (gc.isenabled(), gc.get_threshold())
        gc.collect()
        gc.freeze()
        gc.enable()
        gc.set_threshold(YOUNG, NEVER, NEVER)
        self.started = True

    def key(self) -> None:
        """A key was pressed."""
        self._last_key = self._clock()
        if self.started and gc.get_count()[1] >= PILED:
            gc.collect()

    def due(self) -> bool:
        """Whether to collect everything now."""
        young, *older = gc.get_count()
        idle = self._clock() - self._last_key >= IDLE_SECONDS
        return self.started and idle and (young >= WORTH_WHILE or any(older))

    def poll(self) -> None:
        """Collect where it is due; call this about once a second."""
        if self.due():
            gc.collect()

    def stop(self) -> None:
        """Put everything back as it was."""
        if self.started:
            self.started = False
            gc.unfreeze()
            enabled, thresholds = self._before
            gc.set_threshold(*thresholds)
            if not enabled:
                gc.disable()
