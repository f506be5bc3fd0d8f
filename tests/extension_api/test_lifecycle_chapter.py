"""The four observers of the lifecycle chapter, registered by one extension and driven by the test kit."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from extension_api import (
    AgentAssemblyDescriptor,
    CompactionEvent,
    ExtensionData,
    ExtensionRegistry,
    SystemModelRequest,
    SystemModelResult,
    SystemOperationKind,
    TaskInfo,
    TaskOutcome,
    canonical_hash,
    extension,
)
from extension_api.testing import HostDriver

logger = logging.getLogger("tests.observers")


@dataclass
class StartedAt:
    seconds: float


class Endings:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[tuple[str, str]] = Counter()

    def add(self, kind: str, outcome: TaskOutcome) -> None:
        with self._lock:
            self.counts[kind, outcome.value] += 1


class Timer:
    async def on_task_start(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo
    ) -> None:
        task_store.set(StartedAt(time.monotonic()))

    async def on_task_stop(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        started = task_store.get(StartedAt)
        took = "unknown" if started is None else f"{time.monotonic() - started.seconds:.3f}"
        app_store.get_or_init(Endings, Endings).add(info.kind, outcome)
        logger.info("%s %s ended %s, seconds: %s", info.kind, info.task_id, outcome.value, took)


class CallLogger:
    async def on_system_model_call(
        self,
        app_store: ExtensionData,
        task_store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        how = "ok" if result.error is None else type(result.error).__name__
        logger.info(
            "%s on %s: %s, %d message(s), scope %s",
            kind.value,
            request.model_name,
            how,
            len(request.messages),
            task_store.scope_id,
        )


@dataclass
class LastSeen:
    by_agent: dict[str, str] = field(default_factory=dict)


class DriftWatcher:
    def on_agent_assembled(self, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        seen = app_store.get_or_init(LastSeen, LastSeen).by_agent
        before = seen.get(descriptor.agent_name)
        seen[descriptor.agent_name] = descriptor.fingerprint
        if before not in (None, descriptor.fingerprint):
            logger.warning("%s is no longer what it was", descriptor.agent_name)


class FoldLogger:
    async def on_context_compacted(
        self, app_store: ExtensionData, task_store: ExtensionData, event: CompactionEvent
    ) -> None:
        app_store.set(event)
        task_store.set(StartedAt(0.0))
        logger.info("%d folded, %d kept", event.compacted_message_count, event.kept_message_count)


@extension(api="0.2.0", name="observers")
def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    registry.task_lifecycle(Timer())
    registry.system_model_observer(CallLogger())
    registry.agent_assembly_observer(DriftWatcher())
    registry.context_compaction_observer(FoldLogger())


@pytest.fixture
def host(caplog: pytest.LogCaptureFixture) -> HostDriver:
    caplog.set_level(logging.INFO, logger.name)
    driver = HostDriver()
    driver.load(install)
    return driver


async def test_the_timer_measures_each_task_and_tallies_outcomes(
    host: HostDriver, caplog: pytest.LogCaptureFixture
) -> None:
    async with host:
        async with host.task(task_id="t-1", agent_name="lead_agent") as task:
            assert task.store.get(StartedAt) is not None
            async with host.task(kind="subagent", parent_task_id="t-1", tool_call_id="call-7") as inner:
                assert inner.store.scope_id == "call-7"
                assert inner.store.get(StartedAt) is not task.store.get(StartedAt)
        with pytest.raises(LookupError):
            async with host.task():
                raise LookupError("the run failed")
    endings = host.app_store.get(Endings)
    assert endings is not None
    assert endings.counts == {("lead", "completed"): 1, ("subagent", "completed"): 1, ("lead", "failed"): 1}
    assert any(message.startswith("lead t-1 ended completed, seconds: ") for message in caplog.messages)
    assert host.diagnostics == []


async def test_a_cancelled_task_is_aborted(host: HostDriver) -> None:
    entered = asyncio.Event()

    async def run() -> None:
        async with host.task():
            entered.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(run())
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    endings = host.app_store.get(Endings)
    assert endings is not None
    assert endings.counts == {("lead", "aborted"): 1}


async def test_an_outcome_may_be_set(host: HostDriver) -> None:
    async with host.task() as task:
        task.outcome = TaskOutcome.ABORTED
    endings = host.app_store.get(Endings)
    assert endings is not None
    assert endings.counts == {("lead", "aborted"): 1}


async def test_the_call_logger_sees_success_failure_and_cancellation(
    host: HostDriver, caplog: pytest.LogCaptureFixture
) -> None:
    async with host, host.task(task_id="t-1") as task:
        answer = await host.model_call(
            SystemOperationKind.TITLE, "Name this conversation", response="A title", task=task
        )
        assert answer == "A title"
        failure = RuntimeError("the provider is down")
        with pytest.raises(RuntimeError) as raised:
            await host.model_call(SystemOperationKind.GOAL, ["a", "b"], error=failure, task=task)
        assert raised.value is failure
        entered = asyncio.Event()

        async def slow() -> str:
            entered.set()
            await asyncio.Event().wait()
            return "never"

        running = asyncio.create_task(host.model_call(SystemOperationKind.SUMMARIZATION, call=slow))
        await entered.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await host.drain()
    calls = [message for message in caplog.messages if " on test-model: " in message]
    assert calls == [
        "title on test-model: ok, 1 message(s), scope t-1",
        "goal on test-model: RuntimeError, 2 message(s), scope t-1",
        "summarization on test-model: CancelledError, 0 message(s), scope detached:summarization",
    ]


def test_the_drift_watcher_warns_of_a_changed_agent_only(
    host: HostDriver, caplog: pytest.LogCaptureFixture
) -> None:
    host.assemble(agent_name="lead_agent")
    host.assemble(agent_name="lead_agent", build={"git_commit": "other"}, requested_model="other")
    host.assemble(agent_name="helper", effective_model="another")
    assert caplog.messages == []
    host.assemble(agent_name="lead_agent", base_prompt_hash=canonical_hash("another prompt"))
    assert caplog.messages == ["lead_agent is no longer what it was"]


async def test_the_fold_logger_can_match_messages_by_their_content(host: HostDriver) -> None:
    multimodal = [{"type": "text", "text": "look"}, {"type": "image", "data": "…"}]
    async with host:
        host.compact(["hello", multimodal], "a summary", kept=3)
        assert host.app_store.get(CompactionEvent) is None
        await host.drain()
    event = host.app_store.get(CompactionEvent)
    assert event == CompactionEvent(
        "summarization",
        "1",
        (canonical_hash("hello"), canonical_hash([dict(reversed(part.items())) for part in multimodal])),
        canonical_hash("a summary"),
        2,
        3,
    )
