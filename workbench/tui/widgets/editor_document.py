"""The text of an editor: exact lines, a syntax tree kept in step, and how each line lies on the screen.

Textual's own document splits at every character that Python calls a line break and rejoins with one kind, so
a file with U+2028 in a string would change by being opened. ``EditorDocument`` splits at the line feed only
(at CR LF where every line feed has its CR) and gives back what it was given, byte for byte.

Rows and columns start at 0 here, columns count characters. The syntax tree counts columns in bytes of UTF-8.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

from rich.cells import get_character_cell_size
from textual.document._document import Document, DocumentBase, EditResult, Location
from textual.document._document_navigator import DocumentNavigator
from textual.document._wrapped_document import WrappedDocument
from textual.geometry import Offset, Size
from tree_sitter import Language, Parser, Tree

from workbench.inert import acts, symbol

_LONE_LF: Final = re.compile(r"(?<!\r)\n")


class Layout(NamedTuple):
    """One line as it is shown. ``text`` is inert and has no tabs.

    ``cells[i]`` is the cell where character ``i`` of the line starts, ``starts[i]`` where it starts in
    ``text``; both have one entry more than the line has characters. None means: the same number.
    """

    text: str
    cells: tuple[int, ...] | None
    starts: tuple[int, ...] | None
    width: int

    def cell(self, column: int) -> int:
        """The cell at which ``column`` starts."""
        return column if self.cells is None else self.cells[min(column, len(self.cells) - 1)]

    def at(self, column: int) -> int:
        """The place in ``text`` at which ``column`` starts."""
        return column if self.starts is None else self.starts[min(column, len(self.starts) - 1)]

    def column(self, cell: int) -> int:
        """The column of the character that covers ``cell``, or the length of the line."""
        if self.cells is None:
            return max(0, min(cell, self.width))
        return max(0, min(bisect_right(self.cells, cell) - 1, len(self.cells) - 1))


@lru_cache(maxsize=4096)
def layout(line: str, tab_width: int) -> Layout:
    """Lay ``line`` out: tabs to their stops, whatever acts on a terminal as visible symbols."""
    if line.isascii() and line.isprintable():
        return Layout(line, None, None, len(line))
    parts: list[str] = []
    widths: list[int] = []
    cell = 0
    for char in line:
        if char == "\t":
            part = " " * (tab_width - cell % tab_width)
            width = len(part)
        elif acts(char):
            part = symbol(char)
            width = len(part)
        else:
            part = char
            width = get_character_cell_size(char)
        parts.append(part)
        widths.append(width)
        cell += width
    return Layout(
        "".join(parts),
        tuple(accumulate(widths, initial=0)),
        tuple(accumulate(map(len, parts), initial=0)),
        cell,
    )


@lru_cache(maxsize=4096)
def byte_starts(line: str) -> tuple[int, ...]:
    """Where each character of ``line`` starts in its UTF-8 form, and where the line ends."""
    return tuple(accumulate((len(char.encode("utf-8", "surrogatepass")) for char in line), initial=0))


def byte_column(line: str, column: int) -> int:
    """The byte at which character ``column`` of ``line`` starts."""
    return min(column, len(line)) if line.isascii() else byte_starts(line)[min(column, len(line))]


def char_column(line: str, byte: int) -> int:
    """The character that covers ``byte`` of the encoded ``line``, or the length of the line."""
    if line.isascii():
        return min(byte, len(line))
    return min(bisect_right(byte_starts(line), byte) - 1, len(line))


class Replaced(NamedTuple):
    """What an edit did: ``start`` to ``end`` was replaced by a text that ends at ``new_end``.

    ``indents`` are the old indentations of the replaced lines. ``changed`` are first and last rows, as they are
    now, of what the syntax tree reads differently.
    """

    start: Location
    end: Location
    new_end: Location
    indents: Sequence[int]
    changed: Sequence[tuple[int, int]]


class EditorDocument(Document):
    """Lines and, with a ``language``, their syntax tree, kept up to date edit by edit.

    ``on_replaced`` is called after each edit, with the new text in place.
    """

    def __init__(self, text: str, language: Language | None = None) -> None:
        newline = "\r\n" if "\r\n" in text and not _LONE_LF.search(text) else "\n"
        self._newline = newline  # type: ignore[assignment]
        self._lines = text.split(newline)
        self.on_replaced: Callable[[Replaced], None] | None = None
        self._parser = Parser(language) if language is not None else None
        self.tree: Tree | None = None
        if self._parser is not None:
            self.tree = self._parser.parse(self._source())

    def _source(self) -> bytes:
        return "\n".join(self._lines).encode("utf-8", "surrogatepass")

    def _byte_offset(self, location: Location) -> int:
        row, column = location
        lines = self._lines
        above = sum(byte_column(line, len(line)) for line in lines[:row])
        return above + row + (byte_column(lines[row], column) if row < len(lines) else 0)

    def get_size(self, tab_width: int) -> Size:
        """Cells of the widest line, and the number of lines."""
        return Size(max(layout(line, tab_width).width for line in self._lines), len(self._lines))

    def replace_range(self, start: Location, end: Location, text: str) -> EditResult:
        """Replace what lies between the two locations. ``text`` may hold several lines."""
        top, bottom = sorted((self._clamp(start), self._clamp(end)))
        replaced = self.get_text_range(top, bottom)
        changed: list[tuple[int, int]] = []
        tree = self.tree
        if tree is not None:
            start_byte, old_end_byte = self._byte_offset(top), self._byte_offset(bottom)
            start_point = (top[0], byte_column(self._lines[top[0]], top[1]))
            old_end_point = (bottom[0], byte_column(self._lines[bottom[0]], bottom[1]))
        if self._newline == "\r\n":
            text = text.replace("\r\n", "\n")
        new = text.split("\n")
        after = self._lines[bottom[0]][bottom[1] :]
        new[0] = self._lines[top[0]][: top[1]] + new[0]
        end_location = (top[0] + len(new) - 1, len(new[-1]))
        new[-1] += after
        old = self._lines[top[0] : bottom[0] + 1]
        self._lines[top[0] : bottom[0] + 1] = new
        if tree is not None and self._parser is not None:
            tree.edit(
                start_byte=start_byte,
                old_end_byte=old_end_byte,
                new_end_byte=self._byte_offset(end_location),
                start_point=start_point,
                old_end_point=old_end_point,
                new_end_point=(end_location[0], byte_column(self._lines[end_location[0]], end_location[1])),
            )
            self.tree = self._parser.parse(self._source(), tree)
            changed = [(r.start_point[0], r.end_point[0]) for r in tree.changed_ranges(self.tree)]
        if self.on_replaced is not None:
            indents = [len(line) - len(line.lstrip()) for line in old]
            self.on_replaced(Replaced(top, bottom, end_location, indents, changed))
        return EditResult(end_location, replaced)

    def _clamp(self, location: Location) -> Location:
        row, column = location
        if row >= len(self._lines):
            return len(self._lines) - 1, len(self._lines[-1])
        if row < 0:
            return 0, 0
        return row, max(0, min(column, len(self._lines[row])))


class FlatDocument(WrappedDocument):
    """The view of a document whose lines never wrap, measured in the cells that ``layout`` gives."""

    def __init__(self, document: DocumentBase, tab_width: int = 4) -> None:
        super().__init__(document, 0, tab_width)

    @property
    def height(self) -> int:
        return self.document.line_count

    def wrap(self, width: int, tab_width: int | None = None) -> None:
        """Nothing to compute; only the tab width matters."""
        self._width = 0
        if tab_width:
            self._tab_width = tab_width

    def wrap_range(self, start: Location, old_end: Location, new_end: Location) -> None:
        """Lines that do not wrap need no bookkeeping after an edit."""

    def layout(self, row: int) -> Layout:
        return layout(self.document[row], self._tab_width)

    def location_to_offset(self, location: Location) -> Offset:
        row = max(0, min(location[0], self.document.line_count - 1))
        return Offset(self.layout(row).cell(location[1]), row)

    def offset_to_location(self, offset: Offset) -> Location:
        row = max(0, min(offset[1], self.document.line_count - 1))
        return row, self.layout(row).column(offset[0])

    def get_target_document_column(self, line_index: int, x_offset: int, y_offset: int) -> int:
        return self.layout(line_index).column(x_offset)

    def get_sections(self, line_index: int) -> list[str]:
        return [self.document[line_index]]

    def get_offsets(self, line_index: int) -> list[int]:
        return []

    def get_tab_widths(self, line_index: int) -> list[int]:
        return []


class FlatNavigator(DocumentNavigator):
    """Cursor movement by cells of ``layout``, so that it also holds on lines with symbols and tabs."""

    def __init__(self, view: FlatDocument) -> None:
        super().__init__(view)
        self._view = view

    def get_location_above(self, location: Location) -> Location:
        row, column = location
        if row == 0:
            return 0, 0
        return row - 1, self._column_on(row - 1, row, column)

    def get_location_below(self, location: Location) -> Location:
        row, column = location
        if row >= self._view.document.line_count - 1:
            return row, len(self._view.document[row])
        return row + 1, self._column_on(row + 1, row, column)

    def _column_on(self, target: int, row: int, column: int) -> int:
        cell = max(self._view.layout(row).cell(column), self.last_x_offset)
        return self._view.layout(target).column(cell)
