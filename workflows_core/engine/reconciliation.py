"""Settling uncertain outcomes: a person attests what became of a step, on record.

The attestation, its audit row, what it means for the journal, the run's new state and, where another process sent
it, its control row are one transaction. An attested result enters the journal as the step's response;
``did_not_run`` allows one new admission under the same (run, step, attempt).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from extension_api.agent_runs import AgentRuns, AgentRunStatus

from .. import jsontext, limits
from ..errors import Conflict, LimitExceeded, NotFound, UsageError
from ..journal.frames import ChildNote, Frame, FrameKind, Mark, Side
from ..journal.view import reduce_journal
from ..model import Attestation, Cause, Event, RunRecord, RunState, StepStatus, StepView, Wait, now
from ..store.base import WorkflowStore
from .answering import answered
from .budget import suspended
from .evidence import Evidence, find_evidence
from .observing import cancelled_cause
from .requests import Outcome
from .reviewing import agrees, check_reviewers, disagreement, person, unconfirmed
from .waits import REASON_LENGTH, actor_of, deciding_session
from .writer import RunWriter

OUTCOMES = ("did_not_run", "succeeded", "failed")


class ReconcileRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a person attests. ``output`` counts only with ``has_output``; ``fetch`` takes it from the child run.

    ``evidence_hash`` is that of the evidence which the person was shown (see ``find_evidence``). Every front end
    gives it; None attests upon whatever is known when it is applied.
    """

    run_id: str
    step_id: str
    outcome: str
    reason: str
    output: Any = None
    has_output: bool = False
    fetch: bool = False
    evidence_hash: str | None = None


async def evidence(
    record: RunRecord, step_id: str, store: WorkflowStore, runs: AgentRuns, *, reviewers: int
) -> Evidence:
    """What to show a person before they attest. Raises as ``reconcile`` for what cannot be settled."""
    check_reviewers(reviewers, runs)
    _check_state(record)
    step, _ = _find(step_id, record, reduce_journal("", *store.journal(record.run_id)).view(record).steps)
    return await find_evidence(record, step, runs)


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
    an interactive session or where two reviewers cannot exist, Conflict where the step is not uncertain, where
    what is known is not what the person was shown, or where the host's record contradicts that it did not run,
    UsageError for what cannot be recorded.
    """
    deciding_session(runs)
    check_reviewers(reviewers, runs)
    _check(request)
    _check_state(record)
    frames, marks = store.journal(record.run_id)
    steps = reduce_journal("", frames, marks).view(record).steps
    step, left = _find(request.step_id, record, steps)
    known = await find_evidence(record, step, runs)
    check_evidence(request, known)
    output = _output(request, known)
    statement = {"outcome": request.outcome, "output": output if request.outcome == "succeeded" else None}
    statement_hash = jsontext.sha256(jsontext.encode(statement))
    pending = unconfirmed(store.attestations(record.run_id), step)
    attestation = Attestation(
        run_id=record.run_id,
        step_id=step.step_id,
        attempt=step.attempt,
        outcome=request.outcome,
        reason=request.reason.strip(),
        statement_hash=statement_hash,
        evidence_hash=known.hash,
        actor=actor_of(runs),
        settles=agrees(pending, step, statement_hash, runs, reviewers),
        attested_at=now(),
    )
    writer = RunWriter.reopened(record, store, changed, frames, marks)
    if not attestation.settles:
        return _record(writer, attestation, pending, [step, *left]), False
    return _settle(writer, attestation, step, left, output), step.status is StepStatus.UNCERTAIN


def _check(request: ReconcileRequest) -> None:
    if request.outcome not in OUTCOMES:
        raise UsageError(f"an outcome is one of {', '.join(OUTCOMES)}")
    if not request.reason.strip() or len(request.reason) > REASON_LENGTH:
        raise UsageError(f"an attestation needs a reason of at most {REASON_LENGTH:,} characters")
    if request.outcome == "succeeded" and request.has_output == request.fetch:
        raise UsageError("succeeded needs either the output, or that it is fetched from the child run")
    if request.outcome != "succeeded" and (request.has_output or request.fetch):
        raise UsageError(f"{request.outcome} has no output")


def _check_state(record: RunRecord) -> None:
    if record.state not in (RunState.NEEDS_RECONCILIATION, RunState.WAITING_INPUT):
        raise Conflict(
            f"run {record.run_id} is {record.state.value.replace('_', ' ')}; nothing is to be settled"
        )


def _find(step_id: str, record: RunRecord, steps: Sequence[StepView]) -> tuple[StepView, list[StepView]]:
    """The step to settle, and the other ones that are to be settled."""
    step = next((item for item in steps if item.step_id == step_id), None)
    if step is None:
        raise NotFound(f"run {record.run_id} has no step {step_id[:80]}")
    if not step.unsettled:
        raise Conflict(f"the outcome of {step.step_id} is not uncertain; it is {step.status.value}")
    return step, [item for item in steps if item.unsettled and item is not step]


def check_evidence(request: ReconcileRequest, known: Evidence) -> None:
    """Raise Conflict where what is known is not what was shown, or says that the step did run, or runs."""
    if request.evidence_hash is not None and request.evidence_hash != known.hash:
        raise Conflict(
            f"what is known of {known.step_id} has changed since it was shown; nothing was attested. Look at it again"
        )
    if request.outcome == "did_not_run" and known.ended:
        ended = f"{known.status}: {known.error}" if known.error else str(known.status)
        raise Conflict(
            f"the host's record says that child run {known.child_run_id} of {known.step_id} has ended ({ended}), so "
            "it did run, and asking the Agent again would do its work twice. Attest failed, or succeeded"
        )
    if request.outcome == "did_not_run" and known.running:
        raise Conflict(
            f"the host sees child run {known.child_run_id} of {known.step_id} running, so asking the Agent again would "
            "do its work twice. Look again once it has ended, or cancel the run, which interrupts it"
        )


def _output(request: ReconcileRequest, known: Evidence) -> Any:
    if request.outcome != "succeeded":
        return None
    output = request.output
    if request.fetch:
        if known.status != AgentRunStatus.SUCCESS:
            status = "not known to the host" if known.status is None else known.status
            raise Conflict(f"the child run of {known.step_id} is {status}, so its output cannot be fetched")
        output = known.output
    try:
        size = jsontext.size(output, "the output")
        jsontext.parse(jsontext.encode(output), "the output")
    except jsontext.JsonRefused as error:
        raise UsageError(str(error)) from None
    if size > limits.OUTPUT_BYTES:
        raise LimitExceeded(f"the output takes {size:,} bytes; admitted are {limits.OUTPUT_BYTES:,}")
    return output


def _names(steps: Sequence[StepView]) -> str:
    return ", ".join(step.step_id for step in steps)


def _record(
    writer: RunWriter, attestation: Attestation, pending: Sequence[Attestation], left: Sequence[StepView]
) -> Outcome:
    """Keep what settles nothing yet, and let the run's cause tell it."""
    record, step = writer.record, left[0]
    others = [item for item in pending if person(item) != person(attestation)]
    said = disagreement([*others, attestation], step)
    code = record.cause.code if record.cause is not None else "uncertain"
    cause = Cause(code, f"the outcome of {_names(left)} is uncertain; {said}", step.line, step.column)
    outcome = Outcome("recorded", f"recorded; {said}", (record.run_id,))
    with answered(writer.store, outcome):
        writer.commit(attestation=attestation, record=_next(record, attestation.attested_at, cause=cause))
    return outcome


