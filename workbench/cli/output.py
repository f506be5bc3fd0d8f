"""Lines and tables on a terminal or in a file.

Whatever is written here passes ``inert`` first: no text can act on the terminal, wherever it came from.
Colour is used only on a terminal, and not where NO_COLOR is set or TERM is ``dumb``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TextIO, TypeAlias

from workbench.inert import cells, inert, shorten

#: A text, or a text with the name of its tone.
Piece: TypeAlias = "str | tuple[str, str]"

_TONES: Final = {
    "good": "\x1b[32m",
    "bad": "\x1b[31m",
    "waiting": "\x1b[33m",
    "running": "\x1b[36m",
    "quiet": "\x1b[2m",
    "title": "\x1b[1m",
}
_RESET: Final = "\x1b[0m"
_GAP: Final = "  "


class Output:
    """Writes to one stream. ``unicode`` says whether the stream can carry the glyphs."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.terminal = stream.isatty()
        self.color = self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.unicode = _carries_glyphs(stream)

    @property
    def width(self) -> int | None:
        """Cells in a line of the terminal; None where lines may be as long as they are."""
        import shutil

        return shutil.get_terminal_size((80, 24)).columns if self.terminal else None

    def line(self, *pieces: Piece) -> None:
        """One line made of ``pieces``; line feeds inside them are shown as symbols."""
        self.stream.write("".join(map(self._paint, pieces)) + "\n")
        self.stream.flush()

    def text(self, text: str, indent: str = "") -> None:
        """Text of several lines, each behind ``indent``."""
        for line in text.split("\n"):
            self.line(indent + line if line else "")

    def table(self, rows: Sequence[Sequence[Piece]], indent: str = "", right: Sequence[int] = ()) -> None:
        """Rows whose columns line up; those of ``right`` end at their right edge.

        On a terminal the last column is cut to the line, with an ellipsis.
        """
        columns = max(map(len, rows), default=0)
        widths = [
            max((cells(inert(_plain(row[column]))) for row in rows if column < len(row)), default=0)
            for column in range(columns)
        ]
        for row in rows:
            self.line(indent, *self._aligned(row, widths, len(indent), set(right)))

    def _aligned(
        self, row: Sequence[Piece], widths: Sequence[int], used: int, right: set[int]
    ) -> list[Piece]:
        pieces: list[Piece] = []
        last = max((index for index, piece in enumerate(row) if _plain(piece)), default=-1)
        for index, piece in enumerate(row[: last + 1]):
            text = inert(_plain(piece))
            if index == last and self.width is not None and index > 0:
                text = shorten(text, max(8, self.width - used), ellipsis="…" if self.unicode else "...")
            space = " " * (widths[index] - cells(text))
            used += widths[index] + len(_GAP)
            if index in right:
                pieces.append(space)
            pieces.append(text if isinstance(piece, str) else (text, piece[1]))
            if index < last:
                pieces.append(_GAP if index in right else space + _GAP)
        return pieces

    def _paint(self, piece: Piece) -> str:
        text = inert(_plain(piece))
        if isinstance(piece, str) or not self.color or not text:
            return text
        return f"{_TONES[piece[1]]}{text}{_RESET}"


def _plain(piece: Piece) -> str:
    return piece if isinstance(piece, str) else piece[0]


def _carries_glyphs(stream: TextIO) -> bool:
    try:
        "●✓✗⊘‖◆↻∅…".encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
