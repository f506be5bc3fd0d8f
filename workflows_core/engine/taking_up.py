"""Taking up a recorded run: what each call of its journal was, and what becomes of those without a response.

A recovery and its preview read the journal here, so that both judge a call exactly as the live run did: in the
order of the frames, against what the run had at that point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from .. import jsontext
from ..journal.frames import Frame, FrameKind
from ..model import Decision, StepKind, StepStatus, StepView
from .calls import Asked, CallReader
from .captures import CaptureCall, ReadCall
from .children import Outcome, OutcomeKind
from .waits import WaitCall, answer

_KINDS = {"agent": StepKind.AGENT, "checkpoint": StepKind.CHECKPOINT, "capture": StepKind.CAPTURE}


class TakenUp(msgspec.Struct, frozen=True):
    """A recorded call without a response.

    ``asked`` is what the call was when it was made, a refusal included. ``outcome`` is given where the answer
    is known already: a refusal, a decision of a person, a result that was kept. Otherwise the call goes on.
    """

    call: Mapping[str, Any]
    asked: Asked
    step: StepView | None
    outcome: Outcome | None

    @property
    def kind(self) -> StepKind | None:
        """The kind of step that an answer to this call ends; None for a refusal of anything but an agent."""
        if isinstance(self.asked, WaitCall):
            return self.asked.kind
        return StepKind.AGENT if self.call["op"] == "agent" else None


def read_journal(reader: CallReader, frames: Sequence[Frame]) -> dict[int, Asked]:
    """Read every recorded call in its order, by call id; quotas and approvals stand afterwards as they stood.

    Raises Fault and WorkerDied where a recorded call could not have been made.
    """
    asked: dict[int, Asked] = {}
    calls: dict[int, Mapping[str, Any]] = {}
    for frame in frames:
        if frame.kind is FrameKind.REQUEST:
            for call in jsontext.parse(frame.body, f"frame {frame.number}")["calls"]:
                what = reader.read(call, None)
                if "id" in call:
                    asked[call["id"]], calls[call["id"]] = what, call
        elif frame.kind is FrameKind.RESPONSE:
            for result in jsontext.parse(frame.body, f"frame {frame.number}")["results"]:
                call = calls.get(result["id"], {})
                kind = _KINDS.get(call.get("op", ""))
                value = result.get("value")
                if result["ok"] and kind is not None and isinstance(value, Mapping):
                    reader.answered(call["step_id"], kind, value)
    return asked


def take_up(
    unanswered: Iterable[Mapping[str, Any]],
    asked: Mapping[int, Asked],
    steps: Iterable[StepView],
    decisions: Iterable[Decision],
) -> list[TakenUp]:
    """What becomes of each call without a response, in the order of the calls."""
    by_id = {step.step_id: step for step in steps}
    decided = {(item.step_id, item.attempt): item for item in decisions}
    taken = []
    for call in unanswered:
        what = asked[call["id"]]
        step = by_id.get(call.get("step_id", ""))
        taken.append(TakenUp(call, what, step, _known(what, step, decided)))
    return taken


def _known(what: Asked, step: StepView | None, decided: Mapping[tuple[str, int], Decision]) -> Outcome | None:
    if isinstance(what, Outcome):
        return what
    if isinstance(what, WaitCall):
        decision = decided.get((what.step_id, what.attempt))
        return None if decision is None else answer(decision, what.artifact_version)
    if step is None or isinstance(what, CaptureCall | ReadCall):
        return None
    if step.undelivered is not None:
        return Outcome(OutcomeKind.SUCCESS, value=step.undelivered)
    if step.status is StepStatus.FAILED and step.error is not None:
        return Outcome(OutcomeKind.FAILED, code=step.error.code, message=step.error.message)
    return None
