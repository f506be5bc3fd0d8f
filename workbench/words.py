"""States, times and sizes in the words that every screen and every command uses.

A state is shown as glyph plus word, never by colour alone. Each glyph takes one cell and has an ASCII form
for terminals that cannot write it. Times are microseconds since the epoch, durations are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from workflows_core.model import (
    WAIT_EXPIRED,
    Attestation,
    Decision,
    RunState,
    RunSummary,
    RunView,
    StepKind,
    StepStatus,
    StepView,
    Wait,
)

from .inert import inert

if TYPE_CHECKING:
    from workflows_core.engine.evidence import Evidence

#: Characters of an output in a sentence.
_OUTPUT_SHOWN: Final = 160
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR


class Mark(NamedTuple):
    """How a state looks: ``glyph`` (one cell), its ASCII form, the word, and the name of its colour."""

    glyph: str
    ascii: str
    word: str
    tone: str

    def text(self, *, unicode: bool = True) -> str:
        """Glyph and word: ``✓ completed``."""
        return f"{self.glyph if unicode else self.ascii} {self.word}"


RUN_MARKS: Final = {
    RunState.QUEUED: Mark("○", ".", "queued", "quiet"),
    RunState.RUNNING: Mark("●", "*", "running", "running"),
    RunState.COMPLETED: Mark("✓", "+", "completed", "good"),
    RunState.FAILED: Mark("✗", "x", "failed", "bad"),
    RunState.CANCELLED: Mark("⊘", "/", "cancelled", "quiet"),
    RunState.PAUSED: Mark("‖", "=", "paused", "waiting"),
    RunState.WAITING_APPROVAL: Mark("◆", "#", "waiting approval", "waiting"),
    RunState.WAITING_INPUT: Mark("?", "?", "waiting input", "waiting"),
    RunState.NEEDS_RECONCILIATION: Mark("!", "!", "needs reconciliation", "bad"),
    RunState.RECOVERABLE: Mark("↻", "~", "recoverable", "waiting"),
    RunState.INTERRUPTED: Mark("∅", "-", "interrupted", "bad"),
}

STEP_MARKS: Final = {
    StepStatus.QUEUED: Mark("○", ".", "queued", "quiet"),
    StepStatus.RUNNING: Mark("●", "*", "running", "running"),
    StepStatus.COMPLETED: Mark("✓", "+", "completed", "good"),
    StepStatus.FAILED: Mark("✗", "x", "failed", "bad"),
    StepStatus.INTERRUPTED: Mark("∅", "-", "interrupted", "bad"),
    StepStatus.UNCERTAIN: Mark("!", "!", "uncertain", "bad"),
    StepStatus.WAITING: Mark("‖", "=", "waiting", "waiting"),
    StepStatus.APPROVED: Mark("✓", "+", "approved", "good"),
    StepStatus.REJECTED: Mark("✗", "x", "rejected", "bad"),
    StepStatus.EXPIRED: Mark("⊘", "/", "expired", "bad"),
}


def run_mark(state: RunState) -> Mark:
    return RUN_MARKS[state]


def step_mark(step: StepView) -> Mark:
    """The mark of a step; a checkpoint that waits has the glyph of waiting for approval."""
    if step.status is StepStatus.WAITING and step.kind is StepKind.CHECKPOINT:
        return RUN_MARKS[RunState.WAITING_APPROVAL]
    return STEP_MARKS[step.status]


def duration(micros: int) -> str:
    """A span in at most two units: ``0.4 s``, ``12 s``, ``3 min``, ``23 h 57 min``, ``2 d 4 h``."""
    micros = max(0, micros)
    if micros < 10 * SECOND:
        return f"{micros // 100_000 / 10:.1f} s"
    if micros < MINUTE:
        return f"{micros // SECOND} s"
    if micros < HOUR:
        return f"{micros // MINUTE} min"
    if micros < DAY:
        return _two(micros, HOUR, "h", MINUTE, "min")
    return _two(micros, DAY, "d", HOUR, "h")


def span(micros: int) -> str:
    """A span for sentences: like ``duration`` without fractions of a second."""
    return f"{max(0, micros) // SECOND} s" if micros < MINUTE else duration(micros)


def after(micros: int) -> str:
    """A span inside a run: ``12 ms``, ``2.4 s``, ``3 min``."""
    return f"{max(0, micros) // 1000} ms" if micros < SECOND else duration(micros)


def ago(at: int, now: int) -> str:
    """How long before ``now``: ``just now``, ``3 min ago``."""
    return "just now" if now - at < 2 * SECOND else f"{span(now - at)} ago"


def absolute(at: int) -> str:
    """The local time with its offset from UTC: ``2026-07-01 14:03:22 +0200``."""
    return datetime.fromtimestamp(at / SECOND).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")


def kib(size: int) -> str:
    """A size in KiB, whole bytes below one: ``312 bytes``, ``1.5 KiB``, ``2,048 KiB``."""
    if size < 1024:
        return "1 byte" if size == 1 else f"{size} bytes"
    return f"{size / 1024:.1f} KiB" if size < 100 * 1024 else f"{size / 1024:,.0f} KiB"


def hash7(digest: str) -> str:
    """The first seven characters of a hash, as every screen shows it."""
    return digest[:7]


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 step``, ``3 steps``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def place(line: int | None, column: int | None) -> str:
    """A position in a script: ``12:7``, ``12``, or nothing."""
    if line is None:
        return ""
    return f"{line}" if column is None else f"{line}:{column}"


def awaited(wait: Wait) -> str:
    """What a wait is for: ``approval of evidence``, ``resume at before-report``, ``input for claims``."""
    kinds = {"checkpoint": "approval of", "pause": "resume at", "input": "input for"}
    return f"{kinds.get(wait.kind, 'a person at')} {inert(wait.step_id)}"


def deadline(wait: Wait, now: int) -> str:
    """``expires in 23 h 57 min``, ``expired 2 min ago``, or nothing where the wait has no end."""
    if wait.expires_at is None:
        return ""
    left = wait.expires_at - now
    return f"expires in {span(left)}" if left > 0 else f"expired {ago(wait.expires_at, now)}"


def condition(run: RunView | RunSummary, now: int) -> str:
    """The state of a run in one sentence: what, since when, what it waits for and until when.

    ``waiting for approval of evidence for 3 min; expires in 23 h 57 min``
    """
    since = span(now - run.since)
    word = run_mark(run.state).word
    asked = awaiting_answer(run) if isinstance(run, RunView) else []
    parts: list[str]
    if run.waiting is not None and not run.state.final:
        if run.state is RunState.RECOVERABLE:
            parts = [f"recoverable for {since}", f"it waits for {awaited(run.waiting)}"]
        else:
            parts = [f"waiting for {awaited(run.waiting)} for {since}"]
        parts.append(deadline(run.waiting, now))
    elif run.state.final or run.state is RunState.INTERRUPTED:
        parts = [f"{word} {ago(run.since, now)}"]
    else:
        parts = [f"{word} for {since}"]
    if asked:
        parts.append(awaits(asked))
    if run.cancel_requested and not run.state.final:
        parts.append("a cancel is recorded")
    return "; ".join(part for part in parts if part)


def awaits(asked: Sequence[StepView]) -> str:
    """What manual agents wait for: ``it waits for your answer to review, wording``."""
    return f"it waits for your answer to {', '.join(inert(step.step_id) for step in asked)}"


#: What a person attests of an uncertain step, by the name of the outcome.
OUTCOMES: Final = {"did_not_run": "did not run", "succeeded": "succeeded", "failed": "failed"}


def attested(attestation: Attestation, now: int) -> str:
    """An attestation in one inert sentence: what, when, by whom in which session, why, and whether it counts yet.

    ``did not run, attested 3 min ago by ada (password, account ada, pts/3); reason: no trace in the log; a second
    reviewer must attest the same``
    """
    actor = attestation.actor
    who = inert(str(actor.get("user_id", "somebody")))
    session = inert(str(actor.get("description", "")))
    parts = [
        f"{OUTCOMES.get(attestation.outcome, attestation.outcome)}, attested {ago(attestation.attested_at, now)} "
        f"by {who}" + (f" ({session})" if session else ""),
        f"reason: {inert(attestation.reason)}",
    ]
    if not attestation.settles:
        parts.append("a second reviewer must attest the same")
    return "; ".join(parts)


def on_record(known: Evidence) -> str:
    """What the host has on record of an uncertain step's child run, as one inert sentence."""
    if known.child_run_id is None:
        return "The host has no record of a child run, which proves nothing."
    status = inert(str(known.status)).replace("_", " ")
    why = f": {inert(known.error)}" if known.error else ""
    return f"The host's record of child run {inert(known.child_run_id)}: {status}{why}"


