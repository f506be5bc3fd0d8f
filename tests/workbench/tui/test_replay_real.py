"""What if over the real engine: a run on stubs, its script edited on the Replay screen, the new run beside it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import flat, screen_text, until
from tests.workbench.tui.replay_support import enter, press
from workbench.client import Client
from workbench.settings import Session, Settings
from workbench.tui.app import WorkbenchApp
from workbench.tui.context import AppContext
from workbench.tui.screens.replay import ReplayScreen
from workbench.tui.screens.runs import RunsScreen
from workbench.tui.widgets.editor import ScriptEditor
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchRequest
from workflows_core.model import RunState, RunView

SCRIPT = """\
const said = [];
for (const id of ['a', 'b', 'c']) {
  const step = await agent({stepId: id, agentRef: 'helper', task: {id}});
  said.push(step.output);
}
return said;
"""
STUBS = "- {step: '*', reply: from a stub}\n"


@asynccontextmanager
async def application(folder: Path) -> AsyncIterator[tuple[WorkbenchApp, Pilot[Any], RunView]]:
    """The application that owns a workspace with one program as its Agent, at Replay, and a completed run on stubs."""
    plugin = {
        "name": "workflows",
        "use": "workflows_core.extension:install",
        "config": {"enabled": True, "agents": ["helper"]},
    }
    helper = {"backend": "command", "argv": ["sh", "-c", "cat > /dev/null; echo '\"from a program\"'"]}
    config = {"plugins": [plugin], "agents": {"helper": helper}}
    (folder / "workbench.yaml").write_text(json.dumps(config), "utf-8")
    workspace = Workspace.find(folder, folder)
    client = await Client.open(workspace, host="required")
    try:
        (folder / "three.stubs.yaml").write_text(STUBS, "utf-8")
        options = workspace.options(stubs=folder / "three.stubs.yaml")
        request = LaunchRequest(script=SCRIPT, args={}, name="three", request_id="request-1", options=options)
        run_id = (await client.launch(request)).run_id
        context = AppContext(client, workspace, Settings(session=Session()))
        screens = {"runs": RunsScreen, "replay": ReplayScreen}
        app = WorkbenchApp(context, screen="runs", screens=screens)
        async with app.run_test(size=(120, 40)) as pilot:
            await client.wait_idle()
            await until(pilot, lambda: "✓" in screen_text(app), seconds=120)
            await press(pilot, "p")
            await until(pilot, lambda: "Frames 8" in screen_text(app), seconds=120)
            yield app, pilot, await client.view(run_id)
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("way", "badges", "outputs"),
    [
        (0, ["recorded", "stub", "recorded"], ["from a stub", "from a stub", "from a stub"]),
        (1, ["recorded", "stub", "stub"], ["from a stub", "from a stub", "from a stub"]),
        (2, ["recorded", "live", "recorded"], ["from a stub", "from a program", "from a stub"]),
    ],
    ids=["recorded answers", "stubs", "real Agents"],
)
async def test_an_edited_script_goes_on_as_it_was_asked_to(
    tmp_path: Path, way: int, badges: list[str], outputs: list[str]
) -> None:
    async with application(tmp_path) as (app, pilot, parent):
        await press(pilot, "F")
        await enter(pilot, "the script")
        editor = app.screen.query_one(ScriptEditor)
        editor.text = editor.text.replace("task: {id}", "task: id === 'b' ? {id, more: 1} : {id}")
        await press(pilot, "tab", "tab", "tab", "enter")
        await until(pilot, lambda: app.screen.id == "first-difference", seconds=120)
        assert "Differs at frame 3, 3:22" in await press(pilot, "shift+tab", *["enter"] * way)
        await press(pilot, *["tab"] * 4, "enter")
        if way == 2:
            await until(pilot, lambda: "Launch on real Agents?" in screen_text(app), seconds=120)
            await press(pilot, "tab", "enter")
        await until(pilot, lambda: app.screen.id == "run-compare", seconds=120)
        client = app.context.client
        await client.wait_idle()
        (made,) = [run for run in await client.runs(None) if run.run_id != parent.run_id]
        view = await client.view(made.run_id)
        assert (view.state, view.parent_run_id) == (RunState.COMPLETED, parent.run_id)
        assert [step.badge for step in view.steps] == badges and view.result == outputs
        await until(pilot, lambda: "2 equal steps: a, c" in flat(screen_text(app)), seconds=120)
