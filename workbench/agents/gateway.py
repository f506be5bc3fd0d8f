"""A conversation with one remote DeerFlow Gateway: session, CSRF and bounded requests.

A Gateway with authentication keeps a session in a cookie and wants the cookie ``csrf_token`` repeated as a header
with everything that changes something. The log-in happens before the first request and once more where a request
is answered with 401: a session that ran out refused the request, so it may be sent again. A refused log-in is
remembered for a while, because a Gateway locks an account that fails five times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from .base import BackendUnavailable
from .http import Reply, open_client, request, status_words
from .secrets import Scrubber, resolve
from .settings import DEERFLOW_SECONDS

if TYPE_CHECKING:
    import httpx

_LOGIN: Final = "/v1/auth/login/local"
_CSRF_COOKIE: Final = "csrf_token"
_CSRF_HEADER: Final = "X-CSRF-Token"
_CHANGES: Final = ("POST", "PUT", "PATCH", "DELETE")
#: How long a refused log-in is not tried again with the same password.
REFUSED_SECONDS: Final = 60.0
#: An answer of the Gateway's own: a run, a list of runs, a page of messages.
REPLY_BYTES: Final = 16 * 1024 * 1024


class LoginRefused(Exception):
    """The Gateway did not let us in, so nothing was asked. ``str()`` is a sentence without secrets."""


def gateway_key(settings: Mapping[str, Any]) -> tuple[str, str, str]:
    """What makes two agents share a session: address, user and where the password is."""
    return (str(settings["base_url"]), str(settings.get("username", "")), repr(settings.get("password")))


class Gateway:
    """One Gateway, as one user. Use from the host's loop."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._base = settings["base_url"].rstrip("/").removesuffix("/api") + "/api"
        self._username: str | None = settings.get("username")
        self._password = settings.get("password")
        self._client: httpx.AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._scrubber = Scrubber()
        #: Counts log-ins, so that of several requests that met 401 at once only one logs in again.
        self._session = 0
        self._logging_in = asyncio.Lock()
        self._refused: tuple[float, int, str] | None = None

    async def ask(
        self,
        method: str,
        path: str,
        *,
        seconds: float = DEERFLOW_SECONDS[2],
        body: Any = None,
        params: Mapping[str, str] | None = None,
        max_bytes: int = REPLY_BYTES,
    ) -> Reply:
        """One request below ``/api``, whatever its status. Raises HttpFailed and LoginRefused."""
        if self._username is not None and not self._session:
            await self._log_in(0, seconds)
        session = self._session
        reply = await self._send(method, path, seconds, body, params, max_bytes)
        if reply.status == 401 and self._username is not None:
            await self._log_in(session, seconds)
            reply = await self._send(method, path, seconds, body, params, max_bytes)
        return reply

    def words(self, reply: Reply) -> str:
        """What an answer that is no success means."""
        if reply.status == 401 and self._username is None:
            return "the Gateway asks for a log-in; give the agent a username and a password (HTTP 401)"
        return status_words(reply, self._scrubber)

    def scrub(self, text: str) -> str:
        return self._scrubber.text(text)

    def holds_secret(self, value: Any) -> bool:
        """Whether a value from the Gateway holds the password or the session's own tokens."""
        return self._scrubber.found_in(value)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _send(
        self,
        method: str,
        path: str,
        seconds: float,
        body: Any,
        params: Mapping[str, str] | None,
        max_bytes: int,
    ) -> Reply:
        client = await self._open()
        headers = {}
        tokens = [cookie.value for cookie in client.cookies.jar if cookie.name == _CSRF_COOKIE]
        if tokens and tokens[-1] and method in _CHANGES:
            headers[_CSRF_HEADER] = tokens[-1]
        return await request(
            client,
            method,
            self._base + path,
            seconds=seconds,
            max_bytes=max_bytes,
            body=body,
            headers=headers,
            params=params,
        )

    async def _open(self) -> httpx.AsyncClient:
        async with self._opening:
            if self._client is None:
                self._client = await open_client(cookies=True)
            return self._client

    async def _log_in(self, stale: int, seconds: float) -> None:
        """Log in, unless somebody did since the session ``stale``. Raises LoginRefused and HttpFailed."""
        async with self._logging_in:
            if self._session != stale:
                return
            try:
                password = await resolve(self._password)
            except BackendUnavailable as error:
                raise LoginRefused(str(error)) from None
            now = asyncio.get_running_loop().time()
            if self._refused is not None:
                until, digest, words = self._refused
                if now < until and digest == hash(password):
                    raise LoginRefused(f"{words}; it is not tried again for a minute")
            client = await self._open()
            client.cookies.clear()
            reply = await request(
                client,
                "POST",
                self._base + _LOGIN,
                seconds=seconds,
                max_bytes=REPLY_BYTES,
                form={"username": self._username or "", "password": password, "remember_me": "false"},
            )
            self._scrubber = Scrubber(password, *(cookie.value or "" for cookie in client.cookies.jar))
            if not 200 <= reply.status < 300:
                words = f"the log-in of {self._username} was refused: {status_words(reply, self._scrubber)}"
                self._refused = (now + REFUSED_SECONDS, hash(password), words)
                raise LoginRefused(words)
            self._refused = None
            self._session += 1
