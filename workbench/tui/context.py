"""What every screen is given: the client, the workspace, a person's settings, and changes of runs.

Screens reach the engine through ``context.client`` only. ``Changes`` turns its flood of notifications into at
most ten sets a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from workflows_core import model

from ..settings import Settings
from .graphics import Graphics

if TYPE_CHECKING:
    from ..client import Client
    from ..workspace import Workspace

#: Seconds between two paints of what is live.
PAINT_SECONDS: Final = 0.1


class Changes:
    """Collects ids of changed runs and hands them on in sets, the first at once, then ten a second at most.

    Lives on one asyncio loop; ``note`` is to be called there.
    """

    def __init__(self, period: float = PAINT_SECONDS) -> None:
        self._period = period
        self._pending: set[str] = set()
        self._listeners: list[Callable[[frozenset[str]], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._last = float("-inf")

    def listen(self, listener: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        """Call ``listener`` with each set from now on; the result stops that."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    @property
    def pending(self) -> bool:
        """Whether a change waits to be told."""
        return self._timer is not None

    def note(self, run_id: str) -> None:
        """A run changed. This is what ``Client.subscribe`` is given."""
        self._pending.add(run_id)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time(), self._last + self._period), self._flush)

    def close(self) -> None:
        """Forget what is pending; nobody is called any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._listeners.clear()
        self._pending.clear()

    def _flush(self) -> None:
        self._timer = None
        self._last = asyncio.get_running_loop().time()
        changed = frozenset(self._pending)
        self._pending.clear()
        for listener in tuple(self._listeners):
            listener(changed)


@dataclass(slots=True)
class AppContext:
    """Handed to the application once and read by every screen as ``screen.context``.

    ``clock`` gives the time in microseconds since the epoch; tests freeze it. ``graphics`` says whether the terminal
    can draw pictures.
    """

    client: Client
    workspace: Workspace
    settings: Settings
    clock: Callable[[], int] = model.now
    changes: Changes = field(default_factory=Changes)
    graphics: Graphics = field(default_factory=Graphics)
