"""Accounts and log-in sessions for ``auth.mode: password``.

Passwords are kept as scrypt hashes. Five failures in a row lock an account for a minute, and each further one
for twice as long. A session token is shown once and stored as its hash.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from extension_api.agent_runs import SessionView
from extension_api.identity import ExtensionPrincipal
from workflows_core.errors import Conflict, NotFound, NotPermitted, UsageError
from workflows_core.model import now

from ..login import NotLoggedIn
from .store import HostStore

SESSION_SECONDS: Final = 12 * 3600
MIN_PASSWORD: Final = 8
MAX_PASSWORD: Final = 1024
FREE_FAILURES: Final = 5
LOCK_SECONDS: Final = 60
MAX_LOCK_SECONDS: Final = 3600
ADMIN_ROLE: Final = "admin"

_SECOND: Final = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")


class Cost(NamedTuple):
    """The parameters of scrypt. Memory is 128 × n × r bytes."""

    n: int = 2**15
    r: int = 8
    p: int = 1


class Account(NamedTuple):
    user_id: str
    roles: tuple[str, ...]
    disabled: bool
    created_at: int


class OpenSession(NamedTuple):
    """A session that may act. Times are microseconds since the epoch."""

    session_id: str
    user_id: str
    description: str
    created_at: int
    expires_at: int


class LogIn(NamedTuple):
    """A session and whose it is. ``token`` is empty but for a fresh one: only then does anybody see it."""

    token: str
    session: SessionView
    principal: ExtensionPrincipal
    expires_at: int


class Accounts:
    """Accounts in the host's store. ``cost`` is lower in tests only."""

    def __init__(self, store: HostStore, *, cost: Cost | None = None, clock: Callable[[], int] = now) -> None:
        self._store = store
        self._cost = cost if cost is not None else Cost()
        self._clock = clock
        self._decoy = secrets.token_bytes(16)

    def create(self, user_id: str, password: str, roles: Sequence[str] = ()) -> Account:
        """Raises UsageError for an unusable name or password, Conflict for a name that is taken."""
        if _NAME.fullmatch(user_id) is None:
            raise UsageError("an account's name has 1 to 64 letters, digits and the characters _ . @ -")
        if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
            raise UsageError(f"a password has {MIN_PASSWORD} to {MAX_PASSWORD} characters")
        salt = secrets.token_bytes(16)
        if not self._store.write(
            "INSERT OR IGNORE INTO accounts VALUES (?, ?, ?, ?, ?, 0, 0, 0, ?)",
            user_id,
            salt,
            _hash(password, salt, self._cost),
            json.dumps(self._cost),
            json.dumps(sorted(set(roles))),
            self._clock(),
        ):
            raise Conflict(f"there is an account {user_id} already")
        return self.get(user_id)

    def get(self, user_id: str) -> Account:
        rows = self._store.read(
            "SELECT user_id, roles, disabled, created_at FROM accounts WHERE user_id = ?", user_id
        )
        if not rows:
            raise NotFound(f"there is no account {user_id}")
        name, roles, disabled, created_at = rows[0]
        return Account(name, tuple(json.loads(roles)), bool(disabled), created_at)

    def all(self) -> list[Account]:
        """Every account, by name."""
        rows = self._store.read("SELECT user_id, roles, disabled, created_at FROM accounts ORDER BY user_id")
        return [
            Account(name, tuple(json.loads(roles)), bool(off), created) for name, roles, off, created in rows
        ]

    def sessions(self) -> list[OpenSession]:
        """The sessions that may act now, the oldest first."""
        rows = self._store.read(
            "SELECT s.session_id, s.user_id, s.description, s.created_at, s.expires_at FROM sessions s "
            "JOIN accounts a USING (user_id) WHERE s.revoked_at IS NULL AND s.expires_at > ? "
            "AND a.disabled = 0 ORDER BY s.created_at, s.session_id",
            self._clock(),
        )
        return [OpenSession(*row) for row in rows]

    def disable(self, user_id: str) -> None:
        """Disable an account and revoke its sessions."""
        self.get(user_id)
        self._store.write("UPDATE accounts SET disabled = 1 WHERE user_id = ?", user_id)
        self._store.write(
            "UPDATE sessions SET revoked_at = ? WHERE user_id = ? AND revoked_at IS NULL",
            self._clock(),
            user_id,
        )

    def log_in(self, user_id: str, password: str, where: str) -> LogIn:
        """Verify a password and open a session; ``where`` describes the terminal.

        Raises NotPermitted in the same words whatever was wrong, and takes as long for an unknown name.
        """
        at = self._clock()
        rows = self._store.read(
            "SELECT salt, hash, cost, disabled, failures, locked_until FROM accounts WHERE user_id = ?",
            user_id,
        )
        if not rows:
            _hash(password[:MAX_PASSWORD], self._decoy, self._cost)
            raise NotPermitted("the name or the password is wrong")
        salt, expected, cost, disabled, failures, locked_until = rows[0]
        if locked_until > at:
            left = -(-(locked_until - at) // _SECOND)
            raise NotPermitted(f"too many failures; try again in {left} s", code="throttled")
        found = _hash(password[:MAX_PASSWORD], salt, Cost(*json.loads(cost)))
        if not hmac.compare_digest(found, expected) or disabled:
            self._failed(user_id, failures + 1, at)
            raise NotPermitted("the name or the password is wrong")
        self._store.write("UPDATE accounts SET failures = 0, locked_until = 0 WHERE user_id = ?", user_id)
        return self._open(user_id, where, at)

    def resume(self, token: str) -> LogIn:
        """The session of a token. Raises NotLoggedIn where it has ended."""
        rows = self._store.read(
            "SELECT s.session_id, s.user_id, s.description, a.roles, s.expires_at FROM sessions s JOIN accounts a "
            "USING (user_id) WHERE s.token_hash = ? AND s.revoked_at IS NULL AND s.expires_at > ? "
            "AND a.disabled = 0",
            _digest(token),
            self._clock(),
        )
        if not rows:
            raise NotLoggedIn("this session has ended; log in again")
        return self._log_in(token, *rows[0])

    def by_session(self, session_id: object) -> LogIn | None:
        """The log-in behind a session id that another process of the same OS user names, or None."""
        rows = self._store.read(
            "SELECT s.session_id, s.user_id, s.description, a.roles, s.expires_at FROM sessions s JOIN accounts a "
            "USING (user_id) WHERE s.session_id = ? AND s.revoked_at IS NULL AND s.expires_at > ? "
            "AND a.disabled = 0",
            session_id if isinstance(session_id, str) else "",
            self._clock(),
        )
        return self._log_in("", *rows[0]) if rows else None

    def valid(self, session_id: str) -> bool:
        """Whether a session may still act: not revoked, not expired, its account not disabled."""
        return self.by_session(session_id) is not None

    def revoke(self, session_id: str) -> bool:
        """End a session. False where it had ended already or there is none."""
        return bool(
            self._store.write(
                "UPDATE sessions SET revoked_at = ? WHERE session_id = ? AND revoked_at IS NULL",
                self._clock(),
                session_id,
            )
        )

    def _failed(self, user_id: str, failures: int, at: int) -> None:
        over = min(failures - FREE_FAILURES, 10)
        lock = min(LOCK_SECONDS * 2**over, MAX_LOCK_SECONDS) if over >= 0 else 0
        self._store.write(
            "UPDATE accounts SET failures = ?, locked_until = ? WHERE user_id = ?",
            failures,
            at + lock * _SECOND if lock else 0,
            user_id,
        )

    def _open(self, user_id: str, where: str, at: int) -> LogIn:
        token = secrets.token_urlsafe(32)
        session_id = f"password:{secrets.token_hex(8)}"
        description = f"password, account {user_id}, {where}"
        ends = at + SESSION_SECONDS * _SECOND
        self._store.write(
            "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, NULL)",
            session_id,
            _digest(token),
            user_id,
            description,
            at,
            ends,
        )
        roles = json.dumps(self.get(user_id).roles)
        return self._log_in(token, session_id, user_id, description, roles, ends)

    @staticmethod
    def _log_in(
        token: str, session_id: str, user_id: str, description: str, roles: str, expires_at: int
    ) -> LogIn:
        names = tuple(json.loads(roles))
        return LogIn(
            token,
            SessionView(session_id, "password", interactive=False, description=description),
            ExtensionPrincipal(user_id, is_admin=ADMIN_ROLE in names, roles=names),
            expires_at,
        )


def _hash(password: str, salt: bytes, cost: Cost) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=cost.n,
        r=cost.r,
        p=cost.p,
        maxmem=256 * cost.n * cost.r,
        dklen=32,
    )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
