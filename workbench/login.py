"""The log-in that a person keeps for a workspace with accounts.

The token of a session lives in the person's own state folder, in a file that nobody else may read; the
workspace holds its hash only. There is one log-in for a person and a workspace: a new one takes its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

from workflows_core.errors import NotPermitted, StoreFailed

from .inert import inert


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
