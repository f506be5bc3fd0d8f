"""The test kit's host: budgets, containment, order, services and middleware."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from extension_api import (
    AgentBuildContext,
    AgentScope,
    ExtensionRegistry,
    ExtensionRuntimeDeps,
    MiddlewarePlacement,
    Placement,
    SystemOperationKind,
    task_store_from_runtime,
)
from extension_api.testing import FakeAgentRuns, HostDriver, Registered

Hook = Callable[..., Any]


class Lifecycle:
    """Hooks made of two functions."""

    def __init__(self, start: Hook | None = None, stop: Hook | None = None) -> None:
        async def nothing(*_: object) -> None:
            pass

        self.on_task_start = start or nothing
        self.on_task_stop = stop or nothing


def loaded(*contributors: object, method: str = "task_lifecycle", **options: Any) -> HostDriver:
    host = HostDriver(**options)
    for index, contributor in enumerate(contributors):

        def install(
            registry: ExtensionRegistry, config: Mapping[str, Any], value: object = contributor
        ) -> None:
            getattr(registry, method)(value)

        host.load(install, use=f"ext{index}:install")
    return host


def reported(host: HostDriver) -> list[tuple[str, str, str]]:
    return [(entry.level, entry.source, entry.message) for entry in host.diagnostics]


class TestLifecycleBudget:
    async def test_hooks_run_in_order_and_get_the_same_store(self) -> None:
        seen: list[tuple[str, object]] = []

        def hook(name: str) -> Hook:
            async def record(app: object, store: object, *rest: object) -> None:
                seen.append((name, store))

            return record

        host = loaded(Lifecycle(hook("a+"), hook("a-")), Lifecycle(hook("b+"), hook("b-")))
        async with host.task() as task:
            assert task_store_from_runtime(task.runtime) is task.store
        assert [name for name, _ in seen] == ["a+", "b+", "a-", "b-"]
        assert all(store is task.store for _, store in seen)

    async def test_one_budget_covers_the_batch_and_the_rest_is_skipped(self) -> None:
        called: list[str] = []

        async def hang(*_: object) -> None:
            called.append("hang")
            await asyncio.Event().wait()

        async def late(*_: object) -> None:
            called.append("late")

        host = loaded(Lifecycle(hang), Lifecycle(late, late), budget=0.02)
        async with host.task():
            pass
        assert called == ["hang", "late"]
        assert reported(host) == [
            ("warning", "ext0:install", "on_task_start did not return within its budget"),
            ("warning", "ext1:install", "on_task_start was skipped: the budget of 0.02 s is spent"),
        ]

    async def test_a_hook_that_resists_cancellation_is_left_behind(self) -> None:
        release = asyncio.Event()

        async def stubborn(*_: object) -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        host = loaded(Lifecycle(stubborn), budget=0.01)
        async with host.task():
            pass
        release.set()
        await asyncio.sleep(0)
        assert [entry.level for entry in host.diagnostics] == ["warning"]

    async def test_a_time_out_of_the_contributor_is_a_failure(self) -> None:
        async def own(*_: object) -> None:
            raise TimeoutError("mine")

        host = loaded(Lifecycle(own))
        async with host.task():
            pass
        assert reported(host) == [("error", "ext0:install", "on_task_start raised TimeoutError: mine")]

    @pytest.mark.parametrize(
        "error", [ValueError("bad"), asyncio.CancelledError(), SystemExit(3), GeneratorExit()]
    )
    async def test_what_a_hook_raises_is_contained_and_named(self, error: BaseException) -> None:
        async def fail(*_: object) -> None:
            raise error

        reached: list[int] = []

        async def after(*_: object) -> None:
            reached.append(1)

        host = loaded(Lifecycle(fail), Lifecycle(after))
        async with host.task():
            pass
        assert reached == [1]
        [entry] = host.diagnostics
        assert (entry.level, entry.source) == ("error", "ext0:install")
        assert type(error).__name__ in entry.message

    async def test_an_exception_that_cannot_be_shown_is_named_by_its_type(self) -> None:
        class Shy(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        async def fail(*_: object) -> None:
            raise Shy

        host = loaded(Lifecycle(fail))
        async with host.task():
            pass
        assert [entry.message for entry in host.diagnostics] == ["on_task_start raised Shy"]

    async def test_a_missing_or_synchronous_method_is_contained(self) -> None:
        class Synchronous(Lifecycle):
            def __init__(self) -> None:
                super().__init__(lambda *_: None)

        host = loaded(object(), Synchronous())
        async with host.task():
            pass
        messages = [entry.message for entry in host.diagnostics]
        assert [message.split(":")[0] for message in messages] == [
            "on_task_start raised AttributeError",
            "on_task_start raised TypeError",
            "on_task_stop raised AttributeError",
        ]

    async def test_cancelling_the_host_passes_through_a_hook(self) -> None:
        entered = asyncio.Event()
        ended: list[str] = []

        async def hang(*_: object) -> None:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("hook")

        host = loaded(Lifecycle(hang))

        async def run() -> None:
            async with host.task():
                ended.append("body")

        running = asyncio.create_task(run())
        await entered.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ended == ["hook"]

    async def test_a_subagent_without_a_run_has_no_hooks(self) -> None:
        called: list[int] = []

        async def record(*_: object) -> None:
            called.append(1)

        host = loaded(Lifecycle(record, record))
        async with host.task(kind="subagent", run_id=None):
            pass
        assert called == []


class TestObservers:
    async def test_a_call_without_a_task_gets_a_store_of_its_own(self) -> None:
        stores: list[Any] = []

        class Observer:
            async def on_system_model_call(self, app: object, store: object, *rest: object) -> None:
                stores.append(store)

        host = loaded(Observer(), method="system_model_observer")
        await host.model_call(SystemOperationKind.MEMORY, response=1)
        await host.model_call(SystemOperationKind.MEMORY, response=2)
        assert stores[0] is not stores[1]
        assert stores[0] is not host.app_store

    async def test_the_result_is_the_calls_own_whatever_an_observer_does(self) -> None:
        class Observer:
            async def on_system_model_call(
                self, app: Any, store: Any, kind: Any, request: Any, result: Any
            ) -> None:
                request.invoke_config["tags"].append("changed")
                raise LookupError("no")

        host = loaded(Observer(), method="system_model_observer")
        config = {"tags": ["a"]}
        assert await host.model_call(SystemOperationKind.GOAL, "x", response=7, invoke_config=config) == 7
        assert config == {"tags": ["a"]}
        assert [entry.level for entry in host.diagnostics] == ["error"]

    async def test_a_cancelled_call_is_not_reported_while_shutting_down(self) -> None:
        calls: list[object] = []

        class Observer:
            async def on_system_model_call(self, *given: object) -> None:
                calls.append(given)

        host = loaded(Observer(), method="system_model_observer")
        async with host:
            pass

        async def cancelled() -> None:
            raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await host.model_call(SystemOperationKind.GOAL, call=cancelled)
        await host.drain()
        assert calls == []

    def test_an_assembly_observer_that_raises_is_reported_and_the_next_is_called(self) -> None:
        seen: list[object] = []

        class Raises:
            def on_agent_assembled(self, app: object, descriptor: object) -> None:
                raise RecursionError("deep")

        class Records:
            def on_agent_assembled(self, app: object, descriptor: object) -> None:
                seen.append(descriptor)

        host = loaded(Raises(), Records(), method="agent_assembly_observer")
        descriptor = host.assemble()
        assert seen == [descriptor]
        assert reported(host) == [("error", "ext0:install", "on_agent_assembled raised RecursionError: deep")]

    @pytest.mark.parametrize("change", [2, object()])
    def test_an_assembly_observer_that_changes_the_descriptor_is_reported(self, change: object) -> None:
        class Changes:
            def on_agent_assembled(self, app: object, descriptor: Any) -> None:
                descriptor.model_parameters["temperature"] = change

        host = loaded(Changes(), method="agent_assembly_observer")
        before = HostDriver().assemble(model_parameters={"temperature": 1}).fingerprint
        assert host.assemble(model_parameters={"temperature": 1}).fingerprint == before
        assert [entry.source for entry in host.diagnostics] == ["ext0:install"]

    async def test_a_compaction_observer_that_hangs_does_not_hold_up_the_end(self) -> None:
        class Hangs:
            async def on_context_compacted(self, *_: object) -> None:
                await asyncio.Event().wait()

        host = loaded(Hangs(), method="context_compaction_observer", stop_seconds=0.02)
        async with host:
            host.compact(["a"], "s")
        await host.drain()


class TestServices:
    async def test_start_in_order_and_stop_in_reverse_also_after_a_failed_start(self) -> None:
        log: list[str] = []

        class Service:
            def __init__(self, name: str, *, fails: bool = False) -> None:
                self.name, self.fails = name, fails

            async def start(self, deps: ExtensionRuntimeDeps) -> None:
                log.append(f"+{self.name}")
                if self.fails:
                    raise RuntimeError("no")

            async def stop(self) -> None:
                log.append(f"-{self.name}")

        host = loaded(Service("a"), Service("b", fails=True), Service("c"), method="service")
        async with host:
            assert log == ["+a", "+b", "+c"]
        assert log[3:] == ["-c", "-b", "-a"]
        assert reported(host) == [("error", "ext1:install", "start raised RuntimeError: no")]

    async def test_a_service_gets_what_the_host_has(self) -> None:
        seen: list[ExtensionRuntimeDeps] = []

        class Service:
            async def start(self, deps: ExtensionRuntimeDeps) -> None:
                seen.append(deps)

            async def stop(self) -> None:
                await asyncio.Event().wait()

        runs = FakeAgentRuns()
        host = loaded(
            Service(),
            method="service",
            stop_seconds=0.01,
            workspace_root="/srv/project",
            agent_runs_for=lambda row: runs,
        )
        async with host:
            assert seen[0].app_store is host.app_store
            assert seen[0].workspace_root == "/srv/project"
            assert seen[0].agent_runs_for is not None
            assert seen[0].agent_runs_for({"uid": 1000}) is runs
        assert reported(host) == [("warning", "ext0:install", "stop did not return within its budget")]


class TestMiddlewares:
    def contributor(self, *placements: Any) -> Any:
        class Contributor:
            def contribute_middlewares(self, app: object, ctx: AgentBuildContext) -> Any:
                return placements

        return Contributor()

    def test_sorted_by_order_then_registration_within_the_scope(self) -> None:
        place = Placement.STANDARD
        host = loaded(
            self.contributor(
                MiddlewarePlacement("late", place, order=5),
                MiddlewarePlacement("first", place),
                MiddlewarePlacement("sub", place, AgentScope.SUBAGENT, -9),
            ),
            self.contributor(
                MiddlewarePlacement("second", place), MiddlewarePlacement("outer", place, order=-1)
            ),
            method="middlewares",
        )
        found = host.middlewares()
        assert [each.value.middleware for each in found] == ["outer", "first", "second", "late"]
        assert found[0] == Registered("ext1:install", MiddlewarePlacement("outer", place, order=-1))
        sub = host.middlewares(AgentBuildContext(AgentScope.SUBAGENT))
        assert [each.value.middleware for each in sub] == ["sub", "outer", "first", "second", "late"]

    def test_invalid_entries_are_skipped_one_by_one(self) -> None:
        wrong: Any = "standard"
        host = loaded(
            self.contributor(
                "not a placement",
                MiddlewarePlacement("a", wrong),
                MiddlewarePlacement("b", Placement.STANDARD, wrong),
                MiddlewarePlacement("c", Placement.STANDARD, order=True),
                MiddlewarePlacement("good", Placement.STANDARD),
            ),
            object(),
            method="middlewares",
        )
        assert [each.value.middleware for each in host.middlewares()] == ["good"]
        assert [entry.source for entry in host.diagnostics] == ["ext0:install"] * 4 + ["ext1:install"]
