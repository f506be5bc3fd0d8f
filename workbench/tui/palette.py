"""The command palette: every act that is possible here and now, found by typing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from textual import on
from textual.widget import Widget
from textual.widgets import Input

from ..inert import cells, inert, shorten
from . import keymap
from .screens.dialogs import Modal
from .widgets.lines import Line, LineList, Span, TextRows, fit
from .widgets.pane import Field

#: With fewer cells than this the columns of names and keys are smaller.
NARROW: Final = 100


@dataclass(frozen=True, slots=True)
class Command:
    """``name`` is what is typed (``runs``, ``cancel``), ``help`` a sentence, ``run`` what happens.

    ``run`` may return an awaitable. ``keys`` is shown beside it, as people write keys; ``id`` is that of their row,
    ``where`` the pane where it is done, if that is not the one that has the focus.
    """

    name: str
    help: str
    run: Callable[[], Any]
    keys: str = ""
    id: str = ""
    where: str = ""


def matching(commands: Sequence[Command], query: str) -> list[Command]:
    """Commands that hold every word of ``query``; names that begin with it come first."""
    query = query.strip().lstrip(":").casefold()
    words = query.split()
    found = [
        command
        for command in commands
        if all(word in f"{command.name} {command.help} {command.where}".casefold() for word in words)
    ]
    return sorted(found, key=lambda command: not command.name.casefold().startswith(query))


class Palette(Modal[Command | None]):
    """Type, choose, enter. The result is the chosen command, or None."""

    BINDINGS = keymap.bindings("palette")

    def __init__(
        self, commands: Sequence[Command], title: str = "Commands", *, hint: str = "type a command"
    ) -> None:
        super().__init__()
        self.title = title
        self._hint = hint
        self._commands = commands
        self._found: list[Command] = []
        self._list = LineList(empty="No command holds that. Escape closes.", filterable=False)

    def content(self) -> Iterable[Widget]:
        yield Field(placeholder=self._hint)
        yield self._list

    def on_mount(self) -> None:
        self._fill("")
        self.fit_frame(len(self._commands))
        for field in self.query(Field):  # there is none where the application ends meanwhile
            field.focus()

    def moved_list(self) -> LineList:
        return self._list

    @on(Input.Changed)
    def _typed(self, message: Input.Changed) -> None:
        message.stop()
        self._fill(message.value)

    @on(Input.Submitted)
    def _accepted(self, message: Input.Submitted) -> None:
        message.stop()
        self._list.action_select()

    @on(LineList.Selected)
    def _chosen(self, message: LineList.Selected) -> None:
        message.stop()
        self.finish(self._found[message.index])

    def on_resize(self) -> None:
        self._fill(self.query_one(Field).value)

    def _fill(self, query: str) -> None:
        self._found = matching(self._commands, query)
        narrow = self.size.width < NARROW
        names = min(14 if narrow else 22, max((cells(inert(each.name)) for each in self._found), default=0))
        labels = [each.keys.split(" ")[0] if narrow else each.keys for each in self._found]
        keys = min(12, max((cells(inert(each)) for each in labels), default=0))
        room = min(100, self.size.width * 94 // 100) - names - keys - 10
        columns = zip(self._found, labels, strict=True)
        self._list.set_rows(
            TextRows([_line(each, fit(each.name, names), fit(label, keys), room) for each, label in columns])
        )
        self._list.action_edge(-1)


def _line(command: Command, name: str, keys: str, room: int) -> Line:
    """A command in columns; its sentence is cut where it does not fit ``room``, and then ``where`` is left out."""
    where = f"  {command.where}" if command.where else ""
    text = command.help
    if cells(inert(text)) + cells(where) > room:
        text, where = shorten(text, max(8, room)), ""
    return (Span(f" {name}  ", "strong"), Span(f"{keys}  ", "accent"), Span(text), Span(where, "quiet"))
