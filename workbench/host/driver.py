"""Drives one child run through its life, in the order that observers are promised.

Barrier of the thread → on_task_start → the agent is assembled → it runs, with the host's own model calls,
compaction and subagents → the record is final → on_task_stop → barrier released, end published.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from extension_api.agent_runs import AgentRunStatus, AgentRunUncertain, AgentRunView
from extension_api.compaction import CompactionEvent
from extension_api.hashing import canonical_hash
from extension_api.lifecycle import TaskInfo, TaskOutcome
from extension_api.middleware import AgentScope
from extension_api.observers import SystemModelRequest, SystemOperationKind
from extension_api.state import ExtensionData
from workflows_core.errors import StoreError
from workflows_core.model import new_id

from ..agents.base import (
    Answer,
    Backend,
    BackendUnavailable,
    Call,
    ChildRef,
    Compaction,
    Started,
    Subagent,
    SystemCall,
    Turn,
)
from ..agents.names import MANUAL
from .events import INTERRUPTED, LOST, closing_events
from .store import ChildRow, HostStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .generations import Generation
    from .notifications import Notifier

logger = logging.getLogger(__name__)

_SECOND: Final = 1_000_000
_CLOSE_SECONDS: Final = 5.0


class SystemModelError(RuntimeError):
    """A model call of the host's own failed, as its stub entry says."""


class Target(Protocol):
    """Where an agent runs."""

    @property
    def backend(self) -> Backend: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...


class Live:
    """A child run that is not final yet. ``done`` gives its final view to whoever observes it."""

    def __init__(
        self, row: ChildRow, done: asyncio.Future[AgentRunView], generation: Generation | None = None
    ) -> None:
        self.row = row
        self.done = done
        #: Whose contributors are told of it; None where nobody is.
        self.generation = generation
        self.timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        self.work: asyncio.Task[Answer] | None = None
        self.interrupted = False
        self.waiting = False

    @property
    def busy(self) -> bool:
        """Whether the end of this process would lose something: it runs in here, or observers are being told.

        A question to a person is lost as well, but a few seconds more would not bring its answer.
        """
        stays = self.row.durable or self.row.backend == MANUAL
        return self.task is not None and not (self.waiting and stays)

    def publish(self, view: AgentRunView) -> None:
        if not self.done.done():
            self.done.set_result(view)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # nobody may be observing; that is not an error of its own


