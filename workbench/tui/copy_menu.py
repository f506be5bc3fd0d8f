"""The menu of what can be copied from the list that has the focus, and to where."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .. import words
from .copying import write_copy
from .palette import Command, Palette
from .screens.author_dialogs import NameDialog
from .widgets.lines import LineList

if TYPE_CHECKING:
    from .app import WorkbenchApp


def offered(lines: LineList) -> list[tuple[str, str]]:
    """What the list gives to copy, each with its text: the value, the line as drawn, all lines as drawn."""
    index, rows = lines.current_index, lines.rows
    if index is None:
        return []
    found = []
    copied = getattr(rows, "copied", None)
    if copied is not None and copied(index)[1]:
        what, value = copied(index)
        found.append((str(what), str(value)))
    found.append(("the line", lines.drawn_line(index)))
    shown = lines.shown
    if len(shown) > 1:
        what = f"all {len(shown):,} lines" + (" that the filter leaves" if lines.filter else "")
        found.append((what, "\n".join(lines.drawn_line(each) for each in shown)))
    return found


async def ask(app: WorkbenchApp, lines: LineList) -> None:
    """Ask what to copy to where, and do it. Raises UsageError where a file cannot be written."""
    commands: list[Command] = []
    texts = offered(lines)
    for to_file in (False, True):
        for what, text in texts:
            size = words.kib(len(text.encode("utf-8", "replace")))
            where = "to a new file" if to_file else "to the clipboard"
            act = partial(_to_file, app, what, text) if to_file else partial(app.copy, what, text)
            commands.append(Command(what, f"{size} {where}", act))
    if not commands:
        app.notice("There is nothing under the cursor to copy.")
        return
    chosen = await app.push_screen_wait(Palette(commands, "Copy", hint="type to search"))
    if chosen is not None:
        result = chosen.run()
        if asyncio.iscoroutine(result):
            await result


async def _to_file(app: WorkbenchApp, what: str, text: str) -> None:
    root = app.context.workspace.root

    async def write(name: str) -> None:
        target = root / Path(os.path.expanduser(name))  # noqa: PTH111 - never raises
        told = await asyncio.to_thread(write_copy, target, text)
        app.notice(told.text, title="Copied")

    dialog = NameDialog(
        "copy.txt",
        title="Copy to a file",
        text=f"Writes {what} into a new file that only you can read. A relative name is in {root}.",
        act=write,
    )
    await app.push_screen_wait(dialog)
