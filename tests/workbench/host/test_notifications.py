"""Budgets, containment and the detached loop, against hooks that misbehave in every way."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from extension_api import (
    CompactionEvent,
    ExtensionData,
    SystemModelRequest,
    SystemModelResult,
    SystemOperationKind,
    TaskInfo,
    TaskOutcome,
)
from workbench.host.diagnostics import KEPT, Diagnostics, name_of
from workbench.host.notifications import DetachedLoop, Notifier
from workbench.host.registry import Collector, RecordRegistry

from .kit import eventually

INFO = TaskInfo("t", "r", "th", "lead")
EVENT = CompactionEvent("summarization", "1", ("a",), "b", 1, 0)


class Boom(BaseException):
    pass


class Hook:
    """Calls ``act`` in every hook, and remembers that it was called."""

    def __init__(self, name: str, calls: list[str], act: Any = None) -> None:
        self.name, self.calls, self.act = name, calls, act

    async def on_task_start(self, app: Any, task: Any, info: TaskInfo) -> None:
        self.calls.append(self.name)
        if self.act is not None:
            await self.act()

    async def on_task_stop(self, app: Any, task: Any, info: TaskInfo, outcome: TaskOutcome) -> None:
        self.calls.append(f"stop {self.name}")

    async def on_system_model_call(
        self, app: Any, task: Any, kind: Any, request: SystemModelRequest, result: SystemModelResult
    ) -> None:
        self.calls.append(f"{self.name} {type(result.error).__name__}")
        if self.act is not None:
            await self.act()

    async def on_context_compacted(self, app: Any, task: Any, event: CompactionEvent) -> None:
        self.calls.append(f"{self.name} {threading.current_thread().name}")
        if self.act is not None:
            await self.act()


class Nothing:
    """Implements no hook at all."""


def build(bucket: str, *hooks: Any, budget: float = 60.0) -> tuple[Notifier, Diagnostics, DetachedLoop]:
    collector = Collector()
    for index, hook in enumerate(hooks):
        registry = RecordRegistry(collector, f"ext{index}:install", index)
        getattr(registry, bucket)(hook)
        registry.seal()
    diagnostics, detached = Diagnostics(), DetachedLoop()
    notifier = Notifier(collector.snapshot(), ExtensionData("app"), diagnostics, detached, budget)
    return notifier, diagnostics, detached


def told(diagnostics: Diagnostics) -> list[tuple[str, str, str]]:
    return [(entry.level, entry.source, entry.message) for entry in diagnostics.all()]


async def _raise(error: BaseException) -> None:
    raise error


async def _hang() -> None:
    await asyncio.sleep(60)


class Stubborn:
    """Ignores its cancellation until it is released."""

    def __init__(self) -> None:
        self.released = False
        self.ended = False

    async def __call__(self) -> None:
        while not self.released:
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                pass
        self.ended = True


async def _block() -> None:
    time.sleep(0.7)  # noqa: ASYNC251 - that is what it is for


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no\nreally"), "on_task_start raised ValueError: no"),
        (TimeoutError("mine"), "on_task_start raised TimeoutError: mine"),
        (asyncio.CancelledError(), "on_task_start raised CancelledError"),
        (SystemExit(3), "on_task_start raised SystemExit: 3"),
        (KeyboardInterrupt(), "on_task_start raised KeyboardInterrupt"),
        (Boom("x"), "on_task_start raised Boom: x"),
    ],
)
async def test_what_a_hook_raises_is_named_and_the_next_one_is_called(
    error: BaseException, words: str
) -> None:
    calls: list[str] = []
    notifier, diagnostics, _ = build(
        "task_lifecycle", Hook("a", calls, lambda: _raise(error)), Hook("b", calls)
    )
    await notifier.task_start(ExtensionData("t"), INFO)
    assert calls == ["a", "b"]
    assert told(diagnostics) == [("error", "ext0:install", words)]


async def test_a_missing_method_is_contained() -> None:
    calls: list[str] = []
    notifier, diagnostics, _ = build("task_lifecycle", Nothing(), Hook("b", calls))
    await notifier.task_start(ExtensionData("t"), INFO)
    assert calls == ["b"]
    assert "AttributeError" in told(diagnostics)[0][2]


async def test_a_hook_that_is_not_asynchronous_is_contained() -> None:
    class Plain:
        def on_task_start(self, app: Any, task: Any, info: TaskInfo) -> None:
            return None

    notifier, diagnostics, _ = build("task_lifecycle", Plain())
    await notifier.task_start(ExtensionData("t"), INFO)
    assert told(diagnostics)[0][:2] == ("error", "ext0:install")


async def test_the_budget_is_one_for_the_batch_and_the_rest_is_skipped() -> None:
    calls: list[str] = []
    stubborn = Stubborn()
    notifier, diagnostics, _ = build(
        "task_lifecycle", Hook("a", calls, stubborn), Hook("b", calls), Hook("c", calls), budget=0.05
    )
    await notifier.task_start(ExtensionData("t"), INFO)
    assert (calls, stubborn.ended) == (["a"], False)
    assert told(diagnostics) == [
        ("warning", "ext0:install", "on_task_start was stopped, the budget was spent"),
        (
            "warning",
            "ext1:install",
            "on_task_start was skipped, the budget was spent: ext1:install, ext2:install",
        ),
    ]
    stubborn.released = True
    await eventually(lambda: stubborn.ended)
    patient, _, _ = build("task_lifecycle", *(Hook(name, calls) for name in "ab"))
    await patient.task_stop(ExtensionData("t"), INFO, TaskOutcome.COMPLETED)
    assert calls == ["a", "stop a", "stop b"]


async def test_a_spent_start_leaves_the_stop_its_own_budget() -> None:
    calls: list[str] = []
    notifier, _, _ = build("task_lifecycle", Hook("a", calls, _hang), Hook("b", calls), budget=0.05)
    await notifier.task_start(ExtensionData("t"), INFO)
    await notifier.task_stop(ExtensionData("t"), INFO, TaskOutcome.COMPLETED)
    assert calls == ["a", "stop a", "stop b"]


async def test_a_hook_gets_what_the_ones_before_it_left() -> None:
    calls: list[str] = []
    notifier, diagnostics, _ = build(
        "task_lifecycle", Hook("a", calls, lambda: asyncio.sleep(0.15)), Hook("b", calls, _hang), budget=2.0
    )
    await notifier.task_start(ExtensionData("t"), INFO)
    assert calls == ["a", "b"]
    assert [entry[1] for entry in told(diagnostics)] == ["ext1:install"]
    assert notifier.spent["ext0:install"] >= 0.1


async def test_a_hook_that_blocks_the_loop_is_named() -> None:
    calls: list[str] = []
    notifier, diagnostics, _ = build("task_lifecycle", Hook("a", calls, _block), Hook("b", calls), budget=0.1)
    await notifier.task_start(ExtensionData("t"), INFO)
    assert calls == ["a"]
    assert any(entry[2].startswith("on_task_start blocked the host for ") for entry in told(diagnostics))


async def test_a_cancellation_of_the_host_passes_through() -> None:
    calls: list[str] = []
    notifier, diagnostics, _ = build("task_lifecycle", Hook("a", calls, _hang), Hook("b", calls))
    task = asyncio.ensure_future(notifier.task_start(ExtensionData("t"), INFO))
    await eventually(lambda: calls == ["a"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (calls, told(diagnostics)) == (["a"], [])


async def _system(notifier: Notifier, call: Any, store: ExtensionData | None = None) -> Any:
    return await notifier.system_call(
        SystemOperationKind.GOAL, SystemModelRequest("prompt"), call, store if store else ExtensionData("t")
    )


async def test_a_system_call_is_told_on_success_and_failure_and_passes_unchanged() -> None:
    calls: list[str] = []
    boom = ValueError("model")
    notifier, diagnostics, _ = build(
        "system_model_observer", Hook("a", calls, lambda: _raise(Boom())), Hook("b", calls)
    )

    async def works() -> str:
        return "answer"

    assert await _system(notifier, works) == "answer"
    with pytest.raises(ValueError) as caught:
        await _system(notifier, lambda: _raise(boom))
    assert caught.value is boom
    assert calls == ["a NoneType", "b NoneType", "a ValueError", "b ValueError"]
    assert [entry[2] for entry in told(diagnostics)] == ["on_system_model_call raised Boom"] * 2


async def test_without_a_live_task_the_observer_gets_a_detached_store() -> None:
    stores: list[ExtensionData] = []

    class Observer:
        async def on_system_model_call(self, app: Any, task: ExtensionData, *rest: Any) -> None:
            stores.append(task)

    notifier, _, _ = build("system_model_observer", Observer())

    async def works() -> None:
        return None

    for _ in range(2):
        await notifier.system_call(SystemOperationKind.GOAL, SystemModelRequest(), works, None)
    assert stores[0] is not stores[1]
    assert all(store.scope_id.startswith("detached") for store in stores)


async def test_a_cancelled_system_call_is_told_on_the_other_loop_and_stays_cancelled() -> None:
    calls: list[str] = []
    notifier, _, detached = build("system_model_observer", Hook("a", calls))
    task = asyncio.ensure_future(_system(notifier, _hang))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: calls == ["a CancelledError"])
    detached.suspend()
    task = asyncio.ensure_future(_system(notifier, _hang))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    detached.close()
    assert (calls, detached.dropped) == (["a CancelledError"], 1)


async def test_compaction_is_told_on_the_other_loop_and_contained() -> None:
    calls: list[str] = []
    notifier, diagnostics, detached = build(
        "context_compaction_observer", Hook("a", calls, lambda: _raise(SystemExit())), Hook("b", calls)
    )
    notifier.compacted(EVENT)
    await eventually(lambda: len(calls) == 2)
    detached.close()
    assert calls == ["a workbench-notifications", "b workbench-notifications"]
    assert [entry[2] for entry in told(diagnostics)] == ["on_context_compacted raised SystemExit"]


async def test_an_observer_that_hangs_does_not_hold_up_the_end() -> None:
    calls: list[str] = []
    notifier, _, detached = build("context_compaction_observer", Hook("a", calls, _hang))
    notifier.compacted(EVENT)
    await eventually(lambda: len(calls) == 1)
    detached.close()


async def test_nobody_registered_starts_no_thread() -> None:
    notifier, _, detached = build("task_lifecycle")
    before = threading.active_count()
    notifier.compacted(EVENT)

    async def works() -> int:
        return 1

    assert await _system(notifier, works) == 1
    assert threading.active_count() == before
    detached.close()


def test_the_latest_diagnostics_are_kept_and_their_length_is_bounded() -> None:
    diagnostics = Diagnostics()
    for index in range(KEPT + 5):
        diagnostics.add("info", "s", f"{index} " + "x" * 1000)
    kept = diagnostics.all()
    assert len(kept) == KEPT
    assert kept[0].message.startswith("5 ")
    assert len(kept[0].message) == 600


def test_an_exception_that_cannot_be_printed_is_named() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert name_of(Mute()) == "Mute"
    assert name_of(ValueError()) == "ValueError"
