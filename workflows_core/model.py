"""Runs, steps and causes as immutable values; the states of a run and the table of its transitions.

A state changes here and nowhere else: ``transition`` looks the event up in TRANSITIONS, and the store writes
the result on condition of the record's revision. Times are microseconds since the epoch, UTC.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from .clock import now as now
from .errors import Conflict
from .limits import Limits


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    WAITING_APPROVAL = "waiting_approval"
    WAITING_INPUT = "waiting_input"
    NEEDS_RECONCILIATION = "needs_reconciliation"
    RECOVERABLE = "recoverable"
    INTERRUPTED = "interrupted"

    @property
    def final(self) -> bool:
        return self in FINAL

    @property
    def owned(self) -> bool:
        """Whether a living owner is supposed to be working on it or holding its worker."""
        return self in OWNED


S = RunState
FINAL: Final = frozenset({S.COMPLETED, S.FAILED, S.CANCELLED})
OWNED: Final = frozenset({S.QUEUED, S.RUNNING, S.PAUSED, S.WAITING_APPROVAL})
#: States that count against max_workflows.
ACTIVE: Final = OWNED
DELETABLE: Final = FINAL | {S.INTERRUPTED}


class Event(StrEnum):
    """What can happen to a run, in the words of the state table."""

    START = "start"
    PAUSE_REACHED = "pause reached"
    CHECKPOINT_REACHED = "checkpoint reached"
    RESUME = "resume"
    APPROVE = "approve"
    REJECT = "reject"
    WAIT_EXPIRED = "wait expired"
    CHILD_NEEDS_INPUT = "a child asks a human"
    UNCERTAIN = "an outcome is uncertain"
    COMPLETE = "return"
    FAIL = "failure"
    CANCEL = "cancel, children observed"
    RECORD_CANCEL = "cancel recorded"
    OWNER_GONE = "owner gone"
    OWNER_GONE_UNUSABLE = "owner gone, no usable journal"
    OWNER_GONE_DECIDED = "owner gone after a rejection or an expired wait"
    RECOVER = "recover"
    SETTLED = "every uncertain step settled"
    SETTLED_CANCELLED = "every uncertain step settled, a cancel is recorded"


_WAITS = (S.PAUSED, S.WAITING_APPROVAL)

TRANSITIONS: Final[Mapping[Event, Mapping[RunState, RunState]]] = {
    Event.START: {S.QUEUED: S.RUNNING},
    Event.PAUSE_REACHED: {S.RUNNING: S.PAUSED},
    Event.CHECKPOINT_REACHED: {S.RUNNING: S.WAITING_APPROVAL},
    Event.RESUME: {S.PAUSED: S.RUNNING},
    Event.APPROVE: {S.WAITING_APPROVAL: S.RUNNING},
    Event.REJECT: dict.fromkeys((S.WAITING_APPROVAL, S.RECOVERABLE), S.FAILED),
    Event.WAIT_EXPIRED: dict.fromkeys((*_WAITS, S.RECOVERABLE), S.FAILED),
    Event.CHILD_NEEDS_INPUT: {S.RUNNING: S.WAITING_INPUT},
    # Besides running: a cancel that finishes observing the children of a run nobody owns any more.
    Event.UNCERTAIN: dict.fromkeys(
        (S.RUNNING, S.RECOVERABLE, S.WAITING_INPUT, S.INTERRUPTED), S.NEEDS_RECONCILIATION
    ),
    Event.COMPLETE: {S.RUNNING: S.COMPLETED},
    Event.FAIL: {S.RUNNING: S.FAILED},
    Event.CANCEL: dict.fromkeys(
        (S.QUEUED, S.RUNNING, *_WAITS, S.WAITING_INPUT, S.RECOVERABLE, S.INTERRUPTED), S.CANCELLED
    ),
    Event.RECORD_CANCEL: {
        S.NEEDS_RECONCILIATION: S.NEEDS_RECONCILIATION,
        S.QUEUED: S.QUEUED,
        S.RUNNING: S.RUNNING,
        S.PAUSED: S.PAUSED,
        S.WAITING_APPROVAL: S.WAITING_APPROVAL,
        S.WAITING_INPUT: S.WAITING_INPUT,
        S.RECOVERABLE: S.RECOVERABLE,
        S.INTERRUPTED: S.INTERRUPTED,
    },
    Event.OWNER_GONE: dict.fromkeys((S.QUEUED, S.RUNNING, *_WAITS), S.RECOVERABLE),
    Event.OWNER_GONE_UNUSABLE: dict.fromkeys((S.QUEUED, S.RUNNING, *_WAITS), S.INTERRUPTED),
    Event.OWNER_GONE_DECIDED: dict.fromkeys(_WAITS, S.FAILED),
    Event.RECOVER: {S.RECOVERABLE: S.RUNNING},
    Event.SETTLED: dict.fromkeys((S.NEEDS_RECONCILIATION, S.WAITING_INPUT), S.RECOVERABLE),
    Event.SETTLED_CANCELLED: dict.fromkeys((S.NEEDS_RECONCILIATION, S.WAITING_INPUT), S.CANCELLED),
}


def transition(state: RunState, event: Event) -> RunState:
    """The state after ``event``; raises Conflict in words where the table has no such row."""
    try:
        return TRANSITIONS[event][state]
    except KeyError:
        raise Conflict(
            f"a run that is {state.value.replace('_', ' ')} does not admit: {event.value}"
        ) from None


class StepKind(StrEnum):
    AGENT = "agent"
    PAUSE = "pause"
    CHECKPOINT = "checkpoint"
    CAPTURE = "capture"


class StepStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    UNCERTAIN = "uncertain"
    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"


class Cause(msgspec.Struct, frozen=True):
    """Why a run is in its state: a stable code and a sentence. ``line``/``column`` where one place is meant."""

    code: str
    message: str
    line: int | None = None
    column: int | None = None


class Wait(msgspec.Struct, frozen=True):
    """What a run waits for. ``kind`` is ``pause``, ``checkpoint`` or ``input``."""

    kind: str
    step_id: str
    attempt: int
    expires_at: int | None


#: The code of the cause that stands in for the part of a record that was damaged in the store.
RECORD_DAMAGED: Final = "record_damaged"
#: The cause of a run whose wait nobody answered in time; of a recoverable one before its next owner ends it, too.
WAIT_EXPIRED: Final = "wait_expired"


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The stored row of a run. ``revision`` rises by one with each write of the row."""

    run_id: str
    owner: str
    request_id: str
    name: str
    state: RunState
    revision: int
    created_at: int
    since: int
    last_progress: int
    script_hash: str
    args_hash: str
    identity_hash: str
    configuration_revision: str
    runtime_signature: str
    agents: tuple[str, ...]
    options: Mapping[str, Any]
    limits: Limits
    cause: Cause | None = None
    waiting: Wait | None = None
    cancel_requested_at: int | None = None
    parent_run_id: str | None = None
    result: Any = None
    has_result: bool = False
    owner_incarnation: str = ""
    #: The saved version that was launched, as ``name@hash``.
    definition: str | None = None
    #: Execution budget used before ``active_since``, in microseconds; None while the budget is suspended.
    used: int = 0
    active_since: int | None = None
    #: Keyed digests of the parts of the configuration at launch, so that a change can be named.
    configuration_components: Mapping[str, str] = {}


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One decision on a wait: its receipt. At most one for (run, step, attempt).

    ``decision`` is ``approve``, ``reject`` or ``resume``; ``sha256`` is that of the bytes that were displayed
    (None for a resume). ``actor`` says who, in which session; ``review`` how it was shown.
    """

    run_id: str
    step_id: str
    attempt: int
    decision: str
    sha256: str | None
    reason: str | None
    actor: Mapping[str, Any]
    review: Mapping[str, Any]
    decided_at: int


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """Captured bytes. ``version`` is their SHA-256; they never change and their path is never read again."""

    run_id: str
    step_id: str
    attempt: int
    source_step_id: str
    path: str
    version: str
    media_type: str
    body: bytes
    captured_at: int


class Artifact(msgspec.Struct, frozen=True):
    """The exact bytes of a step, as a person decides about them. ``version`` is their SHA-256."""

    step_id: str
    version: str
    media_type: str
    body: bytes
    path: str | None


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable saved version: ``version`` is the SHA-256 of the script."""

    owner: str
    name: str
    version: str
    saved_at: int


