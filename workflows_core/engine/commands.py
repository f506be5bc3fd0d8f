"""Commands on runs that exist: cancel, resume, decide, recover, reconcile, delete; the library; captured files.

Each method says what it commits before it returns, and what goes on without the caller.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from typing import Any, Final

import msgspec

from extension_api.agent_runs import AgentRunRefused, AgentRuns

from .. import jsontext
from ..errors import (
    Conflict,
    Incompatible,
    NotFound,
    NotPermitted,
    QuotaReached,
    StoreError,
)
from ..journal.frames import (
    ChildNote,
)
from ..journal.view import reduce_journal
from ..model import (
    DELETABLE,
    Decision,
    Definition,
    Event,
    RunRecord,
    RunState,
    StepKind,
    StepStatus,
    now,
    transition,
)
from ..store.base import Batch
from ..store.queries import orphaned
from . import definitions
from .answering import control
from .budget import resumed, suspended
from .calls import changed_configuration
from .captures import chunk, intact
from .evidence import Evidence
from .keeper import RunKeeper
from .reconciliation import ReconcileRequest, evidence, reconcile
from .recovery import Preview, incompatibilities, preview, script_of
from .requests import Kept, Outcome, same_owner
from .supervisor import WORKER_DIED, StopKind, Supervisor
from .waits import (
    DecideRequest,
    check_waiting,
    deciding_session,
    earlier_decision,
    make_decision,
    make_resume,
    rejected_cause,
)
from .writer import RunWriter

logger = logging.getLogger(__name__)

REPLAY_WATCH_SECONDS: Final = 0.005
#: Steps of giving bytes back after one command: 1 GiB.
GIVE_BACK_STEPS: Final = 1_024


class RunCommands(RunKeeper):
    """What a session may do with its runs."""

    async def cancel(self, run_id: str, runs: AgentRuns) -> Outcome:
        """Record the cancel, then interrupt and observe the children; never rolls back what they did.

        Returns once the cancel is recorded. The rest goes on without the caller.
        """
        record = self._cancellable(run_id, runs)
        if record.state.final:
            return Outcome("applied", f"run {run_id} is already {record.state.value}", (run_id,))
        supervisor = self._supervisors.get(run_id)
        if supervisor is not None:
            supervisor.record_cancel()
            supervisor.request_stop(StopKind.CANCEL)
            return Outcome(
                "recorded", f"cancelling run {run_id}; its Agents are being interrupted", (run_id,)
            )
        if record.cancel_requested_at is None:
            record = msgspec.structs.replace(record, revision=record.revision + 1, cancel_requested_at=now())
            transition(record.state, Event.RECORD_CANCEL)
            self.store.commit(run_id, Batch(record=record))
            self._changed(run_id)
        if record.state is RunState.NEEDS_RECONCILIATION:
            self._spawn(self._interrupt_unsettled(run_id, runs))
            return Outcome(
                "recorded",
                f"the cancel of {run_id} is recorded; what still runs is interrupted, and the run ends once its "
                "uncertain steps are settled",
                (run_id,),
            )
        self._spawn(self._finish_cancel(run_id, runs))
        return Outcome("recorded", f"cancelling run {run_id}; its Agents are being observed", (run_id,))

    def _cancellable(self, run_id: str, runs: AgentRuns) -> RunRecord:
        """The caller's run. Where authentication is disabled there is one caller, whoever launched the run before."""
        if runs.session.mode != "disabled":
            return self._owned_record(run_id, runs)
        record = self.store.load(run_id)
        if record is None:
            raise NotFound(f"there is no run {run_id}")
        return record

    async def resume(self, run_id: str, step_id: str, attempt: int, runs: AgentRuns) -> Outcome:
        """Let a pause go on. A run whose owner is gone is recovered first; nothing is consumed before then."""
        record = self._owned_record(run_id, runs)
        resume = make_resume(run_id, step_id, attempt, runs)
        if earlier_decision(self.store.decisions(run_id), resume) is not None:
            return Outcome("applied", f"{step_id} was resumed before", (run_id,))
        check_waiting(record, step_id, attempt, StepKind.PAUSE)
        said = await self._apply_decision(record, resume, runs)
        return Outcome("applied", f"{step_id} is resumed{said}", (run_id,))

    async def decide(self, request: DecideRequest, runs: AgentRuns) -> Decision:
        """Record a decision on exactly one checkpoint, attempt and output, and return its receipt.

        Needs an interactive session. The same decision again returns the first receipt; a contradictory one
        raises Conflict. Approving a retained checkpoint recovers the run first.
        """
        deciding_session(runs)
        record = self._owned_record(request.run_id, runs)
        decision = make_decision(request, runs)
        earlier = earlier_decision(self.store.decisions(request.run_id), decision)
        if earlier is not None:
            return earlier
        check_waiting(record, request.step_id, request.attempt, StepKind.CHECKPOINT)
        view = await self.inspect(request.run_id, runs)
        step = next(item for item in view.steps if item.step_id == request.step_id)
        if step.artifact_version != request.sha256:
            raise Conflict(
                f"{request.step_id} is about version {str(step.artifact_version)[:7]}, not {request.sha256[:7]}; "
                "look at it again"
            )
        if record.state is RunState.RECOVERABLE and request.decision == "reject":
            _check_configuration(record, runs)
            notes = {request.step_id: ChildNote(status=StepStatus.REJECTED, finished_at=now())}
            writer = self._reopen(record)
            cause = rejected_cause(decision, (step.line, step.column) if step.line and step.column else None)
            writer.finish(Event.REJECT, cause, notes=notes, decision=decision)
            return decision
        await self._apply_decision(record, decision, runs)
        return decision

    async def _apply_decision(self, record: RunRecord, decision: Decision, runs: AgentRuns) -> str:
        """Give a decision to the run's supervisor, recovering the run first where nobody owns it."""
        run_id = record.run_id
        _check_configuration(record, runs)
        said = ""
        if record.state is RunState.RECOVERABLE:
            await self.recover(run_id, runs)
            said = "; its owner was gone, so it was recovered first"
        supervisor = self._supervisors.get(run_id)
        while supervisor is not None and supervisor.replaying:
            await asyncio.sleep(REPLAY_WATCH_SECONDS)
            supervisor = self._supervisors.get(run_id)
        earlier = earlier_decision(self.store.decisions(run_id), decision)
        if earlier is not None:
            return said
        if supervisor is None:
            after = self.store.load(run_id)
            what = "is gone" if after is None else f"is {after.state.value.replace('_', ' ')}"
            why = f": {after.cause.message}" if after is not None and after.cause is not None else ""
            raise Conflict(f"run {run_id} {what}{why}. Nothing was decided")
        supervisor.decide(decision)
        return said

    async def recover(self, run_id: str, runs: AgentRuns) -> Outcome:
        """Start a replacement worker that replays the journal and goes on. Explicit, with this session.

        A run that is supervised already is not touched: duplicate requests share one worker. Raises
        Incompatible with every reason in words.
        """
        record = self._owned_record(run_id, runs)
        if run_id in self._supervisors:
            return Outcome("applied", f"run {run_id} is running already", (run_id,))
        store = self.store
        frames, marks = store.journal(run_id)
        script = script_of(record, store)
        reasons = incompatibilities(record, frames, marks, script, self.config, runs)
        if reasons or script is None:
            raise Incompatible(f"run {run_id} cannot be recovered: {'; '.join(reasons)}")
        self._check_active(store, record.owner)
        writer = RunWriter.reopened(record, store, self._changed, frames, marks)
        # A run that is recovered to wait on spends no budget; one whose wait was answered goes on with the answer.
        budget = resumed(record) if record.waiting is None else suspended(record)
        writer.write(Event.RECOVER, cause=None, owner_incarnation=store.incarnation, **budget)
        args = jsontext.encode(jsontext.parse(frames[0].body, "frame 0")["args"])
        self._supervise(
            Supervisor(
                writer=writer,
                script=script,
                args=args,
                runs=runs,
                slots=self._slots,
                journal=(frames, marks),
                worker_died=record.cause is not None and record.cause.code == WORKER_DIED,
            )
        )
        return Outcome("recorded", f"run {run_id} is being recovered", (run_id,))

    async def preview(self, run_id: str, runs: AgentRuns) -> Preview:
        """What ``recover`` would do now, by a dry replay in a real worker. Changes nothing."""
        record = self._owned_record(run_id, runs)
        if record.state.owned and run_id not in self._supervisors:
            record = orphaned(record, self.store.owner_pid_of(record.owner_incarnation))
        found = await preview(record, self.store, self.config, runs)
        if found.compatible and run_id not in self._supervisors:
            try:
                self._check_active(self.store, record.owner)
            except QuotaReached as error:
                return msgspec.structs.replace(found, reasons=(*found.reasons, f"not now: {error}"))
        return found

    async def reconcile(self, request: ReconcileRequest, runs: AgentRuns) -> Outcome:
        """Record what a person attests of an uncertain step, and its effect, in one transaction."""
        record = self._owned_record(request.run_id, runs)
        outcome, released = await reconcile(
            record, request, self.store, runs, self._changed, reviewers=self.config.reviewers
        )
        if released:
            self._slots.give_back()
        return outcome

    async def evidence(self, run_id: str, step_id: str, runs: AgentRuns) -> Evidence:
        """What is known now of an uncertain step: what a person is to be shown before they attest."""
        record = self._owned_record(run_id, runs)
        return await evidence(record, step_id, self.store, runs, reviewers=self.config.reviewers)

    # The library and captured files.

    async def save(self, name: str, script: str, runs: AgentRuns) -> Definition:
        """Save a script as an immutable version of the caller."""
        return definitions.save(self.store, runs.principal.user_id, name, script)

    async def library(self, runs: AgentRuns) -> list[Definition]:
        return self.store.definitions(runs.principal.user_id)

    async def load_definition(self, name: str, version: str, runs: AgentRuns) -> tuple[Definition, str]:
        return definitions.load(self.store, runs.principal.user_id, name, version)

    async def read_admitted(
        self, child_thread: str, version: str, offset: int, runs: AgentRuns
    ) -> dict[str, Any]:
        """A chunk of a captured version for the child run that was given it, found by its thread."""
        for supervisor in self._supervisors.values():
            if supervisor.admitted(child_thread, version):
                return await self.read_artifact(supervisor.record.run_id, version, offset, runs)
        raise NotPermitted(f"this thread was not given version {version[:12]}")

    async def read_artifact(self, run_id: str, version: str, offset: int, runs: AgentRuns) -> dict[str, Any]:
        """A base64 chunk of at most 16 KiB of an approved captured version."""
        view = await self.inspect(run_id, runs)
        approved = {item.sha256 for item in view.receipts if item.decision == "approve"}
        if version not in approved:
            raise NotPermitted(f"version {version[:12]} has not been approved in run {run_id}")
        capture = self.store.capture(run_id, version)
        if capture is None:
            raise NotFound(f"run {run_id} has captured no version {version[:12]}")
        if not intact(capture):
            raise Conflict(f"the kept bytes of version {version[:7]} are not those that were approved")
        data, following = chunk(capture, offset)
        return {"data": base64.b64encode(data).decode("ascii"), "next_offset": following}

    async def delete(self, run_id: str, runs: AgentRuns) -> Outcome:
        """Delete a final or interrupted run without unsettled steps, and give its bytes back; a tombstone stays.

        Of a run that is deleted already what the host still keeps is deleted.
        """
        outcome = await self._delete(run_id, runs)
        await self._give_back()
        return outcome

    async def _delete(self, run_id: str, runs: AgentRuns) -> Outcome:
        gone = self.store.tombstone(run_id)
        if gone is None:
            record = self._owned_record(run_id, runs)
            self._check_deletable(record)
            self.store.delete_run(record, now(), control())
            self._changed(run_id)
        else:
            same_owner(gone.owner, runs.principal.user_id, runs.principal.is_admin)
        try:
            await runs.delete_runs(run_id)
        except AgentRunRefused as error:
            logger.warning("the host kept its child runs of %s: %s", run_id, error.message)
        return Outcome("applied", f"run {run_id} was deleted", (run_id,))

    def _check_deletable(self, record: RunRecord) -> None:
        if record.state not in DELETABLE:
            raise Conflict(
                f"run {record.run_id} is {record.state.value.replace('_', ' ')}; "
                "only a final or interrupted run can be deleted. Cancel it first"
            )
        unsettled = self._unsettled(record)
        if unsettled:
            raise Conflict(
                f"run {record.run_id} has steps whose outcome is not known: {', '.join(unsettled)}. "
                "Cancel the run, or settle them first"
            )

    def _unsettled(self, record: RunRecord) -> list[str]:
        """The steps whose outcome is not known; of a journal that cannot be read, which has no steps, none."""
        try:
            steps = reduce_journal("", *self.store.journal(record.run_id)).view(record).steps
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a damaged journal holds, its run can be deleted
            logger.warning("the journal of %s cannot be read: %s", record.run_id, type(error).__name__)
            return []
        # What was attested of a run that has ended is the last word about its step.
        settled = {
            (item.step_id, item.attempt)
            for item in (self.store.attestations(record.run_id) if record.state.final else ())
            if item.settles
        }
        return [
            step.step_id
            for step in steps
            if step.kind is StepKind.AGENT
            and step.status in (StepStatus.UNCERTAIN, StepStatus.RUNNING, StepStatus.WAITING)
            and (step.step_id, step.attempt) not in settled
        ]

    async def _give_back(self) -> None:
        """Give the bytes of what was deleted back to the file system, in steps. What is left, the next one does."""
        steps = 0
        try:
            while steps < GIVE_BACK_STEPS and self.store.give_back(rewrite=not self._supervisors):
                steps += 1
                await asyncio.sleep(0)
        except StoreError as error:
            logger.warning("the bytes of deleted runs were not given back: %s", error)

    async def delete_older_than(self, before: int, runs: AgentRuns) -> Outcome:
        """Delete the caller's final runs created before ``before`` (microseconds since the epoch).

        Those that cannot be deleted are kept, and the outcome says why. A control that an earlier owner began to
        apply is gone on with, and the outcome tells all of it.
        """
        asked = control()
        gone = [] if asked is None else self.store.deleted_by(asked)
        kept: list[Kept] = []
        for run_id in gone:
            await self._delete(run_id, runs)  # the host's part may be left to do
        for record in self.store.older_than(runs.principal.user_id, before):
            try:
                await self._delete(record.run_id, runs)
            except Conflict as error:
                kept.append(Kept(record.run_id, error.message))
                continue
            gone.append(record.run_id)
        await self._give_back()
        message = f"{len(gone)} {'run was' if len(gone) == 1 else 'runs were'} deleted"
        if kept:
            message += f", {len(kept)} {'was' if len(kept) == 1 else 'were'} kept"
        return Outcome("applied", message, tuple(gone), tuple(kept))


def _check_configuration(record: RunRecord, runs: AgentRuns) -> None:
    """Raise Conflict where a decision would be made under another configuration than the run's."""
    if runs.configuration_revision(record.options) != record.configuration_revision:
        raise Conflict(
            f"{changed_configuration(record, runs)}. Restore it, or go on in a new run: "
            f"workbench fork {record.run_id}"
        )
