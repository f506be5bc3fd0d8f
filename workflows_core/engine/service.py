"""WorkflowService: the public face of the engine.

The host reaches it as ``app_store.get(WorkflowService)``. All methods run on the host's event loop, in the
engine's thread; what they change is committed before they return. Subscribers are called in that thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from extension_api import ExtensionRuntimeDeps
from extension_api.agent_runs import AgentRuns

from ..errors import (
    ConfigurationError,
    Conflict,
    Deleted,
    NotFound,
    QuotaReached,
    StoreError,
    StoreFailed,
)
from ..journal.frames import FrameKind, JournalWriter, start_body
from ..journal.view import reduce_journal, summary
from ..limits import LISTED_RUNS, EngineConfig
from ..model import (
    DELETABLE,
    Cause,
    Event,
    RunRecord,
    RunState,
    RunSummary,
    RunView,
    StepStatus,
    new_id,
    now,
    transition,
)
from ..store.base import Tombstone, WorkflowStore
from ..store.reader import orphaned
from ..store.sqlite import SqliteStore
from ..worker.process import runtime_signature
from .children import Slots
from .inbox import Inbox
from .observing import cancel_without_owner
from .requests import LaunchOutcome, LaunchRequest, Outcome, prepare, same_owner
from .supervisor import StopKind, Supervisor

logger = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 15.0
RETRY_SECONDS: Final = 1.0


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
        self.storage_path: Path | None = None

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
            deps.app_store.set(self)
        self._spawn(Inbox(self, store, self._session).watch(self._inbox_seconds))

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
        """Runs of an owner that is gone become recoverable, with the cause in words."""
        for record in store.unfinished():
            self._write_orphan(
                store, record, orphaned(record, store.owner_pid_of(record.owner_incarnation)).cause
            )
        for _ in range(store.count_uncertain_places()):
            self._slots.try_take()

    def _write_orphan(self, store: WorkflowStore, record: RunRecord, cause: Cause | None) -> None:
        changed = msgspec.structs.replace(
            record,
            state=transition(record.state, Event.OWNER_GONE),
            revision=record.revision + 1,
            cause=cause,
            since=now(),
        )
        store.commit(record.run_id, record=changed)

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
        supervisor = Supervisor(
            record=record,
            script=prepared.script,
            args=prepared.args_json,
            journal=journal,
            store=store,
            runs=runs,
            slots=self._slots,
            changed=self._changed,
        )
        self._supervisors[record.run_id] = supervisor
        task = asyncio.get_running_loop().create_task(self._supervise(supervisor))
        self._tasks[record.run_id] = task
        self._changed(record.run_id)
        return LaunchOutcome(record.run_id, existing=False)

    def _check_quota(self, store: WorkflowStore, owner: str) -> None:
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
        if store.count_retained(owner) >= limit.retained_runs:
            raise QuotaReached(
                f"{limit.retained_runs} runs are kept, which is the limit retained_runs. "
                "Delete old ones: workbench delete --older-than 30d"
            )

    async def _supervise(self, supervisor: Supervisor) -> None:
        run_id = supervisor.record.run_id
        try:
            await supervisor.run()
        except StoreError as error:
            logger.error("run %s stopped: %s", run_id, error)
            self._abandoned[run_id] = Cause(
                error.code, f"it was stopped because the store refused a write: {error}"
            )
            self._spawn(self._retry_abandoned(run_id))
        except Exception:
            logger.exception("the supervisor of %s failed", run_id)
        finally:
            self._supervisors.pop(run_id, None)
            self._tasks.pop(run_id, None)
            self._changed(run_id)

    async def _retry_abandoned(self, run_id: str) -> None:
        """Write the state of a run whose store failed as soon as the store takes writes again."""
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
            self.store.commit(run_id, record=record)
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
            await cancel_without_owner(self.store, run_id, runs)
        except Conflict:
            logger.info("the cancel of %s was overtaken by another change", run_id)
        except Exception as error:  # noqa: BLE001 - a background failure is logged by its type
            logger.error("the cancel of %s failed with %s", run_id, type(error).__name__)
        finally:
            self._changed(run_id)

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
        return reduce_journal(script, *self.store.journal(run_id)).view(record)

    async def list_runs(self, runs: AgentRuns) -> list[RunSummary]:
        """The caller's latest runs, newest first, 20 at most."""
        return [summary(record) for record in self.store.latest(runs.principal.user_id, LISTED_RUNS)]

    def live(self) -> list[RunRecord]:
        """The records that this service supervises now."""
        return [supervisor.record for supervisor in self._supervisors.values()]

    @property
    def busy(self) -> bool:
        """Whether anything goes on that ends by itself: a supervised run or a cancel being finished."""
        return bool(self._supervisors) or len(self._background) > 1

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
