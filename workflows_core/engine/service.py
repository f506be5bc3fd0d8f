"""WorkflowService: the public face of the engine.

The host reaches it as ``app_store.get(WorkflowService)``. All methods run on the host's event loop, in the
engine's thread; what they change is committed before they return. Subscribers are called in that thread.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from extension_api import ExtensionRuntimeDeps
from extension_api.agent_runs import AgentRunRefused, AgentRuns

from .. import jsontext
from ..errors import (
    ConfigurationError,
    Conflict,
    Deleted,
    Incompatible,
    NotFound,
    NotPermitted,
    QuotaReached,
    StoreError,
    StoreFailed,
    UsageError,
)
from ..journal.frames import (
    ChildNote,
    FrameKind,
    JournalBroken,
    JournalWriter,
    start_body,
    verify_chain,
)
from ..journal.view import reduce_journal, summary
from ..limits import LISTED_RUNS, EngineConfig
from ..model import (
    DELETABLE,
    Cause,
    Decision,
    Definition,
    Event,
    RunRecord,
    RunState,
    RunSummary,
    RunView,
    StepKind,
    StepStatus,
    new_id,
    now,
    transition,
)
from ..store.base import Batch, Tombstone, WorkflowStore
from ..store.queries import orphaned
from ..store.sqlite import SqliteStore
from ..worker.process import runtime_signature
from . import definitions
from .budget import resumed
from .calls import changed_configuration
from .captures import chunk
from .children import Slots
from .host_controls import HostControls
from .inbox import Inbox
from .observing import cancel_without_owner
from .reconciliation import ReconcileRequest, reconcile
from .recovery import Preview, incompatibilities, preview, script_of
from .requests import LaunchOutcome, LaunchRequest, Outcome, prepare, same_owner
from .supervisor import StopKind, Supervisor
from .waits import (
    DecideRequest,
    check_waiting,
    deciding_session,
    earlier_decision,
    expired_cause,
    make_decision,
    make_resume,
    rejected_cause,
)
from .writer import RunWriter

logger = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 15.0
RETRY_SECONDS: Final = 1.0
EXPIRY_SECONDS: Final = 5.0
REPLAY_WATCH_SECONDS: Final = 0.005


class WorkflowService:
    """Launches, supervises and inspects runs on one store."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        store: Callable[[Path], WorkflowStore] = SqliteStore,
        inbox_seconds: float = 0.05,
    ) -> None:
        self.config = config
        self._open_store = store
        self._inbox_seconds = inbox_seconds
        self._store: WorkflowStore | None = None
        self._slots = Slots(config.limits.global_concurrency)
        self._supervisors: dict[str, Supervisor] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._abandoned: dict[str, Cause] = {}
        self._subscribers: list[Callable[[str], None]] = []
        self._sessions: Callable[[Mapping[str, Any]], AgentRuns] | None = None
        self._stopping = False
        self._standing = 0
        self.storage_path: Path | None = None
        self.host_controls: HostControls | None = None

    # Life of the service.

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        """Open the store, take its lock, settle what an earlier owner left, and watch the inbox.

        Raises StoreInUse, StoreTooNew or StoreFailed.
        """
        path = Path(self.config.storage_path)
        if not path.is_absolute():
            if deps.workspace_root is None:
                raise ConfigurationError(
                    "config.storage_path is relative and the host has no workspace folder"
                )
            path = Path(deps.workspace_root) / path
        self.storage_path = path
        self._sessions = deps.agent_runs_for
        self._store = store = self._open_store(path)
        try:
            self._settle_orphans(store)
        except BaseException:
            store.close()
            raise
        if deps.app_store is not None:
            self.host_controls = deps.app_store.get(HostControls)
            deps.app_store.set(self)
        self._standing = 0
        for watcher in (Inbox(self, store, self._session).watch(self._inbox_seconds), self._watch_expiry()):
            self._spawn(watcher)
            self._standing += 1

    async def stop(self) -> None:
        """Leave every live run recoverable, then close the store. Compatible waits stay waits."""
        self._stopping = True
        for supervisor in self._supervisors.values():
            supervisor.request_stop(StopKind.SHUTDOWN)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks.values(), timeout=DRAIN_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        for background in self._background:
            background.cancel()
        if self._background:
            await asyncio.wait(self._background)
        if self._store is not None:
            self._store.close()

    @property
    def store(self) -> WorkflowStore:
        if self._store is None:
            raise StoreFailed("the workflow service has not been started")
        return self._store

    def _session(self, actor: Mapping[str, Any]) -> AgentRuns:
        if self._sessions is None:
            raise ConfigurationError("this host gives no sessions for controls of other processes")
        return self._sessions(actor)

    def _settle_orphans(self, store: WorkflowStore) -> None:
        """Runs of an owner that is gone become recoverable, or failed where their wait has expired."""
        for record in store.unfinished():
            pid = store.owner_pid_of(record.owner_incarnation)
            self._write_orphan(store, record, orphaned(record, pid).cause)
        self._fail_expired(store)
        for _ in range(store.count_uncertain_places()):
            self._slots.take()

    def _write_orphan(self, store: WorkflowStore, record: RunRecord, cause: Cause | None) -> None:
        frames, _ = store.journal(record.run_id)
        try:
            verify_chain(frames)
            usable = bool(frames)
        except JournalBroken as error:
            usable = False
            cause = Cause("journal_broken", f"its journal is damaged and cannot be replayed: {error}")
        changed = msgspec.structs.replace(
            record,
            state=transition(record.state, Event.OWNER_GONE if usable else Event.OWNER_GONE_UNUSABLE),
            revision=record.revision + 1,
            cause=cause,
            since=now(),
        )
        store.commit(record.run_id, Batch(record=changed))

    def _fail_expired(self, store: WorkflowStore) -> None:
        """Waits that ended while nobody owned them end the run as failed."""
        for record in store.expired_waits(now()):
            wait = record.waiting
            if wait is None or record.run_id in self._supervisors:
                continue
            decided = any(
                (item.step_id, item.attempt) == (wait.step_id, wait.attempt)
                for item in store.decisions(record.run_id)
            )
            if not decided:
                writer = RunWriter.reopened(record, store, self._changed, *store.journal(record.run_id))
                notes = {wait.step_id: ChildNote(status=StepStatus.EXPIRED)}
                writer.finish(Event.WAIT_EXPIRED, expired_cause(wait), notes=notes)

    async def _watch_expiry(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_SECONDS)
            try:
                self._fail_expired(self.store)
            except StoreError as error:
                logger.error("expired waits cannot be written: %s", error)

    # Launching.

    async def launch(self, request: LaunchRequest, runs: AgentRuns) -> LaunchOutcome:
        """Commit a run and publish its supervisor; the same request returns the same run.

        Raises UsageError and LimitExceeded for what cannot run, Conflict for a request id that was used for
        something else, Deleted for one whose run was deleted, QuotaReached at a limit of runs, and
        AgentRunRefused where the session may not launch. Nothing here awaits: a caller that goes away
        cannot leave a committed run without its supervisor.
        """
        if self._stopping:
            raise StoreFailed("the workbench is shutting down; launch again when it is up")
        store = self.store
        owner = runs.principal.user_id
        config = self.config
        if request.definition is not None:
            request = self._with_definition(request, owner)
        prepared = prepare(request, agents=config.agents, run_limits=config.limits)
        revision = runs.configuration_revision(request.options)
        earlier = store.by_request(owner, request.request_id)
        if earlier is not None:
            return _earlier(earlier, request.request_id, prepared.identity_hash)
        self._check_quota(store, owner)
        runs.check_options(request.options)
        at = now()
        record = RunRecord(
            run_id=new_id("wr"),
            owner=owner,
            request_id=request.request_id,
            name=request.name,
            state=RunState.QUEUED,
            revision=1,
            created_at=at,
            since=at,
            last_progress=at,
            script_hash=prepared.script_hash,
            args_hash=prepared.args_hash,
            identity_hash=prepared.identity_hash,
            configuration_revision=revision,
            runtime_signature=runtime_signature(),
            agents=config.agents,
            options=request.options,
            limits=config.limits,
            parent_run_id=request.parent_run_id,
            owner_incarnation=store.incarnation,
            definition=request.definition,
            configuration_components=dict(runs.configuration_components(request.options)),
        )
        journal = JournalWriter()
        start = journal.frame(
            FrameKind.START,
            start_body(
                script_hash=prepared.script_hash,
                args=prepared.args,
                limits=msgspec.structs.asdict(config.limits),
                agents=config.agents,
                options_hash=prepared.options_hash,
                runtime_signature=record.runtime_signature,
            ),
            at,
        )
        store.create_run(record, prepared.script, start)
        self._supervise(
            Supervisor(
                writer=RunWriter(record, journal, store, self._changed),
                script=prepared.script,
                args=prepared.args_json,
                runs=runs,
                slots=self._slots,
            )
        )
        return LaunchOutcome(record.run_id, existing=False)

    def _with_definition(self, request: LaunchRequest, owner: str) -> LaunchRequest:
        """The request with the script of its saved version and the version's whole name."""
        if request.script:
            raise UsageError("a launch names a saved version or holds a script, not both")
        name, _, version = str(request.definition).rpartition("@")
        definition, script = definitions.load(self.store, owner, name, version)
        return msgspec.structs.replace(
            request, script=script, definition=f"{definition.name}@{definition.version}"
        )

    def _supervise(self, supervisor: Supervisor) -> None:
        run_id = supervisor.record.run_id
        self._supervisors[run_id] = supervisor
        self._tasks[run_id] = asyncio.get_running_loop().create_task(self._watch_over(supervisor))
        self._changed(run_id)

    def _check_quota(self, store: WorkflowStore, owner: str) -> None:
        limit = self.config.limits
        self._check_active(store, owner)
        if store.count_retained(owner) >= limit.retained_runs:
            raise QuotaReached(
                f"{limit.retained_runs} runs are kept, which is the limit retained_runs. "
                "Delete old ones: workbench delete --older-than 30d"
            )

    def _check_active(self, store: WorkflowStore, owner: str) -> None:
        limit = self.config.limits
        if store.count_active() >= limit.max_workflows:
            raise QuotaReached(
                f"{limit.max_workflows} runs are active, which is the limit max_workflows. "
                "Wait for one to end, or cancel one"
            )
        if store.count_active(owner) >= limit.max_workflows_per_owner:
            raise QuotaReached(
                f"you have {limit.max_workflows_per_owner} active runs, which is the limit "
                "max_workflows_per_owner. Wait for one to end, or cancel one"
            )

    async def _watch_over(self, supervisor: Supervisor) -> None:
        run_id = supervisor.record.run_id
        try:
            await supervisor.run()
        except StoreError as error:
            logger.error("run %s stopped: %s", run_id, error)
            self._abandoned[run_id] = Cause(
                error.code, f"it was stopped because the store refused a write: {error}"
            )
            self._spawn(self._retry_abandoned(run_id))
        except Exception as error:
            logger.exception("the supervisor of %s failed", run_id)
            message = f"the engine failed with {type(error).__name__}; its log says where"
            self._abandoned[run_id] = Cause("internal_error", message)
            self._spawn(self._retry_abandoned(run_id))
        finally:
            self._supervisors.pop(run_id, None)
            self._tasks.pop(run_id, None)
            self._changed(run_id)

    async def _retry_abandoned(self, run_id: str) -> None:
        """Write the state of a run whose supervisor failed as soon as the store takes writes."""
        while run_id in self._abandoned:
            try:
                record = self.store.load(run_id)
                if record is not None and record.state.owned:
                    self._write_orphan(self.store, record, self._abandoned[run_id])
                del self._abandoned[run_id]
                self._changed(run_id)
            except StoreError:
                await asyncio.sleep(RETRY_SECONDS)

    # Commands on runs.

    async def cancel(self, run_id: str, runs: AgentRuns) -> Outcome:
        """Record the cancel, then interrupt and observe the children; never rolls back what they did.

        Returns once the cancel is recorded. The rest goes on without the caller.
        """
        record = self._owned_record(run_id, runs)
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
            return Outcome(
                "recorded",
                f"the cancel of {run_id} is recorded; it ends once its uncertain steps are settled",
                (run_id,),
            )
        self._spawn(self._finish_cancel(run_id, runs))
        return Outcome("recorded", f"cancelling run {run_id}; its Agents are being observed", (run_id,))

    async def _finish_cancel(self, run_id: str, runs: AgentRuns) -> None:
        try:
            for _ in range(await cancel_without_owner(self.store, run_id, runs, self._changed)):
                self._slots.take()
        except Conflict:
            logger.info("the cancel of %s was overtaken by another change", run_id)
        except Exception as error:  # noqa: BLE001 - a background failure is logged by its type
            logger.error("the cancel of %s failed with %s", run_id, type(error).__name__)
        finally:
            self._changed(run_id)

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
        if runs.configuration_revision(record.options) != record.configuration_revision:
            raise Conflict(f"{changed_configuration(record, runs)}. Restore it, or launch a new run")
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
        reasons = incompatibilities(record, frames, script, self.config, runs)
        if reasons or script is None:
            raise Incompatible(f"run {run_id} cannot be recovered: {'; '.join(reasons)}")
        self._check_active(store, record.owner)
        writer = RunWriter.reopened(record, store, self._changed, frames, marks)
        writer.write(Event.RECOVER, cause=None, owner_incarnation=store.incarnation, **resumed(record))
        args = jsontext.encode(jsontext.parse(frames[0].body, "frame 0")["args"])
        self._supervise(
            Supervisor(
                writer=writer,
                script=script,
                args=args,
                runs=runs,
                slots=self._slots,
                journal=(frames, marks),
            )
        )
        return Outcome("recorded", f"run {run_id} is being recovered", (run_id,))

    async def preview(self, run_id: str, runs: AgentRuns) -> Preview:
        """What ``recover`` would do now, by a dry replay in a real worker. Changes nothing."""
        return await preview(self._owned_record(run_id, runs), self.store, self.config, runs)

    async def reconcile(self, request: ReconcileRequest, runs: AgentRuns) -> Outcome:
        """Record what a person attests of an uncertain step, and its effect, in one transaction."""
        record = self._owned_record(request.run_id, runs)
        outcome, released = await reconcile(
            record, request, self.store, runs, self._changed, reviewers=self.config.reviewers
        )
        if released:
            self._slots.give_back()
        return msgspec.structs.replace(outcome, run_ids=(request.run_id,))

    def _reopen(self, record: RunRecord) -> RunWriter:
        return RunWriter.reopened(record, self.store, self._changed, *self.store.journal(record.run_id))

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
        data, following = chunk(capture, offset)
        return {"data": base64.b64encode(data).decode("ascii"), "next_offset": following}

    async def delete(self, run_id: str, runs: AgentRuns) -> Outcome:
        """Delete a final or interrupted run without unsettled steps; a tombstone stays."""
        record = self._owned_record(run_id, runs)
        if record.state not in DELETABLE:
            raise Conflict(
                f"run {run_id} is {record.state.value.replace('_', ' ')}; "
                "only a final or interrupted run can be deleted. Cancel it first"
            )
        view = await self.inspect(run_id, runs)
        unsettled = [step.step_id for step in view.steps if step.status is StepStatus.UNCERTAIN]
        if unsettled:
            raise Conflict(
                f"run {run_id} has steps whose outcome is uncertain: {', '.join(unsettled)}. Settle them first"
            )
        self.store.delete_run(record, now())
        self._changed(run_id)
        try:
            await runs.delete_runs(run_id)
        except AgentRunRefused as error:
            logger.warning("the host kept its child runs of %s: %s", run_id, error.message)
        return Outcome("applied", f"run {run_id} was deleted", (run_id,))

    async def delete_older_than(self, before: int, runs: AgentRuns) -> Outcome:
        """Delete the caller's final runs created before ``before`` (microseconds since the epoch)."""
        gone = []
        for record in self.store.older_than(runs.principal.user_id, before):
            try:
                await self.delete(record.run_id, runs)
            except Conflict as error:
                logger.info("kept %s: %s", record.run_id, error)
                continue
            gone.append(record.run_id)
        noun = "run was" if len(gone) == 1 else "runs were"
        return Outcome("applied", f"{len(gone)} {noun} deleted", tuple(gone))

    # Looking.

    async def inspect(self, run_id: str, runs: AgentRuns) -> RunView:
        """The whole view of one run of the caller."""
        record = self._owned_record(run_id, runs)
        script = self.store.script(record.script_hash)
        receipts = self.store.decisions(run_id)
        return reduce_journal(script, *self.store.journal(run_id)).view(record, receipts)

    async def list_runs(self, runs: AgentRuns) -> list[RunSummary]:
        """The caller's latest runs, newest first, 20 at most."""
        return [summary(record) for record in self.store.latest(runs.principal.user_id, LISTED_RUNS)]

    def live(self) -> list[RunRecord]:
        """The records that this service supervises now."""
        return [supervisor.record for supervisor in self._supervisors.values()]

    @property
    def busy(self) -> bool:
        """Whether anything goes on that ends by itself: a supervised run or a cancel being finished."""
        return bool(self._supervisors) or len(self._background) > self._standing

    def subscribe(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call ``callback(run_id)`` in the engine's thread after each change; returns how to stop that."""
        self._subscribers.append(callback)

        def unsubscribe() -> None:
            if callback in self._subscribers:
                self._subscribers.remove(callback)

        return unsubscribe

    def _changed(self, run_id: str) -> None:
        for callback in tuple(self._subscribers):
            callback(run_id)

    def _owned_record(self, run_id: str, runs: AgentRuns) -> RunRecord:
        record = self.store.load(run_id)
        if record is None:
            raise NotFound(f"there is no run {run_id}")
        same_owner(record.owner, runs.principal.user_id, runs.principal.is_admin)
        return record

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _earlier(earlier: RunRecord | Tombstone, request_id: str, identity_hash: str) -> LaunchOutcome:
    if isinstance(earlier, Tombstone):
        raise Deleted(f"request {request_id} launched run {earlier.run_id}, which was deleted")
    if earlier.identity_hash != identity_hash:
        raise Conflict(
            f"request {request_id} launched run {earlier.run_id} with another script, args, agents or limits. "
            "Use a new request id"
        )
    return LaunchOutcome(earlier.run_id, existing=True)
