"""The service's commands: launch identity, quotas, cancel, delete, shutdown, and controls from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from extension_api import ExtensionData, ExtensionRuntimeDeps
from workflows_core.engine.service import WorkflowService
from workflows_core.errors import (
    Conflict,
    Deleted,
    LimitExceeded,
    NotFound,
    NotPermitted,
    QuotaReached,
    ScriptRefused,
    StoreFailed,
    StoreInUse,
    UsageError,
)
from workflows_core.journal.frames import FrameKind
from workflows_core.limits import engine_config
from workflows_core.model import RunState
from workflows_core.store.reader import StoreReader
from workflows_core.store.sqlite import SqliteStore

from .fakes import FakeRuns, request, service, settle

ONE = "return (await agent({stepId: 'a', agentRef: 'lead_agent', task: 1})).output;"


async def forever(runs: FakeRuns, req: Any) -> Any:
    await asyncio.sleep(60)


async def test_the_same_request_returns_the_same_run(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        asked = request(ONE)
        first = await engine.launch(asked, runs)
        await settle(engine, first.run_id, runs)
        again = await engine.launch(asked, runs)
        assert (again.run_id, again.existing) == (first.run_id, True)
        assert len(runs.admitted) == 1


async def test_a_host_that_asks_for_it_is_told_which_answers_are_committed(tmp_path: Path) -> None:
    told: list[tuple[list[str], str]] = []

    class Ordering(FakeRuns):
        def delivered(self, workflow_run_id: str, step_ids: Sequence[str]) -> None:
            told.append((list(step_ids), engine.store.journal(workflow_run_id)[0][-1].kind))

    runs = Ordering()
    script = (
        "const a = agent({stepId: 'a', agentRef: 'lead_agent', task: 1}); await a; log('x');\n"
        + ONE.replace("'a'", "'b'")
    )
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(script), runs)
        assert (await settle(engine, launched.run_id, runs)).state is RunState.COMPLETED
    assert told == [(["a"], FrameKind.RESPONSE), (["b"], FrameKind.RESPONSE)]


@pytest.mark.parametrize(
    "change", [{"script": "return 2;"}, {"args": {"x": 1}}, {"options": {"agents": "real"}}]
)
async def test_a_request_id_with_other_contents_conflicts(tmp_path: Path, change: dict[str, Any]) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        await engine.launch(request(ONE, request_id="r"), runs)
        with pytest.raises(Conflict, match="another script, args, agents or limits"):
            await engine.launch(request(**({"script": ONE, "request_id": "r"} | change)), runs)


async def test_the_label_of_the_options_is_not_part_of_the_identity(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        first = await engine.launch(
            request(ONE, request_id="r", options={"agents": "stub", "label": "a"}), runs
        )
        second = await engine.launch(
            request(ONE, request_id="r", options={"agents": "stub", "label": "b"}), runs
        )
        assert second.run_id == first.run_id


@pytest.mark.parametrize(
    ("config", "conflicts"),
    [({"agents": ["b", "lead_agent"]}, False), ({"max_calls": 3}, True), ({"agents": ["lead_agent"]}, True)],
)
async def test_allowlist_order_is_irrelevant_and_limits_are_not(
    tmp_path: Path, config: dict[str, Any], conflicts: bool
) -> None:
    runs = FakeRuns()
    asked = request(ONE, request_id="r")
    async with service(tmp_path, runs, agents=["lead_agent", "b"]) as engine:
        first = await engine.launch(asked, runs)
        await settle(engine, first.run_id, runs)
    async with service(tmp_path, runs, **({"agents": ["lead_agent", "b"]} | config)) as engine:
        if conflicts:
            with pytest.raises(Conflict):
                await engine.launch(asked, runs)
        else:
            assert (await engine.launch(asked, runs)).run_id == first.run_id


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"script": "x" * 17_000}, LimitExceeded),
        ({"script": "}); evil(); (async () => {"}, ScriptRefused),
        ({"args": [1]}, UsageError),
        ({"args": {"x": "y" * 4_000}}, LimitExceeded),
        ({"args": {"x": float("nan")}}, UsageError),
        ({"args": {"x": 2**53 + 1}}, UsageError),
        ({"args": {"x": "\ud800"}}, UsageError),
        ({"request_id": "a b"}, UsageError),
        ({"request_id": "x" * 129}, UsageError),
        ({"name": ""}, UsageError),
    ],
)
async def test_i11_what_cannot_run_is_refused_before_anything_is_stored(
    tmp_path: Path, change: dict[str, Any], error: type[Exception]
) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        with pytest.raises(error):
            await engine.launch(request(**({"script": ONE} | change)), runs)
        assert await engine.list_runs(runs) == []


async def test_active_and_retained_runs_are_limited_in_words(tmp_path: Path) -> None:
    runs = FakeRuns(forever)
    async with service(tmp_path / "a", runs, max_workflows_per_owner=1) as engine:
        await engine.launch(request(ONE), runs)
        with pytest.raises(QuotaReached, match="max_workflows_per_owner"):
            await engine.launch(request(ONE), runs)
    runs = FakeRuns(forever)
    async with service(tmp_path / "b", runs, max_workflows=1) as engine:
        await engine.launch(request(ONE), runs)
        with pytest.raises(QuotaReached, match="max_workflows\\."):
            await engine.launch(request(ONE), FakeRuns(user_id="os:2"))
    runs = FakeRuns()
    async with service(tmp_path / "c", runs, retained_runs=1) as engine:
        launched = await engine.launch(request(ONE), runs)
        await settle(engine, launched.run_id, runs)
        with pytest.raises(QuotaReached, match="delete --older-than"):
            await engine.launch(request(ONE), runs)


async def test_i12_cancel_interrupts_and_observes_the_children(tmp_path: Path) -> None:
    runs = FakeRuns(forever)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(ONE), runs)
        while not runs.admitted:
            await asyncio.sleep(0.005)
        outcome = await engine.cancel(launched.run_id, runs)
        assert outcome.status == "recorded"
        view = await settle(engine, launched.run_id, runs)
        assert view.state is RunState.CANCELLED
        assert view.cause is not None
        assert "not undone" in view.cause.message
        assert [step.status.value for step in view.steps] == ["interrupted"]
        assert view.steps[0].child_run_id in runs.interrupted
        assert runs.alive() == []
        assert (await engine.cancel(launched.run_id, runs)).status == "applied"


async def test_i12_cancel_waits_for_an_admission_in_flight_and_records_its_child(tmp_path: Path) -> None:
    runs = FakeRuns(forever)
    release = asyncio.Event()

    async def slow(req: Any) -> None:
        await release.wait()

    runs.before_admit = slow
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(ONE), runs)
        while not engine._supervisors[launched.run_id]._calls._children:
            await asyncio.sleep(0.005)
        await engine.cancel(launched.run_id, runs)
        await asyncio.sleep(0.02)
        assert engine.store.load(launched.run_id).state is RunState.RUNNING  # type: ignore[union-attr]
        release.set()
        view = await settle(engine, launched.run_id, runs)
    assert view.state is RunState.CANCELLED
    assert view.steps[0].child_run_id is not None
    assert runs.alive() == []


async def test_a_caller_that_goes_away_does_not_undo_a_launch(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        asked = request(ONE)
        task = asyncio.create_task(engine.launch(asked, runs))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        again = await engine.launch(asked, runs)
        view = await settle(engine, again.run_id, runs)
        assert view.state is RunState.COMPLETED
        assert len(runs.admitted) == 1


async def test_deleting_leaves_a_tombstone_that_names_the_run(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        asked = request(ONE)
        launched = await engine.launch(asked, runs)
        with pytest.raises(Conflict, match="Cancel it first"):
            await engine.delete(launched.run_id, runs)
        await settle(engine, launched.run_id, runs)
        await engine.delete(launched.run_id, runs)
        assert runs.deleted == [launched.run_id]
        with pytest.raises(NotFound):
            await engine.inspect(launched.run_id, runs)
        with pytest.raises(Deleted, match=launched.run_id):
            await engine.launch(asked, runs)


async def test_only_the_owner_may_look_or_act(tmp_path: Path) -> None:
    runs, stranger = FakeRuns(), FakeRuns(user_id="os:2")
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(ONE), runs)
        await settle(engine, launched.run_id, runs)
        for act in (engine.inspect, engine.cancel, engine.delete):
            with pytest.raises(NotPermitted):
                await act(launched.run_id, stranger)
        assert await engine.list_runs(stranger) == []


async def test_twenty_latest_runs_are_listed_newest_first(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        ids = []
        for _ in range(22):
            launched = await engine.launch(request("return 1;"), runs)
            await settle(engine, launched.run_id, runs)
            ids.append(launched.run_id)
        listed = [row.run_id for row in await engine.list_runs(runs)]
    assert listed == ids[::-1][:20]


async def test_shutdown_leaves_the_run_recoverable_with_its_child_known(tmp_path: Path) -> None:
    runs = FakeRuns(forever)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(ONE), runs)
        while not runs.admitted:
            await asyncio.sleep(0.005)
    async with service(tmp_path, runs) as engine:
        view = await engine.inspect(launched.run_id, runs)
        assert view.state is RunState.RECOVERABLE
        assert view.cause is not None
        assert view.cause.code == "shutdown"
        assert view.steps[0].child_run_id is not None


async def test_i12_a_recoverable_run_is_cancelled_by_observing_its_children(tmp_path: Path) -> None:
    runs = FakeRuns(forever)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(ONE), runs)
        while not runs.admitted:
            await asyncio.sleep(0.005)
        view = await engine.inspect(launched.run_id, runs)
    async with service(tmp_path, runs) as engine:
        await engine.cancel(launched.run_id, runs)
        while not (view := await engine.inspect(launched.run_id, runs)).state.final:
            await asyncio.sleep(0.005)
    assert view.state is RunState.CANCELLED
    assert view.frames[-1].kind == FrameKind.END


async def test_a_full_disk_stops_the_run_in_a_stated_condition(tmp_path: Path) -> None:
    runs = FakeRuns()
    path = tmp_path / "w.sqlite"
    stores: list[SqliteStore] = []

    def open_store(path: Path) -> SqliteStore:
        stores.append(SqliteStore(path))
        return stores[-1]

    async def fill(runs: FakeRuns, req: Any) -> Any:
        pages = stores[0]._connection.execute("PRAGMA page_count").fetchone()[0]
        stores[0]._connection.execute(f"PRAGMA max_page_count={pages}")
        return "x" * 11_000

    runs.answer = fill
    engine = WorkflowService(engine_config({"storage_path": str(path)}), store=open_store)
    await engine.start(ExtensionRuntimeDeps(app_store=ExtensionData("app")))
    try:
        launched = await engine.launch(request(ONE), runs)
        view = await settle(engine, launched.run_id, runs)
        assert view.frames[-1].kind == "request"
        stores[0]._connection.execute("PRAGMA max_page_count=1000000")
        async with asyncio.timeout(60):
            while (view := await engine.inspect(launched.run_id, runs)).state is not RunState.RECOVERABLE:
                await asyncio.sleep(0.02)
        assert view.cause is not None
        assert "disk is full" in view.cause.message
    finally:
        await engine.stop()


async def test_a_second_service_on_the_store_is_refused(tmp_path: Path) -> None:
    async with service(tmp_path) as engine:
        assert engine.storage_path is not None
        second = WorkflowService(engine.config)
        with pytest.raises(StoreInUse):
            await second.start(ExtensionRuntimeDeps(app_store=ExtensionData("app")))


async def test_a_launch_during_shutdown_is_refused(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        pass
    with pytest.raises(StoreFailed, match="shutting down"):
        await engine.launch(request(ONE), runs)


async def test_controls_from_other_processes_are_applied_and_answered(tmp_path: Path) -> None:
    runs = FakeRuns(forever)
    async with service(tmp_path, runs) as engine:
        assert engine.storage_path is not None
        reader = await StoreReader.open(engine.storage_path)
        assert reader is not None

        async def settled(row_id: int) -> Any:
            async with asyncio.timeout(60):
                while (row := await reader.inbox_row(row_id)).settled_at is None:  # type: ignore[union-attr]
                    await asyncio.sleep(0.005)
            return row

        body = {
            "script": ONE,
            "args": {},
            "name": "from outside",
            "request_id": "r1",
            "options": {"agents": "stub"},
            "parent_run_id": None,
        }
        row = await settled(await reader.post("launch", None, body, {"uid": 1}))
        assert row.outcome == "applied"
        run_id = row.detail["run_id"]
        row = await settled(await reader.post("launch", None, {"script": 1}, {"uid": 1}))
        assert (row.outcome, row.detail["error"]["type"]) == ("refused", "UsageError")
        row = await settled(await reader.post("cancel", "wr_none", {}, {"uid": 1}))
        assert (row.outcome, row.detail["error"]["type"]) == ("refused", "NotFound")
        row = await settled(await reader.post("cancel", run_id, {}, {"uid": 1}))
        assert row.outcome == "applied"
        view = await settle(engine, run_id, runs)
        assert view.state is RunState.CANCELLED
        row = await settled(await reader.post("delete", run_id, {}, {"uid": 1}))
        assert row.outcome == "applied"
        row = await settled(await reader.post("dance", None, {}, {"uid": 1}))
        assert "does not know the control dance" in row.detail["error"]["message"]
        await reader.close()
