"""The lines over the tabs of the Review screen."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from textual.strip import Strip

from .bars import LineBar
from .lines import Line, drawn


class ReviewHeader(LineBar):
    """Some lines that are laid out for the width there is."""

    DEFAULT_CSS = """
    ReviewHeader { height: 2; margin-bottom: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._make: Callable[[int], list[Line]] | None = None
        self._lines: list[Line] = []

    def show(self, make: Callable[[int], list[Line]] | None) -> None:
        self._make = make
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        lines = [] if self._make is None or self.size.width < 1 else self._make(self.size.width)
        if lines != self._lines:
            self._lines = lines
            self.styles.height = max(1, len(lines))
            self.refresh()

    def render_line(self, y: int) -> Strip:
        base, width = self.rich_style, self.size.width
        line = self._lines[y] if y < len(self._lines) else ()
        return Strip(
            [Segment(drawn(text, self.app), base + self._tone(tone) if tone else base) for text, tone in line]
        ).crop_extend(0, width, base)
