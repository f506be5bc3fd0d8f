"""Captured files, saved versions, and settling what is uncertain."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from workflows_core.engine.reconciliation import ReconcileRequest
from workflows_core.engine.service import WorkflowService
from workflows_core.engine.waits import DecideRequest
from workflows_core.errors import (
    Conflict,
    Incompatible,
    LimitExceeded,
    NotFound,
    NotPermitted,
    QuotaReached,
    ScriptRefused,
    StoreFailed,
    UsageError,
)
from workflows_core.jsontext import sha256
from workflows_core.model import RunState, RunView, StepStatus
from workflows_core.store.reader import StoreReader

from .fakes import Fails, FakeRuns, NeedsInput, crash, end, request, service, settle

FILE = """\
const e = await agent({stepId: 'e', agentRef: 'lead_agent', task: 1});
const c = await captureArtifact({stepId: 'c', sourceStepId: 'e', path: 'report.md'});
await humanCheckpoint({stepId: 'ok', sourceStepId: 'c', artifactVersion: c.artifactVersion});
let text = '', offset = 0;
while (offset !== null) {
  const part = await readArtifact({artifactVersion: c.artifactVersion, offset});
  text += atob(part.data);
  offset = part.next_offset;
}
const r = await agent({stepId: 'r', agentRef: 'lead_agent', task: 2, artifacts: [c.artifactVersion]});
return {size: c.size, type: c.mediaType, same: c.sha256 === c.artifactVersion, length: text.length, start: text.slice(0, 5)};
"""
ONE = "return (await agent({stepId: 'a', agentRef: 'lead_agent', task: 1})).output;"
REPORT = b"# Evi" + b"x" * 40_000


async def reach(engine: WorkflowService, run_id: str, runs: FakeRuns, state: RunState) -> RunView:
    async with asyncio.timeout(60):
        while (view := await engine.inspect(run_id, runs)).state is not state:
            if view.state.final:
                raise AssertionError(f"{view.state}: {view.cause}")
            await asyncio.sleep(0.005)
    return view


async def approve(engine: WorkflowService, view: RunView, runs: FakeRuns) -> None:
    step = view.steps[-1]
    await engine.decide(
        DecideRequest(
            run_id=view.run_id,
            step_id=step.step_id,
            attempt=1,
            decision="approve",
            sha256=str(step.artifact_version),
        ),
        runs,
    )


# Captures.


async def test_i08_captured_bytes_are_read_once_and_never_change(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    runs.files["report.md"] = (REPORT, "text/markdown")
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(FILE), runs)
        view = await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        runs.files["report.md"] = (b"something else", "text/plain")
        with pytest.raises(NotPermitted, match="has not been approved"):
            await engine.read_artifact(view.run_id, sha256(REPORT), 0, runs)
        await approve(engine, view, runs)
        view = await settle(engine, view.run_id, runs)
        assert view.state is RunState.COMPLETED, view.cause
        assert not any(step.late for step in view.steps)
        assert view.result == {
            "size": len(REPORT),
            "type": "text/markdown",
            "same": True,
            "length": len(REPORT),
            "start": "# Evi",
        }
        part = await engine.read_artifact(view.run_id, sha256(REPORT), 0, runs)
        assert base64.b64decode(part["data"]) == REPORT[:16_384]
        assert part["next_offset"] == 16_384
    assert runs.reads == ["report.md"]
    assert runs.admitted[-1].input["artifacts"] == [{"sha256": sha256(REPORT), "version": sha256(REPORT)}]
    reads = [frame for frame in view.frames if '"artifact":{' in frame.body]
    assert len(reads) == 3
    assert all(len(frame.body) < 400 for frame in reads)


async def test_a_recovery_reads_the_kept_bytes_and_not_the_file(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    runs.files["report.md"] = (REPORT, "text/markdown")
    script = FILE.replace("const r = await", "await pause({stepId: 'p'});\nconst r = await")
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(script), runs)
        view = await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        await approve(engine, view, runs)
        await reach(engine, launched.run_id, runs, RunState.PAUSED)
        await crash(engine)
    runs.files.clear()
    async with service(tmp_path, runs) as engine:
        preview = await engine.preview(launched.run_id, runs)
        assert preview.compatible, preview.reasons
        await engine.resume(launched.run_id, "p", 1, runs)
        view = await settle(engine, launched.run_id, runs)
    assert view.state is RunState.COMPLETED, view.cause
    assert view.result["length"] == len(REPORT)
    assert runs.reads == ["report.md"]


@pytest.mark.parametrize("found", [True, False])
async def test_a_capture_that_runs_after_a_recovery_only_says_so(tmp_path: Path, found: bool) -> None:
    runs = FakeRuns(interactive=True)
    runs.files["report.md"] = (REPORT, "text/markdown")
    read, stuck = runs.read_file, asyncio.Event()

    async def hangs(run_id: str, path: str, *, max_bytes: int) -> Any:
        stuck.set()
        await asyncio.sleep(60)

    runs.read_file = hangs  # type: ignore[method-assign]
    script = (
        "const e = await agent({stepId: 'e', agentRef: 'lead_agent', task: 1});\n"
        "const take = id => captureArtifact({stepId: id, sourceStepId: 'e', path: 'report.md'});\n"
        "let first = null;\n"
        "try { first = (await take('c')).size; } catch (e) { first = e.code; }\n"
        "const next = await agent({stepId: 'n', agentRef: 'lead_agent', task: 2});\n"
        "return first;"
    )
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(script), runs)
        await asyncio.wait_for(stuck.wait(), 60)
        await crash(engine)
    runs.read_file = read  # type: ignore[method-assign]
    if not found:
        runs.files.clear()
    async with service(tmp_path, runs) as engine:
        await engine.recover(launched.run_id, runs)
        view = await settle(engine, launched.run_id, runs)
    assert view.state is RunState.COMPLETED, view.cause
    assert view.result == (len(REPORT) if found else "no_file")
    assert {step.step_id: step.late for step in view.steps} == {"e": False, "c": True, "n": False}


async def test_bytes_that_were_changed_after_the_approval_are_never_consumed(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    runs.files["report.md"] = (REPORT, "text/markdown")
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(FILE), runs)
        view = await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        connection = sqlite3.connect(tmp_path / "w.sqlite")
        connection.execute("UPDATE captures SET body = ?, size = 9", (b"# Changed",))
        connection.commit()
        connection.close()
        reader = await StoreReader.open(tmp_path / "w.sqlite")
        assert reader is not None
        with pytest.raises(StoreFailed, match="are not those that were captured"):
            await reader.artifact(view.run_id, "c")
        await reader.close()
        await approve(engine, view, runs)
        view = await settle(engine, view.run_id, runs)
        assert view.state is RunState.FAILED
        assert view.cause is not None
        assert view.cause.code == "capture_damaged"
        with pytest.raises(Conflict, match="not those that were approved"):
            await engine.read_artifact(view.run_id, sha256(REPORT), 0, runs)
    assert len(runs.admitted) == 1


async def test_a_script_that_was_changed_after_the_approval_is_never_recovered(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    runs.files["report.md"] = (REPORT, "text/markdown")
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(FILE), runs)
        view = await reach(engine, launched.run_id, runs, RunState.WAITING_APPROVAL)
        await crash(engine)
    connection = sqlite3.connect(tmp_path / "w.sqlite")
    connection.execute("UPDATE contents SET body = ? WHERE hash = ?", (b"return 'other';", view.script_hash))
    connection.commit()
    connection.close()
    async with service(tmp_path, runs) as engine:
        with pytest.raises(Incompatible, match="script is missing or was changed"):
            await approve(engine, view, runs)
        assert (await engine.inspect(view.run_id, runs)).receipts == ()
    assert len(runs.admitted) == 1


@pytest.mark.parametrize(
    ("calls", "code"),
    [
        ("await captureArtifact({stepId: 'c', sourceStepId: 'e', path: 'none'})", "no_file"),
        ("await captureArtifact({stepId: 'c', sourceStepId: 'x', path: 'f'})", "unknown_source"),
        ("await readArtifact({artifactVersion: 'v', offset: 0})", "unknown_artifact"),
        (
            "const c = await captureArtifact({stepId: 'c', sourceStepId: 'e', path: 'f'});"
            "await readArtifact({artifactVersion: c.artifactVersion, offset: 9})",
            "bad_offset",
        ),
        (
            "const c = await captureArtifact({stepId: 'c', sourceStepId: 'e', path: 'f'});"
            "await agent({stepId: 'r', agentRef: 'lead_agent', task: 1, artifacts: [c.artifactVersion]})",
            "not_approved",
        ),
        ("await agent({stepId: 'r', agentRef: 'lead_agent', task: 1, artifacts: ['v']})", "unknown_artifact"),
    ],
)
async def test_what_cannot_be_captured_or_passed_is_refused_in_words(
    tmp_path: Path, calls: str, code: str
) -> None:
    runs = FakeRuns()
    runs.files["f"] = (b"1234", "text/plain")
    script = f"const e = await agent({{stepId: 'e', agentRef: 'lead_agent', task: 1}});\ntry {{ {calls}; }} catch (e) {{ return e.code; }}"
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(script), runs)
        view = await settle(engine, launched.run_id, runs)
    assert view.result == code, view.cause
    assert len(runs.admitted) == 1


@pytest.mark.parametrize(
    ("calls", "size", "code"),
    [
        (
            "await captureArtifact({stepId: 'c', sourceStepId: 'e', path: 'f'})",
            2 * 2**20 + 1,
            "capture_too_large",
        ),
        (
            "for (let i = 0; i < 17; i++) await captureArtifact({stepId: `c${i}`, sourceStepId: 'e', path: 'f'})",
            10,
            "capture_limit",
        ),
    ],
)
async def test_i11_captures_over_a_limit_stop_the_run(
    tmp_path: Path, calls: str, size: int, code: str
) -> None:
    runs = FakeRuns()
    runs.files["f"] = (b"x" * size, "text/plain")
    script = f"const e = await agent({{stepId: 'e', agentRef: 'lead_agent', task: 1}});\ntry {{ {calls}; }} catch {{}}"
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(script), runs)
        view = await settle(engine, launched.run_id, runs)
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert view.cause.code == code


async def test_the_bytes_of_an_owner_are_limited_and_deleting_gives_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflows_core.limits.CAPTURED_BYTES_PER_OWNER", 100)
    runs = FakeRuns()
    runs.files["f"] = (b"x" * 60, "text/plain")
    script = (
        "const e = await agent({stepId: 'e', agentRef: 'lead_agent', task: 1});\n"
        "return await captureArtifact({stepId: 'c', sourceStepId: 'e', path: 'f'});"
    )
    async with service(tmp_path, runs) as engine:
        first = await engine.launch(request(script), runs)
        assert (await settle(engine, first.run_id, runs)).state is RunState.COMPLETED
        second = await engine.launch(request(script), runs)
        view = await settle(engine, second.run_id, runs)
        assert view.cause is not None
        assert view.cause.code == "captured_bytes"
        assert engine.store.captured_bytes("os:1") == 60
        await engine.delete(first.run_id, runs)
        assert engine.store.captured_bytes("os:1") == 0


# Saved versions.


async def test_saved_versions_are_immutable_and_launched_by_their_hash(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        one = await engine.save("checks", ONE, runs)
        again = await engine.save("checks", ONE, runs)
        assert one == again
        two = await engine.save("checks", "return 2;", runs)
        assert [item.version for item in await engine.library(runs)] == [two.version, one.version]
        launched = await engine.launch(request("", definition=f"checks@{one.version[:7]}"), runs)
        view = await settle(engine, launched.run_id, runs)
        assert view.result == 1
        assert view.definition == f"checks@{one.version}"
        for bad in ("checks@", "checks@123", "checks@0000000", "other@" + one.version[:7]):
            with pytest.raises((NotFound, UsageError)):
                await engine.launch(request("", definition=bad), runs)
        with pytest.raises(UsageError, match="not both"):
            await engine.launch(request(ONE, definition=f"checks@{one.version}"), runs)
        with pytest.raises(Conflict):
            await engine.launch(
                request("", request_id=view.request_id, definition=f"checks@{two.version}"), runs
            )
        assert await engine.library(runs.twin(user_id="os:2")) == []


async def test_what_cannot_be_saved_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflows_core.limits.VERSIONS_PER_OWNER", 2)
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        with pytest.raises(UsageError):
            await engine.save("", ONE, runs)
        with pytest.raises(UsageError):
            await engine.save("../x", ONE, runs)
        with pytest.raises(LimitExceeded):
            await engine.save("big", "x" * 17_000, runs)
        with pytest.raises(ScriptRefused):
            await engine.save("bad", "}); (async () => {", runs)
        await engine.save("a", "return 1;", runs)
        await engine.save("a", "return 2;", runs)
        with pytest.raises(QuotaReached):
            await engine.save("a", "return 3;", runs)


# Reconciliation.


async def uncertain_run(engine: WorkflowService, runs: FakeRuns) -> RunView:
    """A run with one uncertain step and one sibling that was interrupted."""

    async def breaks(req: Any) -> None:
        if req.metadata["step_id"] == "a":
            raise ConnectionError("the line went dead")

    runs.before_admit = breaks
    script = (
        "const r = await parallel([\n"
        "  () => agent({stepId: 'a', agentRef: 'lead_agent', task: 1}),\n"
        "  () => agent({stepId: 'b', agentRef: 'lead_agent', task: 2}),\n"
        "]);\n"
        "return r.map(x => x.output);"
    )
    launched = await engine.launch(request(script), runs)
    view = await settle(engine, launched.run_id, runs)
    runs.before_admit = None
    assert view.state is RunState.NEEDS_RECONCILIATION
    return view


def attest(view: RunView, step: str, outcome: str, **changes: Any) -> ReconcileRequest:
    return ReconcileRequest(
        run_id=view.run_id, step_id=step, outcome=outcome, reason="looked at the conversation", **changes
    )


async def slow_b(runs: FakeRuns, req: Any) -> Any:
    if req.metadata["step_id"] == "b" and len(runs.admitted) < 2:
        await asyncio.sleep(60)
    return f"{req.metadata['step_id']} done"


async def test_attested_outcomes_let_a_run_be_recovered(tmp_path: Path) -> None:
    runs = FakeRuns(slow_b, interactive=True)
    async with service(tmp_path, runs) as engine:
        view = await uncertain_run(engine, runs)
        assert [step.step_id for step in view.steps if step.unsettled] == ["a", "b"]
        assert engine._slots.used == 1
        outcome = await engine.reconcile(
            attest(view, "a", "succeeded", output={"v": 1}, has_output=True), runs
        )
        assert "still uncertain: b" in outcome.message
        assert engine._slots.used == 0
        outcome = await engine.reconcile(attest(view, "b", "did_not_run"), runs)
        assert "can be recovered" in outcome.message
        view = await engine.inspect(view.run_id, runs)
        assert view.state is RunState.RECOVERABLE
        assert (view.steps[0].badge, view.steps[0].status) == ("attested", StepStatus.COMPLETED)
        preview = await engine.preview(view.run_id, runs)
        assert [step.step_id for step in preview.reused] == ["a"]
        assert [step.step_id for step in preview.new] == ["b"]
        await engine.recover(view.run_id, runs)
        view = await settle(engine, view.run_id, runs)
        assert view.state is RunState.COMPLETED, view.cause
        assert view.result == [{"v": 1}, "b done"]
        audit = engine.store.attestations(view.run_id)
    assert [(item.step_id, item.outcome) for item in audit] == [("a", "succeeded"), ("b", "did_not_run")]
    assert all(len(item.evidence_hash) == 64 and item.actor["user_id"] == "os:1" for item in audit)
    assert len({item.idempotency_key for item in runs.admitted}) == len(runs.admitted)
    await end(runs)


async def test_an_attested_failure_is_what_the_script_catches(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)

    async def breaks(req: Any) -> None:
        raise ConnectionError

    runs.before_admit = breaks
    script = (
        "try { await agent({stepId: 'a', agentRef: 'lead_agent', task: 1}); } catch (e) { return e.code; }"
    )
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(script), runs)
        view = await settle(engine, launched.run_id, runs)
        await engine.reconcile(attest(view, "a", "failed"), runs)
        await engine.recover(view.run_id, runs)
        view = await settle(engine, view.run_id, runs)
    assert view.result == "attested_failed"
    assert runs.admitted == []


async def test_nothing_is_captured_from_a_step_that_only_a_person_attested(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)

    async def breaks(req: Any) -> None:
        raise ConnectionError

    runs.before_admit = breaks
    script = """\
