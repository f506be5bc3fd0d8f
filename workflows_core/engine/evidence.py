"""What is known of an uncertain step: what a person is shown before they attest, and what the attestation is bound to."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any, Final

import msgspec

from extension_api.agent_runs import AgentRuns, AgentRunStatus, AgentRunView

from .. import document, jsontext
from ..model import RunRecord, StepView
from .children import step_key

logger = logging.getLogger(__name__)

#: How long a child run that is active on record is observed before it counts as running still.
LOOK_SECONDS: Final = 1.0
#: Child runs that came to an end of their own: these did run, whatever became of the step.
ENDED: Final = (
    AgentRunStatus.SUCCESS,
    AgentRunStatus.ERROR,
    AgentRunStatus.TIMEOUT,
    AgentRunStatus.WAITING_INPUT,
)
_ACTIVE: Final = (AgentRunStatus.PENDING, AgentRunStatus.RUNNING)


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

    @property
    def running(self) -> bool:
        """Whether the host observes the child run, which has not ended."""
        return self.status in _ACTIVE


async def find_evidence(record: RunRecord, step: StepView, runs: AgentRuns) -> Evidence:
    """Ask the host about the step's child run, and observe it for a moment where it is active on record.

    One that cannot be observed is unknown, whatever its record says. Raises as ``AgentRuns.find``.
    """
    view = await runs.find(step_key(record.run_id, step.step_id, step.attempt, step.readmitted))
    if view is not None and view.status.active:
        view = await _observed(view, runs)
    return _evidence(step, view)


async def _observed(view: AgentRunView, runs: AgentRuns) -> AgentRunView:
    """The view after a moment's observation: a record alone may be that of an owner who died."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await runs.observe(view.run_id)
    except TimeoutError:
        return view
    except Exception as error:  # noqa: BLE001 - whatever a host raises, it does not see the child run
        logger.warning("looking at child run %s failed with %s", view.run_id, type(error).__name__)
        said = f"it was {view.status.value}, but the host cannot see it now ({type(error).__name__})"
        return replace(view, status=AgentRunStatus.UNKNOWN, error_message=said)


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
