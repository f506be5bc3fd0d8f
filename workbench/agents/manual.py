"""The manual backend: a person types the answer.

A call waits inside this process until somebody answers it (``workbench answer``), it is interrupted, or the process
ends. Nothing is executed. What waits is visible in the run itself: a running step with the badge ``manual``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from workflows_core.errors import Conflict

from .base import AgentDescription, Answer, Call, ChildRef, EarlierCalls, FileRefused, Started
from .names import MANUAL


class ManualBackend:
    """Asks people."""

    name = MANUAL
    durable = False

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[Answer]] = {}

    def describe(
        self, agent_ref: str, settings: Mapping[str, Any], options: Mapping[str, Any]
    ) -> AgentDescription:
        return AgentDescription(effective_model=MANUAL, prompt=str(settings.get("instructions", "")))

    def start(self, call: Call, earlier: EarlierCalls, now: int) -> Started:
        return Started(badge=MANUAL, durable=False)

    async def observe(self, child: ChildRef, call: Call | None) -> Answer:
        """Wait for ``answer``. Being cancelled takes the question back."""
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[child.child_run_id] = waiting
        try:
            return await waiting
        finally:
            del self._waiting[child.child_run_id]

    def answer(self, child_run_id: str, answer: Answer) -> None:
        """Answer a call that waits. In the host's loop. Raises Conflict where none waits under this id."""
        waiting = self._waiting.get(child_run_id)
        if waiting is None or waiting.done():
            raise Conflict("it does not wait for an answer any more; nothing was recorded")
        waiting.set_result(answer)

    async def interrupt(self, child: ChildRef) -> None:
        """Nothing runs that could be stopped; cancelling the observation takes the question back."""

    async def read_file(
        self, child: ChildRef, files: Mapping[str, str] | None, path: str, *, max_bytes: int
    ) -> tuple[bytes, str]:
        raise FileRefused("file_not_found", "a person answers with text or JSON and leaves no files")
