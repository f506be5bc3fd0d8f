"""What an attestation is made upon, what it leaves behind, and that its answer survives its owner."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunStatus
from workflows_core.engine.inbox import Inbox
from workflows_core.engine.reconciliation import ReconcileRequest
from workflows_core.engine.service import WorkflowService
from workflows_core.errors import Conflict
from workflows_core.model import RunState, RunView, StepStatus, now
from workflows_core.store.reader import StoreReader
from workflows_core.store.sqlite import SqliteStore

from .fakes import Crash, CrashingStore, FakeRuns, NeedsInput, crash, end, request, service, settle

ONE = "return (await agent({stepId: 'a', agentRef: 'lead_agent', task: 1})).output;"
TWO = """\
return (await parallel([
  () => agent({stepId: 'a', agentRef: 'lead_agent', task: 1}),
  () => agent({stepId: 'b', agentRef: 'lead_agent', task: 2}),
])).map(x => x.output);
"""


def attest(view: RunView, outcome: str, step: str = "a", **changes: Any) -> ReconcileRequest:
    return ReconcileRequest(run_id=view.run_id, step_id=step, outcome=outcome, reason="I looked", **changes)


async def breaks(asked: Any) -> None:
    raise ConnectionError


async def unknown(engine: WorkflowService, runs: FakeRuns, script: str = ONE) -> RunView:
    """A run whose calls were asked for and of which the host has no record."""
    runs.before_admit = breaks
    launched = await engine.launch(request(script), runs)
    view = await settle(engine, launched.run_id, runs)
    runs.before_admit = None
    assert view.state is RunState.NEEDS_RECONCILIATION, view.cause
    return view


async def lost(engine: WorkflowService, runs: FakeRuns) -> RunView:
    """A run that lost sight of its child run, which the host has a record of."""

    async def blind(run_id: str) -> Any:
        raise ConnectionError("lost it")

    observe = runs.observe
    runs.observe = blind  # type: ignore[method-assign]
    launched = await engine.launch(request(ONE), runs)
    view = await settle(engine, launched.run_id, runs)
    runs.observe = observe  # type: ignore[method-assign]
    assert view.state is RunState.NEEDS_RECONCILIATION, view.cause
    return view


def becomes(runs: FakeRuns, **changes: Any) -> None:
    """What the host's record of the only child run says from now on."""
    for task in runs.tasks.values():
        task.cancel()
    (run_id,) = runs.views
    runs.views[run_id] = replace(runs.views[run_id], **changes)


# A recorded cancel.


@pytest.mark.parametrize("outcome", ["did_not_run", "failed"])
@pytest.mark.parametrize("script", [ONE, TWO])
async def test_a_run_that_a_recorded_cancel_ends_can_be_deleted(
    tmp_path: Path, outcome: str, script: str
) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        view = await unknown(engine, runs, script)
        await engine.cancel(view.run_id, runs)
        for step in view.steps:
            await engine.reconcile(attest(view, outcome, step.step_id), runs)
        view = await engine.inspect(view.run_id, runs)
        assert view.state is RunState.CANCELLED
        assert not {step.status for step in view.steps} & {StepStatus.UNCERTAIN, StepStatus.RUNNING}
        last = view.steps[-1]
        assert last.error is not None and "I looked" in last.error.message
        await engine.delete(view.run_id, runs)
        assert engine.store.load(view.run_id) is None
    assert runs.admitted == []


