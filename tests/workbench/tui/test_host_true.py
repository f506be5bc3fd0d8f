"""The Host screen over a true host: an extension is edited, reloaded with its key, and shown anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workbench.host.lab import Lab, open_lab
from tests.workbench.tui.fakes import flat, screen_text, until
from workbench.client import Client
from workbench.settings import Session, Settings
from workbench.tui.app import WorkbenchApp
from workbench.tui.context import AppContext
from workbench.tui.screens.dialogs import Dialog
from workbench.tui.screens.host import HostScreen
from workbench.workspace import Workspace


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with open_lab(tmp_path) as made:
        yield made


async def test_an_edited_extension_is_reloaded_with_its_key(lab: Lab) -> None:
    lab.write("one", "v1")
    lab.configure("one", engine=True)
    space = Workspace.find(explicit=lab.root)
    client = await Client.open(space, host="required")
    try:
        app = WorkbenchApp(
            AppContext(client, space, Settings(session=Session())),
            screen="host",
            screens={"host": HostScreen},
        )
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: "✓ one" in flat(screen_text(app)))
            assert "plugin test.one; actions which" in flat(screen_text(app))
            await pilot.press("enter", "slash", *"one", "enter", "L")
            await until(pilot, lambda: isinstance(app.screen, Dialog))
            assert lab.use("one") in screen_text(app)
            lab.write("one", "v2")
            await pilot.press("tab", "enter")
            await until(pilot, lambda: "one v2 start" in lab.log and len(app.notices) > 0)
            assert app.notices[-1].message == f"reloaded {lab.use('one')}"
            lab.write("one", "v3", "def install(registry, config):\n    raise ValueError('no')\n")
            await until(pilot, lambda: not isinstance(app.screen, Dialog))
            await pilot.press("L")
            await until(pilot, lambda: isinstance(app.screen, Dialog))
            await pilot.press("tab", "enter")
            await until(
                pilot, lambda: "not reloaded: install raised ValueError: no" in flat(screen_text(app))
            )
            assert app.notices[-1].severity == "warning"
    finally:
        await client.close()
