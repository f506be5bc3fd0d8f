"""Logging in to a workspace with accounts, and the log-in that a person keeps.

The token of a session lives in the person's own state folder, in a file that nobody else may read; the
workspace holds its hash only. There is one log-in for a person and a workspace: a new one takes its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workflows_core.errors import NotFound, NotPermitted, StoreFailed, UsageError

from .inert import inert

if TYPE_CHECKING:
    from .host.accounts import Accounts
    from .host.accounts import LogIn as Opened
    from .workspace import Workspace


class NotLoggedIn(NotPermitted):
    """Nobody is logged in, or no longer: a log-in is all that it needs."""


@dataclass(frozen=True)
class StoredLogin:
    """``expires_at`` in microseconds since the epoch. ``token`` is a secret."""

    user_id: str
    session_id: str
    token: str
    expires_at: int

    def __repr__(self) -> str:
        return f"StoredLogin(user_id={self.user_id!r}, session_id={self.session_id!r})"


def login_path(root: Path) -> Path:
    """Where the log-in for the workspace at ``root`` is kept."""
    import platformdirs

    digest = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
    return Path(platformdirs.user_state_dir("workbench", appauthor=False)) / "logins" / f"{digest}.json"


def load_login(root: Path) -> StoredLogin | None:
    """The log-in that is kept, or None. Raises NotPermitted where others could have read or written it."""
    path = login_path(root)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotPermitted(f"{inert(str(path))} cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise NotPermitted(
                f"{inert(str(path))} can be read by others; delete it and log in again: workbench login"
            )
        data = file.read(4096)
    try:
        given = json.loads(data)
        login = StoredLogin(given["user_id"], given["session_id"], given["token"], given["expires_at"])
    except (ValueError, KeyError, TypeError):
        return None
    texts = (login.user_id, login.session_id, login.token)
    return login if all(isinstance(text, str) for text in texts) and type(login.expires_at) is int else None


def acting_as(workspace: Workspace) -> str | None:
    """The user id under which this person launches and saves; None where nobody is logged in to an account."""
    from .host.identity import local_principal, terminal_principal

    mode = workspace.config.auth.mode
    if mode == "password":
        login = load_login(workspace.root)
        return None if login is None else login.user_id
    if mode == "disabled":
        return local_principal().user_id
    return terminal_principal(os.getuid(), workspace.state_dir).user_id


def keep_login(root: Path, login: StoredLogin) -> None:
    """Keep a log-in in place of an earlier one. Raises StoreFailed."""
    path = login_path(root)
    temporary = path.with_suffix(".new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(login), file)
        temporary.replace(path)
    except OSError as error:
        raise StoreFailed(f"{inert(str(path))} cannot be written: {error.strerror}") from None


def forget_login(root: Path) -> None:
    """Delete what is kept. Raises StoreFailed."""
    path = login_path(root)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreFailed(f"{inert(str(path))} cannot be deleted: {error.strerror}") from None


@contextmanager
def opened_accounts(workspace: Workspace) -> Iterator[Accounts]:
    """The accounts, in the host's store, beside whoever owns the workspace. Blocks; raises StoreError."""
    from .host.accounts import Accounts
    from .host.store import HostStore

    workspace.make_state_dir()
    store = HostStore.open(workspace.host_store_path)
    try:
        yield Accounts(store)
    finally:
        store.close()


def require_accounts(workspace: Workspace) -> None:
    """Raises UsageError where the workspace does not use accounts."""
    mode = workspace.config.auth.mode
    if mode != "password":
        raise UsageError(
            f"this workspace has auth.mode {mode}, which uses no accounts; nobody needs to log in",
            code="no_accounts",
        )


def require_an_account(accounts: Accounts) -> None:
    """Raises NotFound where there is none yet."""
    if not accounts.all():
        raise NotFound("there are no accounts yet; create one with: workbench login NAME --create")


def log_in(workspace: Workspace, name: str, password: str) -> Opened:
    """Verify a password, open a session and keep it; the one that was kept ends.

    Blocks for as long as a hash takes, so not on a loop that draws. Raises UsageError, NotFound, NotPermitted in
    the same words whatever was wrong, and StoreError.
    """
    from .host.identity import terminal

    require_accounts(workspace)
    with opened_accounts(workspace) as accounts:
        require_an_account(accounts)
        opened = accounts.log_in(name, password, terminal().name or "no terminal")
        before = load_login(workspace.root)
        keep_login(
            workspace.root, StoredLogin(name, opened.session.session_id, opened.token, opened.expires_at)
        )
        if before is not None:
            accounts.revoke(before.session_id)
    return opened


def log_out(workspace: Workspace) -> tuple[StoredLogin | None, bool]:
    """End the session that is kept and forget it: what was kept, and whether it could still be ended. Blocks."""
    kept = load_login(workspace.root)
    ended = False
    if kept is not None:
        with opened_accounts(workspace) as accounts:
            ended = accounts.revoke(kept.session_id)
        forget_login(workspace.root)
    return kept, ended


def end_session(workspace: Workspace, session_id: str) -> None:
    """End a log-in of any account. Blocks; raises NotFound where there is none that could be ended."""
    require_accounts(workspace)
    with opened_accounts(workspace) as accounts:
        if not accounts.revoke(session_id):
            raise NotFound(f"there is no session {session_id} that could be ended")


def own_name() -> str:
    """What the account of this person is probably called: as the user of the system is."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
