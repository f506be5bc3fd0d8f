"""One reading at a time: requests that come while it runs are answered by one more."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode
from textual.worker import Worker


class Refresher:
    """Runs ``read`` in a worker of ``node``. However often it is requested, at most one runs and one waits.

    Cancelling a reading for every change would starve it while changes are frequent; queueing them all would
    fall behind. The last request is always followed by a complete reading.
    """

    def __init__(self, node: DOMNode, read: Callable[[], Coroutine[Any, Any, None]], group: str) -> None:
        self._node = node
        self._read = read
        self._group = group
        self._running = False
        self._again = False
        self._worker: Worker[None] | None = None

    def request(self) -> None:
        if self._running:
            self._again = True
            return
        self._running = True
        worker: Worker[None] = self._node.run_worker(self._work, group=self._group, exit_on_error=False)
        self._worker = worker

    async def _work(self) -> None:
        try:
            while True:
                self._again = False
                await self._read()
                if not self._again:
                    return
        finally:
            self._running = False
