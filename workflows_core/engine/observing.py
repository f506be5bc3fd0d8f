"""Finishing a cancel on a run that nobody supervises: its known children are interrupted and observed."""

from __future__ import annotations

import msgspec

from extension_api.agent_runs import AgentRunRequest, AgentRuns

from ..journal.frames import Frame, FrameKind, JournalWriter, Mark, Side
from ..journal.view import reduce_journal
from ..jsontext import encode
from ..model import Cause, Event, StepKind, StepStatus, now, transition
from ..store.base import WorkflowStore
from .children import Child, OutcomeKind, Phase, idempotency_key, thread_id


async def cancel_without_owner(store: WorkflowStore, run_id: str, runs: AgentRuns) -> None:
    """Interrupt and observe every child that may run, then write cancelled or needs_reconciliation.

    A step with an intent and no child id is looked up by its idempotency key; what the host does not find
    proves nothing and stays uncertain. Raises Conflict where the record changed in the meantime.
    """
    record = store.load(run_id)
    if record is None or record.state.final:
        return
    frames, marks = store.journal(run_id)
    view = reduce_journal("", frames, marks).view(record)
    children: list[Child] = []
    for step in view.steps:
        open_step = step.status in (StepStatus.RUNNING, StepStatus.UNCERTAIN, StepStatus.WAITING)
        if step.kind is not StepKind.AGENT or not open_step:
            continue
        request = AgentRunRequest(
            agent_ref=step.agent_ref or "",
            thread_id=step.thread_id or thread_id(run_id, step.step_id, step.attempt),
            idempotency_key=idempotency_key(run_id, step.step_id, step.attempt),
            input={"task": step.input, "artifacts": []},
            metadata={"workflow_run_id": run_id, "step_id": step.step_id, "attempt": str(step.attempt)},
            options=record.options,
        )
        position = (step.line, step.column) if step.line and step.column else None
        child = Child(0, position, request, step.attempt)
        child.phase = Phase.KNOWN
        children.append(child)
    for child in children:
        await _observe(child, runs)
    uncertain = [c for c in children if c.outcome is None or c.outcome.kind is OutcomeKind.UNCERTAIN]
    notes = {child.step_id: child.note(settled=True) for child in children}
    journal = JournalWriter(
        len(frames), frames[-1].hash, sum(len(frame.body) for frame in frames), len(marks)
    )
    at = now()
    if uncertain:
        names = ", ".join(child.step_id for child in uncertain)
        cause = Cause(
            "uncertain", f"cancelling, but the outcome of {names} is uncertain. Look at the child run"
        )
        event = Event.UNCERTAIN
    else:
        cause = Cause("cancelled", "a cancel was asked for; what Agents did is not undone")
        event = Event.CANCEL
    state = transition(record.state, event)
    new_frames: list[Frame] = []
    new_marks: list[Mark] = []
    if state.final:
        error = {"code": cause.code, "message": cause.message, "name": "WorkflowError"}
        body = encode({"by": "engine", "error": error, "ok": False})
        new_frames.append(journal.frame(FrameKind.END, body, at, Side(children=notes)))
    elif notes:
        new_marks.append(journal.mark(at, Side(children=notes)))
    changed = msgspec.structs.replace(
        record,
        state=state,
        revision=record.revision + 1,
        cause=cause,
        waiting=None,
        since=at,
        last_progress=at,
    )
    store.commit(run_id, frames=new_frames, marks=new_marks, record=changed)


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
