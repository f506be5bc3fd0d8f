"""Child runs with observers: the lifecycle chapter's own extension, and the order that it is promised."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from extension_api import (
    AgentAssemblyDescriptor,
    AgentBuildContext,
    AgentScope,
    CompactionEvent,
    ExtensionData,
    MiddlewarePlacement,
    Placement,
    SystemModelRequest,
    SystemModelResult,
    SystemOperationKind,
    TaskInfo,
    TaskOutcome,
    canonical_hash,
)
from extension_api.agent_runs import AgentRunStatus, AgentRunUncertain
from workbench.agents.base import AgentDescription
from workbench.host import assembly
from workbench.host.registry import ExtensionSnapshot
from workflows_core.errors import StoreFailed
from workflows_core.model import now

from .kit import OWNER, Kit, eventually, options, request, snapshot_of, success


@dataclass
class RunClock:
    started: float


@dataclass
class OutcomeTally:
    counts: dict[str, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, kind: str, outcome: TaskOutcome) -> None:
        with self._lock:
            self.counts[f"{kind}:{outcome.value}"] = self.counts.get(f"{kind}:{outcome.value}", 0) + 1


class Log:
    """Everything that was told, in order."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []

    def add(self, *entry: Any) -> None:
        self.entries.append(entry)

    def names(self) -> list[str]:
        return [entry[0] for entry in self.entries]


