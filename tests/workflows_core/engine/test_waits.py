"""Pauses and checkpoints: one decision, on exactly the bytes that were shown, by a person."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from workflows_core import clock
from workflows_core.engine.service import WorkflowService
from workflows_core.engine.waits import DecideRequest
from workflows_core.errors import Conflict, NotPermitted, Refused, UsageError
from workflows_core.model import RunState, RunView, StepStatus

from .fakes import FakeRuns, crash, request, service, settle

PAUSE = """\
const a = await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});
let local = 41;
const r = await pause({stepId: 'hold'});
return [r, a.output, local + 1];
"""
CHECKPOINT = """\
const e = await agent({stepId: 'e', agentRef: 'lead_agent', task: {claim: 'gentle'}});
const ok = await humanCheckpoint({stepId: 'ok', sourceStepId: 'e', artifactVersion: e.artifactVersion});
const r = await agent({stepId: 'r', agentRef: 'lead_agent', task: {evidence: e.output}});
return [ok.status, ok.artifactVersion === e.artifactVersion, r.output];
"""


async def reach(engine: WorkflowService, run_id: str, runs: FakeRuns, state: RunState) -> RunView:
    async with asyncio.timeout(60):
        while (view := await engine.inspect(run_id, runs)).state is not state:
            if view.state.final:
                raise AssertionError(f"{view.state}: {view.cause}")
            await asyncio.sleep(0.005)
    return view


def decide(view: RunView, decision: str = "approve", **changes: Any) -> DecideRequest:
    step = view.steps[-1]
    values: dict[str, Any] = {
        "run_id": view.run_id,
        "step_id": step.step_id,
        "attempt": step.attempt,
        "decision": decision,
        "sha256": step.artifact_version,
        "reason": "not gentle at all" if decision == "reject" else None,
        "review": {"coverage": 1.0, "renderer": "tree"},
    }
    return DecideRequest(**(values | changes))


async def test_a_pause_keeps_the_worker_with_its_variables(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(PAUSE), runs)
        view = await reach(engine, launched.run_id, runs, RunState.PAUSED)
        assert view.waiting is not None
        assert (view.waiting.kind, view.waiting.step_id) == ("pause", "hold")
        assert view.waiting.expires_at == pytest.approx(view.since + 86_400e6, abs=1e6)
        assert view.steps[-1].status is StepStatus.WAITING
        pid = engine._supervisors[view.run_id]._worker.pid  # type: ignore[union-attr]
        with pytest.raises(Conflict, match="waits for hold"):
            await engine.resume(view.run_id, "other", 1, runs)
        with pytest.raises(Conflict, match="waits for hold"):
            await engine.resume(view.run_id, "hold", 2, runs)
        assert engine._supervisors[view.run_id]._worker.pid == pid  # type: ignore[union-attr]
        await engine.resume(view.run_id, "hold", 1, runs)
        view = await settle(engine, view.run_id, runs)
        assert view.result == [{"status": "resumed"}, 1, 42]
        assert view.steps[-1].status is StepStatus.COMPLETED
        again = await engine.resume(view.run_id, "hold", 1, runs)
        assert "before" in again.message


async def test_the_execution_budget_is_suspended_while_a_person_is_waited_for(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs, timeout_seconds=3) as engine:
        launched = await engine.launch(request(PAUSE), runs)
        view = await reach(engine, launched.run_id, runs, RunState.PAUSED)
        await asyncio.sleep(3.2)
        await engine.resume(view.run_id, "hold", 1, runs)
        view = await settle(engine, view.run_id, runs)
    assert view.state is RunState.COMPLETED


async def test_a_wait_fails_closed_at_its_own_deadline(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs, pause_timeout_seconds=3) as engine:
        launched = await engine.launch(request(CHECKPOINT), runs)
        waiting = await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        view = await settle(engine, launched.run_id, runs)
        assert view.state is RunState.FAILED
        assert view.cause is not None
        assert view.cause.code == "wait_expired"
        assert view.steps[-1].status is StepStatus.EXPIRED
        with pytest.raises(Conflict):
            await engine.decide(decide(waiting), runs)
    assert len(runs.admitted) == 1


async def test_i07_an_approval_is_one_receipt_bound_to_the_bytes(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(CHECKPOINT), runs)
        view = await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        with pytest.raises(Conflict, match="look at it again"):
            await engine.decide(decide(view, sha256="0" * 64), runs)
        receipt = await engine.decide(decide(view), runs)
        assert receipt.sha256 == view.steps[-1].artifact_version == view.steps[0].artifact_version
        assert receipt.actor["description"].endswith("not password-verified")
        assert receipt.review["renderer"] == "tree"
        assert await engine.decide(decide(view), runs) == receipt
        with pytest.raises(Conflict, match="already decided: approve"):
            await engine.decide(decide(view, "reject"), runs)
        view = await settle(engine, view.run_id, runs)
    assert view.result[:2] == ["approved", True]
    assert view.receipts == (receipt,)
    assert [step.status.value for step in view.steps] == ["completed", "approved", "completed"]


async def test_a_rejection_stops_the_run_and_keeps_its_reason(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(CHECKPOINT), runs)
        view = await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        with pytest.raises(UsageError, match="needs a reason"):
            await engine.decide(decide(view, "reject", reason="  "), runs)
        await engine.decide(decide(view, "reject"), runs)
        view = await settle(engine, view.run_id, runs)
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert view.cause.code == "rejected"
    assert "not gentle at all" in view.cause.message
    assert view.steps[-1].status is StepStatus.REJECTED
    assert len(runs.admitted) == 1


@pytest.mark.parametrize(
    ("mode", "interactive"), [("terminal", False), ("disabled", True), ("disabled", False)]
)
async def test_only_a_person_in_front_of_a_terminal_decides(
    tmp_path: Path, mode: str, interactive: bool
) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(CHECKPOINT), runs)
        view = await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        with pytest.raises(NotPermitted):
            await engine.decide(decide(view), runs.twin(mode=mode, interactive=interactive))
        assert (await engine.inspect(view.run_id, runs)).state is RunState.WAITING_APPROVAL


async def test_i07_fifty_deciders_leave_exactly_one_receipt(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(CHECKPOINT), runs)
        view = await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        asked = [decide(view, "approve" if index % 2 else "reject") for index in range(50)]
        results = await asyncio.gather(*(engine.decide(item, runs) for item in asked), return_exceptions=True)
        view = await settle(engine, view.run_id, runs)
    receipts = [item for item in results if not isinstance(item, BaseException)]
    assert len({item.decision for item in receipts}) == 1
    assert all(isinstance(item, Conflict) for item in results if isinstance(item, BaseException))
    assert len(view.receipts) == 1


async def test_a_changed_configuration_is_noticed_before_a_decision_is_accepted(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(CHECKPOINT), runs)
        view = await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        runs.revision = "r2"
        with pytest.raises(Conflict, match="configuration changed"):
            await engine.decide(decide(view), runs)
        assert (await engine.inspect(view.run_id, runs)).receipts == ()
        runs.revision = "r1"
        await engine.decide(decide(view), runs)
        assert (await settle(engine, view.run_id, runs)).state is RunState.COMPLETED


@pytest.mark.parametrize(
    ("source", "version", "code"),
    [("'none'", "e.artifactVersion", "unknown_source"), ("'e'", "'0'.repeat(64)", "wrong_version")],
)
async def test_a_checkpoint_names_a_completed_step_and_its_version(
    tmp_path: Path, source: str, version: str, code: str
) -> None:
    script = f"""\
