"""The supervisor of one run: it drives the worker round by round and commits before anything takes effect.

A round: the worker's request frames are validated and committed together with the admission intents they
cause (invariants 1 and 3); children run; whatever has finished is committed as a response batch (invariant 2)
and only then given to JavaScript. Everything that ends a run passes through ``_stop_children`` first, so
that a final state is never written while a child's outcome is unknown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from extension_api.agent_runs import AgentRunRefused, AgentRuns

from .. import jsontext, limits
from ..errors import ScriptRefused, StoreError
from ..journal.frames import ChildNote, Frame, FrameKind, JournalWriter, Mark, Side, pack_results
from ..model import Cause, Event, RunRecord, RunState, Wait, now, transition
from ..store.base import WorkflowStore
from ..worker.process import EndFrame, Turn, Worker, WorkerDeath, WorkerDied
from .calls import CallReader, Fault
from .children import Child, Outcome, OutcomeKind, Phase, Slots

logger = logging.getLogger(__name__)

#: Room kept in a journal for its end frame, which holds at most the result.
END_RESERVE = limits.OUTPUT_BYTES + 2_000


class StopKind(StrEnum):
    CANCEL = "cancel"
    DEADLINE = "deadline"
    SHUTDOWN = "shutdown"


class _Stopped(Exception):
    """The run must leave its loop for a reason from outside the script."""

    def __init__(self, kind: StopKind) -> None:
        super().__init__(kind.value)
        self.kind = kind


class _Wait(Exception):
    """A child asks a human, or an outcome is uncertain: the run stops, whatever the script catches."""

    def __init__(self, child: Child, outcome: Outcome) -> None:
        super().__init__(outcome.code)
        self.child = child
        self.outcome = outcome


def boot_time() -> float:
    """Seconds since boot with time asleep included, where the system has such a clock."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Supervisor:
    """Owns one run from its queued record to the moment at which nobody needs to work on it any more."""

    def __init__(
        self,
        *,
        record: RunRecord,
        script: str,
        args: bytes,
        journal: JournalWriter,
        store: WorkflowStore,
        runs: AgentRuns,
        slots: Slots,
        changed: Callable[[str], None],
    ) -> None:
        self.record = record
        self.runs = runs
        self._script = script
        self._args = args
        self._journal = journal
        self._store = store
        self._slots = slots
        self._changed = changed
        self._calls = CallReader(record)
        self._children: dict[int, Child] = {}
        self._queue: list[Child] = []
        self._active = 0
        self._ready: list[tuple[int, Outcome]] = []
        self._worker: Worker | None = None
        self._stop: StopKind | None = None
        self._wake: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

    # What the service asks of a running supervisor.

    def request_stop(self, kind: StopKind) -> None:
        """Leave the loop soon. The first reason counts, but a shutdown outranks the others."""
        if self._stop is None or kind is StopKind.SHUTDOWN:
            self._stop = kind
        if self._worker is not None:
            self._worker.kill()
        self._poke()

    def record_cancel(self) -> None:
        """Commit that a cancel was asked for; a second request changes nothing."""
        if self.record.cancel_requested_at is None:
            self._write(Event.RECORD_CANCEL, cause=self.record.cause, cancel_requested_at=now())

    # The life of a run.

    async def run(self) -> None:
        """Drive the run until it is final, waits, or is left to a later owner.

        Raises StoreError where the store refused a write: the record then still says what was committed.
        """
        try:
            await self._live()
        except StoreError:
            raise
        except Exception as error:
            logger.exception("run %s stopped by a fault of the engine", self.record.run_id)
            await self._close_worker()
            message = (
                f"the engine failed with {type(error).__name__}; its log says where. The run can be recovered"
            )
            await self._leave(Cause("internal_error", message))
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await self._close_worker()
            for child in self._children.values():
                if child.task is not None and not child.task.done():
                    child.task.cancel()
            self._release_places()

    async def _live(self) -> None:
        try:
            self._check_stop()
            self._write(Event.START)
            self._start_clock()
            end = await self._drive()
        except Fault as fault:
            await self._fail(fault.cause)
        except ScriptRefused as error:
            await self._fail(Cause(error.code, str(error), error.line, error.column))
        except _Wait as wait:
            await self._hold(wait)
        except _Stopped as stopped:
            await self._stopped(stopped.kind)
        except WorkerDied as death:
            await self._worker_died(death)
        else:
            await self._ended(end)

    async def _drive(self) -> EndFrame:
        self._worker = worker = await Worker.start(
            script=self._script, args=self._args, limits=self.record.limits
        )
        self._check_stop()
        worker.exited.add_done_callback(lambda _: self._poke())
        turn = await self._turn(worker.first_turn())
        rounds = 0
        while True:
            self._take(turn)
            if turn.end is not None:
                return turn.end
            if not self._ready and not self._children_open():
                raise Fault(
                    "stalled",
                    "the script waits for something that can never happen: no call is outstanding and it has "
                    "not returned. Look for a promise that nothing resolves",
                )
            await self._until_ready()
            rounds += 1
            if rounds > limits.ROUNDS:
                raise Fault("round_limit", f"the run took more than {limits.ROUNDS:,} rounds")
            turn = await self._turn(worker.give(self._respond()))

    async def _turn(self, awaitable: Any) -> Turn:
        try:
            turn: Turn = await awaitable
        except WorkerDied:
            self._check_stop()
            raise
        self._check_stop()
        return turn

    # Requests.

    def _take(self, turn: Turn) -> None:
        """Validate a turn's calls and commit its request frames with the admission intents they cause."""
        if not turn.requests:
            return
        frames: list[Frame] = []
        immediate: list[tuple[int, Outcome]] = []
        new: list[Child] = []
        for request in turn.requests:
            for call, position in zip(request.calls, request.positions, strict=True):
                child, outcome = self._calls.read(call, position)
                if child is not None:
                    new.append(child)
                elif outcome is not None:
                    immediate.append((call["id"], outcome))
        size = sum(len(request.body) for request in turn.requests)
        self._check_journal(size)
        for child in new:
            self._children[child.call_id] = child
        self._queue += new
        reserved = self._reserve() if turn.end is None else []
        at = now()
        last = len(turn.requests) - 1
        for index, request in enumerate(turn.requests):
            side = Side(
                positions=request.positions,
                admitting=tuple(child.step_id for child in reserved) if index == last else (),
            )
            frames.append(self._journal.frame(FrameKind.REQUEST, request.body, at, side))
        self._commit(frames=frames, admissions=reserved)
        self._ready += immediate
        self._admit(reserved)

    def _reserve(self) -> list[Child]:
        """Take places for queued children, in order, after checking authority, allowlist and configuration.

        Their admission intents belong into the next commit; they are admitted after it.
        """
        reserved: list[Child] = []
        while self._queue and self._active < self.record.limits.concurrency:
            child = self._queue[0]
            refusal = self._refusal(child)
            if refusal is not None:
                self._queue.pop(0)
                child.outcome, child.phase = refusal, Phase.DONE
                self._ready.append((child.call_id, refusal))
                continue
            if not self._slots.try_take():
                self._slots.wait(self._poke)
                break
            self._queue.pop(0)
            self._active += 1
            child.holds_place = True
            child.phase = Phase.ADMITTING
            reserved.append(child)
        return reserved

    def _refusal(self, child: Child) -> Outcome | None:
        """Why this child may not start now. A changed configuration stops the whole run."""
        try:
            revision = self.runs.configuration_revision(self.record.options)
            if revision != self.record.configuration_revision:
                raise Fault(
                    "configuration_changed",
                    f"the configuration changed since the launch, so {child.step_id} was not started. "
                    "Launch a new run, or restore the configuration",
                    child.position,
                )
            self.runs.authorize(child.agent_ref)
        except AgentRunRefused as error:
            return Outcome(OutcomeKind.FAILED, code=error.code, message=error.message)
        return None

    def _admit(self, reserved: list[Child]) -> None:
        loop = asyncio.get_running_loop()
        for child in reserved:
            child.task = loop.create_task(
                child.run(self.runs, self.record.limits.admission_timeout_seconds, self._poke)
            )

    # Responses.

    async def _until_ready(self) -> None:
        """Return once at least one call has an outcome. Commits what becomes known in the meantime."""
        while True:
            self._check_stop()
            self._collect()
            if self._ready:
                return
            worker = self._worker
            if worker is not None and worker.exited.done():
                raise worker.exited.result()
            self._commit_known()
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None

    def _collect(self) -> None:
        """Move finished children to the batch, in the order of their calls."""
        for child in self._children.values():
            outcome = child.outcome
            if child.phase is not Phase.DONE or outcome is None or child.task is None:
                continue
            child.task = None
            if outcome.kind in (OutcomeKind.WAITING_INPUT, OutcomeKind.UNCERTAIN):
                raise _Wait(child, outcome)
            if outcome.kind is OutcomeKind.TOO_LARGE:
                raise Fault(outcome.code, f"{child.step_id}: {outcome.message}", child.position)
            self._give_back(child)
            self._ready.append((child.call_id, outcome))

    def _commit_known(self) -> None:
        """Commit the ids of children that are known and not finished, with intents that found a place."""
        notes = {
            child.step_id: child.note()
            for child in self._children.values()
            if child.phase is Phase.KNOWN and not child.known_committed
        }
        reserved = self._reserve()
        if notes or reserved:
            side = Side(admitting=tuple(child.step_id for child in reserved), children=notes)
            self._commit(marks=[self._journal.mark(now(), side)], admissions=reserved)
            for child in self._children.values():
                child.known_committed = child.known_committed or child.step_id in notes
            self._admit(reserved)

    def _respond(self) -> list[bytes]:
        """Commit everything that has an outcome as one response batch and return its frames' bodies."""
        ready, self._ready = self._ready, []
        results: list[bytes] = []
        notes: dict[str, ChildNote] = {}
        for call_id, outcome in ready:
            if outcome.kind is OutcomeKind.SUCCESS:
                results.append(jsontext.encode({"id": call_id, "ok": True, "value": outcome.value}))
            else:
                name = "AgentError" if call_id in self._children else "WorkflowError"
                error = {"code": outcome.code, "message": outcome.message, "name": name}
                results.append(jsontext.encode({"error": error, "id": call_id, "ok": False}))
            child = self._children.pop(call_id, None)
            if child is not None:
                notes[child.step_id] = child.note()
        for child in self._children.values():
            if child.phase is Phase.KNOWN and not child.known_committed:
                notes[child.step_id] = child.note()
                child.known_committed = True
        bodies = pack_results(results, limits.FRAME_BYTES)
        self._check_journal(sum(len(body) for body in bodies))
        reserved = self._reserve()
        at = now()
        last = len(bodies) - 1
        admitting = tuple(child.step_id for child in reserved)
        frames = [
            self._journal.frame(
                FrameKind.RESPONSE,
                body,
                at,
                Side(admitting=admitting, children=notes) if index == last else None,
            )
            for index, body in enumerate(bodies)
        ]
        self._commit(frames=frames, admissions=reserved)
        self._admit(reserved)
        return bodies

    def _children_open(self) -> bool:
        return bool(self._children)

    # Endings.

    async def _ended(self, end: EndFrame) -> None:
        if not end.ok:
            error = end.error or {}
            line, column = end.position if end.position is not None else (None, None)
            cause = Cause(str(error.get("code")), str(error.get("message")), line, column)
            await self._fail(cause, end.body, end.position)
            return
        if self._children:
            names = ", ".join(child.step_id for child in self._children.values())
            cause = Cause("unawaited_call", f"the script returned while {names} had no answer yet")
            await self._fail(cause)
            return
        size = jsontext.size(end.value, "the result")
        if size > limits.OUTPUT_BYTES:
            await self._fail(
                Cause(
                    "result_too_large",
                    f"the result takes {size:,} bytes; admitted are {limits.OUTPUT_BYTES:,}. "
                    "Return less, or capture a file",
                )
            )
            return
        self._finish(Event.COMPLETE, None, body=end.body, result=end.value)

    async def _fail(
        self, cause: Cause, body: bytes | None = None, position: tuple[int, int] | None = None
    ) -> None:
        notes, uncertain = await self._stop_children()
        if uncertain:
            self._finish(Event.UNCERTAIN, _uncertain_cause(uncertain, cause), notes=notes)
        else:
            self._finish(Event.FAIL, cause, notes=notes, body=body, position=position)

    async def _hold(self, wait: _Wait) -> None:
        """A child asks a human or its outcome is uncertain: siblings are interrupted, results are kept."""
        notes, uncertain = await self._stop_children()
        child = wait.child
        if uncertain:
            self._finish(Event.UNCERTAIN, _uncertain_cause(uncertain, None), notes=notes)
            return
        line, column = child.position if child.position is not None else (None, None)
        self._finish(
            Event.CHILD_NEEDS_INPUT,
            Cause("waiting_input", f"{child.step_id}: {wait.outcome.message}", line, column),
            notes=notes,
            waiting=Wait("input", child.step_id, child.attempt, None),
        )

    async def _stopped(self, kind: StopKind) -> None:
        if kind is StopKind.SHUTDOWN:
            await self._leave(Cause("shutdown", "the workbench was closed while it ran; it can be recovered"))
        elif kind is StopKind.DEADLINE:
            seconds = self.record.limits.timeout_seconds
            await self._fail(Cause("deadline", f"Execution deadline exceeded: {seconds} s are used up"))
        else:
            notes, uncertain = await self._stop_children()
            cause = Cause("cancelled", "a cancel was asked for; what Agents did is not undone")
            if uncertain:
                self._finish(Event.UNCERTAIN, _uncertain_cause(uncertain, cause), notes=notes)
            else:
                self._finish(Event.CANCEL, cause, notes=notes)

    async def _worker_died(self, death: WorkerDied) -> None:
        if death.reason in (WorkerDeath.CPU_LIMIT, WorkerDeath.TURN_LIMIT, WorkerDeath.PROTOCOL):
            await self._fail(Cause(death.reason.value, death.message))
        else:
            await self._leave(Cause("worker_died", f"{death.message}; the run can be recovered"))

    async def _leave(self, cause: Cause) -> None:
        """Leave the run to a later owner: children go on or not without us; what is known is committed."""
        admitting = [c.task for c in self._children.values() if c.phase is Phase.ADMITTING and c.task]
        if admitting:
            await asyncio.wait(admitting, timeout=self.record.limits.admission_timeout_seconds)
        notes = {c.step_id: c.note() for c in self._children.values() if c.view is not None}
        self._finish(Event.OWNER_GONE, cause, notes=notes)

    async def _stop_children(self) -> tuple[dict[str, ChildNote], list[Child]]:
        """Stop the worker, interrupt and observe every child that may run.

        Returns what became known by step id, and the children whose outcome stays uncertain; those keep
        their concurrency place.
        """
        await self._close_worker()
        started = [child for child in self._children.values() if child.phase is not Phase.QUEUED]
        self._queue.clear()
        if started:
            await asyncio.gather(*(child.stop(self.runs) for child in started))
        notes = {child.step_id: child.note(settled=True) for child in started}
        uncertain = [
            child for child in started if child.outcome and child.outcome.kind is OutcomeKind.UNCERTAIN
        ]
        for child in started:
            if child not in uncertain:
                self._give_back(child)
        return notes, uncertain

    def _finish(
        self,
        event: Event,
        cause: Cause | None,
        *,
        notes: dict[str, ChildNote] | None = None,
        body: bytes | None = None,
        position: tuple[int, int] | None = None,
        waiting: Wait | None = None,
        result: Any = None,
    ) -> None:
        """Commit the run's new state, with its end frame where the state is final, in one transaction."""
        state = transition(self.record.state, event)
        at = now()
        side = Side(children=notes or {}, position=position)
        frames: list[Frame] = []
        marks: list[Mark] = []
        if state.final:
            if body is None:
                error = (
                    {"code": cause.code, "message": cause.message, "name": "WorkflowError"} if cause else {}
                )
                body = jsontext.encode({"by": "engine", "error": error, "ok": False})
            frames.append(self._journal.frame(FrameKind.END, body, at, side))
        elif notes:
            marks.append(self._journal.mark(at, side))
        completed = event is Event.COMPLETE
        record = self._next(
            event, cause=cause, waiting=waiting, result=result if completed else None, has_result=completed
        )
        self._commit(frames=frames, marks=marks, record=record)

    # Writing.

    def _next(self, event: Event, **changes: Any) -> RunRecord:
        at = now()
        state = transition(self.record.state, event)
        since = at if state is not self.record.state else self.record.since
        return msgspec.structs.replace(
            self.record,
            state=state,
            revision=self.record.revision + 1,
            since=since,
            last_progress=at,
            **changes,
        )

    def _write(self, event: Event, **changes: Any) -> None:
        self._commit(record=self._next(event, **changes))

    def _commit(
        self,
        *,
        frames: list[Frame] | None = None,
        marks: list[Mark] | None = None,
        admissions: list[Child] | None = None,
        record: RunRecord | None = None,
    ) -> None:
        self._store.commit(
            self.record.run_id,
            frames=frames or (),
            marks=marks or (),
            admissions=[(child.step_id, child.attempt) for child in admissions or ()],
            record=record,
        )
        if record is not None:
            self.record = record
        self._changed(self.record.run_id)

    def _check_journal(self, more: int) -> None:
        if self._journal.bytes + more > limits.JOURNAL_BYTES - END_RESERVE:
            raise Fault(
                "journal_full",
                f"the journal would pass {limits.JOURNAL_BYTES // 1024:,} KiB. "
                "Pass smaller tasks and outputs, or split the workflow",
            )

    # Waking and stopping.

    def _poke(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _check_stop(self) -> None:
        if self._stop is not None:
            raise _Stopped(self._stop)

    def _start_clock(self) -> None:
        self._deadline = boot_time() + self.record.limits.timeout_seconds
        self._tick()

    def _tick(self) -> None:
        """Look at the boot-time clock at least once a second: a loop timer does not count time asleep."""
        left = self._deadline - boot_time()
        if left <= 0:
            self.request_stop(StopKind.DEADLINE)
            return
        self._timer = asyncio.get_running_loop().call_later(min(left, 1.0), self._tick)

    async def _close_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.close()

    def _give_back(self, child: Child) -> None:
        if child.holds_place:
            child.holds_place = False
            self._active -= 1
            self._slots.give_back()

    def _release_places(self) -> None:
        """Give back the places of children that this supervisor leaves; uncertain ones keep theirs."""
        if self.record.state is not RunState.NEEDS_RECONCILIATION:
            for child in self._children.values():
                self._give_back(child)


def _uncertain_cause(children: list[Child], original: Cause | None) -> Cause:
    first = children[0]
    names = ", ".join(child.step_id for child in children)
    why = first.outcome.message if first.outcome is not None else "its outcome is unknown"
    message = f"the outcome of {names} is uncertain: {why}. Look at the child run before anything is repeated"
    if original is not None:
        message += f". It was stopping because: {original.message}"
    line, column = first.position if first.position is not None else (None, None)
    return Cause("uncertain", message, line, column)
