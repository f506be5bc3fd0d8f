"""The palette holds every act of every screen with its key, and does it where it belongs."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.workbench.tui.author_support import notices
from tests.workbench.tui.fakes import FakeClient, completed_run, running_run, screen_text, settle, until
from workbench.tui import keymap
from workbench.tui.app import WorkbenchApp
from workbench.tui.commands import commands, is_command
from workbench.tui.palette import Palette
from workbench.tui.screens.dialogs import Dialog

MakeApp = Callable[..., WorkbenchApp]

#: Panes whose keys are not acts of a screen: typing, moving, and dialogs, which lie over every screen.
OTHERS = {"field", "button", "dialog", "help", "palette", "notices", "compare", "runs.compare", "runs.child"}


def test_what_is_no_command_moves_or_edits() -> None:
    left = [row for row in keymap.TABLE if not is_command(row) and row.pane not in OTHERS]
    acts = {row.action.partition("(")[0].rpartition(".")[2] for row in left if row.pane != "author.editor"}
    moves = {"cursor", "page", "edge", "sideways", "pane", "select", "back", "tab", "tab_at", "section_at"}
    assert acts == moves | {"palette", "help"}
    edits = {row.id for row in left if row.pane == "author.editor"}
    assert all(
        re.search("cursor|document|delete|select|indent|dedent|left|right|up|down", id) for id in edits
    )


@pytest.mark.parametrize("screen", ["author", "runs", "review", "host"])
async def test_every_act_of_every_screen_is_offered_with_its_key(make_app: MakeApp, screen: str) -> None:
    app = make_app(FakeClient(completed_run()), screen=screen)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        offered = {command.id: command for command in commands(app)}
        screens = dict(app.screen_titles)
        reached = {row.id for row in keymap.TABLE if row.pane.partition(".")[0] in {*screens, "app"}}
        assert len(screens) == 5
        for row in keymap.TABLE:
            if is_command(row) and row.pane != "list" and row.id in reached:
                assert offered[row.id].keys == app.key_label(row.id), row
        ids = [command.id for command in commands(app) if command.id]
        assert len(ids) == len(set(ids))


async def test_an_act_of_another_screen_is_done_there(make_app: MakeApp) -> None:
    client = FakeClient(running_run())
    app = make_app(client, screen="author")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        await pilot.press(*"cancel the run")
        await until(pilot, lambda: "Runs" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Dialog))
        assert app.current_mode == "runs"
        assert client.cancelled == []
        await pilot.press("tab", "enter")
        await until(pilot, lambda: client.cancelled == [running_run().run_id])


async def test_an_act_that_is_not_possible_there_says_so(make_app: MakeApp) -> None:
    app = make_app(FakeClient(completed_run()), screen="author")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        await pilot.press(*"let the pause runs", "enter")
        await until(pilot, lambda: "not possible here now" in notices(app))
        assert app.current_mode == "runs"


async def test_an_act_of_another_pane_brings_the_focus_there(make_app: MakeApp) -> None:
    app = make_app(FakeClient(completed_run()), screen="runs")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("enter", "ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        await pilot.press(*"one group", "enter")
        await until(pilot, lambda: app.focused is not None and type(app.focused).__name__ == "RunList")
