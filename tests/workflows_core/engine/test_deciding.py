"""What is checked before a decision, a cancel or a deletion is accepted."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from workflows_core.engine.service import WorkflowService
from workflows_core.engine.waits import DecideRequest
from workflows_core.errors import Conflict, NotPermitted
from workflows_core.model import RunState, RunView

from .fakes import FakeRuns, crash, end, request, service, settle

CHECKPOINT = """\
const e = await agent({stepId: 'e', agentRef: 'lead_agent', task: 1});
await humanCheckpoint({stepId: 'ok', sourceStepId: 'e', artifactVersion: e.artifactVersion});
return 1;
"""


async def reach(engine: WorkflowService, run_id: str, runs: FakeRuns, state: RunState) -> RunView:
    async with asyncio.timeout(60):
        while (view := await engine.inspect(run_id, runs)).state is not state:
            await asyncio.sleep(0.005)
    return view


def decision(view: RunView, what: str) -> DecideRequest:
    step = view.steps[-1]
    return DecideRequest(
        run_id=view.run_id,
        step_id=step.step_id,
        attempt=1,
        decision=what,
        sha256=str(step.artifact_version),
        reason="because",
    )


@pytest.mark.parametrize("what", ["approve", "reject"])
async def test_a_decision_on_a_retained_checkpoint_needs_the_configuration_of_the_run(
    tmp_path: Path, what: str
) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(CHECKPOINT), runs)
        await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        await crash(engine)
    async with service(tmp_path, runs) as engine:
        view = await engine.inspect(launched.run_id, runs)
        runs.revision = "another"
        with pytest.raises(Conflict, match="workbench fork"):
            await engine.decide(decision(view, what), runs)
        view = await engine.inspect(launched.run_id, runs)
        assert (view.state, view.receipts) == (RunState.RECOVERABLE, ())
        runs.revision = "r1"
        await engine.decide(decision(view, what), runs)
        view = await settle(engine, launched.run_id, runs)
    assert view.state is {"approve": RunState.COMPLETED, "reject": RunState.FAILED}[what]


async def test_i12_a_run_of_another_mode_of_authentication_is_cancelled_where_it_is_disabled(
    tmp_path: Path,
) -> None:
    async def slow(runs: FakeRuns, req: Any) -> Any:
        await asyncio.sleep(60)

    runs = FakeRuns(slow)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(CHECKPOINT), runs)
        await reach(engine, launched.run_id, runs, RunState.RUNNING)
        anybody = runs.twin(user_id="local", mode="disabled")
        with pytest.raises(NotPermitted, match="belongs to"):
            await engine.delete(launched.run_id, anybody)
        with pytest.raises(NotPermitted, match="belongs to"):
            await engine.cancel(launched.run_id, runs.twin(user_id="os:2"))
        await engine.cancel(launched.run_id, anybody)
        view = await settle(engine, launched.run_id, runs)
    assert view.state is RunState.CANCELLED
    assert runs.alive() == []
    await end(runs)


async def test_a_finished_run_with_a_damaged_journal_can_be_deleted(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request("return 1;"), runs)
        await settle(engine, launched.run_id, runs)
        with sqlite3.connect(tmp_path / "w.sqlite") as other:
            other.execute("UPDATE frames SET body = ? WHERE number = 1", (b"{broken",))
        other.close()
        await engine.delete(launched.run_id, runs)
        assert engine.store.load(launched.run_id) is None
