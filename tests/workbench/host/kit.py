"""A host's parts without its thread, and extensions that record what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from extension_api.agent_runs import AgentRunRequest, AgentRunStatus
from extension_api.hashing import canonical_hash
from extension_api.middleware import HostPolicySnapshot
from extension_api.state import ExtensionData
from workbench.agents.base import AgentDescription, Answer, Backends, Call, ChildRef, EarlierCalls, Started
from workbench.agents.stub import StubBackend
from workbench.host.assembly import Assembler
from workbench.host.calls import CallsLog
from workbench.host.config import AgentConfig, WorkbenchConfig
from workbench.host.diagnostics import Diagnostics
from workbench.host.generations import Generation, Generations
from workbench.host.notifications import DetachedLoop, Notifier
from workbench.host.registry import Collector, ExtensionSnapshot, RecordRegistry
from workbench.host.revision import Configuration
from workbench.host.runs import ChildRuns
from workbench.host.secret import load_secret
from workbench.host.store import HostStore
from workflows_core.model import now

OWNER = "os:1000"


def options(*entries: Any) -> dict[str, Any]:
    return {"agents": "stub", "stubs": list(entries), "stubs_hash": canonical_hash(list(entries))}


def request(
    step: str = "a",
    task: Any = None,
    launch: Mapping[str, Any] | None = None,
    *,
    run: str = "wr_1",
    agent: str = "lead_agent",
    **changes: Any,
) -> AgentRunRequest:
    fields: dict[str, Any] = {
        "agent_ref": agent,
        "thread_id": f"wf_{run}_{step}",
        "idempotency_key": f"{run}/{step}/1",
        "input": {"task": task},
        "metadata": {"workflow_run_id": run, "step_id": step, "attempt": "1"},
        "options": options() if launch is None else launch,
    }
    return AgentRunRequest(**(fields | changes))


def snapshot_of(install: Callable[[Any], None], source: str = "test:install") -> ExtensionSnapshot:
    collector = Collector()
    registry = RecordRegistry(collector, source, 0)
    install(registry)
    registry.seal()
    return collector.snapshot()


class InProcessBackend:
    """Runs inside the process: an answer when the test gives one."""

    name = "openai"
    durable = False

    def __init__(self) -> None:
        self.answers: dict[str, asyncio.Future[Answer]] = {}
        self.description = AgentDescription("model-1")

    def describe(
        self, agent_ref: str, settings: Mapping[str, Any], options: Mapping[str, Any]
    ) -> AgentDescription:
        return self.description

    def start(self, call: Call, earlier: EarlierCalls, now: int) -> Started:
        self.answers[call.step_id] = asyncio.get_running_loop().create_future()
        return Started(badge="live", durable=False)

    async def observe(self, child: ChildRef, call: Call | None) -> Answer:
        assert call is not None
        return await self.answers[call.step_id]

    async def interrupt(self, child: ChildRef) -> None:
        raise AssertionError("what runs in this process is stopped by cancelling its observation")

    async def read_file(
        self, child: ChildRef, files: Mapping[str, str] | None, path: str, *, max_bytes: int
    ) -> tuple[bytes, str]:
        raise NotImplementedError


class Kit:
    """One incarnation of a host over the store in ``folder``."""

    def __init__(
        self,
        folder: Path,
        snapshot: ExtensionSnapshot | None = None,
        *,
        clock: Callable[[], int] = now,
        calls: Path | None = None,
        batch_seconds: float = 3.0,
    ) -> None:
        self.store = HostStore.open(folder / "host.sqlite")
        self.secret = load_secret(folder / "secret")
        self.backend = InProcessBackend()
        self.backends = Backends({"stub": StubBackend(), "openai": self.backend})
        agents = {
            "lead_agent": AgentConfig(name="lead_agent"),
            "writer": AgentConfig(name="writer", backend="openai"),
            "remote": AgentConfig(name="remote", backend="deerflow"),
        }
        self.configuration = Configuration(folder, WorkbenchConfig(agents=agents), self.secret, self.backends)
        self.app_store = ExtensionData("app")
        self.diagnostics = Diagnostics()
        self.detached = DetachedLoop()
        snapshot = snapshot if snapshot is not None else ExtensionSnapshot()
        self.notifier = Notifier(snapshot, self.app_store, self.diagnostics, self.detached, batch_seconds)
        self.assembler = Assembler(
            snapshot, self.app_store, self.diagnostics, HostPolicySnapshot(max_subagents_per_run=16)
        )
        self.generations = Generations(Generation(1, snapshot, self.notifier, self.assembler))
        self.calls = CallsLog(calls)
        self.runs = ChildRuns(
            store=self.store,
            backends=self.backends,
            configuration=self.configuration,
            generations=self.generations,
            calls=self.calls,
            clock=clock,
        )

    async def __aenter__(self) -> Kit:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.runs.close()
        self.detached.close()
        self.calls.close()
        self.store.close()

    def kill(self) -> None:
        """End like a killed process: nothing more is written."""
        for live in self.runs.live.values():
            if live.timer is not None:
                live.timer.cancel()
            if live.task is not None:
                live.task.cancel()
        self.runs.live.clear()
        self.detached.close()
        self.calls.close()
        self.store.close()

    def problems(self) -> list[tuple[str, str]]:
        return [(entry.level, entry.message) for entry in self.diagnostics.all()]


def success(output: Any) -> Answer:
    return Answer(AgentRunStatus.SUCCESS, output)


async def eventually(condition: Callable[[], bool]) -> None:
    """Return once the condition holds; fail after ten seconds."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)
