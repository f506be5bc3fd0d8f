"""What stands beside and under the lines of an editor: step marks and problems, moved along by edits.

Rows and columns start at 0 here; ``ProblemMark`` counts from 1, as people and the checks do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from textual.document._document import Location

    from .editor_document import Replaced

#: Names of colours, as the lists of the other screens use them.
TONES: Final = ("quiet", "running", "waiting", "good", "bad")

#: What is underlined when a problem names only where it starts: a word, or a string.
_WORD: Final = re.compile(r"[\w$]+|'[^']*'?|\"[^\"]*\"?|`[^`]*`?")

Severity = Literal["error", "warning"]

#: First column, column behind the last, severity: one underlined part of a line.
Underline = tuple[int, int, Severity]


class Mark(NamedTuple):
    """A glyph in the gutter, one cell wide. ``tone`` names its colour: one of TONES."""

    glyph: str
    tone: str


class ProblemMark(NamedTuple):
    """Where a problem stands: line and column from 1, columns in characters."""

    line: int
    column: int
    severity: Severity


class LineMarks:
    """Marks by row, problems by place, and the parts of each line that problems underline."""

    def __init__(self) -> None:
        self.marks: dict[int, Mark] = {}
        self.underlines: dict[int, tuple[Underline, ...]] = {}
        self._problems: tuple[tuple[Location, Severity], ...] = ()

    @property
    def problems(self) -> tuple[ProblemMark, ...]:
        return tuple(ProblemMark(row + 1, column + 1, kind) for (row, column), kind in self._problems)

    def set_marks(self, marks: Mapping[int, Mark]) -> set[int]:
        """Take these marks; return the rows that look different now."""
        old, self.marks = self.marks, dict(marks)
        return {row for row in {*old, *marks} if old.get(row) != marks.get(row)}

    def set_problems(self, problems: Sequence[ProblemMark], lines: Sequence[str]) -> set[int]:
        """Take these problems of the text ``lines``; return the rows that look different now."""
        places = ((p.line - 1, p.column - 1, p.severity) for p in problems)
        return self._place(
            tuple(((max(0, min(row, len(lines) - 1)), max(0, column)), kind) for row, column, kind in places),
            lines,
        )

    def follow(self, edit: Replaced, lines: Sequence[str]) -> None:
        """Move everything along with an edit; ``lines`` is the new text.

        A mark stands where its line's text starts. What stood inside the replaced part moves to its start.
        """
        start, end, new_end, indents, _changed = edit

        def moved(row: int, column: int) -> Location:
            if (row, column) < start:
                return row, column
            if (row, column) < end:
                return start
            return row + new_end[0] - end[0], column + (new_end[1] - end[1] if row == end[0] else 0)

        if start[0] != end[0] or end[0] != new_end[0]:
            self.marks = {
                moved(row, indents[row - start[0]] if start[0] <= row <= end[0] else 0)[0]: mark
                for row, mark in self.marks.items()
            }
        if self._problems:
            self._place(tuple((moved(*place), kind) for place, kind in self._problems), lines)

    def _place(self, problems: tuple[tuple[Location, Severity], ...], lines: Sequence[str]) -> set[int]:
        found: dict[int, list[Underline]] = {}
        for (row, column), kind in problems:
            line = lines[row]
            first = min(column, len(line))
            match = _WORD.match(line, first)
            found.setdefault(row, []).append((first, max(match.end() if match else 0, first + 1), kind))
        old, self.underlines = self.underlines, {row: tuple(parts) for row, parts in found.items()}
        self._problems = problems
        return {row for row in {*old, *found} if old.get(row) != self.underlines.get(row)}
