"""A client whose owner answers to order, and a host store with child runs, for the tests of the Host screen."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from extension_api.agent_runs import AgentRunStatus
from tests.workbench.tui.fakes import NOW, SECOND, FakeClient
from workbench.agents.base import Answer
from workbench.host.events import closing_events
from workbench.host.reloading import AffectedRun, ReloadFailure, ReloadPlan, ReloadResult
from workbench.host.store import ChildRow, Event, HostStore, to_json
from workbench.workspace import Workspace
from workflows_core.errors import NotPermitted

CONFIG = """\
plugins:
  - name: workflows
    use: workflows_core.extension:install
    enabled: true
    config: {enabled: true, agents: [lead_agent, writer], max_workflows: 4}
  - {name: claims, use: "claims.plugin:install"}
  - {name: broken, use: "broken:install"}
  - {name: old, use: "old:install", enabled: false}
agents:
  lead_agent: {backend: stub}
  writer: {backend: langchain}
"""


def extension(name: str, use: str, outcome: str = "loaded", **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": name,
        "use": use,
        "outcome": outcome,
        "message": None,
        "api": "0.2.9",
        "declared_name": None,
        "contributions": {},
        "plugins": [],
        "longest_hook_seconds": None,
        "diagnostics": [],
    }
    return fields | changes


def listing(*entries: dict[str, Any], **changes: Any) -> dict[str, Any]:
    fields = {"generation": 1, "extensions": list(entries), "host": [], "older": []}
    return fields | changes


def sample_listing() -> dict[str, Any]:
    """An extension of each fate, with everything that can be said of one."""
    return listing(
        extension(
            "workflows",
            "workflows_core.extension:install",
            contributions={"service": 1, "plugin": 1},
            plugins=[{"namespace": "workflows", "actions": ["launch", "cancel"], "tools": ["run_workflow"]}],
        ),
        extension(
            "claims",
            "claims.plugin:install",
            contributions={"task_lifecycle": 1, "system_model_observer": 2},
            longest_hook_seconds=1.62,
            diagnostics=[
                {"level": "warning", "message": f"on_task_start was slow ({n})", "at": NOW - (9 - n) * SECOND}
                for n in range(4)
            ],
        ),
        extension(
            "broken",
            "broken:install",
            "failed",
            api=None,
            message="there is no module broken; is it installed?",
        ),
        extension("old", "old:install", "disabled", api=None),
        host=[{"level": "info", "message": "extensions: loaded 2 of 3", "at": NOW - 60 * SECOND}],
    )


class HostClient(FakeClient):
    """``asked`` counts the questions to the owner, ``planned`` and ``reloads`` record what was asked for."""

    def __init__(self, *views: Any, pid: int | None = 4711, **more: Any) -> None:
        super().__init__(*views, **more)
        self.pid = pid
        self.host = None
        self.listing = sample_listing()
        self.handles: list[dict[str, Any]] = [
            {
                "session_id": "terminal:4711:aa55",
                "user_id": "os:1000",
                "mode": "terminal",
                "interactive": True,
                "description": "terminal, uid 1000, pts/3, not password-verified",
            }
        ]
        self.asked = 0
        self.accounts = {"ada": "correct horse"}
        self.ended: list[str] = []
        self.planned: list[str | None] = []
        self.reloads: list[str | None] = []
        self.plan = ReloadPlan(("claims.plugin:install",))
        self.result = ReloadResult(("claims.plugin:install",), ())

    def owner_pid(self) -> int | None:
        return self.pid

    async def extensions(self) -> dict[str, Any]:
        self.asked += 1
        await self._called("extensions")
        return self.listing

    async def sessions(self) -> list[dict[str, Any]]:
        await self._called("sessions")
        return self.handles

    async def log_in(self, name: str, password: str) -> None:
        await self._called("log_in")
        if self.accounts.get(name) != password:
            raise NotPermitted("the name or the password is wrong")
        self.who = f"{name} · password"

    def account(self) -> str | None:
        name, _, mode = self.who.partition(" · ")
        return None if name == "nobody" or mode != "password" else name

    async def log_out(self) -> str | None:
        await self._called("log_out")
        name, self.who = self.who.partition(" ")[0], "nobody · password"
        return name

    async def end_session(self, session_id: str) -> None:
        await self._called("end_session")
        self.ended.append(session_id)

    async def plan_reload(self, use: str | None = None) -> ReloadPlan:
        self.planned.append(use)
        await self._called("plan_reload")
        return self.plan

    async def reload(self, use: str | None = None) -> ReloadResult:
        self.reloads.append(use)
        await self._called("reload")
        return self.result


def a_failure(message: str = "importing claims.plugin raised SyntaxError") -> ReloadResult:
    return ReloadResult((), (ReloadFailure("claims.plugin:install", message),))


def affected(note: str = "") -> tuple[AffectedRun, ...]:
    return (AffectedRun("wr_00000000000000b2", "checks", "running", note),)


def evidence(model: str = "m1", tools: Sequence[str] = ("search",), **numbers: float) -> dict[str, Any]:
    components = {"model": f"{model}-version", "prompt": "p1-version"}
    components |= {f"tool:{name}": f"{name}-version" for name in tools}
    components |= {f"parameter:{name}": f"v{value}" for name, value in numbers.items()}
    value: dict[str, Any] = {"fingerprint": f"{len(tools)}f{model}0123456789", "components": components}
    return value | ({"numbers": numbers} if numbers else {})


def child(
    number: int,
    agent: str = "lead_agent",
    *,
    made_of: Mapping[str, Any] | None = None,
    lifetime: str = "host_1",
    ago: float = 60,
    **changes: Any,
) -> ChildRow:
    """A running child run; ``ago`` in seconds before NOW."""
    at = NOW - round(ago * SECOND)
    fields: dict[str, Any] = {
        "run_id": f"cr_{number:04}",
        "thread_id": f"wf_{number:04}",
        "agent_ref": agent,
        "owner": "os:1000",
        "workflow_run": "wr_00000000000000b2",
        "step_id": f"step-{number}",
        "attempt": 1,
        "backend": "stub",
        "badge": "stub",
        "durable": 1,
        "incarnation": lifetime,
        "status": "running",
        "answer": None,
        "due": None,
        "files": None,
        "evidence": to_json(made_of if made_of is not None else evidence()),
        "counted": None,
        "created_at": at,
        "updated_at": at,
        "finished_at": None,
    }
    return ChildRow(**(fields | changes))


def record(workspace: Workspace, *rows: ChildRow, output: Any = None, finish: bool = True) -> None:
    """Put child runs into the host's store, oldest first, each with its events; ended unless told otherwise."""
    workspace.make_state_dir()
    store = HostStore.open(workspace.host_store_path)
    try:
        for row in rows:
            metadata = json.dumps({"step_id": row.step_id})
            opening = [
                Event("run_start", "lifecycle", None, metadata, row.created_at),
                Event("human_message", "message", to_json({"task": "look"}), "{}", row.created_at),
            ]
            store.admit(row, opening, lambda: None)
            if finish:
                answer = Answer(AgentRunStatus.SUCCESS, {"verdict": "pass"} if output is None else output)
                at = row.created_at + 2 * SECOND
                store.finish(row, answer, at, closing_events(answer, at))
    finally:
        store.close()


def configure(workspace: Workspace, text: str = CONFIG) -> None:
    """Write ``workbench.yaml``."""
    (workspace.root / "workbench.yaml").write_text(text)


def own_pid() -> int:
    return os.getpid()
