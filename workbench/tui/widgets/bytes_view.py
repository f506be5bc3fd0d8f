"""The list in which exact bytes are read, and which notes what stood in its viewport."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Final

from rich.style import Style
from textual.message import Message

from .. import keymap
from ..refresh import Refresher
from .bars import LineBar
from .byte_rows import ByteRows, HexBytes, MarkdownBytes, TextBytes
from .json_bytes import JsonBytes, JsonTokens
from .lines import Rows, Span
from .picture_list import PictureList

#: Larger outputs are laid out in another thread.
LARGE: Final = 64 * 1024
#: In fewer cells than this rows do not fit, so nothing counts as shown.
LEAST: Final = 20
_LAYOUTS: Final[dict[str, type[ByteRows]]] = {
    "text": TextBytes,
    "markdown": MarkdownBytes,
    "hex": HexBytes,
}


class BytesView(PictureList):
    """Exact bytes in one of their renderings, or other rows.

    A row counts as shown when it has stood in the viewport for ``STOOD`` seconds while this screen was in
    front. What is folded, filtered away or scrolled past does not.
    """

    #: Seconds that a row stands before it counts.
    STOOD: ClassVar[float] = 0.1
    BINDINGS = keymap.bindings("review.output")

    class Stood(Message):
        """These bytes stood in the viewport. ``renderer`` says how they were drawn."""

        def __init__(
            self, view: BytesView, data: bytes, spans: Sequence[tuple[int, int]], renderer: str
        ) -> None:
            super().__init__()
            self.view = view
            self.data = data
            self.spans = spans
            self.renderer = renderer

        @property
        def control(self) -> BytesView:
            return self.view

    class TabWanted(Message):
        """A neighbouring tab is asked for; ``by`` is −1 or 1."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self) -> None:
        super().__init__(opens=False)
        self._data: bytes | None = None
        self._tokens: JsonTokens | None = None
        self._layout = ""
        self._folded: set[int] = set()
        self._standing: tuple[Rows, frozenset[int]] | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self._layouts = Refresher(self.screen, self._lay_out, "refresh")
        self.set_interval(self.STOOD, self._look)

    # What is shown

    @property
    def text_width(self) -> int:
        """Cells for text. The scroll bar's are left free, so that folding does not break every line anew."""
        return max(0, self.content_size.width - self.styles.scrollbar_size_vertical)

    @property
    def bytes_shown(self) -> ByteRows | None:
        """The rows, where they are exact bytes."""
        return self.rows if isinstance(self.rows, ByteRows) else None

    async def show_bytes(self, data: bytes, layout: str, tokens: JsonTokens | None) -> None:
        """Show ``data`` as ``tree`` (of ``tokens``), ``text``, ``markdown`` or ``hex``."""
        if (data, layout) != (self._data, self._layout):
            self._folded.clear()
        self._data, self._layout, self._tokens = data, layout, tokens
        self.opens = layout == "tree"
        await self._lay_out()

    def show_rows(self, rows: Rows) -> None:
        """Show rows that are no bytes under review."""
        self._data, self._layout, self._tokens = None, "", None
        self.opens = False
        self.set_rows(rows)

    async def _lay_out(self) -> None:
        data, width = self._data, self.text_width
        if data is None or width < 1:
            return
        if len(data) > LARGE:
            asked = (data, self._layout)
            rows = await asyncio.to_thread(self._make, data, width)
            if asked != (self._data, self._layout):
                return
        else:
            rows = self._make(data, width)
        shown = self.bytes_shown
        place = None if shown is None or self.current_index is None else shown.span(self.current_index)[0]
        same = shown is not None and shown.data is data
        self.set_rows(rows)
        if same and place is not None:
            self.go_to_byte(place)
        else:
            self.action_edge(-1)

    def _make(self, data: bytes, width: int) -> ByteRows:
        if self._layout == "tree" and self._tokens is not None:
            return JsonBytes(self._tokens, width, self._folded)
        return _LAYOUTS.get(self._layout, HexBytes)(data, width)

    def on_resize(self) -> None:
        super().on_resize()
        shown = self.bytes_shown
        if self._data is not None and (shown is None or shown.cells != self.text_width):
            self._layouts.request()

    # Moving and folding

    def go_to_byte(self, offset: int) -> None:
        """Put the row of the byte at ``offset`` on top of the viewport, with the cursor on it."""
        shown = self.bytes_shown
        if shown is None or len(shown) == 0:
            return
        row = shown.row_at(offset)
        if row in self.shown:
            position = self.shown.index(row)
            self._move(position)
            self.scroll_to(y=position, animate=False, force=True)

    def unfold(self, offset: int) -> None:
        """Open what hides the byte at ``offset``."""
        shown = self.bytes_shown
        if isinstance(shown, JsonBytes) and (hiding := shown.folds(offset)):
            self._folded -= hiding
            self._refold(shown)

    def action_select(self) -> None:
        """Fold or unfold the object or array that starts in the row under the cursor."""
        shown, index = self.bytes_shown, self.current_index
        if isinstance(shown, JsonBytes) and index is not None:
            line = shown.line_of(index)
            if shown.tokens.closes[line] >= 0:
                self._folded.symmetric_difference_update({line})
                self._refold(shown)

    def _refold(self, shown: JsonBytes) -> None:
        self._standing = None
        self.set_rows(JsonBytes(shown.tokens, shown.cells, self._folded))

    def action_tab(self, by: int) -> None:
        self.post_message(self.TabWanted(by))

    def _style(self, tone: str) -> Style:
        if not tone.startswith("rgb:"):
            return super()._style(tone)
        style = self._styles.get(tone)
        if style is None:
            if len(self._styles) > 20_000:
                self._styles.clear()
            _, upper, lower = tone.split(":")
            style = self._styles[tone] = Style(color=f"#{upper}", bgcolor=f"#{lower}")
        return style

    # What stood

    def _look(self) -> None:
        """Note which rows are in the viewport; those that were there the last time too have stood."""
        self.look_at_pages()
        rows = self.bytes_shown
        if rows is None or not self.in_front() or not LEAST <= rows.cells == self.text_width:
            self._standing = None
            return
        top = round(self.scroll_y)
        covered = self._covered()
        now = frozenset(
            index for y, index in enumerate(self.shown[top : top + self._height]) if y not in covered
        )
        before, self._standing = self._standing, (rows, now)
        if before is None or before[0] is not rows:
            return
        spans = [rows.span(index) for index in sorted(before[1] & now)]
        if spans:
            self.post_message(self.Stood(self, rows.data, spans, rows.NAME))


