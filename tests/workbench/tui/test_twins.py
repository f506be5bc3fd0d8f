"""Each act of each screen has a plain twin on the command line, so that nobody needs the screens.

The table of ``docs/commands.md`` says which. An act that is new on a screen fails here until its row names the command
that does the same, or why there can be none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from tests.workbench.tui.fakes import FakeClient, completed_run, settle, until
from workbench.cli.main import COMMANDS, cli
from workbench.tui import keymap
from workbench.tui.app import SCREENS, WorkbenchApp
from workbench.tui.commands import is_command
from workbench.tui.keys.row import Key
from workbench.tui.widgets.host_detail import SECTIONS

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"
HEADING = "\n## What the screens do, and its command\n"


class Row(NamedTuple):
    """One row of the table: what is done, the ids of its keys, its commands or why there is none."""

    what: str
    keys: str
    commands: str

    @property
    def ids(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.keys)

    @property
    def palette(self) -> list[str]:
        """Commands of the palette that no key has."""
        found = self.keys.partition("palette: ")[2]
        return [name.strip() for name in found.split(",") if name]

    @property
    def reason(self) -> str:
        return self.commands.removeprefix("none: ") if self.commands.startswith("none: ") else ""

    @property
    def twins(self) -> list[str]:
        return [] if self.reason else re.findall(r"`([^`]+)`", self.commands)


def table() -> list[Row]:
    section = PAGE.read_text("utf-8").partition(HEADING)[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    assert all(len(row) == len(Row._fields) for row in rows), "a row of the table has other columns"
    return [Row(*row) for row in rows]


ROWS = table()


def is_act(row: Key) -> bool:
    """Whether a key does more than move, scroll, type, or answer a dialog: what the palette offers, and copies."""
    return is_command(row) or row.action.rpartition(".")[2].startswith("copy_")


def test_every_act_stands_in_the_table_once() -> None:
    named = Counter(id for row in ROWS for id in row.ids)
    acts = {row.id for row in keymap.TABLE if is_act(row) and not row.id.startswith("field.")}
    assert set(named) - set(keymap.BY_ID) == set()
    assert acts - set(named) == set()
    assert [id for id, times in named.items() if times > 1] == []


async def test_every_command_of_the_palette_that_has_no_key_stands_in_the_table(
    make_app: Callable[..., WorkbenchApp],
) -> None:
    app = make_app(FakeClient(completed_run()))
    keyless: set[str] = set()
    async with app.run_test(size=(120, 40)) as pilot:
        for screen in SCREENS:
            app.action_show_screen(screen)
            await until(pilot, lambda screen=screen: app.current_mode == screen)  # type: ignore[misc]
            await settle(pilot)
            keyless |= {command.name for command in app.workbench_commands() if not command.id}
    assert keyless == {name for row in ROWS for name in row.palette}


def test_every_section_of_host_stands_in_the_table() -> None:
    said = " ".join(row.what for row in ROWS if row.what.startswith("Host: "))
    assert [title for _, title in SECTIONS if title not in said] == []


def test_every_row_names_a_command_or_says_why_there_is_none() -> None:
    assert len(ROWS) > 50
    for row in ROWS:
        assert row.twins or len(row.reason.split()) > 3, row


@pytest.mark.parametrize("words", sorted({twin for row in ROWS for twin in row.twins}))
def test_every_twin_exists(words: str) -> None:
    name, *rest = words.split(" ")
    assert name in COMMANDS
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    if isinstance(command, click.Group):
        command = command.commands[rest.pop(0)]
    options = {option for parameter in command.params for option in parameter.opts}
    assert set(rest) <= options
