"""The plugin as the host sees it: names, schemas, bounded answers, and what no tool may do."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from extension_api import ActionContext, ToolContext
from extension_api.validation import validate_plugin
from workflows_core.engine.service import WorkflowService
from workflows_core.engine.waits import DecideRequest
from workflows_core.errors import LimitExceeded, NotFound, NotPermitted, UsageError
from workflows_core.limits import engine_config
from workflows_core.model import RunState, new_id
from workflows_core.plugin import contribution

from .engine.fakes import FakeRuns, service, settle

ONE = "return (await agent({stepId: 'a', agentRef: 'lead_agent', task: 1})).output;"


def calls(engine: WorkflowService, runs: FakeRuns | None, thread_id: str | None = None) -> Any:
    plugin = contribution(engine)
    handle: Any = runs
    principal = FakeRuns().principal if runs is None else runs.principal
    table = {
        item.name: (item.handler, ActionContext(principal, {}, agent_runs=handle)) for item in plugin.backend
    }
    tools = {
        item.name: (item.handler, ToolContext(principal, {}, thread_id, agent_runs=handle))
        for item in plugin.tools
    }

    async def call(name: str, payload: Mapping[str, Any]) -> Any:
        handler, context = {**table, **tools}[name]
        return await handler(payload, context)

    return call


def test_the_plugin_is_valid_and_has_exactly_these_names() -> None:
    plugin = contribution(WorkflowService(engine_config({})))
    validate_plugin(plugin)
    assert {item.name for item in plugin.tools} == {
        "launch_workflow",
        "inspect_workflow",
        "cancel_workflow",
        "save_workflow",
        "list_workflows",
        "read_workflow_artifact",
    }
    verbs = ("recover", "resume", "decide", "approve", "reject", "reconcile", "delete", "delegate")
    assert not [item.name for item in plugin.tools if any(verb in item.name for verb in verbs)]


async def test_a_run_is_launched_inspected_listed_and_deleted_by_actions(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        call = calls(engine, runs)
        launched = await call(
            "launch", {"script": ONE, "args": {}, "request_id": "r", "options": {"agents": "stub"}}
        )
        await settle(engine, launched["run_id"], runs)
        again = await call(
            "launch", {"script": ONE, "args": {}, "request_id": "r", "options": {"agents": "stub"}}
        )
        assert again == {"run_id": launched["run_id"], "existing": True}
        document = await call("inspect", {"run_id": launched["run_id"]})
        assert (document["state"], document["result"], document["steps"][0]["step_id"]) == (
            "completed",
            1,
            "a",
        )
        assert "input" not in document["steps"][0]
        step = await call("get_step", {"run_id": launched["run_id"], "step_id": "a"})
        assert (step["input"], step["output"]) == (1, 1)
        assert (await call("list", {}))["runs"][0]["run_id"] == launched["run_id"]
        assert (await call("log", {"run_id": launched["run_id"]}))["log"] == []
        await call("delete", {"run_id": launched["run_id"]})
        with pytest.raises(NotFound):
            await call("inspect", {"run_id": launched["run_id"]})


async def test_a_list_of_runs_with_large_results_fits_the_response(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        call = calls(engine, runs)
        for script in (*["return 'x'.repeat(11900);"] * 7, "throw new Error('y'.repeat(900));"):
            asked = {"script": script, "args": {}, "request_id": new_id("r"), "options": {"agents": "stub"}}
            await settle(engine, (await call("launch", asked))["run_id"], runs)
        failed, *done = (await call("list", {}))["runs"]
        assert [(run["result"], run["left_out"]) for run in done] == [(None, ["result"])] * 7
        assert (len(failed["cause"]["message"]), failed["left_out"]) == (501, ["cause.message"])


async def test_saved_versions_are_saved_listed_and_launched_by_tools(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        call = calls(engine, runs)
        saved = await call("save_workflow", {"name": "one", "script": ONE})
        assert (await call("list_workflows", {}))["definitions"] == [saved]
        asked = {"definition": saved, "args": {}, "request_id": "r"}
        with pytest.raises(UsageError, match="unknown key options"):
            await call("launch_workflow", {**asked, "options": {"agents": "stub"}})
        launched = await call("launch_workflow", asked)
        view = await settle(engine, launched["run_id"], runs)
        assert view.result == 1
        assert (await call("cancel_workflow", {"run_id": view.run_id}))["status"] == "applied"


async def test_a_child_reads_only_the_versions_that_it_was_given(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def waits(runs: FakeRuns, req: Any) -> Any:
        if req.metadata["step_id"] == "r":
            await gate.wait()
        return 1

    runs = FakeRuns(waits, interactive=True)
    runs.files["f"] = (b"x" * 20_000, "text/plain")
    script = (
        "await agent({stepId: 'e', agentRef: 'lead_agent', task: 1});\n"
        "const c = await captureArtifact({stepId: 'c', sourceStepId: 'e', path: 'f'});\n"
        "await humanCheckpoint({stepId: 'ok', sourceStepId: 'c', artifactVersion: c.artifactVersion});\n"
        "await agent({stepId: 'r', agentRef: 'lead_agent', task: 2, artifacts: [c.artifactVersion]});\n"
    )
    async with service(tmp_path, runs) as engine:
        call = calls(engine, runs)
        launched = await call(
            "launch", {"script": script, "args": {}, "request_id": "r", "options": {"agents": "stub"}}
        )
        async with asyncio.timeout(60):
            while (
                view := await engine.inspect(launched["run_id"], runs)
            ).state is not RunState.WAITING_APPROVAL:
                await asyncio.sleep(0.005)
        version = str(view.steps[-1].artifact_version)
        await engine.decide(
            DecideRequest(run_id=view.run_id, step_id="ok", attempt=1, decision="approve", sha256=version),
            runs,
        )
        async with asyncio.timeout(60):
            while len(runs.admitted) < 2:
                await asyncio.sleep(0.005)
        payload = {"artifact_version": version, "offset": 16_384}
        child = calls(engine, runs, runs.admitted[-1].thread_id)
        part = await child("read_workflow_artifact", payload)
        assert base64.b64decode(part["data"]) == b"x" * (20_000 - 16_384)
        assert part["next_offset"] is None
        for thread in (None, "somebody-else", runs.admitted[0].thread_id):
            with pytest.raises(NotPermitted):
                await calls(engine, runs, thread)("read_workflow_artifact", payload)
        gate.set()
        assert (await settle(engine, view.run_id, runs)).state is RunState.COMPLETED


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("launch", {"script": ONE, "args": {}, "request_id": "r", "cost": 1}),
        ("launch", {"args": {}, "request_id": "r"}),
        (
            "launch",
            {"script": ONE, "definition": {"name": "a", "version": "b"}, "args": {}, "request_id": "r"},
        ),
        ("launch", {"definition": {"name": "a"}, "args": {}, "request_id": "r"}),
        ("inspect", {}),
        ("inspect", {"run_id": 7}),
        ("list", {"page": 2}),
        ("read_workflow_artifact", {"artifact_version": "v", "offset": True}),
    ],
)
async def test_malformed_payloads_are_refused_in_words(
    tmp_path: Path, name: str, payload: dict[str, Any]
) -> None:
    async with service(tmp_path) as engine:
        with pytest.raises(UsageError):
            await calls(engine, FakeRuns())(name, payload)


async def test_a_session_without_a_handle_is_refused(tmp_path: Path) -> None:
    async with service(tmp_path) as engine:
        with pytest.raises(NotPermitted, match="no handle"):
            await calls(engine, None)("list", {})


async def test_an_answer_over_its_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflows_core.limits.RESPONSE_BYTES", 10)
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        with pytest.raises(LimitExceeded, match="admitted are 10"):
            await calls(engine, runs)("list", {})
