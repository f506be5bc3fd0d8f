"""Past notices, newest first: what went by as a toast can be read again and copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from textual.widget import Widget

from ... import words
from ...noticebook import Notice
from .. import keymap
from ..widgets.lines import Line, LineList, Span, TextRows, wrap
from .dialogs import Modal

if TYPE_CHECKING:
    from ..app import WorkbenchApp


_TONES = {"error": "bad", "warning": "waiting", "information": "strong"}


class NoticesScreen(Modal[None]):
    """The latest notices, of earlier sessions too. ``now`` in microseconds since the epoch."""

    BINDINGS = keymap.bindings("notices")
    TITLE = "Notices"

    def __init__(self, notices: Sequence[Notice], now: int) -> None:
        super().__init__()
        self._notices = tuple(reversed(notices))
        self._now = now
        self._owners: list[int] = []
        self._list = LineList(empty="Nothing was reported yet.", opens=False)

    def content(self) -> Iterable[Widget]:
        yield self._list

    def on_mount(self) -> None:
        self._list.focus()
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def moved_list(self) -> LineList:
        return self._list

    def action_copy_value(self) -> None:
        """Copy the notice under the cursor, as one line."""
        index = self._list.current_index
        if index is not None and self._owners[index] >= 0:
            cast("WorkbenchApp", self.app).copy("the notice", self._notices[self._owners[index]].text)

    def _lay_out(self) -> None:
        # What is left beside the indent and the scroll bar that long lists have.
        width = max(20, self._list.size.width - 2 - self._list.styles.scrollbar_size_vertical)
        lines: list[Line] = []
        self._owners = []
        for index, notice in enumerate(self._notices):
            head = (
                Span(notice.title or notice.severity, _TONES[notice.severity]),
                Span(f"  {words.ago(notice.at, self._now)}", "quiet"),
            )
            body = [(Span(f"  {line}"),) for line in wrap(notice.message, width)]
            lines += [head, *body, (Span(""),)]
            self._owners += [index] * (len(body) + 1) + [-1]
        self._list.set_rows(TextRows(lines))
