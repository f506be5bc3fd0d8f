"""Reading the calls of a request frame: what the worker asks for, checked before it is committed.

The worker is not trusted: the prelude has already refused bad calls in words, so a call that breaks the
format here is a fault of the worker. A call over a limit is a fault of the run: it stops, whatever the
script catches, and nothing of that turn is committed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from extension_api.agent_runs import AgentRunRequest

from .. import jsontext, limits
from ..model import Cause, RunRecord
from ..worker.process import WorkerDeath, WorkerDied
from .children import Child, Outcome, OutcomeKind, idempotency_key, thread_id

STEP_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.STEP_ID_LENGTH}}}")

#: API calls that this engine answers with a refusal in words.
_REFUSED = {
    "pause": "pause",
    "checkpoint": "humanCheckpoint",
    "capture": "captureArtifact",
    "read": "readArtifact",
}


class Fault(Exception):
    """The run must fail for this cause, whatever the script catches."""

    def __init__(self, code: str, message: str, position: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        line, column = position if position is not None else (None, None)
        self.cause = Cause(code, message, line, column)


class CallReader:
    """Counts and checks the calls of one run, in order."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._steps: set[str] = set()
        self._agent_calls = 0
        self._log_lines = 0

    def read(
        self, call: Mapping[str, Any], position: tuple[int, int] | None
    ) -> tuple[Child | None, Outcome | None]:
        """A child to admit, an outcome to give at once, or neither (a log line).

        Raises Fault for what is over a limit and WorkerDied for what breaks the format.
        """
        op = call.get("op")
        if op == "log":
            self._log(call, position)
            return None, None
        if op == "agent":
            return self._agent(call, position)
        if op in _REFUSED:
            if op != "read":
                self._step_id(call)
            message = f"{_REFUSED[op]}() is not available in this version of the engine"
            return None, Outcome(OutcomeKind.FAILED, code="not_available", message=message)
        raise _broken(f"an unknown call {str(op)[:40]!r}")

    def _step_id(self, call: Mapping[str, Any]) -> str:
        step_id = call.get("step_id")
        if not isinstance(step_id, str) or STEP_ID.fullmatch(step_id) is None:
            raise _broken("a call with an invalid stepId")
        if step_id in self._steps:
            raise _broken(f"the stepId {step_id} twice")
        self._steps.add(step_id)
        return step_id

    def _agent(
        self, call: Mapping[str, Any], position: tuple[int, int] | None
    ) -> tuple[Child | None, Outcome | None]:
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
        whole = {"artifacts": list(call.get("artifacts", ())), "task": call["task"]}
        size = jsontext.size(whole, f"the task of {step_id}")
        if size > limits.TASK_BYTES:
            raise Fault(
                "task_too_large",
                f"the input of {step_id} takes {size:,} bytes; admitted are {limits.TASK_BYTES:,}. "
                "Pass less, or a captured file",
                position,
            )
        if agent_ref not in self._record.agents:
            message = f"the agent {agent_ref[:80]} is not in this workspace's list of allowed agents"
            return None, Outcome(OutcomeKind.FAILED, code="unknown_agent", message=message)
        if whole["artifacts"]:
            message = (
                "artifacts cannot be passed yet: no approved version exists in this version of the engine"
            )
            return None, Outcome(OutcomeKind.FAILED, code="not_available", message=message)
        run_id = self._record.run_id
        request = AgentRunRequest(
            agent_ref=agent_ref,
            thread_id=thread_id(run_id, step_id, 1),
            idempotency_key=idempotency_key(run_id, step_id, 1),
            input=whole,
            metadata={"workflow_run_id": run_id, "step_id": step_id, "attempt": "1"},
            options=self._record.options,
        )
        return Child(call["id"], position, request), None

    def _log(self, call: Mapping[str, Any], position: tuple[int, int] | None) -> None:
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


def _broken(what: str) -> WorkerDied:
    return WorkerDied(WorkerDeath.PROTOCOL, f"the worker sent {what}; it was stopped")
