"""Logging in and out on the Host screen: what is done, and that the password goes nowhere else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import completed_run, flat, screen_text, settle, until
from tests.workbench.tui.host_support import CONFIG, HostClient, configure
from workbench.client import Client
from workbench.host import accounts
from workbench.hostview import SessionUse
from workbench.inert import acts
from workbench.login import NotLoggedIn, load_login, opened_accounts
from workbench.settings import Session, Settings
from workbench.tui.app import WorkbenchApp
from workbench.tui.context import AppContext
from workbench.tui.screens.dialogs import Dialog
from workbench.tui.screens.host import HostScreen
from workbench.tui.screens.host_log_in import LogInDialog, SecretField
from workbench.workspace import Workspace
from workflows_core.errors import StoreFailed

MakeApp = Callable[..., WorkbenchApp]
PASSWORD = "correct horse"
WIDE = (120, 40)


@pytest.fixture
def password_app(make_app: MakeApp, workspace: Workspace) -> MakeApp:
    def make(client: HostClient, **more: Any) -> WorkbenchApp:
        configure(workspace, CONFIG + "auth: {mode: password}\n")
        return make_app(client, screens={"host": HostScreen}, screen="host", **more)

    return make


async def opened(pilot: Pilot[Any]) -> LogInDialog:
    await pilot.press("3", "I")
    await until(pilot, lambda: isinstance(pilot.app.screen, LogInDialog))
    dialog = pilot.app.screen
    assert isinstance(dialog, LogInDialog)
    return dialog


async def type_name(pilot: Pilot[Any], name: str) -> None:
    await pilot.press("shift+tab", "ctrl+u", *name, "enter")


async def test_a_person_logs_in_after_a_wrong_password(password_app: MakeApp) -> None:
    client = HostClient(completed_run(), who="nobody · password")
    client.handles = []
    app = password_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await pilot.press("3")
        await settle(pilot)
        assert "Nobody is logged in. I logs in." in flat(screen_text(app))
        dialog = await opened(pilot)
        assert isinstance(app.focused, SecretField)
        await type_name(pilot, "ada")
        await pilot.press(*"wrong", "enter")
        await until(pilot, lambda: "The name or the password is wrong." in screen_text(app))
        assert app.screen is dialog and isinstance(app.focused, SecretField) and app.focused.value == ""
        await pilot.press(*"correct", "space", *"horse")
        assert "•" * len(PASSWORD) in screen_text(app) and PASSWORD not in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.base_screen)
        await settle(pilot)
        assert app.notices[-1].message == "ada is logged in."
        assert "ada · password" in screen_text(app).split("\n")[0]


async def test_what_needs_a_log_in_says_where_to_log_in(password_app: MakeApp) -> None:
    client = HostClient(completed_run(), who="nobody · password")
    app = password_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        app.failure(NotLoggedIn("this workspace asks for a log-in; run: workbench login"))
        assert app.notices[-1].message == "Nobody is logged in, so nothing was done. I on Host (f6) logs in."


async def test_the_password_is_nowhere_but_where_it_is_checked(password_app: MakeApp) -> None:
    app = password_app(HostClient(completed_run(), who="nobody · password"))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await opened(pilot)
        await type_name(pilot, "ada")
        await pilot.press(*"correct", "space", *"horse", "shift+home", "ctrl+c", "ctrl+x")
        assert app.clipboard == ""
        assert PASSWORD not in app.export_screenshot()
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.base_screen)
        assert PASSWORD not in "".join(notice.text for notice in app.notices)
        assert PASSWORD not in repr(app.context.settings.session._values)


async def test_a_mark_of_ascii_where_nothing_else_is_drawn(password_app: MakeApp) -> None:
    app = password_app(HostClient(completed_run(), who="nobody · password"), ascii=True)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await opened(pilot)
        await pilot.press(*"abc")
        assert "***" in screen_text(app) and "•" not in screen_text(app)


async def test_going_back_logs_nobody_in(password_app: MakeApp) -> None:
    client = HostClient(completed_run(), who="nobody · password")
    app = password_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await opened(pilot)
        await pilot.press(*"secret", "escape")
        await until(pilot, lambda: app.screen is app.base_screen)
        assert client.who == "nobody · password"
        await opened(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: "Account and password are both needed." in screen_text(app))


async def test_logging_out_says_what_it_means_and_asks(password_app: MakeApp) -> None:
    client = HostClient(completed_run(), who="ada · password")
    app = password_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await pilot.press("Q")
        await until(pilot, lambda: isinstance(app.screen, Dialog))
        assert "start no further Agent" in flat(screen_text(app))
        await pilot.press("enter")
        await settle(pilot)
        assert client.who == "ada · password"
        await pilot.press("Q")
        await until(pilot, lambda: isinstance(app.screen, Dialog))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: client.who == "nobody · password")
        await settle(pilot)
        assert app.notices[-1].message == "ada is logged out."
        assert "nobody · password" in screen_text(app).split("\n")[0]


async def test_another_session_can_be_ended(password_app: MakeApp) -> None:
    client = HostClient(completed_run(), who="ada · password")
    client.handles = [
        {
            "session_id": "password:00ff",
            "user_id": "bea",
            "mode": "password",
            "interactive": True,
            "description": "password, account bea, pts/4",
        }
    ]
    app = password_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await pilot.press("3", "tab", "D")
        await until(pilot, lambda: isinstance(app.screen, Dialog))
        assert "bea, password, account bea, pts/4" in flat(screen_text(app))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: client.ended == ["password:00ff"])


async def test_without_accounts_there_is_nothing_to_log_in_to(make_app: MakeApp) -> None:
    app = make_app(HostClient(completed_run()), screens={"host": HostScreen}, screen="host")
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await pilot.press("3", "I", "Q", "tab", "D")
        await settle(pilot)
        assert app.screen is app.base_screen
        assert "log in" not in screen_text(app)


async def test_a_true_log_in_hashes_in_another_thread_and_leaves_nothing_behind(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts.Cost, "__new__", lambda cls, n=16, r=1, p=1: tuple.__new__(cls, (n, r, p)))
    configure(workspace, "auth: {mode: password}\n")
    space = Workspace.find(explicit=workspace.root)
    with opened_accounts(space) as made:
        made.create("ada", PASSWORD)
    hashed_in: list[int] = []
    real = accounts._hash

    def hashed(*args: Any) -> bytes:
        hashed_in.append(threading.get_ident())
        return real(*args)

    monkeypatch.setattr(accounts, "_hash", hashed)
    client = await Client.open(space, host="required")
    try:
        app = WorkbenchApp(
            AppContext(client, space, Settings(session=Session())),
            screen="host",
            screens={"host": HostScreen},
        )
        async with app.run_test(size=WIDE) as pilot:
            await until(pilot, lambda: "nobody · password" in screen_text(app))
            # That nobody is logged in is no problem: it is said, with the key that changes it.
            hidden = "Nobody is logged in, so the extensions are not told. I logs in."
            await until(pilot, lambda: hidden in flat(screen_text(app)))
            await pilot.press("3")
            await until(pilot, lambda: "Nobody is logged in. I logs in." in flat(screen_text(app)))
            await until(pilot, lambda: screen_text(app).count("no log-in") == 2)
            assert "problem" not in screen_text(app) and "ermitted" not in screen_text(app)
            await opened(pilot)
            await type_name(pilot, "ada")
            await pilot.press(*"correct", "space", *"horse", "enter")
            await until(pilot, lambda: "ada · password" in screen_text(app))
            await until(pilot, lambda: "no log-in" not in screen_text(app))
            kept = load_login(space.root)
            assert kept is not None and kept.user_id == "ada"
            assert hashed_in and threading.get_ident() not in hashed_in
            await until(pilot, lambda: kept.session_id in screen_text(app))
            await pilot.press("Q")
            await until(pilot, lambda: isinstance(app.screen, Dialog))
            await pilot.press("tab", "enter")
            await until(pilot, lambda: "nobody · password" in screen_text(app))
            assert load_login(space.root) is None
    finally:
        await client.close()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert PASSWORD.encode() not in await asyncio.to_thread(path.read_bytes), path


async def test_log_ins_elsewhere_are_told_beside_that_nobody_is_logged_in_here(
    password_app: MakeApp,
) -> None:
    client = HostClient(completed_run(), who="nobody · password")
    app = password_app(client)
    elsewhere = SessionUse("password:00ff", "bea", "password", "password, account bea, pts/4", True)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await pilot.press("3")
        await settle(pilot)
        screen = app.base_screen
        assert isinstance(screen, HostScreen) and screen._view is not None
        screen._view = replace(screen._view, logged_out=True, sessions=[elsewhere])
        screen._fill()
        await settle(pilot)
        text = flat(screen_text(app))
        assert "Nobody is logged in. I logs in." in text
        assert "bea" in text and "problem" not in text


async def test_i13_what_a_failed_log_in_says_is_inert(password_app: MakeApp) -> None:
    client = HostClient(completed_run(), who="nobody · password")
    client.failures["log_in"] = StoreFailed("\x1b]0;PWN\x07 \u202egpj [red]x[/]")
    app = password_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await opened(pilot)
        await pilot.press(*"secret", "enter")
        await until(pilot, lambda: "␛]0;PWN␇ \\u{202E}gpj [red]x[/]." in screen_text(app))
        assert not acts("".join(screen_text(app).split("\n")))
