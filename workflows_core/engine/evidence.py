"""What is known of an uncertain step: what a person is shown before they attest, and what the attestation is bound to."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from extension_api.agent_runs import AgentRuns, AgentRunStatus, AgentRunView

from .. import document, jsontext
from ..model import RunRecord, StepView
from .children import step_key

#: Child runs that came to an end of their own: these did run, whatever became of the step.
ENDED: Final = (AgentRunStatus.SUCCESS, AgentRunStatus.ERROR, AgentRunStatus.TIMEOUT)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The step as the journal tells it, and its child run as the host's record tells it now.

    ``hash`` covers all of it. ``child_run_id`` is None where the host has no record of a child run; ``output`` is
    there with ``has_output``, once the child run has succeeded.
    """

    hash: str
    step_id: str
    child_run_id: str | None = None
    status: str | None = None
    error: str | None = None
    output: Any = None
    has_output: bool = False
    output_hash: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the host's record says that the child run ended by itself."""
        return self.status in ENDED


async def find_evidence(record: RunRecord, step: StepView, runs: AgentRuns) -> Evidence:
    """Ask the host about the step's child run. Raises as ``AgentRuns.find``."""
    return _evidence(
        step, await runs.find(step_key(record.run_id, step.step_id, step.attempt, step.readmitted))
    )


def _evidence(step: StepView, view: AgentRunView | None) -> Evidence:
    child: dict[str, Any] | None = None
    output_hash: str | None = None
    error: str | None = None
    if view is not None:
        if view.status is AgentRunStatus.SUCCESS:
            output_hash = _output_hash(view.output)
        if view.error_message is not None:  # an Agent's text, which may hold what is no Unicode
            error = view.error_message.encode("utf-8", "backslashreplace").decode("utf-8")
        child = {
            "run_id": view.run_id,
            "status": view.status.value,
            "error": error,
            "output_sha256": output_hash,
        }
    known = {"step": document.step_document(step), "child": child}
    return Evidence(
        hash=jsontext.sha256(jsontext.encode(known)),
        step_id=step.step_id,
        child_run_id=None if view is None else view.run_id,
        status=None if view is None else view.status.value,
        error=error,
        output=view.output if view is not None and output_hash is not None else None,
        has_output=output_hash is not None,
        output_hash=output_hash,
    )


def _output_hash(output: Any) -> str | None:
    """None for what is no JSON value, which cannot be anybody's output."""
    try:
        return jsontext.sha256(jsontext.encode(output, "the output"))
    except jsontext.JsonRefused:
        return None
