"""Settling uncertain outcomes: a person attests what became of a step, on record.

The attestation, its audit row, what it means for the journal and the run's new state are one transaction. An
attested result enters the journal as the step's response; ``did_not_run`` allows one new admission under the
same (run, step, attempt).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from extension_api.agent_runs import AgentRuns, AgentRunStatus

from .. import document, jsontext, limits
from ..errors import Conflict, LimitExceeded, NotFound, UsageError
from ..journal.frames import ChildNote, Frame, FrameKind, Mark, Side
from ..journal.view import reduce_journal
from ..model import Attestation, Cause, Event, RunRecord, RunState, StepStatus, StepView, now
from ..store.base import WorkflowStore
from .budget import suspended
from .children import step_key
from .observing import cancelled_cause
from .requests import Outcome
from .waits import REASON_LENGTH, actor_of, deciding_session
from .writer import RunWriter

OUTCOMES = ("did_not_run", "succeeded", "failed")


class ReconcileRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a person attests. ``output`` counts only with ``has_output``; ``fetch`` takes it from the child run."""

    run_id: str
    step_id: str
    outcome: str
    reason: str
    output: Any = None
    has_output: bool = False
    fetch: bool = False


async def reconcile(
    record: RunRecord,
    request: ReconcileRequest,
    store: WorkflowStore,
    runs: AgentRuns,
    changed: Callable[[str], None],
    *,
    reviewers: int,
) -> tuple[Outcome, bool]:
    """Record an attestation and, where it settles the step, its effect.

    Returns the outcome in words, and whether a concurrency place was released. Raises NotPermitted without
    an interactive session, Conflict where the step is not uncertain or a second reviewer contradicts the
    first, UsageError for what cannot be recorded.
    """
    deciding_session(runs)
    _check(record, request)
    frames, marks = store.journal(record.run_id)
    view = reduce_journal("", frames, marks).view(record)
    step = next((item for item in view.steps if item.step_id == request.step_id), None)
    if step is None:
        raise NotFound(f"run {record.run_id} has no step {request.step_id[:80]}")
    if not step.unsettled:
        raise Conflict(f"the outcome of {step.step_id} is not uncertain; it is {step.status.value}")
    evidence = await _evidence(record, step, runs)
    output = await _output(request, record, step, runs)
    statement = {"outcome": request.outcome, "output": output if request.outcome == "succeeded" else None}
    statement_hash = jsontext.sha256(jsontext.encode(statement))
    settles = _settles(store.attestations(record.run_id), step, statement_hash, runs, reviewers)
    attestation = Attestation(
        run_id=record.run_id,
        step_id=step.step_id,
        attempt=step.attempt,
        outcome=request.outcome,
        reason=request.reason.strip(),
        statement_hash=statement_hash,
        evidence_hash=jsontext.sha256(jsontext.encode(evidence)),
        actor=actor_of(runs),
        settles=settles,
        attested_at=now(),
    )
    writer = RunWriter.reopened(record, store, changed, frames, marks)
    if not settles:
        writer.commit(attestation=attestation)
        return Outcome(
            "recorded", f"recorded; a second reviewer must attest the same of {step.step_id}"
        ), False
    return _settle(writer, attestation, step, view.steps, output)


def _check(record: RunRecord, request: ReconcileRequest) -> None:
    if request.outcome not in OUTCOMES:
        raise UsageError(f"an outcome is one of {', '.join(OUTCOMES)}")
    if not request.reason.strip() or len(request.reason) > REASON_LENGTH:
        raise UsageError(f"an attestation needs a reason of at most {REASON_LENGTH:,} characters")
    if request.outcome == "succeeded" and request.has_output == request.fetch:
        raise UsageError("succeeded needs either the output, or that it is fetched from the child run")
    if request.outcome != "succeeded" and (request.has_output or request.fetch):
        raise UsageError(f"{request.outcome} has no output")
    if record.state not in (RunState.NEEDS_RECONCILIATION, RunState.WAITING_INPUT):
        raise Conflict(
            f"run {record.run_id} is {record.state.value.replace('_', ' ')}; nothing is to be settled"
        )


async def _evidence(record: RunRecord, step: StepView, runs: AgentRuns) -> dict[str, Any]:
    """What is known of the step and its child run at this moment: what the attestation was made upon."""
    view = await runs.find(step_key(record.run_id, step.step_id, step.attempt, step.readmitted))
    child = None
    if view is not None:
        child = {"run_id": view.run_id, "status": view.status.value, "error": view.error_message}
    return {"step": document.step_document(step), "child": child}


