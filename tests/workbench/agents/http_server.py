"""A small HTTP server on 127.0.0.1 for tests.

It runs in a thread of its own with a loop of its own, so that it serves coroutines of a test and commands in other
processes alike.
"""

from __future__ import annotations

import asyncio
import json
import threading
from http import HTTPStatus
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, unquote, urlsplit


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body or b"null")

    def cookie(self, name: str) -> str | None:
        for part in self.headers.get("cookie", "").split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                return value
        return None


class Response(NamedTuple):
    """``status`` 0 drops the connection without an answer. ``raw`` replaces everything that is written.

    With ``drip`` each byte is written so many seconds after the one before it.
    """

    status: int = 200
    value: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    data: bytes | None = None
    raw: bytes | None = None
    drip: float = 0.0


DROP = Response(0)


class Server:
    """A server in a thread of its own. ``seen`` holds every request, in the order of arrival."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.port = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="test-server", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    async def answer(self, request: Request) -> Response:
        raise NotImplementedError

    async def hang(self) -> Response:
        """Answer nothing before the server closes."""
        await self._stopping.wait()
        return DROP

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        handlers: set[asyncio.Task[None]] = set()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(self._connection(reader, writer))
            handlers.add(task)
            task.add_done_callback(handlers.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for task in list(handlers):
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read(reader)) is not None:
                self.seen.append(request)
                response = await self.answer(request)
                if response.status == 0:
                    return
                for piece in _pieces(response):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(response.drip)
                if response.raw is not None:
                    return
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    first = await reader.readline()
    if not first:
        return None
    method, target, _ = first.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := (await reader.readline()).decode("latin-1").strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Request(method, unquote(parts.path), dict(parse_qsl(parts.query)), headers, body)


def _pieces(response: Response) -> list[bytes]:
    written = _written(response)
    return [written[at : at + 1] for at in range(len(written))] if response.drip else [written]


def _written(response: Response) -> bytes:
    if response.raw is not None:
        return response.raw
    data = response.data
    if data is None:
        data = b"" if response.value is None else json.dumps(response.value).encode()
    lines = [
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}",
        f"Content-Length: {len(data)}",
    ]
    lines += [f"{name}: {value}" for name, value in response.headers]
    return "\r\n".join([*lines, "", ""]).encode() + data