const e = await agent({{stepId: 'e', agentRef: 'lead_agent', task: 1}});
try {{ await humanCheckpoint({{stepId: 'ok', sourceStepId: {source}, artifactVersion: {version}}}); }}
catch (error) {{ return error.code; }}
"""
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(script), runs)
        view = await settle(engine, launched.run_id, runs)
    assert view.result == code


async def test_i12_a_waiting_run_is_cancelled(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(PAUSE), runs)
        await reach(engine, launched.run_id, runs, RunState.PAUSED)
        await engine.cancel(launched.run_id, runs)
        view = await settle(engine, launched.run_id, runs)
    assert view.state is RunState.CANCELLED
    assert view.waiting is None


async def test_a_retained_checkpoint_is_decided_after_recovery(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(CHECKPOINT), runs)
        waiting = await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
    async with service(tmp_path, runs) as engine:
        view = await engine.inspect(launched.run_id, runs)
        assert view.state is RunState.RECOVERABLE
        assert view.waiting == waiting.waiting
        await engine.decide(decide(view), runs)
        view = await settle(engine, view.run_id, runs)
    assert view.state is RunState.COMPLETED
    assert [item.metadata["step_id"] for item in runs.admitted] == ["e", "r"]


async def test_a_retained_checkpoint_is_rejected_without_recovery(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(CHECKPOINT), runs)
        await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        await crash(engine)
    async with service(tmp_path, runs) as engine:
        view = await engine.inspect(launched.run_id, runs)
        await engine.decide(decide(view, "reject"), runs)
        view = await engine.inspect(launched.run_id, runs)
    assert view.state is RunState.FAILED
    assert view.steps[-1].status is StepStatus.REJECTED


async def test_resume_of_a_run_whose_owner_is_gone_recovers_it_first(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(PAUSE), runs)
        waiting = await reach(engine, launched.run_id, runs, RunState.PAUSED)
        await crash(engine)
    async with service(tmp_path, runs) as engine:
        outcome = await engine.resume(launched.run_id, "hold", 1, runs)
        assert "recovered first" in outcome.message
        view = await settle(engine, launched.run_id, runs)
    assert view.result == [{"status": "resumed"}, 1, 42]
    assert waiting.waiting is not None
    assert len(runs.admitted) == 1


async def test_resume_of_an_incompatible_run_consumes_nothing(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(PAUSE), runs)
        await reach(engine, launched.run_id, runs, RunState.PAUSED)
    async with service(tmp_path, runs, max_calls=3) as engine:
        with pytest.raises(Refused, match="limits changed"):
            await engine.resume(launched.run_id, "hold", 1, runs)
        view = await engine.inspect(launched.run_id, runs)
        assert (view.state, view.receipts) == (RunState.RECOVERABLE, ())
    async with service(tmp_path, runs) as engine:
        await engine.resume(launched.run_id, "hold", 1, runs)
        assert (await settle(engine, launched.run_id, runs)).state is RunState.COMPLETED


async def test_a_wait_that_expired_while_nobody_owned_it_is_written_by_the_next_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs, pause_timeout_seconds=60) as engine:
        launched = await engine.launch(request(PAUSE), runs)
        await reach(engine, launched.run_id, runs, RunState.PAUSED)
        await crash(engine)
    wall = clock.wall_ns
    monkeypatch.setattr(clock, "wall_ns", lambda: wall() + 3_600 * 10**9)
    async with service(tmp_path, runs, pause_timeout_seconds=60) as engine:
        view = await engine.inspect(launched.run_id, runs)
        assert view.state is RunState.FAILED
        assert view.cause is not None
        assert view.cause.code == "wait_expired"
        with pytest.raises(Conflict):
            await engine.resume(launched.run_id, "hold", 1, runs)
