"""Child runs of one workflow run: admission, observation and interruption of Agent executions.

A :class:`Child` is the engine's side of one agent call. Its phases go one way: queued → admitting (the intent
is committed) → known (the child run id is known) → done. What is done carries an :class:`Outcome`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from extension_api.agent_runs import (
    AgentRunRefused,
    AgentRunRequest,
    AgentRuns,
    AgentRunStatus,
    AgentRunUncertain,
    AgentRunView,
)

from .. import jsontext
from ..journal.frames import ChildNote
from ..limits import OUTPUT_BYTES
from ..model import Cause, StepStatus

logger = logging.getLogger(__name__)

#: How long an interrupted child is observed before its outcome counts as uncertain.
OBSERVE_SECONDS = 10.0


def thread_id(run_id: str, step_id: str, attempt: int) -> str:
    """The stable thread of one (run, step, attempt): 43 characters of [a-z0-9_]."""
    digest = hashlib.sha256(f"{run_id}/{step_id}/{attempt}".encode()).hexdigest()
    return f"wf_{digest[:40]}"


def step_key(run_id: str, step_id: str, attempt: int, readmitted: int = 0) -> str:
    """The idempotency key of a step's admission; each attested did_not_run gives the next one its own."""
    key = f"{run_id}/{step_id}/{attempt}"
    return f"{key}/{readmitted + 1}" if readmitted else key


class Phase(StrEnum):
    QUEUED = "queued"
    ADMITTING = "admitting"
    KNOWN = "known"
    DONE = "done"


class OutcomeKind(StrEnum):
    SUCCESS = "success"
    FAILED = "failed"
    WAITING_INPUT = "waiting_input"
    UNCERTAIN = "uncertain"
    TOO_LARGE = "too_large"


class Outcome:
    """How a call ended: a response value, or the error that JavaScript is given."""

    __slots__ = ("code", "kind", "message", "value")

    def __init__(
        self, kind: OutcomeKind, *, value: Mapping[str, Any] | None = None, code: str = "", message: str = ""
    ) -> None:
        self.kind = kind
        self.value = value
        self.code = code
        self.message = message


class Slots:
    """The places for child runs of all workflow runs. Waiters are woken in the order in which they came."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def try_take(self) -> bool:
        if self.used >= self.total:
            return False
        self.used += 1
        return True

    def take(self) -> None:
        """Hold a place for a child that runs already, also where none is free."""
        self.used += 1

    def give_back(self) -> None:
        self.used -= 1
        for _ in range(len(self._waiting)):
            self._waiting.popleft()()

    def wait(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` once when a place may be free."""
        if wake not in self._waiting:
            self._waiting.append(wake)


