"""The calls of one run that have no answer yet, and the two commits of a round.

``take`` commits a turn's request frames together with the admission intents they cause (invariants 1 and 3);
``respond`` commits whatever has an outcome as one response batch (invariant 2). Child ids that become known
well before their results are committed by ``commit_known``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from extension_api.agent_runs import AgentRunRefused, AgentRunRequest, AgentRuns, AgentRunView

from .. import jsontext, limits
from ..errors import UsageError
from ..journal.frames import ChildNote, Frame, FrameKind, Side, pack_results
from ..journal.references import Find, expander
from ..journal.replay import expanded
from ..model import Capture, RunRecord, StepKind, StepStatus, now
from ..worker.process import Turn
from .calls import CallReader, Fault, agent_request, changed_configuration
from .captures import CaptureCall, ReadCall, intact, read_reference
from .children import Child, Outcome, OutcomeKind, Phase, Slots
from .taking_up import TakenUp
from .waits import WaitCall
from .writer import RunWriter


class Held(Exception):
    """A child asks a human, or an outcome is uncertain: the run stops, whatever the script catches."""

    def __init__(self, child: Child, outcome: Outcome) -> None:
        super().__init__(outcome.code)
        self.child = child
        self.outcome = outcome


class Answer(msgspec.Struct, frozen=True):
    """The answer to one call, ready to be committed. ``reference`` stands for the value of a read."""

    call_id: int
    outcome: Outcome
    step_id: str | None = None
    kind: StepKind | None = None
    capture: Capture | None = None
    reference: Mapping[str, Any] | None = None

    def result(self) -> bytes:
        """The canonical result object of a response frame."""
        if self.reference is not None:
            return jsontext.encode({"artifact": self.reference, "id": self.call_id, "ok": True})
        outcome = self.outcome
        if outcome.kind is OutcomeKind.SUCCESS:
            return jsontext.encode({"id": self.call_id, "ok": True, "value": outcome.value})
        name = "AgentError" if self.kind is StepKind.AGENT else "WorkflowError"
        error = {"code": outcome.code, "message": outcome.message, "name": name}
        return jsontext.encode({"error": error, "id": self.call_id, "ok": False})


class OpenCalls:
    """Children, captures and answers of one run. ``poke`` wakes the supervisor."""

    def __init__(self, writer: RunWriter, runs: AgentRuns, slots: Slots, poke: Callable[[], None]) -> None:
        self.reader = CallReader(writer.record)
        self._writer = writer
        self._runs = runs
        self._slots = slots
        self._poke = poke
        #: Some hosts admit without waiting (AgentRuns, "admit_now").
        self._admit_at_once: Callable[[AgentRunRequest], AgentRunView] | None = getattr(
            runs, "admit_now", None
        )
        #: Some hosts want to know which answers are committed (AgentRuns, "delivered").
        self._tell: Callable[[str, Sequence[str]], None] | None = getattr(runs, "delivered", None)
        self._children: dict[int, Child] = {}
        self._captures: dict[int, CaptureCall] = {}
        #: What the next response says of captures that ran after a recovery only.
        self._late: dict[str, ChildNote] = {}
        self._queue: list[Child] = []
        #: Children of an earlier owner that the host has not answered for.
        self._rejoining: list[Child] = []
        self._active = 0
        self._concurrency = writer.record.limits.concurrency
        self._ready: list[Answer] = []
        #: Turns a committed response body into the one that JavaScript is given.
        self.expand = expander(self._find)

    @property
    def ready(self) -> bool:
        return bool(self._ready)

    @property
    def open(self) -> bool:
        """Whether any call waits for its answer, those waits for a person excepted."""
        return bool(self._children or self._captures or self._ready)

    @property
    def only_people(self) -> bool:
        """Whether nothing goes on but calls that people answer (badge ``manual``), and calls behind those."""
        started = [child for child in self._children.values() if child.phase is not Phase.QUEUED]
        if not started or self._captures or (self._queue and self._active < self._concurrency):
            return False
        return all(child.asks_person for child in started)

    @property
    def without_place(self) -> str:
        """The names of the calls that wait for a place."""
        return ", ".join(child.step_id for child in self._queue)

    @property
    def child_names(self) -> str:
        return ", ".join(child.step_id for child in self._children.values())

    def given(self, child_thread: str, version: str) -> bool:
        """Whether the open child with that thread was given the captured version."""
        return any(
            child.request.thread_id == child_thread
            and any(item["version"] == version for item in child.request.input["artifacts"])
            for child in self._children.values()
        )

    # Requests.

    def take(self, turn: Turn, enter_wait: Callable[[WaitCall], RunRecord]) -> WaitCall | None:
        """Validate a turn's calls and commit its request frames with everything that they cause.

        Returns the wait that the turn reaches; its record change is committed with the frames. Raises Fault
        and WorkerDied; then nothing of the turn was committed.
        """
        if not turn.requests:
            return None
        new: list[Child] = []
        captures: list[CaptureCall] = []
        ready: list[Answer] = []
        wait: WaitCall | None = None
        for request in turn.requests:
            for call, position in zip(request.calls, request.positions, strict=True):
                asked = self.reader.read(call, position)
                if isinstance(asked, Child):
                    new.append(asked)
                elif isinstance(asked, CaptureCall):
                    captures.append(asked)
                elif isinstance(asked, ReadCall):
                    ready.append(read_answer(asked, self._find))
                elif isinstance(asked, WaitCall):
                    wait = asked
                elif asked is not None:
                    kind = StepKind.AGENT if call["op"] == "agent" else None
                    ready.append(Answer(call["id"], asked, call.get("step_id"), kind))
        if wait is not None and (self.open or new or captures or ready):
            raise Fault(
                "not_alone", f"{wait.step_id} must be awaited alone, after every other call", wait.position
            )
        self._writer.check_journal(sum(len(request.body) for request in turn.requests))
        self._children.update({child.call_id: child for child in new})
        self._captures.update({call.call_id: call for call in captures})
        self._queue += new
        self._ready += ready
        goes_on = turn.end is None
        reserved = self._reserve() if goes_on else []
        record = enter_wait(wait) if wait is not None and goes_on else None
        self._writer.commit(
            frames=self._request_frames(turn, reserved), admissions=_intents(reserved), record=record
        )
        self._admit(reserved)
        if goes_on:
            self._start_captures(captures)
        return wait if goes_on else None

    def _request_frames(self, turn: Turn, reserved: Sequence[Child]) -> list[Frame]:
        at = now()
        last = len(turn.requests) - 1
        admitting = tuple(child.step_id for child in reserved)
        return [
            self._writer.frame(
                FrameKind.REQUEST,
                request.body,
                at,
                Side(positions=request.positions, admitting=admitting if index == last else ()),
            )
            for index, request in enumerate(turn.requests)
        ]

    def _reserve(self) -> list[Child]:
        """Take places for queued children, in order, after checking authority, allowlist and configuration.

        Their admission intents belong into the next commit; they are admitted after it.
        """
        reserved: list[Child] = []
        self._rejoining = [child for child in self._rejoining if child.phase is Phase.ADMITTING]
        if self._rejoining:
            return reserved  # Nothing new is started before it is known that nothing is uncertain.
        while self._queue and self._active < self._concurrency:
            child = self._queue[0]
            refusal = self._refusal(child)
            if refusal is not None:
                self._queue.pop(0)
                child.outcome, child.phase, child.answered = refusal, Phase.DONE, True
                self._ready.append(Answer(child.call_id, refusal, child.step_id, StepKind.AGENT))
                continue
            if not self._slots.try_take():
                self._slots.wait(self._poke)
                break
            self._queue.pop(0)
            self._hold_place(child)
            child.phase = Phase.ADMITTING
            reserved.append(child)
        return reserved

    def _refusal(self, child: Child) -> Outcome | None:
        """Why this child may not start now. A changed configuration stops the whole run."""
        record = self._writer.record
        try:
            if self._runs.configuration_revision(record.options) != record.configuration_revision:
                raise Fault(
                    "configuration_changed",
                    f"{changed_configuration(record, self._runs)}, so {child.step_id} was not started. "
                    f"What is recorded is kept; a new run goes on from it: workbench fork {record.run_id}",
                    child.position,
                )
            self._runs.authorize(child.agent_ref)
        except AgentRunRefused as error:
            return Outcome(OutcomeKind.FAILED, code=error.code, message=error.message)
        return None

    def _admit(self, reserved: Sequence[Child]) -> None:
        if not reserved:
            return
        loop = asyncio.get_running_loop()
        seconds = self._writer.record.limits.admission_timeout_seconds
        for child in reserved:
            if self._admit_at_once is None:
                child.task = loop.create_task(child.run(self._runs, seconds, self._poke))
            elif child.admit_now(self._admit_at_once):
                child.task = loop.create_task(child.observe(self._runs, self._poke))

    def _start_captures(self, captures: Sequence[CaptureCall]) -> None:
        loop = asyncio.get_running_loop()
        for call in captures:
            child_run_id = self.reader.completed[call.source_step_id][1] or ""
            call.task = loop.create_task(call.run(self._writer.run_id, child_run_id, self._runs, self._poke))

    def _find(self, version: str) -> Capture | None:
        return self._writer.store.capture(self._writer.run_id, version)

    # Responses.

    def collect(self) -> None:
        """Move what has finished to the batch, in the order of the calls. Raises Held and Fault."""
        for child in self._children.values():
            outcome = child.outcome
            if child.phase is not Phase.DONE or outcome is None or child.answered:
                continue
            child.answered = True
            if outcome.kind in (OutcomeKind.WAITING_INPUT, OutcomeKind.UNCERTAIN):
                raise Held(child, outcome)
            if outcome.kind is OutcomeKind.TOO_LARGE:
                raise Fault(outcome.code, f"{child.step_id}: {outcome.message}", child.position)
            self._give_back(child)
            self._ready.append(Answer(child.call_id, outcome, child.step_id, StepKind.AGENT))
        for call in list(self._captures.values()):
            if call.outcome is None:
                continue
            if call.outcome.kind is OutcomeKind.TOO_LARGE:
                raise Fault(call.outcome.code, f"{call.step_id}: {call.outcome.message}", call.position)
            self._check_captured(call)
            del self._captures[call.call_id]
            if call.late:
                self._late[call.step_id] = ChildNote(late=True)
            self._ready.append(
                Answer(call.call_id, call.outcome, call.step_id, StepKind.CAPTURE, call.capture)
            )

    def _check_captured(self, call: CaptureCall) -> None:
        if call.capture is None:
            return
        waiting = sum(len(item.capture.body) for item in self._ready if item.capture is not None)
        kept = self._writer.store.captured_bytes(self._writer.record.owner) + waiting
        if kept + len(call.capture.body) > limits.CAPTURED_BYTES_PER_OWNER:
            raise Fault(
                "captured_bytes",
                f"{call.step_id} would pass {limits.CAPTURED_BYTES_PER_OWNER // 2**20} MiB of captured files. "
                "Delete old runs: workbench delete --older-than 30d",
                call.position,
            )

    def commit_known(self) -> bool:
        """Commit the ids of children that are known and not finished, with intents that found a place.

        True where there is something to collect: a queued call was refused meanwhile, or one that was admitted
        is final already.
        """
        notes = {
            child.step_id: child.note()
            for child in self._children.values()
            if child.phase is Phase.KNOWN and not child.known_committed
        }
        reserved = self._reserve()
        if notes or reserved:
            side = Side(admitting=tuple(child.step_id for child in reserved), children=notes)
            self._writer.commit(marks=[self._writer.mark(now(), side)], admissions=_intents(reserved))
            for child in self._children.values():
                child.known_committed = child.known_committed or child.step_id in notes
            self._admit(reserved)
        return self.ready or any(child.phase is Phase.DONE for child in reserved)

    def answer(self, wait: WaitCall, outcome: Outcome) -> None:
        """A person's decision is the answer to a wait."""
        self._ready.append(Answer(wait.call_id, outcome, wait.step_id, wait.kind))

    def respond(self) -> list[bytes]:
        """Commit everything that has an outcome as one response batch; return what JavaScript is given.

        Raises Fault where the run must stop instead; then every outcome is still held, for ``stop`` to keep.
        """
        ready = tuple(self._ready)
        bodies = pack_results([item.result() for item in ready], limits.FRAME_BYTES)
        self._writer.check_journal(sum(len(body) for body in bodies))
        reserved = self._reserve()
        del self._ready[: len(ready)]
        notes, self._late = self._late, {}
        for item in ready:
            child = self._children.pop(item.call_id, None)
            if child is not None:
                notes[child.step_id] = child.note()
            if item.outcome.kind is OutcomeKind.SUCCESS and item.step_id and item.kind:
                self.reader.answered(item.step_id, item.kind, item.outcome.value or {})
        for child in self._children.values():
            if child.phase is Phase.KNOWN and not child.known_committed:
                notes[child.step_id] = child.note()
                child.known_committed = True
        at = now()
        last = len(bodies) - 1
        side = Side(admitting=tuple(child.step_id for child in reserved), children=notes)
        frames = [
            self._writer.frame(FrameKind.RESPONSE, body, at, side if index == last else None)
            for index, body in enumerate(bodies)
        ]
        captures = [item.capture for item in ready if item.capture is not None]
        self._writer.commit(frames=frames, admissions=_intents(reserved), captures=captures)
        if self._tell is not None:
            self._tell(self._writer.run_id, [item.step_id for item in ready if item.step_id is not None])
        self._admit(reserved)
        return expanded(bodies, self.expand)

    # Recovery.

    def restore(self, taken: TakenUp, position: tuple[int, int] | None) -> None:
        """Take up a call that the journal holds without a response.

        What is known is answered at once; a step without an intent is queued; a known child is observed; an
        intent without a child id is asked for by its key. Nothing is admitted twice (invariant 4).
        """
        asked, outcome, step = taken.asked, taken.outcome, taken.step
        if isinstance(asked, Child) and step is not None:
            asked.position, asked.attempt = position, step.attempt
            asked.request = agent_request(
                self._writer.record, asked.step_id, asked.agent_ref, asked.request.input, step.readmitted
            )
            self._children[asked.call_id] = asked
            if outcome is not None:
                asked.outcome, asked.phase, asked.answered = outcome, Phase.DONE, True
            elif step.status is StepStatus.QUEUED:
                self._queue.append(asked)
            else:
                self._rejoin(asked)
        elif isinstance(asked, CaptureCall):
            asked.position, asked.late = position, True
            self._captures[asked.call_id] = asked
            self._start_captures([asked])
        elif isinstance(asked, ReadCall):
            self._ready.append(read_answer(asked, self._find))
        if outcome is not None:
            self._ready.append(Answer(taken.call["id"], outcome, taken.call.get("step_id"), taken.kind))

    def adopt(self, children: Sequence[Child]) -> None:
        """Take up children of an earlier owner, known by their steps only, so that ``stop`` stops them too."""
        taken_up = {(child.step_id, child.attempt) for child in self._children.values()}
        for child in children:
            if (child.step_id, child.attempt) not in taken_up:
                child.call_id = -1 - len(self._children)  # the journal's own ids begin at 0
                self._children[child.call_id] = child
                self._rejoin(child)

    def _rejoin(self, child: Child) -> None:
        self._slots.take()
        self._hold_place(child)
        child.phase = Phase.ADMITTING
        self._rejoining.append(child)
        child.task = asyncio.get_running_loop().create_task(child.rejoin(self._runs, self._poke))

    # Stopping.

    async def stop(self) -> tuple[dict[str, ChildNote], list[Child]]:
        """Interrupt and observe every child that may run.

        Returns what became known by step id, and the children whose outcome stays uncertain; those keep
        their concurrency place.
        """
        self._queue.clear()
        for call in self._captures.values():
            if call.task is not None:
                call.task.cancel()
        started = [child for child in self._children.values() if child.phase is not Phase.QUEUED]
        if started:
            await asyncio.gather(*(child.stop(self._runs) for child in started))
        notes = {child.step_id: child.note(settled=True) for child in started}
        uncertain = [
            child for child in started if child.outcome and child.outcome.kind is OutcomeKind.UNCERTAIN
        ]
        for child in started:
            if child not in uncertain:
                self._give_back(child)
        return notes, uncertain

    async def leave(self) -> dict[str, ChildNote]:
        """Let children go on without us; an admission in flight gets its bounded time to answer."""
        admitting = [c.task for c in self._children.values() if c.phase is Phase.ADMITTING and c.task]
        if admitting:
            await asyncio.wait(admitting, timeout=self._writer.record.limits.admission_timeout_seconds)
        return {c.step_id: c.note() for c in self._children.values() if c.view is not None}

    def close(self, *, keep_places: bool) -> None:
        """Cancel what still runs here and give places back; ``keep_places`` leaves those that are held."""
        for child in self._children.values():
            if child.task is not None and not child.task.done():
                child.task.cancel()
            if not keep_places:
                self._give_back(child)
        for call in self._captures.values():
            if call.task is not None:
                call.task.cancel()

    def _hold_place(self, child: Child) -> None:
        child.holds_place = True
        self._active += 1

    def _give_back(self, child: Child) -> None:
        if child.holds_place:
            child.holds_place = False
            self._active -= 1
            self._slots.give_back()


def read_answer(call: ReadCall, find: Find) -> Answer:
    """The answer to readArtifact(): a reference to the kept bytes. Raises Fault where they were damaged."""
    capture = find(call.artifact_version)
    if capture is None:
        outcome = Outcome(OutcomeKind.FAILED, code="unknown_artifact", message="its bytes are not kept")
        return Answer(call.call_id, outcome)
    if not intact(capture):
        raise Fault(
            "capture_damaged",
            f"the kept bytes of version {capture.version[:7]} are not those that were captured",
            call.position,
        )
    try:
        reference = read_reference(capture, call.offset)
    except UsageError as error:
        return Answer(call.call_id, Outcome(OutcomeKind.FAILED, code="bad_offset", message=str(error)))
    return Answer(call.call_id, Outcome(OutcomeKind.SUCCESS), reference=reference)


def _intents(reserved: Sequence[Child]) -> list[tuple[str, int]]:
    return [(child.step_id, child.attempt) for child in reserved]