class Attestation(msgspec.Struct, frozen=True, kw_only=True):
    """What a person states about a step whose outcome is uncertain.

    ``outcome`` is ``did_not_run``, ``succeeded`` or ``failed``; ``statement_hash`` covers outcome and output,
    ``evidence_hash`` what was known of the step and its child run when it was attested.
    """

    run_id: str
    step_id: str
    attempt: int
    outcome: str
    reason: str
    statement_hash: str
    evidence_hash: str
    actor: Mapping[str, Any]
    settles: bool
    attested_at: int


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a run as the journal tells it. ``input`` and ``output`` are parsed JSON."""

    step_id: str
    kind: StepKind
    attempt: int
    status: StepStatus
    agent_ref: str | None = None
    badge: str | None = None
    thread_id: str | None = None
    child_run_id: str | None = None
    artifact_version: str | None = None
    line: int | None = None
    column: int | None = None
    requested_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    request_frame: int | None = None
    response_frame: int | None = None
    input: Any = None
    output: Any = None
    has_output: bool = False
    error: Cause | None = None
    evidence: Mapping[str, Any] | None = None
    call_id: int | None = None
    #: How often a person has attested that it did not run, so that it was admitted again.
    readmitted: int = 0
    #: A confirmed result that no response frame has delivered yet.
    undelivered: Mapping[str, Any] | None = None
    #: Of a capture: whether its file was read after a recovery, and not when the script asked for it.
    late: bool = False

    @property
    def unsettled(self) -> bool:
        """Whether a person must say what became of it before the run can go on."""
        return (
            self.kind is StepKind.AGENT
            and self.response_frame is None
            and self.undelivered is None
            and self.status in (StepStatus.UNCERTAIN, StepStatus.INTERRUPTED, StepStatus.WAITING)
        )


class LogLine(msgspec.Struct, frozen=True):
    """One ``log()`` message: when its frame was committed, the text, and where in the script."""

    at: int
    message: str
    line: int | None
    column: int | None
    frame: int


class FrameView(msgspec.Struct, frozen=True, gc=False):
    """One journal frame in a form for lists. ``summary`` is one line; ``body`` the canonical JSON text."""

    number: int
    kind: str
    at: int
    summary: str
    body: str
    hash: str


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """All that is shown of a run, computed from its record and journal in one place (journal/view.py)."""

    run_id: str
    name: str
    owner: str
    state: RunState
    cause: Cause | None
    waiting: Wait | None
    result: Any
    has_result: bool
    script_hash: str
    args_hash: str
    request_id: str
    parent_run_id: str | None
    created_at: int
    since: int
    last_progress: int
    cancel_requested: bool
    revision: int
    steps: tuple[StepView, ...]
    log: tuple[LogLine, ...]
    frames: tuple[FrameView, ...]
    script: str
    args: Any
    agents: tuple[str, ...]
    options: Mapping[str, Any]
    limits: Limits
    definition: str | None = None
    receipts: tuple[Decision, ...] = ()


class RunSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row of a run list: the record without its journal.

    Ten thousand of them, or of frames, are nothing that Python's collector has to walk through: both hold plain
    values, which no cycle goes through.
    """

    run_id: str
    name: str
    owner: str
    state: RunState
    cause: Cause | None
    waiting: Wait | None
    result: Any
    has_result: bool
    script_hash: str
    args_hash: str
    request_id: str
    parent_run_id: str | None
    created_at: int
    since: int
    last_progress: int
    cancel_requested: bool
    revision: int


def iso(at: int | None) -> str | None:
    """ISO 8601 UTC with microseconds, as every JSON document prints times."""
    if at is None:
        return None
    return (
        datetime.fromtimestamp(at // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{at % 1_000_000:06d}Z"
    )


def new_id(prefix: str) -> str:
    """A fresh identifier such as ``wr_5f2c…``: 16 hexadecimal digits behind its kind."""
    return f"{prefix}_{secrets.token_hex(8)}"
