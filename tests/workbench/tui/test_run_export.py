"""Exporting and forking a run from the Runs screen, over a real store: from keys to files and new runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import make_run, screen_text, settle, until
from tests.workbench.tui.test_run_acts_real import application, ask, press, seen
from workbench.exporting import export_run, suggested_file
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.ask_real import RECORDED
from workbench.tui.screens.dialogs import Dialog
from workbench.tui.screens.replay_dialogs import ReplyDialog
from workbench.tui.screens.run_compare import RunCompareScreen, RunPicker
from workbench.tui.screens.run_export import ExportDialog
from workbench.tui.screens.run_fork import ForkDialog
from workflows_core.engine.requests import LaunchRequest
from workflows_core.errors import NotFound, UsageError
from workflows_core.journal.bundle import open_bundle
from workflows_core.model import RunState

SCRIPT = """\
const first = await agent({stepId: 'first', agentRef: 'lead_agent', task: args});
const second = await agent({stepId: 'second', agentRef: 'lead_agent', task: first.output});
return second.output;
"""
ASKING = """\
const first = await agent({stepId: 'first', agentRef: 'lead_agent', task: args});
await humanCheckpoint({stepId: 'review', sourceStepId: 'first', artifactVersion: first.artifactVersion});
return first.output;
"""


@asynccontextmanager
async def with_run(
    folder: Path, script: str = SCRIPT, words: str = "completed"
) -> AsyncIterator[tuple[WorkbenchApp, Pilot[Any], str]]:
    """The application over a workspace with one run that has come to ``words``."""
    async with application(folder) as (app, pilot):
        space = app.context.workspace
        launched = await app.context.client.launch(
            LaunchRequest(script=script, args={"n": 1}, name="two", request_id="r", options=space.options())
        )
        await seen(pilot, words)
        yield app, pilot, launched.run_id


async def noticed(app: WorkbenchApp, pilot: Pilot[Any], title: str) -> str:
    await until(pilot, lambda: any(notice.title == title for notice in app.notices), seconds=120)
    return next(notice.message for notice in reversed(app.notices) if notice.title == title)


async def test_a_run_is_exported_whole_and_redacted_and_never_over_a_file(tmp_path: Path) -> None:
    async with with_run(tmp_path) as (app, pilot, run_id):
        text = await ask(pilot, "E", ExportDialog)
        assert run_id in text and "Nothing" not in text
        await pilot.press("ctrl+u", *"whole.wfrun", "enter", "tab", "enter")
        message = await noticed(app, pilot, "Exported")
        assert "whole.wfrun" in message and "SHA-256" in message
        whole = open_bundle(tmp_path / "whole.wfrun")
        assert whole.run_id == run_id and not whole.redacted
        assert (tmp_path / "whole.wfrun").stat().st_mode & 0o777 == 0o600

        before = (tmp_path / "whole.wfrun").read_bytes()
        await ask(pilot, "E", ExportDialog)
        await pilot.press("ctrl+u", *"whole.wfrun", "enter", "tab", "enter")
        await until(pilot, lambda: "exists already; give another name" in screen_text(app))
        await pilot.press("ctrl+u", *"redacted.wfrun", "enter", "tab", "tab", "enter")
        await until(pilot, lambda: (tmp_path / "redacted.wfrun").exists(), seconds=120)
        await until(pilot, lambda: "redacted" in app.notices[-1].message)
        assert open_bundle(tmp_path / "redacted.wfrun").redacted
        assert (tmp_path / "whole.wfrun").read_bytes() == before


async def test_going_back_exports_nothing(tmp_path: Path) -> None:
    async with with_run(tmp_path) as (app, pilot, _run_id):
        await ask(pilot, "E", ExportDialog)
        await pilot.press("enter", "enter")
        await until(pilot, lambda: app.screen is app.base_screen)
        assert list(tmp_path.glob("*.wfrun")) == []


async def test_a_run_is_forked_on_its_recorded_answers_and_compared_with_its_parent(tmp_path: Path) -> None:
    async with with_run(tmp_path) as (app, pilot, run_id):
        text = await ask(pilot, "K", Dialog)
        assert f"It names {run_id} as its parent and inherits no approval" in text
        assert "Edit answer" not in text and "[ Real Agents ]" not in text
        assert "Not on real Agents: no agent can be called for real: lead_agent has only the stub" in text
        await pilot.press("right", "enter")
        message = await noticed(app, pilot, "Launched")
        fork = message.split(",")[0]
        client = app.context.client
        await until(
            pilot, lambda: (run := app.book.get(fork)) is not None and run.state is RunState.COMPLETED
        )
        view = await client.view(fork)
        assert view.parent_run_id == run_id and [step.badge for step in view.steps] == [
            "recorded",
            "recorded",
        ]

        await until(pilot, lambda: f"fork of {run_id}" in " ".join(screen_text(app).split()))
        await ask(pilot, "equals_sign", RunPicker)
        assert "parent" in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunCompareScreen))
        await seen(pilot, "The runs are equal but for their times.")


async def test_a_fork_on_stubs_asks_them_anew(tmp_path: Path) -> None:
    async with with_run(tmp_path) as (app, pilot, run_id):
        await ask(pilot, "K", Dialog)
        await pilot.press("right", "right", "enter")
        fork = (await noticed(app, pilot, "Launched")).split(",")[0]
        await until(
            pilot, lambda: (run := app.book.get(fork)) is not None and run.state is RunState.COMPLETED
        )
        view = await app.context.client.view(fork)
        assert view.parent_run_id == run_id and [step.badge for step in view.steps] == ["stub", "stub"]


async def test_a_fork_from_a_step_gets_another_answer_first(tmp_path: Path) -> None:
    async with with_run(tmp_path) as (app, pilot, _run_id):
        await pilot.press("enter", "home")
        await settle(pilot)
        text = await ask(pilot, "K", Dialog)
        assert "Edit answer: first, frame 2" in text
        await pilot.press("right", "right", "right", "enter")
        await until(pilot, lambda: isinstance(app.screen, ReplyDialog))
        dialog = app.screen
        dialog.query_one("#reply").text = '{"n": 9}'  # type: ignore[attr-defined]
        for choice in dialog.query("Choice"):
            if choice.name == "go":
                choice.focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Dialog), seconds=120)
        await settle(pilot)
        assert "It first asks something else at frame 3, line 2:" in " ".join(
            screen_text(app).replace("│", " ").split()
        )
        await pilot.press("right", "enter")
        fork = (await noticed(app, pilot, "Launched")).split(",")[0]
        await until(
            pilot, lambda: (run := app.book.get(fork)) is not None and run.state is RunState.COMPLETED
        )
        view = await app.context.client.view(fork)
        assert view.steps[0].output == {"n": 9} and view.steps[1].input == {"n": 9}


CONFIG = "agents:\n  lead_agent: {backend: manual}\n"


async def test_a_fork_goes_on_on_real_agents_once_that_is_confirmed(tmp_path: Path) -> None:
    (tmp_path / "workbench.yaml").write_text(CONFIG)
    async with with_run(tmp_path) as (app, pilot, run_id):
        client = app.context.client
        text = await ask(pilot, "K", ForkDialog)
        assert (
            "Real Agents: what asks the same gets the recorded answer; real Agents answer the rest." in text
        )
        await pilot.press("right", "right", "right", "enter")
        text = await seen(pilot, "Launch on real Agents?")
        assert "Up to 2 calls to real Agents:" in text and "a person, who is asked each time" in text
        assert RECORDED in text
        await press(pilot, "enter")
        assert app.screen is app.base_screen and len(await client.runs(None)) == 1
        await ask(pilot, "K", ForkDialog)
        await pilot.press("right", "right", "right", "enter")
        await seen(pilot, "Launch on real Agents?")
        await pilot.press("right", "enter")
        fork = (await noticed(app, pilot, "Launched")).split(",")[0]
        await until(
            pilot, lambda: (run := app.book.get(fork)) is not None and run.state is RunState.COMPLETED
        )
        view = await client.view(fork)
        assert view.parent_run_id == run_id
        assert [step.badge for step in view.steps] == ["recorded", "recorded"]
        text = await ask(pilot, "K", ForkDialog)
        assert "unless a stub set answers it" in text and "--" not in text, "no option of a command"


async def test_a_fork_with_another_answer_asks_real_agents_for_what_follows(tmp_path: Path) -> None:
    (tmp_path / "workbench.yaml").write_text(CONFIG)
    async with with_run(tmp_path) as (app, pilot, _run_id):
        client = app.context.client
        await pilot.press("enter", "home")
        await settle(pilot)
        await ask(pilot, "K", ForkDialog)
        await pilot.press("shift+tab", "enter")
        await until(pilot, lambda: isinstance(app.screen, ReplyDialog))
        app.screen.query_one("#reply").text = '{"n": 9}'  # type: ignore[attr-defined]
        next(choice for choice in app.screen.query("Choice") if choice.name == "go").focus()
        await pilot.press("enter")
        await seen(pilot, "[ Launch on real Agents ]")
        await pilot.press("shift+tab", "enter")
        await seen(pilot, "Launch on real Agents?")
        await pilot.press("right", "enter")
        fork = (await noticed(app, pilot, "Launched")).split(",")[0]
        await seen(pilot, "second")
        async with asyncio.timeout(60):
            while len((view := await client.view(fork)).steps) < 2 or view.steps[1].badge is None:
                await settle(pilot)
        first, second = view.steps
        assert (first.badge, first.output) == ("recorded", {"n": 9})
        assert (second.badge, second.input, second.has_output) == ("manual", {"n": 9}, False)
        await client.cancel(fork)
        await client.wait_idle()


async def test_a_fork_inherits_no_approval(tmp_path: Path) -> None:
    async with with_run(tmp_path, ASKING, "waiting for approval of review") as (app, pilot, _run_id):
        await ask(pilot, "K", Dialog)
        await pilot.press("right", "enter")
        fork = (await noticed(app, pilot, "Launched")).split(",")[0]
        await until(
            pilot, lambda: (run := app.book.get(fork)) is not None and run.state is RunState.WAITING_APPROVAL
        )
        assert (await app.context.client.view(fork)).receipts == ()


async def test_not_forking_launches_nothing(tmp_path: Path) -> None:
    async with with_run(tmp_path) as (app, pilot, run_id):
        await ask(pilot, "K", Dialog)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.base_screen)
        assert [run.run_id for run in await app.context.client.runs()] == [run_id]


# Without a screen


async def test_what_cannot_be_written_is_refused_in_words(tmp_path: Path) -> None:
    async with with_run(tmp_path) as (app, _pilot, run_id):
        space = app.context.workspace
        with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
            await export_run(space, run_id, tmp_path / "no" / "where.wfrun")
        with pytest.raises(NotFound):
            await export_run(space, "wr_none", tmp_path / "a.wfrun")
        link = tmp_path / "link.wfrun"
        link.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(UsageError, match="exists already"):
            await export_run(space, run_id, link)
        assert not await asyncio.to_thread((tmp_path / "elsewhere").exists)


def test_the_name_that_is_offered_is_free_and_harmless(tmp_path: Path) -> None:
    run = make_run("wr_0123456789abcdef", name="../a b\x1b")
    assert suggested_file(run, tmp_path) == "a-b-0123456.wfrun"
    (tmp_path / "a-b-0123456.wfrun").touch()
    assert suggested_file(run, tmp_path) == "a-b-0123456-2.wfrun"
    assert suggested_file(make_run("wr_0123456789abcdef", name="…"), tmp_path) == "run-0123456.wfrun"
