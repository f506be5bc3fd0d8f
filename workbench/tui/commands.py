"""What the command palette offers: every act of every screen with its key, and what has no key.

What the focused pane can do now comes first and is done where the focus is. Acts of other panes and screens
follow; choosing one goes there first, and where it is not possible there, that is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from textual.actions import parse

from . import keymap
from .keys.row import Key
from .palette import Command

if TYPE_CHECKING:
    from textual.binding import ActiveBinding
    from textual.widget import Widget

    from .app import WorkbenchApp

#: Acts that only move, scroll or edit, and the keys that open the palette and help: they are no commands.
_MOVES: Final = frozenset(
    {"cursor", "page", "edge", "sideways", "pane", "select", "back", "tab", "tab_at", "section_at", "palette"}
)
#: Panes in which keys move or edit alone, and those of dialogs, over which there is no palette.
_NO_COMMANDS: Final = frozenset({"field", "button", "author.editor"}) | {
    pane for chain in keymap.CHAINS.values() if "screen" not in chain for pane in chain
} - {"app", "list"}
#: Of the editor's keys those that are more than typing.
_EDITS: Final = frozenset(
    {"undo", "redo", "cut", "copy", "paste", "select_all", "select_line", "delete_line", "complete"}
)
#: How long a screen that is gone to may take until an act is possible there.
_TRIES: Final = 40
_TRY_SECONDS: Final = 0.025


def is_command(row: Key) -> bool:
    """Whether the palette offers what this row of the keymap does."""
    action = row.action.partition("(")[0].rpartition(".")[2]
    if row.pane == "author.editor":
        return action in _EDITS
    return row.pane not in _NO_COMMANDS and action not in _MOVES and row.id != "app.keys"


def commands(app: WorkbenchApp) -> Iterator[Command]:
    """Every command, those that are possible where the focus is before all others."""
    seen: set[str] = set()
    edits = []
    for active in app.screen.active_bindings.values():
        row = keymap.BY_ID.get(active.binding.id or "")
        if row is not None and row.id not in seen and active.enabled and is_command(row):
            seen.add(row.id)
            command = _command(app, row, partial(app.run_action, active.binding.action, active.node))
            if row.pane == "author.editor":
                edits.append(command)
            else:
                yield command
    for command in app.workbench_commands():
        if command.id not in seen:
            seen |= {command.id} if command.id else set()
            yield command
    yield from edits
    here = app.current_mode
    rows = [row for row in keymap.TABLE if row.id not in seen and is_command(row)]
    for row in sorted(rows, key=lambda row: _screen_of(row) != here):
        if row.pane == "app" and app.check_action(*_call(row)):
            yield _command(app, row, partial(app.run_action, row.action))
        elif _screen_of(row) in dict(app.screen_titles):
            yield _command(app, row, partial(perform, app, row), where=keymap.PANES[row.pane])


def _call(row: Key) -> tuple[str, tuple[object, ...]]:
    _, name, parameters = parse(row.action)
    return name, parameters


def _command(app: WorkbenchApp, row: Key, run: Callable[[], Any], *, where: str = "") -> Command:
    name = row.verb[:1].lower() + row.verb[1:]
    if row.pane == "author.editor":  # whose rows have a sentence for their verb
        name = row.id.partition(".")[2].replace("_", " ")
    return Command(name, row.tooltip, run, app.key_label(row.id), id=row.id, where=where)


def _screen_of(row: Key) -> str:
    return row.pane.partition(".")[0]


async def perform(app: WorkbenchApp, row: Key) -> None:
    """Go to the screen and pane of ``row`` and do what it does, or say that it is not possible there now."""
    if app.current_mode != _screen_of(row):
        app.action_show_screen(_screen_of(row))
    for _ in range(_TRIES):
        await asyncio.sleep(_TRY_SECONDS)  # the screen is made, or drawn, and reads what it shows
        active = _reach(app, row)
        if active is not None and active.enabled:
            await app.run_action(active.binding.action, active.node)
            return
    app.notice(f"{row.tooltip}: not possible here now.", title=row.verb.capitalize())


def _reach(app: WorkbenchApp, row: Key) -> ActiveBinding | None:
    """The active binding of ``row``, its pane given the focus first."""
    screen = app.base_screen
    if app.screen is not screen:
        return None
    if "." in row.pane and not _has(screen.focused, row.id):
        pane = next(
            (widget for widget in screen.query("*") if widget.can_focus and _has(widget, row.id)), None
        )
        if pane is not None:
            app.show_widget(pane)
    return next(
        (active for active in screen.active_bindings.values() if active.binding.id == row.id),
        None,
    )


def _has(widget: Widget | None, id: str) -> bool:
    return widget is not None and any(binding.id == id for _key, binding in widget._bindings)