class TaskTimer:
    def __init__(self, log: Log) -> None:
        self.log = log

    async def on_task_start(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo
    ) -> None:
        task_store.set(RunClock(time.monotonic()))
        self.log.add("start", info, task_store)

    async def on_task_stop(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        clock = task_store.get(RunClock)
        assert clock is not None
        app_store.get_or_init(OutcomeTally, OutcomeTally).add(info.kind, outcome)
        self.log.add("stop", info, task_store, outcome)


class SystemCallLogger:
    def __init__(self, log: Log) -> None:
        self.log = log

    async def on_system_model_call(
        self,
        app_store: ExtensionData,
        task_store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        self.log.add("system", kind, request, result, task_store)


class AssemblyWatcher:
    def __init__(self, log: Log) -> None:
        self.log = log

    def on_agent_assembled(self, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        self.log.add("assembled", descriptor)


class CompactionLogger:
    def __init__(self, log: Log) -> None:
        self.log = log

    async def on_context_compacted(
        self, app_store: ExtensionData, task_store: ExtensionData, event: CompactionEvent
    ) -> None:
        self.log.add("compacted", event, task_store)


def observers(log: Log) -> ExtensionSnapshot:
    def install(registry: Any) -> None:
        registry.task_lifecycle(TaskTimer(log))
        registry.system_model_observer(SystemCallLogger(log))
        registry.agent_assembly_observer(AssemblyWatcher(log))
        registry.context_compaction_observer(CompactionLogger(log))

    return snapshot_of(install)


async def finished(kit: Kit, launch: Mapping[str, Any], task: Any = None, step: str = "a") -> Any:
    view = kit.runs.admit(request(step, task, launch), OWNER)
    assert view.status is AgentRunStatus.RUNNING
    return await asyncio.wait_for(kit.runs.observe(view.run_id, OWNER), 60)


async def test_every_observer_fires_in_its_order(tmp_path: Path) -> None:
    log = Log()
    entry = {
        "reply": "done",
        "system": [{"kind": "title", "reply": "A title"}, {"kind": "memory", "fail": "no memory"}],
        "compact": {"messages": ["one", {"two": 2}], "summary": "both", "kept": 3},
        "subagents": [{"agent": "reader", "tool_call": "call-1"}, {"agent": "writer", "fail": "broke"}],
    }
    async with Kit(tmp_path, observers(log)) as kit:
        view = await finished(kit, options(entry), {"product": "soap"})
        await eventually(lambda: "compacted" in log.names())
        tally = kit.app_store.get(OutcomeTally)
    assert view.output == "done"
    assert view.evidence is not None
    told = [entry for entry in log.entries if entry[0] != "compacted"]
    assert [entry[0] for entry in told] == [
        "start", "assembled", "system", "system",
        "start", "assembled", "stop", "start", "assembled", "stop",
        "stop",
    ]  # fmt: skip
    lead, store = told[0][1], told[0][2]
    assert (lead.kind, lead.run_id, lead.task_id, lead.agent_name, lead.resumed) == (
        "lead", view.run_id, view.run_id, "lead_agent", False,
    )  # fmt: skip
    assert told[-1] == ("stop", lead, store, TaskOutcome.COMPLETED)
    title, memory = told[2], told[3]
    assert (title[1], title[3].response, title[3].error) == (SystemOperationKind.TITLE, "A title", None)
    assert title[2].messages == ({"product": "soap"},)
    assert title[2].model_name == f"stub/{options(entry)['stubs_hash']}"
    assert title[3].duration_ms is not None
    assert title[4] is store
    assert str(memory[3].error) == "no memory"
    reader, writer = told[4], told[7]
    assert reader[2].scope_id == "call-1" and reader[1].task_id != "call-1"
    assert writer[2].scope_id == writer[1].task_id
    assert {reader[1].parent_task_id, writer[1].parent_task_id} == {view.run_id}
    assert (told[6][3], told[9][3]) == (TaskOutcome.COMPLETED, TaskOutcome.FAILED)
    event, detached = next(entry[1:] for entry in log.entries if entry[0] == "compacted")
    assert event == CompactionEvent(
        "summarization",
        "1",
        (canonical_hash("one"), canonical_hash({"two": 2})),
        canonical_hash("both"),
        2,
        3,
    )
    assert detached is not store
    assert tally is not None and tally.counts == {
        "subagent:completed": 1,
        "subagent:failed": 1,
        "lead:completed": 1,
    }


async def test_the_record_is_final_before_on_task_stop_and_published_after_it(tmp_path: Path) -> None:
    states: list[str] = []
    release = asyncio.Event()

    class Stop:
        async def on_task_start(self, app: Any, task: Any, info: TaskInfo) -> None:
            states.append(kit.store.child(info.run_id).status)  # type: ignore[union-attr]

        async def on_task_stop(self, app: Any, task: Any, info: TaskInfo, outcome: TaskOutcome) -> None:
            states.append(kit.store.child(info.run_id).status)  # type: ignore[union-attr]
            await release.wait()

    async with Kit(tmp_path, snapshot_of(lambda registry: registry.task_lifecycle(Stop()))) as kit:
        view = kit.runs.admit(request(), OWNER)
        observer = asyncio.ensure_future(kit.runs.observe(view.run_id, OWNER))
        await eventually(lambda: len(states) == 2)
        assert states == ["running", "success"]
        assert not observer.done()
        release.set()
        assert (await observer).status is AgentRunStatus.SUCCESS


async def test_a_follow_up_on_the_same_thread_waits_for_on_task_stop(tmp_path: Path) -> None:
    log: list[str] = []
    release = asyncio.Event()

    class Hooks:
        async def on_task_start(self, app: Any, task: Any, info: TaskInfo) -> None:
            log.append(f"start {info.run_id}")

        async def on_task_stop(self, app: Any, task: Any, info: TaskInfo, outcome: TaskOutcome) -> None:
            log.append(f"stop {info.run_id}")
            await release.wait()
            log.append(f"stopped {info.run_id}")

    async with Kit(tmp_path, snapshot_of(lambda registry: registry.task_lifecycle(Hooks()))) as kit:
        first = kit.runs.admit(request("a", thread_id="t"), OWNER).run_id
        await eventually(lambda: f"stop {first}" in log)
        others = [kit.runs.admit(request("b", thread_id="t"), OWNER).run_id]
        await asyncio.sleep(0.01)
        assert log == [f"start {first}", f"stop {first}"]
        release.set()
        await kit.runs.observe(others[0], OWNER)
        others.append(kit.runs.admit(request("c", thread_id="t"), OWNER).run_id)
        await kit.runs.observe(others[1], OWNER)
    assert log == [f"{word} {run}" for run in (first, *others) for word in ("start", "stop", "stopped")]


@pytest.mark.parametrize(
    ("entry", "outcome"),
    [
        ({"reply": 1}, TaskOutcome.COMPLETED),
        ({"needs_input": "which?"}, TaskOutcome.COMPLETED),
        ({"fail": "no"}, TaskOutcome.FAILED),
    ],
)
async def test_outcomes(tmp_path: Path, entry: dict[str, Any], outcome: TaskOutcome) -> None:
    log = Log()
    async with Kit(tmp_path, observers(log)) as kit:
        await finished(kit, options(entry))
    assert log.entries[-1][0] == "stop"
    assert log.entries[-1][3] is outcome


async def test_an_interruption_is_told_as_aborted_and_the_system_call_off_the_path(tmp_path: Path) -> None:
    log = Log()
    entry = {"reply": 1, "system": [{"kind": "goal", "reply": 1, "after": 30}]}
    async with Kit(tmp_path, observers(log)) as kit:
        view = kit.runs.admit(request(launch=options(entry)), OWNER)
        await eventually(lambda: "assembled" in log.names())
        await asyncio.sleep(0.01)
        ended = await kit.runs.interrupt(view.run_id, OWNER)
        assert ended.status is AgentRunStatus.INTERRUPTED
        await eventually(lambda: "system" in log.names())
    stop = next(entry for entry in log.entries if entry[0] == "stop")
    system = next(entry for entry in log.entries if entry[0] == "system")
    assert stop[3] is TaskOutcome.ABORTED
    assert isinstance(system[3].error, asyncio.CancelledError)
    assert system[4] is stop[2]


async def test_an_interrupted_subagent_is_stopped_too(tmp_path: Path) -> None:
    log = Log()
    entry = {"reply": 1, "subagents": [{"agent": "reader", "after": 30}]}
    async with Kit(tmp_path, observers(log)) as kit:
        view = kit.runs.admit(request(launch=options(entry)), OWNER)
        await eventually(lambda: log.names().count("start") == 2)
        await kit.runs.interrupt(view.run_id, OWNER)
    stops = [(entry[1].kind, entry[3]) for entry in log.entries if entry[0] == "stop"]
    assert stops == [("subagent", TaskOutcome.ABORTED), ("lead", TaskOutcome.ABORTED)]


async def test_interrupted_before_it_started_no_hook_hears_of_it(tmp_path: Path) -> None:
    log = Log()
    async with Kit(tmp_path, observers(log)) as kit:
        view = kit.runs.admit(request(), OWNER)
        ended = await kit.runs.interrupt(view.run_id, OWNER)
    assert ended.status is AgentRunStatus.INTERRUPTED
    assert log.entries == []


async def test_a_child_of_an_earlier_process_is_resumed(tmp_path: Path) -> None:
    before = Kit(tmp_path, observers(Log()))
    entry = {"reply": 5, "after": 600, "system": [{"kind": "goal", "reply": 1}]}
    view = before.runs.admit(request(launch=options(entry)), OWNER)
    await eventually(lambda: before.store.read("SELECT evidence FROM child_runs")[0][0] is not None)
    before.kill()
    log = Log()
    async with Kit(tmp_path, observers(log), clock=lambda: now() + 600_000_000) as kit:
        observed = await kit.runs.observe(view.run_id, OWNER)
        assert observed.output == 5
        assert observed.evidence is not None
    assert log.names() == ["start", "stop"]
    assert log.entries[0][1].resumed is True


async def test_a_real_backend_is_observed_in_the_same_order(tmp_path: Path) -> None:
    log = Log()
    async with Kit(tmp_path, observers(log)) as kit:
        view = kit.runs.admit(request(agent="writer", launch={"agents": "real"}), OWNER)
        await eventually(lambda: "assembled" in log.names())
        kit.backend.answers["a"].set_result(success("done"))
        assert (await kit.runs.observe(view.run_id, OWNER)).output == "done"
    assert log.names() == ["start", "assembled", "stop"]
    assert log.entries[1][1].effective_model == "model-1"


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize(
    ("change", "component"),
    [
        ({"tools": {"read": ("Read any file", {"type": "object"})}}, "tool:read"),
        ({"prompt": "You are quick."}, "prompt"),
        ({"model_parameters": {"temperature": 0.6}}, "parameter:temperature"),
    ],
)
async def test_the_evidence_of_a_child_run_shows_what_changed_and_nothing_else(
    tmp_path: Path, change: dict[str, Any], component: str, observed: bool
) -> None:
    base: dict[str, Any] = {
        "tools": {"read": ("Read a file", {"type": "object"})},
        "prompt": "You are careful.",
        "model_parameters": {"temperature": 0.5},
    }
    found = []
    async with Kit(tmp_path, observers(Log()) if observed else None) as kit:
        for step, given in (("a", base), ("b", base), ("c", base | change)):
            kit.backend.description = AgentDescription("model-1", **given)
            view = kit.runs.admit(request(step, agent="writer", launch={"agents": "real"}), OWNER)
            kit.backend.answers[step].set_result(success("done"))
            evidence = (await kit.runs.observe(view.run_id, OWNER)).evidence
            assert evidence is not None
            found.append(evidence)
    before, same, after = found
    assert before == same
    parts = before["components"]
    assert {name for name in parts if parts[name] != after["components"][name]} == {component}
    assert set(parts) == set(after["components"]) and before["fingerprint"] != after["fingerprint"]


async def test_closing_interrupts_what_runs_inside_without_publishing_it(tmp_path: Path) -> None:
    log = Log()
    kit = Kit(tmp_path, observers(log))
    view = kit.runs.admit(request(agent="writer", launch={"agents": "real"}), OWNER)
    observer = asyncio.ensure_future(kit.runs.observe(view.run_id, OWNER))
    await eventually(lambda: "assembled" in log.names())
    await kit.close()
    with pytest.raises(asyncio.CancelledError):
        await observer
    async with Kit(tmp_path) as again:
        row = again.store.child(view.run_id)
        assert row is not None and row.status == "interrupted"


async def test_a_disk_that_refuses_makes_the_outcome_uncertain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for snapshot in (None, observers(Log())):
        async with Kit(tmp_path, snapshot) as kit:

            def finish(*_: object) -> bool:
                raise StoreFailed("the disk is full")

            view = kit.runs.admit(
                request(str(id(snapshot)), launch=options({"reply": 1, "after": 0.01})), OWNER
            )
            monkeypatch.setattr(kit.store, "finish", finish)
            with pytest.raises(AgentRunUncertain, match="the disk is full"):
                await kit.runs.observe(view.run_id, OWNER)


class Middleware:
    def __init__(self, parameters: Any) -> None:
        self.parameters = parameters

    def release_policy_parameters(self) -> dict[str, object]:
        if isinstance(self.parameters, Exception):
            raise self.parameters
        return self.parameters  # type: ignore[no-any-return]


async def test_contributed_middleware_is_listed_as_not_executed(tmp_path: Path) -> None:
    log = Log()
    contexts: list[AgentBuildContext] = []

    class Contributor:
        def contribute_middlewares(
            self, app: ExtensionData, ctx: AgentBuildContext
        ) -> list[MiddlewarePlacement]:
            contexts.append(ctx)
            return [MiddlewarePlacement(Middleware({"slow_ms": 200}), Placement.TOOL_RAW, AgentScope.LEAD)]

    def install(registry: Any) -> None:
        registry.middlewares(Contributor())
        registry.agent_assembly_observer(AssemblyWatcher(log))

    async with Kit(tmp_path, snapshot_of(install, "mine.ext:install")) as kit:
        await finished(kit, options({"reply": 1, "subagents": [{"agent": "reader"}]}))
    lead, subagent = (entry[1] for entry in log.entries)
    assert [(m.name, m.policy_parameters, m.extension) for m in lead.middlewares] == [
        ("Middleware", {"slow_ms": 200}, "mine.ext:install")
    ]
    assert lead.effective_policies == {"middlewares": "not executed"}
    assert subagent.middlewares == ()
    assert [ctx.scope for ctx in contexts] == [AgentScope.LEAD, AgentScope.SUBAGENT]
    assert contexts[0].policy.max_subagents_per_run == 16


async def test_without_observers_nothing_is_made_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr("workbench.host.driver.ExtensionData", lambda scope: made.append(scope))
    real = assembly._descriptor

    def descriptor(*parts: Any) -> AgentAssemblyDescriptor:
        made.append("descriptor")
        return real(*parts)

    monkeypatch.setattr(assembly, "_descriptor", descriptor)
    entry = {
        "reply": 1,
        "system": [{"kind": "goal", "reply": 1}],
        "compact": {"messages": ["a"], "summary": "b"},
    }
    async with Kit(tmp_path) as kit:
        views = [kit.runs.admit(request(f"s{i}", launch=options(entry)), OWNER) for i in range(20)]
        assert all(view.evidence == views[0].evidence for view in views)
    assert made == ["descriptor"]
