"""What every part of the service shares: the store, the supervisors, who looks on.

``RunKeeper`` starts supervisors and watches over them; commands.py and service.py build on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from extension_api.agent_runs import AgentRuns

from ..errors import (
    Conflict,
    NotFound,
    QuotaReached,
    StoreError,
    StoreFailed,
)
from ..journal.frames import (
    JournalBroken,
    verify_journal,
)
from ..journal.view import damaged_cause, reduce_journal, summary
from ..limits import LISTED_RUNS, EngineConfig
from ..model import (
    RECORD_DAMAGED,
    Cause,
    Event,
    RunRecord,
    RunState,
    RunSummary,
    RunView,
    now,
    transition,
)
from ..store.base import Batch, WorkflowStore
from ..store.sqlite import SqliteStore
from .children import Slots
from .host_controls import HostControls
from .observing import cancel_without_owner, interrupt_unsettled
from .recovery import script_of
from .requests import same_owner
from .supervisor import Supervisor
from .writer import RunWriter

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.2
#: States in which a run may stay with a recorded cancel that nobody is finishing.
LEFT_OPEN: Final = (RunState.WAITING_INPUT, RunState.RECOVERABLE)


class RunKeeper:
    """Runs on one store with their supervisors."""

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

    @property
    def store(self) -> WorkflowStore:
        if self._store is None:
            raise StoreFailed("the workflow service has not been started")
        return self._store

    # Supervising.

    def _supervise(self, supervisor: Supervisor) -> None:
        run_id = supervisor.record.run_id
        self._supervisors[run_id] = supervisor
        self._tasks[run_id] = asyncio.get_running_loop().create_task(self._watch_over(supervisor))
        self._changed(run_id)

    def _check_active(self, store: WorkflowStore, owner: str) -> None:
        limit = self.config.limits
        places = self._slots.total
        if self._slots.used >= places and store.count_uncertain_places() >= places:
            raise QuotaReached(
                f"every place for an Agent call is taken ({places}, the limit global_concurrency) by calls whose "
                "outcome is uncertain, so no other can start. Settle one first: 'workbench runs' lists the runs "
                "that need reconciliation"
            )
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
        record = supervisor.record
        if record.cancel_requested_at is not None and record.state in LEFT_OPEN and not self._stopping:
            # The cancel came while the run was stopping for another reason.
            self._spawn(self._finish_cancel(run_id, supervisor.runs))

    def abandoned(self, run_id: str) -> Cause | None:
        """Why a run is not supervised although its record still says so: the store refuses writes."""
        return self._abandoned.get(run_id)

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

    async def _interrupt_unsettled(self, run_id: str, runs: AgentRuns) -> None:
        try:
            await interrupt_unsettled(self.store, run_id, runs)
        except Exception as error:  # noqa: BLE001 - a background failure is logged by its type
            logger.error("interrupting what runs of %s failed with %s", run_id, type(error).__name__)

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

    def _write_orphan(self, store: WorkflowStore, record: RunRecord, cause: Cause | None) -> None:
        try:
            verify_journal(*store.journal(record.run_id))
            usable = True
        except JournalBroken as error:
            usable = False
            cause = damaged_cause(str(error))
        if record.cause is not None and record.cause.code == RECORD_DAMAGED:
            usable, cause = False, record.cause
        changed = msgspec.structs.replace(
            record,
            state=transition(record.state, Event.OWNER_GONE if usable else Event.OWNER_GONE_UNUSABLE),
            revision=record.revision + 1,
            cause=cause,
            since=now(),
        )
        store.commit(record.run_id, Batch(record=changed))

    def _reopen(self, record: RunRecord) -> RunWriter:
        return RunWriter.reopened(record, self.store, self._changed, *self.store.journal(record.run_id))

    # Looking.

    async def inspect(self, run_id: str, runs: AgentRuns) -> RunView:
        """The whole view of one run of the caller."""
        record = self._owned_record(run_id, runs)
        script = script_of(record, self.store) or ""
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
