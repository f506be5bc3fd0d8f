"""Comparing two texts: their differences with a few equal lines around each, side by side where there is room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from textual.widget import Widget

from ... import words
from ...inert import cells, inert
from .. import keymap
from ..widgets.lines import Line, LineList, Span, TextRows, fit
from ..widgets.pane import Pane
from .dialogs import Modal

#: Equal lines shown around a difference.
AROUND: Final = 3
#: Cells from which the two texts stand side by side, where no line has to be cut off for it.
SIDE_BY_SIDE: Final = 110


class Pair(NamedTuple):
    """One line of a comparison: its number and text on either side; None where a side has none.

    ``skipped`` equal lines stand before it that are not shown.
    """

    left: tuple[int, str] | None
    right: tuple[int, str] | None
    changed: bool
    skipped: int = 0


def compare(left: str, right: str) -> list[Pair]:
    """The differing lines of two texts with AROUND equal ones about them; empty where they are equal."""
    before, after = left.split("\n"), right.split("\n")
    pairs: list[Pair] = []
    shown = 0
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(AROUND):
        skipped = group[0][1] - shown
        for tag, i1, i2, j1, j2 in group:
            for at in range(max(i2 - i1, j2 - j1)):
                old = (i1 + at + 1, before[i1 + at]) if i1 + at < i2 else None
                new = (j1 + at + 1, after[j1 + at]) if j1 + at < j2 else None
                pairs.append(Pair(old, new, tag != "equal", skipped))
                skipped = 0
        shown = group[-1][2]
    return pairs


def below_each_other(pairs: Sequence[Pair]) -> list[Line]:
    """The comparison in one column: what only the left text has with a minus, the right one's with a plus."""
    lines: list[Line] = []
    removed: list[Line] = []
    added: list[Line] = []
    for pair in (*pairs, Pair(None, None, False)):
        if not pair.changed or pair.skipped:
            lines += [*removed, *added]
            removed, added = [], []
        if pair.skipped:
            lines.append(_skipped(pair.skipped))
        if not pair.changed:
            if pair.left is not None and pair.right is not None:
                lines.append((Span(f"{pair.left[0]:>4} {pair.right[0]:>4}   ", "quiet"), Span(pair.left[1])))
            continue
        if pair.left is not None:
            removed.append((Span(f"{pair.left[0]:>4}      - ", "bad"), Span(pair.left[1], "bad")))
        if pair.right is not None:
            added.append((Span(f"     {pair.right[0]:>4} + ", "good"), Span(pair.right[1], "good")))
    return lines


def fits_beside(pairs: Sequence[Pair], width: int) -> bool:
    """Whether the two texts can stand side by side in ``width`` cells without any line being cut off."""
    room = _half(width) - 7
    sides = [side for pair in pairs for side in (pair.left, pair.right) if side is not None]
    return width >= SIDE_BY_SIDE and all(cells(inert(text)) <= room for _, text in sides)


def beside_each_other(pairs: Sequence[Pair], width: int) -> list[Line]:
    """The comparison in two columns of half of ``width`` cells each."""
    half = _half(width)
    lines: list[Line] = []
    for pair in pairs:
        if pair.skipped:
            lines.append(_skipped(pair.skipped))
        lines.append(
            (
                *_side(pair.left, "-" if pair.changed else " ", "bad" if pair.changed else "", half),
                Span(" │ ", "quiet"),
                *_side(pair.right, "+" if pair.changed else " ", "good" if pair.changed else "", half),
            )
        )
    return lines


def _half(width: int) -> int:
    return max(12, (width - 3) // 2)


def _side(side: tuple[int, str] | None, sign: str, tone: str, width: int) -> Sequence[Span]:
    if side is None:
        return (Span(" " * width),)
    number, text = side
    return (Span(f"{number:>4} {sign} ", tone or "quiet"), Span(fit(text, width - 7), tone))


def _skipped(count: int) -> Line:
    return (Span(f"      {words.count(count, 'equal line')}", "quiet"),)


class CompareScreen(Modal[None]):
    """Shows how ``right`` differs from ``left``; each is a name and a text from anywhere."""

    BINDINGS = keymap.bindings("compare")

    def __init__(self, left: tuple[str, str], right: tuple[str, str]) -> None:
        super().__init__(id="compare")
        self._left, self._right = left, right
        self._pairs = compare(left[1], right[1])
        self._list = LineList(empty="The two are equal, byte for byte. Escape closes.", opens=False)

    def content(self) -> Iterable[Widget]:
        yield self._list

    def on_mount(self) -> None:
        plus = sum(pair.changed and pair.right is not None for pair in self._pairs)
        minus = sum(pair.changed and pair.left is not None for pair in self._pairs)
        note = f"+{plus} -{minus}" if self._pairs else ""
        frame = self.query_one("#frame", Pane)
        frame.set_title(f"- {self._left[0]}   + {self._right[0]}", note)
        frame.styles.width, frame.styles.max_width, frame.styles.height = "100%", "100%", "1fr"
        self._list.focus()

    def on_resize(self) -> None:
        width = self.size.width - 4
        if fits_beside(self._pairs, width):
            self._list.set_rows(TextRows(beside_each_other(self._pairs, width)))
            return
        lines = below_each_other(self._pairs)
        longest = max((sum(cells(inert(span.text)) for span in line) for line in lines), default=0)
        self._list.set_rows(TextRows(lines, longest))
