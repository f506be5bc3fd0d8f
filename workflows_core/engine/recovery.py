"""Recovering a run: what must still hold, and what a recovery would do.

``incompatibilities`` are the checks that come before any recovery; ``preview`` is a dry replay in a real
worker that touches no Agent's work: it only asks the host what it knows of children.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from extension_api.agent_runs import AgentRunRefused, AgentRuns

from .. import jsontext, limits
from ..errors import NotFound, StoreFailed
from ..journal.frames import Frame, JournalBroken, Mark, pack_results, verify_journal
from ..journal.references import Find, expander
from ..journal.replay import Diverged, ReplayEnd, Replayer, expanded
from ..journal.view import reduce_journal
from ..limits import EngineConfig
from ..model import RECORD_DAMAGED, Decision, RunRecord, RunState, StepKind, StepStatus, StepView, now
from ..store.base import WorkflowStore
from ..worker.process import Turn, Worker, WorkerDied, runtime_signature
from .budget import seconds_left
from .calls import CallReader, Fault, changed_configuration
from .captures import CaptureCall, ReadCall
from .children import Child, Outcome, OutcomeKind, outcome_of, step_key
from .open_calls import Answer, read_answer
from .taking_up import TakenUp, read_journal, take_up
from .waits import WaitCall


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
    marks: Sequence[Mark],
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
        verify_journal(frames, marks)
    except JournalBroken as error:
        reasons.append(f"its journal is damaged: {error}")
    if record.cause is not None and record.cause.code == RECORD_DAMAGED:
        reasons.append(record.cause.message)
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
    reasons = incompatibilities(record, frames, marks, script, config, runs)
    broken = any(
        "journal" in reason or "script" in reason or "version of the worker" in reason for reason in reasons
    )
    if broken or script is None or not frames:
        return Preview(compatible=False, reasons=tuple(reasons))
    find = partial(store.capture, record.run_id)
    args = jsontext.encode(jsontext.parse(frames[0].body, "frame 0")["args"])
    try:
        async with _worker(script, args, record) as worker:
            end = await Replayer(worker, frames, expander(find)).run()
            ahead = _Ahead(record, find, runs)
            await ahead.take_up(frames, marks, end, store.decisions(record.run_id))
            await ahead.go_on(worker, end)
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
    groups = {name: tuple(steps) for name, steps in ahead.groups.items()}
    return Preview(**groups, compatible=compatible, reasons=(*reasons, *ahead.reasons))


@asynccontextmanager
async def _worker(script: str, args: bytes, record: RunRecord) -> AsyncIterator[Worker]:
    worker = await Worker.start(script=script, args=args, limits=record.limits, replay=True)
    try:
        yield worker
    finally:
        await worker.close()


class _Ahead:
    """What recovery would do beyond the journal, found out without doing it."""

    def __init__(self, record: RunRecord, find: Find, runs: AgentRuns) -> None:
        self.groups: dict[str, list[StepAt]] = {"reused": [], "observed": [], "uncertain": [], "new": []}
        self.reasons: list[str] = []
        self._record = record
        self._find = find
        self._runs = runs
        self._reader = CallReader(record)
        self._ready: list[Answer] = []
        #: The answers of children that have ended meanwhile; recovery gives them after those that it knows.
        self._ended: list[Answer] = []
        #: Whether a child has ended in a way that stops the run before anything new is started.
        self._stops = False

    async def take_up(
        self, frames: Sequence[Frame], marks: Sequence[Mark], end: ReplayEnd, decisions: Sequence[Decision]
    ) -> None:
        """Sort the recorded steps, and keep the answers that recovery would give at once."""
        asked = read_journal(self._reader, frames)
        steps = reduce_journal("", frames, marks).view(self._record).steps
        taken = take_up(end.unanswered, asked, steps, decisions)
        of_step = {item.step.step_id: item for item in taken if item.step is not None}
        for step in steps:
            item = of_step.get(step.step_id)
            group: str | None = "reused"
            if item is not None and item.outcome is None:
                group = await self._group_of(item, step)
            elif item is not None and isinstance(item.asked, Outcome):
                group = None  # a refusal is given again
            if group is not None and (item is not None or step.response_frame is not None):
                self.groups[group].append(StepAt(step.step_id, step.line, step.column))
        for item in taken:
            if item.outcome is not None:
                self._ready.append(Answer(item.call["id"], item.outcome, item.call.get("step_id"), item.kind))
            elif isinstance(item.asked, ReadCall):
                self._ready.append(read_answer(item.asked, self._find))

    async def _group_of(self, taken: TakenUp, step: StepView) -> str | None:
        """Where a step without an answer belongs; None for a wait for a person."""
        if isinstance(taken.asked, WaitCall):
            return None
        if step.kind is StepKind.CAPTURE or step.status is StepStatus.QUEUED:
            return "new"
        try:
            key = step_key(self._record.run_id, step.step_id, step.attempt, step.readmitted)
            view = await self._runs.find(key)
        except AgentRunRefused:
            return "uncertain"
        if view is None:
            return "uncertain"
        if view.status.active:
            return "observed"
        outcome = outcome_of(view)
        if outcome.kind is OutcomeKind.SUCCESS:
            self._ended.append(Answer(taken.call["id"], outcome, step.step_id, StepKind.AGENT))
        elif outcome.kind is OutcomeKind.TOO_LARGE:
            self._stops = True
            self.reasons.append(f"after that it would fail: {step.step_id}: {outcome.message}")
        elif outcome.kind is OutcomeKind.WAITING_INPUT:
            self._stops = True
            self.reasons.append(f"after that it would wait for input: {step.step_id}: {outcome.message}")
        else:
            return "uncertain"
        return "observed"

    async def go_on(self, worker: Worker, end: ReplayEnd) -> None:
        """Give the answers that are known, and list the calls that the script makes then."""
        if self.groups["uncertain"]:
            self.groups["new"].clear()
            names = ", ".join(step.step_id for step in self.groups["uncertain"])
            self.reasons.append(
                f"recovery stops before anything new is started: somebody must settle {names} "
                "(workbench reconcile)"
            )
            return
        if self._stops:
            self.groups["new"].clear()
            return
        turn = end.next_turn
        try:
            for _ in range(limits.ROUNDS):
                if turn is not None:
                    self._read(turn)
                    if turn.end is not None:
                        return
                if not self._ready:
                    self._ready, self._ended = self._ended, []
                if not self._ready:
                    return
                bodies = pack_results([item.result() for item in self._ready], limits.FRAME_BYTES)
                for item in self._ready:
                    if item.outcome.kind is OutcomeKind.SUCCESS and item.step_id and item.kind:
                        self._reader.answered(item.step_id, item.kind, item.outcome.value or {})
                self._ready.clear()
                turn = await worker.give(expanded(bodies, expander(self._find)))
        except Fault as fault:
            self.reasons.append(f"after that it would fail: {fault.cause.message}")

    def _read(self, turn: Turn) -> None:
        for request in turn.requests:
            for call, position in zip(request.calls, request.positions, strict=True):
                asked = self._reader.read(call, position)
                if isinstance(asked, Child | CaptureCall):
                    line, column = position if position is not None else (None, None)
                    self.groups["new"].append(StepAt(asked.step_id, line, column))
                elif isinstance(asked, ReadCall):
                    self._ready.append(read_answer(asked, self._find))
                elif isinstance(asked, Outcome):
                    kind = StepKind.AGENT if call["op"] == "agent" else None
                    self._ready.append(Answer(call["id"], asked, call.get("step_id"), kind))


def script_of(record: RunRecord, store: WorkflowStore) -> str | None:
    try:
        return store.script(record.script_hash)
    except (StoreFailed, LookupError, UnicodeDecodeError):
        return None
