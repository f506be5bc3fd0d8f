"""Completion while a script is written: from the key that opens the list to the text that is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workbench.tui import author_support
from tests.workbench.tui.author_support import (
    NARROW,
    WIDE,
    InThread,
    MakeApp,
    author,
    notices,
    painted,
    ready,
    shown,
    until,
)
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.author_check_process import Answer, Question, answer
from workbench.tui.widgets.editor_completion import Completions
from workbench.workspace import Workspace

WRITTEN = "await agent({stepId: 'evidence', agentRef: 'lead_agent', task: 1});\n"


@pytest.fixture(autouse=True)
def known_words(quick_checks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick checks that give the words of the real one."""
    words = answer(Question(WRITTEN, {}, ("lead_agent",), 16)).words

    def find(text: str, args: object) -> Answer:
        found = author_support.fake_check(text, args)
        return Answer(found.problems, found.bound, words)

    monkeypatch.setattr(InThread, "find", staticmethod(find))


def opened(app: WorkbenchApp) -> bool:
    return any(found.opened for found in author(app).query(Completions))


@pytest.fixture
def script(workspace: Workspace) -> Path:
    path = workspace.root / "checks.workflow.js"
    path.write_text(WRITTEN)
    return path


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_a_step_is_completed_inside_its_quotes(
    make_app: MakeApp, script: Path, size: tuple[int, int]
) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=size) as pilot:
        await ready(pilot, app)
        await pilot.press("ctrl+end", *"x({sourceStepId: '", "ctrl+space")
        await until(pilot, lambda: opened(app))
        assert "agent at line 1" in painted(app)
        await pilot.press("enter")
        await until(pilot, lambda: not opened(app))
        assert shown(app).editor.text == WRITTEN + "x({sourceStepId: 'evidence"
        await pilot.press("ctrl+z")
        assert shown(app).editor.text.startswith(WRITTEN)


async def test_the_list_follows_what_is_typed_and_leaves_with_escape(make_app: MakeApp, script: Path) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("ctrl+end", "p", "ctrl+space")
        await until(pilot, lambda: opened(app))
        assert "parallel" in painted(app) and "pause" in painted(app)
        await pilot.press("a", "u")
        await until(pilot, lambda: "parallel" not in painted(app))
        await pilot.press("escape")
        assert not opened(app) and shown(app).editor.has_focus
        await pilot.press("ctrl+space")
        await until(pilot, lambda: shown(app).editor.text.endswith("await pause({stepId: })"))
        # The cursor stands where the stepId goes.
        assert shown(app).editor.cursor_location == (1, len("await pause({stepId: "))


async def test_arrows_choose_and_tab_takes(make_app: MakeApp, script: Path) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("ctrl+end", "p", "ctrl+space")
        await until(pilot, lambda: opened(app))
        await pilot.press("down", "up", "down", "tab")
        assert shown(app).editor.text.endswith("await pause({stepId: })")
        assert shown(app).editor.has_focus


async def test_an_agent_is_offered_and_nothing_is_said_in_words(make_app: MakeApp, script: Path) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("ctrl+end", *"agent({agentRef: 'le", "ctrl+space")
        await until(pilot, lambda: shown(app).editor.text.endswith("agentRef: 'lead_agent"))
        await pilot.press(*"zz", "ctrl+space")
        await until(pilot, lambda: "Nothing that is known here continues this word." in notices(app))


async def test_the_list_closes_when_the_cursor_leaves_the_line(make_app: MakeApp, script: Path) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("ctrl+end", "p", "ctrl+space")
        await until(pilot, lambda: opened(app))
        await pilot.press("ctrl+home")
        await until(pilot, lambda: not opened(app))
        await pilot.press("ctrl+end", "ctrl+space")
        await until(pilot, lambda: opened(app))
        author(app).home().focus()  # type: ignore[union-attr]
        await until(pilot, lambda: not opened(app))
