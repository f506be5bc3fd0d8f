"""The reducer: frames and marks in, an immutable RunView out.

What is shown of a run is computed here and nowhere else, for a live run, a stored one and an opened file
alike. ``RunReducer`` is fed in journal order and can be asked for the view at any moment; feeding a frame
costs only what that frame changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from .. import jsontext
from ..model import (
    WAIT_EXPIRED,
    Cause,
    Decision,
    FrameView,
    LogLine,
    RunRecord,
    RunSummary,
    RunView,
    StepKind,
    StepStatus,
    StepView,
)
from .frames import ChildNote, Frame, FrameKind, Mark, Side

STEP_KINDS = {
    "agent": StepKind.AGENT,
    "pause": StepKind.PAUSE,
    "checkpoint": StepKind.CHECKPOINT,
    "capture": StepKind.CAPTURE,
}


_WAITS = (StepKind.PAUSE, StepKind.CHECKPOINT)


class RunReducer:
    """Folds one run's journal. ``script`` is the script's text, kept for the source views."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._steps: dict[str, StepView] = {}
        self._by_call: dict[int, str] = {}
        self._log: list[LogLine] = []
        self._frames: list[FrameView] = []
        self._args: Any = None
        self._last_at = 0
        self._marks = 0
        self._hash = b""
        #: What of the journal cannot be read, in words; steps and log end there.
        self.damage: str | None = None

    @property
    def frame_count(self) -> int:
        return len(self._frames)

    @property
    def mark_count(self) -> int:
        return self._marks

    def feed(self, frame: Frame) -> None:
        """Take the next frame. From the first one that is no body of its kind on, frames are only counted."""
        self._last_at = max(self._last_at, frame.at)
        summary = ""
        if self.damage is None:
            try:
                summary = self._read(frame)
            except (jsontext.JsonRefused, LookupError, TypeError, AttributeError, ValueError):
                self.damage = f"frame {frame.number} cannot be read"
        self._side(frame.side, frame.at)
        body = frame.body.decode("utf-8", "replace")
        self._frames.append(
            FrameView(frame.number, frame.kind.value, frame.at, summary, body, frame.hash.hex())
        )

    def _read(self, frame: Frame) -> str:
        """Fold one frame in; what it says in a few words."""
        body = jsontext.parse(frame.body, f"frame {frame.number}")
        if frame.kind is FrameKind.START:
            self._args = body.get("args")
            return "start"
        if frame.kind is FrameKind.REQUEST:
            return self._request(frame, body)
        if frame.kind is FrameKind.RESPONSE:
            return self._response(frame, body)
        return "return" if body.get("ok") else str((body.get("error") or {}).get("code", "end"))

    def feed_mark(self, mark: Mark) -> None:
        self._marks += 1
        self._last_at = max(self._last_at, mark.at)
        self._side(mark.side, mark.at)

    def _request(self, frame: Frame, body: dict[str, Any]) -> str:
        names = []
        for index, call in enumerate(body.get("calls", ())):
            position = frame.side.positions[index] if index < len(frame.side.positions) else None
            line, column = position if position is not None else (None, None)
            kind = STEP_KINDS.get(call.get("op"))
            if call.get("op") == "log":
                self._log.append(LogLine(frame.at, call["message"], line, column, frame.number))
                names.append("log")
            elif kind is not None:
                step_id = call["step_id"]
                self._by_call[call["id"]] = step_id
                self._steps[step_id] = StepView(
                    step_id=step_id,
                    kind=kind,
                    attempt=1,
                    status=StepStatus.WAITING if kind in _WAITS else StepStatus.QUEUED,
                    agent_ref=call.get("agent_ref"),
                    artifact_version=call.get("artifact_version"),
                    call_id=call["id"],
                    line=line,
                    column=column,
                    requested_at=frame.at,
                    request_frame=frame.number,
                    input=_input(call),
                )
                names.append(step_id)
            else:
                names.append(str(call.get("op")))
        return " ".join(names)

    def _response(self, frame: Frame, body: dict[str, Any]) -> str:
        names = []
        for result in body.get("results", ()):
            step_id = self._by_call.get(result.get("id"))
            step = self._steps.get(step_id) if step_id is not None else None
            if step is None:
                names.append(f"call {result.get('id')}")
                continue
            names.append(step.step_id)
            if result.get("ok"):
                # Why the outcome was uncertain before it was attested is no error of a step that has succeeded.
                changes: dict[str, Any] = {"error": None, **_answered(step, result.get("value") or {})}
            else:
                error = result.get("error") or {}
                changes = {
                    "status": StepStatus.FAILED,
                    "error": Cause(str(error.get("code", "")), str(error.get("message", ""))),
                }
            self._steps[step.step_id] = msgspec.structs.replace(
                step, response_frame=frame.number, finished_at=frame.at, undelivered=None, **changes
            )
        return " ".join(names)

    def _side(self, side: Side, at: int) -> None:
        if side.unreadable and self.damage is None:
            self.damage = f"what stands beside frame {max(0, self.frame_count - 1)} cannot be read"
        for step_id in side.admitting:
            step = self._steps.get(step_id)
            if step is not None and step.status is StepStatus.QUEUED:
                self._steps[step_id] = msgspec.structs.replace(step, status=StepStatus.RUNNING, started_at=at)
        for step_id in side.readmitted:
            step = self._steps.get(step_id)
            if step is not None:
                self._steps[step_id] = msgspec.structs.replace(
                    step,
                    status=StepStatus.QUEUED,
                    child_run_id=None,
                    badge=None,
                    started_at=None,
                    finished_at=None,
                    error=None,
                    readmitted=step.readmitted + 1,
                )
        for step_id, note in side.children.items():
            step = self._steps.get(step_id)
            if step is None and self.damage is not None:
                # Its call stands in a part that cannot be read; that it was started is known all the same.
                step = StepView(
                    step_id=step_id,
                    kind=StepKind.AGENT,
                    attempt=1,
                    status=StepStatus.RUNNING,
                    requested_at=at,
                )
            if step is not None:
                self._steps[step_id] = _noted(step, note)

    def view(self, record: RunRecord, receipts: Sequence[Decision] = ()) -> RunView:
        """The view of ``record`` with the journal fed so far, and the receipts of its decisions."""
        owned = record.state.owned
        steps = tuple(step if owned else _settled(step, record) for step in self._steps.values())
        fields = _summary_fields(record, self._last_at)
        if self.damage is not None and (record.cause is None or not record.state.final):
            fields["cause"] = damaged_cause(self.damage)
        return RunView(
            **fields,
            steps=steps,
            log=tuple(self._log),
            frames=tuple(self._frames),
            script=self._script,
            args=self._args,
            agents=record.agents,
            options=record.options,
            limits=record.limits,
            definition=record.definition,
            receipts=tuple(receipts),
        )


