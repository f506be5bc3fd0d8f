"""Screens are tested with a clock that stands still, without a blinking cursor, and without the developer's own
settings, colours or time zone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot

from tests.workbench.tui.author_support import quick_checks, scripts  # noqa: F401 (fixtures)
from tests.workbench.tui.fakes import FakeClient, FrozenClock
from tests.workbench.tui.replay_support import replay_app  # noqa: F401 (a fixture)
from tests.workbench.tui.rest import at_rest
from workbench.settings import Session, Settings
from workbench.tui.app import WorkbenchApp
from workbench.tui.context import AppContext
from workbench.workspace import Workspace


@pytest.fixture(autouse=True)
def neutral(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    own = ("NO_COLOR", "COLORTERM", "FORCE_COLOR", "COLUMNS", "LINES", "EDITOR", "VISUAL")
    clipboards = ("DISPLAY", "WAYLAND_DISPLAY", "TMUX", "STY", "WSL_DISTRO_NAME")
    for name in (*own, *clipboards):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("TZ", "UTC")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    time.tzset()
    monkeypatch.setattr(App, "cursor_blink", False, raising=False)
    monkeypatch.setattr("textual.widgets._input.Input.cursor_blink", False, raising=False)
    # What is shown in passing stays until a test removes it, however slow the machine is.
    monkeypatch.setattr(WorkbenchApp, "NOTIFICATION_TIMEOUT", 3_600)
    monkeypatch.setattr("textual.widgets._text_area.TextArea.cursor_blink", False, raising=False)
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def snap_compare(snap_compare: Callable[..., bool]) -> Callable[..., bool]:
    """Compares a picture of an application that has nothing left to do with the one that was accepted."""

    def compare(app: App[Any], *, terminal_size: tuple[int, int], run_before: Callable[..., Any]) -> bool:
        async def before(pilot: Pilot[Any]) -> None:
            await run_before(pilot)
            await at_rest(pilot.app, None)

        return snap_compare(app, terminal_size=terminal_size, run_before=before)

    return compare


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "soap-claims"
    root.mkdir()
    return Workspace.find(root, root)


@pytest.fixture
def make_app(workspace: Workspace, clock: FrozenClock) -> Callable[..., WorkbenchApp]:
    """``make_app(client, screen="runs", **settings)``: the application over a fake client."""

    def make(
        client: FakeClient | None = None,
        *,
        screen: str = "runs",
        screens: Any = None,
        session: Session | None = None,
        **settings: Any,
    ) -> WorkbenchApp:
        context = AppContext(
            client if client is not None else FakeClient(),  # type: ignore[arg-type]
            workspace,
            Settings(session=session if session is not None else Session(), **settings),
            clock,
        )
        return WorkbenchApp(context, screen=screen, screens=screens)

    return make
