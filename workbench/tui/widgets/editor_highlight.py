"""Syntax highlighting on demand: the tree is queried for the rows that are painted, 32 at a time.

Textual queries the whole tree at every edit, which takes three times as long as everything else a key causes.
``Highlights`` is a mapping from row to the highlights of that row that fills itself when a row is asked for,
and after an edit forgets only the rows that tree-sitter reads differently.
Within a row highlights stand in the order of the patterns that made them, so that a later pattern of the
query overrides an earlier one wherever the row lies in the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, cast

import tree_sitter_javascript
import tree_sitter_json
from rich.style import Style
from textual._text_area_theme import TextAreaTheme
from tree_sitter import Language, Query, QueryCursor

from .editor_document import EditorDocument

CHUNK: Final = 32

#: Start byte, end byte (None: to the end of the row) and capture name.
Span = tuple[int, int | None, str]

_QUERIES: Final = Path(__file__).parent


class Grammar:
    """A language of the editor with its prepared query and the order of the query's captures."""

    def __init__(self, language: Language, source: str) -> None:
        self.language = language
        self.query = Query(language, source)
        count = cast(int, self.query.capture_count)
        self.order: Mapping[str, int] = {self.query.capture_name(index): index for index in range(count)}


@cache
def grammar(name: str) -> Grammar:
    """The grammar ``javascript`` or ``json``; raises KeyError for any other."""
    module = {"javascript": tree_sitter_javascript, "json": tree_sitter_json}[name]
    source = (_QUERIES / f"editor_{name}.scm").read_text(encoding="utf-8")
    return Grammar(Language(module.language()), source)


class Highlights(Mapping[int, tuple[Span, ...]]):
    """Row → its highlights, queried from the document's tree when a row is first asked for."""

    def __init__(self, document: EditorDocument, of: Grammar | None) -> None:
        self._document = document
        self._grammar = of
        self._rows: dict[int, tuple[Span, ...]] = {}

    def follow(self, start: int, old_end: int, new_end: int, changed: Sequence[tuple[int, int]]) -> None:
        """Rows ``start`` to ``old_end`` were replaced and end at ``new_end`` now: query those again.

        ``changed`` are the first and last rows, as they are now, of what the tree reads differently since. The
        patterns of the queries look at a node and its parent only, so that no other row can have changed.
        """
        shift = new_end - old_end
        if shift:
            self._rows = {
                row if row < start else row + shift: spans
                for row, spans in self._rows.items()
                if row < start or row > old_end
            }
        for first, last in (*changed, (start, new_end)):
            for row in range(first, last + 1):
                self._rows.pop(row, None)

    def __getitem__(self, row: int) -> tuple[Span, ...]:
        spans = self._rows.get(row)
        if spans is None:
            self._fill(row - row % CHUNK)
            spans = self._rows.get(row, ())
        return spans

    def __len__(self) -> int:
        return self._document.line_count

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def _fill(self, start: int) -> None:
        """Query what is missing of the rows of one chunk."""
        end = min(start + CHUNK, self._document.line_count)
        missing = [row for row in range(start, end) if row not in self._rows]
        if not missing:
            return
        first, last = missing[0], missing[-1] + 1
        rows: list[list[Span]] = [[] for _ in range(first, last)]
        tree = self._document.tree
        if self._grammar is not None and tree is not None:
            cursor = QueryCursor(self._grammar.query)
            cursor.set_point_range((first, 0), (last, 0))
            captures = cursor.captures(tree.root_node)
            for name in sorted(captures, key=self._grammar.order.__getitem__):
                for node in captures[name]:
                    start_row, left = node.start_point
                    end_row, right = node.end_point
                    for row in range(max(start_row, first), min(end_row, last - 1) + 1):
                        span = (left if row == start_row else 0, right if row == end_row else None, name)
                        if span[0] != span[1]:
                            rows[row - first].append(span)
        for row in missing:
            self._rows[row] = tuple(rows[row - first])


_DARK: Final = {
    "keyword": Style(color="#b294ff"),
    "string": Style(color="#e0a458"),
    "escape": Style(color="#f0c78a"),
    "regex": Style(color="#d98e73"),
    "number": Style(color="#b294ff"),
    "literal": Style(color="#b294ff"),
    "comment": Style(color="#808891", italic=True),
    "api": Style(color="#7cc4e8"),
    "key": Style(color="#a9c4a0"),
    "error": Style(color="#e06c75"),
}
_LIGHT: Final = {
    "keyword": Style(color="#6b35c9"),
    "string": Style(color="#8f5300"),
    "escape": Style(color="#6e4a12"),
    "regex": Style(color="#9c3f1e"),
    "number": Style(color="#6b35c9"),
    "literal": Style(color="#6b35c9"),
    "comment": Style(color="#6e757c", italic=True),
    "api": Style(color="#0a6a94"),
    "key": Style(color="#3a6b2c"),
    "error": Style(color="#b3261e"),
}


#: The terminal's own colours, for the themes that use no others.
_ANSI: Final = {
    "keyword": Style(color="magenta"),
    "string": Style(color="yellow"),
    "escape": Style(color="yellow", bold=True),
    "regex": Style(color="red"),
    "number": Style(color="magenta"),
    "literal": Style(color="magenta"),
    "comment": Style(dim=True, italic=True),
    "api": Style(color="cyan"),
    "key": Style(color="green"),
    "error": Style(color="red", bold=True),
}


def theme_name(dark: bool, ansi: bool = False) -> str:
    """The name of the editor's theme under such a theme of the application."""
    return "workbench-ansi" if ansi else "workbench-dark" if dark else "workbench-light"


def editor_theme(dark: bool, ansi: bool = False) -> TextAreaTheme:
    """Colours of the text alone; ground, cursor and selection come from the application's theme."""
    styles = _ANSI if ansi else _DARK if dark else _LIGHT
    return TextAreaTheme(name=theme_name(dark, ansi), syntax_styles=styles)
