"""Recovering a run: what must still hold, and what a recovery would do.

``incompatibilities`` are the checks that come before any recovery; ``preview`` is a dry replay in a real
worker that touches no Agent's work: it only asks the host what it knows of children.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from extension_api.agent_runs import AgentRunRefused, AgentRuns, AgentRunStatus

from .. import jsontext
from ..errors import NotFound
from ..journal.frames import Frame, JournalBroken, Mark, verify_chain
from ..journal.references import Find, expander
from ..journal.replay import Diverged, ReplayEnd, Replayer
from ..journal.view import reduce_journal
from ..limits import EngineConfig
from ..model import RunRecord, RunState, StepKind, StepStatus, StepView, now
from ..store.base import WorkflowStore
from ..worker.process import Worker, WorkerDied, runtime_signature
from .budget import seconds_left
from .calls import changed_configuration
from .children import step_key


class StepAt(msgspec.Struct, frozen=True):
    """A step named in a preview, with its place in the script."""

    step_id: str
    line: int | None
    column: int | None = None


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What recovery would do.

    ``reused`` have a recorded result, ``observed`` a child run that is watched to its end, ``uncertain`` stop
    the recovery until a person settles them, ``new`` are calls that would start. ``compatible`` is None where
    something cannot be known here; ``reasons`` are sentences.
    """

    reused: tuple[StepAt, ...] = ()
    observed: tuple[StepAt, ...] = ()
    uncertain: tuple[StepAt, ...] = ()
    new: tuple[StepAt, ...] = ()
    compatible: bool | None = True
    reasons: tuple[str, ...] = ()


def incompatibilities(
    record: RunRecord,
    frames: Sequence[Frame],
    script: str | None,
    config: EngineConfig,
    runs: AgentRuns,
) -> list[str]:
    """Why a run cannot be recovered here and now, as sentences; empty where it can."""
    reasons: list[str] = []
    if record.cancel_requested_at is not None:
        reasons.append("a cancel is recorded, so only cancel can finish this run")
    if record.state is not RunState.RECOVERABLE:
        reasons.append(f"the run is {record.state.value.replace('_', ' ')}, not recoverable")
    if record.runtime_signature != runtime_signature():
        reasons.append(
            "it was run by another version of the worker; recover it with the version that ran it, or cancel it"
        )
    if record.limits != config.limits:
        changed = sorted(
            key
            for key, value in msgspec.structs.asdict(record.limits).items()
            if value != getattr(config.limits, key)
        )
        reasons.append(f"limits changed since the launch: {', '.join(changed)}. Restore them to recover")
    if record.agents != config.agents:
        reasons.append("the list of allowed agents changed since the launch. Restore it to recover")
    try:
        if runs.configuration_revision(record.options) != record.configuration_revision:
            reasons.append(f"{changed_configuration(record, runs)}. Restore it to recover")
        for agent in record.agents:
            runs.authorize(agent)
    except AgentRunRefused as error:
        reasons.append(error.message)
    try:
        verify_chain(frames)
    except JournalBroken as error:
        reasons.append(f"its journal is damaged: {error}")
    if script is None or jsontext.sha256(script.encode("utf-8")) != record.script_hash:
        reasons.append("its script is missing or was changed")
    wait = record.waiting
    if wait is not None and wait.expires_at is not None and wait.expires_at <= now():
        reasons.append(f"the wait of {wait.step_id} has expired")
    return reasons


async def preview(record: RunRecord, store: WorkflowStore, config: EngineConfig, runs: AgentRuns) -> Preview:
    """Say what recovering ``record`` would do, by a dry replay. Changes nothing."""
    frames, marks = store.journal(record.run_id)
    script = script_of(record, store)
    reasons = incompatibilities(record, frames, script, config, runs)
    broken = any(
        "journal" in reason or "script" in reason or "version of the worker" in reason for reason in reasons
    )
    if broken or script is None or not frames:
        return Preview(compatible=False, reasons=tuple(reasons))
    try:
        end = await _dry_replay(record, script, frames, lambda version: store.capture(record.run_id, version))
    except Diverged as error:
        where = error.divergence
        reasons.append(f"the replay differs from the journal at frame {where.frame}, so it would fail")
        return Preview(compatible=False, reasons=tuple(reasons))
    except (WorkerDied, NotFound) as error:
        reasons.append(f"the replay cannot be done: {error}")
        return Preview(compatible=False, reasons=tuple(reasons))
    compatible = not reasons
    if seconds_left(record, now()) <= 0:
        reasons.append(
            "the execution budget was used up while nobody ran it; recovery would end failed: deadline"
        )
    found = await _sorted_steps(record, frames, marks, end, runs)
    return Preview(**found, compatible=compatible, reasons=tuple(reasons))


async def _dry_replay(record: RunRecord, script: str, frames: Sequence[Frame], find: Find) -> ReplayEnd:
    args = jsontext.encode(jsontext.parse(frames[0].body, "frame 0")["args"])
    worker = await Worker.start(script=script, args=args, limits=record.limits, replay=True)
    try:
        return await Replayer(worker, frames, expander(find)).run()
    finally:
        await worker.close()


async def _sorted_steps(
    record: RunRecord, frames: Sequence[Frame], marks: Sequence[Mark], end: ReplayEnd, runs: AgentRuns
) -> dict[str, tuple[StepAt, ...]]:
    groups: dict[str, list[StepAt]] = {"reused": [], "observed": [], "uncertain": [], "new": []}
    open_steps = {call.get("step_id") for call in end.unanswered}
    for step in reduce_journal("", frames, marks).view(record).steps:
        at = StepAt(step.step_id, step.line, step.column)
        if step.response_frame is not None or step.undelivered is not None:
            groups["reused"].append(at)
        elif step.step_id in open_steps:
            group = await _group_of(record, step, runs)
            if group is not None:
                groups[group].append(at)
    turn = end.next_turn
    for request in turn.requests if turn is not None else ():
        for call, position in zip(request.calls, request.positions, strict=True):
            if call["op"] in ("agent", "capture"):
                line, column = position if position is not None else (None, None)
                groups["new"].append(StepAt(call["step_id"], line, column))
    return {name: tuple(steps) for name, steps in groups.items()}


async def _group_of(record: RunRecord, step: StepView, runs: AgentRuns) -> str | None:
    """Where a step without a recorded response belongs; None for a wait for a person."""
    if step.kind in (StepKind.PAUSE, StepKind.CHECKPOINT):
        return None
    if step.kind is StepKind.CAPTURE or step.status is StepStatus.QUEUED:
        return "new"
    if step.status is StepStatus.FAILED and step.error is not None:
        return "reused"
    try:
        view = await runs.find(step_key(record.run_id, step.step_id, step.attempt, step.readmitted))
    except AgentRunRefused:
        return "uncertain"
    if view is None:
        return "uncertain"
    known = view.status.active or view.status in (AgentRunStatus.SUCCESS, AgentRunStatus.WAITING_INPUT)
    return "observed" if known else "uncertain"


def script_of(record: RunRecord, store: WorkflowStore) -> str | None:
    try:
        return store.script(record.script_hash)
    except (LookupError, UnicodeDecodeError):
        return None
