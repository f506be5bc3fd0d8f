"""The Replay screen over the sample bundles, and a bundle whose every text is hostile."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import FakeClient, running_run, screen_text, settle
from tests.workbench.tui.rest import at_rest
from workbench.replaying import Given
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.replay import ReplayScreen
from workbench.tui.screens.runs import RunsScreen
from workbench.tui.widgets.pane import Field
from workflows_core import jsontext
from workflows_core.journal.bundle import Bundle, open_bundle
from workflows_core.journal.frames import FrameKind, JournalWriter
from workflows_core.script.source import script_hash

BUNDLES = Path(__file__).parents[3] / "examples" / "bundles"


MakeApp = Callable[..., WorkbenchApp]


@pytest.fixture
def replay_app(make_app: MakeApp) -> MakeApp:
    """``replay_app("crashed")``: the application with Replay in front, that bundle open."""

    def make(
        given: str | Bundle | Given | None = None, *, screen: str = "replay", **more: Any
    ) -> WorkbenchApp:
        screens = {"runs": RunsScreen, "replay": ReplayScreen}
        client = more.pop("client", None) or FakeClient(running_run())
        app = make_app(client, screens=screens, screen=screen, **more)
        given = bundle(given) if isinstance(given, str) else given
        app.given = Given(given) if isinstance(given, Bundle) else given
        return app

    return make


def bundle(name: str) -> Bundle:
    return open_bundle(BUNDLES / f"{name}.wfrun")


def replay_of(app: WorkbenchApp) -> ReplayScreen:
    screen = app.base_screen
    assert isinstance(screen, ReplayScreen)
    return screen


async def press(pilot: Pilot[Any], *keys: str) -> str:
    """Press ``keys``, wait until what they set off is done, and return what is seen."""
    await at_rest(pilot.app, None)
    if keys:
        await pilot.press(*keys)
        await at_rest(pilot.app, None)
    return screen_text(pilot.app)


def sight(app: WorkbenchApp) -> str:
    """What is seen in the pane of what is in sight, without line breaks."""
    region = app.base_screen.query_one("#sight").content_region
    rows = screen_text(app).splitlines()[region.y : region.bottom]
    return " ".join(" ".join(row[region.x : region.right] for row in rows).split())


async def enter(pilot: Pilot[Any], text: str) -> str:
    """Put ``text`` into the field in front and accept."""
    await settle(pilot)
    field = pilot.app.focused
    assert isinstance(field, Field), field
    field.value = text
    await settle(pilot)
    return await press(pilot, "enter")


def rewritten(given: Bundle, script: str, change: Callable[[FrameKind, Mapping[str, Any]], Any]) -> Bundle:
    """``given`` with another script and other frame bodies, chained anew."""
    writer = JournalWriter()
    frames = []
    for frame in given.frames:
        body = json.loads(frame.body)
        if frame.kind is FrameKind.START:
            body["script_hash"] = script_hash(script)
        changed = change(frame.kind, body)
        frames.append(writer.frame(frame.kind, jsontext.encode(changed, "a frame"), frame.at, frame.side))
    return msgspec.structs.replace(given, script=script, frames=tuple(frames))
