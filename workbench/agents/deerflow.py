"""The deerflow backend: an Agent of a remote Gateway, which outlives this process.

One child run is one run on one thread of the Gateway. The thread's id is the child's own, which derives from run,
step and attempt, and the remote run's metadata names the three; there is no idempotency key over HTTP, so these
are what a run is found again by. Before a run is asked for, the thread is looked at: a run of ours on it is the
answer to the very same question, and is observed instead.

A run is asked for once. Where the request may have arrived and nothing says so, the thread is looked at again for
a while; if it shows no run, that proves nothing, and the outcome is uncertain. An execution of an earlier process
is found on its thread, or is uncertain in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from .base import (
    AgentDescription,
    Answer,
    BackendUnavailable,
    Call,
    ChildRef,
    EarlierCalls,
    FileRefused,
    Started,
)
from .gateway import Gateway, LoginRefused, gateway_key
from .http import HttpFailed, TooLarge
from .names import DEERFLOW
from .remote_run import RemoteRun, assistant_of, seconds_of
from .secrets import secret_problem
from .stub import media_type
from .stubcheck import path_problem

_FOLDER: Final = "mnt/user-data/"


class DeerFlowBackend:
    """Runs Agents on remote Gateways. ``pace`` multiplies all its pauses."""

    name = DEERFLOW
    durable = True

    def __init__(self, pace: float = 1.0) -> None:
        self._pace = pace
        self._gateways: dict[tuple[str, str, str], Gateway] = {}
        #: Set for a child that is asked to stop; its observation does the rest.
        self._stops: dict[str, asyncio.Event] = {}

    def describe(
        self, agent_ref: str, settings: Mapping[str, Any], options: Mapping[str, Any]
    ) -> AgentDescription:
        assistant = assistant_of(settings)
        policies = {key: settings[key] for key in ("context", "config") if key in settings}
        return AgentDescription(
            effective_model=f"{DEERFLOW}/{assistant}",
            policies={"gateway": str(settings.get("base_url", "")), **policies},
        )

    def start(self, call: Call, earlier: EarlierCalls, now: int) -> Started:
        password = call.settings.get("password")
        problem = None if password is None else secret_problem(password)
        if problem is not None:
            raise BackendUnavailable(problem)
        return Started(badge="live", durable=True)

    async def observe(self, child: ChildRef, call: Call | None) -> Answer:
        stop = self._stops.setdefault(child.child_run_id, asyncio.Event())
        try:
            return await RemoteRun(self._gateway(child.settings), child, stop, self._pace).run(call)
        finally:
            self._stops.pop(child.child_run_id, None)

    async def interrupt(self, child: ChildRef) -> bool:
        self._stops.setdefault(child.child_run_id, asyncio.Event()).set()
        return True

    async def read_file(
        self, child: ChildRef, files: Mapping[str, str] | None, path: str, *, max_bytes: int
    ) -> tuple[bytes, str]:
        problem = path_problem(path)
        if problem is not None:
            raise FileRefused("bad_path", f"the path {problem}")
        plain = path.removeprefix("/").removeprefix(_FOLDER)
        url = f"/threads/{quote(child.thread_id, safe='')}/artifacts/{_FOLDER}{quote(plain, safe='/')}"
        gateway = self._gateway(child.settings)
        try:
            reply = await gateway.ask("GET", url, seconds=seconds_of(child.settings), max_bytes=max_bytes)
        except TooLarge:
            raise FileRefused(
                "file_too_large", f"the file has more than the {max_bytes:,} bytes that are admitted"
            ) from None
        except (HttpFailed, LoginRefused) as error:
            raise FileRefused("file_unreadable", f"the Gateway did not give the file: {error}") from None
        if reply.status == 404:
            raise FileRefused("file_not_found", "the child run left no file of that name")
        if reply.status != 200:
            raise FileRefused("file_unreadable", f"the Gateway did not give the file: {gateway.words(reply)}")
        return reply.body, media_type(plain)

    async def close(self) -> None:
        gateways, self._gateways = self._gateways, {}
        for gateway in gateways.values():
            await gateway.close()

    def _gateway(self, settings: Mapping[str, Any]) -> Gateway:
        key = gateway_key(settings)
        gateway = self._gateways.get(key)
        if gateway is None:
            gateway = self._gateways[key] = Gateway(settings)
        return gateway
