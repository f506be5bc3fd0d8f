"""Messages that concern more than one widget. What one widget sends is nested in its own class."""

from __future__ import annotations

from textual.message import Message


class RunsChanged(Message):
    """Runs changed; ``run_ids`` are all that did since the last one. Sent at most ten times a second."""

    def __init__(self, run_ids: frozenset[str]) -> None:
        super().__init__()
        self.run_ids = run_ids


class Tick(Message, bubble=False):
    """A second has passed: relative times are due. ``now`` in microseconds since the epoch."""

    def __init__(self, now: int) -> None:
        super().__init__()
        self.now = now
