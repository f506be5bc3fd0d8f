"""What recovering a run would do, said from a bundle alone: without its host, its Agents and its configuration.

What only the customer's host can answer is "unknown here", and ``compatible`` is then None. Steps whose child run is
known to outlive a crash count as observed; one that was being admitted, or ran inside the host, as uncertain.
"""

from __future__ import annotations

from collections.abc import Collection

from ..engine.calls import CallReader, Fault
from ..engine.children import Outcome
from ..engine.recovery import Preview, StepAt
from ..engine.taking_up import read_journal
from ..model import RunState, StepKind, StepStatus, StepView, now
from ..worker.process import WorkerDied, runtime_signature
from .bundle import Bundle
from .replay import ReplayEnd
from .verify import replay_end, verify_bundle

_OUTLIVES = ("stub", "recorded")


async def preview_bundle(bundle: Bundle) -> Preview:
    """A preview of recovering the run in ``bundle``, by a dry replay where it can be executed."""
    record = bundle.record
    if record.state.final:
        return Preview(compatible=False, reasons=(_not_recoverable(record.state),))
    reasons: list[str] = []
    if record.state is not RunState.RECOVERABLE:
        reasons.append(_not_recoverable(record.state))
    if record.cancel_requested_at is not None:
        reasons.append("a cancel is recorded, so only cancel can finish this run")
    if record.runtime_signature != runtime_signature():
        reasons.append(
            "it was run by another version of the worker than this one; its own version must recover it"
        )
    wait = record.waiting
    if wait is not None and wait.expires_at is not None and wait.expires_at <= now():
        reasons.append(f"the wait of {wait.step_id} has expired")
    blocked = bool(reasons)
    if bundle.redacted:
        reasons.append("unknown here: the bundle is redacted, so its replay cannot be repeated")
        verdict = await verify_bundle(bundle)
        end = None
    else:
        verdict = await verify_bundle(bundle)
        end = await replay_end(bundle) if verdict.holds else None
    if not verdict.holds:
        where = f" at frame {verdict.divergence.frame}" if verdict.divergence is not None else ""
        reasons.append(f"its replay is {verdict.verdict}{where}, so recovery would fail")
        return Preview(compatible=False, reasons=tuple(reasons))
    try:
        refused = _refused(bundle) if end is not None else frozenset()
    except (Fault, WorkerDied) as error:
        reasons.append(f"recovery would fail, since the run could not have made its calls: {error}")
        return Preview(compatible=False, reasons=tuple(reasons))
    if not blocked:
        reasons.append("unknown here: the configuration and the permissions of the workspace that ran it")
    return _sorted(bundle, end, refused, False if blocked else None, reasons)


def _not_recoverable(state: RunState) -> str:
    return f"the run is {state.value.replace('_', ' ')}, not recoverable"


def _sorted(
    bundle: Bundle,
    end: ReplayEnd | None,
    refused: Collection[str],
    compatible: bool | None,
    reasons: list[str],
) -> Preview:
    groups: dict[str, list[StepAt]] = {"reused": [], "observed": [], "uncertain": [], "new": []}
    decided = {(item.step_id, item.attempt) for item in bundle.decisions}
    for step in bundle.view().steps:
        group = None
        if step.kind in (StepKind.PAUSE, StepKind.CHECKPOINT):
            answered = step.response_frame is not None or (step.step_id, step.attempt) in decided
            group = "reused" if answered else None
        elif step.step_id not in refused or step.response_frame is not None:
            group = _group(step)
        if group is not None:
            groups[group].append(StepAt(step.step_id, step.line, step.column))
            if group == "uncertain":
                what = f"child run {step.child_run_id}" if step.child_run_id else "a child run"
                reasons.append(f"unknown here: what the host knows of {what} of {step.step_id}")
    turn = end.next_turn if end is not None else None
    for request in turn.requests if turn is not None else ():
        for call, position in zip(request.calls, request.positions, strict=True):
            if call["op"] in ("agent", "capture"):
                line, column = position if position is not None else (None, None)
                groups["new"].append(StepAt(call["step_id"], line, column))
    found = {name: tuple(steps) for name, steps in groups.items()}
    return Preview(**found, compatible=compatible, reasons=tuple(reasons))


def _refused(bundle: Bundle) -> frozenset[str]:
    """Steps whose call was refused when it was made: they are refused again, and nothing is started."""
    asked = read_journal(CallReader(bundle.record), bundle.frames)
    calls = {step.call_id: step.step_id for step in bundle.view().steps}
    return frozenset(
        calls[call] for call, what in asked.items() if isinstance(what, Outcome) and call in calls
    )


def _group(step: StepView) -> str:
    """Where an Agent call or a capture belongs."""
    if step.response_frame is not None or step.undelivered is not None:
        return "reused"
    if step.kind is StepKind.CAPTURE or step.status is StepStatus.QUEUED:
        return "new"
    if step.child_run_id is not None and (step.badge in _OUTLIVES or step.status is StepStatus.COMPLETED):
        return "observed"
    if step.status is StepStatus.FAILED and step.error is not None:
        return "reused"
    return "uncertain"
