"""JSON laid out over lines, with its keys told apart from its values."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...inert import cells, inert
from .lines import Line, Span

_KEY = re.compile(r'(\s*)("(?:[^"\\]|\\.)*")(:)(.*)', re.DOTALL)


def pretty(value: Any) -> list[str]:
    """The lines of ``value`` with two spaces of indentation; text stays text, controls still escaped."""
    return json.dumps(value, ensure_ascii=False, indent=2).split("\n")


def json_line(line: str) -> Line:
    """One line of ``pretty`` in tones. The text is inert."""
    match = _KEY.fullmatch(line)
    if match is None:
        return (Span(inert(line)),)
    indent, key, colon, rest = match.groups()
    return (Span(indent), Span(inert(key), "accent"), Span(colon, "quiet"), Span(inert(rest)))


@dataclass(frozen=True, slots=True)
class JsonRows:
    """Rows of one value. Copying any line copies the whole value."""

    value: Any
    what: str
    lines: Sequence[str]
    width: int

    @classmethod
    def of(cls, value: Any, what: str) -> JsonRows:
        """``what`` names the value for people: ``the result``."""
        lines = pretty(value)
        return cls(value, what, lines, max(cells(inert(line)) for line in lines))

    def __len__(self) -> int:
        return len(self.lines)

    def row_id(self, index: int) -> str:
        return str(index)

    def line(self, index: int, width: int) -> Line:
        return json_line(self.lines[index])

    def text(self, index: int) -> str:
        return self.lines[index]

    def copied(self, index: int) -> tuple[str, str]:
        return self.what, "\n".join(self.lines)
