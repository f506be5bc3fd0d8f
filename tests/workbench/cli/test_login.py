"""``login``, ``logout`` and ``sessions``, and what a session may do in a workspace with accounts."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workbench.cli.conftest import Command
from workbench.cli import login as login_commands
from workbench.host import accounts
from workbench.host.host import LocalHost
from workbench.login import StoredLogin, load_login, login_path
from workbench.workspace import Workspace
from workflows_core.errors import NotPermitted

PASSWORD = "correct horse"


@pytest.fixture
def secrets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the person types when asked for a secret: the first of the list, and the last one again and again."""
    (folder / "workbench.yaml").write_text("auth: {mode: password}\n")
    monkeypatch.setattr(accounts.Cost, "__new__", lambda cls, n=16, r=1, p=1: tuple.__new__(cls, (n, r, p)))
    typed = [PASSWORD]
    monkeypatch.setattr(
        login_commands, "ask_secret", lambda prompt: typed.pop(0) if len(typed) > 1 else typed[0]
    )
    return typed


@pytest.fixture
def host(secrets: list[str], folder: Path) -> Iterator[LocalHost]:
    opened = LocalHost.open(Workspace.find(explicit=folder))
    yield opened
    opened.close()


def test_an_account_is_made_used_and_left(command: Command, folder: Path, secrets: list[str]) -> None:
    assert command("login", "ada", "--json").document["error"]["code"] == "not_found"
    made = command("login", "ada", "--create", "--admin", "--json")
    assert made.document == {"user_id": "ada", "roles": ["admin"]}
    assert command("sessions", "--json").document["sessions"] == []  # nobody is logged in by that
    result = command("login", "ada", "--json")
    assert (result.status, result.document["user_id"], result.document["roles"]) == (0, "ada", ["admin"])
    (session,) = command("sessions", "--json").document["sessions"]
    assert session["current"] and session["session_id"] == result.document["session_id"]
    assert session["expires_at"] == result.document["expires_at"]
    kept = load_login(folder)
    assert kept is not None and kept.token not in result.out and kept.token not in repr(kept)
    assert login_path(folder).stat().st_mode & 0o777 == 0o600
    assert login_path(folder).parent.stat().st_mode & 0o777 == 0o700
    assert command("logout", "--json").document == {"user_id": "ada", "ended": True}
    assert command("sessions", "--json").document["sessions"] == []
    assert not login_path(folder).exists()
    assert command("logout", "--json").document == {"user_id": None, "ended": False}


def test_what_is_typed_wrongly_makes_and_opens_nothing(
    command: Command, folder: Path, secrets: list[str]
) -> None:
    secrets[:] = [PASSWORD, "another one"]
    assert "the two passwords differ" in command("login", "ada", "--create").err
    secrets[:] = ["short"]
    assert command("login", "ada", "--create").status == 2
    secrets[:] = [PASSWORD]
    assert command("login", "ada", "--create").status == 0
    assert command("login", "ada", "--create", "--json").document["error"]["code"] == "conflict"
    secrets[:] = ["wrong password"]
    for name in ("ada", "eve"):
        refused = command("login", name, "--json")
        assert (refused.status, refused.document["error"]["message"]) == (
            7,
            "the name or the password is wrong",
        )
    for _ in range(4):
        command("login", "ada")
    secrets[:] = [PASSWORD]
    assert command("login", "ada", "--json").document["error"]["code"] == "throttled"
    assert load_login(folder) is None
    assert command("login", "--create").status == 2 and command("login", "--admin").status == 2


def test_a_new_log_in_ends_the_one_before(command: Command, secrets: list[str]) -> None:
    for name in ("ada", "bob"):
        command("login", name, "--create")
        command("login", name)
    (session,) = command("sessions", "--json").document["sessions"]
    assert (session["user_id"], session["current"]) == ("bob", True)


def test_only_a_workspace_with_accounts_takes_log_ins(command: Command, folder: Path) -> None:
    for arguments in (("login", "ada"), ("sessions", "--disable", "ada"), ("sessions", "--end", "x")):
        refused = command(*arguments, "--json")
        assert (refused.status, refused.document["error"]["code"]) == (2, "no_accounts")
    assert command("sessions", "--json").document == {"mode": "terminal", "sessions": [], "accounts": []}


