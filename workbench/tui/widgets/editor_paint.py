"""Painting one line of an editor: gutter, syntax, problems, brackets, selection and cursor.

``Line`` holds all that decides how a line looks, styles aside, and is the key under which its strip is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment
from rich.style import Style
from rich.text import Span as TextSpan
from rich.text import Text
from textual.strip import Strip

from .editor_document import char_column, layout
from .editor_highlight import Span
from .editor_marks import Mark, Underline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from textual._text_area_theme import TextAreaTheme

_UNDERLINE = Style(underline=True)


class Line(NamedTuple):
    """One line and what is to be shown of it. Columns count characters; None: there is none."""

    text: str
    highlights: tuple[Span, ...]
    row: int
    gutter_width: int
    width: int
    scroll_x: int
    current: bool
    cursor: int | None
    selected: tuple[int, int] | None
    brackets: tuple[int, ...]
    mark: Mark | None
    underlines: tuple[Underline, ...]


class Styles(NamedTuple):
    """The theme, with what the stylesheet adds, the component styles of marks and problem letters, and the sign
    of a line that goes on, one cell wide."""

    theme: TextAreaTheme
    components: Mapping[str, Style]
    cut: str


def paint(line: Line, styles: Styles, tab_width: int, console: Console) -> Strip:
    """The strip of ``line``, ``line.width`` cells wide."""
    theme = styles.theme
    base = theme.base_style or Style()
    place = layout(line.text, tab_width)
    length = len(line.text)
    plain = place.text + " "
    spans: list[TextSpan] = []

    def style(start: int, end: int, with_style: Style | None) -> None:
        if with_style is not None:
            stop = len(plain) if end > length else place.at(end)
            spans.append(TextSpan(place.at(start), stop, with_style))

    if line.current:
        style(0, length + 1, theme.cursor_line_style)
    if line.selected is not None:
        style(*line.selected, theme.selection_style)
    for start, end, name in line.highlights:
        stop = length if end is None else char_column(line.text, end)
        style(char_column(line.text, start), stop, theme.syntax_styles.get(name))
    for first, last, _ in line.underlines:
        style(first, last, _UNDERLINE)
    for column in line.brackets:
        style(column, column + 1, theme.bracket_matching_style)
    if line.cursor is not None:
        style(line.cursor, line.cursor + 1, theme.cursor_style)
    text = Text(plain, spans=spans, end="", no_wrap=True)
    room = max(0, line.width - line.gutter_width)
    strip = Strip(text.render(console), place.width + 1).crop(line.scroll_x, line.scroll_x + room)
    strip = strip.extend_cell_length(room, theme.cursor_line_style if line.current else base)
    if place.width > line.scroll_x + room > line.scroll_x:
        ground = (theme.cursor_line_style if line.current else base) or base
        cut = Segment(styles.cut, ground + styles.components["editor--quiet"])
        strip = Strip.join([strip.crop(0, room - 1), Strip([cut], 1)])
    if line.gutter_width:
        strip = Strip.join([_gutter(line, styles), strip])
    return strip.apply_style(base)


def _gutter(line: Line, styles: Styles) -> Strip:
    theme = styles.theme
    ground = (theme.cursor_line_gutter_style if line.current else theme.gutter_style) or Style()
    glyph = letter = Segment(" ", ground)
    if line.mark is not None:
        glyph = Segment(line.mark.glyph, ground + styles.components[f"editor--{line.mark.tone}"])
    if line.underlines:
        error = any(severity == "error" for _, _, severity in line.underlines)
        letter = Segment(
            "E" if error else "W", ground + styles.components[f"editor--{'bad' if error else 'waiting'}"]
        )
    number = Segment(f"{line.row + 1:>{line.gutter_width - 3}}", ground)
    return Strip([glyph, letter, number, Segment(" ", ground)], line.gutter_width)
