"""Child runs: admission, observation, interruption. The host's record comes first, always.

A child whose answer is due at once is final when ``admit`` returns. Others are live: a timer (a stub with a
delay that nobody observes) or a task (see ``driver``) finishes them. A durable child of an earlier process is
observed the same way; a child that ran inside an earlier process died with it and becomes interrupted.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from extension_api.agent_runs import (
    AgentRunRefused,
    AgentRunRequest,
    AgentRunStatus,
    AgentRunUncertain,
    AgentRunView,
)
from extension_api.provenance import PROVENANCE_KEYS
from workflows_core.errors import StoreError
from workflows_core.model import new_id, now

from ..agents.base import Answer, Backend, Backends, BackendUnavailable, Call, ChildRef, FileRefused
from ..agents.names import STUB
from .calls import CallsLog
from .config import no_real_agent
from .driver import Driver, Live
from .events import INTERRUPTED, LOST, closing_events, opening_events
from .generations import Generation, Generations
from .revision import Configuration
from .store import ChildRow, CommitUncertain, Event, HostStore, encode_answer, run_id_of, to_json

_THREAD: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY_LENGTH: Final = 300
_SECOND: Final = 1_000_000
_DRAIN_STEP_SECONDS: Final = 0.02


class _Target(NamedTuple):
    backend: Backend
    settings: Mapping[str, Any]


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
        self._configuration = configuration
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
        target = self._target(request.agent_ref, request.options)
        child_input, text = _trusted(request.input)
        metadata = request.metadata
        call = Call(
            child_run_id=run_id_of(request.idempotency_key),
            agent_ref=request.agent_ref,
            thread_id=request.thread_id,
            input=child_input,
            run_id=metadata.get("workflow_run_id", ""),
            step_id=metadata.get("step_id", ""),
            attempt=_attempt(metadata.get("attempt")),
            options=request.options,
            settings=target.settings,
        )
        at = self._clock()
        try:
            started = target.backend.start(call, self._store.count_calls, at)
        except BackendUnavailable as error:
            raise AgentRunRefused("backend_unavailable", str(error)) from None
        generation = self._generations.of(call.run_id)
        observed = generation.snapshot.observes_runs
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
        mode = _mode(options)
        if mode == "stub":
            try:
                self._backends.get(STUB).describe("", {}, options)
            except BackendUnavailable as error:
                raise AgentRunRefused("bad_request", str(error)) from None
            return
        problem = no_real_agent(self._configuration.current, self._backends)
        if problem is not None:
            raise AgentRunRefused("backend_unavailable", problem)

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
        if not recorded:
            raise AgentRunRefused("thread_busy", f"thread {row.thread_id} has an active run")

    def _target(self, agent_ref: str, options: Mapping[str, Any]) -> _Target:
        """Backend and settings of an agent under these launch options. Raises AgentRunRefused in words."""
        agent = self._configuration.current.agents.get(agent_ref)
        if agent is None:
            raise AgentRunRefused("unknown_agent", f"there is no agent {agent_ref!r} in this workspace")
        mode = _mode(options)
        if mode == "real" and agent.backend == STUB:
            raise AgentRunRefused(
                "backend_unavailable",
                f"the agent {agent_ref} has only the stub backend, so it cannot be called for real",
            )
        try:
            backend = self._backends.get(STUB if mode == "stub" else agent.backend)
        except BackendUnavailable as error:
            raise AgentRunRefused("backend_unavailable", f"{agent_ref}: {error}") from None
        return _Target(backend, {} if mode == "stub" else agent.settings)

    # Observation

    def find(self, key: str, owner: str) -> AgentRunView | None:
        row = self._store.child(run_id_of(key))
        return None if row is None or row.owner != owner else self._settled(row).view()

    async def observe(self, run_id: str, owner: str) -> AgentRunView:
        """Wait until the execution is final. Being cancelled ends the waiting only."""
        live = self.live.get(run_id)
        if live is None or live.row.owner != owner:
            row = self._owned(run_id, owner)
            if not row.active:
                return row.view()
            live = self._resume(row)
        return await asyncio.shield(live.done)

    async def interrupt(self, run_id: str, owner: str) -> AgentRunView:
        """Ask the execution to stop and return what is known afterwards."""
        row = self._owned(run_id, owner)
        if not row.active:
            return row.view()
        live = self.live.get(run_id) or self._resume(row)
        if live.task is None:
            self._settle(live, INTERRUPTED)
        else:
            target = self._stored_target(row)
            if target is not None and row.durable:
                await target.backend.interrupt(_reference(row, target.settings))
            self._driver.interrupt(live)
        return await asyncio.shield(live.done)

    async def read_file(self, run_id: str, owner: str, path: str, *, max_bytes: int) -> tuple[bytes, str]:
        row = self._owned(run_id, owner)
        target = self._stored_target(row)
        if target is None:
            raise AgentRunRefused("backend_unavailable", f"the backend {row.backend} is not available")
        files = None if row.files is None else json.loads(row.files)
        try:
            return await target.backend.read_file(
                _reference(row, target.settings), files, path, max_bytes=max_bytes
            )
        except FileRefused as error:
            raise AgentRunRefused(error.code, error.message) from None

    def delete_of(self, workflow_run: str, owner: str) -> int:
        """Delete what the host keeps of a workflow run's child runs, active ones excepted."""
        return self._store.delete_children(workflow_run, owner)

    def sweep(self) -> int:
        """Mark what ran inside an earlier process as interrupted; how many there were.

        To be called once this process owns the workspace.
        """
        lost = self._store.lost_children(self.incarnation)
        for row in lost:
            self._settled(row)
        return len(lost)

    def _owned(self, run_id: str, owner: str) -> ChildRow:
        row = self._store.child(run_id)
        if row is None or row.owner != owner:
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
        if generation.snapshot.observes_runs or answer is None:
            target = self._stored_target(row)
            if target is None:
                raise AgentRunUncertain(
                    f"the backend {row.backend} of child run {row.run_id} is not available"
                )
            live = self._driver.resume(row, target, answer, generation)
        return self._watch(row, answer, live)

    def _stored_target(self, row: ChildRow) -> _Target | None:
        if row.backend not in self._backends:
            return None
        agent = self._configuration.current.agents.get(row.agent_ref)
        stub = row.backend == STUB or agent is None
        return _Target(self._backends.get(row.backend), {} if stub or agent is None else agent.settings)

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


def _reference(row: ChildRow, settings: Mapping[str, Any]) -> ChildRef:
    return ChildRef(row.run_id, row.thread_id, row.agent_ref, settings)


def _mode(options: Mapping[str, Any]) -> str:
    mode = options.get("agents")
    if mode not in ("stub", "real"):
        raise AgentRunRefused("bad_request", "the launch options name neither stub nor real agents")
    return str(mode)


def _attempt(text: str | None) -> int:
    try:
        return int(text or 1)
    except ValueError:
        raise AgentRunRefused("bad_request", "metadata.attempt must be a whole number") from None


def _trusted(child_input: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The input without the provenance keys, which belong to the host, and its JSON text."""
    try:
        text = to_json(child_input)
        if '"deerflow_' in text:
            child_input = _strip(child_input)
            text = to_json(child_input)
    except (TypeError, ValueError, RecursionError) as error:
        raise AgentRunRefused("bad_request", f"the input is not JSON ({type(error).__name__})") from None
    return child_input, text


def _strip(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _strip(part) for key, part in value.items() if key not in PROVENANCE_KEYS}
    if isinstance(value, list | tuple):
        return [_strip(part) for part in value]
    return value
