"""With ``ascii: true`` everything that is drawn is ASCII, on every screen, in its dialogs and in passing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from textual.pilot import Pilot
from textual.widgets._toast import Toast

from tests.workbench.tui.fakes import (
    SCRIPT,
    FakeClient,
    completed_run,
    failed_run,
    make_run,
    running_run,
    screen_text,
    until,
    waiting_run,
)
from tests.workbench.tui.host_support import CONFIG, HostClient, child, configure, evidence, record
from tests.workbench.tui.replay_support import bundle
from tests.workbench.tui.rest import at_rest
from tests.workbench.tui.review_support import everything
from workbench.replaying import Given
from workbench.tui import keymap
from workbench.tui.app import SCREENS, WorkbenchApp
from workbench.tui.leaving import LeaveDialog
from workbench.workspace import Workspace
from workflows_core.model import RunState

MakeApp = Callable[..., WorkbenchApp]
#: They leave the application, or give the terminal to another program.
ELSEWHERE = {"author.outside", "app.quit"}
PLACES = {
    "author": ("author", "author.scripts", "author.editor", "author.problems"),
    "runs": ("runs", "runs.list", "runs.detail", "list", "screen", "app"),
    "review": ("review", "review.list", "review.output"),
    "replay": ("replay", "replay.source", "replay.sight"),
    "host": ("host", "host.detail"),
}
SEVERITIES: tuple[Literal["information", "warning", "error"], ...] = ("information", "warning", "error")


def runs() -> Iterator[Any]:
    """A run in each state."""
    yield from (running_run(), completed_run(), failed_run(), waiting_run())
    for number, state in enumerate(RunState):
        yield make_run(f"wr_{number:016x}", name=f"in {state}", state=state)


def client_for(screen: str, workspace: Workspace) -> FakeClient:
    record(workspace, child(1), child(2, made_of=evidence("m2", ("search", "read"), temperature=0.7)))
    return everything() if screen == "review" else HostClient(*runs())


def beyond(app: WorkbenchApp) -> list[str]:
    """The lines on the screen that hold something beyond ASCII."""
    return [line for line in screen_text(app).split("\n") if not line.isascii()]


async def walked(pilot: Pilot[Any], app: WorkbenchApp, screen: str) -> dict[str, list[str]]:
    """What each key of a screen brings up that is beyond ASCII, by the key's id. What comes from outside is ASCII here."""
    found: dict[str, list[str]] = {}

    async def look(what: str) -> None:
        await at_rest(app, None)
        if lines := beyond(app):
            found[what] = lines

    await look("at first")
    for row in keymap.rows(PLACES[screen]):
        if row.id not in ELSEWHERE:
            await pilot.press(row.keys.split(",")[0])
            await look(row.id)
            for _ in app.screen_stack[1:]:
                await pilot.press("escape")
                await at_rest(app, None)
            assert app.screen is app.base_screen, row.id
            await app.switch_mode(screen)
    return found


@pytest.mark.parametrize("screen", SCREENS)
async def test_everything_that_is_drawn(
    make_app: MakeApp, scripts: Path, workspace: Workspace, screen: str
) -> None:
    configure(workspace, CONFIG)
    tall = "".join(f"// line {number}\n" for number in range(200)) + f"// {'wide ' * 100}\n"
    (scripts / "checks.workflow.js").write_text(SCRIPT + tall)
    app = make_app(client_for(screen, workspace), screen=screen, ascii=True)
    app.given = Given(bundle("diverged"))
    async with app.run_test(size=(110, 20), notifications=True) as pilot:
        assert await walked(pilot, app, screen) == {}


async def test_what_is_said_in_passing_and_before_leaving(make_app: MakeApp) -> None:
    app = make_app(FakeClient(running_run()), ascii=True)
    async with app.run_test(size=(110, 32), notifications=True) as pilot:
        for severity in SEVERITIES:
            app.notice("from a · to b…\nthe rest", title="A · title", severity=severity)
        await until(pilot, lambda: len(app.screen.query(Toast)) == len(SEVERITIES))
        await at_rest(app, None)
        assert screen_text(app).count("from a - to b~") == len(SEVERITIES)
        assert beyond(app) == []
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, LeaveDialog))
        await at_rest(app, None)
        assert beyond(app) == []
