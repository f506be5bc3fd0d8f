"""Child runs: admission, observation, interruption. The host's record comes first, always.

A child whose answer is due at once is final when ``admit`` returns. Others are live: a timer (a stub with a
delay that nobody observes) or a task (see ``driver``) finishes them. A durable child of an earlier process is
observed the same way; a child that ran inside an earlier process died with it and becomes interrupted.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from extension_api.agent_runs import (
    AgentRunRefused,
    AgentRunRequest,
    AgentRunStatus,
    AgentRunUncertain,
    AgentRunView,
)
from workflows_core.errors import StoreError
from workflows_core.model import new_id, now

from ..agents.base import Answer, Backends, BackendUnavailable, Call, FileRefused, KeepsOrder
from ..agents.names import STUB
from .asked import attempt_of, trusted
from .calls import CallsLog
from .driver import Driver, Live, reference
from .events import INTERRUPTED, LOST, SUPERSEDED, closing_events, opening_events
from .generations import Generation, Generations
from .revision import Configuration
from .store import ChildRow, CommitUncertain, Event, HostStore, encode_answer, run_id_of
from .targets import Targets

_THREAD: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY_LENGTH: Final = 300
_SECOND: Final = 1_000_000
_DRAIN_STEP_SECONDS: Final = 0.02
#: How long a backend may take to say what became of an execution whose end was not known.
_LOOK_SECONDS: Final = 10.0


class ChildRuns:
    """All child runs of one host. Use from the host's loop."""

    def __init__(
        self,
        *,
        store: HostStore,
        backends: Backends,
        configuration: Configuration,
        generations: Generations,
        calls: CallsLog,
        clock: Callable[[], int] = now,
    ) -> None:
        self.incarnation = new_id("host")
        self.live: dict[str, Live] = {}
        self._store = store
        self._backends = backends
        self._targets = Targets(backends, configuration)
        self._generations = generations
        self._calls = calls
        self._clock = clock
        self._driver = Driver(store, clock, self._forget)
        #: Called whenever a live child has ended.
        self.ended: Callable[[], None] | None = None

    # Admission

    def admit(self, request: AgentRunRequest, owner: str) -> AgentRunView:
        """Record one execution and start it; the same key returns the same execution.

        Raises AgentRunRefused where nothing was started, AgentRunUncertain where the disk leaves it open.
        """
        known = self._known(request, owner)
        if known is not None:
            return known
        child_input, text = trusted(request.input)
        metadata = request.metadata
        step_id = metadata.get("step_id", "")
        target = self._targets.of_call(request.agent_ref, request.options, step_id, child_input)
        call = Call(
            child_run_id=run_id_of(request.idempotency_key),
            agent_ref=request.agent_ref,
            thread_id=request.thread_id,
            input=child_input,
            run_id=metadata.get("workflow_run_id", ""),
            step_id=step_id,
            attempt=attempt_of(metadata.get("attempt")),
            options=request.options,
            settings=target.settings,
        )
        at = self._clock()
        try:
            started = target.backend.start(call, self._store.count_calls, at)
        except BackendUnavailable as error:
            raise AgentRunRefused("backend_unavailable", str(error)) from None
        generation = self._generations.of(call.run_id)
        observed = generation.snapshot.observes_runs or started.turn is not None
        answer = started.answer
        final = answer is not None and not observed and started.due is not None and started.due <= at
        evidence = None
        if not observed:
            evidence = generation.assembler.assemble(
                request.agent_ref, target.backend, target.settings, request.options
            )
        row = ChildRow(
            run_id=call.child_run_id,
            thread_id=request.thread_id,
            agent_ref=request.agent_ref,
            owner=owner,
            workflow_run=call.run_id,
            step_id=call.step_id,
            attempt=call.attempt,
            backend=target.backend.name,
            badge=started.badge,
            durable=int(started.durable),
            incarnation=self.incarnation,
            status=answer.status.value if final and answer is not None else AgentRunStatus.RUNNING.value,
            answer=None if answer is None else encode_answer(answer),
            due=started.due,
            files=None if started.files is None else json.dumps(dict(started.files)),
            evidence=None if evidence is None else evidence.text,
            counted=started.counted,
            created_at=at,
            updated_at=at,
            finished_at=at if final else None,
            turn=None if started.turn is None else started.turn.number,
        )
        events = opening_events(call, text, at)
        if final and answer is not None:
            events += closing_events(answer, at)
        self._record(row, events, call)
        if final:
            return row.view(answer, None if evidence is None else evidence.value)
        live = None
        if observed or answer is None:
            live = self._driver.start(row, target, started, call, generation)
        self._watch(row, answer, live)
        return row.view()

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise AgentRunRefused in words where no launch with these options can run now."""
        self._targets.check(options)

    def _known(self, request: AgentRunRequest, owner: str) -> AgentRunView | None:
        if _THREAD.fullmatch(request.thread_id) is None:
            raise AgentRunRefused(
                "bad_request", "a thread id has 1 to 64 letters, digits, hyphens or underscores"
            )
        if not 0 < len(request.idempotency_key) <= _KEY_LENGTH:
            raise AgentRunRefused("bad_request", f"an idempotency key has 1 to {_KEY_LENGTH} characters")
        row = self._store.child(run_id_of(request.idempotency_key))
        if row is None:
            return None
        if (row.agent_ref, row.thread_id, row.owner) != (request.agent_ref, request.thread_id, owner):
            raise AgentRunRefused("conflict", "another execution was started with this idempotency key")
        return self._settled(row).view()

    def _record(self, row: ChildRow, events: list[Event], call: Call) -> None:
        def asked() -> None:
            if row.backend == STUB:
                self._calls.append(call)

        try:
            recorded = self._store.admit(row, events, asked)
        except CommitUncertain as error:
            raise AgentRunUncertain(error.message) from None
        except StoreError as error:
            raise AgentRunRefused(error.code, error.message) from None
        except OSError as error:
            raise AgentRunRefused(
                "stub_calls", f"the file in WORKBENCH_STUB_CALLS cannot be written: {error.strerror}"
            ) from None
        if not recorded and self._supersede(row):
            return self._record(row, events, call)
        if not recorded:
            raise AgentRunRefused("thread_busy", f"thread {row.thread_id} has an active run")
        return None

    def _supersede(self, row: ChildRow) -> bool:
        """End an earlier execution of the same step that nobody knows the end of; whether there was one.

        The same step comes with another key only after a person has attested that it did not run.
        """
        found = self._store.read(
            "SELECT run_id FROM child_runs WHERE thread_id = ? AND owner = ? AND workflow_run = ? AND step_id = ? "
            "AND attempt = ? AND run_id <> ? AND durable = 1 AND status IN ('pending', 'running')",
            row.thread_id,
            row.owner,
            row.workflow_run,
            row.step_id,
            row.attempt,
            row.run_id,
        )
        earlier = self._store.child(found[0][0]) if found else None
        if earlier is None:
            return False
        at = self._clock()
        self._store.finish(earlier, SUPERSEDED, at, closing_events(SUPERSEDED, at))
        live = self.live.get(earlier.run_id)
        if live is not None:
            self._driver.interrupt(live)
        return True

    # Observation

    # ``owner`` is whose child runs may be looked at; None stands for anybody's.

    def find(self, key: str, owner: str | None) -> AgentRunView | None:
        row = self._store.child(run_id_of(key))
        return None if row is None or owner not in (None, row.owner) else self._settled(row).view()

    async def look_up(self, key: str, owner: str | None) -> AgentRunView | None:
        """``find``, and of an execution elsewhere whose end was not known what its backend says of it by now.

        The record keeps what was known when it was made final.
        """
        view = self.find(key, owner)
        if view is None or view.status is not AgentRunStatus.UNKNOWN:
            return view
        row = self._owned(view.run_id, owner)
        target = self._targets.of_row(row) if row.durable and row.backend != STUB else None
        if target is None:
            return view
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                child = reference(row, target.settings, self._driver.stored_input(row))
                answer = await target.backend.observe(child, None)
        except (TimeoutError, BackendUnavailable):
            return view
        if answer.status is AgentRunStatus.UNKNOWN:
            return view
        return row._replace(status=answer.status.value).view(answer)

    async def observe(self, run_id: str, owner: str | None) -> AgentRunView:
        """Wait until the execution is final. Being cancelled ends the waiting only."""
        live = self.live.get(run_id)
        if live is None or owner not in (None, live.row.owner):
            row = self._owned(run_id, owner)
            if not row.active:
                return row.view()
            live = self._resume(row)
        return await asyncio.shield(live.done)

    def delivered(self, workflow_run: str, step_ids: Sequence[str]) -> None:
        """The engine has committed the answers of these steps."""
        for backend in self._backends.ordering:
            backend.delivered(workflow_run, step_ids)

    async def interrupt(self, run_id: str, owner: str | None) -> AgentRunView:
        """Ask the execution to stop and return what is known afterwards."""
        row = self._owned(run_id, owner)
        if not row.active:
            return row.view()
        live = self.live.get(run_id) or self._resume(row)
        if live.task is None:
            self._settle(live, INTERRUPTED)
        else:
            target = self._targets.of_row(row)
            tells = None
            if target is not None and row.durable:
                tells = await target.backend.interrupt(reference(row, target.settings))
            if not tells:
                self._driver.interrupt(live)
        return await asyncio.shield(live.done)

    async def read_file(
        self, run_id: str, owner: str | None, path: str, *, max_bytes: int
    ) -> tuple[bytes, str]:
        row = self._owned(run_id, owner)
        target = self._targets.of_row(row)
        if target is None:
            raise AgentRunRefused("backend_unavailable", _not_available(row))
        files = None if row.files is None else json.loads(row.files)
        try:
            return await target.backend.read_file(
                reference(row, target.settings), files, path, max_bytes=max_bytes
            )
        except FileRefused as error:
            raise AgentRunRefused(error.code, error.message) from None

    def delete_of(self, workflow_run: str, owner: str | None) -> int:
        """Delete what the host keeps of a workflow run's child runs, active ones excepted; how many."""
        deleted = self._store.delete_children(workflow_run, owner)
        for backend in self._backends.keeping():
            backend.discard(deleted)
        if deleted:
            self._store.give_back()
        return len(deleted)

    def sweep(self) -> int:
        """Mark what ran inside an earlier process as interrupted; how many there were.

        To be called once this process owns the workspace.
        """
        lost = self._store.lost_children(self.incarnation)
        for row in lost:
            self._settled(row)
        for backend in self._backends.keeping():
            backend.sweep(lambda run_id: self._store.child(run_id) is not None)
        return len(lost)

    def _owned(self, run_id: str, owner: str | None) -> ChildRow:
        row = self._store.child(run_id)
        if row is None or owner not in (None, row.owner):
            raise AgentRunRefused("not_found", f"there is no child run {run_id}")
        return self._settled(row)

    def _settled(self, row: ChildRow) -> ChildRow:
        """The row; a child that died with an earlier process is made interrupted first."""
        if not row.active or row.durable or row.incarnation == self.incarnation:
            return row
        at = self._clock()
        self._store.finish(row, LOST, at, closing_events(LOST, at))
        return self._store.child(row.run_id) or row

    def _resume(self, row: ChildRow) -> Live:
        """Go on observing a durable child that an earlier process started."""
        answer = row.decided()
        live = None
        generation = self._generations.of(row.workflow_run)
        if generation.snapshot.observes_runs or answer is None or row.turn is not None:
            target = self._targets.of_row(row)
            if target is None:
                raise AgentRunUncertain(_not_available(row))
            turn = None
            if row.turn is not None and isinstance(target.backend, KeepsOrder):
                still_open = self._store.open_turns(row.workflow_run)
                turn = target.backend.rejoin(row.workflow_run, row.step_id, row.turn, still_open)
            live = self._driver.resume(row, target, answer, generation, turn)
        return self._watch(row, answer, live)

    def _watch(self, row: ChildRow, answer: Answer | None, live: Live | None) -> Live:
        """Register what is live. Without a task of its own a timer ends it at its due time."""
        if live is not None:
            self.live[row.run_id] = live
            return live
        assert answer is not None and row.due is not None
        live = self.live[row.run_id] = Live(row, asyncio.get_running_loop().create_future())
        self._arm(live, answer, row.due)
        return live

    def _arm(self, live: Live, answer: Answer, due: int) -> None:
        left = due - self._clock()
        if left <= 0:
            self._settle(live, answer)
        else:
            live.timer = asyncio.get_running_loop().call_later(left / _SECOND, self._arm, live, answer, due)

    def _settle(self, live: Live, answer: Answer) -> None:
        """End a live child that has no task: record it and publish it."""
        if live.timer is not None:
            live.timer.cancel()
        at = self._clock()
        try:
            self._store.finish(live.row, answer, at, closing_events(answer, at))
        except StoreError as error:
            live.fail(AgentRunUncertain(error.message))
        else:
            live.publish(self._final(live.row, answer, at))
        self._forget(live)

    @staticmethod
    def _final(row: ChildRow, answer: Answer, at: int) -> AgentRunView:
        return row._replace(status=answer.status.value, finished_at=at).view(answer)

    def driven_by(self, generation: Generation) -> list[Live]:
        """The live children whose contributors are those of ``generation``."""
        return [live for live in self.live.values() if live.generation is generation]

    def _forget(self, live: Live) -> None:
        self.live.pop(live.row.run_id, None)
        if self.ended is not None:
            self.ended()

    # Shutdown

    async def drain(self, seconds: float) -> None:
        """Wait for child runs that would be lost or are being told to observers, not for durable ones."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (busy := [live.done for live in self.live.values() if live.busy]) and loop.time() < end:
            await asyncio.wait(busy, timeout=_DRAIN_STEP_SECONDS)

    async def close(self) -> None:
        """Stop watching. Durable children stay active in the record; what ran in here becomes interrupted."""
        lives = list(self.live.values())
        self.live.clear()
        for live in lives:
            if live.timer is not None:
                live.timer.cancel()
        await self._driver.close(live for live in lives if live.task is not None)
        for live in lives:
            live.done.cancel()
        await self._backends.close()


def _not_available(row: ChildRow) -> str:
    return (
        f"the agent {row.agent_ref} has no longer the backend {row.backend} that runs child run {row.run_id}; "
        "restore it in the configuration"
    )
