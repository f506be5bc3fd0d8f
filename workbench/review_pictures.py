"""How much of an image or a document was drawn so that it can be read, without a screen.

An image counts at legible size: a pixel of the terminal, or more, for each of its own. A page counts when it is
drawn at LEGIBLE_DPI or more. Both count only where the terminal draws pictures, and together with the lines that
list what the file carries beside them. What is drawn in half blocks never comes here.
"""

from __future__ import annotations

from typing import Final

from .review_coverage import Coverage

#: Pixels to the inch of a page, of which a point is a 72nd part.
LEGIBLE_DPI: Final = 100
#: Nothing is gained by drawing a page any finer.
FINEST_DPI: Final = 160
POINTS: Final = 72
#: Units in which the bar shows a section.
_UNITS: Final = 1_000


def legible_scale(media_type: str, widest: float, room: int) -> float:
    """The scale at which pages, of which the widest has ``widest`` points or pixels, count as legible.

    A page grows with the ``room`` in pixels that there is for it; an image has its own size. What does not fit is
    scrolled.
    """
    if media_type != "application/pdf":
        return 1.0
    dpi = room / max(widest, 1) * POINTS
    return max(LEGIBLE_DPI, min(FINEST_DPI, int(dpi))) / POINTS


class PictureCoverage:
    """Which parts of the pages of one file stood in the viewport, legibly.

    Section 0 is what the file carries, in words; section n is page n. A section is a grid of cells, whose size
    depends on the terminal: a section that was shown in full stays so when its grid changes, any other starts anew.
    ``listed`` says that section 0 names everything.
    """

    def __init__(self, pages: int, *, listed: bool) -> None:
        self.pages = pages
        self.listed = listed
        self._grids: dict[int, tuple[tuple[int, int], Coverage]] = {}
        self._done: set[int] = set()

    def lay_out(self, section: int, grid: tuple[int, int]) -> None:
        """``section`` has ``grid`` columns and rows now."""
        known = self._grids.get(section)
        if known is None or known[0] != grid:
            self._grids[section] = grid, Coverage(grid[0] * grid[1])

    def add(self, section: int, row: int, left: int, right: int) -> bool:
        """Cells ``left`` to ``right`` of ``row`` stood, as laid out; whether that is news."""
        known = self._grids.get(section)
        if known is None or section in self._done:
            return False
        (columns, rows), coverage = known
        left, right = max(0, left), min(right, columns)
        if not 0 <= row < rows or left >= right:
            return False
        news = coverage.add(row * columns + left, row * columns + right)
        if coverage.complete:
            self._done.add(section)
        return news

    def shown(self, section: int) -> bool:
        """Whether the whole section was shown."""
        return section in self._done

    @property
    def shown_pages(self) -> int:
        return sum(section > 0 for section in self._done)

    @property
    def complete(self) -> bool:
        """Whether every page was drawn legibly and shown, and all that the file carries was listed."""
        return self.listed and self.pages > 0 and len(self._done) == self.pages + 1

    @property
    def percent(self) -> int:
        """Rounded down, so that 100 means all."""
        if self.complete:
            return 100
        return min(99, sum(end - start for start, end in self.ranges) * 100 // self.size)

    @property
    def size(self) -> int:
        """The length of the bar, of which ``ranges`` were shown."""
        return (self.pages + 1) * _UNITS

    @property
    def ranges(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for section in range(self.pages + 1):
            start = section * _UNITS
            if section in self._done:
                found.append((start, start + _UNITS))
            elif section in self._grids:
                coverage = self._grids[section][1]
                found += [
                    (start + first * _UNITS // coverage.size, start + last * _UNITS // coverage.size)
                    for first, last in coverage.ranges
                ]
        return found

    def next_unseen(self, section: int, row: int) -> tuple[int, int, int] | None:
        """Section, row and column of the next part that was not shown, from a place on; else of the first."""
        order = [*range(section, self.pages + 1), *range(section)]
        for each in order:
            if each in self._done:
                continue
            known = self._grids.get(each)
            if known is None:
                return each, 0, 0
            (columns, _), coverage = known
            gap = coverage.next_unseen(row * columns if each == section else 0)
            if gap is not None:
                return each, gap[0] // columns, gap[0] % columns
        return None
