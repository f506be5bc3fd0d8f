"""What an agent backend is: start, observe, interrupt, read a file, describe. And the registry of backends.

A backend runs Agents; the host keeps the record of every child run, and tells observers. All methods run on
the host's loop and must not block it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from extension_api.agent_runs import AgentRunStatus

from .names import STUB


class BackendUnavailable(RuntimeError):
    """This workbench cannot run that backend. ``str()`` is a sentence for people."""


class FileRefused(RuntimeError):
    """A file of a child run cannot be read.

    ``code`` is stable: bad_path, file_not_found, file_too_large; of a folder on this machine also not_a_file,
    file_changed and secret_in_file.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


#: Counts recorded child runs: how often an entry has answered within a workflow run.
EarlierCalls = Callable[[str, int], int]


@dataclass(frozen=True)
class Call:
    """One execution to start. ``settings`` are the agent's own keys of the configuration.

    ``input`` is the child's whole input, ``{"task": JSON, "artifacts": […]}``; ``run_id``, ``step_id`` and
    ``attempt`` name the workflow step.
    """

    child_run_id: str
    agent_ref: str
    thread_id: str
    input: Mapping[str, Any]
    run_id: str
    step_id: str
    attempt: int
    options: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ChildRef:
    """A recorded child run, as much as the record keeps of it, and the agent's settings of now.

    ``input`` is the child's whole input, None where nobody needs it; ``run_id``, ``step_id`` and ``attempt`` name
    the workflow step.
    """

    child_run_id: str
    thread_id: str
    agent_ref: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    input: Mapping[str, Any] | None = None
    run_id: str = ""
    step_id: str = ""
    attempt: int = 1


@dataclass(frozen=True)
class Answer:
    """How an execution ends. ``output`` counts for ``success`` only; an error has a code and a sentence.

    ``answered_by`` says who and in which session, where a person gave the answer; it is kept in the events.
    """

    status: AgentRunStatus
    output: Any = None
    error_code: str | None = None
    error_message: str | None = None
    answered_by: str | None = None


@dataclass(frozen=True)
class SystemCall:
    """A model call of the host itself around an execution. Exactly one of ``reply`` and ``fail`` counts."""

    kind: str
    reply: Any = None
    fail: str | None = None
    after: float = 0.0


@dataclass(frozen=True)
class Compaction:
    """Messages that were folded into one summary during an execution."""

    messages: tuple[Any, ...]
    summary: Any
    kept: int = 0
    kind: str = "summarization"
    version: str = "1"


@dataclass(frozen=True)
class Subagent:
    """A subagent that an execution delegated to. ``tool_call`` is the id of the delegating call."""

    agent: str
    tool_call: str | None = None
    fail: str | None = None
    after: float = 0.0


class Turn(NamedTuple):
    """The place of an answer in a recorded order: its number is recorded, ``wait`` returns when it is due."""

    number: int
    wait: Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Started:
    """What a backend says at admission; the host records it before anything else happens.

    ``answer`` and ``due`` (microseconds since the epoch) are known where the backend decides at once; else
    both are None and ``observe`` finds the answer. A durable execution outlives the process and can be
    observed by the next one. ``counted`` is the stub entry that counts this call, if any. ``turn`` is awaited before
    a known answer is given.
    """

    badge: str
    durable: bool
    answer: Answer | None = None
    due: int | None = None
    counted: int | None = None
    files: Mapping[str, str] | None = None
    system: tuple[SystemCall, ...] = ()
    compact: Compaction | None = None
    subagents: tuple[Subagent, ...] = ()
    turn: Turn | None = None


@dataclass(frozen=True)
class AgentDescription:
    """What shapes an agent, as far as the backend knows it. ``tools`` maps names to (description, schema)."""

    effective_model: str
    requested_model: str | None = None
    model_parameters: Mapping[str, Any] = field(default_factory=dict)
    prompt: str = ""
    tools: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    thinking_enabled: bool = False
    reasoning_effort: Any = None
    skills: tuple[str, ...] = ()
    policies: Mapping[str, Any] = field(default_factory=dict)


