"""Finishing a cancel on a run that nobody supervises: its known children are interrupted and observed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extension_api.agent_runs import AgentRuns

from ..journal.frames import Frame, Mark
from ..journal.view import reduce_journal
from ..model import Cause, Event, RunRecord, StepKind, StepStatus, StepView
from ..store.base import WorkflowStore
from .budget import suspended
from .calls import agent_request
from .children import Child, OutcomeKind, Phase
from .writer import RunWriter

_OPEN = (StepStatus.RUNNING, StepStatus.UNCERTAIN, StepStatus.WAITING)


def cancelled_cause() -> Cause:
    return Cause("cancelled", "a cancel was asked for; what Agents did is not undone")


async def cancel_without_owner(
    store: WorkflowStore, run_id: str, runs: AgentRuns, changed: Callable[[str], None]
) -> int:
    """Interrupt and observe every child that may run, then write cancelled or needs_reconciliation.

    A step with an intent and no child id is looked up by its idempotency key; what the host does not find
    proves nothing and stays uncertain. Returns how many uncertain children hold a place from now on. Raises
    Conflict where the record changed in the meantime.
    """
    record = store.load(run_id)
    if record is None or record.state.final:
        return 0
    frames, marks = store.journal(run_id)
    children = open_children(record, store, frames, marks)
    for child in children:
        await _observe(child, runs)
    uncertain = [c for c in children if c.outcome is None or c.outcome.kind is OutcomeKind.UNCERTAIN]
    notes = {child.step_id: child.note(settled=True) for child in children}
    writer = RunWriter.reopened(record, store, changed, frames, marks)
    if uncertain:
        names = ", ".join(child.step_id for child in uncertain)
        cause = Cause(
            "uncertain", f"cancelling, but the outcome of {names} is uncertain. Look at the child run"
        )
        writer.finish(Event.UNCERTAIN, cause, notes=notes, waiting=None, **suspended(record))
    else:
        writer.finish(Event.CANCEL, cancelled_cause(), notes=notes, **suspended(record))
    return len(uncertain)


def open_children(
    record: RunRecord, store: WorkflowStore, frames: Sequence[Frame], marks: Sequence[Mark]
) -> list[Child]:
    """Every child that the journal says may run, as far as it is known from there. No host was asked yet."""
    reducer = reduce_journal("", frames, marks)
    steps = reducer.view(record).steps
    children = [
        _child(record, step) for step in steps if step.kind is StepKind.AGENT and step.status in _OPEN
    ]
    if reducer.damage is not None or not frames:
        # What was started stands in the intents as well, also where its call cannot be read any more.
        seen = {step.step_id for step in steps}
        children += [
            _child(
                record,
                StepView(step_id=name, kind=StepKind.AGENT, attempt=attempt, status=StepStatus.RUNNING),
            )
            for name, attempt in store.admissions(record.run_id)
            if name not in seen
        ]
    return children


async def interrupt_unsettled(store: WorkflowStore, run_id: str, runs: AgentRuns) -> None:
    """Interrupt and observe what still runs of the steps that are to be settled; the journal is left alone.

    What became of each is for a person to attest, upon what the host has on record from then on.
    """
    record = store.load(run_id)
    if record is None or record.state.final:
        return
    for step in reduce_journal("", *store.journal(run_id)).view(record).steps:
        if step.unsettled:
            await _observe(_child(record, step), runs)


def _child(record: RunRecord, step: StepView) -> Child:
    position = (step.line, step.column) if step.line and step.column else None
    whole = {"task": step.input, "artifacts": []}
    request = agent_request(record, step.step_id, step.agent_ref or "", whole, step.readmitted)
    child = Child(0, position, request, step.attempt)
    child.phase = Phase.KNOWN
    return child


async def _observe(child: Child, runs: AgentRuns) -> None:
    view = await runs.find(child.request.idempotency_key)
    if view is None:
        child.mark_uncertain("the host has no record of its child run, which proves nothing")
        return
    child.view = view
    if view.status.active:
        await child.stop(runs)
    else:
        child.finish(view)
