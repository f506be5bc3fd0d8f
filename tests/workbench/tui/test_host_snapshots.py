"""How the Host screen looks. A changed picture is to be looked at before it is accepted."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import completed_run, running_run, settle
from tests.workbench.tui.host_support import (
    CONFIG,
    HostClient,
    affected,
    child,
    configure,
    evidence,
    record,
)
from workbench.host.reloading import ReloadPlan
from workbench.hostview_stores import StoreFile
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.host import HostScreen
from workbench.tui.screens.runs import RunsScreen
from workbench.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="pictures are compared on one Python")

SMALL, LARGE = (80, 24), (120, 40)


def _file(name: str, path: Path, meaning: str) -> StoreFile:
    """Sizes and folders that are the same on every machine."""
    sizes = {"runs": 421_888, "host": 126_976, "log": None}
    short = re.sub(r".*(?=soap-claims)", "/home/ada/", str(path), count=1)
    return StoreFile(name, Path(short), sizes[name], meaning)


@pytest.fixture
def look(
    snap_compare: Callable[..., bool],
    make_app: Callable[..., WorkbenchApp],
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., bool]:
    """``look(size, keys…)``: whether the screen looks as it did, after these keys."""
    monkeypatch.setattr("workbench.hostview_stores._file", _file)

    def compare(
        size: tuple[int, int],
        *keys: str,
        client: HostClient | None = None,
        empty: bool = False,
        config: str = CONFIG,
        **settings: Any,
    ) -> bool:
        if not empty:
            configure(workspace, config)
            record(
                workspace,
                child(1, made_of=evidence("m1", ("search",), temperature=0.2), ago=900),
                child(2, made_of=evidence("m2", ("files",), temperature=0.7), ago=120),
                child(3, "reviewer", made_of=evidence("m2"), lifetime="host_0", ago=7_200),
                child(4, "reviewer", made_of=evidence("m2"), ago=60),
            )
            record(
                workspace, child(5, made_of=evidence("m2", ("files",), temperature=0.7), ago=5), finish=False
            )
        client = client or HostClient(running_run(), completed_run())
        app = make_app(client, screens={"runs": RunsScreen, "host": HostScreen}, screen="host", **settings)

        async def before(pilot: Pilot[Any]) -> None:
            await settle(pilot)
            for key in keys:
                await pilot.press(key)
                await settle(pilot)

        return snap_compare(app, terminal_size=size, run_before=before)

    return compare


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
class TestBothSizes:
    def test_extensions(self, look: Callable[..., bool], size: tuple[int, int]) -> None:
        assert look(size)

    def test_agents(self, look: Callable[..., bool], size: tuple[int, int]) -> None:
        assert look(size, "2", "tab")

    def test_limits(self, look: Callable[..., bool], size: tuple[int, int]) -> None:
        assert look(size, "4", "tab", "enter")

    def test_an_event_opened(self, look: Callable[..., bool], size: tuple[int, int]) -> None:
        assert look(size, "6", "tab", *["down"] * 2, "enter")

    def test_without_owner(self, look: Callable[..., bool], size: tuple[int, int]) -> None:
        assert look(size, client=HostClient(owner=False, pid=None), empty=True)


def test_reload(look: Callable[..., bool]) -> None:
    client = HostClient(running_run())
    client.plan = ReloadPlan(("claims.plugin:install",), affected())
    assert look(LARGE, "L", client=client)


def test_another_owner_without_colour(look: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert look(SMALL, "3", client=HostClient(running_run(), owner=False))


def test_stores_in_ascii(look: Callable[..., bool]) -> None:
    assert look(LARGE, "5", ascii=True)


ACCOUNTS = CONFIG + "auth: {mode: password}\n"


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_logging_in(
    look: Callable[..., bool], size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.tui.screens.host.own_name", lambda: "ada")
    client = HostClient(completed_run(), who="nobody · password")
    client.handles = []
    assert look(size, "3", "I", *"secret", "enter", *"sec", client=client, config=ACCOUNTS)


def test_a_session_of_an_account(look: Callable[..., bool]) -> None:
    client = HostClient(completed_run(), who="ada · password")
    client.handles = [
        {
            "session_id": "password:00ff00ff00ff00ff",
            "user_id": "ada",
            "mode": "password",
            "interactive": True,
            "description": "password, account ada, pts/4",
        }
    ]
    assert look(SMALL, "3", "tab", client=client, config=ACCOUNTS)


def test_what_to_copy(look: Callable[..., bool]) -> None:
    assert look(LARGE, "6", "tab", "Y")


def test_the_terminals_own_palette(look: Callable[..., bool]) -> None:
    assert look(LARGE, "2", "tab", theme="ansi-dark")