def test_who_uses_a_workspace_without_accounts(command: Command, folder: Path) -> None:
    host = LocalHost.open(Workspace.find(explicit=folder))
    try:
        handle = host.session()
        found = command("sessions", "--json").document["sessions"]
        assert handle.session.session_id in [session["session_id"] for session in found]
        assert {session["user_id"] for session in found} == {f"os:{os.getuid()}"}
    finally:
        host.close()


def test_commands_act_as_the_account_also_through_another_process(
    command: Command, folder: Path, script: Path, secrets: list[str], host: LocalHost
) -> None:
    refused = command("run", script, "--json")
    assert (refused.status, refused.document["error"]["code"]) == (7, "not_permitted")
    assert "run: workbench login" in refused.document["error"]["message"]
    command("login", "ada", "--create")
    command("login", "ada")
    done = command("run", script, "--json")
    assert (done.status, done.document["state"]) == (0, "completed")
    run_id = done.document["run_id"]

    command("login", "bob", "--create")
    command("login", "bob")
    other = command("delete", run_id, "--json")
    assert other.status in (2, 7) and "error" in other.document
    assert command("extension", "reload", "--json").document["error"]["code"] == "not_permitted"
    command("login", "ada")
    assert command("sessions", "--disable", "ada", "--json").document["accounts"][0]["disabled"]
    ended = command("delete", run_id, "--json")
    assert (ended.status, ended.document["error"]["code"]) == (7, "not_permitted")
    secrets[:] = [PASSWORD]
    assert command("login", "ada").status == 7


def test_a_command_that_hosts_the_engine_acts_as_the_account(
    command: Command, script: Path, secrets: list[str]
) -> None:
    assert command("run", script, "--json").document["error"]["code"] == "not_permitted"
    command("login", "ada", "--create")
    command("login", "ada")
    assert command("run", script, "--json").document["state"] == "completed"
    command("logout")
    assert command("run", script, "--json").document["error"]["code"] == "not_permitted"


def test_an_ended_session_stops(command: Command, script: Path, secrets: list[str], host: LocalHost) -> None:
    command("login", "ada", "--create")
    session_id = command("login", "ada", "--json").document["session_id"]
    assert command("sessions", "--end", session_id).status == 0
    assert command("run", script, "--json").document["error"]["code"] == "not_permitted"
    assert command("sessions", "--end", session_id).status == 2


def test_a_file_that_others_could_read_is_not_used(
    command: Command, folder: Path, secrets: list[str]
) -> None:
    command("login", "ada", "--create")
    command("login", "ada")
    login_path(folder).chmod(0o644)
    with pytest.raises(NotPermitted, match="can be read by others"):
        load_login(folder)
    login_path(folder).unlink()
    login_path(folder).symlink_to(folder / "elsewhere")
    with pytest.raises(NotPermitted):
        load_login(folder)


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[]", '{"user_id": "ada"}', '{"user_id": 1, "session_id": 2}']
)
def test_a_file_that_is_no_log_in_counts_as_none(folder: Path, text: str) -> None:
    path = login_path(folder)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o600)
    assert load_login(folder) is None
    assert "tok" not in repr(StoredLogin("ada", "s", "tok", 1))


def test_without_a_terminal_no_password_is_read(command: Command, folder: Path) -> None:
    (folder / "workbench.yaml").write_text("auth: {mode: password}\n")
    refused = command("login", "ada", "--create")
    assert refused.status == 2 and "read from a terminal" in refused.err


CHILD = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from workbench.host import accounts
accounts.Cost.__new__ = lambda cls, n=16, r=1, p=1: tuple.__new__(cls, (n, r, p))
from workbench.cli.main import main
main(sys.argv[1:])
"""


def test_a_password_is_read_from_the_terminal_without_echo(folder: Path) -> None:
    (folder / "workbench.yaml").write_text("auth: {mode: password}\n")
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, "login", "ada", "--create"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
    ) as process:
        os.close(slave)
        seen = b""
        try:
            for prompt in (b"Password for ada: ", b"The same again: "):
                while prompt not in seen:
                    seen += os.read(master, 4096)
                os.write(master, PASSWORD.encode() + b"\n")
            while b"was created" not in seen:
                seen += os.read(master, 4096)
            process.wait(90)
        finally:
            os.close(master)
    assert process.returncode == 0
    assert PASSWORD.encode() not in seen