class Child:
    """One agent call of a run."""

    __slots__ = (
        "agent_ref",
        "answered",
        "attempt",
        "call_id",
        "holds_place",
        "known_committed",
        "outcome",
        "phase",
        "position",
        "request",
        "step_id",
        "stopping",
        "task",
        "view",
    )

    def __init__(
        self, call_id: int, position: tuple[int, int] | None, request: AgentRunRequest, attempt: int = 1
    ) -> None:
        self.call_id = call_id
        self.step_id = request.metadata["step_id"]
        self.attempt = attempt
        self.agent_ref = request.agent_ref
        self.position = position
        self.request = request
        self.phase = Phase.QUEUED
        self.view: AgentRunView | None = None
        self.outcome: Outcome | None = None
        self.known_committed = False
        #: Whether its outcome has been moved to a response batch.
        self.answered = False
        self.holds_place = False
        self.stopping = False
        self.task: asyncio.Task[None] | None = None

    def admit_now(self, admit: Callable[[AgentRunRequest], AgentRunView]) -> bool:
        """Admit through a host that records without waiting; True where the child must still be observed.

        What is due at once is final here, so that a step costs no turn of the event loop.
        """
        try:
            view = admit(self.request)
        except AgentRunRefused as error:
            self.outcome = Outcome(OutcomeKind.FAILED, code=error.code, message=error.message)
        except AgentRunUncertain as error:
            self.outcome = _uncertain(str(error))
        except Exception as error:
            logger.exception("admission of %s failed", self.step_id)
            self.outcome = _uncertain(f"the host failed with {type(error).__name__}")
        else:
            self.view = view
            self.phase = Phase.KNOWN
            if view.status.active:
                return True
            self.finish(view)
            return False
        self.phase = Phase.DONE
        return False

    async def observe(self, runs: AgentRuns, poke: Callable[[], None]) -> None:
        """Observe a known child to its end."""
        assert self.view is not None
        try:
            view = await runs.observe(self.view.run_id)
        except Exception as error:
            logger.exception("observation of %s failed", self.step_id)
            self._done(_uncertain(f"observing it failed with {type(error).__name__}"), poke)
            return
        self.finish(view)
        poke()

    async def run(self, runs: AgentRuns, admission_seconds: float, poke: Callable[[], None]) -> None:
        """Admit the child and observe it to its end. Calls ``poke`` after each thing that became known."""
        try:
            async with asyncio.timeout(admission_seconds):
                view = await runs.admit(self.request)
        except AgentRunRefused as error:
            self._done(Outcome(OutcomeKind.FAILED, code=error.code, message=error.message), poke)
            return
        except TimeoutError:
            self._done(_uncertain(f"the host did not answer within {admission_seconds:g} s"), poke)
            return
        except AgentRunUncertain as error:
            self._done(_uncertain(str(error)), poke)
            return
        except Exception as error:
            logger.exception("admission of %s failed", self.step_id)
            self._done(_uncertain(f"the host failed with {type(error).__name__}"), poke)
            return
        self.view = view
        self.phase = Phase.KNOWN
        if view.status.active:
            poke()
            if not self.stopping:
                await self.observe(runs, poke)
            return
        self.finish(view)
        poke()

    async def rejoin(self, runs: AgentRuns, poke: Callable[[], None]) -> None:
        """Find a child that an earlier owner started, or may have started, and observe it to its end.

        It is asked for by its key and never started again. Only success and a question for a human count as
        known outcomes; whatever else it says has to be settled by a person.
        """
        try:
            view = await runs.find(self.request.idempotency_key)
            if view is None:
                self._done(_uncertain("the host has no record of its child run, which proves nothing"), poke)
                return
            self.view = view
            self.phase = Phase.KNOWN
            if view.status.active:
                poke()
                if self.stopping:
                    return
                view = await runs.observe(view.run_id)
        except Exception as error:
            logger.exception("observation of %s failed", self.step_id)
            self._done(_uncertain(f"observing it failed with {type(error).__name__}"), poke)
            return
        self.finish(view)
        if self.outcome is not None and self.outcome.kind is OutcomeKind.FAILED:
            self.outcome = _uncertain(f"its child run ended as {view.status.value}: {self.outcome.message}")
        poke()

    def finish(self, view: AgentRunView) -> None:
        """Take a view that is final as the outcome, after checking that it is this child's."""
        if self.view is not None and (
            view.run_id != self.view.run_id or view.thread_id != self.view.thread_id
        ):
            self.outcome = _uncertain("the host answered for another execution")
        else:
            self.view = view
            self.outcome = outcome_of(view)
        self.phase = Phase.DONE

    def _done(self, outcome: Outcome, poke: Callable[[], None]) -> None:
        self.outcome = outcome
        self.phase = Phase.DONE
        poke()

    async def stop(self, runs: AgentRuns) -> None:
        """Interrupt and observe, so that ``outcome`` says what is known. Never raises.

        An admission in flight is first given its bounded time to answer.
        """
        self.stopping = True
        if self.phase is Phase.ADMITTING and self.task is not None:
            await asyncio.wait({self.task})
        elif self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait({self.task})
        if self.phase is not Phase.KNOWN or self.view is None:
            return
        try:
            async with asyncio.timeout(OBSERVE_SECONDS):
                view = await runs.interrupt(self.view.run_id)
                if view.status.active:
                    view = await runs.observe(self.view.run_id)
        except TimeoutError:
            self.outcome = _uncertain("it was asked to stop and did not answer")
            self.phase = Phase.DONE
            return
        except Exception as error:  # noqa: BLE001 - whatever a host raises, the outcome is uncertain
            logger.warning("interrupting %s failed with %s", self.step_id, type(error).__name__)
            self.outcome = _uncertain(f"interrupting it failed: {type(error).__name__}")
            self.phase = Phase.DONE
            return
        self.finish(view)

    @property
    def asks_person(self) -> bool:
        """Whether the child waits for a person to type its answer."""
        view = self.view
        return (
            self.phase is Phase.KNOWN and view is not None and view.badge == "manual" and view.status.active
        )

    def mark_uncertain(self, why: str) -> None:
        self.outcome = _uncertain(why)
        self.phase = Phase.DONE

    def note(self, *, settled: bool = False) -> ChildNote:
        """What a mark or a frame's side records of this child. ``settled`` adds its final status."""
        view = self.view
        status = error = result = None
        if settled and self.outcome is not None:
            status = _STATUS[self.outcome.kind]
            if view is not None and view.status is AgentRunStatus.INTERRUPTED:
                status = StepStatus.INTERRUPTED
            if self.outcome.kind is OutcomeKind.SUCCESS:
                result = self.outcome.value
            else:
                error = Cause(self.outcome.code, self.outcome.message)
        return ChildNote(
            thread_id=self.request.thread_id,
            child_run_id=view.run_id if view is not None else None,
            badge=view.badge if view is not None else None,
            started_at=view.started_at if view is not None else None,
            finished_at=view.finished_at if view is not None else None,
            evidence=view.evidence if view is not None else None,
            status=status,
            error=error,
            result=result,
        )


