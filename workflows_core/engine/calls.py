"""Reading the calls of a request frame: what the worker asks for, checked before it is committed.

The worker is not trusted: the prelude has already refused bad calls in words, so a call that breaks the
format here is a fault of the worker. A call over a limit is a fault of the run: it stops, whatever the
script catches, and nothing of that turn is committed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from extension_api.agent_runs import AgentRunRequest, AgentRuns

from .. import jsontext, limits
from ..model import Cause, RunRecord, StepKind
from ..worker.process import WorkerDeath, WorkerDied
from .captures import CaptureCall, ReadCall
from .children import Child, Outcome, OutcomeKind, step_key, thread_id
from .waits import WaitCall

STEP_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.STEP_ID_LENGTH}}}")

Position = tuple[int, int] | None
Asked = Child | WaitCall | CaptureCall | ReadCall | Outcome | None


class Fault(Exception):
    """The run must fail for this cause, whatever the script catches."""

    def __init__(self, code: str, message: str, position: Position = None) -> None:
        super().__init__(message)
        line, column = position if position is not None else (None, None)
        self.cause = Cause(code, message, line, column)


class CallReader:
    """Counts and checks the calls of one run, in order, against what the run has so far.

    ``completed`` maps a step to (artifact version, child run id), ``captured`` the versions of captures to
    their step, ``approved`` the versions that a person approved in this run.
    """

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._steps: set[str] = set()
        self._agent_calls = 0
        self._checkpoints = 0
        self._captures = 0
        self._log_lines = 0
        self.completed: dict[str, tuple[str | None, str | None]] = {}
        self.captured: dict[str, str] = {}
        self.approved: set[str] = set()

    def read(self, call: Mapping[str, Any], position: Position) -> Asked:
        """What a call asks for, an outcome to give at once, or None (a log line).

        Raises Fault for what is over a limit and WorkerDied for what breaks the format.
        """
        op = call.get("op")
        if op == "log":
            self._log(call, position)
            return None
        if op == "agent":
            return self._agent(call, position)
        if op == "pause":
            return WaitCall(call["id"], StepKind.PAUSE, self._step_id(call), position)
        if op == "checkpoint":
            return self._checkpoint(call, position)
        if op == "capture":
            return self._capture(call, position)
        if op == "read":
            return self._read(call, position)
        raise _broken(f"an unknown call {str(op)[:40]!r}")

    def _step_id(self, call: Mapping[str, Any]) -> str:
        step_id = call.get("step_id")
        if not isinstance(step_id, str) or STEP_ID.fullmatch(step_id) is None:
            raise _broken("a call with an invalid stepId")
        if step_id in self._steps:
            raise _broken(f"the stepId {step_id} twice")
        self._steps.add(step_id)
        return step_id

    def _agent(self, call: Mapping[str, Any], position: Position) -> Child | Outcome:
        step_id = self._step_id(call)
        agent_ref = call.get("agent_ref")
        if not isinstance(agent_ref, str) or "task" not in call:
            raise _broken("an agent call without agentRef or task")
        self._agent_calls += 1
        most = self._record.limits.max_calls
        if self._agent_calls > most:
            raise Fault(
                "call_limit",
                f"{step_id} would be Agent call {self._agent_calls}; max_calls admits {most}",
                position,
            )
        versions = list(call.get("artifacts", ()))
        if not all(isinstance(version, str) for version in versions):
            raise _broken("an agent call with artifacts that are no versions")
        whole = {"artifacts": [{"sha256": item, "version": item} for item in versions], "task": call["task"]}
        size = jsontext.size(whole, f"the task of {step_id}")
        if size > limits.TASK_BYTES:
            raise Fault(
                "task_too_large",
                f"the input of {step_id} takes {size:,} bytes; admitted are {limits.TASK_BYTES:,}. "
                "Pass less, or a captured file",
                position,
            )
        if agent_ref not in self._record.agents:
            return _refusal(
                "unknown_agent",
                f"the agent {agent_ref[:80]} is not in this workspace's list of allowed agents",
            )
        for version in versions:
            if version not in self.captured:
                return _refusal("unknown_artifact", f"{version[:80]} is no version that this run captured")
            if version not in self.approved:
                return _refusal(
                    "not_approved",
                    f"version {version[:7]} has not been approved; only approved versions reach an Agent",
                )
        return Child(call["id"], position, agent_request(self._record, step_id, agent_ref, whole))

    def _checkpoint(self, call: Mapping[str, Any], position: Position) -> WaitCall | Outcome:
        step_id = self._step_id(call)
        source, version = call.get("source_step_id"), call.get("artifact_version")
        if not isinstance(source, str) or not isinstance(version, str):
            raise _broken("a checkpoint without sourceStepId or artifactVersion")
        self._checkpoints += 1
        most = self._record.limits.max_calls
        if self._checkpoints > most:
            raise Fault(
                "checkpoint_limit", f"{step_id} would be checkpoint {self._checkpoints} of {most}", position
            )
        known = self.completed.get(source)
        if known is None:
            return _refusal("unknown_source", f"sourceStepId {source[:80]} is no completed step of this run")
        if known[0] != version:
            return _refusal(
                "wrong_version",
                f"artifactVersion is not the version of {source}, which is {str(known[0])[:7]}",
            )
        return WaitCall(call["id"], StepKind.CHECKPOINT, step_id, position, source, version)

    def _capture(self, call: Mapping[str, Any], position: Position) -> CaptureCall | Outcome:
        step_id = self._step_id(call)
        source, path = call.get("source_step_id"), call.get("path")
        if not isinstance(source, str) or not isinstance(path, str):
            raise _broken("a capture without sourceStepId or path")
        self._captures += 1
        if self._captures > limits.CAPTURES_PER_RUN:
            raise Fault(
                "capture_limit",
                f"{step_id} would be capture {self._captures}; admitted are {limits.CAPTURES_PER_RUN}",
                position,
            )
        known = self.completed.get(source)
        if known is None:
            return _refusal(
                "unknown_source", f"sourceStepId {source[:80]} is no completed Agent step of this run"
            )
        if known[1] is None:
            return _refusal(
                "unknown_source",
                f"sourceStepId {source[:80]} was attested and has no child run, so there is no folder to capture from",
            )
        return CaptureCall(call["id"], step_id, source, path, position)

    def _read(self, call: Mapping[str, Any], position: Position) -> ReadCall | Outcome:
        version, offset = call.get("artifact_version"), call.get("offset", 0)
        if not isinstance(version, str) or isinstance(offset, bool) or not isinstance(offset, int):
            raise _broken("a read without artifactVersion or offset")
        if version not in self.captured:
            return _refusal("unknown_artifact", f"{version[:80]} is no version that this run captured")
        return ReadCall(call["id"], version, offset, position)

    def _log(self, call: Mapping[str, Any], position: Position) -> None:
        message = call.get("message")
        if not isinstance(message, str):
            raise _broken("a log call without a message")
        self._log_lines += 1
        if self._log_lines > limits.LOG_MESSAGES:
            raise Fault("log_limit", f"more than {limits.LOG_MESSAGES} log() messages", position)
        size = jsontext.size(message, "a log message")
        if size > limits.LOG_BYTES:
            raise Fault(
                "log_too_large",
                f"a log() message takes {size:,} bytes; admitted are {limits.LOG_BYTES}",
                position,
            )

    def answered(self, step_id: str, kind: StepKind, value: Mapping[str, Any]) -> None:
        """Take note of a successful response."""
        version = _text(value.get("artifactVersion"))
        if kind is StepKind.AGENT:
            self.completed[step_id] = (version, _text(value.get("runId")))
        elif kind is StepKind.CAPTURE and version is not None:
            self.completed[step_id] = (version, None)
            self.captured[version] = step_id
        elif kind is StepKind.CHECKPOINT and version is not None:
            self.approved.add(version)


def agent_request(
    record: RunRecord, step_id: str, agent_ref: str, whole: Mapping[str, Any], readmitted: int = 0
) -> AgentRunRequest:
    """The request for one agent step. A step attested not to have run gets a key of its own for each try."""
    return AgentRunRequest(
        agent_ref=agent_ref,
        thread_id=thread_id(record.run_id, step_id, 1),
        idempotency_key=step_key(record.run_id, step_id, 1, readmitted),
        input=whole,
        metadata={"workflow_run_id": record.run_id, "step_id": step_id, "attempt": "1"},
        options=record.options,
    )


def changed_configuration(record: RunRecord, runs: AgentRuns) -> str:
    """What of the configuration changed since the launch, by its paths.

    A change of the host's secret changes every digest, since they are keyed with it.
    """
    then, today = record.configuration_components, runs.configuration_components(record.options)
    changed = sorted(path for path in then.keys() | today.keys() if then.get(path) != today.get(path))
    if not changed or (then and len(changed) == len(then.keys() | today.keys())):
        return "the configuration or the host's secret changed since the launch"
    return f"the configuration changed since the launch ({', '.join(changed[:5])})"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _refusal(code: str, message: str) -> Outcome:
    return Outcome(OutcomeKind.FAILED, code=code, message=message)


def _broken(what: str) -> WorkerDied:
    return WorkerDied(WorkerDeath.PROTOCOL, f"the worker sent {what}; it was stopped")
