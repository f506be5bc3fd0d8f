"""Agent runs: the capability to start, observe and interrupt Agent executions (added in 0.2.5).

A handle is bound to one session. It checks the caller's authority on every operation, so holding one
never outlives the permission behind it. A host hands it to an action or a tool through
``ActionContext.agent_runs``; a retained handle raises :class:`AgentRunRefused` once it is revoked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from .execution_leases import ExecutionLease
from .identity import ExtensionPrincipal


class AgentRunStatus(StrEnum):
    """Where one Agent execution stands. The first two are active, all others are final."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"
    WAITING_INPUT = "waiting_input"
    UNKNOWN = "unknown"

    @property
    def active(self) -> bool:
        return self in (AgentRunStatus.PENDING, AgentRunStatus.RUNNING)


class AgentRunRefused(PermissionError):
    """The operation was refused and it is certain that nothing was started or changed.

    ``code`` is a stable identifier (``not_permitted``, ``unknown_agent``, ``revoked``, ``bad_request`` …).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class AgentRunUncertain(RuntimeError):
    """The host cannot tell whether the operation took effect. Never repeat it without asking a person."""


@dataclass(frozen=True)
class SessionView:
    """Who is behind a handle, in words that a record may keep.

    ``mode`` is ``terminal``, ``password`` or ``disabled``. ``interactive`` is true only where standard
    input, standard output and the controlling terminal are one terminal. ``description`` says what was
    verified, for example ``terminal, uid 1000, pts/3, not password-verified``.
    """

    session_id: str
    mode: str
    interactive: bool
    description: str


@dataclass(frozen=True)
class AgentRunRequest:
    """One Agent execution to start.

    ``thread_id`` and ``idempotency_key`` are stable for one (run, step, attempt). ``input`` is the whole
    input of the child: ``{"task": JSON, "artifacts": [...]}``. ``metadata`` names the workflow run, step
    and attempt as strings. ``options`` are the host's own launch options, as it gave them out. ``lease``
    (0.2.8) must be valid in the transaction that creates the run; otherwise the request is refused with the
    code ``lease_lost``.
    """

    agent_ref: str
    thread_id: str
    idempotency_key: str
    input: Mapping[str, Any]
    metadata: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    lease: ExecutionLease | None = None


@dataclass(frozen=True)
class AgentRunView:
    """What the host knows of one Agent execution.

    ``output`` is the attributed answer (parsed JSON, else text) once ``status`` is ``success``.
    ``error_code`` and ``error_message`` say why it is final without success. ``badge`` is ``stub``,
    ``manual``, ``recorded`` or ``live``. ``evidence`` holds only safe numbers and keyed component versions.
    Times are microseconds since the epoch.
    """

    run_id: str
    thread_id: str
    agent_ref: str
    status: AgentRunStatus
    output: Any = None
    error_code: str | None = None
    error_message: str | None = None
    badge: str = "live"
    evidence: Mapping[str, Any] | None = None
    started_at: int | None = None
    finished_at: int | None = None


@runtime_checkable
class AgentRuns(Protocol):
    """The session-bound capability. All methods run on the host's event loop.

    A host whose records are made without waiting may offer ``admit_now(request) -> AgentRunView`` besides: like
    ``admit``, but not a coroutine. Callers look for it with ``getattr`` and fall back to ``admit`` (0.2.9).
    One that gives answers in a recorded order may offer ``delivered(workflow_run_id, step_ids) -> None``, which the
    caller calls, where it is there, once the answers of these steps are committed. It must not raise (0.2.9).
    """

    @property
    def principal(self) -> ExtensionPrincipal:
        """The caller this handle is bound to."""
        raise NotImplementedError

    @property
    def session(self) -> SessionView:
        """The session this handle is bound to."""
        raise NotImplementedError

    def authorize(self, agent_ref: str) -> None:
        """Return when the caller may start this Agent now; raise AgentRunRefused otherwise."""
        raise NotImplementedError

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Return when a launch with these options can run now; raise AgentRunRefused in words otherwise."""
        raise NotImplementedError

    def configuration_revision(self, options: Mapping[str, Any]) -> str:
        """An opaque keyed digest of everything declarative that shapes Agents started with ``options``."""
        raise NotImplementedError

    def configuration_components(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """A keyed digest for each part of the revision, by its path, so that a change can be named (0.2.9)."""
        raise NotImplementedError

    async def delete_runs(self, workflow_run_id: str) -> int:
        """Delete the host's records of all executions of one deleted workflow run; how many (0.2.9)."""
        raise NotImplementedError

    async def admit(self, request: AgentRunRequest) -> AgentRunView:
        """Start one execution and return once the host's own record of it exists.

        The view may already be final. The same idempotency key returns the same execution. Raises
        AgentRunRefused where nothing was started, AgentRunUncertain where the host cannot tell; any other
        exception and a time-out are to be read as uncertain.
        """
        raise NotImplementedError

    async def find(self, idempotency_key: str) -> AgentRunView | None:
        """The execution that was started with this key, or None where the host has no record of one."""
        raise NotImplementedError

    async def observe(self, run_id: str) -> AgentRunView:
        """Wait until the execution is final and return it."""
        raise NotImplementedError

    async def interrupt(self, run_id: str) -> AgentRunView:
        """Ask for the execution to stop and return what is known afterwards. Never rolls back effects."""
        raise NotImplementedError

    async def read_file(self, run_id: str, path: str, *, max_bytes: int) -> tuple[bytes, str]:
        """The bytes and media type of a file that the execution left in its own folder."""
        raise NotImplementedError
