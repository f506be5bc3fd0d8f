"""A scripted AgentRuns, counting every admission at the agent's side, and a service to run scripts on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from extension_api import ExtensionData, ExtensionPrincipal, ExtensionRuntimeDeps
from extension_api.agent_runs import (
    AgentRunRefused,
    AgentRunRequest,
    AgentRunStatus,
    AgentRunView,
    SessionView,
)
from workflows_core.engine.requests import LaunchRequest
from workflows_core.engine.service import WorkflowService
from workflows_core.limits import engine_config
from workflows_core.model import RunView, new_id
from workflows_core.store.sqlite import SqliteStore

Answer = Callable[["FakeRuns", AgentRunRequest], Awaitable[Any]]


class Fails(Exception):
    """Raised by an answer: the Agent run ends as an error with this text."""


class NeedsInput(Exception):
    """Raised by an answer: the Agent asks a person."""


async def echo(runs: FakeRuns, request: AgentRunRequest) -> Any:
    return request.input["task"]


class FakeRuns:
    """Implements extension_api.AgentRuns over one coroutine that makes the answers."""

    def __init__(
        self,
        answer: Answer = echo,
        *,
        user_id: str = "os:1",
        interactive: bool = False,
        mode: str = "terminal",
    ) -> None:
        self.answer = answer
        self.principal = ExtensionPrincipal(user_id)
        self.session = SessionView("s", mode, interactive, "terminal, uid 1, pts/0, not password-verified")
        self.files: dict[str, tuple[bytes, str]] = {}
        self.reads: list[str] = []
        self.deleted: list[str] = []
        self.admitted: list[AgentRunRequest] = []
        self.interrupted: list[str] = []
        self.views: dict[str, AgentRunView] = {}
        self.tasks: dict[str, asyncio.Task[Any]] = {}
        self.by_key: dict[str, str] = {}
        self.revision = "r1"
        self.refused: set[str] = set()
        self.immediate = False
        self.before_admit: Callable[[AgentRunRequest], Awaitable[None]] | None = None
        self.most_active = 0

    def authorize(self, agent_ref: str) -> None:
        if agent_ref in self.refused:
            raise AgentRunRefused("not_permitted", f"you may not start {agent_ref}")

    def check_options(self, options: Mapping[str, Any]) -> None:
        return

    def configuration_revision(self, options: Mapping[str, Any]) -> str:
        return self.revision

    def configuration_components(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        return {"agents": "a1", "prompts": self.revision}

    async def delete_runs(self, workflow_run_id: str) -> int:
        self.deleted.append(workflow_run_id)
        return 0

    async def admit(self, request: AgentRunRequest) -> AgentRunView:
        if self.before_admit is not None:
            await self.before_admit(request)
        self.admitted.append(request)
        run_id = new_id("ar")
        self.by_key[request.idempotency_key] = run_id
        view = AgentRunView(
            run_id,
            request.thread_id,
            request.agent_ref,
            AgentRunStatus.RUNNING,
            badge="stub",
            started_at=5,
            evidence={"assembly": "a1"},
        )
        self.views[run_id] = view
        if self.immediate:
            await self._run(run_id, request)
        else:
            self.tasks[run_id] = asyncio.create_task(self._run(run_id, request))
        active = sum(view.status.active for view in self.views.values())
        self.most_active = max(self.most_active, active)
        return self.views[run_id]

    async def _run(self, run_id: str, request: AgentRunRequest) -> None:
        changes: dict[str, Any]
        try:
            changes = {"status": AgentRunStatus.SUCCESS, "output": await self.answer(self, request)}
        except Fails as error:
            changes = {"status": AgentRunStatus.ERROR, "error_message": str(error)}
        except NeedsInput as error:
            changes = {"status": AgentRunStatus.WAITING_INPUT, "error_message": str(error)}
        except asyncio.CancelledError:
            changes = {"status": AgentRunStatus.INTERRUPTED}
        self.views[run_id] = replace(self.views[run_id], finished_at=6, **changes)

    async def find(self, idempotency_key: str) -> AgentRunView | None:
        run_id = self.by_key.get(idempotency_key)
        return None if run_id is None else self.views[run_id]

    async def observe(self, run_id: str) -> AgentRunView:
        if run_id in self.tasks:
            await asyncio.wait({self.tasks[run_id]})
        return self.views[run_id]

    async def interrupt(self, run_id: str) -> AgentRunView:
        self.interrupted.append(run_id)
        task = self.tasks.get(run_id)
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})
        return self.views[run_id]

    async def read_file(self, run_id: str, path: str, *, max_bytes: int) -> tuple[bytes, str]:
        self.reads.append(path)
        if path not in self.files:
            raise AgentRunRefused("no_file", f"there is no file {path}")
        return self.files[path]

    def twin(self, **changes: Any) -> FakeRuns:
        """Another session on the same host: it sees the same executions."""
        other = FakeRuns(self.answer, **changes)
        for shared in ("views", "tasks", "by_key", "admitted", "interrupted", "files", "reads"):
            setattr(other, shared, getattr(self, shared))
        other.revision = self.revision
        return other

    def alive(self) -> list[str]:
        return [run_id for run_id, view in self.views.items() if view.status.active]


def request(script: str, **changes: Any) -> LaunchRequest:
    values: dict[str, Any] = {
        "script": script,
        "args": {},
        "name": "test",
        "request_id": new_id("rq"),
        "options": {"agents": "stub", "label": "test"},
    }
    return LaunchRequest(**(values | changes))


@asynccontextmanager
async def service(
    folder: Path, runs: FakeRuns | None = None, **config: Any
) -> AsyncIterator[WorkflowService]:
    """A started service over a store in ``folder``; stopped on the way out unless it has crashed."""
    engine = WorkflowService(
        engine_config({"storage_path": str(folder / "w.sqlite"), **config}),
        store=CrashingStore,
        inbox_seconds=0.005,
    )
    handle = runs if runs is not None else FakeRuns()
    deps = ExtensionRuntimeDeps(app_store=ExtensionData("app"), agent_runs_for=lambda actor: handle)
    await engine.start(deps)
    try:
        yield engine
    finally:
        if not getattr(engine.store, "dead", False):
            await engine.stop()


async def end(runs: FakeRuns) -> None:
    """Cancel what still runs at the agents."""
    for task in runs.tasks.values():
        task.cancel()
    if runs.tasks:
        await asyncio.wait(runs.tasks.values())


class Crash(BaseException):
    """Stands for the end of the process: nothing after it may be committed."""


class CrashingStore(SqliteStore):
    """Dies at the n-th commit boundary, counted from 1; each commit has one before it and one after it."""

    def __init__(self, path: Path, at: int | None = None) -> None:
        self.boundaries: list[str] = []
        self.dead = False
        self._at = at
        super().__init__(path, self._boundary)

    def _boundary(self, name: str) -> None:
        if self.dead:
            raise Crash
        self.boundaries.append(name)
        if len(self.boundaries) == self._at:
            self.dead = True
            raise Crash


async def crash(engine: WorkflowService) -> None:
    """End a service as kill -9 would: no further commit, the worker dead, the lock free."""
    store = engine.store
    assert isinstance(store, CrashingStore)
    store.dead = True
    for task in (*engine._tasks.values(), *engine._background):
        task.cancel()
    pending = [*engine._tasks.values(), *engine._background]
    if pending:
        await asyncio.gather(*pending, return_exceptions=True)
    store.close()


async def settle(engine: WorkflowService, run_id: str, runs: FakeRuns, *, seconds: float = 60) -> RunView:
    """Wait until nothing works on the run any more and return its view."""
    async with asyncio.timeout(seconds):
        while run_id in engine._tasks:
            await asyncio.wait({engine._tasks[run_id]})
    return await engine.inspect(run_id, runs)


async def run_script(
    folder: Path, script: str, runs: FakeRuns | None = None, *, args: Any = None, **config: Any
) -> RunView:
    """Launch a script, wait for its end, and return the view."""
    handle = runs if runs is not None else FakeRuns()
    async with service(folder, handle, **config) as engine:
        outcome = await engine.launch(request(script, args=args if args is not None else {}), handle)
        return await settle(engine, outcome.run_id, handle)