class _Barrier:
    """One at a time on a thread, until the end of a run has been told to everybody."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class Driver:
    """Runs the tasks of one host's child runs."""

    def __init__(
        self,
        store: HostStore,
        clock: Callable[[], int],
        forget: Callable[[Live], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._forget = forget
        self._barriers: dict[str, _Barrier] = {}

    def start(
        self, row: ChildRow, target: Target, started: Started, call: Call, generation: Generation
    ) -> Live:
        """Drive a child that was just admitted."""
        return self._spawn(row, target, started, call, generation)

    def resume(
        self,
        row: ChildRow,
        target: Target,
        answer: Answer | None,
        generation: Generation,
        turn: Turn | None,
    ) -> Live:
        """Drive a durable child of an earlier process. What it did before is not told again."""
        started = Started(badge=row.badge, durable=bool(row.durable), answer=answer, due=row.due, turn=turn)
        return self._spawn(row, target, started, None, generation)

    def interrupt(self, live: Live) -> None:
        """Stop the work of a live child; its end is recorded, told and published as always."""
        live.interrupted = True
        if live.work is not None:
            live.work.cancel()

    async def close(self, lives: Iterable[Live]) -> None:
        tasks = [live.task for live in lives if live.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)

    def _spawn(
        self, row: ChildRow, target: Target, started: Started, call: Call | None, generation: Generation
    ) -> Live:
        loop = asyncio.get_running_loop()
        live = Live(row, loop.create_future(), generation)
        live.task = loop.create_task(self._drive(live, target, started, call, generation))
        return live

    async def _drive(
        self, live: Live, target: Target, started: Started, call: Call | None, generation: Generation
    ) -> None:
        row = live.row
        barrier = self._barriers.setdefault(row.thread_id, _Barrier())
        barrier.users += 1
        try:
            async with barrier.lock:
                view = await self._run(live, target, started, call, generation)
            live.publish(view)
        except StoreError as error:
            live.fail(AgentRunUncertain(error.message))
        except asyncio.CancelledError:
            if not started.durable:
                self._finish(live, LOST)
            live.done.cancel()
            raise
        except Exception as error:
            logger.exception("child run %s failed in the host", row.run_id)
            live.fail(AgentRunUncertain(f"the host failed with {type(error).__name__}"))
        finally:
            barrier.users -= 1
            if not barrier.users:
                self._barriers.pop(row.thread_id, None)
            self._forget(live)

    async def _run(
        self, live: Live, target: Target, started: Started, call: Call | None, generation: Generation
    ) -> AgentRunView:
        row = live.row
        if live.interrupted:  # before it started: no hook hears of it
            return self._finish(live, INTERRUPTED)
        snapshot = generation.snapshot
        info = TaskInfo(
            task_id=row.run_id,
            run_id=row.run_id,
            thread_id=row.thread_id,
            kind="lead",
            agent_name=row.agent_ref,
            resumed=call is None,
        )
        store = ExtensionData(row.run_id) if snapshot.needs_task_store else None
        if store is not None:
            await generation.notifier.task_start(store, info)
        try:
            if row.evidence is None and call is not None:
                evidence = generation.assembler.assemble(
                    row.agent_ref, target.backend, target.settings, call.options
                ).text
                self._store.attach_evidence(row.run_id, evidence)
                live.row = row._replace(evidence=evidence)
            answer = await self._answer(live, target, started, call, store, generation)
        except BackendUnavailable as error:
            answer = Answer(AgentRunStatus.UNKNOWN, error_code="backend", error_message=str(error))
        view = self._finish(live, answer)
        if store is not None:
            await generation.notifier.task_stop(store, info, outcome_of(answer.status))
        return view

    async def _answer(
        self,
        live: Live,
        target: Target,
        started: Started,
        call: Call | None,
        store: ExtensionData | None,
        generation: Generation,
    ) -> Answer:
        """Run the work in a task of its own, so that an interruption reaches the work and not its record."""
        if live.interrupted:
            return INTERRUPTED
        live.work = asyncio.get_running_loop().create_task(
            self._work(live, target, started, call, store, generation)
        )
        try:
            await asyncio.wait({live.work})
        except asyncio.CancelledError:
            live.work.cancel()
            await asyncio.wait({live.work})
            raise
        if live.work.cancelled():
            return INTERRUPTED
        return live.work.result()

    async def _work(
        self,
        live: Live,
        target: Target,
        started: Started,
        call: Call | None,
        store: ExtensionData | None,
        generation: Generation,
    ) -> Answer:
        if call is not None:
            model = target.backend.describe(call.agent_ref, target.settings, call.options).effective_model
            for system in started.system:
                await self._system_call(system, model, call, store, generation)
            if started.compact is not None and generation.snapshot.compaction_observers:
                generation.notifier.compacted(_compaction(started.compact))
            for subagent in started.subagents:
                await self._subagent(subagent, target, call, generation)
        live.waiting = True
        try:
            if started.answer is not None:
                await asyncio.sleep(max(0, (started.due or 0) - self._clock()) / _SECOND)
                if started.turn is not None:
                    await started.turn.wait()
                return started.answer
            given = call.input if call is not None else self.stored_input(live.row)
            return await target.backend.observe(reference(live.row, target.settings, given), call)
        finally:
            live.waiting = False

    def stored_input(self, row: ChildRow) -> Mapping[str, Any] | None:
        """What the execution was asked, from its first events."""
        for _, kind, _, content, _, _ in self._store.events(row.thread_id, row.run_id, 0, 2):
            if kind == "human_message" and content is not None:
                given: dict[str, Any] = json.loads(content)
                return given
        return None

    async def _system_call(
        self,
        system: SystemCall,
        model: str,
        call: Call,
        store: ExtensionData | None,
        generation: Generation,
    ) -> None:
        async def ask() -> Any:
            await asyncio.sleep(system.after)
            if system.fail is not None:
                raise SystemModelError(system.fail)
            return copy.deepcopy(system.reply)

        request = SystemModelRequest(messages=(copy.deepcopy(call.input.get("task")),), model_name=model)
        try:
            await generation.notifier.system_call(SystemOperationKind(system.kind), request, ask, store)
        except SystemModelError:
            pass  # a failed title or memory call does not fail the run

    async def _subagent(self, subagent: Subagent, target: Target, call: Call, generation: Generation) -> None:
        snapshot, notifier = generation.snapshot, generation.notifier
        info = TaskInfo(
            task_id=new_id("task"),
            run_id=call.child_run_id,
            thread_id=call.thread_id,
            kind="subagent",
            parent_task_id=call.child_run_id,
            agent_name=subagent.agent,
        )
        store = ExtensionData(subagent.tool_call or info.task_id) if snapshot.needs_task_store else None
        outcome = TaskOutcome.FAILED if subagent.fail is not None else TaskOutcome.COMPLETED
        try:
            if store is not None:
                await notifier.task_start(store, info)
            if snapshot.assembly_observers or snapshot.middlewares:
                generation.assembler.assemble(
                    subagent.agent, target.backend, target.settings, call.options, AgentScope.SUBAGENT
                )
            await asyncio.sleep(subagent.after)
        except asyncio.CancelledError:
            outcome = TaskOutcome.ABORTED
            raise
        finally:
            if store is not None:
                await _stop_subagent(notifier, store, info, outcome)

    def _finish(self, live: Live, answer: Answer) -> AgentRunView:
        at = self._clock()
        self._store.finish(live.row, answer, at, closing_events(answer, at))
        return live.row._replace(status=answer.status.value, finished_at=at).view(answer)


def reference(row: ChildRow, settings: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> ChildRef:
    """The recorded child run as backends are told of it; ``given`` is its whole input."""
    return ChildRef(
        row.run_id, row.thread_id, row.agent_ref, settings, given, row.workflow_run, row.step_id, row.attempt
    )


async def _stop_subagent(
    notifier: Notifier, store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
) -> None:
    """Tell the end also while the work is being cancelled: in a task that the cancellation does not reach."""
    stop = asyncio.ensure_future(notifier.task_stop(store, info, outcome))
    await asyncio.wait({stop})


def outcome_of(status: AgentRunStatus) -> TaskOutcome:
    """What a task's hooks are told: waiting for a person counts as completed, an interruption as aborted."""
    if status in (AgentRunStatus.SUCCESS, AgentRunStatus.WAITING_INPUT):
        return TaskOutcome.COMPLETED
    return TaskOutcome.ABORTED if status is AgentRunStatus.INTERRUPTED else TaskOutcome.FAILED


def _compaction(compact: Compaction) -> CompactionEvent:
    return CompactionEvent(
        transform_kind=compact.kind,
        transform_version=compact.version,
        source_content_hashes=tuple(canonical_hash(message) for message in compact.messages),
        output_content_hash=canonical_hash(compact.summary),
        compacted_message_count=len(compact.messages),
        kept_message_count=compact.kept,
    )
