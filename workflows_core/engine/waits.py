"""Pauses and human checkpoints: what a script waits for, and how a person's decision becomes its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from extension_api.agent_runs import AgentRuns, SessionView

from ..errors import Conflict, NotPermitted, UsageError
from ..model import WAIT_EXPIRED, Cause, Decision, Event, RunRecord, RunState, StepKind, Wait, now
from .children import Outcome, OutcomeKind

REASON_LENGTH = 2_000


class WaitCall(msgspec.Struct, frozen=True):
    """One pause() or humanCheckpoint() call. ``artifact_version`` is what the person decides about."""

    call_id: int
    kind: StepKind
    step_id: str
    position: tuple[int, int] | None
    source_step_id: str | None = None
    artifact_version: str | None = None
    attempt: int = 1

    @property
    def event(self) -> Event:
        return Event.PAUSE_REACHED if self.kind is StepKind.PAUSE else Event.CHECKPOINT_REACHED

    def waiting(self, expires_at: int) -> Wait:
        return Wait(self.kind.value, self.step_id, self.attempt, expires_at)


class DecideRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A person's decision: exactly which checkpoint, attempt and bytes, and how they were shown.

    ``decision`` is ``approve`` or ``reject``; ``review`` holds coverage, renderer and "viewed outside".
    """

    run_id: str
    step_id: str
    attempt: int
    decision: str
    sha256: str
    reason: str | None = None
    review: Mapping[str, Any] = {}


def deciding_session(runs: AgentRuns) -> SessionView:
    """The session behind a decision; raises NotPermitted unless a person sits in front of it."""
    session = runs.session
    if session.mode == "disabled":
        raise NotPermitted(
            "auth.mode is disabled, so nobody can be named on a decision. Set auth.mode to terminal or password"
        )
    if not session.interactive:
        raise NotPermitted(
            "a decision needs an interactive session: standard input, standard output and the controlling "
            "terminal must be one terminal"
        )
    return session


def actor_of(runs: AgentRuns) -> dict[str, Any]:
    """Who acted, for a receipt."""
    session = runs.session
    return {
        "user_id": runs.principal.user_id,
        "session_id": session.session_id,
        "mode": session.mode,
        "description": session.description,
    }


def make_decision(request: DecideRequest, runs: AgentRuns) -> Decision:
    """The decision row of a request; raises UsageError for what cannot be recorded."""
    if request.decision not in ("approve", "reject"):
        raise UsageError("a decision is approve or reject")
    reason = request.reason.strip() if request.reason is not None else None
    if request.decision == "reject" and not reason:
        raise UsageError("a rejection needs a reason")
    if reason is not None and len(reason) > REASON_LENGTH:
        raise UsageError(f"a reason has at most {REASON_LENGTH:,} characters")
    return Decision(
        run_id=request.run_id,
        step_id=request.step_id,
        attempt=request.attempt,
        decision=request.decision,
        sha256=request.sha256,
        reason=reason,
        actor=actor_of(runs),
        review=dict(request.review),
        decided_at=now(),
    )


def make_resume(run_id: str, step_id: str, attempt: int, runs: AgentRuns) -> Decision:
    return Decision(
        run_id=run_id,
        step_id=step_id,
        attempt=attempt,
        decision="resume",
        sha256=None,
        reason=None,
        actor=actor_of(runs),
        review={},
        decided_at=now(),
    )


def earlier_decision(decisions: Sequence[Decision], wanted: Decision) -> Decision | None:
    """The receipt that ``wanted`` repeats; raises Conflict where it contradicts one."""
    for known in decisions:
        if (known.step_id, known.attempt) != (wanted.step_id, wanted.attempt):
            continue
        if (known.decision, known.sha256) == (wanted.decision, wanted.sha256):
            return known
        raise Conflict(
            f"{wanted.step_id} was already decided: {known.decision} by {known.actor.get('user_id', 'somebody')}"
        )
    return None


def check_waiting(record: RunRecord, step_id: str, attempt: int, kind: StepKind) -> None:
    """Raise Conflict unless the record waits for exactly this step and attempt, in time."""
    wait = record.waiting
    verb = "resumed" if kind is StepKind.PAUSE else "decided"
    if wait is None or wait.kind != kind.value or (wait.step_id, wait.attempt) != (step_id, attempt):
        what = (
            f"waits for {wait.step_id}" if wait is not None else f"is {record.state.value.replace('_', ' ')}"
        )
        raise Conflict(f"run {record.run_id} {what}; {step_id} cannot be {verb} now")
    if wait.expires_at is not None and wait.expires_at <= now():
        raise Conflict(f"the wait of {step_id} has expired; nothing can be {verb} any more")


def answer(decision: Decision, artifact_version: str | None) -> Outcome:
    """What the script is given for a decision that lets it go on."""
    if decision.decision == "resume":
        return Outcome(OutcomeKind.SUCCESS, value={"status": "resumed"})
    return Outcome(OutcomeKind.SUCCESS, value={"artifactVersion": artifact_version, "status": "approved"})


def rejected_cause(decision: Decision, position: tuple[int, int] | None) -> Cause:
    who = decision.actor.get("user_id", "somebody")
    line, column = position if position is not None else (None, None)
    return Cause("rejected", f"{decision.step_id} was rejected by {who}: {decision.reason}", line, column)


def expired_cause(wait: Wait) -> Cause:
    return Cause(WAIT_EXPIRED, f"nobody answered {wait.step_id} in time; nothing was approved")


def released(state: RunState) -> Event:
    """The event by which a decided wait goes on."""
    return Event.RESUME if state is RunState.PAUSED else Event.APPROVE