def _next(record: RunRecord, at: int, **changes: Any) -> RunRecord:
    """The record after a change that leaves the run in its state."""
    return msgspec.structs.replace(record, revision=record.revision + 1, last_progress=at, **changes)


def _settle(
    writer: RunWriter,
    attestation: Attestation,
    step: StepView,
    left: Sequence[StepView],
    output: Any,
) -> Outcome:
    record, at = writer.record, attestation.attested_at
    cancelled = record.cancel_requested_at is not None and not left
    then = (
        f"still uncertain: {_names(left)}"
        if left
        else ("and the run is cancelled" if cancelled else "the run can be recovered")
    )
    words = f"{step.step_id} is settled{' ' if cancelled else '; '}{then}"
    outcome = Outcome("applied", words, (record.run_id,))
    frames: list[Frame] = []
    if attestation.outcome != "did_not_run":
        status = StepStatus.FAILED if attestation.outcome == "failed" else StepStatus.COMPLETED
        note = ChildNote(badge="attested", finished_at=at, status=status)
        body = jsontext.encode({"results": [_result(attestation, step, output)]})
        frames.append(writer.frame(FrameKind.RESPONSE, body, at, Side(children={step.step_id: note})))
    if cancelled:
        # Nothing will be admitted again, so a call that did not run ends here.
        why = Cause("did_not_run", f"it was attested not to have run: {attestation.reason}")
        ended = ChildNote(status=StepStatus.INTERRUPTED, finished_at=at, error=why)
        with answered(writer.store, outcome):
            writer.finish(
                Event.SETTLED_CANCELLED,
                cancelled_cause(),
                before=frames,
                notes={} if frames else {step.step_id: ended},
                attestation=attestation,
                **suspended(record),
            )
        return outcome
    marks: list[Mark] = []
    readmissions: list[tuple[str, int]] = []
    if not frames:
        marks.append(writer.mark(at, Side(readmitted=(step.step_id,))))
        readmissions.append((step.step_id, step.attempt))
    with answered(writer.store, outcome):
        writer.commit(
            frames=frames,
            marks=marks,
            readmissions=readmissions,
            attestation=attestation,
            record=_after(writer, left, at),
        )
    return outcome


def _after(writer: RunWriter, left: Sequence[StepView], at: int) -> RunRecord:
    """The record once a step is settled: recoverable, or what the other steps wait for."""
    record = writer.record
    if not left:
        cause = Cause("settled", "every uncertain step is settled; the run can be recovered")
        return writer.next(Event.SETTLED, cause=cause, waiting=None)
    asking = next((item for item in left if item.status is StepStatus.WAITING), None)
    if record.state is RunState.WAITING_INPUT and asking is not None:
        why = asking.error.message if asking.error is not None else "its Agent asks a person"
        cause = Cause("waiting_input", f"{asking.step_id}: {why}", asking.line, asking.column)
        wait = Wait("input", asking.step_id, asking.attempt, None)
        return _next(record, at, cause=cause, waiting=wait)
    cause = Cause("uncertain", f"the outcome of {_names(left)} is uncertain. Settle it to go on")
    if record.state is RunState.WAITING_INPUT:
        return writer.next(Event.UNCERTAIN, cause=cause, waiting=None)
    return _next(record, at, cause=cause, waiting=None)


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
