"""One HTTP request at a time, bounded, and failures that say whether anything was sent.

httpx is imported when the first request is made. Nothing is ever repeated here: what a failed request may have
done is for the caller to judge, by ``HttpFailed.sent``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from extension_api.hashing import canonical_json

from ..inert import shorten
from .secrets import Scrubber

if TYPE_CHECKING:
    import ssl

    import httpx

#: A server that does not accept a connection in this time is not there.
CONNECT_SECONDS: Final = 10.0
#: Shorter than servers keep idle connections, so that none is used that its server is about to close.
_KEEPALIVE_SECONDS: Final = 2.0
_DETAIL_CHARACTERS: Final = 200
_LOOPBACK: Final = ("all://localhost", "all://127.0.0.1", "all://[::1]")


class HttpFailed(Exception):
    """A request got no whole answer. ``str()`` is a sentence without address, header or body.

    ``sent`` is False where it is certain that no byte of the request reached the server's application.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Reply(NamedTuple):
    """An answer: status, headers with lower-case names, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON. Raises ValueError.

        Read as Python reads it: what of it becomes an output is judged by the stricter rules of the engine.
        """
        try:
            return json.loads(self.body)
        except RecursionError:
            raise ValueError("nested too deeply") from None


async def open_client(*, cookies: bool = False) -> httpx.AsyncClient:
    """A client that follows no redirection and repeats nothing. It keeps cookies only where that is wanted."""
    context = await asyncio.to_thread(_trust)  # importing and reading certificates would hold up the loop
    import httpx

    jar = CookieJar(None if cookies else DefaultCookiePolicy(allowed_domains=()))
    return httpx.AsyncClient(
        cookies=jar,
        verify=context,
        # A proxy of the environment has no business with servers on this machine.
        mounts=dict.fromkeys(_LOOPBACK),
        follow_redirects=False,
        limits=httpx.Limits(keepalive_expiry=_KEEPALIVE_SECONDS),
        # A compressed answer could be a thousand times what was sent.
        headers={"Accept-Encoding": "identity", "User-Agent": "workflow-workbench"},
    )


@cache
def _trust() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()


async def request(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    seconds: float,
    max_bytes: int,
    body: Any = None,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
) -> Reply:
    """Send one request and read its whole answer, at most ``max_bytes``, in ``seconds`` altogether.

    ``body`` is sent as JSON, ``form`` as a form. Raises HttpFailed.
    """
    import httpx

    content = None if body is None else canonical_json(body).encode()
    sent_headers = dict(headers or {})
    if content is not None:
        sent_headers["Content-Type"] = "application/json"
    timeout = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds * 0.8))
    made = client.build_request(
        method, url, content=content, data=form, headers=sent_headers, params=params, timeout=timeout
    )
    try:
        async with asyncio.timeout(seconds):
            response = await client.send(made, stream=True)
            try:
                return Reply(
                    response.status_code,
                    {name.lower(): value for name, value in response.headers.items()},
                    await _read(response, max_bytes),
                )
            finally:
                await response.aclose()
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
        raise HttpFailed(_unreached(error), sent=False) from None
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        raise HttpFailed("its address cannot be used", sent=False) from None
    except (TimeoutError, httpx.TimeoutException):
        raise HttpFailed(f"the server did not answer within {seconds:g} s", sent=True) from None
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise HttpFailed(
            f"the connection broke before the answer ({type(error).__name__})", sent=True
        ) from None


def _unreached(error: BaseException) -> str:
    """Why there is no connection; of a failed encryption the reason as OpenSSL names it."""
    import ssl

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return f"no secure connection can be made ({cause.reason or type(cause).__name__})"
        cause = cause.__cause__ or cause.__context__
    return "the server cannot be reached"


async def _read(response: httpx.Response, max_bytes: int) -> bytes:
    if response.headers.get("content-encoding", "identity") not in ("", "identity"):
        raise Unusable("the server answered in an encoding that was not asked for")
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > max_bytes:
            raise TooLarge(max_bytes)
    return bytes(data)


class Unusable(HttpFailed):
    """There is an answer, and it cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=True)


class TooLarge(Unusable):
    """The answer is larger than admitted; reading it was given up."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the server's answer is larger than {max_bytes:,} bytes")


def status_words(reply: Reply, scrubber: Scrubber) -> str:
    """What an answer that is no success means, with the server's own words where it has any."""
    status = reply.status
    meanings = {
        400: "the server refused the request",
        401: "the server asks for a valid log-in",
        403: "the server forbids it",
        404: "the server does not know it",
        405: "the server does not offer this",
        409: "the server says that it conflicts with what is there",
        413: "the request is too large for the server",
        422: "the server refused the request as not valid",
        429: "the server has had too many requests",
    }
    if 300 <= status < 400:
        words = "the server redirects elsewhere, which is not followed; give the final address as base_url"
    elif status >= 500:
        words = "the server failed"
    else:
        words = meanings.get(status, "the server refused the request")
    words += f" (HTTP {status})"
    wait = reply.headers.get("retry-after", "")
    if wait.isdigit() and len(wait) < 7:
        words += f"; it asks to wait {wait} s"
    detail = _detail(reply)
    return words if not detail else f"{words}: {shorten(scrubber.text(detail), _DETAIL_CHARACTERS)}"


def _detail(reply: Reply) -> str:
    """The sentence in a JSON error, as DeerFlow's Gateway (detail) and OpenAI's servers (error.message) give it."""
    try:
        value = reply.json()
    except ValueError:
        return ""
    found = value.get("detail", value.get("error", value.get("message"))) if isinstance(value, dict) else None
    if isinstance(found, dict):
        found = found.get("message")
    if isinstance(found, list):  # validation errors, each with its own sentence
        found = "; ".join(str(item.get("msg")) for item in found[:3] if isinstance(item, dict))
    return found if isinstance(found, str) else ""
