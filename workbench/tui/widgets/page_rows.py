"""Pages of an image or a document as rows of a list, drawn by a terminal that has graphics.

A row of a picture is as high as a line of text, so pictures scroll, and are counted, like text. Pages are put in
one after another, as they come into the viewport; their pixels come from the process that decodes.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from rich.style import Style

from ...preview import Picture, Preview
from ...review_pictures import POINTS, PictureCoverage
from ..graphics import TILE, Graphics, Protocol, forget, placeholder, send
from .lines import Line, Span, wrap

if TYPE_CHECKING:
    from PIL import Image

#: Bytes of pixels that are kept drawn; what is out of sight is drawn again when it comes back.
MOST_KEPT: Final = 48 * 1024 * 1024
#: Numbers of kitty pictures; they are colours too, so every one has 24 bits.
_NUMBERS: Final = itertools.cycle(range(0x570000, 0x57FFFF))


class KittyPage:
    """A picture in the memory of the terminal, in tiles."""

    def __init__(self, picture: Picture, grid: tuple[int, int], cell: tuple[int, int]) -> None:
        self.size = len(picture.pixels)
        self._grid = grid
        self._tiles: dict[tuple[int, int], tuple[int, Style]] = {}
        self._sequences: list[str] = []
        for top in range(0, grid[1], TILE[1]):
            for left in range(0, grid[0], TILE[0]):
                cells = min(TILE[0], grid[0] - left), min(TILE[1], grid[1] - top)
                number = next(_NUMBERS)
                self._tiles[left, top] = number, Style(color=f"#{number:06x}")
                corner = left * cell[0], top * cell[1]
                size = cells[0] * cell[0], cells[1] * cell[1]
                self._sequences += send(number, _cut(picture, corner, size), size, cells)

    def opening(self) -> str:
        """What the terminal is sent before the page is drawn for the first time."""
        sequences, self._sequences = "".join(self._sequences), []
        return sequences

    def closing(self) -> str:
        return "".join(forget(number) for number, _ in self._tiles.values())

    def segments(self, row: int, left: int, right: int) -> Iterator[Segment]:
        """The cells of ``row`` from ``left`` to ``right``, each by itself so that none is ever cut."""
        top = row - row % TILE[1]
        for column in range(left, min(right, self._grid[0])):
            start = column - column % TILE[0]
            yield Segment(placeholder(row - top, column - start), self._tiles[start, top][1])


def _cut(picture: Picture, corner: tuple[int, int], size: tuple[int, int]) -> bytes:
    """The pixels of a part of ``picture``; black where it reaches past the edge."""
    wide = max(0, min(size[0], picture.width - corner[0])) * 3
    pad = bytes(size[0] * 3 - wide)
    rows = []
    for y in range(corner[1], corner[1] + size[1]):
        start = (y * picture.width + corner[0]) * 3
        rows.append(picture.pixels[start : start + wide] + pad if y < picture.height else bytes(size[0] * 3))
    return b"".join(rows)


class SixelPage:
    """A picture whose rows are made into sixels as they are wanted."""

    def __init__(self, picture: Picture, cell: tuple[int, int]) -> None:
        from PIL import Image  # loaded where a terminal draws sixels, and nowhere else

        self.size = len(picture.pixels)
        self._cell = cell
        drawn = Image.frombytes("RGB", (picture.width, picture.height), picture.pixels)
        self._image: Image.Image = drawn.quantize(256, method=Image.Quantize.FASTOCTREE)
        self._rows: dict[tuple[int, int, int], str] = {}

    def ready(self, row: int, left: int, right: int) -> bool:
        """Whether ``sixels`` has the answer at hand."""
        return (row, left, right) in self._rows

    def sixels(self, row: int, left: int, right: int) -> str:
        """The sixels of ``row`` from cell ``left`` to ``right``; may take some milliseconds."""
        key = (row, left, right)
        if key not in self._rows:
            if len(self._rows) > 1_000:
                self._rows.clear()
            from textual_image._sixel import image_to_sixels

            (wide, high), image = self._cell, self._image
            box = left * wide, row * high, min(right * wide, image.width), min((row + 1) * high, image.height)
            part = image.crop(box) if box[2] > box[0] and box[3] > box[1] else None
            self._rows[key] = image_to_sixels(part) if part is not None else ""
        return self._rows[key]


class PageRows:
    """Facts, then each page under a line that names it.

    ``scale`` is that of all pages. ``columns`` are the cells for the facts; a wider page is scrolled sideways.
    """

    def __init__(
        self, preview: Preview, graphics: Graphics, scale: float, columns: int, media_type: str
    ) -> None:
        assert graphics.protocol is not None
        self.graphics = graphics
        self.scale = scale
        self.count = preview.count
        is_page = media_type == "application/pdf"
        how = f"{round(scale * POINTS)} dpi" if is_page else "full size"
        #: The renderer's name, as receipts record it.
        self.name = f"{graphics.protocol.value}, {how}"
        self._word = "page" if is_page else "frame" if preview.count > 1 else "image"
        facts = list(preview.facts)
        if not preview.listed:
            facts.append("What is not listed was not shown: open or export the exact copy to decide.")
        self.facts: list[Line] = [(Span(line),) for fact in facts for line in wrap(fact, columns)]
        self._columns = columns
        self.grids = [self._grid(preview.size(page)) for page in range(preview.count)]
        #: Cells of the widest row, which the list scrolls sideways to.
        self.width = max((grid[0] for grid in self.grids), default=0)
        self._starts: list[int] = []
        at = len(self.facts) + 1
        for grid in self.grids:
            self._starts.append(at)
            at += grid[1] + 2  # A line that names the page, and an empty one behind it.
        self._length = at - 1
        self._pages: dict[int, KittyPage | SixelPage | str] = {}

    def _grid(self, size: tuple[float, float]) -> tuple[int, int]:
        """Columns and rows of a page."""
        wide, high = (max(1, math.ceil(side * self.scale)) for side in size)
        return -(-wide // self.graphics.cell[0]), -(-high // self.graphics.cell[1])

    def __len__(self) -> int:
        return self._length

    def row_id(self, index: int) -> str:
        return str(index)

    def text(self, index: int) -> str:
        return "".join(span.text for span in self.line(index, 0))

    def copied(self, index: int) -> tuple[str, str]:
        return "the line", self.text(index)

    def place(self, index: int) -> tuple[int, int] | None:
        """Section and row that stand in a row of the list; None for what only names or separates."""
        if index < len(self.facts):
            return 0, index
        page = bisect_right(self._starts, index)
        row = index - self._starts[page - 1] - 1 if page else -1
        return (page, row) if 0 <= row < (self.grids[page - 1][1] if page else 0) else None

    def index(self, section: int, row: int) -> int:
        """The row of the list in which a row of a section stands."""
        return row if section == 0 else self._starts[section - 1] + 1 + row

    def lay_out(self, coverage: PictureCoverage) -> None:
        """Tell the coverage how large each section is."""
        coverage.lay_out(0, (1, len(self.facts)))
        for number, grid in enumerate(self.grids, 1):
            coverage.lay_out(number, grid)

    def line(self, index: int, width: int) -> Line:
        if index < len(self.facts):
            return self.facts[index]
        page = bisect_right(self._starts, index)
        if page and index == self._starts[page - 1]:
            wider = ", wider than this pane" if self.grids[page - 1][0] > self._columns else ""
            which = f"{self._word} {page:,} of {self.count:,}" if self._word != "image" else "image"
            return (Span(f"{which}, {self.name}{wider}", "quiet"),)
        made = self._pages.get(page) if page else None
        if page and index == self._starts[page - 1] + 1 and (made is None or isinstance(made, str)):
            return (Span(made or "Drawing.", "quiet"),)
        return ()

    # Pages

    def page(self, number: int) -> KittyPage | SixelPage | None:
        made = self._pages.get(number)
        return None if isinstance(made, str) else made

    def missing(self, number: int) -> bool:
        """Whether a page has neither been drawn nor been found to be undrawable."""
        return number not in self._pages

    def put(self, number: int, picture: Picture) -> None:
        """Give a page its pixels; may take a while. Raises ValueError where they are not as large as announced."""
        grid, cell = self.grids[number - 1], self.graphics.cell
        if -(-picture.width // cell[0]) > grid[0] or -(-picture.height // cell[1]) > grid[1]:
            raise ValueError("the page is larger than it was said to be")
        kitty = self.graphics.protocol is Protocol.KITTY
        self._pages[number] = KittyPage(picture, grid, cell) if kitty else SixelPage(picture, cell)

    def fail(self, number: int, why: str) -> None:
        self._pages[number] = why

    def trim(self, visible: Sequence[int]) -> str:
        """Forget the pages farthest from the ``visible`` ones past MOST_KEPT; the sequences that do it."""
        kept = {number: page for number, page in self._pages.items() if not isinstance(page, str)}
        near = visible[0] if visible else 1
        sequences = ""
        while len(kept) > 1 and sum(page.size for page in kept.values()) > MOST_KEPT:
            far = max(kept, key=lambda number: abs(number - near))
            if far in visible:
                break
            sequences += self._close(kept.pop(far))
            del self._pages[far]
        return sequences

    def close(self) -> str:
        """The sequences that take everything out of the terminal's memory."""
        sequences = "".join(self._close(page) for page in self._pages.values() if not isinstance(page, str))
        self._pages.clear()
        return sequences

    @staticmethod
    def _close(page: KittyPage | SixelPage) -> str:
        return page.closing() if isinstance(page, KittyPage) else ""
