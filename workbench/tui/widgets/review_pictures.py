"""Draws the picture of what is under review: as the terminal's graphics, else in half blocks, else in words."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from textual.app import App
from textual.widget import Widget

from workflows_core.model import Artifact

from ...preview import Preview, PreviewFailed, render
from ...preview.process import ANSWER_BYTES
from ...review import Progress
from ...review_pictures import PictureCoverage, legible_scale
from ..graphics import Graphics, Protocol
from ..refresh import Refresher
from .bytes_view import BytesView
from .lines import TextRows
from .page_rows import PageRows
from .picture_list import PictureList
from .picture_rows import MOST_ROWS, picture_rows
from .review_rows import text_rows

#: A page of more pixels than this is not sent over by the process that draws.
_MOST_PIXELS: Final = (ANSWER_BYTES - 64 * 1024) // 3


def graphics_of(app: App[Any]) -> Graphics:
    """What the terminal of ``app`` can draw, as its colours are now."""
    context = getattr(app, "context", None)
    graphics: Graphics = context.graphics.now() if context is not None else Graphics()
    if graphics.protocol is Protocol.KITTY and app.console.color_system != "truecolor":
        return Graphics(why="24-bit colours are turned off")
    return graphics


class Pictures:
    """Fills ``output`` with the picture of an artifact. What was drawn is kept until another one is shown."""

    def __init__(self, owner: Widget, output: BytesView, *, unicode: bool) -> None:
        self._owner = owner
        self._output = output
        self._unicode = unicode
        self._artifact: Artifact | None = None
        self._facts: Preview | None = None
        self._sketch: tuple[int, TextRows] | None = None
        self._wanted: list[int] = []
        self._loader = Refresher(owner.screen, self._load, "draw")

    def forget(self) -> None:
        """Another thing is shown."""
        self._artifact = self._facts = self._sketch = None
        self._wanted.clear()

    async def show(self, artifact: Artifact, progress: Progress | None, width: int) -> bool:
        """Draw ``artifact`` for ``width`` cells. False where it was overtaken by ``forget``."""
        if self._artifact is not artifact:
            self.forget()
            self._artifact = artifact
        graphics = graphics_of(self._owner.app)
        why = graphics.why
        if graphics.protocol is not None:
            why = f"it is too large to be drawn at legible size by {graphics.protocol.value}"
            try:
                rows = await self._pages(artifact, graphics, progress, width)
            except PreviewFailed:
                rows, why = None, ""  # The sketch fails too, and says why.
            if self._artifact is not artifact:
                return False
            if rows is not None:
                self._output.show_rows(rows)
                return True
        rows_of_sketch = await self._half_blocks(artifact, width, why)
        if self._artifact is not artifact:
            return False
        self._output.show_rows(rows_of_sketch)
        return True

    async def _pages(
        self, artifact: Artifact, graphics: Graphics, progress: Progress | None, width: int
    ) -> PageRows | None:
        """Rows for pages that are drawn as they come into view; None where one is too large. Raises PreviewFailed."""
        if self._facts is None:
            self._say("Drawing.")
            self._facts = await render(artifact.body, artifact.media_type, width=1, height=1, pages=0)
        facts = self._facts
        if facts.count == 0:
            return None
        sizes = [facts.size(page) for page in range(facts.count)]
        room = width * graphics.cell[0]
        scale = legible_scale(artifact.media_type, max(size[0] for size in sizes), room)
        if any((size[0] * scale + 1) * (size[1] * scale + 1) > _MOST_PIXELS for size in sizes):
            return None
        rows = PageRows(facts, graphics, scale, width, artifact.media_type)
        shown = self._output.pages
        if shown is not None and (shown.name, shown.grids, shown.facts) == (
            rows.name,
            rows.grids,
            rows.facts,
        ):
            rows = shown
        if progress is not None:
            if progress.pictures is None:
                progress.pictures = PictureCoverage(facts.count, listed=facts.listed)
            rows.lay_out(progress.pictures)
        return rows

    async def _half_blocks(self, artifact: Artifact, width: int, why: str) -> TextRows:
        if self._sketch is None or self._sketch[0] != width:
            colour = self._unicode and "nocolor" not in self._owner.get_pseudo_classes()
            self._say("Drawing.")
            try:
                preview = await render(artifact.body, artifact.media_type, width=width, height=2 * MOST_ROWS)
                rows = picture_rows(preview, width, colour=colour, why=why)
            except PreviewFailed as error:
                rows = text_rows(
                    f"{error.title}: {error}.\n\n"
                    "Its bytes are in the other tabs, which does not count as shown. To decide, open or export the exact "
                    "copy and state that you viewed it.",
                    width,
                )
            self._sketch = width, rows
        return self._sketch[1]

    def _say(self, words: str) -> None:
        self._output.set_empty(words)
        self._output.show_rows(TextRows())

    # Pages as they come into view

    def want(self, message: PictureList.PagesWanted) -> None:
        if message.rows is self._output.pages:
            self._wanted = list(message.pages)
            self._loader.request()

    async def _load(self) -> None:
        artifact, rows = self._artifact, self._output.pages
        while artifact is not None and rows is not None and self._wanted and rows is self._output.pages:
            number = self._wanted.pop(0)
            if not rows.missing(number):
                continue
            try:
                preview = await render(
                    artifact.body,
                    artifact.media_type,
                    width=1,
                    height=1,
                    scale=rows.scale,
                    first=number - 1,
                    pages=1,
                )
                if not preview.pictures:
                    raise PreviewFailed("the page is not there")
                await asyncio.to_thread(rows.put, number, preview.pictures[0])
            except PreviewFailed as error:
                rows.fail(number, f"{error.title}: {error}.")
            except ValueError as error:
                rows.fail(number, f"There is no preview: {error}.")
            self._output.page_ready(rows, number)
