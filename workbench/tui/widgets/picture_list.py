"""A list that can show pages drawn by the terminal, and which notes what of them stood in its viewport."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rich.style import Style
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widgets._toast import Toast

from ..graphics import at
from ..refresh import Refresher
from .lines import LineList, Rows
from .page_rows import KittyPage, PageRows, SixelPage


class PictureList(LineList):
    """A LineList whose rows may be ``PageRows``.

    Kitty pictures stand in the cells themselves. Sixels are drawn over blank cells each time these were painted,
    and not at all while something lies over them. Each cell of a line counts: no sign takes one.
    """

    MARKS_CUTS = False

    class PictureStood(Message):
        """These parts of pages stood in the viewport: section, row, and the cells from one to another."""

        def __init__(self, rows: PageRows, parts: Sequence[tuple[int, int, int, int]]) -> None:
            super().__init__()
            self.rows = rows
            self.parts = parts

    class PagesWanted(Message):
        """These pages came into the viewport and are not drawn yet."""

        def __init__(self, rows: PageRows, pages: Sequence[int]) -> None:
            super().__init__()
            self.rows = rows
            self.pages = pages

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, PictureList.PagesWanted)

    def __init__(self, *, opens: bool) -> None:
        super().__init__(opens=opens)
        self._pages_stood: tuple[PageRows, int, frozenset[int]] | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self._encoder = Refresher(self.screen, self._encode, "draw")

    def on_unmount(self) -> None:
        if self.pages is not None:
            self.send(self.pages.close())

    @property
    def pages(self) -> PageRows | None:
        """The rows, where they are pages drawn by the terminal."""
        return self.rows if isinstance(self.rows, PageRows) else None

    def set_rows(self, rows: Rows) -> None:
        before = self.pages
        if before is not None and before is not rows:
            self.send(before.close())
        super().set_rows(rows)

    def page_ready(self, rows: PageRows, number: int) -> None:
        """A page got its pixels, or it is known that it has none."""
        if rows is not self.rows:
            self.send(rows.close())
            return
        page = rows.page(number)
        if isinstance(page, KittyPage):
            self.send(page.opening())
        self.send(rows.trim([place[0] for place in self._visible().values()]))
        self._repaint()

    def send(self, sequences: str) -> None:
        """Write to the terminal what ``graphics`` made."""
        driver = self.app._driver
        if sequences and driver is not None and not self.app.is_headless:
            driver.write(sequences)
            driver.flush()

    # What stands in the viewport

    def _visible(self) -> dict[int, tuple[int, int]]:
        """Lines of the viewport in which a section stands, with its place; what is covered is left out."""
        rows, found = self.pages, {}
        if rows is not None:
            top, covered = round(self.scroll_y), self._covered()
            for y, index in enumerate(self.shown[top : top + self._height]):
                place = rows.place(index)
                if place is not None and y not in covered:
                    found[y] = place
        return found

    def look_at_pages(self) -> None:
        """Note which rows are drawn in the viewport; those that were there the last time too have stood."""
        rows = self.pages
        if rows is None or not self.in_front():
            self._pages_stood = None
            return
        visible = self._visible()
        numbers = dict.fromkeys(section for section, _ in visible.values() if section)
        if wanted := [number for number in numbers if rows.missing(number)]:
            self.post_message(self.PagesWanted(rows, wanted))
        left, right = round(self.scroll_x), round(self.scroll_x) + self._width
        now = frozenset(
            rows.index(section, row)
            for section, row in visible.values()
            if section == 0 or rows.page(section) is not None
        )
        before, self._pages_stood = self._pages_stood, (rows, left, now)
        if before is None or before[0] is not rows or before[1] != left:
            return
        places = [rows.place(index) for index in sorted(before[2] & now)]
        parts = [
            (section, row, left if section else 0, right if section else 1)
            for section, row in filter(None, places)
            if section or left == 0
        ]
        if parts:
            self.post_message(self.PictureStood(rows, parts))

    def _covered(self) -> set[int]:
        """The lines of the viewport that a notice lies over at the moment."""
        lines: set[int] = set()
        for toast in self.screen.query(Toast):
            over = toast.region.intersection(self.region)
            lines.update(range(over.y - self.region.y, over.bottom - self.region.y))
        return lines

    def in_front(self) -> bool:
        """Whether a person can see the whole viewport."""
        if not self.is_attached or self.app.screen is not self.screen or not self.display:
            return False
        return self._height > 0 and self.screen.region.contains_region(self.region)

    # Moving

    def go_to_part(self, section: int, row: int, column: int) -> None:
        """Put a part of a page on top of the viewport; an edge of it goes to the edge of the viewport."""
        rows = self.pages
        if rows is None:
            return
        index = rows.index(section, row)
        self._move(index)
        left = 0 if section == 0 or column < self._width else column
        # The line that names the page is worth its room.
        self.scroll_to(x=left, y=index - (row == 0), animate=False, force=True)

    def action_cursor(self, by: int) -> None:
        if self.pages is None:
            super().action_cursor(by)
        else:
            self._scroll_pages(by)

    def action_page(self, by: int) -> None:
        if self.pages is None:
            super().action_page(by)
        else:
            self._scroll_pages(by * max(1, self._height - 1))

    def _scroll_pages(self, by: int) -> None:
        """The cursor is not seen in a picture, so the viewport moves at once and takes it along."""
        top = max(0, min(round(self.scroll_y) + by, len(self.shown) - self._height))
        self.scroll_to(y=top, animate=False, force=True)
        self.set_reactive(LineList.cursor, top)
        self._note_current()

    # Drawing

    def _draw(self, index: int, width: int, left: int, at_cursor: bool) -> Strip:
        rows = self.pages
        place = rows.place(index) if rows is not None else None
        page = rows.page(place[0]) if rows is not None and place is not None else None
        if page is None or place is None:
            # Words over and between the pictures stay where they are when a wide picture is scrolled sideways.
            pages = rows is not None
            return super()._draw(index, width, 0 if pages else left, at_cursor and not pages)
        base = self.rich_style
        if isinstance(page, SixelPage):
            return Strip.blank(width, base)
        ground = Style(bgcolor=base.bgcolor)
        segments = [
            segment._replace(style=ground + (segment.style or ground))
            for segment in page.segments(place[1], left, left + width)
        ]
        return Strip(segments, len(segments)).extend_cell_length(width, base)

    def render_lines(self, crop: Region) -> list[Strip]:
        if self.pages is not None:
            self.call_after_refresh(self._overlay)
        return super().render_lines(crop)

    def _overlay(self) -> None:
        """Draw the sixels over the cells that were painted; those that are not made yet come later."""
        if not self.is_attached or not self.in_front():
            return
        sequences, left = [], round(self.scroll_x)
        area = self.scrollable_content_region
        for y, page, row in self._sixel_rows():
            right = left + area.width
            if page.ready(row, left, right):
                sequences.append(at(area.x, area.y + y, page.sixels(row, left, right)))
            else:
                self._encoder.request()
        self.send("".join(sequences))

    def _sixel_rows(self) -> list[tuple[int, SixelPage, int]]:
        rows = self.pages
        if rows is None:
            return []
        found = [(y, rows.page(section), row) for y, (section, row) in self._visible().items()]
        return [(y, page, row) for y, page, row in found if isinstance(page, SixelPage)]

    async def _encode(self) -> None:
        left = round(self.scroll_x)
        right = left + self._width
        wanted = [each for each in self._sixel_rows() if not each[1].ready(each[2], left, right)]
        if wanted:
            await asyncio.to_thread(lambda: [page.sixels(row, left, right) for _, page, row in wanted])
            self._overlay()
