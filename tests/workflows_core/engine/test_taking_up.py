"""Taking up a recorded run: calls are judged as they were live, and the preview says what recovery then does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from extension_api import ExtensionData, ExtensionRuntimeDeps
from extension_api.agent_runs import AgentRunRequest, AgentRunStatus, AgentRunView
from workflows_core.engine.service import WorkflowService
from workflows_core.limits import engine_config
from workflows_core.model import RunState, RunView, StepStatus, new_id

from .fakes import Crash, CrashingStore, FakeRuns, crash, end, request, service, settle
from .test_waits import CHECKPOINT, decide, reach

REFUSED = """\
const a = await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});
const file = await captureArtifact({stepId: 'file', sourceStepId: 'a', path: 'x.txt'});
const said = [];
try {
  await agent({stepId: 'leak', agentRef: 'lead_agent', task: 1, artifacts: [file.artifactVersion]});
  said.push('admitted');
} catch (e) { said.push(e.code); }
try {
  await humanCheckpoint({stepId: 'wrong', sourceStepId: 'a', artifactVersion: '0'.repeat(64)});
} catch (e) { said.push(e.code); }
try {
  await humanCheckpoint({stepId: 'none', sourceStepId: 'zz', artifactVersion: '0'.repeat(64)});
} catch (e) { said.push(e.code); }
const last = await agent({stepId: 'last', agentRef: 'lead_agent', task: said});
return last.output;
"""
SAID = ["not_approved", "wrong_version", "unknown_source"]
Act = Callable[[WorkflowService, RunView, FakeRuns], Any]


class QuickRuns(FakeRuns):
    """A host that admits at once: what is not gated is final when ``admit_now`` returns."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    def admit_now(self, asked: AgentRunRequest) -> AgentRunView:
        self.admitted.append(asked)
        run_id = new_id("ar")
        self.by_key[asked.idempotency_key] = run_id
        view = AgentRunView(
            run_id,
            asked.thread_id,
            asked.agent_ref,
            AgentRunStatus.SUCCESS,
            badge="stub",
            output=asked.input["task"],
            evidence={"assembly": "a1"},
        )
        self.views[run_id] = view
        if asked.metadata["step_id"] == "gated":
            self.views[run_id] = replace(view, status=AgentRunStatus.RUNNING, output=None)
            self.tasks[run_id] = asyncio.get_running_loop().create_task(self._open(run_id, view))
        return self.views[run_id]

    async def _open(self, run_id: str, view: AgentRunView) -> None:
        await self.gate.wait()
        self.views[run_id] = view


def asked(runs: FakeRuns) -> list[str]:
    return [item.metadata["step_id"] for item in runs.admitted]


async def crash_at(
    folder: Path, script: str, runs: FakeRuns, at: int | None, act: Act | None = None, **config: Any
) -> int:
    """Run a script in a service that dies at its ``at``-th commit boundary; how many there were."""
    folder.mkdir(parents=True, exist_ok=True)
    stores: list[CrashingStore] = []

    def open_store(path: Path) -> CrashingStore:
        stores.append(CrashingStore(path, at))
        return stores[-1]

    engine = WorkflowService(
        engine_config({"storage_path": str(folder / "w.sqlite"), **config}),
        store=open_store,
        inbox_seconds=60,
    )
    await engine.start(ExtensionRuntimeDeps(app_store=ExtensionData("app"), agent_runs_for=lambda _: runs))
    try:
        run_id = (await engine.launch(request(script, request_id="rq"), runs)).run_id
        async with asyncio.timeout(60):
            while run_id in engine._tasks and not stores[0].dead:
                await asyncio.sleep(0.002)
                if act is not None and not stores[0].dead:
                    await act(engine, await engine.inspect(run_id, runs), runs)
    except Crash:
        pass
    await crash(engine)
    return len(stores[0].boundaries)


async def test_a_call_that_waited_for_a_place_and_is_answered_at_once_goes_on(tmp_path: Path) -> None:
    runs = QuickRuns()
    script = "return (await agent({stepId: 'STEP', agentRef: 'lead_agent', task: 7})).output;"
    async with service(tmp_path, runs, global_concurrency=1) as engine:
        first = await engine.launch(request(script.replace("STEP", "gated")), runs)
        while not runs.admitted:
            await asyncio.sleep(0.002)
        second = await engine.launch(request(script.replace("STEP", "quick")), runs)
        while not engine._supervisors[second.run_id]._calls._queue:
            await asyncio.sleep(0.002)
        runs.gate.set()
        assert (await settle(engine, first.run_id, runs, seconds=10)).result == 7
        assert (await settle(engine, second.run_id, runs, seconds=10)).result == 7


async def test_what_was_refused_stays_refused_at_every_crash_point(tmp_path: Path) -> None:
    whole = FakeRuns()
    whole.files["x.txt"] = (b"text", "text/plain")
    boundaries = await crash_at(tmp_path / "whole", REFUSED, whole, None)
    assert asked(whole) == ["a", "last"]
    recovered = 0
    for at in range(2, boundaries + 1):
        runs = FakeRuns()
        runs.files["x.txt"] = (b"text", "text/plain")
        folder = tmp_path / str(at)
        await crash_at(folder, REFUSED, runs, at)
        async with service(folder, runs) as engine:
            run = (await engine.list_runs(runs))[0]
            if run.state is RunState.COMPLETED:
                continue
            preview = await engine.preview(run.run_id, runs)
            assert not {"leak", "wrong", "none"} & {step.step_id for step in preview.new}
            await engine.recover(run.run_id, runs)
            view = await settle(engine, run.run_id, runs)
            if view.state is RunState.NEEDS_RECONCILIATION:
                continue
            assert view.result == SAID, at
            recovered += 1
        assert "leak" not in asked(runs)
        await end(runs)
    assert recovered > 8


