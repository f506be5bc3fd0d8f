"""What a person can do about a run, without a screen: which acts are open now, and why the run stands there.

``now`` is microseconds since the epoch. A summary is enough for most; what needs the steps takes a view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from workflows_core.model import RunState, RunSummary, RunView, StepStatus, StepView, Wait

from . import words
from .inert import inert

#: Gives the key of an act (``resume``, ``recover``, ``reconcile``, ``review``, ``cancel``, ``delete``, ``fork``,
#: ``answer``).
Key = Callable[[str], str]

UNSETTLED_STATES: Final = frozenset({RunState.NEEDS_RECONCILIATION, RunState.WAITING_INPUT})
_KEPT: Final = frozenset({RunState.PAUSED, RunState.WAITING_APPROVAL, RunState.RECOVERABLE})
#: Step ids that a sentence names; more are counted.
_NAMED: Final = 3


def open_wait(run: RunSummary | RunView, kind: str, now: int) -> Wait | None:
    """The wait of this kind that a person can still answer: not expired, and no cancel recorded."""
    wait = run.waiting
    if wait is None or wait.kind != kind or run.state not in _KEPT or run.cancel_requested:
        return None
    return None if expired(wait, now) else wait


def expired(wait: Wait, now: int) -> bool:
    return wait.expires_at is not None and wait.expires_at <= now


def may_recover(run: RunSummary | RunView) -> bool:
    """Whether to offer the preview of a recovery. With a cancel recorded only cancel can finish a run."""
    return run.state is RunState.RECOVERABLE and not run.cancel_requested


def may_cancel(run: RunSummary | RunView) -> bool:
    """Whether to offer cancel: once, and again where nobody is left who works on a cancel that is recorded."""
    if run.state.final:
        return False
    return not run.cancel_requested or run.state in (RunState.RECOVERABLE, RunState.INTERRUPTED)


def unsettled(view: RunView) -> list[StepView]:
    """The steps of which a person must say what became of them, in the order of their requests."""
    return [step for step in view.steps if step.unsettled] if view.state in UNSETTLED_STATES else []


def why(run: RunSummary | RunView, now: int, key: Key) -> str:
    """Why the run stands where it does, what happens next and what a person can do about it, as inert sentences.

    It says what the state and its cause do not; empty where nothing more is known, as of a summary that runs.
    """
    if run.state in (RunState.QUEUED, RunState.RUNNING):
        said = _under_way(run)
        if run.cancel_requested or not said:
            return said
        asked = words.awaiting_answer(run) if isinstance(run, RunView) else []
        if not asked:
            return f"{said} {key('cancel')} cancels it."
        command = f"workbench answer {run.run_id} {inert(asked[0].step_id)}"
        return (
            f"{said} {key('answer')} answers it here, `{command}` in a terminal; {key('cancel')} cancels it."
        )
    if run.state is RunState.COMPLETED:
        return "The script returned; what it returned is the result."
    if run.state in (RunState.FAILED, RunState.CANCELLED):
        known = (
            "" if run.cause is not None else "Nothing more is known of why it ended; its journal is kept. "
        )
        return f"{known}It cannot go on; {key('fork')} launches a new run from what is recorded."
    if run.state is RunState.INTERRUPTED:
        return f"Its journal cannot be used, so it cannot go on. {key('cancel')} cancels it, {key('delete')} deletes it."
    if run.state in UNSETTLED_STATES:
        return _unsettled(run, key)
    return _waiting(run, now, key)


def _under_way(run: RunSummary | RunView) -> str:
    if run.cancel_requested:
        return "Its children are interrupted and observed until they end; then it is cancelled."
    if run.state is RunState.QUEUED:
        return "It starts as soon as there is a place for it."
    if not isinstance(run, RunView):
        return ""
    asked = [step for step in run.steps if step.status is StepStatus.RUNNING]
    queued = [step for step in run.steps if step.status is StepStatus.QUEUED]
    if not asked and not queued:
        return "The script itself is at work; no step is open."
    parts = [f"It waits for {_names(asked)}"] if asked else []
    if queued:
        what = f"{_names(queued)} {'waits' if len(queued) == 1 else 'wait'} for a place"
        parts.append(what if asked else f"Its {'step' if len(queued) == 1 else 'steps'} {what}")
    return "; ".join(parts) + "."


def _waiting(run: RunSummary | RunView, now: int, key: Key) -> str:
    """A run that is paused, waits for approval, or is recoverable."""
    gone = run.state is RunState.RECOVERABLE
    if run.cancel_requested:
        return (
            f"Only cancel can finish it: {key('cancel')} observes its children and ends it." if gone else ""
        )
    wait = run.waiting
    if wait is not None and expired(wait, now):
        return "Nobody answered in time, so it does not go on: whoever owns it ends it as failed."
    if wait is not None and wait.kind == "pause":
        more = f"{key('recover')} shows what recovering does" if gone else "The script stands at its pause"
        return f"{more}; {key('resume')} {'recovers and resumes it' if gone else 'resumes it'}."
    if wait is not None and wait.kind == "checkpoint":
        then = "; deciding there recovers it first" if gone else ", where you approve or reject it"
        return f"A person must judge the output: {key('review')} shows its exact bytes in Review{then}."
    return f"Nobody works on it any more: {key('recover')} shows what recovering it would do, and asks."


def _unsettled(run: RunSummary | RunView, key: Key) -> str:
    steps = unsettled(run) if isinstance(run, RunView) else []
    of = _names(steps) or "a step"
    if run.state is RunState.WAITING_INPUT:
        what = "A child run asks a person, who cannot answer it here"
    else:
        what = "Nothing is asked again by itself"
    then = "cancelled" if run.cancel_requested else "recoverable"
    return (
        f"{what}. Find out what became of {of}; {key('reconcile')} puts it on record, then the run is {then}."
    )


def _names(steps: Sequence[StepView]) -> str:
    named = [inert(step.step_id) for step in steps[:_NAMED]]
    if len(steps) > _NAMED:
        named.append(f"{len(steps) - _NAMED} more")
    return " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else "".join(named)


def words_of_capture(step: StepView) -> str:
    """A captured file in one inert line: path, media type, size, hash. Empty for what is no finished capture."""
    made = step.output if isinstance(step.output, dict) else {}
    given = step.input if isinstance(step.input, dict) else {}
    if step.artifact_version is None or "size" not in made:
        return ""
    size = made["size"]
    parts = [
        str(given.get("path", "")),
        str(made.get("mediaType", "")),
        words.kib(size) if isinstance(size, int) and not isinstance(size, bool) else "",
        words.hash7(step.artifact_version),
    ]
    return inert("  ".join(part for part in parts if part))