await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});
try { await captureArtifact({stepId: 'c', sourceStepId: 'a', path: 'f'}); } catch (e) { return e.message; }
"""
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(script), runs)
        view = await settle(engine, launched.run_id, runs)
        await engine.reconcile(attest(view, "a", "succeeded", output=1, has_output=True), runs)
        await engine.recover(view.run_id, runs)
        view = await settle(engine, view.run_id, runs)
    assert (
        view.result
        == "sourceStepId a was attested and has no child run, so there is no folder to capture from"
    )


async def test_a_settled_run_with_a_recorded_cancel_ends_cancelled(tmp_path: Path) -> None:
    runs = FakeRuns(slow_b, interactive=True)
    async with service(tmp_path, runs) as engine:
        view = await uncertain_run(engine, runs)
        outcome = await engine.cancel(view.run_id, runs)
        assert "once its uncertain steps are settled" in outcome.message
        assert (await engine.inspect(view.run_id, runs)).state is RunState.NEEDS_RECONCILIATION
        await engine.reconcile(attest(view, "a", "did_not_run"), runs)
        await engine.reconcile(attest(view, "b", "failed"), runs)
        view = await engine.inspect(view.run_id, runs)
    assert view.state is RunState.CANCELLED
    assert view.frames[-1].kind == "end"


async def test_the_output_of_a_child_that_the_host_can_see_is_fetched(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def gated(runs: FakeRuns, req: Any) -> Any:
        await gate.wait()
        return "seen"

    runs = FakeRuns(gated, interactive=True)
    original = runs.observe

    async def lost(run_id: str) -> Any:
        raise ConnectionError("lost it")

    runs.observe = lost  # type: ignore[method-assign]
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(ONE), runs)
        view = await settle(engine, launched.run_id, runs)
        assert view.state is RunState.NEEDS_RECONCILIATION
        runs.observe = original  # type: ignore[method-assign]
        with pytest.raises(Conflict, match="cannot be fetched"):
            await engine.reconcile(attest(view, "a", "succeeded", fetch=True), runs)
        gate.set()
        await asyncio.wait(runs.tasks.values())
        if runs.views[view.steps[0].child_run_id or ""].output != "seen":
            pytest.fail("the fake agent did not answer")
        await engine.reconcile(attest(view, "a", "succeeded", fetch=True), runs)
        await engine.recover(view.run_id, runs)
        view = await settle(engine, view.run_id, runs)
    assert view.result == "seen"
    assert len(runs.admitted) == 1


async def test_a_question_for_a_human_is_settled_by_a_person(tmp_path: Path) -> None:
    async def asks(runs: FakeRuns, req: Any) -> Any:
        raise NeedsInput("which soap?")

    runs = FakeRuns(asks, interactive=True)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(ONE), runs)
        view = await settle(engine, launched.run_id, runs)
        assert view.state is RunState.WAITING_INPUT
        await engine.reconcile(attest(view, "a", "succeeded", output="olive", has_output=True), runs)
        await engine.recover(view.run_id, runs)
        view = await settle(engine, view.run_id, runs)
    assert view.result == "olive"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"outcome": "perhaps"}, UsageError),
        ({"reason": " "}, UsageError),
        ({"outcome": "succeeded"}, UsageError),
        ({"outcome": "succeeded", "has_output": True, "fetch": True}, UsageError),
        ({"outcome": "failed", "has_output": True}, UsageError),
        ({"outcome": "succeeded", "has_output": True, "output": "x" * 12_001}, LimitExceeded),
        ({"outcome": "succeeded", "has_output": True, "output": "\ud800"}, UsageError),
        ({"step_id": "none"}, NotFound),
    ],
)
async def test_attestations_that_cannot_be_recorded_are_refused(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception]
) -> None:
    runs = FakeRuns(slow_b, interactive=True)
    async with service(tmp_path, runs) as engine:
        view = await uncertain_run(engine, runs)
        values: dict[str, Any] = {
            "run_id": view.run_id,
            "step_id": "a",
            "outcome": "did_not_run",
            "reason": "seen",
        }
        with pytest.raises(error):
            await engine.reconcile(ReconcileRequest(**(values | changes)), runs)
        assert engine.store.attestations(view.run_id) == []
        with pytest.raises(NotPermitted):
            await engine.reconcile(attest(view, "a", "did_not_run"), runs.twin(interactive=False))


async def test_a_certain_step_is_not_attested(tmp_path: Path) -> None:
    async def fails(runs: FakeRuns, req: Any) -> Any:
        raise Fails("no")

    runs = FakeRuns(fails, interactive=True)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(ONE), runs)
        view = await settle(engine, launched.run_id, runs)
        with pytest.raises(Conflict, match="nothing is to be settled"):
            await engine.reconcile(attest(view, "a", "did_not_run"), runs)
