"""What a person does at the Author screen: open, edit, see problems, fix, save, launch, watch the marks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from textual.widgets._toast import Toast

from tests.workbench.tui.author_support import (
    NARROW,
    WIDE,
    InThread,
    MakeApp,
    author,
    fake_check,
    notices,
    painted,
    ready,
    shown,
    standing,
    until,
)
from tests.workbench.tui.fakes import SCRIPT, FakeClient, completed_run
from workbench.tui.screens import author_checks, author_editors
from workbench.tui.screens.author_check_process import Answer
from workbench.tui.widgets.editor_form import TextBlock
from workbench.tui.widgets.editor_marks import Mark
from workbench.tui.widgets.editor_pane import EditorPane
from workflows_core.errors import UsageError
from workflows_core.model import Cause, RunState

pytestmark = pytest.mark.usefixtures("quick_checks")


async def test_from_opening_a_script_to_the_marks_of_its_run(make_app: MakeApp, scripts: Path) -> None:
    client = FakeClient()
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        assert shown(app).editor.text == SCRIPT
        assert "Problems" in painted(app)

        await pilot.press("ctrl+end", *"BAD")
        await until(pilot, lambda: shown(app).problems)
        assert "8:1" in painted(app) and "BAD is not good" in painted(app)
        assert "checks.workflow.js ●" in painted(app)

        await pilot.press("alt+q")
        await until(pilot, lambda: not shown(app).problems)
        assert shown(app).editor.text == SCRIPT + "good"

        await pilot.press("ctrl+s")
        await until(pilot, lambda: not shown(app).draft.dirty)
        assert (scripts / "checks.workflow.js").read_text() == SCRIPT + "good"

        await pilot.press("ctrl+r")
        await until(pilot, lambda: client.launched)
        launch = client.launched[0]
        assert (launch.script, launch.args, launch.name) == (SCRIPT + "good", {}, "checks")
        assert launch.options["stubs"] == [{"step": "evidence", "reply": {"a": 1}}]
        await until(pilot, lambda: shown(app).editor.marks)
        assert shown(app).editor.marks == {
            0: Mark("✓", "good"),
            2: Mark("●", "running"),
            3: Mark("○", "quiet"),
        }
        assert "1 of 3 steps" in standing(app)

        client.change(launch_id(client), state=RunState.COMPLETED, steps=completed_run().steps)
        await until(pilot, lambda: shown(app).editor.marks.get(3) == Mark("✓", "good"))
        assert standing(app).startswith("✓ completed")


async def test_on_a_narrow_screen_the_run_stands_below_the_script(make_app: MakeApp, scripts: Path) -> None:
    client = FakeClient()
    app = make_app(client, screen="author")
    async with app.run_test(size=NARROW) as pilot:
        await ready(pilot, app)
        below = lambda: str(author(app).query_one(EditorPane).border_subtitle)  # noqa: E731
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "running" in below())
        client.change(launch_id(client), state=RunState.FAILED, cause=Cause("script", "boom", 1, 7))
        await until(pilot, lambda: below().startswith("✗ failed · boom (line 1:7) · "))
        assert shown(app).editor.marks[0] == Mark("✗", "bad")
        await pilot.resize_terminal(*WIDE)
        await until(pilot, lambda: "failed" not in below())
        assert "boom (line 1:7)" in standing(app)


def launch_id(client: FakeClient) -> str:
    """The run that the fake made last."""
    return list(client.views)[-1]


async def test_a_check_waits_until_the_text_stands_still(
    make_app: MakeApp, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def recording(text: str, args: Any) -> Answer:
        seen.append(text)
        return fake_check(text, args)

    monkeypatch.setattr(InThread, "find", staticmethod(recording))
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        checker = author(app)._checker
        monkeypatch.setattr(author_checks, "DELAY_SECONDS", 3_600.0)
        before = len(seen)
        due = []
        for letter in "OD":
            await pilot.press(letter)
            assert checker._timer is not None and checker._timer not in due
            due.append(checker._timer)
        assert due[0]._task is None and due[1]._task is not None, "each key begins the wait anew"
        assert len(seen) == before
        monkeypatch.setattr(author_checks, "DELAY_SECONDS", 0.001)
        await pilot.press("D")
        await until(pilot, lambda: shown(app).problems)
        assert due[1]._task is None
        assert seen[before:] == ["ODD" + SCRIPT]
        await pilot.press("ctrl+t")
        await until(pilot, lambda: len(seen) == before + 2)


async def test_an_answer_about_an_older_text_is_dropped(
    make_app: MakeApp, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow(text: str, args: Any) -> Answer:
        if text.startswith("ODD") and not text.startswith("ODDx"):
            began.set()
            assert go_on.wait(60)
        return fake_check(text, args)

    monkeypatch.setattr(InThread, "find", staticmethod(slow))
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        taken: list[str] = []
        real = author_editors.EditorColumn.show_checked
        monkeypatch.setattr(
            author_editors.EditorColumn,
            "show_checked",
            lambda self, file, checked: (taken.append(checked.text), real(self, file, checked))[1],
        )
        await pilot.press(*"ODD")
        await until(pilot, began.is_set)
        await pilot.press("x")
        go_on.set()
        await until(pilot, lambda: taken and taken[-1] == "ODDx" + SCRIPT)
        assert "ODD" + SCRIPT not in taken


async def test_errors_stop_the_launch_and_lead_to_the_problems(make_app: MakeApp, scripts: Path) -> None:
    client = FakeClient()
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press(*"BAD", "ctrl+r")
        await until(pilot, lambda: "Not launched: the script has 1 error." in notices(app))
        assert client.launched == []
        assert author(app)._column.problem_list.has_focus
        assert "BAD is not good" in author(app).query_one("#sentence", TextBlock).plain
        await pilot.press("enter")
        assert shown(app).editor.has_focus
        assert shown(app).editor.cursor_location == (0, 0)


async def test_a_refused_launch_leads_to_the_first_error_past_the_warnings(
    make_app: MakeApp, scripts: Path
) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=NARROW, notifications=True) as pilot:
        await ready(pilot, app)
        await pilot.press(*"ODDODDODDODDBAD", "ctrl+r")
        await until(pilot, lambda: "Not launched: the script has 1 error." in notices(app))
        assert "BAD is not good" in author(app).query_one("#sentence", TextBlock).plain
        await until(pilot, lambda: "1:13" in painted(app))
        # Nothing lies over the problems: their own pane says what they stopped, until they are others.
        await until(pilot, lambda: "Not launched: 1 error" in painted(app))
        assert not app.screen.query(Toast) and not len(app._notifications)
        assert "BAD is not good" in painted(app)
        app.notice("said in passing")
        await until(pilot, lambda: "said in passing" in painted(app))
        assert "BAD is not good" in painted(app) and "Not launched: 1 error" in painted(app)
        await pilot.press("enter")
        assert shown(app).editor.cursor_location == (0, 12)
        await pilot.press("delete")
        await until(pilot, lambda: "Not launched" not in painted(app))


async def test_warnings_do_not_stop_the_launch(make_app: MakeApp, scripts: Path) -> None:
    client = FakeClient()
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press(*"ODD", "ctrl+r")
        await until(pilot, lambda: client.launched)


async def test_a_check_that_fails_is_reported_and_the_screen_goes_on(
    make_app: MakeApp, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)

        def broken(text: str, args: Any) -> Answer:
            raise UsageError("the engine cannot be started")

        monkeypatch.setattr(InThread, "find", staticmethod(broken))
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "the engine cannot be started" in notices(app))
        monkeypatch.setattr(InThread, "find", staticmethod(fake_check))
        await pilot.press(*"ODD")
        await until(pilot, lambda: shown(app).problems)


async def test_the_problem_list_jumps_and_fixes(make_app: MakeApp, scripts: Path) -> None:
    (scripts / "checks.workflow.js").write_text("ODD\n  BAD\nBAD\n")
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("alt+down")
        assert shown(app).editor.cursor_location == (1, 2)
        await pilot.press("alt+down", "alt+down")
        assert shown(app).editor.cursor_location == (0, 0)
        await pilot.press("alt+up")
        assert shown(app).editor.cursor_location == (2, 0)

        author(app)._column.problem_list.focus()
        assert "f fix" not in painted(app).splitlines()[-1], "the problem under the cursor has none"
        await pilot.press("f", "down", "down")
        await until(pilot, lambda: "f fix" in painted(app).splitlines()[-1])
        assert shown(app).editor.text == "ODD\n  BAD\nBAD\n" and not notices(app)
        await pilot.press("f")
        await until(pilot, lambda: len(shown(app).problems) == 2)
        assert shown(app).editor.text == "ODD\n  BAD\ngood\n"
        await pilot.press("down", "enter")
        assert shown(app).editor.cursor_location == (1, 2)
        await pilot.press("ctrl+z")
        assert shown(app).editor.text == "ODD\n  BAD\nBAD\n"


async def test_jumping_follows_a_problem_that_has_moved_since_the_check(
    make_app: MakeApp, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scripts / "checks.workflow.js").write_text("one\nODD\n")
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        monkeypatch.setattr(author_checks, "DELAY_SECONDS", 60)
        await pilot.press("enter", "enter", "alt+down")
        assert shown(app).editor.cursor_location == (3, 0)
