"""Exact bytes as rows for a list: as text, as Markdown source, or in hexadecimal.

The rows of a layout tile the bytes: each byte belongs to exactly one row, so what stood in the viewport is
known to the byte. Long lines are broken, never cut, because what lies past an edge would not be seen. Control,
invisible and bidirectional characters, bytes that are no UTF-8, unusual spaces and spaces at the end of a line
are drawn as visible symbols in a tone of their own, so that they differ from the same symbols as plain text.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import ClassVar, Final

from ...inert import acts, cells, inert
from .lines import Line, Span

#: What is not visible, or takes another's place unseen: unusual spaces, and what stands for a byte that is no
#: UTF-8 (surrogate escapes). Acting characters are found by ``acts``.
_SPACES: Final = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000"
_ODD: Final = re.compile(f"[{_SPACES}]")
_TRAILING: Final = re.compile(r" +$")
#: Text is broken for this many cells where there are fewer.
NARROWEST: Final = 12
#: Text of characters that each take one cell, or two from U+3000 on, and are drawn as they are.
_SIMPLE: Final = re.compile(
    "[\x00-\x7f\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2190-\u21ff"
    "\u3001-\u3029\u3041-\u3096\u30a1-\u30ff\u4e00-\u9fff\uac00-\ud7a3]*"
)
_WIDE: Final = re.compile("[\u3000-\uffff]")
#: More combining marks than this in a row are not drawn over one another.
_STACKED: Final = 2


def visible(text: str, tone: str = "") -> list[Span]:
    """``text`` in which nothing is hidden. Bytes that are no UTF-8 are given as surrogate escapes."""
    if text.isascii() and text.isprintable():
        return [Span(text, tone)]
    spans: list[Span] = []
    plain: list[str] = []
    marks = 0
    for char in text:
        shown = char if char.isascii() and char.isprintable() else _shown(char)
        marks = marks + 1 if shown == char and cells(char) == 0 else 0
        if marks > _STACKED:
            shown = f"\\u{{{ord(char):04X}}}"
        if shown == char:
            plain.append(char)
            continue
        if plain:
            spans.append(Span("".join(plain), tone))
            plain.clear()
        spans.append(Span(shown, "waiting"))
    if plain:
        spans.append(Span("".join(plain), tone))
    return spans


def _shown(char: str) -> str:
    if 0xDC80 <= ord(char) <= 0xDCFF:
        return f"\\x{ord(char) - 0xDC00:02X}"
    if acts(char):
        return inert(char)
    return f"\\u{{{ord(char):04X}}}" if _ODD.match(char) else char


def decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def breaks(data: bytes, start: int, end: int, width: int) -> Iterator[int]:
    """Where the bytes from ``start`` to ``end`` are broken so that each row takes at most ``width`` cells.

    Gives the end of each row, ``end`` last. Prefers to break behind a space.
    """
    width = max(NARROWEST, width)
    if data[start:end].isascii():
        while end - start > width:
            space = data.rfind(b" ", start + width // 2, start + width)
            start = space + 1 if space >= 0 else start + width
            yield start
        yield end
        return
    text = decoded(data[start:end])
    if _SIMPLE.fullmatch(text) and len(text) + len(_WIDE.findall(text)) <= width:
        yield end
        return
    used, position, space, at_space, marks = 0, start, -1, 0, 0
    for char in text:
        size = 1 if "\udc80" <= char <= "\udcff" else len(char.encode("utf-8"))
        shown = char if char.isascii() and char.isprintable() else _shown(char)
        marks = marks + 1 if shown == char and cells(char) == 0 else 0
        wide = cells(shown) if marks <= _STACKED else 8
        if used + wide > width:
            cut = space if space - start > (position - start) // 2 else position
            used -= at_space if cut == space else used
            yield cut
            start, space = cut, -1
        used += wide
        position += size
        if char == " ":
            space, at_space = position, used
    yield end


class ByteRows:
    """Rows over ``data``: row n shows the bytes from ``edges[n]`` to ``edges[n + 1]``.

    ``NAME`` is the renderer's, as receipts record it. Building one may take long for megabytes; it can be done
    in another thread.
    """

    NAME: ClassVar[str] = ""

    def __init__(self, data: bytes, width: int) -> None:
        self.data = data
        self.cells = width
        self._edges = array("L", [0])

    def __len__(self) -> int:
        return len(self._edges) - 1

    def span(self, index: int) -> tuple[int, int]:
        """The bytes that row ``index`` shows."""
        return self._edges[index], self._edges[index + 1]

    def row_at(self, offset: int) -> int:
        """The row that shows the byte at ``offset``, or the folded one that hides it."""
        return min(max(0, bisect_right(self._edges, offset) - 1), max(0, len(self) - 1))

    def row_id(self, index: int) -> str:
        return str(self.span(index)[0])

    def text(self, index: int) -> str:
        start, end = self.span(index)
        return decoded(self.data[start:end])

    def copied(self, index: int) -> tuple[str, str]:
        return "the output", self.data.decode("utf-8", "replace")

    def line(self, index: int, width: int) -> Line:
        raise NotImplementedError


class TextBytes(ByteRows):
    """The text, its lines numbered and broken where they are too long."""

    NAME = "text"

    def __init__(self, data: bytes, width: int) -> None:
        super().__init__(data, width)
        count = data.count(b"\n") + 1
        self._digits = max(3, len(str(count)))
        room = width - self._digits - 2
        edges, numbers = self._edges, array("L")
        start = number = 0
        while start < len(data):
            found = data.find(b"\n", start)
            stop = len(data) if found < 0 else found + 1
            number += 1
            # The line feed takes no cell; it belongs to the row that it ends.
            for cut in breaks(data, start, stop if found < 0 else found, room):
                edges.append(cut)
                numbers.append(number)
            edges[-1] = stop
            start = stop
        self._numbers = numbers

    def line(self, index: int, width: int) -> Line:
        start, end = self.span(index)
        number = self._numbers[index]
        first = index == 0 or self._numbers[index - 1] != number
        lead = f"{number:>{self._digits}}" if first else " " * self._digits
        text = decoded(self.data[start:end]).removesuffix("\n")
        return (Span(f"{lead}  ", "quiet"), *self.spans(text, first, index))

    def spans(self, text: str, first: bool, index: int) -> list[Span]:
        return self._trailing(text, "", index)

    def _trailing(self, text: str, tone: str, index: int) -> list[Span]:
        """``text`` with the spaces at the end of its line drawn; at the end of a broken row they are plain."""
        last = index + 1 == len(self) or self._numbers[index + 1] != self._numbers[index]
        spaces = _TRAILING.search(text) if last else None
        if spaces is None:
            return visible(text, tone)
        return [*visible(text[: spaces.start()], tone), Span("·" * len(spaces.group()), "waiting")]


_FENCE: Final = re.compile(r" {0,3}(```|~~~)")


class MarkdownBytes(TextBytes):
    """Markdown as it is written: every character stays, headings, quotes and code differ in tone."""

    NAME = "Markdown source"

    def __init__(self, data: bytes, width: int) -> None:
        super().__init__(data, width)
        self._tones: dict[int, str] = {}
        inside = False
        for number, line in enumerate(data.split(b"\n"), 1):
            fence = _FENCE.match(decoded(line[:8])) is not None
            tone = "accent" if inside or fence else _markdown_tone(line)
            if tone:
                self._tones[number] = tone
            inside = inside != fence

    def spans(self, text: str, first: bool, index: int) -> list[Span]:
        return self._trailing(text, self._tones.get(self._numbers[index], ""), index)


def _markdown_tone(line: bytes) -> str:
    start = line.lstrip()[:7]
    if start.startswith(b"#") and len(line) - len(line.lstrip()) < 4:
        return "strong"
    return "quiet" if start.startswith(b">") else ""


class HexBytes(ByteRows):
    """Offset, bytes in hexadecimal, and their ASCII characters; nothing is stored for a row."""

    NAME = "hex"

    def __init__(self, data: bytes, width: int) -> None:
        super().__init__(data, width)
        self._step = next((step for step in (16, 8, 4, 2) if width >= 9 + step * 4), 1)

    def __len__(self) -> int:
        return -(-len(self.data) // self._step)

    def span(self, index: int) -> tuple[int, int]:
        start = index * self._step
        return start, min(start + self._step, len(self.data))

    def row_at(self, offset: int) -> int:
        return min(offset // self._step, max(0, len(self) - 1))

    def text(self, index: int) -> str:
        start, end = self.span(index)
        return f"{start:06x} {self.data[start:end].hex(' ')}"

    def line(self, index: int, width: int) -> Line:
        start, end = self.span(index)
        piece = self.data[start:end]
        spans = [
            Span(f"{start:06x}  ", "quiet"),
            Span(f"{piece.hex(' '):<{self._step * 3}} "),
        ]
        for byte in piece:
            shown = 0x20 <= byte < 0x7F
            spans.append(Span(chr(byte) if shown else "·", "" if shown else "waiting"))
        return spans
