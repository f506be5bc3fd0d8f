"""Merged ranges of what was shown: the arithmetic behind *shown in full*."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Coverage:
    """The merged ranges, half open, of the ``size`` bytes that were shown."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.seen = 0
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return list(zip(self._starts, self._ends, strict=True))

    @property
    def complete(self) -> bool:
        return self.seen == self.size

    @property
    def fraction(self) -> float:
        """1.0 only where every byte was shown."""
        return 1.0 if self.complete else self.seen / self.size

    @property
    def percent(self) -> int:
        """Rounded down, so that 100 means all."""
        return 100 if self.complete else self.seen * 100 // self.size

    def add(self, start: int, end: int) -> bool:
        """The bytes from ``start`` to ``end`` were shown; whether that is news."""
        start, end = max(0, start), min(end, self.size)
        if start >= end:
            return False
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        before = sum(self._ends[n] - self._starts[n] for n in range(first, last))
        self._starts[first:last], self._ends[first:last] = [start], [end]
        self.seen += end - start - before
        return end - start > before

    def gaps(self) -> list[tuple[int, int]]:
        """The ranges that were not shown, in order."""
        edges = [0, *(edge for pair in self.ranges for edge in pair), self.size]
        return [(edges[n], edges[n + 1]) for n in range(0, len(edges), 2) if edges[n] < edges[n + 1]]

    def next_unseen(self, after: int = 0) -> tuple[int, int] | None:
        """The first range not shown that starts at ``after`` or behind it, else the first of all."""
        gaps = self.gaps()
        return next((gap for gap in gaps if gap[0] >= after), gaps[0] if gaps else None)
