"""Keeps Python's garbage collector out of the way of keys.

A full collection of a started application takes 50 to 70 ms, which a person feels. So what exists after the
start is frozen, automatic collection is switched off, and garbage is collected when nobody has pressed a key
for a while, or when so much has piled up that memory matters more.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

#: Seconds without a key after which collecting disturbs nobody.
IDLE_SECONDS: Final = 1.0
#: New objects since the last collection from which one is worth while, and from which it is made anyway.
WORTH_WHILE: Final = 2_000
TOO_MANY: Final = 500_000


class IdleCollector:
    """``start`` after the first paint, ``stop`` at the end. ``clock`` gives seconds, rising."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last_key = clock()
        self._was_enabled = False
        self.started = False

    def start(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.collect()
        gc.freeze()
        gc.disable()
        self.started = True

    def key(self) -> None:
        """A key was pressed."""
        self._last_key = self._clock()

    def due(self) -> bool:
        """Whether to collect now."""
        young = gc.get_count()[0]
        idle = self._clock() - self._last_key >= IDLE_SECONDS
        return self.started and ((idle and young >= WORTH_WHILE) or young >= TOO_MANY)

    def poll(self) -> None:
        """Collect where it is due; call this about once a second."""
        if self.due():
            gc.collect()

    def stop(self) -> None:
        """Put everything back as it was."""
        if self.started:
            self.started = False
            gc.unfreeze()
            if self._was_enabled:
                gc.enable()