async def _output(request: ReconcileRequest, record: RunRecord, step: StepView, runs: AgentRuns) -> Any:
    if request.outcome != "succeeded":
        return None
    output = request.output
    if request.fetch:
        view = await runs.find(step_key(record.run_id, step.step_id, step.attempt, step.readmitted))
        if view is None or view.status is not AgentRunStatus.SUCCESS:
            status = "not known to the host" if view is None else view.status.value
            raise Conflict(f"the child run of {step.step_id} is {status}, so its output cannot be fetched")
        output = view.output
    try:
        size = jsontext.size(output, "the output")
        jsontext.parse(jsontext.encode(output), "the output")
    except jsontext.JsonRefused as error:
        raise UsageError(str(error)) from None
    if size > limits.OUTPUT_BYTES:
        raise LimitExceeded(f"the output takes {size:,} bytes; admitted are {limits.OUTPUT_BYTES:,}")
    return output


def _settles(
    earlier: Sequence[Attestation], step: StepView, statement_hash: str, runs: AgentRuns, reviewers: int
) -> bool:
    if reviewers < 2:
        return True
    pending = [
        item
        for item in earlier
        if (item.step_id, item.attempt) == (step.step_id, step.attempt) and not item.settles
    ]
    if not pending:
        return False
    first = pending[-1]
    if first.actor.get("user_id") == runs.principal.user_id:
        raise Conflict(f"you attested {step.step_id} already; another person must review it")
    if first.statement_hash != statement_hash:
        raise Conflict(f"the first reviewer of {step.step_id} attested {first.outcome}, or another output")
    return True


def _settle(
    writer: RunWriter,
    attestation: Attestation,
    step: StepView,
    steps: Sequence[StepView],
    output: Any,
) -> tuple[Outcome, bool]:
    record = writer.record
    at = attestation.attested_at
    frames: list[Frame] = []
    marks: list[Mark] = []
    readmissions: list[tuple[str, int]] = []
    if attestation.outcome == "did_not_run":
        marks.append(writer.mark(at, Side(readmitted=(step.step_id,))))
        readmissions.append((step.step_id, step.attempt))
    else:
        note = ChildNote(badge="attested", finished_at=at)
        body = jsontext.encode({"results": [_result(attestation, step, output)]})
        frames.append(writer.frame(FrameKind.RESPONSE, body, at, Side(children={step.step_id: note})))
    left = [item.step_id for item in steps if item.unsettled and item.step_id != step.step_id]
    released = step.status is StepStatus.UNCERTAIN
    if left:
        cause = Cause("uncertain", f"the outcome of {', '.join(left)} is uncertain. Settle it to go on")
        changed = msgspec.structs.replace(record, revision=record.revision + 1, cause=cause, last_progress=at)
        writer.commit(
            frames=frames, marks=marks, readmissions=readmissions, attestation=attestation, record=changed
        )
        return Outcome("applied", f"{step.step_id} is settled; still uncertain: {', '.join(left)}"), released
    if record.cancel_requested_at is not None:
        writer.finish(
            Event.SETTLED_CANCELLED,
            cancelled_cause(),
            before=frames,
            attestation=attestation,
            **suspended(record),
        )
        return Outcome("applied", f"{step.step_id} is settled and the run is cancelled"), released
    cause = Cause("settled", "every uncertain step is settled; the run can be recovered")
    changed = writer.next(Event.SETTLED, cause=cause, waiting=None)
    writer.commit(
        frames=frames, marks=marks, readmissions=readmissions, attestation=attestation, record=changed
    )
    return Outcome("applied", f"{step.step_id} is settled; the run can be recovered"), released


def _result(attestation: Attestation, step: StepView, output: Any) -> dict[str, Any]:
    if attestation.outcome == "failed":
        error = {"code": "attested_failed", "message": attestation.reason, "name": "AgentError"}
        return {"error": error, "id": step.call_id, "ok": False}
    return {
        "id": step.call_id,
        "ok": True,
        "value": {
            "artifactVersion": jsontext.sha256(jsontext.encode(output)),
            "output": output,
            "runId": step.child_run_id,
            "status": "success",
            "threadId": step.thread_id,
        },
    }
