"""The pane around an editor: its lower border says where the cursor is and, where asked, one thing more."""

from __future__ import annotations

from textual import events
from textual.content import Content

from ...inert import cells, shorten
from .pane import Pane

#: Cells of the lower border that its corners and the space around its text take.
_FRAME = 8


class EditorPane(Pane):
    """``show_place`` and ``say`` write the lower border; what is said is cut to the room beside the place."""

    def __init__(self, *, unicode: bool = True, id: str | None = None) -> None:
        super().__init__(id=id)
        self._between, self._ellipsis = (" · ", "…") if unicode else ("  ", "...")
        self._place = self._said = ""

    def show_place(self, place: str) -> None:
        """Show the place of the cursor, such as ``12:5``; empty where there is no cursor."""
        self._place = place
        self._write()

    def say(self, said: str) -> None:
        """Show ``said``, one line of any text, left of the place; empty takes it away."""
        if said != self._said:
            self._said = said
            self._write()

    def on_resize(self, event: events.Resize) -> None:
        self._write()

    def _write(self) -> None:
        room = self.size.width - cells(self._place) - _FRAME
        said = shorten(self._said, room, ellipsis=self._ellipsis)
        self.border_subtitle = Content(self._between.join(part for part in (said, self._place) if part))
