"""The developer's whole job at the Author screen over the real engine: write, launch, fix; from keys to what is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from tests.workbench.tui import fakes
from tests.workbench.tui.author_support import author, notices, painted, pane, shown, standing
from tests.workbench.tui.fakes import screen_text, settle
from workbench.client import Client
from workbench.settings import Session, Settings
from workbench.tui.app import WorkbenchApp
from workbench.tui.context import AppContext
from workbench.tui.screens.author_dialogs import NameDialog
from workbench.tui.screens.runs import RunsScreen
from workbench.workspace import Workspace
from workflows_core.model import RunState


async def until(pilot: Pilot[Any], condition: Callable[[], bool]) -> None:
    """Wait for what an engine, its workers and a checking process do, on a busy machine too."""
    await fakes.until(pilot, condition, seconds=120)


async def test_from_an_empty_folder_to_a_saved_version(tmp_path: Path) -> None:
    root = tmp_path / "claims"
    root.mkdir()
    workspace = Workspace.find(root, root)
    client = await Client.open(workspace, host="required")
    try:
        session = Session(tmp_path / "session.json")
        app = WorkbenchApp(AppContext(client, workspace, Settings(session=session)), screen="author")
        async with app.run_test(size=(120, 40)) as pilot:
            # Nothing is there: the first start offers a script.
            await until(pilot, lambda: "There is no script in this workspace yet." in painted(app))
            await pilot.press("tab", "enter")
            await until(pilot, lambda: isinstance(app.screen, NameDialog))
            await pilot.press("ctrl+u", *"claims", "enter")
            await until(pilot, lambda: author(app).current is not None and shown(app).checked is not None)
            await until(pilot, lambda: shown(app).editor.has_focus)
            assert {file.name for file in root.glob("claims.*")} == {
                "claims.workflow.js",
                "claims.stubs.yaml",
            }

            # A mistake is seen while it is written, stops the launch, and its fix is one key.
            await pilot.press("ctrl+end", "up", *"console", "full_stop", *"log(1);", "enter")
            await until(pilot, lambda: bool(shown(app).problems))
            assert "console" in screen_text(app).partition("Problems")[2]
            await pilot.press("up", "alt+q")
            await until(pilot, lambda: not shown(app).problems)
            assert "console" not in shown(app).editor.text

            # Arguments are read while they are typed, with their errors in place.
            await pilot.press("alt+g", *'{"name": ')
            await until(pilot, lambda: pane(app).arguments.value is None)
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "Not launched: the arguments are not usable" in notices(app))
            await until(pilot, lambda: "Not launched" in painted(app))
            await pilot.press(*'"Ada"}')
            await until(pilot, lambda: pane(app).arguments.value == {"name": "Ada"})
            assert all(part in painted(app) for part in ("sends 14 of 4,000 bytes", '{"name":"Ada"}'))
            assert "Not launched" not in painted(app)

            # A run fails; the pane says why and where, and a key leads to the step in Runs.
            await pilot.press("escape", "enter")
            await until(pilot, lambda: shown(app).editor.has_focus)
            await pilot.press("ctrl+end", "up", *"throw", "space", *"new", "space", *"Error('no');", "enter")
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "✗ failed" in standing(app))
            assert "line 6" in standing(app) and "no" in standing(app)
            await pilot.press("alt+t")
            await until(pilot, lambda: isinstance(app.base_screen, RunsScreen))
            await until(pilot, lambda: "reply" in str(getattr(app.focused, "current_id", "")))

            # Back, undo, launch again: another run, because the script is another.
            await pilot.press("f2")
            await until(pilot, lambda: app.base_screen is author(app))
            await until(pilot, lambda: shown(app).editor.has_focus)
            await pilot.press("up", "ctrl+shift+k", "ctrl+s")
            await until(pilot, lambda: not shown(app).draft.dirty)
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "✓ completed" in standing(app))
            assert "2 of 2 steps" in standing(app)

            # Unchanged, it is shown and not made again; asked for, it is.
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "Nothing has changed since" in standing(app))
            await pilot.press("alt+r")
            await until(pilot, lambda: len(app.book.newest) == 3)
            await until(pilot, lambda: "✓ completed" in standing(app))

            await pilot.press("alt+s")
            await until(pilot, lambda: app.screen is not app.base_screen)
            await pilot.press("enter")
            await until(pilot, lambda: "working copy, equal to" in painted(app))
            await settle(pilot)

        runs = await client.runs(None)
        assert [run.state for run in runs] == [RunState.COMPLETED, RunState.COMPLETED, RunState.FAILED]
        assert len({run.request_id for run in runs}) == 3
        assert runs[0].script_hash == runs[1].script_hash != runs[2].script_hash
        view = await client.view(runs[0].run_id)
        assert view.args == {"name": "Ada"} and view.script == (root / "claims.workflow.js").read_text()
        assert {step.badge for step in view.steps} == {"stub"}
        (version,) = await client.library()
        assert (version.name, version.version) == ("claims", runs[0].script_hash)
        kept = Session(tmp_path / "session.json").get("author")
        assert [file["path"] for file in kept["open"]] == ["claims.workflow.js"]
    finally:
        await client.close()
