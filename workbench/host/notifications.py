"""Telling extensions what happens, under the budgets of the contract, so that none of them can do harm.

Lifecycle hooks and system-model observers are awaited on the path of the run, in the host's loop. What is
detached (compaction, and system-model calls that were cancelled) goes to a loop in a thread of its own, which
exists only where somebody is registered for it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from extension_api.compaction import CompactionEvent
from extension_api.lifecycle import TaskInfo, TaskOutcome
from extension_api.observers import SystemModelRequest, SystemModelResult, SystemOperationKind
from extension_api.state import ExtensionData
from workflows_core.model import new_id

from .diagnostics import Diagnostics, name_of
from .registry import Contribution, ExtensionSnapshot

BATCH_SECONDS: Final = 3.0
#: What takes longer than this without having a budget is named.
SLOW_SECONDS: Final = 3.0
_JOIN_SECONDS: Final = 1.0

T = TypeVar("T")
Observe = Callable[[SystemOperationKind, SystemModelRequest, SystemModelResult], Awaitable[None]]


class DetachedLoop:
    """A loop in a daemon thread for notifications that nothing waits for. Dropped once suspended."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._suspended = False
        self._waiting: set[concurrent.futures.Future[None]] = set()
        self.dropped = 0

    def submit(self, make: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run ``make()`` on the loop, started at the first use. False, and dropped, once suspended."""
        with self._lock:
            if self._suspended:
                self.dropped += 1
                return False
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="workbench-notifications", daemon=True
                )
                self._thread.start()
            given = asyncio.run_coroutine_threadsafe(make(), self._loop)
            self._waiting.add(given)
        given.add_done_callback(self._delivered)
        return True

    async def drain(self, seconds: float) -> None:
        """Wait until what was submitted has been delivered; after ``seconds`` cancel the rest."""
        with self._lock:
            waiting = [asyncio.wrap_future(each) for each in self._waiting]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=seconds)
            for each in late:
                each.cancel()

    def _delivered(self, given: concurrent.futures.Future[None]) -> None:
        with self._lock:
            self._waiting.discard(given)

    def suspend(self) -> None:
        """Take nothing more. What is running may end until ``close``."""
        with self._lock:
            self._suspended = True

    def close(self) -> None:
        """Stop the thread; an observer that blocks it is left behind in its daemon thread."""
        self.suspend()
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_JOIN_SECONDS)

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            rest = asyncio.all_tasks(loop)
            for task in rest:
                task.cancel()
            if rest:
                loop.run_until_complete(asyncio.wait(rest, timeout=_JOIN_SECONDS))
        finally:
            loop.close()


class Notifier:
    """Notifies the contributors of one snapshot."""

    def __init__(
        self,
        snapshot: ExtensionSnapshot,
        app_store: ExtensionData,
        diagnostics: Diagnostics,
        detached: DetachedLoop,
        batch_seconds: float = BATCH_SECONDS,
    ) -> None:
        self.snapshot = snapshot
        self.app_store = app_store
        self._diagnostics = diagnostics
        self._detached = detached
        self._batch_seconds = batch_seconds
        self._left_behind: set[asyncio.Future[None]] = set()
        #: The longest that a hook of each source has taken, in seconds.
        self.spent: dict[str, float] = {}

    def with_snapshot(self, snapshot: ExtensionSnapshot) -> Notifier:
        """One for other extensions of the same host."""
        return Notifier(snapshot, self.app_store, self._diagnostics, self._detached, self._batch_seconds)

    async def task_start(self, task_store: ExtensionData, info: TaskInfo) -> None:
        # What a contributor changes by force must not reach the next one: each has a copy of what it is given.
        await self._batch(
            "on_task_start", lambda hook: hook.on_task_start(self.app_store, task_store, replace(info))
        )

    async def task_stop(self, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome) -> None:
        await self._batch(
            "on_task_stop", lambda hook: hook.on_task_stop(self.app_store, task_store, replace(info), outcome)
        )

    async def system_call(
        self,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        call: Callable[[], Awaitable[T]],
        task_store: ExtensionData | None,
    ) -> T:
        """Make a model call of the host's own and tell its observers, however it ends.

        The call's result or exception passes unchanged. After a cancellation the observers are told off the
        path, and the cancellation goes on.
        """
        if not self.snapshot.system_observers:
            return await call()
        store = task_store if task_store is not None else detached_store()
        begun = time.perf_counter()
        try:
            response = await call()
        except asyncio.CancelledError as error:
            result = SystemModelResult(error=error, duration_ms=_since(begun))
            self._detached.submit(lambda: self._tell_system(store, kind, request, result))
            raise
        except Exception as error:
            await self._tell_system(
                store, kind, request, SystemModelResult(error=error, duration_ms=_since(begun))
            )
            raise
        await self._tell_system(
            store, kind, request, SystemModelResult(response=response, duration_ms=_since(begun))
        )
        return response

    def compacted(self, event: CompactionEvent) -> None:
        """Hand a compaction over to the observers, with a detached store."""
        if self.snapshot.compaction_observers:
            self._detached.submit(lambda: self._tell_compaction(event))

    async def _tell_compaction(self, event: CompactionEvent) -> None:
        store = detached_store()
        for contribution in self.snapshot.compaction_observers:
            await self._unbudgeted(
                contribution,
                "on_context_compacted",
                lambda hook: hook.on_context_compacted(self.app_store, store, replace(event)),
            )

    async def _tell_system(
        self,
        store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        for contribution in self.snapshot.system_observers:
            await self._unbudgeted(
                contribution,
                "on_system_model_call",
                lambda hook: hook.on_system_model_call(
                    self.app_store, store, kind, _detached(request), _result(result)
                ),
            )

    async def _unbudgeted(
        self, contribution: Contribution[Any], name: str, call: Callable[[Any], Awaitable[None]]
    ) -> None:
        """Await one hook for as long as it takes, and name one that takes long, while it does."""

        def name_it() -> None:
            named.append(name)
            self._diagnostics.add(
                "warning",
                contribution.source,
                f"{name} has not returned for {SLOW_SECONDS:g} s and has no budget",
            )

        named: list[str] = []
        slow = asyncio.get_running_loop().call_later(SLOW_SECONDS, name_it)
        begun = time.monotonic()
        try:
            await self._contained(contribution, name, call)
        finally:
            slow.cancel()
        took = time.monotonic() - begun
        self._spent(contribution, took)
        if took > SLOW_SECONDS and not named:
            self._diagnostics.add("warning", contribution.source, f"{name} blocked its loop for {took:.1f} s")

    def _spent(self, contribution: Contribution[Any], took: float) -> None:
        self.spent[contribution.source] = max(self.spent.get(contribution.source, 0.0), took)

    async def _batch(self, name: str, call: Callable[[Any], Awaitable[None]]) -> None:
        """All lifecycle contributors in order, within one budget; each gets what the ones before it left."""
        contributions: Sequence[Contribution[Any]] = self.snapshot.lifecycle
        end = time.monotonic() + self._batch_seconds
        for index, contribution in enumerate(contributions):
            left = end - time.monotonic()
            if left <= 0:
                skipped = ", ".join(rest.source for rest in contributions[index:])
                self._diagnostics.add(
                    "warning", contribution.source, f"{name} was skipped, the budget was spent: {skipped}"
                )
                return
            begun = time.monotonic()
            await self._within(contribution, name, call, left)
            took = time.monotonic() - begun
            self._spent(contribution, took)
            if took > left + 0.5:
                self._diagnostics.add(
                    "warning", contribution.source, f"{name} blocked the host for {took:.1f} s"
                )

    async def _within(
        self,
        contribution: Contribution[Any],
        name: str,
        call: Callable[[Any], Awaitable[None]],
        seconds: float,
    ) -> None:
        """Await one hook for at most ``seconds``, in a task of its own: one that ignores its cancellation is
        left behind rather than waited for."""
        hook = asyncio.ensure_future(self._contained(contribution, name, call))
        try:
            done, _ = await asyncio.wait({hook}, timeout=seconds)
        except asyncio.CancelledError:
            hook.cancel()
            raise
        if not done:
            hook.cancel()
            self._left_behind.add(hook)
            hook.add_done_callback(self._left_behind.discard)
            self._diagnostics.add("warning", contribution.source, f"{name} was stopped, the budget was spent")

    async def _contained(
        self, contribution: Contribution[Any], name: str, call: Callable[[Any], Awaitable[None]]
    ) -> None:
        """Await one hook. Whatever it raises stays here, except a cancellation that is the host's own."""
        try:
            await call(contribution.value)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._diagnostics.add("error", contribution.source, f"{name} raised CancelledError", error)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit in a hook would end the host's loop
            self._diagnostics.add("error", contribution.source, f"{name} raised {name_of(error)}", error)


def detached_store() -> ExtensionData:
    """A store for a notification that belongs to no live task; it is dropped with the notification."""
    return ExtensionData(new_id("detached"))


def _detached(value: T) -> T:
    """A deep copy, or the value itself where it cannot be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - a message of a provider may be anything
        return value


def _result(result: SystemModelResult) -> SystemModelResult:
    """A copy for one observer: the response goes on to the host, whatever an observer does to its own."""
    return SystemModelResult(_detached(result.response), result.error, result.duration_ms)


def _since(begun: float) -> float:
    return (time.perf_counter() - begun) * 1000
