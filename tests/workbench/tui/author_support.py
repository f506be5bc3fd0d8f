"""What the tests of the Author screen share: a workspace with scripts, quick checks, and ways to look at it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import SCRIPT
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens import author_checks, author_editors
from workbench.tui.screens.author import AuthorScreen
from workbench.tui.screens.author_check_process import Answer, Question
from workbench.tui.screens.author_editors import OpenFile
from workbench.tui.screens.author_launch import LaunchPane
from workbench.tui.widgets.editor_form import TextBlock
from workbench.workspace import Workspace
from workflows_core.script.problem import Edit, Fix, Problem

#: Room for all columns, and the smallest terminal.
WIDE, NARROW = (110, 28), (80, 24)

MakeApp = Callable[..., WorkbenchApp]


def fake_check(text: str, args: Any) -> Answer:
    """Every BAD is an error with a fix, every ODD a warning without one."""
    problems = []
    for number, line in enumerate(text.split("\n"), 1):
        for match in re.finditer("BAD|ODD", line):
            column = match.start() + 1
            edit = Edit(number, column, number, column + 3, "good")
            if match.group() == "BAD":
                fix = Fix("replace it by good", (edit,))
                problems.append(Problem("bad", "error", number, column, "BAD is not good", fix))
            else:
                problems.append(Problem("odd", "warning", number, column, "ODD is odd"))
    return Answer(tuple(problems), (text.count("agent("), False))


class InThread:
    """Answers as ``find`` says, in a thread; tests put another ``find`` here."""

    find: ClassVar[Callable[[str, Any], Answer]] = fake_check

    async def ask(self, question: Question) -> Answer:
        return await asyncio.to_thread(type(self).find, question.script, question.args)

    async def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def quick_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that look for BAD and ODD only, and no waiting for the text to stand still."""
    monkeypatch.setattr(author_checks, "CheckProcess", InThread)
    monkeypatch.setattr(InThread, "find", staticmethod(fake_check))
    monkeypatch.setattr(author_checks, "DELAY_SECONDS", 0.01)
    monkeypatch.setattr(author_editors, "PLACE_SECONDS", 0.01)


@pytest.fixture
def scripts(workspace: Workspace) -> Path:
    """A workspace with two scripts, one in a folder, and two stub sets."""
    root = workspace.root
    (root / "checks.workflow.js").write_text(SCRIPT)
    (root / "checks.stubs.yaml").write_text("- step: evidence\n  reply: {a: 1}\n")
    (root / "more").mkdir()
    (root / "more" / "second.workflow.js").write_text("return 2;\n")
    (root / "other.stubs.yaml").write_text("- reply: other\n")
    return root


def author(app: WorkbenchApp) -> AuthorScreen:
    screen = app.base_screen
    assert isinstance(screen, AuthorScreen)
    return screen


def shown(app: WorkbenchApp) -> OpenFile:
    """The script that is shown."""
    file = author(app).current
    assert file is not None
    return file


def pane(app: WorkbenchApp) -> LaunchPane:
    return author(app).query_one(LaunchPane)


def standing(app: WorkbenchApp) -> str:
    return author(app).query_one("#standing", TextBlock).plain


def notices(app: WorkbenchApp) -> str:
    return "\n".join(notice.message for notice in app.notices)


async def until(pilot: Pilot[Any], condition: Callable[[], Any]) -> None:
    """Let the application work until ``condition`` holds."""
    async with asyncio.timeout(60):
        while not condition():
            await pilot.pause(0.01)
    await pilot.pause()


async def ready(pilot: Pilot[Any], app: WorkbenchApp) -> None:
    """Until a script is open, checked, and has the focus."""
    await until(pilot, lambda: author(app).current is not None and shown(app).checked is not None)
    await until(pilot, lambda: shown(app).editor.has_focus)


def painted(app: WorkbenchApp) -> str:
    """Everything on the screen as text."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    assert len(lines) == height and width
    return "\n".join(line.text for line in lines)


def write_elsewhere(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 5_000_000))