class CoverageBar(LineBar):
    """How much of the output was shown, where, and what is missing before something can be decided."""

    DEFAULT_CSS = """
    CoverageBar { margin-top: 1; }
    """

    def __init__(self, *, unicode: bool = True) -> None:
        super().__init__()
        self._unicode = unicode
        self._bytes = 0
        self._ranges: Sequence[tuple[int, int]] = ()
        self._label = ""
        self._complete = False

    def show(self, size: int, ranges: Sequence[tuple[int, int]], label: str, *, complete: bool) -> None:
        new = (size, ranges, label, complete)
        if new != (self._bytes, self._ranges, self._label, self._complete):
            self._bytes, self._ranges, self._label, self._complete = new
            self.refresh()

    def spans(self, width: int) -> Sequence[Span]:
        label = f"  {self._label}"
        room = max(8, min(40, width - len(label) - 6))
        tone = "good" if self._complete else "waiting"
        full, empty = ("█", "░") if self._unicode else ("#", ".")
        spans = [Span("shown ", "quiet")]
        spans += [Span(full, tone) if self._filled(n, room) else Span(empty, "quiet") for n in range(room)]
        return [*spans, Span(label, "good" if self._complete else "")]

    def _filled(self, cell: int, cells: int) -> bool:
        """Whether everything that the cell stands for was shown."""
        start = self._bytes * cell // cells
        end = max(start + 1, -(-self._bytes * (cell + 1) // cells))
        return self._complete or any(first <= start and end <= last for first, last in self._ranges)
