"""Recovery: nothing happens twice, at whichever commit boundary the process died."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extension_api import ExtensionData, ExtensionRuntimeDeps
from workflows_core.engine.service import WorkflowService
from workflows_core.errors import Conflict, Incompatible, QuotaReached, StoreFailed
from workflows_core.journal.frames import verify_chain
from workflows_core.limits import engine_config
from workflows_core.model import RunState, RunView, StepStatus
from workflows_core.store.base import Batch

from .fakes import Crash, CrashingStore, FakeRuns, NeedsInput, crash, end, request, service, settle

SCRIPT = """\
const first = await agent({stepId: 'first', agentRef: 'lead_agent', task: {n: 1}});
log('first is done');
const both = await parallel([
  () => agent({stepId: 'a', agentRef: 'lead_agent', task: {seen: first.output}}),
  () => agent({stepId: 'b', agentRef: 'lead_agent', task: {seen: first.output}}),
  () => agent({stepId: 'c', agentRef: 'lead_agent', task: {seen: first.output}}),
]);
const last = await agent({stepId: 'last', agentRef: 'lead_agent', task: both.map(r => r.output)});
return {last: last.output, n: both.length};
"""
EXPECTED = {"last": [{"seen": {"n": 1}}] * 3, "n": 3}


def asked(runs: FakeRuns) -> Counter[str]:
    return Counter(item.metadata["step_id"] for item in runs.admitted)


async def run_until_crash(folder: Path, runs: FakeRuns, at: int | None) -> tuple[str | None, list[str]]:
    """Run SCRIPT in a service that dies at boundary ``at``; the run id and the boundaries that were passed."""
    folder.mkdir(parents=True, exist_ok=True)
    stores: list[CrashingStore] = []

    def open_store(path: Path) -> CrashingStore:
        stores.append(CrashingStore(path, at))
        return stores[-1]

    engine = WorkflowService(
        engine_config({"storage_path": str(folder / "w.sqlite")}), store=open_store, inbox_seconds=60
    )
    await engine.start(ExtensionRuntimeDeps(app_store=ExtensionData("app"), agent_runs_for=lambda _: runs))
    run_id = None
    try:
        run_id = (await engine.launch(request(SCRIPT, request_id="rq"), runs)).run_id
        async with asyncio.timeout(60):
            while run_id in engine._tasks and not stores[0].dead:
                await asyncio.sleep(0.002)
    except Crash:
        pass
    await crash(engine)
    await asyncio.sleep(0)
    return run_id, stores[0].boundaries


async def recovered(engine: WorkflowService, run_id: str, runs: FakeRuns) -> RunView:
    await engine.recover(run_id, runs)
    return await settle(engine, run_id, runs)


async def test_every_crash_point_recovers_without_asking_an_agent_twice(tmp_path: Path) -> None:
    runs = FakeRuns()
    _, boundaries = await run_until_crash(tmp_path / "whole", runs, None)
    assert len(boundaries) > 12
    outcomes: Counter[str] = Counter()
    for at in range(1, len(boundaries) + 1):
        folder = tmp_path / str(at)
        runs = FakeRuns()
        run_id, _ = await run_until_crash(folder, runs, at)
        before = asked(runs)
        async with service(folder, runs) as engine:
            stored = engine.store.by_request("os:1", "rq")
            if stored is None:
                assert at == 1
                outcomes["nothing"] += 1
                continue
            run_id = stored.run_id
            view = await engine.inspect(run_id, runs)
            if view.state is RunState.COMPLETED:
                outcomes["completed"] += 1
                continue
            assert view.state is RunState.RECOVERABLE, (at, view.state, view.cause)
            preview = await engine.preview(run_id, runs)
            assert preview.compatible, (at, preview.reasons)
            view = await recovered(engine, run_id, runs)
            after = asked(runs)
            assert all(count == 1 for count in after.values()), (at, after)
            new = set(after) - set(before)
            assert {step.step_id for step in preview.new} <= new | {
                step.step_id for step in view.steps if view.state is not RunState.COMPLETED
            }
            if preview.uncertain:
                assert view.state is RunState.NEEDS_RECONCILIATION, at
            else:
                assert view.state is RunState.COMPLETED, (at, view.cause)
                assert view.result == EXPECTED
                assert [line.message for line in view.log] == ["first is done"]
            frames, _ = engine.store.journal(run_id)
            verify_chain(frames)
            outcomes[view.state.value] += 1
        await end(runs)
    assert outcomes["completed"] > 8
    assert outcomes["needs_reconciliation"] >= 1


async def test_a_known_child_is_observed_and_not_started_again(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def gated(runs: FakeRuns, req: Any) -> Any:
        await gate.wait()
        return "done"

    runs = FakeRuns(gated)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(
            request("return (await agent({stepId: 'a', agentRef: 'lead_agent', task: 1})).output;"), runs
        )
        async with asyncio.timeout(60):
            while (await engine.inspect(launched.run_id, runs)).steps[:1] == () or not (
                await engine.inspect(launched.run_id, runs)
            ).steps[0].child_run_id:
                await asyncio.sleep(0.005)
        await crash(engine)
    async with service(tmp_path, runs) as engine:
        preview = await engine.preview(launched.run_id, runs)
        assert [step.step_id for step in preview.observed] == ["a"]
        await engine.recover(launched.run_id, runs)
        again = await engine.recover(launched.run_id, runs)
        assert "already" in again.message
        gate.set()
        view = await settle(engine, launched.run_id, runs)
    assert view.result == "done"
    assert len(runs.admitted) == 1


async def test_a_child_that_died_with_the_host_is_never_asked_again(tmp_path: Path) -> None:
    async def forever(runs: FakeRuns, req: Any) -> Any:
        await asyncio.sleep(60)

    runs = FakeRuns(forever)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(
            request("return await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});"), runs
        )
        while not runs.admitted:
            await asyncio.sleep(0.005)
    await end(runs)
    async with service(tmp_path, runs) as engine:
        preview = await engine.preview(launched.run_id, runs)
        assert [step.step_id for step in preview.uncertain] == ["a"]
        view = await recovered(engine, launched.run_id, runs)
    assert view.state is RunState.NEEDS_RECONCILIATION
    assert len(runs.admitted) == 1


async def paused_run(folder: Path, runs: FakeRuns, **config: Any) -> str:
    script = "await pause({stepId: 'p'}); return 1;"
    async with service(folder, runs, **config) as engine:
        launched = await engine.launch(request(script), runs)
        async with asyncio.timeout(60):
            while (await engine.inspect(launched.run_id, runs)).state is not RunState.PAUSED:
                await asyncio.sleep(0.005)
    return launched.run_id


@pytest.mark.parametrize(
    ("config", "words"),
    [({"max_calls": 3}, "max_calls"), ({"agents": ["lead_agent", "other"]}, "allowed agents")],
)
async def test_changed_limits_or_agents_refuse_recovery_in_words(
    tmp_path: Path, config: dict[str, Any], words: str
) -> None:
    runs = FakeRuns()
    run_id = await paused_run(tmp_path, runs)
    async with service(tmp_path, runs, **config) as engine:
        preview = await engine.preview(run_id, runs)
        assert preview.compatible is False
        assert any(words in reason for reason in preview.reasons)
        with pytest.raises(Incompatible, match=words):
            await engine.recover(run_id, runs)
        assert (await engine.inspect(run_id, runs)).state is RunState.RECOVERABLE


async def test_a_changed_secret_or_configuration_refuses_recovery(tmp_path: Path) -> None:
    runs = FakeRuns()
    run_id = await paused_run(tmp_path, runs)
    runs.revision = "another"
    async with service(tmp_path, runs) as engine:
        with pytest.raises(Incompatible, match=r"configuration changed since the launch \(prompts\)"):
            await engine.recover(run_id, runs)


async def test_another_runtime_refuses_recovery_and_leaves_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = FakeRuns()
    run_id = await paused_run(tmp_path, runs)
    monkeypatch.setattr("workflows_core.engine.recovery.runtime_signature", lambda: "another")
    async with service(tmp_path, runs) as engine:
        with pytest.raises(Incompatible, match="another version of the worker"):
            await engine.recover(run_id, runs)
        await engine.cancel(run_id, runs)
        async with asyncio.timeout(60):
            while not (await engine.inspect(run_id, runs)).state.final:
                await asyncio.sleep(0.005)


async def test_a_recorded_cancel_refuses_recovery(tmp_path: Path) -> None:
    runs = FakeRuns()
    run_id = await paused_run(tmp_path, runs)
    async with service(tmp_path, runs) as engine:
        record = engine.store.load(run_id)
        assert record is not None
        writer = engine._reopen(record)
        from workflows_core.model import Event

        writer.write(Event.RECORD_CANCEL, cancel_requested_at=1)
        with pytest.raises(Incompatible, match="only cancel"):
            await engine.recover(run_id, runs)
        preview = await engine.preview(run_id, runs)
        assert any("only cancel" in reason for reason in preview.reasons)


async def test_a_diverging_replay_fails_before_any_new_effect(tmp_path: Path) -> None:
    runs = FakeRuns()
    run_id, _ = await run_until_crash(tmp_path, runs, 9)
    assert run_id is not None
    import sqlite3

    from workflows_core.journal.frames import FrameKind, JournalWriter
    from workflows_core.store import rows

    before = asked(runs)
    connection = sqlite3.connect(tmp_path / "w.sqlite")
    found = connection.execute(
        f"SELECT {rows.FRAME_COLUMNS} FROM frames WHERE run_id = ? ORDER BY number", (run_id,)
    ).fetchall()
    writer = JournalWriter()
    for row in found:
        frame = rows.frame(row)
        body = frame.body.replace(b'"n":1', b'"n":2') if frame.kind is FrameKind.REQUEST else frame.body
        made = writer.frame(frame.kind, body, frame.at, frame.side)
        connection.execute(
            "UPDATE frames SET body = ?, hash = ? WHERE run_id = ? AND number = ?",
            (made.body, made.hash, run_id, made.number),
        )
    connection.commit()
    connection.close()
    async with service(tmp_path, runs) as engine:
        preview = await engine.preview(run_id, runs)
        assert preview.compatible is False
        view = await recovered(engine, run_id, runs)
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert (view.cause.code, view.cause.line) == ("diverged", 1)
    assert asked(runs) == before


async def test_a_spent_budget_is_said_and_ends_failed(tmp_path: Path) -> None:
    runs = FakeRuns()
    run_id, _ = await run_until_crash(tmp_path, runs, 9)
    assert run_id is not None
    async with service(tmp_path, runs) as engine:
        record = engine.store.load(run_id)
        assert record is not None
        import msgspec

        spent = msgspec.structs.replace(record, revision=record.revision + 1, used=600_000_000)
        engine.store.commit(run_id, Batch(record=spent))
        preview = await engine.preview(run_id, runs)
        assert any("budget was used up" in reason for reason in preview.reasons)
        view = await recovered(engine, run_id, runs)
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert view.cause.code == "deadline"


TWO = """\
await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});
await agent({stepId: 'b', agentRef: 'lead_agent', task: 2});
"""


@pytest.mark.parametrize(
    ("answer", "new", "reason", "state", "code"),
    [
        ("fine", ["b"], None, RunState.COMPLETED, None),
        ("x" * 13_000, [], "after that it would fail: a: its output", RunState.FAILED, "output_too_large"),
        (NeedsInput("which one?"), [], "would wait for input: a", RunState.WAITING_INPUT, "waiting_input"),
    ],
)
async def test_the_preview_knows_what_a_child_that_ended_meanwhile_leads_to(
    tmp_path: Path, answer: Any, new: list[str], reason: str | None, state: RunState, code: str | None
) -> None:
    gate = asyncio.Event()

    async def gated(runs: FakeRuns, req: Any) -> Any:
        if req.metadata["step_id"] == "a":
            await gate.wait()
            if isinstance(answer, Exception):
                raise answer
        return answer

    runs = FakeRuns(gated)
    async with service(tmp_path, runs) as engine:
        run_id = (await engine.launch(request(TWO), runs)).run_id
        async with asyncio.timeout(60):
            while not any(step.child_run_id for step in (await engine.inspect(run_id, runs)).steps):
                await asyncio.sleep(0.005)
        await crash(engine)
    gate.set()
    await asyncio.wait(runs.tasks.values())
    async with service(tmp_path, runs) as engine:
        preview = await engine.preview(run_id, runs)
        assert [step.step_id for step in preview.observed] == ["a"]
        assert [step.step_id for step in preview.new] == new
        assert preview.uncertain == ()
        assert reason is None or reason in " ".join(preview.reasons)
        view = await recovered(engine, run_id, runs)
    assert view.state is state
    assert code is None or (view.cause is not None and view.cause.code == code)
    assert [item.metadata["step_id"] for item in runs.admitted] == ["a", *new]


async def b_runs_on(folder: Path, runs: FakeRuns) -> str:
    """A run whose owner is gone while its step b goes on in a host that outlives it."""
    async with service(folder, runs) as engine:
        launched = await engine.launch(request(TWO), runs)
        async with asyncio.timeout(60):
            while [
                step.child_run_id is None for step in (await engine.inspect(launched.run_id, runs)).steps
            ] != [
                False,
                False,
            ]:
                await asyncio.sleep(0.005)
        await crash(engine)
    return launched.run_id


async def forever_b(runs: FakeRuns, req: Any) -> Any:
    if req.metadata["step_id"] == "b":
        await asyncio.Event().wait()
    return "done"


async def spend(engine: WorkflowService, run_id: str) -> None:
    record = engine.store.load(run_id)
    assert record is not None
    spent = msgspec.structs.replace(record, revision=record.revision + 1, used=600_000_000)
    engine.store.commit(run_id, Batch(record=spent))


async def test_a_run_that_ends_before_its_replay_has_ended_stops_its_children(tmp_path: Path) -> None:
    runs = FakeRuns(forever_b)
    run_id = await b_runs_on(tmp_path, runs)
    child = runs.by_key[runs.admitted[1].idempotency_key]
    async with service(tmp_path, runs) as engine:
        await spend(engine, run_id)
        view = await recovered(engine, run_id, runs)
    assert view.cause is not None
    assert (view.state, view.cause.code) == (RunState.FAILED, "deadline")
    assert runs.interrupted == [child]
    assert not runs.views[child].status.active
    assert [(step.step_id, step.status) for step in view.steps] == [
        ("a", StepStatus.COMPLETED),
        ("b", StepStatus.INTERRUPTED),
    ]


async def test_a_run_that_ends_before_its_replay_has_ended_keeps_what_is_uncertain(tmp_path: Path) -> None:
    runs = FakeRuns(forever_b)
    run_id = await b_runs_on(tmp_path, runs)
    runs.by_key.clear()  # the host does not know them any more, which proves nothing
    async with service(tmp_path, runs) as engine:
        await spend(engine, run_id)
        view = await recovered(engine, run_id, runs)
        assert view.cause is not None
        assert view.state is RunState.NEEDS_RECONCILIATION
        assert "Execution deadline exceeded" in view.cause.message
        assert [step.status for step in view.steps] == [StepStatus.COMPLETED, StepStatus.UNCERTAIN]
    await end(runs)


async def test_a_cancel_during_the_replay_stops_the_children(tmp_path: Path) -> None:
    runs = FakeRuns(forever_b)
    run_id = await b_runs_on(tmp_path, runs)
    child = runs.by_key[runs.admitted[1].idempotency_key]
    async with service(tmp_path, runs) as engine:
        await engine.recover(run_id, runs)
        await engine.cancel(run_id, runs)
        view = await settle(engine, run_id, runs)
    assert view.state is RunState.CANCELLED
    assert runs.interrupted == [child]
    assert not runs.views[child].status.active


async def test_a_worker_that_dies_in_a_replay_is_given_up_only_where_it_died_before(tmp_path: Path) -> None:
    runs = FakeRuns()
    run_id = await paused_run(tmp_path, runs)

    async def dies(engine: WorkflowService) -> RunView:
        await engine.recover(run_id, runs)
        supervisor = engine._supervisors[run_id]
        async with asyncio.timeout(60):
            while supervisor._worker is None:
                await asyncio.sleep(0)
        assert supervisor.replaying
        os.kill(supervisor._worker.pid, signal.SIGKILL)
        return await settle(engine, run_id, runs)

    async with service(tmp_path, runs) as engine:
        view = await dies(engine)
        assert view.cause is not None
        assert (view.state, view.cause.code) == (RunState.RECOVERABLE, "worker_died")
        assert view.waiting is not None, "it still waits"
        view = await dies(engine)
        assert view.state is RunState.FAILED


async def test_the_preview_says_that_no_place_is_free_now(tmp_path: Path) -> None:
    runs = FakeRuns()
    run_id = await paused_run(tmp_path, runs, max_workflows_per_owner=1)
    async with service(tmp_path, runs, max_workflows_per_owner=1) as engine:
        assert not (await engine.preview(run_id, runs)).reasons
        other = (await engine.launch(request("await pause({stepId: 'p'});"), runs)).run_id
        preview = await engine.preview(run_id, runs)
        assert preview.compatible
        assert any("max_workflows_per_owner" in reason for reason in preview.reasons)
        with pytest.raises(QuotaReached):
            await engine.recover(run_id, runs)
        await engine.cancel(other, runs)
        await settle(engine, other, runs)


async def test_only_a_recoverable_run_is_recovered(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request("return 1;"), runs)
        await settle(engine, launched.run_id, runs)
        with pytest.raises(Incompatible, match="is completed, not recoverable"):
            await engine.recover(launched.run_id, runs)
        with pytest.raises(Conflict):
            await engine.resume(launched.run_id, "p", 1, runs)


async def test_a_refused_write_at_each_commit_leaves_a_stated_condition(tmp_path: Path) -> None:
    runs = FakeRuns()
    _, boundaries = await run_until_crash(tmp_path / "whole", runs, None)
    commits = sum(name.startswith("before") for name in boundaries)
    for at in range(1, commits):
        runs = FakeRuns()
        stores: list[RefusingStore] = []

        def open_store(path: Path, at: int = at, stores: list[RefusingStore] = stores) -> RefusingStore:
            stores.append(RefusingStore(path, at))
            return stores[-1]

        engine = WorkflowService(
            engine_config({"storage_path": str(tmp_path / str(at) / "w.sqlite")}),
            store=open_store,
            inbox_seconds=60,
        )
        await engine.start(ExtensionRuntimeDeps(app_store=ExtensionData("app")))
        try:
            launched = await engine.launch(request(SCRIPT), runs)
            await settle(engine, launched.run_id, runs)
            async with asyncio.timeout(60):
                while (view := await engine.inspect(launched.run_id, runs)).state is RunState.RUNNING:
                    await asyncio.sleep(0.005)
            if view.state is RunState.QUEUED:
                pytest.fail("a run that nobody works on stays queued")
            if view.state is RunState.RECOVERABLE:
                assert view.cause is not None
                assert "disk is full" in view.cause.message
                view = await recovered(engine, launched.run_id, runs)
            assert view.state in (RunState.COMPLETED, RunState.NEEDS_RECONCILIATION), (at, view.cause)
            assert all(count == 1 for count in asked(runs).values()), at
        finally:
            await engine.stop()
            await end(runs)


class RefusingStore(CrashingStore):
    """Refuses exactly one commit, the ``at``-th after the launch, as a full disk would."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__(path)
        self._left = at

    def commit(self, run_id: str, batch: Batch) -> None:
        self._left -= 1
        if self._left == 0:
            raise StoreFailed("the disk is full")
        super().commit(run_id, batch)