_STATUS = {
    OutcomeKind.SUCCESS: StepStatus.COMPLETED,
    OutcomeKind.FAILED: StepStatus.FAILED,
    OutcomeKind.WAITING_INPUT: StepStatus.WAITING,
    OutcomeKind.UNCERTAIN: StepStatus.UNCERTAIN,
    OutcomeKind.TOO_LARGE: StepStatus.FAILED,
}


def _uncertain(message: str) -> Outcome:
    return Outcome(OutcomeKind.UNCERTAIN, code="uncertain", message=message)


def outcome_of(view: AgentRunView) -> Outcome:
    """The outcome that a final view means. Only the status means success, never the presence of an answer."""
    if view.status is AgentRunStatus.SUCCESS:
        if view.evidence is None:
            return Outcome(
                OutcomeKind.FAILED,
                code="missing_evidence",
                message="the host has no assembly evidence of its child run, so it proves nothing",
            )
        try:
            output = jsontext.encode(view.output, "the output")
            jsontext.parse(output, "the output")
        except jsontext.JsonRefused as error:
            return Outcome(OutcomeKind.FAILED, code="output_not_json", message=str(error))
        if len(output) > OUTPUT_BYTES:
            return Outcome(
                OutcomeKind.TOO_LARGE,
                code="output_too_large",
                message=f"its output takes {len(output):,} bytes; admitted are {OUTPUT_BYTES:,}",
            )
        return Outcome(
            OutcomeKind.SUCCESS,
            value={
                "output": view.output,
                "threadId": view.thread_id,
                "runId": view.run_id,
                "status": "success",
                "artifactVersion": jsontext.sha256(output),
            },
        )
    if view.status is AgentRunStatus.WAITING_INPUT:
        return Outcome(
            OutcomeKind.WAITING_INPUT,
            code="waiting_input",
            message=view.error_message or "the Agent asks a person for input",
        )
    if view.status in (AgentRunStatus.ERROR, AgentRunStatus.TIMEOUT, AgentRunStatus.INTERRUPTED):
        codes = {
            AgentRunStatus.ERROR: "agent_failed",
            AgentRunStatus.TIMEOUT: "agent_timeout",
            AgentRunStatus.INTERRUPTED: "agent_interrupted",
        }
        return Outcome(
            OutcomeKind.FAILED,
            code=view.error_code or codes[view.status],
            message=view.error_message or f"the Agent run ended as {view.status.value}",
        )
    return _uncertain(view.error_message or "the host does not know how it ended")