def output_on_record(known: Evidence) -> str:
    """The output that the host has of that child run: its hash and its beginning, in one inert sentence."""
    if not known.has_output:
        return "The host has no output of it."
    text = known.output if isinstance(known.output, str) else json.dumps(known.output, ensure_ascii=False)
    shown = inert(text[:_OUTPUT_SHOWN]) + ("…" if len(text) > _OUTPUT_SHOWN else "")
    return f"Its output, sha256 {hash7(known.output_hash or '')}: {shown}"


#: What was decided, in the past tense.
DECIDED: Final = {"approve": "approved", "reject": "rejected", "resume": "resumed"}


def receipt(decision: Decision, now: int) -> str:
    """A decision in one inert sentence: what, when, by whom in which session, about which bytes, why.

    ``approved 3 min ago by os:1000 (terminal, uid 1000, pts/3, not password-verified); version a1b2c3d, shown
    in full``
    """
    actor = decision.actor
    who = inert(str(actor.get("user_id", "somebody")))
    session = inert(str(actor.get("description", "")))
    parts = [
        f"{DECIDED.get(decision.decision, decision.decision)} {ago(decision.decided_at, now)} by {who}"
        + (f" ({session})" if session else "")
    ]
    if decision.sha256 is not None:
        seen = coverage(decision.review)
        parts.append(f"version {hash7(decision.sha256)}" + (f", {seen}" if seen else ""))
    if decision.reason:
        parts.append(f"reason: {inert(decision.reason)}")
    return "; ".join(parts)


