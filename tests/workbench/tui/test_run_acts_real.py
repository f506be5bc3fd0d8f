"""The Runs screen over the real engine: from keys to what is stored."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.crash import kit
from tests.workbench.tui.fakes import flat, screen_text, settle, until
from workbench.client import Client
from workbench.host import identity
from workbench.settings import Session, Settings
from workbench.tui.app import WorkbenchApp
from workbench.tui.context import AppContext
from workbench.tui.screens.dialogs import Modal
from workbench.tui.screens.run_dialogs import ReconcileDialog, RecoverDialog
from workbench.tui.screens.runs import RunsScreen
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchRequest
from workflows_core.model import RunState

PAUSING = """\
const first = await agent({stepId: 'first', agentRef: 'lead_agent', task: args});
await pause({stepId: 'before-second'});
const second = await agent({stepId: 'second', agentRef: 'lead_agent', task: first.output});
return second.output;
"""
LONG = """\
const one = await agent({stepId: 'one', agentRef: 'lead_agent', task: 1});
const two = await agent({stepId: 'two', agentRef: 'lead_agent', task: one.output});
return [one.output, two.output];
"""
STUBS = "- {step: one, reply: 1}\n- {step: two, after: 60, reply: 2}\n"


@asynccontextmanager
async def application(folder: Path) -> AsyncIterator[tuple[WorkbenchApp, Pilot[Any]]]:
    """The application that owns the workspace in ``folder``, at its Runs screen."""
    workspace = Workspace.find(folder, folder)
    client = await Client.open(workspace, host="required")
    try:
        context = AppContext(client, workspace, Settings(session=Session()))
        app = WorkbenchApp(context, screen="runs", screens={"runs": RunsScreen})
        async with app.run_test(size=(120, 40)) as pilot:
            yield app, pilot
    finally:
        await client.close()


async def seen(pilot: Pilot[Any], words: str) -> str:
    """What the screen shows once it shows ``words``."""
    await until(pilot, lambda: words in flat(screen_text(pilot.app)), seconds=120)
    await settle(pilot)
    return flat(screen_text(pilot.app))


async def ask(pilot: Pilot[Any], key: str, dialog: type[Modal[Any]]) -> str:
    await pilot.press(key)
    await until(pilot, lambda: isinstance(pilot.app.screen, dialog), seconds=120)
    await settle(pilot)
    return flat(screen_text(pilot.app))


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press ``keys`` as a person does, who sees what each has done before the next."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def test_a_run_is_watched_to_its_pause_and_resumed(tmp_path: Path) -> None:
    async with application(tmp_path) as (app, pilot):
        client, workspace = app.context.client, app.context.workspace
        launched = await client.launch(
            LaunchRequest(
                script=PAUSING,
                args={"n": 7},
                name="pausing",
                request_id="request-1",
                options=workspace.options(),
            )
        )
        text = await seen(pilot, "The script stands at its pause; r resumes it.")
        assert "waiting for resume at before-second" in text and "‖ before-second" in text
        await pilot.press("r")
        text = await seen(pilot, "The script returned; what it returned is the result.")
        assert "✓ second" in text and "✓ before-second" in text
        stored = await client.view(launched.run_id)
        assert (stored.state, stored.result) == (RunState.COMPLETED, {"n": 7})
        assert [(made.step_id, made.decision) for made in stored.receipts] == [("before-second", "resume")]


async def test_a_killed_run_is_recovered_and_what_nobody_knows_is_put_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person in front of the pilot counts as sitting at a terminal; everything else is real."""
    calls = tmp_path / "calls.jsonl"
    script = kit.write_script(tmp_path, "long", LONG, STUBS)
    with kit.process("run", script, folder=tmp_path, calls=calls) as running:
        run_id = "wr_" + kit.wait_for_line(running, "● running      two").partition(" as wr_")[2][:16]
        running.kill()
        running.wait()
    kit.wait_until_free(tmp_path)
    with closing(sqlite3.connect(tmp_path / ".workbench" / "host.sqlite")) as host:
        host.execute("DELETE FROM child_runs WHERE step_id = 'two'")
        host.commit()
    monkeypatch.setenv("WORKBENCH_STUB_CALLS", str(calls))
    monkeypatch.setattr(identity, "terminal", lambda: identity.Terminal(True, "pts/3"))
    async with application(tmp_path) as (app, pilot):
        client = app.context.client
        await seen(pilot, "Nobody works on it any more: R shows what recovering it would do")
        text = await ask(pilot, "R", RecoverDialog)
        assert "1 reused" in text and "1 uncertain" in text and "two 2:19" in text
        assert (await client.view(run_id)).state is RunState.RECOVERABLE
        await press(pilot, "right", "enter")
        text = await seen(pilot, "Find out what became of two")
        assert "! two" in text

        text = await ask(pilot, "S", ReconcileDialog)
        assert f"long, {run_id}" in text and "const two = await agent" in text
        await press(pilot, "tab", "tab", "enter", "enter", "tab", "tab", "2", "2", "tab", *"log", "enter")
        await press(pilot, "tab", "enter")
        await seen(pilot, "R shows what recovering it would do")
        text = await ask(pilot, "R", RecoverDialog)
        assert "2 reused" in text and "1 uncertain" not in text
        await press(pilot, "right", "enter")
        await seen(pilot, "The script returned; what it returned is the result.")
        stored = await client.view(run_id)
        assert (stored.state, stored.result) == (RunState.COMPLETED, [1, 22])
        assert [step.badge for step in stored.steps] == ["stub", "attested"]
    ((outcome, reason),) = kit.query(tmp_path, "SELECT outcome, reason FROM attestations")
    assert (outcome, reason) == ("succeeded", "log")
    assert sorted(kit.agent_calls(calls).values()) == [1, 1], "no Agent was asked twice"
