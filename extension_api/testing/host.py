"""A host in a test: loads extensions, starts services and fires every event of the contract."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..agent_runs import AgentRuns
from ..assembly import AgentAssemblyDescriptor
from ..compaction import CompactionEvent
from ..execution_leases import ExecutionLeases
from ..hashing import canonical_hash
from ..identity import ExtensionPrincipal
from ..lifecycle import TaskInfo, TaskOutcome
from ..middleware import AgentBuildContext, AgentScope, HostPolicySnapshot, MiddlewarePlacement
from ..observers import SystemModelRequest, SystemModelResult, SystemOperationKind
from ..plugins import ActionContext, ToolContext
from ..run_evidence import RunEvidenceReader
from ..services import ExtensionRuntimeDeps, ExtensionService
from ..state import ExtensionData
from .calls import PluginCalls
from .middlewares import collect_middlewares
from .notify import Notifier
from .objects import FakeRuntime, fake_descriptor
from .registry import Diagnostic, FakeRegistry, Registered

LIFECYCLE_BUDGET_SECONDS = 3.0
SERVICE_STOP_SECONDS = 30.0


@dataclass
class Task:
    """A live task. ``outcome`` may be set; otherwise it follows from how the block ends."""

    info: TaskInfo
    store: ExtensionData
    runtime: FakeRuntime = field(repr=False)
    outcome: TaskOutcome | None = None


class HostDriver:
    """One host with the extensions that a test loads into it.

    ::

        host = HostDriver(agent_runs=FakeAgentRuns({"lead_agent": [{"n": 1}]}))
        host.load(install, {"threshold": 3})
        async with host:
            async with host.task(agent_name="lead_agent") as task:
                await host.model_call(SystemOperationKind.TITLE, "Name this", response="A name", task=task)
            answer = await host.call_action("my.plugin", "start", {"n": 1})
        assert host.diagnostics == []

    What an extension does wrong in a hook is contained and listed in ``diagnostics``; what goes wrong in
    ``load``, in an action or in a tool is raised. ``budget`` is the time in seconds that all start hooks, or
    all stop hooks, of one task have together.
    """

    def __init__(
        self,
        *,
        budget: float = LIFECYCLE_BUDGET_SECONDS,
        stop_seconds: float = SERVICE_STOP_SECONDS,
        policy: HostPolicySnapshot | None = None,
        principal: ExtensionPrincipal | None = None,
        agent_runs: AgentRuns | None = None,
        agent_runs_for: Callable[[Mapping[str, Any]], AgentRuns] | None = None,
        run_evidence_reader: RunEvidenceReader | None = None,
        execution_leases: ExecutionLeases | None = None,
        workspace_root: str | None = None,
        registry: FakeRegistry | None = None,
    ) -> None:
        self.registry = registry or FakeRegistry()
        self.app_store = ExtensionData("app")
        self.diagnostics: list[Diagnostic] = []
        self.principal = principal or ExtensionPrincipal("tester", is_admin=True)
        self.deps = ExtensionRuntimeDeps(
            app_store=self.app_store,
            policy=policy or HostPolicySnapshot(),
            run_evidence_reader=run_evidence_reader,
            workspace_root=workspace_root,
            execution_leases=execution_leases,
            agent_runs_for=agent_runs_for,
        )
        self._budget = budget
        self._stop_seconds = stop_seconds
        self._agent_runs = agent_runs
        self._plugins = PluginCalls(self.registry)
        self._notifier = Notifier(self.diagnostics)
        self._attempted: list[Registered[ExtensionService]] = []
        self._tasks = 0

    def load(
        self,
        install: Callable[..., None],
        config: Mapping[str, Any] | None = None,
        *,
        use: str | None = None,
    ) -> None:
        """Load one extension; raises what its marker, its install function or a contribution breaks."""
        self.registry.load(install, config, use=use)

    async def __aenter__(self) -> HostDriver:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the services in registration order; a failing one is reported and the next is started."""
        self._notifier.resume()
        for service in self.registry.services:
            self._attempted.append(service)
            await self._notifier.call(service, "start", self.deps)

    async def stop(self) -> None:
        """Suspend detached notifications, then stop every service whose start was attempted, in reverse."""
        self._notifier.suspend()
        await self._notifier.drain(self._stop_seconds)
        while self._attempted:
            await self._notifier.call(self._attempted.pop(), "stop", seconds=self._stop_seconds)

    async def drain(self) -> None:
        """Wait until every detached notification was delivered."""
        await self._notifier.drain()

    @asynccontextmanager
    async def task(
        self,
        *,
        task_id: str | None = None,
        run_id: str | None = "run-1",
        thread_id: str = "thread-1",
        kind: Literal["lead", "subagent"] = "lead",
        parent_task_id: str | None = None,
        agent_name: str | None = None,
        resumed: bool = False,
        tool_call_id: str | None = None,
    ) -> AsyncIterator[Task]:
        """One task around the block: start hooks before it, stop hooks after it.

        The outcome is completed, aborted where the block is cancelled, failed where it raises. Without a run
        id there are no hooks. ``tool_call_id`` is the scope id of a subagent's store.
        """
        self._tasks += 1
        identity = task_id or f"task-{self._tasks}"
        info = TaskInfo(identity, run_id or "", thread_id, kind, parent_task_id, agent_name, resumed)
        store = ExtensionData(tool_call_id or info.task_id)
        task = Task(info, store, FakeRuntime(store))
        hooks = self.registry.task_lifecycles if run_id else []
        await self._notifier.batch(hooks, "on_task_start", self.app_store, store, info, budget=self._budget)
        outcome = TaskOutcome.FAILED
        try:
            yield task
            outcome = TaskOutcome.COMPLETED
        except asyncio.CancelledError:
            outcome = TaskOutcome.ABORTED
            raise
        finally:
            outcome = task.outcome or outcome
            await self._notifier.batch(
                hooks, "on_task_stop", self.app_store, store, info, outcome, budget=self._budget
            )

    async def model_call(
        self,
        kind: SystemOperationKind,
        messages: Sequence[Any] = (),
        *,
        response: Any = None,
        error: BaseException | None = None,
        call: Callable[[], Awaitable[Any]] | None = None,
        model_name: str | None = "test-model",
        invoke_config: Mapping[str, Any] | None = None,
        task: Task | None = None,
    ) -> Any:
        """Make one model call of the host's own and report it; returns the response or raises the error.

        ``call`` replaces ``response`` and ``error``. Where it is cancelled, the notification is detached and
        the cancellation passes on. Without ``task`` the observers get a detached store.
        """
        request = SystemModelRequest(messages, model_name, copy.deepcopy(invoke_config))
        store = ExtensionData(f"detached:{kind.value}") if task is None else task.store
        observers = self.registry.system_model_observers
        hook = "on_system_model_call"
        started = time.monotonic()
        try:
            if call is not None:
                response = await call()
            elif error is not None:
                raise error
        except BaseException as raised:
            result = SystemModelResult(None, raised, (time.monotonic() - started) * 1000)
            if isinstance(raised, asyncio.CancelledError):
                self._notifier.detach(observers, hook, self.app_store, store, kind, request, result)
            elif isinstance(raised, Exception):
                await self._notifier.batch(observers, hook, self.app_store, store, kind, request, result)
            raise
        result = SystemModelResult(response, None, (time.monotonic() - started) * 1000)
        await self._notifier.batch(observers, hook, self.app_store, store, kind, request, result)
        return response

    def assemble(
        self, descriptor: AgentAssemblyDescriptor | None = None, **changes: Any
    ) -> AgentAssemblyDescriptor:
        """Report an assembled agent: ``descriptor``, or ``fake_descriptor(**changes)``."""
        descriptor = descriptor or fake_descriptor(**changes)
        before = descriptor.fingerprint
        for observer in self.registry.assembly_observers:
            try:
                observer.value.on_agent_assembled(self.app_store, descriptor)
            except Exception as error:  # noqa: BLE001 - the agent is built anyway
                self._notifier.fail(observer.use, "on_agent_assembled", error)
            if _fingerprint_now(descriptor) != before:
                self._notifier.fail(
                    observer.use, "on_agent_assembled", ValueError("it changed the descriptor it was given")
                )
        return descriptor

    def compact(
        self,
        sources: Iterable[object],
        summary: object,
        *,
        kept: int = 0,
        transform_kind: str = "summarization",
        transform_version: str = "1",
    ) -> CompactionEvent:
        """Report that the contents ``sources`` became ``summary``; delivered off the path (see ``drain``)."""
        hashes = tuple(canonical_hash(content) for content in sources)
        event = CompactionEvent(
            transform_kind, transform_version, hashes, canonical_hash(summary), len(hashes), kept
        )
        self._notifier.detach(
            self.registry.compaction_observers,
            "on_context_compacted",
            self.app_store,
            ExtensionData("detached:compaction"),
            event,
        )
        return event

    def middlewares(self, ctx: AgentBuildContext | None = None) -> list[Registered[MiddlewarePlacement]]:
        """What the contributors give to an agent, in the order in which it wraps, outermost first."""
        ctx = ctx or AgentBuildContext(AgentScope.LEAD, policy=self.deps.policy)
        return collect_middlewares(self.registry, self.app_store, ctx, self._notifier)

    def configure(
        self, namespace: str, settings: Mapping[str, object] | None = None, *, enabled: bool = True
    ) -> None:
        """Set a plugin's settings (those not given keep their defaults) and whether it is enabled.

        A plugin that was never configured counts as enabled. Raises InvalidContribution for what its
        declarations do not admit.
        """
        self._plugins.configure(namespace, settings or {}, enabled=enabled)

    async def call_action(
        self,
        namespace: str,
        name: str,
        payload: Mapping[str, Any] | None = None,
        *,
        principal: ExtensionPrincipal | None = None,
    ) -> Any:
        """Call an action with a copy of ``payload`` and return its answer as JSON has it.

        Raises LookupError where there is no such action, PermissionError where the plugin is disabled, and
        TypeError where the answer is not JSON. Without ``principal`` the host's own is the caller.
        """
        settings = self._plugins.settings(namespace)
        context = ActionContext(principal or self.principal, settings, agent_runs=self._agent_runs)
        return await self._plugins.call_action(namespace, name, payload or {}, context)

    async def call_tool(
        self,
        namespace: str,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        thread_id: str | None = "thread-1",
        principal: ExtensionPrincipal | None = None,
    ) -> Any:
        """Call a model tool as a model on ``thread_id`` would; see ``call_action``."""
        settings = self._plugins.settings(namespace)
        caller = principal or self.principal
        context = ToolContext(caller, settings, thread_id, agent_runs=self._agent_runs)
        return await self._plugins.call_tool(namespace, name, arguments or {}, context)


def _fingerprint_now(descriptor: AgentAssemblyDescriptor) -> str | None:
    try:
        return replace(descriptor).fingerprint
    except Exception:  # noqa: BLE001 - a descriptor that lost its fingerprint was changed
        return None
