"""Everything of the Author screen is reachable, visible without colour, and inert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workbench.tui.author_support import (
    NARROW,
    WIDE,
    InThread,
    MakeApp,
    author,
    notices,
    painted,
    pane,
    ready,
    shown,
    standing,
    until,
)
from tests.workbench.tui.fakes import SCRIPT, FakeClient, completed_run, running_run
from workbench.inert import acts
from workbench.tui.screens.author_check_process import Answer
from workbench.tui.widgets.editor_form import TextBlock
from workbench.workspace import Workspace
from workflows_core.model import RunState
from workflows_core.script.problem import Fix, Problem

pytestmark = pytest.mark.usefixtures("quick_checks")


async def test_at_80_columns_every_pane_is_reached_by_keys(make_app: MakeApp, scripts: Path) -> None:
    app = make_app(FakeClient(completed_run()), screen="author")
    async with app.run_test(size=NARROW) as pilot:
        await ready(pilot, app)
        screen = author(app)
        assert not screen.query_one("#launch").is_on_screen
        reached = set()
        for _ in range(12):
            await pilot.press("tab")
            assert app.focused is not None
            assert app.focused.is_on_screen
            assert screen.query_one("#centre").is_on_screen
            reached.add(app.focused.id or type(app.focused).__name__)
        assert {"arguments", "agents", "stubs", "launch-button", "check-button", "show-button"} <= reached
        assert {"ScriptList", "ProblemList", "ScriptEditor"} <= reached
        await pilot.press("escape")
        assert screen.query_one("#scripts").is_on_screen


async def test_tabs_are_shown_where_several_scripts_are_open(make_app: MakeApp, scripts: Path) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("escape")
        author(app)._scripts.list.go_to("more/second.workflow.js")
        await pilot.press("enter")
        await until(pilot, lambda: shown(app).path.name == "second.workflow.js")
        assert " checks.workflow.js  second.workflow.js " in painted(app)
        await pilot.press("ctrl+pagedown")
        await until(pilot, lambda: shown(app).path.name == "checks.workflow.js")
        assert shown(app).editor.has_focus
        await pilot.click("FileTabs", offset=(24, 0))
        await until(pilot, lambda: shown(app).path.name == "second.workflow.js")


HOSTILE = "\x1b]52;c;aGk=\x07\x9b31m\u202e\u2066\U000e0041[bold red]x[/]\x00\x7f"


async def test_i13_no_text_from_outside_acts_on_the_terminal(
    make_app: MakeApp, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = workspace.root
    name = HOSTILE.replace("\x00", "").replace("/", "_")
    (root / f"{name}.workflow.js").write_text(f"// {HOSTILE}\n", encoding="utf-8")
    (root / f"{name}.stubs.yaml").write_text("- reply: 1\n", encoding="utf-8")

    def hostile(text: str, args: Any) -> Answer:
        fix = Fix(HOSTILE, ())
        return Answer((Problem("r", "warning", 1, 1, HOSTILE, fix),), None)

    monkeypatch.setattr(InThread, "find", staticmethod(hostile))
    view = completed_run(run_id="wr_" + HOSTILE, name=name, state=RunState.FAILED)
    app = make_app(FakeClient(view), screen="author")
    async with app.run_test(size=(200, 40)) as pilot:
        await ready(pilot, app)
        pane(app).editor.load_text(f'{{"{HOSTILE}": 1')
        await until(pilot, lambda: "wr_" in standing(app))
        author(app)._column.problem_list.focus()
        await pilot.pause()
        assert "[bold red]x" in painted(app)
        assert not acts(painted(app).replace("\n", ""))
        await pilot.resize_terminal(*NARROW)
        await pilot.pause()
        assert not acts(painted(app).replace("\n", ""))


async def test_without_colour_and_unicode_everything_still_has_a_glyph_or_a_word(
    make_app: MakeApp, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    (scripts / "checks.workflow.js").write_text("ODD\n" + SCRIPT)
    app = make_app(FakeClient(running_run()), screen="author", ascii=True)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await until(pilot, lambda: shown(app).editor.marks)
        await pilot.press("x")
        text = painted(app)
        assert "checks.workflow.js *" in text
        assert "(o) stub" in text
        assert "* running" in text
        assert "+   2 const evidence" in text and "*   4" in text and " W  1 xODD" in text


async def test_the_real_checks_find_what_is_wrong(
    make_app: MakeApp, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    (scripts / "checks.workflow.js").write_text("const a = 1;\nconst b = ;\n")
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        assert [(problem.rule, problem.line) for problem in shown(app).problems] == [("syntax", 2)]


async def test_a_key_leads_from_a_line_to_its_step_in_runs(make_app: MakeApp, scripts: Path) -> None:
    client = FakeClient(completed_run())
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await until(pilot, lambda: shown(app).editor.marks)
        await pilot.press("alt+pagedown")
        await until(pilot, lambda: shown(app).editor.cursor_location[0] == 2)
        await pilot.press("alt+pagedown", "alt+pagedown", "alt+pageup")
        await until(pilot, lambda: shown(app).editor.cursor_location[0] == 3)
        await pilot.press("down", "alt+t")  # the line below the call belongs to it
        await until(pilot, lambda: app.current_mode == "runs")
        await until(pilot, lambda: getattr(app.focused, "current_id", "") == "formula@1")


async def test_lines_that_moved_keep_their_steps(make_app: MakeApp, scripts: Path) -> None:
    app = make_app(FakeClient(completed_run()), screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await until(pilot, lambda: shown(app).editor.marks)
        await pilot.press("ctrl+home", "enter", "enter", "alt+t")
        await until(pilot, lambda: app.current_mode == "runs")
        await until(pilot, lambda: getattr(app.focused, "current_id", "") == "evidence@1")


async def test_where_no_step_is_it_is_said(make_app: MakeApp, scripts: Path) -> None:
    app = make_app(FakeClient(), screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("alt+t", "alt+pagedown")
        await until(pilot, lambda: "There is no step of a run to go to." in notices(app))
        assert "The last run has no step at this line or above it." in notices(app)
        assert app.current_mode == "author"


async def test_without_a_script_nothing_offers_to_launch(make_app: MakeApp, workspace: Workspace) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: "There is no script in this workspace yet." in painted(app))
        text = painted(app)
        assert "launch" not in text.split("\n")[-1] and "edit in" not in text
        assert "[ Launch ]" not in text and "This script has no run yet." not in text
        told = author(app).query_one("#no-launch", TextBlock)
        assert told.plain == "A script that is open is launched from here." and told.is_on_screen
