"""Pieces of lines, providers of rows, and how text is made to fit. Everything here gives inert text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from textual.app import App

from ...inert import cells, inert, pad, shorten


class Span(NamedTuple):
    """A piece of one line.

    ``tone`` is a name of ``LineList.TONES``, ``code:NAME`` for a colour of the editor, or empty for plain text.
    """

    text: str
    tone: str = ""


Line = Sequence[Span]


class Rows(Protocol):
    """What a LineList shows. All methods are called on the application's loop and must not block."""

    def __len__(self) -> int: ...

    def row_id(self, index: int) -> str:
        """The identity of a row, unique and stable while other rows come and go."""
        ...

    def line(self, index: int, width: int) -> Line:
        """The row drawn for ``width`` cells. What is longer is cut off at the edge."""
        ...

    def text(self, index: int) -> str:
        """What the filter looks at."""
        ...


@dataclass(frozen=True, slots=True)
class TextRows:
    """Rows of ready lines. ``width`` is the longest line's cells, which makes the list scroll sideways."""

    lines: Sequence[Line] = ()
    width: int = 0

    @classmethod
    def of(cls, texts: Iterable[str], tone: str = "") -> TextRows:
        lines = [(Span(inert(text), tone),) for text in texts]
        return cls(lines, max((cells(line[0].text) for line in lines), default=0))

    def __len__(self) -> int:
        return len(self.lines)

    def row_id(self, index: int) -> str:
        return str(index)

    def line(self, index: int, width: int) -> Line:
        return self.lines[index]

    def text(self, index: int) -> str:
        return "".join(span.text for span in self.lines[index])


#: ASCII forms of what the screens draw besides glyphs; each takes one cell. Half blocks of a picture leave their
#: lower colour.
_PLAIN: Final = str.maketrans(
    {"…": "~", "·": "-", "×": "x", "─": "-", "│": "|", "▾": "v", "▸": ">", "→": ">", "▀": " "}
)


def drawn(text: str, app: App[Any]) -> str:
    """``text`` as it may be written to the terminal of ``app``: inert, and in ASCII where that was asked for.

    Only punctuation of ours has an ASCII form; what else is beyond ASCII stays as it is.
    """
    text = inert(text)
    return text.translate(_PLAIN) if getattr(app, "ascii", False) and not text.isascii() else text


def fit(text: str, width: int, *, right: bool = False) -> str:
    """``text``, inert, in exactly ``width`` cells: cut off with an ellipsis or filled with spaces."""
    return pad(shorten(text, width), width, right=right)


def wrap(text: str, width: int) -> list[str]:
    """``text``, inert, broken at spaces into lines of at most ``width`` cells; line feeds break too.

    A paragraph's indentation holds for each of its lines. A word that is too long is broken.
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        body = paragraph.lstrip(" ")
        indent = min(len(paragraph) - len(body), width // 2)
        lines += [" " * indent + line for line in _wrapped(inert(body), width - indent)]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if cells(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        while cells(word) > width:
            head = _head(word, width)
            lines.append(head)
            word = word[len(head) :]
        line = word
    return [*lines, line]


def _head(word: str, width: int) -> str:
    """The longest beginning of ``word`` in ``width`` cells, at least one character."""
    end = 1
    while end < len(word) and cells(word[: end + 1]) <= width:
        end += 1
    return word[:end]
