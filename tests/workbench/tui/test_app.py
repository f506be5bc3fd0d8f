"""The application around its screens: switching, palette, help, notices, failures, leaving, the top line."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual import work
from textual.screen import Screen
from textual.widget import Widget

import workbench.tui
from tests.workbench.tui.fakes import (
    FakeClient,
    completed_run,
    flat,
    make_run,
    make_step,
    running_run,
    screen_text,
    settle,
    until,
    waiting_run,
)
from workbench.settings import Session
from workbench.tui.app import WorkbenchApp
from workbench.tui.leaving import LeaveDialog, farewell
from workbench.tui.messages import Tick
from workbench.tui.palette import Command, Palette, matching
from workbench.tui.screens.base import Column, WorkbenchScreen
from workbench.tui.screens.dialogs import Answer, Dialog, Modal
from workbench.tui.screens.help import HelpScreen
from workbench.tui.screens.notices import NoticesScreen
from workbench.tui.widgets.bars import KeyLine, Standing, TopLine, total
from workbench.tui.widgets.lines import LineList, TextRows
from workbench.tui.widgets.pane import Field, ListPane, Pane
from workflows_core.errors import StoreFailed
from workflows_core.model import RunState, StepStatus

MakeApp = Callable[..., WorkbenchApp]


class Plain(WorkbenchScreen):
    """A screen of two columns for these tests; every name of a failing act is a method."""

    NAME = "runs"
    COLUMNS = (Column("left", 30), Column("right", 50))
    MAIN = "left"

    def compose_columns(self) -> Iterable[Widget]:
        yield ListPane("Left", TextRows.of(["alpha", "beta", "gamma"]), id="left")
        yield Pane(LineList(TextRows.of(["one"])), Field(id="field"), title="Right", id="right")

    def home(self) -> Widget | None:
        return self.query_one("#left", ListPane).list

    def commands(self) -> Iterator[Command]:
        yield Command("do it", "A command of the screen", lambda: self.workbench.notice("done"))

    @work(exit_on_error=False)
    async def fail(self, error: Exception) -> None:
        raise error


class Author(Plain):
    NAME = "author"


@pytest.fixture
def plain(make_app: MakeApp) -> MakeApp:
    def make(client: FakeClient | None = None, **more: Any) -> WorkbenchApp:
        return make_app(client, screens={"author": Author, "runs": Plain}, **more)

    return make


async def test_function_keys_go_to_the_screens_also_from_a_text_field(plain: MakeApp) -> None:
    app = plain(screen="author")
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.press("tab", "tab")
        assert isinstance(app.focused, Field)
        await pilot.press("f3")
        assert app.current_mode == "runs"
        await pilot.press("f2")
        assert app.current_mode == "author"
        assert isinstance(app.focused, Field)


async def test_only_screens_that_exist_are_shown(make_app: MakeApp) -> None:
    app = make_app(screens={"runs": Plain})
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.press("f2")
        assert app.current_mode == "runs"
        assert "Author" not in screen_text(app)


async def test_a_click_on_a_tab_goes_there(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.click("ScreenTabs", offset=(3, 0))
        await pilot.pause()
        assert app.current_mode == "author"


async def test_keys_that_act_on_screens_do_nothing_under_a_dialog(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.press("question_mark", "f2", "ctrl+p")
        await pilot.pause()
        assert app.current_mode == "runs"
        assert isinstance(app.screen, HelpScreen)


async def test_help_is_contextual_and_filtered_by_typing(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        lines = screen_text(app).splitlines()
        assert any("In lists  here" in line for line in lines[:6])
        await pilot.press(*"quit")
        await pilot.pause()
        text = screen_text(app)
        assert "ctrl+q" in text and "Go up one line" not in text
        await pilot.press("escape")
        assert not isinstance(app.screen, HelpScreen)


async def test_f1_opens_help_in_a_text_field_and_a_question_mark_is_typed(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 30)) as pilot:
        field = app.screen.query_one("#field", Field)
        field.focus()
        await pilot.press("question_mark", "colon", "n")
        assert field.value == "?:n"
        await pilot.press("f1")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        assert "In text fields  here" in screen_text(app)


async def test_a_persons_keys_act_and_are_shown(plain: MakeApp) -> None:
    app = plain(keymap={"app.keys": "f8", "list.filter": "ctrl+f"})
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        assert "ctrl+f filter" in screen_text(app).splitlines()[-1]
        await pilot.press("question_mark")
        assert not isinstance(app.screen, HelpScreen)
        await pilot.press("f8")
        assert isinstance(app.screen, HelpScreen)


async def test_a_conflict_of_keys_is_reported_and_the_default_kept(plain: MakeApp) -> None:
    app = plain(keymap={"app.notices": "?"})
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        assert [notice.title for notice in app.notices] == ["A key binding is not used"]
        assert "which app.keys uses in the same pane" in app.notices[0].message
        await pilot.press("n")
        await pilot.pause()
        assert isinstance(app.screen, NoticesScreen)


async def test_the_palette_finds_a_command_and_runs_it(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("ctrl+p", *"do it")
        await pilot.pause()
        assert isinstance(app.screen, Palette)
        await pilot.press("enter")
        await pilot.pause()
        await pilot.pause()
        assert [notice.message for notice in app.notices] == ["done"]


async def test_a_colon_and_a_screens_name_go_there(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("colon", *"author", "enter")
        await pilot.pause()
        assert app.current_mode == "author"


async def test_the_palette_closes_without_doing_anything(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("ctrl+p", "down", "escape")
        await pilot.pause()
        assert not isinstance(app.screen, Palette)
        assert app.current_mode == "runs"


async def test_the_palette_changes_the_theme(
    plain: MakeApp,
) -> None:
    app = plain()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("ctrl+p", *"theme", "enter")
        await until(pilot, lambda: "textual-dark" in screen_text(app))
        await pilot.press(*"textual-l", "enter")
        await until(pilot, lambda: app.theme == "textual-light")


def test_commands_whose_name_begins_with_what_is_typed_come_first() -> None:
    commands = [
        Command("quit", "Leave all runs", print),
        Command("runs", "Go to Runs", print),
        Command("other", "x", print),
    ]
    assert [command.name for command in matching(commands, ":runs")] == ["runs", "quit"]


async def test_tab_goes_through_the_panes_and_escape_comes_back_to_the_list(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 20)) as pilot:
        order = []
        for _ in range(4):
            order.append(app.focused)
            await pilot.press("tab")
        assert [type(widget).__name__ for widget in order] == ["LineList", "LineList", "Field", "LineList"]
        await pilot.press("shift+tab", "shift+tab")
        assert isinstance(app.focused, Field)
        await pilot.press("escape")
        assert app.focused is app.screen.query_one("#left", ListPane).list


async def test_a_narrow_screen_shows_one_column_and_tab_brings_the_other(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        assert "alpha" in screen_text(app) and "one" not in screen_text(app)
        await pilot.press("tab")
        await pilot.pause()
        assert "alpha" not in screen_text(app) and "one" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "alpha" in screen_text(app)
        await pilot.resize_terminal(100, 20)
        await pilot.pause()
        assert "alpha" in screen_text(app) and "one" in screen_text(app)


async def test_slash_filters_enter_goes_to_the_list_escape_clears(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.press("slash", *"bet")
        await pilot.pause()
        assert "Left 1 of 3" in screen_text(app)
        await pilot.press("enter")
        assert app.focused is app.screen.query_one("#left", ListPane).list
        await pilot.pause()
        assert "alpha" not in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "alpha" in screen_text(app) and "Left 3" in screen_text(app)


async def test_notices_can_be_read_again_and_copied(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 30)) as pilot:
        app.notice("the first", title="One")
        app.notice("the\x1b[31m second", title="Two[/]", severity="error")
        await pilot.press("n")
        await pilot.pause()
        text = screen_text(app)
        assert text.index("Two[/]") < text.index("the␛[31m second") < text.index("One")
        await pilot.press("y")
        assert app.clipboard == "Two[/]: the␛[31m second"
        await pilot.press("escape")
        assert not isinstance(app.screen, NoticesScreen)


@pytest.mark.parametrize("size", [(80, 24), (53, 20)])
async def test_a_long_notice_is_read_again_whole(plain: MakeApp, size: tuple[int, int]) -> None:
    app = plain(FakeClient())
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        for number in range(20):  # enough for a scroll bar
            app.notice(f"notice {number}")
        app.notice("Q" * 300, title="Long")
        await pilot.press("n")
        await settle(pilot)
        assert screen_text(app).count("Q") == 300


async def test_a_background_failure_is_a_titled_notice_and_the_application_goes_on(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 30)) as pilot:
        assert isinstance(app.screen, Plain)
        app.screen.fail(StoreFailed("the disk refused the write"))
        app.screen.fail(ZeroDivisionError("oops"))
        await pilot.pause()
        assert [(notice.title, notice.message) for notice in app.notices] == [
            ("The disk refused", "the disk refused the write"),
            ("The workbench made a mistake", "ZeroDivisionError: oops"),
        ]
        await pilot.press("down")
        assert app.is_running


async def test_work_over_half_a_second_shows_that_it_goes_on(
    plain: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.tui.screens.base.BUSY_SECONDS", 0.0)
    app = plain()
    async with app.run_test(size=(100, 20)) as pilot:
        assert isinstance(app.screen, Plain)
        async with app.screen.busy("reading the run"):
            await pilot.pause()
            assert screen_text(app).splitlines()[-1].endswith("reading the run…")
        await pilot.pause()
        assert "reading" not in screen_text(app)


async def test_work_that_ends_leaves_what_still_lasts_in_sight(
    plain: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.tui.screens.base.BUSY_SECONDS", 0.0)
    app = plain()
    async with app.run_test(size=(100, 20)) as pilot:
        assert isinstance(app.screen, Plain)
        async with app.screen.busy("reading the run"):
            await pilot.pause()
            async with app.screen.busy("saving"):
                await pilot.pause()
                assert screen_text(app).splitlines()[-1].endswith("saving…")
            await pilot.pause()
            assert screen_text(app).splitlines()[-1].endswith("reading the run…")


async def test_leaving_shows_that_it_looks_at_live_runs(
    plain: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.tui.screens.base.BUSY_SECONDS", 0.0)
    client = FakeClient()
    client.delays["live"] = 0.3
    app = plain(client)
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.press("ctrl+q")
        await until(pilot, lambda: "looking at live runs" in screen_text(app))


async def test_short_work_shows_nothing(plain: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.tui.screens.base.BUSY_SECONDS", 60.0)
    app = plain()
    async with app.run_test(size=(100, 20)) as pilot:
        assert isinstance(app.screen, Plain)
        async with app.screen.busy("reading the run"):
            await pilot.pause()
            assert "reading" not in screen_text(app)


async def test_leaving_with_nothing_live_leaves_at_once(plain: MakeApp) -> None:
    app = plain(FakeClient(completed_run()))
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.press("ctrl+q")
        await pilot.pause()
        await pilot.pause()
    assert app.return_value == 0


async def test_leaving_says_what_becomes_of_each_live_run_and_starts_on_the_safe_answer(
    plain: MakeApp,
) -> None:
    app = plain(FakeClient(running_run(), waiting_run(), completed_run()))
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("ctrl+q")
        await pilot.pause()
        await pilot.pause()
        text = screen_text(app)
        assert isinstance(app.screen, LeaveDialog)
        assert "2 runs are live." in text
        assert "stops and becomes recoverable" in text
        assert "becomes recoverable and keeps its wait" in text
        await pilot.press("enter")
        await pilot.pause()
        assert app.is_running and not isinstance(app.screen, LeaveDialog)
        await pilot.press("ctrl+q")
        await pilot.pause()
        await pilot.pause()
        await pilot.press("tab", "enter")
        await pilot.pause()
    assert app.return_value == 0


async def test_leaving_says_which_calls_end_without_an_outcome(plain: MakeApp) -> None:
    asked = make_step("ask", StepStatus.RUNNING, badge="manual")
    client = FakeClient(make_run(state=RunState.RUNNING, steps=(make_step("a"), asked)))
    app = plain(client)
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, LeaveDialog))
        await settle(pilot)
        text = flat(screen_text(app))
        assert "stops; ask ends without an outcome, and you must say what became of it" in text
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, LeaveDialog))
        client.failures["calls_that_end"] = StoreFailed("no")
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, LeaveDialog))
        await settle(pilot)
        assert "stops and becomes recoverable" in flat(screen_text(app))


async def test_asking_to_leave_twice_asks_once(plain: MakeApp) -> None:
    app = plain(FakeClient(running_run()))
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("ctrl+q")
        await pilot.pause()
        await pilot.pause()
        await pilot.press("ctrl+q")
        await pilot.pause()
        assert sum(isinstance(screen, LeaveDialog) for screen in app.screen_stack) == 1
        await pilot.press("escape")


async def test_asking_to_leave_twice_asks_once_about_unsaved_work(
    plain: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Screen[Any]] = []

    async def may_leave(screen: Plain) -> bool:
        asked.append(screen)
        return await screen.app.push_screen_wait(Asked()) == 1

    monkeypatch.setattr(Plain, "may_leave", may_leave)
    app = plain()
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, Asked))
        await pilot.press("ctrl+q")
        await settle(pilot)
        assert len(asked) == 1
        app.screen.finish(0)
        await until(pilot, lambda: not isinstance(app.screen, Asked))
        await settle(pilot)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: len(asked) == 2)


def test_runs_of_another_owner_go_on() -> None:
    run = make_run(state=RunState.RUNNING, name="a\x1bb")
    text = farewell([run], owner=False)  # type: ignore[list-item]
    assert "1 run is live." in text
    assert "goes on: another process owns this workspace" in text
    assert "a␛b" in text


async def test_ctrl_c_does_not_leave_but_says_how(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert app.is_running
        assert app.notices[0].message == "ctrl+q leaves the workbench."


async def test_the_top_line_counts_what_runs_and_what_waits(plain: MakeApp) -> None:
    client = FakeClient(running_run())
    app = plain(client)
    async with app.run_test(size=(120, 20)) as pilot:
        await settle(pilot)
        line = screen_text(app).splitlines()[0]
        assert line.split() == (
            [
                "workbench",
                "soap-claims",
                "·",
                "store",
                "embedded",
                "●",
                "1",
                "running",
                "◆",
                "0",
                "waiting",
                "for",
                "you",
                "ada",
                "·",
                "terminal",
            ]
        )
        client.put(waiting_run())
        client.put(make_run("wr_9", state=RunState.NEEDS_RECONCILIATION))
        await settle(pilot)
        line = screen_text(app).splitlines()[0]
        assert "◆ 2 waiting for you, 1 to settle" in line


async def test_a_wait_that_outlived_its_owner_still_counts_as_waiting(plain: MakeApp) -> None:
    kept = waiting_run(state=RunState.RECOVERABLE)
    app = plain(FakeClient(kept))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "◆ 1 waiting for you" in screen_text(app).splitlines()[0]


@pytest.mark.parametrize("width", range(30, 160, 10))
def test_when_narrow_the_top_line_drops_the_store_then_the_workspace(width: int) -> None:
    line = TopLine()
    line._standing = Standing("soap-claims", "embedded", "ada · terminal", 2, 1, 0)
    spans = line.spans(width)
    text = "".join(span.text for span in spans)
    assert "1 waiting for you" in text
    if width >= 50:
        assert "ada · terminal" in text
    assert ("embedded" in text) <= ("soap-claims" in text)
    assert total(spans) <= max(width, 45)


def test_a_wide_top_line_has_everything_and_a_narrow_one_only_what_matters() -> None:
    line = TopLine()
    line._standing = Standing("soap-claims", "embedded", "ada · terminal", 2, 1, 0)

    def at(width: int) -> str:
        return "".join(span.text for span in line.spans(width))

    assert "embedded" in at(100) and "soap-claims" in at(100)
    assert "embedded" not in at(80) and "soap-claims" in at(80)
    assert "soap-claims" not in at(60) and "workbench" in at(60)


async def test_the_bottom_line_always_leads_to_all_keys(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(30, 20)) as pilot:
        await pilot.pause()
        last = screen_text(app).splitlines()[-1]
        assert last.strip().endswith("? all keys")
        assert app.screen.query_one(KeyLine).size.width == 28


async def test_an_unknown_theme_is_reported(plain: MakeApp) -> None:
    app = plain(theme="textual-drak")
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.pause()
        assert app.theme == "textual-dark"
        assert "There is no theme 'textual-drak'; themes are textual-dark" in app.notices[0].message


async def test_the_theme_of_the_settings_is_used(plain: MakeApp) -> None:
    app = plain(theme="nord")
    async with app.run_test(size=(100, 20)):
        assert app.theme == "nord"


async def test_without_colour_the_terminal_gets_none(plain: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = plain(FakeClient(running_run()))
    async with app.run_test(size=(100, 20)) as pilot:
        await settle(pilot)
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                colors = (segment.style.color, segment.style.bgcolor) if segment.style else ()
                assert all(color is None or color.is_default for color in colors), segment
        assert "● 1 running" in screen_text(app)


async def test_ascii_draws_no_glyphs_of_ours(plain: MakeApp) -> None:
    client = FakeClient(running_run(), waiting_run(), who="ada · terminal")
    app = plain(client, ascii=True)
    async with app.run_test(size=(100, 20)) as pilot:
        await settle(pilot)
        assert screen_text(app).isascii()
        await pilot.press("question_mark")
        await pilot.pause()
        assert screen_text(app).isascii()


async def test_an_unhandled_mistake_ends_with_words_and_without_values(
    plain: MakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    app = plain()
    with pytest.raises(RuntimeError, match="broken"):
        async with app.run_test(size=(100, 20)) as pilot:

            def crash() -> None:
                secret = "hunter2"
                raise RuntimeError("broken \x1b[31m" + secret[:0])

            app.call_later(crash)
            await pilot.pause()
    report = capsys.readouterr().err
    assert "The workbench stopped because of a mistake in itself. Runs are kept." in report
    assert "RuntimeError: broken ␛[31m" in report
    assert "hunter2" not in report.replace('secret = "hunter2"', "")
    assert "\x1b" not in report


async def test_copying_replaces_what_is_no_text(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test(size=(100, 20)):
        app.copy_to_clipboard("a\ud800b")
        assert app.clipboard == "a?b"


def lasting(tmp_path: Path) -> Session:
    """The session of a workspace as the next start reads it."""
    return Session(tmp_path / "session.json")


async def test_the_run_under_the_cursor_and_the_filter_are_found_again(
    make_app: MakeApp, tmp_path: Path
) -> None:
    runs = [completed_run(f"wr_{n:016x}", name=f"run-{n}") for n in range(12)]
    app = make_app(FakeClient(*runs), session=lasting(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("slash", *"run-1", "enter", "down", "down")
        await settle(pilot)
        chosen = app.base_screen.query_one("#runs", ListPane).list.current_id
        assert chosen == "wr_000000000000000b"
        await pilot.press("ctrl+q")
    app = make_app(FakeClient(*runs), session=lasting(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        pane = app.base_screen.query_one("#runs", ListPane)
        assert (pane.list.filter, pane.list.current_id) == ("run-1", chosen)
        assert "3 of 12" in screen_text(app)
        await pilot.press("escape")
        await settle(pilot)
        assert (pane.list.filter, pane.list.current_id) == ("", chosen)


@pytest.mark.parametrize("kept", [7, {"filter": 3, "row": ["x"]}, {"row": "gone"}, {"filter": "\x1b[2J"}])
async def test_a_session_that_holds_anything_does_no_harm(make_app: MakeApp, kept: object) -> None:
    session = Session()
    session.set("screen.runs", kept)
    app = make_app(FakeClient(completed_run()), session=session)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "\x1b" not in screen_text(app)


async def test_another_recording_begins_at_its_own_frame(make_app: MakeApp) -> None:
    session = Session()
    session.set("screen.replay", {"row": "3", "filter": "x"})
    app = make_app(FakeClient(completed_run()), screen="replay", session=session)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        home = app.base_screen.home()  # type: ignore[attr-defined]
        assert home.filter == "" and home.preferred is None


async def test_what_is_kept_is_written_while_the_application_runs(make_app: MakeApp, tmp_path: Path) -> None:
    runs = [completed_run(f"wr_{n:016x}") for n in range(3)]
    app = make_app(FakeClient(*runs), session=lasting(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("down")
        await settle(pilot)
        app.base_screen.post_message(Tick(0))
        await until(pilot, lambda: lasting(tmp_path).get("screen.runs") == {"row": "wr_0000000000000001"})


async def test_the_group_of_runs_is_found_again(make_app: MakeApp, tmp_path: Path) -> None:
    for round in (1, 2):
        app = make_app(FakeClient(completed_run()), session=lasting(tmp_path))
        async with app.run_test(size=(120, 40)) as pilot:
            await settle(pilot)
            title = str(app.base_screen.query_one("#runs", ListPane).border_title)
            assert title.startswith("Live" if round == 2 else "Runs"), title
            await pilot.press("s")
            await settle(pilot)
            await pilot.press("ctrl+q")


class Asked(Modal[int]):
    """Ends with a number each time it is told to."""

    def content(self) -> Iterable[Widget]:
        yield LineList()


async def test_a_second_press_does_not_close_what_lies_below(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test() as pilot:
        results: list[int | None] = []
        below, above = Asked(), Asked()
        app.push_screen(below, results.append)
        app.push_screen(above, results.append)
        await pilot.pause()
        above.finish(1)
        above.finish(2)
        await pilot.pause()
        assert results == [1] and app.screen is below
        await pilot.press("n")
        assert app.screen is below


async def test_what_ends_under_another_dialog_closes_once_that_is_gone(plain: MakeApp) -> None:
    app = plain()
    async with app.run_test() as pilot:
        results: list[int | None] = []
        below, above = Asked(), Asked()
        app.push_screen(below, results.append)
        app.push_screen(above, results.append)
        await pilot.pause()
        below.finish(1)
        await settle(pilot)
        assert app.screen is above and results == []
        above.finish(2)
        await until(pilot, lambda: results == [2, 1])
        await until(pilot, lambda: app.screen_stack == [app.base_screen])


@pytest.mark.parametrize("turns", range(0, 24, 2))
async def test_a_dialog_that_is_closed_while_it_opens_does_no_harm(plain: MakeApp, turns: int) -> None:
    app = plain()
    async with app.run_test() as pilot:
        await settle(pilot)
        dialog = Dialog(
            "Delete it?", "It is gone then.", [Answer("keep", "Keep"), Answer("delete", "Delete")]
        )
        app.push_screen(dialog)
        for _ in range(turns):
            await asyncio.sleep(0)
        await app.pop_screen()
        assert app.screen_stack == [app.base_screen]
        await pilot.press("tab")


async def test_what_raises_while_the_application_ends_does_not_change_how_it_ends(plain: MakeApp) -> None:
    app = plain()
    raised = asyncio.Event()

    def late() -> None:
        raised.set()
        app.base_screen.query_one("#gone")

    async with app.run_test() as pilot:
        await settle(pilot)
        app.base_screen.call_later(late)
        app.exit(128 + 15)
        await raised.wait()
    assert (app.return_value, app.return_code) == (128 + 15, 0)


def test_every_dialog_ends_through_finish() -> None:
    folder = Path(workbench.tui.__file__).parent
    callers = {
        path.name
        for path in folder.rglob("*.py")
        if re.search(r"(?<!def )\bdismiss\(", path.read_text("utf-8"))
    }
    assert callers == {"dialogs.py"}


async def test_the_screen_follows_the_size_of_the_terminal(make_app: MakeApp) -> None:
    app = make_app(FakeClient(completed_run()))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        wide = screen_text(app)
        for size in ((80, 24), (40, 12), (20, 6), (200, 60), (120, 40)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            lines = screen_text(app).split("\n")
            assert len(lines) == size[1] and max(map(len, lines)) <= size[0]
        assert screen_text(app) == wide
        await pilot.press("question_mark")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "Keys" in screen_text(app)


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light"])
async def test_the_terminals_own_palette_is_used_alone(make_app: MakeApp, theme: str) -> None:
    app = make_app(FakeClient(completed_run()), theme=theme)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("right", "2")
        await settle(pilot)
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                for colour in (segment.style.color, segment.style.bgcolor) if segment.style else ():
                    assert colour is None or not colour.triplet, (segment, theme)


async def test_the_four_letters_go_where_the_arrows_go_if_a_person_wants_them(make_app: MakeApp) -> None:
    app = make_app(FakeClient(completed_run()), hjkl=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("enter")
        assert "evidence" in screen_text(app)
        await pilot.press("l")
        await settle(pilot)
        assert "const evidence = await agent" in screen_text(app)
        await pilot.press("h")
        await settle(pilot)
        assert "const evidence = await agent" not in screen_text(app)
        await pilot.press("slash", *"hjkl")
        await settle(pilot)
        assert isinstance(app.focused, Field) and app.focused.value == "hjkl"
