"""Agent runs with scripted answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..agent_runs import (
    AgentRunRefused,
    AgentRunRequest,
    AgentRuns,
    AgentRunStatus,
    AgentRunView,
    SessionView,
)
from ..hashing import canonical_hash
from ..identity import ExtensionPrincipal


@dataclass(frozen=True)
class Answer:
    """How one execution ends. With ``held`` it runs until ``FakeAgentRuns.finish`` or an interrupt."""

    output: Any = None
    status: AgentRunStatus = AgentRunStatus.SUCCESS
    error_code: str | None = None
    error_message: str | None = None
    files: Mapping[str, tuple[bytes, str]] = field(default_factory=dict)
    held: bool = False


Script = Sequence[Any] | Callable[[AgentRunRequest], Any]
"""What one Agent does: its answers in order, or a function. An answer is an Answer, an exception that
``admit`` raises, or any JSON value as the output of a success."""


class FakeAgentRuns(AgentRuns):
    """A session-bound handle over scripted Agents; ``requests`` holds what was admitted.

    An Agent that is not in ``agents`` is refused with ``unknown_agent``, one whose answers are used up with
    ``no_answer``. After ``revoke`` every operation is refused with ``revoked``.
    """

    def __init__(
        self,
        agents: Mapping[str, Script] | None = None,
        *,
        principal: ExtensionPrincipal | None = None,
        session: SessionView | None = None,
    ) -> None:
        self.requests: list[AgentRunRequest] = []
        self._agents: dict[str, Script] = {
            name: script if callable(script) else list(script) for name, script in (agents or {}).items()
        }
        self._used: dict[str, int] = {}
        self._principal = principal or ExtensionPrincipal("tester", is_admin=True)
        self._session = session or SessionView("session-1", "terminal", True, "a test session")
        self._runs: dict[str, AgentRunView] = {}
        self._files: dict[str, Mapping[str, tuple[bytes, str]]] = {}
        self._by_key: dict[str, str] = {}
        self._workflow_runs: dict[str, str | None] = {}
        self._changed = asyncio.Condition()
        self._revoked = False

    @property
    def principal(self) -> ExtensionPrincipal:
        return self._principal

    @property
    def session(self) -> SessionView:
        return self._session

    def revoke(self) -> None:
        """End the session behind this handle."""
        self._revoked = True

    def authorize(self, agent_ref: str) -> None:
        self._require_session()
        if agent_ref not in self._agents:
            raise AgentRunRefused("unknown_agent", f"there is no Agent {agent_ref!r}")

    def check_options(self, options: Mapping[str, Any]) -> None:
        self._require_session()

    def configuration_revision(self, options: Mapping[str, Any]) -> str:
        self._require_session()
        return canonical_hash(self.configuration_components(options))

    def configuration_components(self, options: Mapping[str, Any]) -> dict[str, str]:
        self._require_session()
        parts = {f"agents.{name}": name for name in sorted(self._agents)} | {
            f"launch.{key}": value for key, value in options.items()
        }
        return {path: canonical_hash([path, part])[:16] for path, part in parts.items()}

    async def admit(self, request: AgentRunRequest) -> AgentRunView:
        self.authorize(request.agent_ref)
        known = self._by_key.get(request.idempotency_key)
        if known is not None:
            return self._runs[known]
        answer = self._answer(request)
        if isinstance(answer, BaseException):
            raise answer
        if not isinstance(answer, Answer):
            answer = Answer(output=answer)
        run_id = f"child-{len(self.requests) + 1}"
        self.requests.append(request)
        self._by_key[request.idempotency_key] = run_id
        self._files[run_id] = answer.files
        self._workflow_runs[run_id] = request.metadata.get("workflow_run_id")
        running = AgentRunView(
            run_id, request.thread_id, request.agent_ref, AgentRunStatus.RUNNING, badge="stub"
        )
        self._runs[run_id] = running if answer.held else _ended(running, answer)
        return self._runs[run_id]

    async def find(self, idempotency_key: str) -> AgentRunView | None:
        self._require_session()
        run_id = self._by_key.get(idempotency_key)
        return None if run_id is None else self._runs[run_id]

    async def observe(self, run_id: str) -> AgentRunView:
        self._require_run(run_id)
        async with self._changed:
            await self._changed.wait_for(lambda: not self._runs[run_id].status.active)
        return self._runs[run_id]

    async def interrupt(self, run_id: str) -> AgentRunView:
        self._require_run(run_id)
        await self._end(run_id, Answer(status=AgentRunStatus.INTERRUPTED))
        return self._runs[run_id]

    async def read_file(self, run_id: str, path: str, *, max_bytes: int) -> tuple[bytes, str]:
        self._require_run(run_id)
        if path not in self._files[run_id]:
            raise AgentRunRefused("not_found", f"the execution left no file {path!r}")
        content, media_type = self._files[run_id][path]
        if len(content) > max_bytes:
            raise AgentRunRefused("too_large", f"{path!r} exceeds {max_bytes} bytes")
        return content, media_type

    async def delete_runs(self, workflow_run_id: str) -> int:
        self._require_session()
        gone = [
            key
            for key, run_id in self._by_key.items()
            if self._workflow_runs[run_id] == workflow_run_id and not self._runs[run_id].status.active
        ]
        for key in gone:
            run_id = self._by_key.pop(key)
            for kept in (self._runs, self._files, self._workflow_runs):
                del kept[run_id]
        return len(gone)

    async def finish(self, run_id: str, answer: Any = None) -> AgentRunView:
        """End an execution that is held, with an Answer or an output."""
        await self._end(run_id, answer if isinstance(answer, Answer) else Answer(output=answer))
        return self._runs[run_id]

    async def _end(self, run_id: str, answer: Answer) -> None:
        async with self._changed:
            if self._runs[run_id].status.active:
                self._runs[run_id] = _ended(self._runs[run_id], answer)
                self._files[run_id] = {**self._files[run_id], **answer.files}
            self._changed.notify_all()

    def _answer(self, request: AgentRunRequest) -> Any:
        script = self._agents[request.agent_ref]
        if callable(script):
            return script(request)
        used = self._used.get(request.agent_ref, 0)
        if used >= len(script):
            raise AgentRunRefused("no_answer", f"the answers of {request.agent_ref!r} are used up")
        self._used[request.agent_ref] = used + 1
        return script[used]

    def _require_session(self) -> None:
        if self._revoked:
            raise AgentRunRefused("revoked", "the session behind this handle has ended")

    def _require_run(self, run_id: str) -> None:
        self._require_session()
        if run_id not in self._runs:
            raise AgentRunRefused("not_found", f"there is no execution {run_id!r}")


def _ended(view: AgentRunView, answer: Answer) -> AgentRunView:
    return replace(
        view,
        status=answer.status,
        output=answer.output if answer.status is AgentRunStatus.SUCCESS else None,
        error_code=answer.error_code,
        error_message=answer.error_message,
    )