def reduce_journal(script: str, frames: Sequence[Frame], marks: Sequence[Mark]) -> RunReducer:
    """A reducer that was fed a whole journal in its order."""
    reducer = RunReducer(script)
    pending = list(reversed(marks))
    for frame in frames:
        while pending and pending[-1].after_frame <= reducer.frame_count:
            reducer.feed_mark(pending.pop())
        reducer.feed(frame)
    while pending:
        reducer.feed_mark(pending.pop())
    return reducer


def damaged_cause(damage: str) -> Cause:
    """Why a run cannot be replayed: its journal was damaged in the store."""
    return Cause("journal_broken", f"its journal is damaged and cannot be replayed: {damage}")


def summary(record: RunRecord) -> RunSummary:
    """The list row of a record."""
    return RunSummary(**_summary_fields(record, 0))


def _summary_fields(record: RunRecord, last_at: int) -> dict[str, Any]:
    return {
        "run_id": record.run_id,
        "name": record.name,
        "owner": record.owner,
        "state": record.state,
        "cause": record.cause,
        "waiting": record.waiting,
        "result": record.result,
        "has_result": record.has_result,
        "script_hash": record.script_hash,
        "args_hash": record.args_hash,
        "request_id": record.request_id,
        "parent_run_id": record.parent_run_id,
        "created_at": record.created_at,
        "since": record.since,
        "last_progress": max(record.last_progress, last_at),
        "cancel_requested": record.cancel_requested_at is not None,
        "revision": record.revision,
    }


def _input(call: Mapping[str, Any]) -> Any:
    """What the script passed: an agent's task, or the names that a checkpoint or a capture refers to."""
    op = call.get("op")
    if op == "checkpoint":
        return {"sourceStepId": call.get("source_step_id"), "artifactVersion": call.get("artifact_version")}
    if op == "capture":
        return {"sourceStepId": call.get("source_step_id"), "path": call.get("path")}
    return call.get("task")


def _answered(step: StepView, value: Mapping[str, Any]) -> dict[str, Any]:
    """What a successful response says of a step."""
    if step.kind is StepKind.PAUSE:
        return {"status": StepStatus.COMPLETED}
    if step.kind is StepKind.CHECKPOINT:
        return {"status": StepStatus.APPROVED}
    if step.kind is StepKind.CAPTURE:
        return {
            "status": StepStatus.COMPLETED,
            "output": dict(value),
            "has_output": True,
            "artifact_version": value.get("artifactVersion"),
        }
    return {
        "status": StepStatus.COMPLETED,
        "output": value.get("output"),
        "has_output": "output" in value,
        "artifact_version": value.get("artifactVersion"),
        "thread_id": value.get("threadId", step.thread_id),
        "child_run_id": value.get("runId", step.child_run_id),
    }


def _noted(step: StepView, note: ChildNote) -> StepView:
    changes: dict[str, Any] = {}
    for field in ("thread_id", "child_run_id", "badge", "started_at", "finished_at", "status", "error"):
        value = getattr(note, field)
        if value is not None:
            changes[field] = value
    if note.evidence is not None:
        changes["evidence"] = note.evidence
    if note.late:
        changes["late"] = True
    if note.result is not None:
        changes["output"] = note.result.get("output")
        changes["has_output"] = "output" in note.result
        changes["artifact_version"] = note.result.get("artifactVersion")
        changes["undelivered"] = note.result
    return msgspec.structs.replace(step, **changes)


def _settled(step: StepView, record: RunRecord) -> StepView:
    """How an unfinished step reads once nobody works on the run any more."""
    wait, state = record.waiting, record.state
    if (
        step.status is StepStatus.WAITING
        and wait is not None
        and (step.step_id, step.attempt) == (wait.step_id, wait.attempt)
        and record.cause is not None
        and record.cause.code == WAIT_EXPIRED
    ):
        return msgspec.structs.replace(step, status=StepStatus.EXPIRED)
    if step.status is StepStatus.RUNNING and step.child_run_id is None and step.kind is StepKind.AGENT:
        return msgspec.structs.replace(step, status=StepStatus.UNCERTAIN)
    if step.status in (StepStatus.QUEUED, StepStatus.RUNNING, StepStatus.WAITING) and state.final:
        return msgspec.structs.replace(step, status=StepStatus.INTERRUPTED)
    return step