async def test_deleting_many_says_what_was_kept_and_why(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        done = await settle(engine, (await engine.launch(request("return 1;"), runs)).run_id, runs)
        view = await unknown(engine, runs)
        await engine.cancel(view.run_id, runs)
        record = engine.store.load(view.run_id)
        assert record is not None
        engine.store.older_than = lambda owner, before: [  # type: ignore[method-assign]
            item for item in (engine.store.load(done.run_id), record) if item is not None
        ]
        outcome = await engine.delete_older_than(2**60, runs)
    assert outcome.message == "1 run was deleted, 1 was kept"
    assert outcome.run_ids == (done.run_id,)
    assert [item.run_id for item in outcome.kept] == [view.run_id]
    assert "needs reconciliation; only a final" in outcome.kept[0].message


# The evidence.


async def test_an_attestation_is_bound_to_what_the_person_was_shown(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        view = await lost(engine, runs)
        becomes(runs, status=AgentRunStatus.INTERRUPTED)
        shown = await engine.evidence(view.run_id, "a", runs)
        assert (shown.status, shown.has_output) == ("interrupted", False)
        becomes(runs, status=AgentRunStatus.SUCCESS, output="something else")
        with pytest.raises(Conflict, match="has changed since it was shown"):
            await engine.reconcile(attest(view, "failed", evidence_hash=shown.hash), runs)
        assert engine.store.attestations(view.run_id) == []
        shown = await engine.evidence(view.run_id, "a", runs)
        assert (shown.status, shown.output, shown.has_output) == ("success", "something else", True)
        fetch = attest(view, "succeeded", fetch=True, evidence_hash=shown.hash)
        becomes(runs, output="a third thing")
        with pytest.raises(Conflict, match="has changed since it was shown"):
            await engine.reconcile(fetch, runs)
        becomes(runs, output="something else")
        await engine.reconcile(fetch, runs)
        (made,) = engine.store.attestations(view.run_id)
        assert made.evidence_hash == shown.hash
        step = (await engine.inspect(view.run_id, runs)).steps[0]
    assert (step.status, step.badge, step.output) == (StepStatus.COMPLETED, "attested", "something else")
    assert step.error is None, "why it was uncertain is no error of a step that has succeeded"
    await end(runs)


@pytest.mark.parametrize("status", [AgentRunStatus.SUCCESS, AgentRunStatus.ERROR, AgentRunStatus.TIMEOUT])
async def test_i04_a_call_that_ended_on_record_is_not_attested_not_to_have_run(
    tmp_path: Path, status: AgentRunStatus
) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        view = await lost(engine, runs)
        becomes(runs, status=status, error_message="500 from the model")
        with pytest.raises(Conflict, match="so it did run") as refused:
            await engine.reconcile(attest(view, "did_not_run"), runs)
        assert "500 from the model" in str(refused.value)
        assert (await engine.inspect(view.run_id, runs)).state is RunState.NEEDS_RECONCILIATION
        await engine.reconcile(attest(view, "failed"), runs)
        await engine.recover(view.run_id, runs)
        view = await settle(engine, view.run_id, runs)
    assert view.state is RunState.FAILED
    assert len(runs.admitted) == 1
    await end(runs)


async def hangs(runs: FakeRuns, asked: Any) -> Any:
    await asyncio.Event().wait()


async def test_i04_a_call_that_the_host_sees_running_is_not_attested_not_to_have_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be asked for twice. A cancel interrupts it, and then it may be said of it."""
    monkeypatch.setattr("workflows_core.engine.evidence.LOOK_SECONDS", 0)
    runs = FakeRuns(hangs, interactive=True)
    async with service(tmp_path, runs) as engine:
        view = await lost(engine, runs)
        shown = await engine.evidence(view.run_id, "a", runs)
        assert (shown.status, shown.running) == ("running", True)
        with pytest.raises(Conflict, match="running, so asking the Agent again would do its work twice"):
            await engine.reconcile(attest(view, "did_not_run", evidence_hash=shown.hash), runs)
        assert engine.store.attestations(view.run_id) == []
        assert (await engine.inspect(view.run_id, runs)).state is RunState.NEEDS_RECONCILIATION
        said = await engine.cancel(view.run_id, runs)
        assert "what still runs is interrupted" in said.message
        await asyncio.wait(runs.tasks.values())
        assert runs.interrupted == list(runs.views)
        shown = await engine.evidence(view.run_id, "a", runs)
        assert (shown.status, shown.running) == ("interrupted", False)
        await engine.reconcile(attest(view, "did_not_run", evidence_hash=shown.hash), runs)
        assert (await engine.inspect(view.run_id, runs)).state is RunState.CANCELLED
    assert len(runs.admitted) == 1


async def test_a_call_that_runs_on_record_and_that_the_host_cannot_see_is_a_persons_to_judge(
    tmp_path: Path,
) -> None:
    async def gone(run_id: str) -> Any:
        raise ConnectionError("no route")

    runs = FakeRuns(hangs, interactive=True)
    async with service(tmp_path, runs) as engine:
        view = await lost(engine, runs)
        runs.observe = gone  # type: ignore[method-assign]
        shown = await engine.evidence(view.run_id, "a", runs)
        assert (shown.status, shown.running) == ("unknown", False)
        assert shown.error == "it was running, but the host cannot see it now (ConnectionError)"
        await engine.reconcile(attest(view, "did_not_run", evidence_hash=shown.hash), runs)
    await end(runs)


async def test_a_call_whose_record_is_of_an_earlier_moment_is_looked_at_before_it_is_shown(
    tmp_path: Path,
) -> None:
    """Nobody has observed it since: its record says that it runs, and the Agent says that it has ended."""
    runs = FakeRuns(hangs, interactive=True)
    async with service(tmp_path, runs) as engine:
        view = await lost(engine, runs)

        async def ended(run_id: str) -> Any:
            return replace(runs.views[run_id], status=AgentRunStatus.SUCCESS, output=3)

        runs.observe = ended  # type: ignore[method-assign]
        shown = await engine.evidence(view.run_id, "a", runs)
        assert (shown.status, shown.output) == ("success", 3)
    await end(runs)


async def test_a_hostile_error_text_does_not_keep_a_step_from_being_settled(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    async with service(tmp_path, runs) as engine:
        view = await lost(engine, runs)
        becomes(runs, status=AgentRunStatus.ERROR, error_message="\ud800 oops")
        shown = await engine.evidence(view.run_id, "a", runs)
        assert shown.error == "\\ud800 oops"
        await engine.reconcile(attest(view, "failed", evidence_hash=shown.hash), runs)
    await end(runs)


# What the run waits for while some of its steps are settled.


async def test_the_next_question_is_what_the_run_waits_for(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def asks(runs: FakeRuns, req: Any) -> Any:
        await gate.wait()
        raise NeedsInput(f"which soap, {req.metadata['step_id']}?")

    runs = FakeRuns(asks, interactive=True)

    async def both(req: Any) -> None:
        if req.metadata["step_id"] == "b":
            gate.set()

    runs.before_admit = both
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(TWO), runs)
        view = await settle(engine, launched.run_id, runs)
        assert view.state is RunState.WAITING_INPUT and view.waiting is not None
        first = view.waiting.step_id
        other = {"a": "b", "b": "a"}[first]
        asked = next(step for step in view.steps if step.step_id == other).status is StepStatus.WAITING
        await engine.reconcile(attest(view, "succeeded", first, output=1, has_output=True), runs)
        view = await engine.inspect(view.run_id, runs)
        assert view.cause is not None and other in view.cause.message
        if asked:
            assert view.state is RunState.WAITING_INPUT
            assert view.waiting is not None and view.waiting.step_id == other
            assert view.cause.code == "waiting_input"
        else:
            assert view.state is RunState.NEEDS_RECONCILIATION
            assert (view.waiting, view.cause.code) == (None, "uncertain")
        await engine.reconcile(attest(view, "succeeded", other, output=2, has_output=True), runs)
        assert (await engine.inspect(view.run_id, runs)).state is RunState.RECOVERABLE
    await end(runs)


async def test_an_interrupted_sibling_of_a_question_is_uncertain_and_asks_nothing(tmp_path: Path) -> None:
    async def asks(runs: FakeRuns, req: Any) -> Any:
        if req.metadata["step_id"] == "b":
            await asyncio.sleep(60)
        raise NeedsInput("which soap?")

    runs = FakeRuns(asks, interactive=True)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(TWO), runs)
        view = await settle(engine, launched.run_id, runs)
        assert view.state is RunState.WAITING_INPUT
        await engine.reconcile(attest(view, "succeeded", "a", output=1, has_output=True), runs)
        view = await engine.inspect(view.run_id, runs)
        assert view.state is RunState.NEEDS_RECONCILIATION
        assert (view.waiting, view.cause.code if view.cause else None) == (None, "uncertain")
        await engine.reconcile(attest(view, "did_not_run", "b"), runs)
        assert (await engine.inspect(view.run_id, runs)).state is RunState.RECOVERABLE
    await end(runs)


# Controls of another process, whose owner dies at the worst moment.


async def posted(tmp_path: Path, kind: str, run_id: str, body: dict[str, Any]) -> int:
    reader = await StoreReader.open(tmp_path / "w.sqlite")
    assert reader is not None
    row_id = await reader.post(kind, run_id, body, {"uid": 1})
    await reader.close()
    return row_id


async def answer(tmp_path: Path, row_id: int) -> tuple[str | None, dict[str, Any]]:
    reader = await StoreReader.open(tmp_path / "w.sqlite")
    assert reader is not None
    async with asyncio.timeout(60):
        while True:
            row = await reader.inbox_row(row_id)
            assert row is not None
            if row.settled_at is not None:
                await reader.close()
                return row.outcome, dict(row.detail or {})
            await asyncio.sleep(0.005)


async def dies(engine: WorkflowService, runs: FakeRuns, at: str) -> None:
    """Apply the open controls, and die at the first crash point ``at``."""
    store = engine.store
    assert isinstance(store, CrashingStore)
    boundary = store._boundary

    def kill(name: str) -> None:
        if name == at:
            store.dead = True
        boundary(name)

    store._crash_point = kill
    inbox = Inbox(engine, store, lambda actor: runs)
    for row in store.inbox_open():
        try:
            await inbox._settle(row)
        except Crash:
            break
    await crash(engine)


async def test_a_reconciliation_whose_owner_dies_is_answered_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = FakeRuns(interactive=True)
    monkeypatch.setattr(SqliteStore, "inbox_changed", lambda self: False)
    async with service(tmp_path, runs) as engine:
        view = await unknown(engine, runs)
        shown = await engine.evidence(view.run_id, "a", runs)
        body = {
            "step_id": "a",
            "outcome": "failed",
            "reason": "gone",
            "has_output": False,
            "evidence_hash": shown.hash,
        }
        row_id = await posted(tmp_path, "reconcile", view.run_id, body)
        await dies(engine, runs, "before settle")
    monkeypatch.undo()
    async with service(tmp_path, runs) as engine:
        outcome, detail = await answer(tmp_path, row_id)
        made = engine.store.attestations(view.run_id)
    assert (outcome, detail.get("status")) == ("applied", "applied"), detail
    assert detail["run_ids"] == [view.run_id]
    assert "the run can be recovered" in detail["message"]
    assert len(made) == 1


async def test_a_deletion_whose_owner_dies_is_answered_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = FakeRuns(interactive=True)
    monkeypatch.setattr(SqliteStore, "inbox_changed", lambda self: False)
    async with service(tmp_path, runs) as engine:
        done = await settle(engine, (await engine.launch(request("return 1;"), runs)).run_id, runs)
        row_id = await posted(tmp_path, "delete", done.run_id, {})
        await dies(engine, runs, "before settle")
    monkeypatch.undo()
    runs.deleted.clear()
    async with service(tmp_path, runs):
        outcome, detail = await answer(tmp_path, row_id)
    assert (outcome, detail.get("message")) == ("applied", f"run {done.run_id} was deleted"), detail
    assert runs.deleted == [done.run_id], "the host's part is done as well"


async def test_a_deletion_of_many_whose_owner_dies_in_the_middle_is_answered_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = FakeRuns(interactive=True)
    monkeypatch.setattr(SqliteStore, "inbox_changed", lambda self: False)
    async with service(tmp_path, runs) as engine:
        done = set()
        for _ in range(3):
            launched = await engine.launch(request("return 1;"), runs)
            done.add((await settle(engine, launched.run_id, runs)).run_id)
        row_id = await posted(tmp_path, "delete_older_than", "", {"before": now() + 1})
        await dies(engine, runs, "after delete")
    monkeypatch.undo()
    assert runs.deleted == [], "it died before the host's part of the first one"
    async with service(tmp_path, runs):
        outcome, detail = await answer(tmp_path, row_id)
    assert (outcome, detail.get("message")) == ("applied", "3 runs were deleted"), detail
    assert set(detail["run_ids"]) == done and len(detail["run_ids"]) == 3
    assert set(runs.deleted) == done, "the host's part is done as well"


async def test_i12_a_control_that_waits_keeps_no_other_waiting(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    go_on = asyncio.Event()

    async def slow(key: str) -> Any:
        await go_on.wait()
        return None

    async with service(tmp_path, runs) as engine:
        view = await unknown(engine, runs)
        other = await engine.launch(request("await pause({stepId: 'p'});"), runs)
        async with asyncio.timeout(60):
            while (await engine.inspect(other.run_id, runs)).state is not RunState.PAUSED:
                await asyncio.sleep(0.005)
        find, runs.find = runs.find, slow  # type: ignore[method-assign]
        waits = await posted(tmp_path, "evidence", view.run_id, {"step_id": "a"})
        behind = await posted(tmp_path, "evidence", view.run_id, {"step_id": "a"})
        cancels = [await posted(tmp_path, "cancel", run_id, {}) for run_id in (other.run_id, view.run_id)]
        for row_id in cancels:
            assert (await answer(tmp_path, row_id))[0] == "applied"
        assert {row.id for row in engine.store.inbox_open()} == {waits, behind}
        runs.find = find  # type: ignore[method-assign]
        go_on.set()
        for row_id in (waits, behind):
            assert (await answer(tmp_path, row_id))[0] == "applied"


async def test_a_step_whose_child_run_asked_a_person_did_run(tmp_path: Path) -> None:
    async def asks(runs: FakeRuns, req: Any) -> Any:
        raise NeedsInput("which one?")

    runs = FakeRuns(asks, interactive=True)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(ONE), runs)
        view = await settle(engine, launched.run_id, runs)
        assert view.state is RunState.WAITING_INPUT
        with pytest.raises(Conflict, match="so it did run"):
            await engine.reconcile(attest(view, "did_not_run"), runs)
        await engine.reconcile(attest(view, "succeeded", output=1, has_output=True), runs)
