"""WorkflowService: the public face of the engine.

The host reaches it as ``app_store.get(WorkflowService)``. All methods run on the host's event loop, in the
engine's thread; what they change is committed before they return. Subscribers are called in that thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from extension_api import ExtensionRuntimeDeps
from extension_api.agent_runs import AgentRuns

from .. import clock
from ..errors import (
    ConfigurationError,
    Conflict,
    Deleted,
    QuotaReached,
    StoreError,
    StoreFailed,
    UsageError,
)
from ..journal.frames import (
    ChildNote,
    FrameKind,
    JournalWriter,
    start_body,
)
from ..model import (
    Event,
    RunRecord,
    RunState,
    StepStatus,
    new_id,
    now,
)
from ..store.base import Tombstone, WorkflowStore
from ..store.queries import orphaned
from ..worker.process import runtime_signature
from . import definitions
from .commands import RunCommands
from .host_controls import HostControls
from .inbox import Inbox
from .requests import LaunchOutcome, LaunchRequest, prepare
from .supervisor import StopKind, Supervisor
from .waits import (
    expired_cause,
)
from .writer import RunWriter

logger = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 15.0
EXPIRY_SECONDS: Final = 5.0


class WorkflowService(RunCommands):
    """Launches, supervises and inspects runs on one store."""

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
        if deps.app_store is not None:
            self.host_controls = deps.app_store.get(HostControls)
        only_look = self.host_controls is not None and self.host_controls.only_look
        try:
            clock.start(store.latest_time())
            if not only_look:
                self._settle_orphans(store)
        except BaseException:
            store.close()
            raise
        if deps.app_store is not None:
            deps.app_store.set(self)
        self._standing = 0
        if only_look:
            return
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

    def _check_quota(self, store: WorkflowStore, owner: str) -> None:
        limit = self.config.limits
        self._check_active(store, owner)
        if store.count_retained(owner) >= limit.retained_runs:
            raise QuotaReached(
                f"{limit.retained_runs} runs are kept, which is the limit retained_runs. "
                "Delete old ones: workbench delete --older-than 30d"
            )


def _earlier(earlier: RunRecord | Tombstone, request_id: str, identity_hash: str) -> LaunchOutcome:
    if isinstance(earlier, Tombstone):
        raise Deleted(f"request {request_id} launched run {earlier.run_id}, which was deleted")
    if earlier.identity_hash != identity_hash:
        raise Conflict(
            f"request {request_id} launched run {earlier.run_id} with another script, args, agents or limits. "
            "Use a new request id"
        )
    return LaunchOutcome(earlier.run_id, existing=True)
