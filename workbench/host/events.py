"""The events of a child run, and the answers that the host itself gives."""

from __future__ import annotations

from typing import Final

from extension_api.agent_runs import AgentRunStatus

from ..agents.base import Answer, Call
from .store import Event, to_json

LOST: Final = Answer(
    AgentRunStatus.INTERRUPTED,
    error_code="host_gone",
    error_message="it ran inside a workbench process that has ended",
)
SUPERSEDED: Final = Answer(
    AgentRunStatus.UNKNOWN,
    error_code="superseded",
    error_message="a person attested that it did not run, and its step was started again",
)
INTERRUPTED: Final = Answer(
    AgentRunStatus.INTERRUPTED, error_code="interrupted", error_message="it was interrupted"
)


def opening_events(call: Call, text: str, at: int) -> list[Event]:
    """The events of a start; ``text`` is the JSON of the child's input."""
    metadata = to_json({"workflow_run_id": call.run_id, "step_id": call.step_id, "attempt": call.attempt})
    return [
        Event("run_start", "lifecycle", None, metadata, at),
        Event("human_message", "message", text, "{}", at),
    ]


def closing_events(answer: Answer, at: int) -> list[Event]:
    """The events of an end: the answer where there is one, and how it ended."""
    events: list[Event] = []
    if answer.status is AgentRunStatus.SUCCESS:
        events.append(Event("ai_message", "message", to_json(answer.output), "{}", at))
    metadata = {"status": answer.status.value}
    if answer.answered_by is not None:
        metadata["answered_by"] = answer.answered_by
    if answer.error_message is not None:
        metadata["error"] = answer.error_message
    events.append(Event("run_end", "lifecycle", None, to_json(metadata), at))
    return events
