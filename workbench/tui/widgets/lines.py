"""LineList: a virtual list that draws only the lines in view, from a provider of rows.

Rows are computed when they come into view, so that ten thousand of them cost no more than a screenful. Text
is inert: whatever a provider returns passes ``inert`` before it is drawn, and nothing is parsed as markup.
When rows change, the cursor stays on the row it was on, found again by the row's id.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip
from textual.widget import Widget

from ...inert import inert
from .. import keymap
from .spans import Line, Rows, Span, TextRows, drawn, fit, wrap

__all__ = ["Line", "LineList", "Rows", "Span", "TextRows", "drawn", "fit", "wrap"]


class WholeCells(ScrollBarRender):
    """A scroll bar of whole cells, for terminals that have no partial blocks."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


def plain_bars(widget: Widget) -> None:
    """Draw the scroll bars of ``widget`` in ASCII where that was asked for."""
    if getattr(widget.app, "ascii", False):
        for bar in (widget.vertical_scrollbar, widget.horizontal_scrollbar):
            bar.renderer = WholeCells  # type: ignore[misc]  # as its docstring says


class LineList(ScrollView, can_focus=True, inherit_bindings=False):
    """A focusable list over ``Rows`` with cursor, filter and stable selection.

    ``empty`` is shown where there are no rows; it says what to do next. ``opens`` tells whether enter does
    something here. With ``follow`` the cursor stays on the last row while it is there and rows are added.
    """

    TONES: ClassVar[tuple[str, ...]] = (
        "quiet",
        "strong",
        "accent",
        "running",
        "waiting",
        "good",
        "bad",
    )
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "linelist--cursor",
        "linelist--cursor-blurred",
        *(f"linelist--{tone}" for tone in TONES),
    }
    BINDINGS = keymap.bindings("list")
    ALLOW_SELECT = False
    #: Whether a line that goes on at the right ends with a sign for that, which takes its last cell.
    MARKS_CUTS: ClassVar[bool] = True
    DEFAULT_CSS = """
    LineList {
        height: 1fr;
        scrollbar-size: 0 1;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
        scrollbar-color: $foreground 25%;
        scrollbar-color-hover: $foreground 40%;
        scrollbar-color-active: $foreground 40%;
        & > .linelist--cursor { background: $primary 35%; text-style: bold; }
        & > .linelist--cursor-blurred { background: $foreground 8%; }
        & > .linelist--quiet { text-style: dim; }
        & > .linelist--strong { text-style: bold; }
        & > .linelist--accent { color: $text-primary; }
        & > .linelist--running { color: $text-warning; }
        & > .linelist--waiting { color: $text-warning; text-style: bold; }
        & > .linelist--good { color: $text-success; }
        & > .linelist--bad { color: $text-error; }
        &:ansi > .linelist--cursor { background: ansi_blue; color: ansi_bright_white; text-style: bold; }
        &:ansi > .linelist--cursor-blurred { text-style: underline; }
        &:nocolor > .linelist--cursor { text-style: reverse; }
        &:nocolor > .linelist--cursor-blurred { text-style: underline; }
    }
    """

    cursor: reactive[int] = reactive(0, repaint=False)
    #: Whether the line under the cursor is marked.
    show_cursor: bool = True

    class Highlighted(Message):
        """The cursor came to another row. ``row_id`` is None where there are no rows."""

        def __init__(self, list: LineList, index: int, row_id: str | None) -> None:
            super().__init__()
            self.list = list
            self.index = index
            self.row_id = row_id

        @property
        def control(self) -> LineList:
            return self.list

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LineList.Highlighted) and message.list is self.list

    class Selected(Message):
        """A row was opened with enter or a double click. ``index`` counts in the provider's rows."""

        def __init__(self, list: LineList, index: int, row_id: str) -> None:
            super().__init__()
            self.list = list
            self.index = index
            self.row_id = row_id

        @property
        def control(self) -> LineList:
            return self.list

    class FilterWanted(Message):
        """The filter key was pressed; the pane around the list opens its field."""

        def __init__(self, list: LineList) -> None:
            super().__init__()
            self.list = list

    def __init__(
        self,
        rows: Rows | None = None,
        *,
        empty: str = "",
        opens: bool = True,
        filterable: bool = True,
        follow: bool = False,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._rows: Rows = rows if rows is not None else TextRows()
        self._order: Sequence[int] = range(len(self._rows))
        self._filter = ""
        self._empty = empty
        self._filterable = filterable
        self._current: str | None = self._rows.row_id(0) if len(self._rows) else None
        #: The row that the cursor goes to when the first rows come.
        self.preferred: str | None = None
        # A few screenfuls: each strip is a dozen objects for Python's collector, which a person waits for.
        self._strips: dict[tuple[int, int, int, bool], Strip] = {}
        self._styles: dict[str, Style] = {}
        #: Whether enter opens rows here.
        self.opens = opens
        #: Whether the cursor stays on the last row while it is there and rows are added.
        self.follows = follow

    # What is shown

    @property
    def rows(self) -> Rows:
        return self._rows

    @property
    def shown(self) -> Sequence[int]:
        """Indexes, in the provider, of the rows that pass the filter."""
        return self._order

    @property
    def current_id(self) -> str | None:
        """The id of the row under the cursor."""
        return self._current

    @property
    def current_index(self) -> int | None:
        """The provider's index of the row under the cursor."""
        cursor: int = self.cursor
        return self._order[cursor] if 0 <= cursor < len(self._order) else None

    @property
    def filter(self) -> str:
        return self._filter

    def drawn_line(self, index: int) -> str:
        """The provider's row ``index`` as it is drawn, without the spaces at its end."""
        width = self._width or 80
        return "".join(inert(span[0]) for span in self._rows.line(index, width)).rstrip()

    def set_empty(self, text: str) -> None:
        """Change what is shown while there are no rows."""
        if text != self._empty:
            self._empty = text
            self._repaint()

    def set_rows(self, rows: Rows) -> None:
        """Show other rows; the cursor stays on the row with the same id, else at the same place."""
        at_end = self.follows and len(self._order) > 0 and self.cursor == len(self._order) - 1
        self._rows = rows
        self._arrange(at_end=at_end)

    def rows_changed(self) -> None:
        """The provider's rows changed in place."""
        self.set_rows(self._rows)

    def set_filter(self, text: str) -> None:
        """Show only rows that hold every word of ``text``, in any case."""
        if text != self._filter:
            self._filter = text
            self._arrange()

    def go_to(self, row_id: str) -> bool:
        """Put the cursor on the row ``row_id``; False where no such row is shown."""
        for position, index in enumerate(self._order):
            if self._rows.row_id(index) == row_id:
                self._move(position)
                return True
        return False

    def prefer(self, row_id: str | None) -> None:
        """Put the cursor on this row with the first rows that come, where it is among them and nobody has moved."""
        self.preferred = row_id

    def _arrange(self, *, at_end: bool = False) -> None:
        words = self._filter.casefold().split()
        count = len(self._rows)
        self._order = range(count)
        text = self._rows.text
        for word in words:
            # Plain loops: with ten thousand rows, whatever else is done for each of them is felt at the keys.
            self._order = [index for index in self._order if word in text(index).casefold()]
        self._set_size()
        last = len(self._order) - 1
        position = last if at_end else self._find(self._current)
        if self.preferred is not None and count:
            wanted, self.preferred = self._find(self.preferred), None
            position = position if wanted is None else wanted
        if position is None:
            position = min(self.cursor, last)
        offset = self.cursor - round(self.scroll_y)
        self.set_reactive(LineList.cursor, max(0, position))
        if 0 <= offset < self._height:
            self.scroll_to(y=self.cursor - offset, animate=False, force=True)
        self._reveal()
        self._note_current()
        self._repaint()

    def _find(self, row_id: str | None) -> int | None:
        if row_id is None:
            return None
        rows, order = self._rows, self._order
        near: Sequence[int] = range(max(0, self.cursor - 2), min(len(order), self.cursor + 3))
        for position in chain(near, range(len(order))):
            if rows.row_id(order[position]) == row_id:
                return position
        return None

    def _note_current(self) -> None:
        index = self.current_index
        current = None if index is None else self._rows.row_id(index)
        if current != self._current:
            self._current = current
            self.post_message(self.Highlighted(self, -1 if index is None else index, current))

    @property
    def _width(self) -> int:
        """Cells for a line, the scroll bar not counted."""
        return self.scrollable_content_region.width

    @property
    def _height(self) -> int:
        return self.scrollable_content_region.height

    # Movement

    def _move(self, position: int) -> None:
        self.preferred = None
        position = max(0, min(position, len(self._order) - 1))
        if position != self.cursor:
            self.cursor = position
        self._reveal()
        self._note_current()
        self.refresh()

    def _reveal(self) -> None:
        height = max(1, self._height)
        top = round(self.scroll_y)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, force=True)

    def action_cursor(self, by: int) -> None:
        self._move(self.cursor + by)

    def action_page(self, by: int) -> None:
        self._move(self.cursor + by * max(1, self._height - 1))

    def action_edge(self, side: int) -> None:
        self._move(0 if side < 0 else len(self._order) - 1)

    def action_sideways(self, by: int) -> None:
        self.scroll_to(x=self.scroll_x + by, animate=False, force=True)

    def action_select(self) -> None:
        index = self.current_index
        if index is not None:
            self.post_message(self.Selected(self, index, self._rows.row_id(index)))

    def action_filter(self) -> None:
        self.post_message(self.FilterWanted(self))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "select":
            return self.opens and len(self._order) > 0
        if action == "filter":
            return self._filterable and (len(self._rows) > 0 or bool(self._filter))
        return True

    def on_click(self, event: events.Click) -> None:
        position = event.y + round(self.scroll_y)
        if position < len(self._order):
            self._move(position)
            if event.chain == 2 and self.opens:
                self.action_select()

    # Drawing

    def on_mount(self) -> None:
        plain_bars(self)
        self._set_size()

    def on_resize(self) -> None:
        self._strips.clear()
        self._set_size()
        self._reveal()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()
        self._styles.clear()

    def _set_size(self) -> None:
        width = getattr(self._rows, "width", 0)
        size = Size(width, len(self._order))
        if size != self.virtual_size:
            self.virtual_size = size

    def _repaint(self) -> None:
        self._strips.clear()
        self.refresh()
        if self.is_attached and self.has_focus:
            self.screen.refresh_bindings()

    def _style(self, tone: str) -> Style:
        style = self._styles.get(tone)
        if style is None:
            if tone.startswith("code:"):
                from .editor_highlight import editor_theme  # loads the grammars

                app = self.app
                styles = editor_theme(app.current_theme.dark, app.native_ansi_color).syntax_styles
                style = styles.get(tone.removeprefix("code:"), Style.null())
            elif tone in self.TONES or tone.startswith("cursor"):
                style = self.get_component_rich_style(
                    f"linelist--{tone}", partial=not tone.startswith("cursor")
                )
            else:
                raise ValueError(f"there is no tone {tone!r}")
            self._styles[tone] = style
        return style

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        width = self._width
        position = top + y
        if position >= len(self._order):
            return self._empty_line(y, width) if not self._order else Strip.blank(width, self.rich_style)
        at_cursor = self.show_cursor and position == self.cursor
        key = (self._order[position], width, left, at_cursor)
        strip = self._strips.get(key)
        if strip is None:
            while len(self._strips) >= 3 * max(self._height, 20):
                del self._strips[next(iter(self._strips))]  # the one that was drawn first
            strip = self._strips[key] = self._draw(self._order[position], width, left, at_cursor)
        return strip

    def _draw(self, index: int, width: int, left: int, at_cursor: bool) -> Strip:
        base = self.rich_style
        if at_cursor:
            base = self._style("cursor" if self.has_focus else "cursor-blurred")
        # Nobody knows whether the terminal's own colours can be told apart on the cursor's.
        plain = at_cursor and self.has_focus and self.app.native_ansi_color
        segments = [
            Segment(drawn(text, self.app), base + self._style(tone) if tone and not plain else base)
            for text, tone in self._rows.line(index, width)
        ]
        strip, right = Strip(segments), left + width
        length = strip.cell_length
        if not self.MARKS_CUTS or length <= right or not strip.crop(right, length).text.strip():
            return strip.crop_extend(left, right, base)
        sign = ">" if getattr(self.app, "ascii", False) else "…"
        cut = Segment(sign, base if plain else base + self._style("quiet"))
        return Strip.join([strip.crop_extend(left, right - 1, base), Strip([cut], 1)])

    def _empty_line(self, y: int, width: int) -> Strip:
        text = self._empty
        if self._filter and len(self._rows):
            text = f"Nothing here holds {self._filter!r}.\nEscape clears the filter."
        lines = wrap(text, max(1, width - 2))
        style = self.rich_style
        if y >= len(lines):
            return Strip.blank(width, style)
        return Strip([Segment(" " + drawn(lines[y], self.app), style + self._style("quiet"))]).crop_extend(
            0, width, style
        )