class Backend(Protocol):
    """One way to run Agents. A backend that holds something open has a coroutine method ``close`` besides."""

    name: str
    durable: bool

    def describe(
        self, agent_ref: str, settings: Mapping[str, Any], options: Mapping[str, Any]
    ) -> AgentDescription:
        """What the agent is made of, prompts included: the source of evidence and of the revision."""

    def start(self, call: Call, earlier: EarlierCalls, now: int) -> Started:
        """Accept a call. Raises BackendUnavailable where it is certain that nothing was started.

        Called within the transaction that records the child run, so it must not wait for anything; a backend
        that has to ask a remote server answers ``Started`` without an answer and does so in ``observe``.
        """

    async def observe(self, child: ChildRef, call: Call | None) -> Answer:
        """Wait until the execution is final. Asked only where ``start`` gave no answer.

        ``call`` is None for an execution that an earlier process started. Being cancelled stops the waiting,
        and for an execution inside this process the execution itself.
        """

    async def interrupt(self, child: ChildRef) -> bool | None:
        """Ask an execution outside this process to stop.

        True where ``observe`` goes on and says how it ended. Anything else: there is nothing to stop but the
        observation, and the host ends the execution as interrupted.
        """

    async def read_file(
        self, child: ChildRef, files: Mapping[str, str] | None, path: str, *, max_bytes: int
    ) -> tuple[bytes, str]:
        """Bytes and media type of a file of the execution's own folder. Raises FileRefused."""


@runtime_checkable
class KeepsFolders(Protocol):
    """A backend that keeps something of its child runs outside the host's store."""

    def discard(self, child_run_ids: Sequence[str]) -> None:
        """Remove what is kept of child runs whose records are gone. In the host's loop; never raises."""

    def sweep(self, known: Callable[[str], bool]) -> None:
        """Remove what is kept of child runs that ``known`` does not know: a crash left it. Never raises."""


@runtime_checkable
class KeepsOrder(Protocol):
    """A backend that gives answers in a recorded order (``Started.turn``)."""

    def rejoin(self, run_id: str, step_id: str, turn: int, still_open: Mapping[str, int]) -> Turn:
        """The turn of an execution that an earlier process started in the workflow run ``run_id``.

        ``still_open`` are the turns of all its executions without an end that have one, by step.
        """

    def delivered(self, run_id: str, step_ids: Collection[str]) -> None:
        """The answers of these steps are committed: what is given from now on comes after them. Never raises."""


class Backends:
    """The backends of this build, by name."""

    def __init__(self, backends: Mapping[str, Backend]) -> None:
        self._backends = dict(backends)
        #: The backends that give answers in a recorded order. Asked for once: the path of each step comes by here.
        self.ordering: Final = [each for each in self._backends.values() if isinstance(each, KeepsOrder)]

    def get(self, name: str) -> Backend:
        """The backend; raises BackendUnavailable in words where this build has none of that name."""
        backend = self._backends.get(name)
        if backend is None:
            have = ", ".join(sorted(self._backends)) or "none"
            raise BackendUnavailable(
                f"the backend {name!r} is not part of this workbench yet (available: {have})"
            )
        return backend

    async def close(self) -> None:
        """Close what the backends hold open, such as connections. Nothing may be asked afterwards."""
        for backend in self._backends.values():
            close = getattr(backend, "close", None)
            if close is not None:
                await close()

    def keeping(self) -> list[KeepsFolders]:
        """The backends that keep something beside the host's records."""
        return [backend for backend in self._backends.values() if isinstance(backend, KeepsFolders)]

    def __contains__(self, name: object) -> bool:
        return name in self._backends

    def real(self) -> list[str]:
        """Names of the backends that ask something other than a stub set."""
        return sorted(name for name in self._backends if name != STUB)
