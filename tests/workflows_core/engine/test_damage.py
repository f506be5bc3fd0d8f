"""One damaged run: the others go on, it is shown as far as it can be read, and it can be cancelled and deleted."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from workflows_core.engine.reconciliation import ReconcileRequest
from workflows_core.engine.service import WorkflowService
from workflows_core.errors import Incompatible, NotFound
from workflows_core.model import RunState
from workflows_core.store.blocking import BlockingReader

from .fakes import FakeRuns, crash, end, request, service, settle
from .test_waits import PAUSE, reach

TWO = """\
const a = await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});
const b = await agent({stepId: 'b', agentRef: 'lead_agent', task: 2});
return [a.output, b.output];
"""
BREAKS = {
    "a frame": "UPDATE frames SET body = CAST('{broken' AS BLOB) WHERE number = 1",
    "the last frame": "UPDATE frames SET body = CAST('{broken' AS BLOB) WHERE number = (SELECT max(number) FROM frames)",
    "the side of a frame": "UPDATE frames SET side = CAST('{broken' AS BLOB) WHERE number = 1",
    "a note": "UPDATE marks SET side = CAST('{broken' AS BLOB)",
    "every frame": "DELETE FROM frames",
    "the record": "UPDATE runs SET record = CAST('{broken' AS BLOB)",
    "the script": "DELETE FROM contents WHERE hash = (SELECT script_hash FROM runs)",
    "the options": "DELETE FROM contents WHERE hash = (SELECT options_hash FROM runs)",
}


async def gated(runs: FakeRuns, req: Any) -> Any:
    if req.metadata["step_id"] == "b":
        await asyncio.sleep(3_600)
    return 1


async def killed(folder: Path, runs: FakeRuns) -> str:
    """A run whose owner died while its child b ran."""
    async with service(folder, runs) as engine:
        run_id = (await engine.launch(request(TWO), runs)).run_id
        while len(runs.admitted) < 2:
            await asyncio.sleep(0.002)
        while not engine.store.journal(run_id)[1]:
            await asyncio.sleep(0.002)
        await crash(engine)
    return run_id


def damage(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / "w.sqlite") as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        assert connection.execute(statement).rowcount
    connection.close()


async def other_run_works(engine: WorkflowService, runs: FakeRuns) -> None:
    one = "return (await agent({stepId: 'a', agentRef: 'lead_agent', task: 1})).output;"
    launched = await engine.launch(request(one), runs)
    assert (await settle(engine, launched.run_id, runs)).result == 1


@pytest.mark.parametrize("what", BREAKS)
@pytest.mark.parametrize("later", [False, True], ids=["before the next owner", "after it"])
async def test_a_damaged_run_is_shown_cancelled_and_deleted(tmp_path: Path, what: str, later: bool) -> None:
    runs = FakeRuns(gated)
    run_id = await killed(tmp_path, runs)
    if later:
        async with service(tmp_path, runs):
            pass
    damage(tmp_path, BREAKS[what])
    reader = BlockingReader.open(tmp_path / "w.sqlite")
    assert reader is not None
    with closing(reader):
        assert [run.run_id for run in reader.runs(None)] == [run_id]
        assert reader.view(run_id).cause is not None
    async with service(tmp_path, runs) as engine:
        await other_run_works(engine, runs)
        view = await engine.inspect(run_id, runs)
        assert view.state in (RunState.RECOVERABLE, RunState.INTERRUPTED)
        preview = await engine.preview(run_id, runs)
        if what not in ("the options",):
            assert preview.compatible is False, preview
            assert any("damaged" in reason or "missing" in reason for reason in preview.reasons)
            with pytest.raises(Incompatible):
                await engine.recover(run_id, runs)
        await engine.cancel(run_id, runs)
        async with asyncio.timeout(60):
            while (await engine.inspect(run_id, runs)).state is not RunState.CANCELLED:
                await asyncio.sleep(0.005)
        assert not runs.alive()
        await engine.delete(run_id, runs)
        with pytest.raises(NotFound):
            await engine.inspect(run_id, runs)
    await end(runs)


async def test_an_uncertain_child_of_a_damaged_run_is_settled_by_its_step(tmp_path: Path) -> None:
    runs = FakeRuns(gated)
    run_id = await killed(tmp_path, runs)
    runs.by_key.clear()
    damage(tmp_path, BREAKS["a frame"])
    async with service(tmp_path, runs) as engine:
        await engine.cancel(run_id, runs)
        view = await reach(engine, run_id, runs, RunState.NEEDS_RECONCILIATION)
        uncertain = [step.step_id for step in view.steps if step.unsettled]
        assert set(uncertain) == {"a", "b"}
        for step_id in uncertain:
            attested = ReconcileRequest(
                run_id=run_id, step_id=step_id, outcome="failed", reason="looked at it"
            )
            session = runs.twin(interactive=True)
            await engine.reconcile(attested, session)
        assert (await engine.inspect(run_id, runs)).state is RunState.CANCELLED
        await engine.delete(run_id, runs)
    await end(runs)


async def test_a_damaged_wait_that_expired_does_not_keep_the_next_owner_out(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs, pause_timeout_seconds=60) as engine:
        run_id = (await engine.launch(request(PAUSE), runs)).run_id
        await reach(engine, run_id, runs, RunState.PAUSED)
    damage(tmp_path, "DELETE FROM frames")
    damage(
        tmp_path,
        "UPDATE runs SET record = CAST(json_set(CAST(record AS TEXT), '$.waiting.expires_at', 1) AS BLOB)",
    )
    async with service(tmp_path, runs) as engine:
        await other_run_works(engine, runs)
        assert (await engine.inspect(run_id, runs)).state in (RunState.FAILED, RunState.RECOVERABLE)
