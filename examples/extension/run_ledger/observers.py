"""The four that watch. None of them does anything slow: they count, and the service writes."""

from __future__ import annotations

import logging
import time

from deerflow_extension_api import (
    AgentAssemblyDescriptor,
    AgentAssemblyObserver,
    CompactionEvent,
    ContextCompactionObserver,
    ExtensionData,
    SystemModelCallObserver,
    SystemModelRequest,
    SystemModelResult,
    SystemOperationKind,
    TaskInfo,
    TaskLifecycleContributor,
    TaskOutcome,
)

from .ledger import StartedAt, ledger_of

logger = logging.getLogger(__name__)


class TaskTimer(TaskLifecycleContributor):
    """Times every task, lead or subagent."""

    async def on_task_start(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo
    ) -> None:
        task_store.set(StartedAt(time.monotonic()))

    async def on_task_stop(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        ledger = ledger_of(app_store)
        ledger.count(f"{info.kind} {outcome.value}")
        started = task_store.get(StartedAt)
        if started is not None:  # the start is skipped where others have spent the budget
            ledger.took(time.monotonic() - started.seconds)


class SystemCallCounter(SystemModelCallObserver):
    """Counts the calls that the host makes for itself: titles, memory, goals, summaries."""

    async def on_system_model_call(
        self,
        app_store: ExtensionData,
        task_store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        ledger_of(app_store).count(f"{kind.value} {'failed' if result.error is not None else 'ok'}")


class AssemblyWatcher(AgentAssemblyObserver):
    """Notices when an agent is built differently than before. Synchronous, because building one is."""

    def on_agent_assembled(self, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        if ledger_of(app_store).built(descriptor.agent_name, descriptor.fingerprint):
            logger.warning("agent %s is built differently than before", descriptor.agent_name)


class CompactionCounter(ContextCompactionObserver):
    """Counts messages that became a summary. Its store is a detached one: keep nothing in there."""

    async def on_context_compacted(
        self, app_store: ExtensionData, task_store: ExtensionData, event: CompactionEvent
    ) -> None:
        ledger_of(app_store).count("messages compacted", event.compacted_message_count)
