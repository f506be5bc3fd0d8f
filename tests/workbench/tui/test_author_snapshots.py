"""How the Author screen looks, at both sizes. A change of a snapshot is looked at before it is accepted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.author_support import InThread, MakeApp, author, ready, shown, standing, until
from tests.workbench.tui.fakes import SCRIPT, FakeClient, completed_run, failed_run, running_run
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.author import AuthorScreen
from workbench.tui.screens.author_check_process import Answer, Question, answer
from workbench.tui.screens.author_compare import CompareScreen
from workbench.tui.screens.author_dialogs import Picker
from workbench.tui.screens.author_launch import LaunchPane
from workbench.tui.screens.runs import RunsScreen
from workbench.tui.widgets.choice import Choice
from workbench.tui.widgets.editor_completion import Completions

pytestmark = pytest.mark.usefixtures("quick_checks")

#: The screens of the tabs, so that a further one does not change these pictures.
SCREEN: dict[str, Any] = {"screen": "author", "screens": {"author": AuthorScreen, "runs": RunsScreen}}
SIZES = [pytest.param((80, 24), id="80x24"), pytest.param((120, 40), id="120x40")]
WITH_PROBLEMS = SCRIPT.replace("evidence.output}),\n  () =>", "ODD}),\n  () =>").replace("'pass'", "'BAD'")


def before(
    act: Callable[[Pilot[Any], WorkbenchApp], Awaitable[None]],
) -> Callable[[Pilot[Any]], Awaitable[None]]:
    async def run(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, WorkbenchApp)
        await act(pilot, app)
        await pilot.pause(0.1)

    return run


@pytest.mark.parametrize("size", SIZES)
def test_editing_with_a_live_run_and_problems(
    snap_compare: Any, make_app: MakeApp, scripts: Path, size: tuple[int, int]
) -> None:
    (scripts / "checks.workflow.js").write_text(WITH_PROBLEMS)

    async def act(pilot: Pilot[Any], app: WorkbenchApp) -> None:
        await ready(pilot, app)
        await until(pilot, lambda: shown(app).editor.marks)
        await pilot.press("down", "down", "end")

    app = make_app(FakeClient(running_run(script=WITH_PROBLEMS)), **SCREEN)
    assert snap_compare(app, terminal_size=size, run_before=before(act))


@pytest.mark.parametrize("size", SIZES)
def test_the_problem_list_with_the_focus(
    snap_compare: Any, make_app: MakeApp, scripts: Path, size: tuple[int, int]
) -> None:
    (scripts / "checks.workflow.js").write_text(WITH_PROBLEMS)

    async def act(pilot: Pilot[Any], app: WorkbenchApp) -> None:
        await ready(pilot, app)
        await until(pilot, lambda: shown(app).editor.marks)
        author(app)._column.problem_list.focus()
        await pilot.press("down")

    app = make_app(FakeClient(failed_run()), **SCREEN)
    assert snap_compare(app, terminal_size=size, run_before=before(act))


@pytest.mark.parametrize("size", SIZES)
def test_arguments_that_cannot_be_sent(
    snap_compare: Any, make_app: MakeApp, scripts: Path, size: tuple[int, int]
) -> None:
    async def act(pilot: Pilot[Any], app: WorkbenchApp) -> None:
        await ready(pilot, app)
        await pilot.press("alt+g")
        app.screen.query_one(LaunchPane).editor.load_text(
            '{\n  "product": "Synthetic soap",\n  "formula": [1,]\n}'
        )

    assert snap_compare(make_app(**SCREEN), terminal_size=size, run_before=before(act))


@pytest.mark.parametrize("size", SIZES)
def test_an_unchanged_launch(
    snap_compare: Any, make_app: MakeApp, scripts: Path, size: tuple[int, int]
) -> None:
    client = FakeClient(completed_run())

    async def act(pilot: Pilot[Any], app: WorkbenchApp) -> None:
        await ready(pilot, app)
        await until(pilot, lambda: "wr_00000000000000a1" in standing(app))
        file = shown(app)
        file.repeatable = file.repeated = True
        author(app)._runs.show_standing()
        author(app).reveal("launch")
        author(app).query_one("#again-button", Choice).focus()

    assert snap_compare(make_app(client, **SCREEN), terminal_size=size, run_before=before(act))


@pytest.mark.parametrize("size", SIZES)
def test_an_opened_version(
    snap_compare: Any, make_app: MakeApp, scripts: Path, size: tuple[int, int]
) -> None:
    client = FakeClient(completed_run())
    older = SCRIPT.replace("'pass'", "'fine'")
    client.keep_version("checks", SCRIPT, 2)
    saved = client.keep_version("checks", older, 1)
    client.keep_version("file-review", "return 1;\n")

    async def act(pilot: Pilot[Any], app: WorkbenchApp) -> None:
        await ready(pilot, app)
        file = await author(app)._files.open_version(saved)
        file.editor.focus()
        await ready(pilot, app)
        await until(pilot, lambda: author(app)._forecast.expected is not None)
        if size[0] < 100:
            author(app)._scripts.list.focus()
            author(app)._scripts.list.go_to(str(file.path))

    assert snap_compare(make_app(client, **SCREEN), terminal_size=size, run_before=before(act))


@pytest.mark.parametrize("size", SIZES)
def test_two_versions_compared(
    snap_compare: Any, make_app: MakeApp, scripts: Path, size: tuple[int, int]
) -> None:
    client = FakeClient()
    client.keep_version("checks", SCRIPT.replace("'pass'", "'fine'").replace("log(", "// said\nlog("))

    async def act(pilot: Pilot[Any], app: WorkbenchApp) -> None:
        await ready(pilot, app)
        await pilot.press("alt+c")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))

    assert snap_compare(make_app(client, **SCREEN), terminal_size=size, run_before=before(act))


def test_two_versions_side_by_side(snap_compare: Any, make_app: MakeApp, scripts: Path) -> None:
    (scripts / "checks.workflow.js").write_text("const a = 1;\nlog(`a ${a}`);\nreturn {a};\n")
    client = FakeClient()
    client.keep_version("checks", "const a = 2;\nreturn {a};\n")

    async def act(pilot: Pilot[Any], app: WorkbenchApp) -> None:
        await ready(pilot, app)
        await pilot.press("alt+c")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))

    assert snap_compare(make_app(client, **SCREEN), terminal_size=(120, 40), run_before=before(act))


@pytest.mark.parametrize("size", SIZES)
def test_completing(
    snap_compare: Any,
    make_app: MakeApp,
    scripts: Path,
    size: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = answer(Question(SCRIPT, {}, ("lead_agent",), 16)).words
    monkeypatch.setattr(InThread, "find", staticmethod(lambda text, args: Answer((), (3, False), words)))

    async def act(pilot: Pilot[Any], app: WorkbenchApp) -> None:
        await ready(pilot, app)
        await pilot.press("down", "end", "enter", *"agent({stepId: '", "ctrl+space")
        await until(pilot, lambda: app.screen.query(Completions) and app.screen.query_one(Completions).opened)

    assert snap_compare(make_app(**SCREEN), terminal_size=size, run_before=before(act))


@pytest.mark.parametrize("size", SIZES)
def test_an_empty_workspace(snap_compare: Any, make_app: MakeApp, size: tuple[int, int]) -> None:
    async def act(pilot: Pilot[Any], app: WorkbenchApp) -> None:
        button = author(app).query_one("#new-button", Choice)
        await until(pilot, lambda: button.display)

    assert snap_compare(make_app(**SCREEN), terminal_size=size, run_before=before(act))


def test_without_colour_and_unicode(
    snap_compare: Any, make_app: MakeApp, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    (scripts / "checks.workflow.js").write_text(WITH_PROBLEMS)

    async def act(pilot: Pilot[Any], app: WorkbenchApp) -> None:
        await ready(pilot, app)
        await until(pilot, lambda: shown(app).editor.marks)
        await pilot.press("down", "shift+right", "shift+right")

    app = make_app(FakeClient(running_run(script=WITH_PROBLEMS)), **SCREEN, ascii=True)
    assert snap_compare(app, terminal_size=(80, 24), run_before=before(act))


def test_a_light_theme(snap_compare: Any, make_app: MakeApp, scripts: Path) -> None:
    async def act(pilot: Pilot[Any], app: WorkbenchApp) -> None:
        await ready(pilot, app)
        await until(pilot, lambda: shown(app).editor.marks)

    app = make_app(FakeClient(completed_run()), **SCREEN, theme="textual-light")
    assert snap_compare(app, terminal_size=(120, 40), run_before=before(act))
