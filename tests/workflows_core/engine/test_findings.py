"""What once went wrong: each test names it in words."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from workflows_core.engine.waits import DecideRequest
from workflows_core.errors import Conflict, QuotaReached, StoreFailed
from workflows_core.journal.frames import verify_chain
from workflows_core.model import RunState
from workflows_core.store.base import Batch
from workflows_core.store.reader import StoreReader
from workflows_core.store.sqlite import SqliteStore

from .fakes import CrashingStore, FakeRuns, NeedsInput, crash, end, request, service, settle

ONE = "return (await agent({stepId: 'a', agentRef: 'lead_agent', task: 1})).output;"
CHECKPOINT = """\
const e = await agent({stepId: 'e', agentRef: 'lead_agent', task: 1});
await humanCheckpoint({stepId: 'ok', sourceStepId: 'e', artifactVersion: e.artifactVersion});
"""


async def reach(engine: Any, run_id: str, runs: FakeRuns, state: RunState) -> Any:
    async with asyncio.timeout(60):
        while (view := await engine.inspect(run_id, runs)).state is not state:
            await asyncio.sleep(0.005)
    return view


async def test_a_refused_write_of_a_rejection_leaves_no_hole_in_the_chain(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(CHECKPOINT), runs)
        view = await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        asked = DecideRequest(
            run_id=view.run_id,
            step_id="ok",
            attempt=1,
            decision="reject",
            sha256=str(view.steps[-1].artifact_version),
            reason="no",
        )
        store = engine.store
        assert isinstance(store, CrashingStore)
        original = SqliteStore.commit

        def refused(run_id: str, batch: Batch) -> None:
            raise StoreFailed("the disk is full")

        store.commit = refused  # type: ignore[method-assign]
        with pytest.raises(StoreFailed):
            await engine.decide(asked, runs)
        store.commit = lambda run_id, batch: original(store, run_id, batch)  # type: ignore[method-assign]
        await engine.decide(asked, runs)
        await settle(engine, view.run_id, runs)
        frames, _ = store.journal(view.run_id)
    verify_chain(frames)
    assert frames[-1].kind == "end"


async def test_a_refusal_after_waiting_for_a_global_place_reaches_the_script(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def gated(runs: FakeRuns, req: Any) -> Any:
        await gate.wait()
        return 1

    runs = FakeRuns(gated)
    catching = f"try {{ {ONE} }} catch (e) {{ return e.code; }}"
    async with service(tmp_path, runs, global_concurrency=1) as engine:
        first = await engine.launch(request(ONE), runs)
        while not runs.admitted:
            await asyncio.sleep(0.005)
        second = await engine.launch(request(catching), runs)
        while not engine._supervisors[second.run_id]._calls._queue:
            await asyncio.sleep(0.005)
        runs.refused.add("lead_agent")
        gate.set()
        assert (await settle(engine, first.run_id, runs)).state is RunState.COMPLETED
        assert (await settle(engine, second.run_id, runs)).result == "not_permitted"


async def test_a_cancel_while_the_run_stops_for_another_reason_is_finished(tmp_path: Path) -> None:
    async def asks(runs: FakeRuns, req: Any) -> Any:
        if req.metadata["step_id"] == "ask":
            await asyncio.sleep(0.02)
            raise NeedsInput("which one?")
        await asyncio.sleep(60)

    runs = FakeRuns(asks)
    original = runs.interrupt
    stopping, cancelled = asyncio.Event(), asyncio.Event()

    async def slow(run_id: str) -> Any:
        stopping.set()
        await cancelled.wait()
        return await original(run_id)

    runs.interrupt = slow  # type: ignore[method-assign]
    script = (
        "await parallel([() => agent({stepId: 'ask', agentRef: 'lead_agent', task: 1}), "
        "() => agent({stepId: 'side', agentRef: 'lead_agent', task: 1})]);"
    )
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(script), runs)
        await stopping.wait()
        await engine.cancel(launched.run_id, runs)
        cancelled.set()
        await reach(engine, launched.run_id, runs, RunState.CANCELLED)
    await end(runs)


async def test_a_run_whose_store_refuses_writes_is_known_to_be_left(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        store = engine.store
        assert isinstance(store, CrashingStore)

        async def fill(runs: FakeRuns, req: Any) -> Any:
            def refused(run_id: str, batch: Batch) -> None:
                raise StoreFailed("the disk is full")

            store.commit = refused  # type: ignore[method-assign]
            return 1

        runs.answer = fill
        launched = await engine.launch(request(ONE), runs)
        await settle(engine, launched.run_id, runs)
        cause = engine.abandoned(launched.run_id)
        assert cause is not None
        assert "disk is full" in cause.message
        del store.commit
        await reach(engine, launched.run_id, runs, RunState.RECOVERABLE)
        assert engine.abandoned(launched.run_id) is None


async def test_an_interrupted_run_with_a_living_child_is_not_deleted(tmp_path: Path) -> None:
    async def forever(runs: FakeRuns, req: Any) -> Any:
        await asyncio.sleep(60)

    runs = FakeRuns(forever)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(ONE), runs)
        async with asyncio.timeout(60):
            while (
                not (view := await engine.inspect(launched.run_id, runs)).steps
                or not view.steps[0].child_run_id
            ):
                await asyncio.sleep(0.005)
        await crash(engine)
    connection = sqlite3.connect(tmp_path / "w.sqlite")
    connection.execute("UPDATE frames SET hash = zeroblob(32) WHERE number = 1")
    connection.commit()
    connection.close()
    async with service(tmp_path, runs) as engine:
        view = await engine.inspect(launched.run_id, runs)
        assert view.state is RunState.INTERRUPTED
        with pytest.raises(Conflict, match="Cancel the run"):
            await engine.delete(launched.run_id, runs)
        await engine.cancel(launched.run_id, runs)
        await reach(engine, launched.run_id, runs, RunState.CANCELLED)
        assert runs.alive() == []
        await engine.delete(launched.run_id, runs)


async def test_a_malformed_control_row_does_not_stop_those_behind_it(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        assert engine.storage_path is not None
        connection = sqlite3.connect(engine.storage_path)
        for body in (b"no json", b"\xff", b"[1]"):
            connection.execute(
                "INSERT INTO inbox (kind, body, actor, created_at) VALUES ('cancel', ?, x'7b7d', 1)", (body,)
            )
        connection.commit()
        connection.close()
        reader = await StoreReader.open(engine.storage_path)
        assert reader is not None
        row_id = await reader.post("save", None, {"name": "a", "script": "return 1;"}, {"uid": 1})
        async with asyncio.timeout(60):
            while (row := await reader.inbox_row(row_id)).settled_at is None:  # type: ignore[union-attr]
                await asyncio.sleep(0.005)
        assert row is not None
        assert row.outcome == "applied"
        await reader.close()


def test_a_store_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "w.sqlite"
    SqliteStore(path).close()
    for folder in (path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    path.chmod(0o644)
    SqliteStore(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_launch_that_could_never_start_a_call_is_refused_in_words(tmp_path: Path) -> None:
    async def lost(asked: Any) -> None:
        raise ConnectionError

    runs = FakeRuns()
    runs.before_admit = lost
    async with service(tmp_path, runs, global_concurrency=1) as engine:
        first = await engine.launch(request(ONE), runs)
        await reach(engine, first.run_id, runs, RunState.NEEDS_RECONCILIATION)
        with pytest.raises(QuotaReached, match=r"outcome is uncertain.*Settle one"):
            await engine.launch(request(ONE), runs)
    async with service(tmp_path, runs, global_concurrency=1) as engine:
        with pytest.raises(QuotaReached, match="global_concurrency"):
            await engine.launch(request(ONE), runs)


async def test_a_deadline_names_the_calls_that_found_no_place(tmp_path: Path) -> None:
    async def never(runs: FakeRuns, req: Any) -> Any:
        await asyncio.sleep(3_600)

    runs = FakeRuns(never)
    async with service(tmp_path, runs, global_concurrency=1, timeout_seconds=3) as engine:
        both = "await parallel([1, 2].map(n => () => agent({stepId: `s${n}`, agentRef: 'lead_agent', task: n})));"
        launched = await engine.launch(request(both), runs)
        view = await settle(engine, launched.run_id, runs)
    assert view.cause is not None
    assert view.cause.code == "deadline"
    assert "s2 had found no place" in view.cause.message
