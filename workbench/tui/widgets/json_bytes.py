"""Exact bytes of a JSON document as a tree of rows that can be folded.

Every token stands as it is written, escapes included; the rows tile the bytes. A folded object or array shows
its first row only, so what is inside was not shown.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Collection
from typing import Any, Final

from .byte_rows import NARROWEST, ByteRows, breaks, decoded, visible
from .lines import Line, Span

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
#: Behind an escaped line feed in a string a row ends, so that text in JSON can be read.
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
#: Levels that are drawn as indentation; what is deeper is drawn at this one.
_LEVELS: Final = 12
_NONE: Final = -1


class NotJson(ValueError):
    """The bytes are no JSON document in UTF-8 that can be laid out as a tree."""


class JsonTokens:
    """The lines of a JSON document, found once for all widths and folds.

    ``starts[n]`` is where line n starts, ``keys[n]`` where its key ends (or −1), ``depths[n]`` its level, and
    ``closes[n]`` the line that closes what line n opens (or −1). Raises NotJson.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        try:
            json.loads(data.decode("utf-8"), parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise NotJson(str(error)) from None
        self.starts, self.keys = array("L"), array("q")
        self.depths, self.closes = array("L"), array("q")
        self._read()

    def __len__(self) -> int:
        return len(self.starts)

    def end(self, line: int) -> int:
        return self.starts[line + 1] if line + 1 < len(self.starts) else len(self.data)

    def _read(self) -> None:
        opened: list[int] = []
        start, key, content = 0, _NONE, False

        def add() -> None:
            self.starts.append(start)
            self.keys.append(key)
            self.depths.append(len(opened))
            self.closes.append(_NONE)

        for token in _TOKEN.finditer(self.data):
            byte, end = self.data[token.start()], token.end()
            if byte in b"{[":
                add()
                opened.append(len(self.starts) - 1)
                start, key, content = end, _NONE, False
            elif byte in b"}]":
                if content:
                    add()
                    start, key, content = token.start(), _NONE, False
                first = opened.pop()
                if first != len(self.starts) - 1:  # Something is inside; else it stays on the line it began.
                    add()
                    self.closes[first] = len(self.starts) - 1
                start = end
            elif byte == 0x2C:
                if content:
                    add()
                start, key, content = end, _NONE, False
            elif byte == 0x3A:
                key = token.start()
            else:
                content = True
        if content:
            add()
        self.starts[0] = 0


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


class JsonBytes(ByteRows):
    """The tree for ``width`` cells. ``folded`` holds the lines of ``tokens`` that are folded."""

    NAME = "JSON tree"

    def __init__(self, tokens: JsonTokens, width: int, folded: Collection[int] = ()) -> None:
        super().__init__(tokens.data, width)
        self.tokens = tokens
        self._ends = array("L")
        self._lines = array("L")
        self._edges = array("L")
        line = 0
        while line < len(tokens):
            self._add(line, width)
            if line in folded and tokens.closes[line] != _NONE:
                line = int(tokens.closes[line])
            line += 1
        self.folded = frozenset(folded)

    def __len__(self) -> int:
        return len(self._lines)

    def span(self, index: int) -> tuple[int, int]:
        return self._edges[index], self._ends[index]

    def row_at(self, offset: int) -> int:
        return min(max(0, bisect_right(self._edges, offset) - 1), max(0, len(self) - 1))

    def line_of(self, index: int) -> int:
        """The line of the document that row ``index`` belongs to."""
        return self._lines[index]

    def folds(self, offset: int) -> set[int]:
        """The folded lines that hide the byte at ``offset``."""
        tokens = self.tokens
        return {
            line
            for line in self.folded
            if tokens.closes[line] != _NONE
            and tokens.end(line) <= offset < tokens.end(int(tokens.closes[line]))
        }

    def _add(self, line: int, width: int) -> None:
        data, start, end = self.data, self.tokens.starts[line], self.tokens.end(line)
        room = width - self._indent(line) - 4
        begin = start
        if end - start > room or b"\\n" in data[start:end]:
            for escape in _ESCAPE.finditer(data, start, end):
                if escape.group(1) == b"n" and escape.end() < end - 2:
                    self._break(begin, escape.end(), room, line)
                    begin = escape.end()
        self._break(begin, end, room, line)

    def _break(self, start: int, end: int, room: int, line: int) -> None:
        for cut in breaks(self.data, start, end, room):
            if cut > start or start == end:
                self._edges.append(start)
                self._ends.append(cut)
                self._lines.append(line)
                start = cut

    def _indent(self, line: int) -> int:
        return max(0, min(2 * min(self.tokens.depths[line], _LEVELS), self.cells - 4 - NARROWEST))

    def line(self, index: int, width: int) -> Line:
        line, tokens = self._lines[index], self.tokens
        start, end = self.span(index)
        first = index == 0 or self._lines[index - 1] != line
        last = index + 1 == len(self) or self._lines[index + 1] != line
        closes = tokens.closes[line]
        mark = "  " if closes == _NONE or not first else "▸ " if line in self.folded else "▾ "
        text = decoded(self.data[start:end])
        text = text.lstrip(" \t\r\n") if first else text
        text = text.rstrip(" \t\r\n") if last else text
        spans = [Span(" " * self._indent(line) + mark + ("" if first else "  "), "quiet")]
        key = tokens.keys[line]
        if first and key != _NONE and key < end:
            name = decoded(self.data[start : int(key)]).lstrip(" \t\r\n")
            spans += [*visible(name, "accent"), *visible(text[len(name) :])]
        else:
            spans += visible(text, "accent" if key != _NONE and end <= key else "")
        if line in self.folded and closes != _NONE and last:
            hidden = int(closes) - line - 1
            spans.append(
                Span(f" … {hidden:,} {'line' if hidden == 1 else 'lines'} folded, not shown", "waiting")
            )
        return spans
