"""What every dialog has in common: its buttons are in sight, whatever it says and however high the terminal is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input
from textual.widgets._toast import Toast

from tests.workbench.tui.author_support import painted
from tests.workbench.tui.fakes import NOW, FakeClient, make_run, make_step, settle, summary_of, until
from workbench.tui.app import WorkbenchApp
from workbench.tui.leaving import LeaveDialog
from workbench.tui.palette import Command, Palette
from workbench.tui.screens.author_dialogs import NameDialog, Picker
from workbench.tui.screens.dialogs import Answer, Dialog, Modal
from workbench.tui.screens.host_log_in import LogInDialog
from workbench.tui.screens.replay_dialogs import ReplyDialog
from workbench.tui.screens.replay_edit import ScriptDialog
from workbench.tui.screens.replay_looking import GoTo
from workbench.tui.screens.review_dialogs import DecisionDialog, TextDialog
from workbench.tui.screens.run_answer import AnswerDialog
from workbench.tui.screens.run_dialogs import ReconcileDialog, RecoverDialog
from workbench.tui.screens.run_export import ExportDialog
from workbench.tui.screens.run_fork import ForkDialog
from workbench.tui.widgets.choice import Choice
from workbench.tui.widgets.lines import LineList
from workbench.tui.widgets.pane import Field
from workflows_core.engine.evidence import Evidence
from workflows_core.engine.recovery import Preview
from workflows_core.errors import UsageError
from workflows_core.model import RunView, StepStatus, StepView

LONG = "\n".join(f"line {number} of a text that does not end" for number in range(90))
WORDY = "a name without an end " * 40
ANSWERS = [Answer("no", "Do not"), Answer("yes", "Do it", danger=True)]


def step() -> StepView:
    return make_step(
        "ask",
        StepStatus.RUNNING,
        badge="manual",
        agent_ref="man",
        input=LONG,
        child_run_id="cr_00000000000000aa",
    )


def run() -> RunView:
    return make_run(name=WORDY, steps=(step(),))


async def nothing(*_: Any) -> None:
    """Does as it is told."""


async def still_waits() -> str:
    return ""


def reconcile() -> ReconcileDialog:
    known = Evidence(hash="0" * 64, step_id="ask")
    return ReconcileDialog(run(), step(), known, who="ada " * 40, now=NOW, folder=Path("/"))


def recover() -> RecoverDialog:
    preview = Preview(reasons=tuple(f"reason {number}" for number in range(60)))
    return RecoverDialog(run(), preview, NOW)


DIALOGS: dict[str, Callable[[], Modal[Any]]] = {
    "dialog": lambda: Dialog("Act?", LONG, ANSWERS),
    "leave": lambda: LeaveDialog(LONG),
    "decision": lambda: DecisionDialog("Approve?", LONG, ANSWERS),
    "fork": lambda: ForkDialog("Fork this run?", LONG, [*ANSWERS, Answer("real", "Real Agents")]),
    "text": lambda: TextDialog("Reject?", LONG, ANSWERS, placeholder="reason", check=lambda _: WORDY),
    "answer": lambda: AnswerDialog(run(), step(), LONG, who="ada " * 40, over=still_waits),
    "reconcile": reconcile,
    "recover": recover,
    "export": lambda: ExportDialog(summary_of(run()), Path("/" + "folder/" * 200)),
    "reply": lambda: ReplyDialog("ask", 3, LONG.split("\n")),
    "script": lambda: ScriptDialog("run", LONG, line=80, max_calls=10),
    "log in": lambda: LogInDialog("ada", nothing),
    "name": lambda: NameDialog("first", text=LONG),
    "go to": lambda: GoTo(nothing),
    "picker": lambda: Picker("Which?", [(f"choice {number}", "") for number in range(90)]),
    "palette": lambda: Palette([Command(f"act {number}", "", print) for number in range(90)], "All"),
}


def controls(app: WorkbenchApp) -> list[Any]:
    return [*app.screen.query(Choice), *app.screen.query(Input)]


@pytest.mark.parametrize("height", [24, 40, 60])
@pytest.mark.parametrize("kind", DIALOGS)
async def test_buttons_and_fields_are_in_sight_beside_a_text_without_an_end(
    make_app: Callable[..., WorkbenchApp], kind: str, height: int
) -> None:
    app = make_app(FakeClient())
    async with app.run_test(size=(80, height)) as pilot:
        await settle(pilot)
        dialog = DIALOGS[kind]()
        app.push_screen(dialog)
        await until(pilot, lambda: app.screen is dialog and bool(controls(app)))
        await settle(pilot)
        inside = dialog.query_one("#frame").content_region
        for control in controls(app):
            if control.display:
                assert control.region.size.area and inside.contains_region(control.region), control
                assert dialog.region.contains_region(control.region), control


async def test_a_text_that_is_too_long_scrolls_to_its_last_line(
    make_app: Callable[..., WorkbenchApp],
) -> None:
    app = make_app(FakeClient())
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(Dialog("Act?", LONG, ANSWERS))
        await settle(pilot)
        text = app.screen.query_one("#text", LineList)
        assert text.can_focus and text.virtual_size.height == 90
        assert text.max_scroll_y == 90 - text.size.height
        await pilot.resize_terminal(80, 120)
        await until(pilot, lambda: text.size.height == 90)
        assert not text.can_focus


@pytest.mark.parametrize("kind", DIALOGS)
async def test_a_notice_lies_over_no_button_field_or_row_of_a_dialog(
    make_app: Callable[..., WorkbenchApp], kind: str
) -> None:
    app = make_app(FakeClient())
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        app.notice(LONG, title="Something waits for you")
        dialog = DIALOGS[kind]()
        app.push_screen(dialog)
        await until(pilot, lambda: app.screen is dialog)
        app.notice(LONG, title="Recover", severity="error")
        await until(pilot, lambda: len(dialog.query(Toast)) == 2, 5)
        await settle(pilot)
        assert covered(app) == []
        newest = dialog.query(Toast).last()
        await until(pilot, lambda: newest.region.height == 1)
        assert dialog.find_widget(newest).visible_region == newest.region, "the newest is in sight"


async def test_a_notice_lies_over_no_row_of_the_notices(make_app: Callable[..., WorkbenchApp]) -> None:
    app = make_app(FakeClient())
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        for number in range(9):
            app.notice(f"{LONG} {number}", title=f"Notice {number}")
        await pilot.press("n")
        await until(pilot, lambda: bool(app.screen.query("#frame LineList")))
        await settle(pilot)
        assert covered(app) == []


def covered(app: WorkbenchApp) -> list[Any]:
    """What of the dialog lies under a notice."""
    toasts = [toast for toast in app.screen.query(Toast) if toast.region.area]
    places = [app.screen.find_widget(toast).visible_region for toast in toasts]
    under = [*controls(app), *app.screen.query(LineList)]
    return [each for each in under if any(place.area and place.overlaps(each.region) for place in places)]


async def test_a_name_that_is_refused_stays_with_the_reason(make_app: Callable[..., WorkbenchApp]) -> None:
    taken: list[str] = []

    async def take(name: str) -> None:
        if name == "bad":
            raise UsageError("a name is [red]not[/] like that")
        taken.append(name)

    app = make_app(FakeClient())
    async with app.run_test(size=(80, 24)) as pilot:
        results: list[str | None] = []
        dialog = NameDialog("", act=take)
        app.push_screen(dialog, results.append)
        await until(pilot, lambda: bool(dialog.query(Field)))
        await pilot.press(*"bad", "enter")
        await until(pilot, lambda: "A name is [red]not[/] like that." in painted(app))
        assert app.screen is dialog and dialog.query_one(Field).value == "bad"
        await until(pilot, lambda: dialog.query_one(Field).has_focus)
        await pilot.press("x")
        await until(pilot, lambda: "like that" not in painted(app))
        await pilot.press("enter")
        await until(pilot, lambda: results == ["badx"])
        assert taken == ["badx"] and not app.notices
