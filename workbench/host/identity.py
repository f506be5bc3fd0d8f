"""Who uses this workspace: the terminal session of this process, and what makes a session interactive.

Interactive means that a person sits there: standard input, standard output and the controlling terminal are
one terminal. No option and no variable can make a session interactive.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extension_api.agent_runs import AgentRunRefused, SessionView
from extension_api.identity import ExtensionPrincipal

LOCAL_USER = "local"


@dataclass(frozen=True)
class Terminal:
    """The terminal of this process. ``name`` is such as ``pts/3``, None where there is none."""

    interactive: bool
    name: str | None


def terminal() -> Terminal:
    """Look at standard input, standard output and the controlling terminal of this process."""
    name: str | None = None
    for descriptor in (0, 1):
        try:
            name = os.ttyname(descriptor).removeprefix("/dev/")
            break
        except OSError:
            continue
    return Terminal(_one_terminal(0, 1), name)


def _one_terminal(first: int, second: int) -> bool:
    try:
        if not (os.isatty(first) and os.isatty(second)):
            return False
        if os.fstat(first).st_rdev != os.fstat(second).st_rdev:
            return False
        # Opening /dev/tty says that there is a controlling terminal, tcgetpgrp that it is this one: it fails
        # for every terminal that does not control the session of the calling process.
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
        os.tcgetpgrp(first)
    except OSError:
        return False
    return True


def workspace_owner(state_dir: Path) -> int | None:
    """The uid that owns the workspace's state, or None where it cannot be determined."""
    try:
        return state_dir.stat().st_uid
    except OSError:
        return None


def terminal_principal(uid: int, state_dir: Path) -> ExtensionPrincipal:
    """``os:<uid>``; an administrator where this user owns the workspace."""
    owner = workspace_owner(state_dir)
    return ExtensionPrincipal(user_id=f"os:{uid}", is_admin=owner is not None and owner == uid)


def local_principal() -> ExtensionPrincipal:
    """Everybody's principal where authentication is disabled; never an administrator."""
    return ExtensionPrincipal(user_id=LOCAL_USER)


def terminal_session(uid: int, *, interactive: bool | None = None) -> SessionView:
    """The session of this process. ``interactive=False`` gives the ability away; True cannot bring it."""
    found = terminal()
    where = found.name or "no terminal"
    return SessionView(
        session_id=f"terminal:{os.getpid()}:{secrets.token_hex(4)}",
        mode="terminal",
        interactive=found.interactive and interactive is not False,
        description=f"terminal, uid {uid}, {where}, not password-verified",
    )


def disabled_session() -> SessionView:
    """The session where authentication is disabled: it may run, and never decide."""
    return SessionView(
        session_id=f"disabled:{os.getpid()}:{secrets.token_hex(4)}",
        mode="disabled",
        interactive=False,
        description="authentication disabled, nobody verified",
    )


def control_session(row: Mapping[str, Any], state_dir: Path) -> tuple[ExtensionPrincipal, SessionView]:
    """Principal and session that a control record of another process describes.

    The record says ``uid``, ``pid``, ``description`` and ``interactive``. Raises AgentRunRefused where it
    does not, or where that user does not own the workspace.
    """
    uid, pid = row.get("uid"), row.get("pid")
    description, interactive = row.get("description"), row.get("interactive")
    if (
        isinstance(uid, bool)
        or not isinstance(uid, int)
        or isinstance(pid, bool)
        or not isinstance(pid, int)
        or not isinstance(description, str)
        or not isinstance(interactive, bool)
    ):
        raise AgentRunRefused("bad_request", "the control record does not describe a session")
    if uid != workspace_owner(state_dir):
        raise AgentRunRefused("not_permitted", f"user {uid} does not own this workspace")
    return terminal_principal(uid, state_dir), SessionView(
        session_id=f"terminal:{pid}:control",
        mode="terminal",
        interactive=interactive,
        description=description,
    )


def describe_control(session: SessionView, uid: int, session_id: str | None = None) -> dict[str, Any]:
    """The control record that describes a session of this process to the owner of the workspace.

    ``session_id`` is that of the log-in, where accounts are used.
    """
    record: dict[str, Any] = {
        "uid": uid,
        "pid": os.getpid(),
        "description": session.description,
        "interactive": session.interactive,
    }
    if session_id is not None:
        record["session_id"] = session_id
    return record