async def test_a_recovery_makes_no_step_that_never_was(tmp_path: Path) -> None:
    version = "0" * 64
    ask = f"await humanCheckpoint({{stepId: 'STEP', sourceStepId: 'zz', artifactVersion: '{version}'}})"
    script = (
        f"const said = [];\ntry {{ {ask.replace('STEP', 'one')}; }} catch (e) {{ said.push(e.code); }}\n"
        "await pause({stepId: 'hold'});\n"
        f"try {{ {ask.replace('STEP', 'two')}; }} catch (e) {{ said.push(e.code); }}\nreturn said;"
    )
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        run_id = (await engine.launch(request(script), runs)).run_id
        await reach(engine, run_id, runs, RunState.PAUSED)
    async with service(tmp_path, runs) as engine:
        await engine.resume(run_id, "hold", 1, runs)
        assert (await settle(engine, run_id, runs)).result == ["unknown_source"] * 2


async def test_a_result_is_kept_where_the_next_call_may_not_start(tmp_path: Path) -> None:
    gates = {name: asyncio.Event() for name in "abc"}

    async def gated(runs: FakeRuns, req: AgentRunRequest) -> Any:
        await gates[req.metadata["step_id"]].wait()
        return "precious"

    runs = FakeRuns(gated)
    calls = ", ".join(f"() => agent({{stepId: '{name}', agentRef: 'lead_agent', task: 1}})" for name in "abc")
    async with service(tmp_path, runs, concurrency=2) as engine:
        run_id = (await engine.launch(request(f"await parallel([{calls}]);"), runs)).run_id
        while len(runs.admitted) < 2:
            await asyncio.sleep(0.002)
        runs.revision = "r2"
        gates["a"].set()
        view = await settle(engine, run_id, runs)
    steps = {step.step_id: step for step in view.steps}
    assert view.state is RunState.FAILED
    assert view.cause is not None and view.cause.code == "configuration_changed"
    assert f"workbench fork {run_id}" in view.cause.message
    assert (steps["a"].status, steps["a"].output) == (StepStatus.COMPLETED, "precious")
    assert asked(runs) == ["a", "b"]


async def test_the_preview_goes_on_after_a_committed_approval(tmp_path: Path) -> None:
    async def approve(engine: WorkflowService, view: RunView, runs: FakeRuns) -> None:
        if view.state is RunState.WAITING_APPROVAL:
            await engine.decide(decide(view), runs)

    boundaries = await crash_at(tmp_path / "whole", CHECKPOINT, FakeRuns(interactive=True), None, approve)
    decided = 0
    for at in range(2, boundaries + 1):
        runs = FakeRuns(interactive=True)
        folder = tmp_path / str(at)
        await crash_at(folder, CHECKPOINT, runs, at, approve)
        async with service(folder, runs) as engine:
            run = (await engine.list_runs(runs))[0]
            if run.state is not RunState.RECOVERABLE:
                continue
            before = set(asked(runs))
            preview = await engine.preview(run.run_id, runs)
            await engine.recover(run.run_id, runs)
            if not engine.store.decisions(run.run_id):
                continue
            view = await settle(engine, run.run_id, runs)
            started = set(asked(runs)) - before
            assert {step.step_id for step in preview.new} == started, at
            assert view.state in (RunState.COMPLETED, RunState.NEEDS_RECONCILIATION)
            decided += 1
        await end(runs)
    assert decided >= 4


async def test_nothing_new_is_started_beside_an_uncertain_call(tmp_path: Path) -> None:
    calls = ", ".join(
        f"() => agent({{stepId: '{name}', agentRef: 'lead_agent', task: 1}})" for name in "abcd"
    )
    script = f"return (await parallel([{calls}])).length;"
    stopped = 0
    for at in range(3, 9):
        runs = FakeRuns()
        folder = tmp_path / str(at)
        await crash_at(folder, script, runs, at, concurrency=2)
        async with service(folder, runs, concurrency=2) as engine:
            run = (await engine.list_runs(runs))[0]
            if run.state is not RunState.RECOVERABLE:
                continue
            before = asked(runs)
            preview = await engine.preview(run.run_id, runs)
            if not preview.uncertain:
                continue
            assert preview.new == ()
            assert "before anything new is started" in preview.reasons[-1]
            await engine.recover(run.run_id, runs)
            view = await settle(engine, run.run_id, runs)
            assert view.state is RunState.NEEDS_RECONCILIATION
            assert asked(runs) == before
            stopped += 1
        await end(runs)
    assert stopped


async def test_a_success_without_evidence_is_previewed_as_uncertain(tmp_path: Path) -> None:
    script = "return (await agent({stepId: 'gated', agentRef: 'lead_agent', task: 7})).output;"
    runs = QuickRuns()
    async with service(tmp_path, runs) as engine:
        run_id = (await engine.launch(request(script), runs)).run_id
        while not runs.admitted:
            await asyncio.sleep(0.002)
        await crash(engine)
    await end(runs)
    (child,) = runs.views
    runs.views[child] = replace(runs.views[child], status=AgentRunStatus.SUCCESS, evidence=None)
    async with service(tmp_path, runs) as engine:
        preview = await engine.preview(run_id, runs)
        assert [step.step_id for step in preview.uncertain] == ["gated"]
        await engine.recover(run_id, runs)
        assert (await settle(engine, run_id, runs)).state is RunState.NEEDS_RECONCILIATION
