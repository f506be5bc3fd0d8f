"""Help: every key there is, those of the focused pane first, filtered while typing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from textual import on
from textual.widget import Widget
from textual.widgets import Input

from .. import keymap
from ..remap import Keymap
from ..widgets.lines import Line, LineList, Span, TextRows, fit
from ..widgets.pane import Field
from .dialogs import Modal

_KEYS_WIDTH = 16
#: Columns of the terminal from which the ids of keys stand beside them.
IDS_FROM: Final = 100


def help_rows(
    chain: Sequence[str], keys: Keymap, query: str = "", *, ids: bool = True, unicode: bool = True
) -> list[Line]:
    """The lines of help: a heading for each pane and its keys, ``chain`` first, then all the others.

    ``query`` leaves the keys that hold each of its words in key, verb, sentence, id or heading; ``ids`` shows the ids.
    """
    words = query.casefold().split()
    panes = [*chain, *(pane for pane in keymap.PANES if pane not in chain)]
    lines: list[Line] = []
    for pane in panes:
        heading = keymap.PANES[pane]
        found = []
        for row in keymap.rows((pane,)):
            label = keys.label(row.id, unicode=unicode)
            text = f"{label} {row.verb} {row.tooltip} {row.id} {heading}".casefold()
            if all(word in text for word in words):
                found.append(
                    (
                        Span("  "),
                        Span(fit(label, _KEYS_WIDTH), "accent"),
                        Span(fit(row.tooltip, 52)),
                        Span(f"  {row.id}" if ids else "", "quiet"),
                    )
                )
        if found:
            if lines:
                lines.append((Span(""),))
            lines.append((Span(heading, "strong"), Span("  here" if pane in chain else "", "quiet")))
            lines += found
    return lines


class HelpScreen(Modal[None]):
    """All keys. ``chain`` names the panes that were active when help was asked for, innermost first."""

    BINDINGS = keymap.bindings("help")
    TITLE = "Keys"

    def __init__(self, chain: Sequence[str], keys: Keymap, *, unicode: bool = True) -> None:
        super().__init__()
        self._chain = chain
        self._keys = keys
        self._unicode = unicode
        self._list = LineList(empty="No key holds that.", opens=False, filterable=False)

    def content(self) -> Iterable[Widget]:
        yield Field(placeholder="type to find a key, a verb or an id")
        yield self._list

    def on_mount(self) -> None:
        self._fill("")
        for field in self.query(Field):  # there is none where the application ends meanwhile
            field.focus()

    def on_resize(self) -> None:
        for field in self.query(Field):
            self._fill(field.value)

    def moved_list(self) -> LineList:
        return self._list

    @on(Input.Changed)
    def _typed(self, message: Input.Changed) -> None:
        message.stop()
        self._fill(message.value)

    @on(Input.Submitted)
    def _accepted(self, message: Input.Submitted) -> None:
        message.stop()
        self._list.focus()

    def _fill(self, query: str) -> None:
        ids = self.size.width >= IDS_FROM
        self._list.set_rows(
            TextRows(help_rows(self._chain, self._keys, query, ids=ids, unicode=self._unicode))
        )
        self._list.action_edge(-1)
