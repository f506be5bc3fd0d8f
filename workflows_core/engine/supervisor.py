"""The supervisor of one run: it drives the worker round by round until nobody needs to work on it any more.

What a round commits is in open_calls.py, what a write is in writer.py. Everything that ends a run stops its
children first, so that a final state is never written while a child's outcome is unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from extension_api.agent_runs import AgentRuns

from .. import jsontext, limits
from ..errors import Conflict, NotFound, ScriptRefused, StoreError
from ..journal.frames import ChildNote, Frame, Mark
from ..journal.replay import Diverged, Divergence, Ending, Replayer
from ..journal.view import reduce_journal
from ..model import Cause, Decision, Event, RunRecord, RunState, StepStatus, Wait, now
from ..worker.process import EndFrame, Turn, Worker, WorkerDeath, WorkerDied
from .budget import Deadline, resumed, seconds_left, suspended
from .calls import Fault
from .children import Child, Slots
from .observing import open_children
from .open_calls import Held, OpenCalls
from .taking_up import read_journal, take_up
from .waits import WaitCall, answer, expired_cause, rejected_cause, released
from .writer import RunWriter

logger = logging.getLogger(__name__)


#: The cause of a run that is recoverable because its worker died.
WORKER_DIED: Final = "worker_died"


class StopKind(StrEnum):
    CANCEL = "cancel"
    DEADLINE = "deadline"
    EXPIRED = "expired"
    SHUTDOWN = "shutdown"
    #: Everything is committed already; only the worker is left to close.
    DONE = "done"


class _Stopped(Exception):
    """The run must leave its loop for a reason from outside the script."""

    def __init__(self, kind: StopKind) -> None:
        super().__init__(kind.value)
        self.kind = kind


class Supervisor:
    """Owns one run. ``journal`` is given for a run that goes on after a recovery.

    ``worker_died`` says that its worker had died before that recovery.
    """

    def __init__(
        self,
        *,
        writer: RunWriter,
        script: str,
        args: bytes,
        runs: AgentRuns,
        slots: Slots,
        journal: tuple[Sequence[Frame], Sequence[Mark]] | None = None,
        worker_died: bool = False,
    ) -> None:
        self.runs = runs
        self._writer = writer
        self._script = script
        self._args = args
        self._recovered = journal
        self._replaying = journal is not None
        self._died_before = worker_died
        self._calls = OpenCalls(writer, runs, slots, self._poke)
        self._worker: Worker | None = None
        self._stop: StopKind | None = None
        self._wake: asyncio.Future[None] | None = None
        self._waiting: WaitCall | None = None
        self._budget = Deadline(lambda: self.request_stop(StopKind.DEADLINE))
        self._expiry = Deadline(lambda: self.request_stop(StopKind.EXPIRED))

    @property
    def record(self) -> RunRecord:
        return self._writer.record

    @property
    def replaying(self) -> bool:
        """Whether a recovery has not yet reached the end of the journal."""
        return self._replaying

    # What the service asks of a running supervisor.

    def request_stop(self, kind: StopKind) -> None:
        """Leave the loop soon. The first reason counts, but a shutdown outranks the others."""
        if self._stop is None or (kind is StopKind.SHUTDOWN and self._stop is not StopKind.DONE):
            self._stop = kind
        if self._worker is not None:
            self._worker.kill()
        self._poke()

    def record_cancel(self) -> None:
        """Commit that a cancel was asked for; a second request changes nothing."""
        if self.record.cancel_requested_at is None:
            self._writer.write(Event.RECORD_CANCEL, cancel_requested_at=now())

    def decide(self, decision: Decision) -> None:
        """Commit a decision together with what it means for the run, in one transaction (invariant 7).

        Raises Conflict where the run does not wait for exactly this step, or was decided already.
        """
        wait = self._waiting
        if wait is None or (wait.step_id, wait.attempt) != (decision.step_id, decision.attempt):
            raise Conflict(f"run {self.record.run_id} does not wait for {decision.step_id} now")
        if self._stop is not None:
            raise Conflict(f"run {self.record.run_id} is being stopped; nothing was decided")
        if decision.decision == "reject":
            notes = {wait.step_id: ChildNote(status=StepStatus.REJECTED, finished_at=now())}
            cause = rejected_cause(decision, wait.position)
            self._writer.finish(Event.REJECT, cause, notes=notes, decision=decision)
            self.request_stop(StopKind.DONE)
            return
        event = released(self.record.state)
        record = self._writer.next(event, cause=None, waiting=None, **resumed(self.record))
        self._writer.commit(decision=decision, record=record)
        self._waiting = None
        self._expiry.clear()
        self._budget.set(seconds_left(record, now()))
        self._calls.answer(wait, answer(decision, wait.artifact_version))
        self._poke()

    def admitted(self, child_thread: str, version: str) -> bool:
        """Whether an open child of this run with that thread was given the captured version."""
        return self._calls.given(child_thread, version)

    # The life of a run.

    async def run(self) -> None:
        """Drive the run until it is final, waits for a person's settlement, or is left to a later owner.

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
            self._budget.clear()
            self._expiry.clear()
            await self._close_worker()
            self._calls.close(keep_places=self.record.state is RunState.NEEDS_RECONCILIATION)

    async def _live(self) -> None:
        try:
            self._check_stop()
            if self._recovered is None:
                self._writer.write(Event.START, active_since=now())
            self._budget.set(seconds_left(self.record, now()))
            end = await self._drive()
        except Fault as fault:
            await self._fail(fault.cause)
        except ScriptRefused as error:
            await self._fail(Cause(error.code, str(error), error.line, error.column))
        except Diverged as error:
            await self._fail(divergence_cause(error.divergence))
        except Held as held:
            await self._hold(held)
        except _Stopped as stopped:
            await self._stopped(stopped.kind)
        except WorkerDied as death:
            await self._worker_died(death)
        else:
            await self._ended(end)

    async def _drive(self) -> EndFrame:
        self._check_stop()
        self._worker = worker = await Worker.start(
            script=self._script, args=self._args, limits=self.record.limits
        )
        self._check_stop()
        worker.exited.add_done_callback(lambda _: self._poke())
        if self._recovered is None:
            turn: Turn | None = await self._turn(worker.first_turn())
        else:
            turn = await self._replay(worker, *self._recovered)
        rounds = len(self._recovered[0]) // 2 if self._recovered is not None else 0
        while True:
            if turn is not None:
                wait = self._calls.take(turn, self._enter_wait)
                if turn.end is not None:
                    return turn.end
                if wait is not None:
                    self._begin_wait(wait)
            if not self._calls.open and self._waiting is None:
                raise Fault(
                    "stalled",
                    "the script waits for something that can never happen: no call is outstanding and it has "
                    "not returned. Look for a promise that nothing resolves",
                )
            await self._until_ready()
            rounds += 1
            if rounds > limits.ROUNDS:
                raise Fault("round_limit", f"the run took more than {limits.ROUNDS:,} rounds")
            turn = await self._turn(worker.give(self._calls.respond()))

    async def _turn(self, awaitable: Any) -> Turn:
        try:
            turn: Turn = await awaitable
        except WorkerDied:
            self._check_stop()
            raise
        self._check_stop()
        return turn

    async def _until_ready(self) -> None:
        """Return once at least one call has an outcome. Commits what becomes known in the meantime."""
        while True:
            self._check_stop()
            self._calls.collect()
            if self._calls.ready:
                self._count_time(people_only=False)
                return
            worker = self._worker
            if worker is not None and worker.exited.done():
                raise worker.exited.result()
            if self._calls.commit_known():
                continue
            self._count_time(people_only=self._calls.only_people)
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None

    def _count_time(self, *, people_only: bool) -> None:
        """Suspend the budget while the run does nothing but wait for people's answers, and let it go on after.

        The state stays running: the worker and every other call may go on at any moment.
        """
        if self._waiting is not None or people_only is (self.record.active_since is None):
            return
        changes = suspended(self.record) if people_only else resumed(self.record)
        record = msgspec.structs.replace(self.record, revision=self.record.revision + 1, **changes)
        self._writer.commit(record=record)
        if people_only:
            self._budget.clear()
        else:
            self._budget.set(seconds_left(record, now()))

    # Waits.

    def _enter_wait(self, wait: WaitCall) -> RunRecord:
        """The record that waits; its budget is suspended. A wait that was kept keeps its expiry."""
        record = self.record
        expires_at = now() + record.limits.pause_timeout_seconds * 1_000_000
        kept = record.waiting
        if kept is not None and kept.step_id == wait.step_id and kept.expires_at is not None:
            expires_at = kept.expires_at
        return self._writer.next(
            wait.event, cause=None, waiting=wait.waiting(expires_at), **suspended(record)
        )

    def _begin_wait(self, wait: WaitCall) -> None:
        self._waiting = wait
        self._budget.clear()
        expires_at = self.record.waiting.expires_at if self.record.waiting is not None else None
        if expires_at is not None:
            self._expiry.set((expires_at - now()) / 1e6)

    # Recovery.

    async def _replay(self, worker: Worker, frames: Sequence[Frame], marks: Sequence[Mark]) -> Turn | None:
        """Replay the journal, take up its open calls, and return what the script did beyond it."""
        try:
            end = await Replayer(worker, frames, self._calls.expand).run()
        except (WorkerDied, NotFound):
            self._check_stop()
            raise
        self._check_stop()
        if end.ending is Ending.LIMIT:
            raise Fault("replay_limit", "a limit of the worker was reached while the journal was replayed")
        steps = reduce_journal(self._script, frames, marks).view(self.record).steps
        asked = read_journal(self._calls.reader, frames)
        decisions = self._writer.store.decisions(self.record.run_id)
        for taken in take_up(end.unanswered, asked, steps, decisions):
            step = taken.step
            position = (step.line, step.column) if step and step.line and step.column else None
            if isinstance(taken.asked, WaitCall) and taken.outcome is None:
                wait = msgspec.structs.replace(taken.asked, position=position)
                self._writer.commit(record=self._enter_wait(wait))
                self._begin_wait(wait)
            else:
                self._calls.restore(taken, position)
        self._replaying = False
        return end.next_turn

    # Endings.

    async def _ended(self, end: EndFrame) -> None:
        if not end.ok:
            error = end.error or {}
            line, column = end.position if end.position is not None else (None, None)
            message = str(error.get("message"))
            if error.get("code") == "time_limit" and line is not None:
                message += f" It was last seen at line {line}: a call before, or where the function begins."
            cause = Cause(str(error.get("code")), message, line, column)
            await self._fail(cause, end.body, end.position)
            return
        if self._calls.open:
            names = self._calls.child_names
            await self._fail(Cause("unawaited_call", f"the script returned while {names} had no answer yet"))
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
        self._writer.finish(
            Event.COMPLETE, None, body=end.body, result=end.value, has_result=True, **suspended(self.record)
        )

    async def _fail(
        self, cause: Cause, body: bytes | None = None, position: tuple[int, int] | None = None
    ) -> None:
        await self._close_worker()
        notes, uncertain = await self._stop_children()
        if uncertain:
            self._finish(Event.UNCERTAIN, uncertain_cause(uncertain, cause), notes)
        else:
            self._writer.finish(
                Event.FAIL, cause, notes=notes, body=body, position=position, **suspended(self.record)
            )

    async def _stop_children(self) -> tuple[dict[str, ChildNote], list[Child]]:
        """Interrupt and observe every child that may run, those of the journal too that no replay has reached."""
        if self._recovered is not None and self._replaying:
            self._calls.adopt(open_children(self.record, self._writer.store, *self._recovered))
        return await self._calls.stop()

    async def _hold(self, held: Held) -> None:
        """A child asks a human or its outcome is uncertain: siblings are interrupted, results are kept."""
        await self._close_worker()
        notes, uncertain = await self._stop_children()
        if uncertain:
            self._finish(Event.UNCERTAIN, uncertain_cause(uncertain, None), notes)
            return
        child = held.child
        line, column = child.position if child.position is not None else (None, None)
        cause = Cause("waiting_input", f"{child.step_id}: {held.outcome.message}", line, column)
        wait = Wait("input", child.step_id, child.attempt, None)
        self._finish(Event.CHILD_NEEDS_INPUT, cause, notes, waiting=wait)

    async def _stopped(self, kind: StopKind) -> None:
        if kind is StopKind.DONE:
            return
        if kind is StopKind.SHUTDOWN:
            did = "waited" if self.record.waiting is not None else "ran"
            await self._leave(
                Cause("shutdown", f"the workbench was closed while it {did}; it can be recovered")
            )
        elif kind is StopKind.DEADLINE:
            seconds = self.record.limits.timeout_seconds
            queued = self._calls.without_place
            why = f"; {queued} had found no place among other Agent calls" if queued else ""
            await self._fail(Cause("deadline", f"Execution deadline exceeded: {seconds} s are used up{why}"))
        elif kind is StopKind.EXPIRED and self.record.waiting is not None:
            wait = self.record.waiting
            notes = {wait.step_id: ChildNote(status=StepStatus.EXPIRED)}
            self._finish(Event.WAIT_EXPIRED, expired_cause(wait), notes)
        else:
            await self._close_worker()
            notes, uncertain = await self._stop_children()
            cause = Cause("cancelled", "a cancel was asked for; what Agents did is not undone")
            if uncertain:
                self._finish(Event.UNCERTAIN, uncertain_cause(uncertain, cause), notes)
            else:
                self._finish(Event.CANCEL, cause, notes)

    async def _worker_died(self, death: WorkerDied) -> None:
        limit = (WorkerDeath.CPU_LIMIT, WorkerDeath.TURN_LIMIT, WorkerDeath.PROTOCOL)
        if death.reason in limit or (self._replaying and self._died_before):
            # A worker that dies again in the replay of what it died of before will always die there.
            await self._fail(Cause(death.reason.value, death.message))
        else:
            await self._leave(Cause(WORKER_DIED, f"{death.message} The run can be recovered"))

    async def _leave(self, cause: Cause) -> None:
        """Leave the run to a later owner: children go on or not without us; what is known is committed."""
        notes = await self._calls.leave()
        self._finish(Event.OWNER_GONE, cause, notes)

    def _finish(self, event: Event, cause: Cause, notes: dict[str, ChildNote], **changes: Any) -> None:
        self._writer.finish(event, cause, notes=notes, **suspended(self.record), **changes)

    # Waking and stopping.

    def _poke(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _check_stop(self) -> None:
        if self._stop is not None:
            raise _Stopped(self._stop)

    async def _close_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.close()


def uncertain_cause(children: Sequence[Child], original: Cause | None) -> Cause:
    """Why a run needs reconciliation, naming the steps and, where there is one, what it was stopping for."""
    first = children[0]
    names = ", ".join(child.step_id for child in children)
    why = first.outcome.message if first.outcome is not None else "its outcome is unknown"
    message = f"the outcome of {names} is uncertain: {why}. Look at the child run before anything is repeated"
    if original is not None:
        message += f". It was stopping because: {original.message}"
    line, column = first.position if first.position is not None else (None, None)
    return Cause("uncertain", message, line, column)


def divergence_cause(divergence: Divergence) -> Cause:
    """Why a run cannot go on: the script asks for something else than what is recorded."""
    what = "; ".join(item.path for item in divergence.differences[:3]) or "a frame too many or too few"
    return Cause(
        "diverged",
        f"the replay differs from the journal at frame {divergence.frame} ({what}); no new effect was started",
        divergence.line,
        divergence.column,
    )
