"""Sessions, against real terminals: each case runs in a process of its own, some on a pty."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunRefused
from workbench.host.identity import (
    control_session,
    describe_control,
    disabled_session,
    local_principal,
    terminal_principal,
    terminal_session,
)

PROBE = """
import json, sys
from workbench.host.identity import terminal
found = terminal()
with open(sys.argv[1], "w") as file:
    json.dump([found.interactive, found.name], file)
"""


def probe(tmp_path: Path, *, stdin: Any, stdout: Any, session: bool, control: int | None = None) -> list[Any]:
    """What ``terminal`` says in a child; ``control`` becomes its controlling terminal in a new session."""

    def prepare() -> None:
        import fcntl
        import termios

        if session:
            os.setsid()
        if control is not None:
            fcntl.ioctl(control, termios.TIOCSCTTY, 0)

    result = tmp_path / "result"
    subprocess.run(
        [sys.executable, "-c", PROBE, str(result)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        preexec_fn=prepare,
        pass_fds=() if control is None else (control,),
        check=True,
        timeout=90,
    )
    answer: list[Any] = json.loads(result.read_text())
    return answer


@pytest.fixture
def terminals():  # type: ignore[no-untyped-def]
    opened = [pty.openpty() for _ in range(2)]
    yield [slave for _, slave in opened]
    for pair in opened:
        for descriptor in pair:
            os.close(descriptor)


def test_one_terminal_for_everything_is_interactive(tmp_path: Path, terminals: list[int]) -> None:
    first = terminals[0]
    assert probe(tmp_path, stdin=first, stdout=first, session=True, control=first) == [
        True,
        os.ttyname(first).removeprefix("/dev/"),
    ]


def test_a_terminal_that_does_not_control_the_session_is_not(tmp_path: Path, terminals: list[int]) -> None:
    first, second = terminals
    assert probe(tmp_path, stdin=first, stdout=first, session=True)[0] is False
    assert probe(tmp_path, stdin=first, stdout=first, session=True, control=second)[0] is False


def test_two_terminals_are_not_one(tmp_path: Path, terminals: list[int]) -> None:
    first, second = terminals
    assert probe(tmp_path, stdin=first, stdout=second, session=True, control=first)[0] is False


def test_a_pipe_on_either_side_is_not_interactive(tmp_path: Path, terminals: list[int]) -> None:
    first = terminals[0]
    null = subprocess.DEVNULL
    assert probe(tmp_path, stdin=null, stdout=first, session=True, control=first) == [
        False,
        os.ttyname(first).removeprefix("/dev/"),
    ]
    assert probe(tmp_path, stdin=first, stdout=null, session=True, control=first)[0] is False
    assert probe(tmp_path, stdin=null, stdout=null, session=True) == [False, None]


def test_the_ability_can_be_given_away_and_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.host import identity

    monkeypatch.setattr(identity, "terminal", lambda: identity.Terminal(True, "pts/3"))
    session = terminal_session(1000)
    assert (session.mode, session.interactive) == ("terminal", True)
    assert session.description == "terminal, uid 1000, pts/3, not password-verified"
    assert terminal_session(1000, interactive=False).interactive is False
    monkeypatch.setattr(identity, "terminal", lambda: identity.Terminal(False, None))
    session = terminal_session(1000, interactive=True)
    assert session.interactive is False
    assert session.description == "terminal, uid 1000, no terminal, not password-verified"


def test_the_owner_of_the_workspace_is_its_administrator(tmp_path: Path) -> None:
    mine = terminal_principal(os.getuid(), tmp_path)
    assert (mine.user_id, mine.is_admin) == (f"os:{os.getuid()}", True)
    assert terminal_principal(os.getuid() + 1, tmp_path).is_admin is False
    assert terminal_principal(os.getuid(), tmp_path / "missing").is_admin is False


def test_without_authentication_nobody_is_an_administrator_or_decides() -> None:
    assert (local_principal().user_id, local_principal().is_admin) == ("local", False)
    assert (disabled_session().mode, disabled_session().interactive) == ("disabled", False)


def test_a_control_record_describes_a_session_of_the_same_user(tmp_path: Path) -> None:
    session = terminal_session(os.getuid(), interactive=False)
    principal, found = control_session(describe_control(session, os.getuid()), tmp_path)
    assert principal == terminal_principal(os.getuid(), tmp_path)
    assert (found.mode, found.interactive, found.description) == ("terminal", False, session.description)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({}, "bad_request"),
        ({"uid": True, "pid": 1, "description": "x", "interactive": True}, "bad_request"),
        ({"uid": 0, "pid": "1", "description": "x", "interactive": True}, "bad_request"),
        ({"uid": 0, "pid": 1, "description": 1, "interactive": True}, "bad_request"),
        ({"uid": 0, "pid": 1, "description": "x", "interactive": 1}, "bad_request"),
        ({"uid": 4_000_000, "pid": 1, "description": "x", "interactive": True}, "not_permitted"),
    ],
)
def test_any_other_record_is_refused(tmp_path: Path, row: dict[str, Any], code: str) -> None:
    with pytest.raises(AgentRunRefused) as caught:
        control_session(row, tmp_path)
    assert caught.value.code == code
