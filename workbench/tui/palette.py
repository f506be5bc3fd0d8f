"""The command palette: every act that is possible here and now, found by typing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from textual import on
from textual.widget import Widget
from textual.widgets import Input

from ..inert import cells, inert
from . import keymap
from .screens.dialogs import Modal
from .widgets.lines import LineList, Span, TextRows, fit
from .widgets.pane import Field


@dataclass(frozen=True, slots=True)
class Command:
    """``name`` is what is typed (``runs``, ``cancel``), ``help`` a sentence, ``run`` what happens.

    ``run`` may return an awaitable. ``keys`` is shown beside it, as people write keys.
    """

    name: str
    help: str
    run: Callable[[], Any]
    keys: str = ""


def matching(commands: Sequence[Command], query: str) -> list[Command]:
    """Commands that hold every word of ``query``; names that begin with it come first."""
    query = query.strip().lstrip(":").casefold()
    words = query.split()
    found = [
        command
        for command in commands
        if all(word in f"{command.name} {command.help}".casefold() for word in words)
    ]
    return sorted(found, key=lambda command: not command.name.casefold().startswith(query))


class Palette(Modal[Command | None]):
    """Type, choose, enter. The result is the chosen command, or None."""

    BINDINGS = keymap.bindings("palette")

    def __init__(self, commands: Sequence[Command], title: str = "Commands") -> None:
        super().__init__()
        self.title = title
        self._commands = commands
        self._found: list[Command] = []
        self._list = LineList(empty="No command holds that. Escape closes.", filterable=False)

    def content(self) -> Iterable[Widget]:
        yield Field(placeholder="type a command")
        yield self._list

    def on_mount(self) -> None:
        self._fill("")
        self.query_one(Field).focus()

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
        self.dismiss(self._found[message.index])

    def _fill(self, query: str) -> None:
        self._found = matching(self._commands, query)
        names = min(26, max((cells(inert(command.name)) for command in self._found), default=0))
        keys = min(12, max((cells(inert(command.keys)) for command in self._found), default=0))
        self._list.set_rows(
            TextRows(
                [
                    (
                        Span(f" {fit(command.name, names)}  ", "strong"),
                        Span(f"{fit(command.keys, keys)}  ", "accent"),
                        Span(command.help),
                    )
                    for command in self._found
                ]
            )
        )
        self._list.action_edge(-1)
