"""Pictures as rows of half blocks: two pixels in a cell, one above the other.

That is a sketch: it shows what a picture is, not what is in it, so it never counts as shown.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from ...preview import Picture, Preview
from .lines import Line, Span, TextRows, wrap

#: Cells of height that one picture takes at most.
MOST_ROWS = 48
_SKETCH: Final = (
    "A sketch in half blocks does not count as shown. To decide, open or export the exact copy and state that you "
    "viewed it."
)
_NO_SKETCH: Final = (
    "This terminal draws no colours, so there is no sketch. To decide, open or export the exact copy and state that "
    "you viewed it."
)


def picture_rows(preview: Preview, width: int, *, colour: bool, why: str = "") -> TextRows:
    """The facts about the document, then its pictures; without ``colour`` the facts alone.

    ``why`` is a clause that says why the terminal does not draw the picture itself.
    """
    lines: list[Line] = [(Span(line),) for fact in preview.facts for line in wrap(fact, width)]
    because = f" There is no larger picture because {why}." if why and colour else ""
    note = (_SKETCH if colour else _NO_SKETCH) + because
    lines += [(Span(line, "quiet"),) for line in wrap(note, width)]
    for number, picture in enumerate(preview.pictures, 1):
        lines.append(())
        if preview.count > 1:
            lines.append((Span(f"{number} of {preview.count:,}", "quiet"),))
        if colour:
            lines += half_blocks(picture)
    if len(preview.pictures) < preview.count:
        rest = preview.count - len(preview.pictures)
        lines += [(), (Span(f"{rest:,} more not drawn here", "quiet"),)]
    return TextRows(lines)


def half_blocks(picture: Picture) -> list[Line]:
    """Two rows of pixels a line; neighbours of the same colours are one span."""
    rows = [
        picture.pixels[y * picture.width * 3 : (y + 1) * picture.width * 3] for y in range(picture.height)
    ]
    if len(rows) % 2:
        rows.append(rows[-1])
    lines: list[Line] = []
    for y in range(0, len(rows), 2):
        cells = (
            (rows[y][x : x + 3].hex(), rows[y + 1][x : x + 3].hex()) for x in range(0, picture.width * 3, 3)
        )
        lines.append(
            tuple(
                Span("▀" * sum(1 for _ in group), f"rgb:{upper}:{lower}")
                for (upper, lower), group in groupby(cells)
            )
        )
    return lines