def coverage(review: Mapping[str, Any]) -> str:
    """How the bytes of a decision were shown, as its receipt tells: ``shown in full``, ``viewed outside``."""
    if review.get("viewed_outside"):
        return "viewed outside"
    fraction = review.get("coverage")
    if isinstance(fraction, bool) or not isinstance(fraction, int | float):
        return ""
    return "shown in full" if fraction >= 1 else f"shown to {int(fraction * 100)} %"


def awaiting_answer(view: RunView) -> list[StepView]:
    """The calls of manual agents that wait for a person's answer, in the order of the steps."""
    if view.state is not RunState.RUNNING or view.cancel_requested:
        return []
    return [
        step
        for step in view.steps
        if step.status is StepStatus.RUNNING and step.badge == "manual" and step.child_run_id is not None
    ]


def next_command(view: RunView) -> str | None:
    """The command by which a person lets a run go on; None where there is nothing to do."""
    expired = view.cause is not None and view.cause.code == WAIT_EXPIRED
    if (
        view.state is RunState.FAILED
        and view.cause is not None
        and view.cause.code == "configuration_changed"
    ):
        real = " --agents real" if view.options.get("agents") == "real" else ""
        return f"workbench fork {view.run_id}{real}"
    if view.cancel_requested or view.state.final or expired:
        return None
    asked = awaiting_answer(view)
    if asked:
        return f"workbench answer {view.run_id} {inert(asked[0].step_id)}"
    unsettled = [step.step_id for step in view.steps if step.unsettled]
    if view.state in (RunState.NEEDS_RECONCILIATION, RunState.WAITING_INPUT) and unsettled:
        return f"workbench reconcile {view.run_id} {inert(unsettled[0])} --outcome …"
    wait = view.waiting
    if wait is not None and wait.kind == "pause":
        return f"workbench resume {view.run_id} {inert(wait.step_id)}"
    if wait is not None and wait.kind == "checkpoint":
        return f"workbench decide {view.run_id} {inert(wait.step_id)} approve"
    return f"workbench recover {view.run_id} --preview" if view.state is RunState.RECOVERABLE else None


def because(run: RunView | RunSummary) -> str:
    """The cause of the state as one inert line, with its place in the script; nothing where there is none."""
    if run.cause is None:
        return ""
    where = place(run.cause.line, run.cause.column)
    return inert(run.cause.message) + (f" (line {where})" if where else "")


def in_brief(run: RunView, now: int, *, unicode: bool = True) -> str:
    """A run on one inert line: its glyph, and why it is there or, where it goes on or completed, how it stands."""
    mark = run_mark(run.state)
    glyph, between = (mark.glyph, " · ") if unicode else (mark.ascii, " - ")
    if run.state in (
        RunState.FAILED,
        RunState.CANCELLED,
        RunState.INTERRUPTED,
        RunState.NEEDS_RECONCILIATION,
    ):
        return f"{glyph} {mark.word}{between}{because(run)}"
    return f"{glyph} {condition(run, now)}"


def fault_line(run: RunView) -> int | None:
    """The line of the script, from 1, on which a failed run broke; None where it did not fail or none is known."""
    return run.cause.line if run.state is RunState.FAILED and run.cause is not None else None


def took(step: StepView, now: int) -> str:
    """How long a step took, or has taken so far; nothing before it started."""
    if step.started_at is None:
        return ""
    return duration((step.finished_at if step.finished_at is not None else now) - step.started_at)


def _two(micros: int, large: int, large_name: str, small: int, small_name: str) -> str:
    whole, rest = divmod(micros, large)
    return f"{whole} {large_name}" + (f" {rest // small} {small_name}" if rest // small else "")
