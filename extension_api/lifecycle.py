"""The start and the stop of tasks (contract 0.1.1). A task is one lead run or one subagent execution."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from .state import ExtensionData


class TaskOutcome(StrEnum):
    """How a task ended: it finished or waits for a person, it was stopped, or anything else."""

    COMPLETED = "completed"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass(frozen=True)
class TaskInfo:
    """Identity of a task. ``task_id`` names it; the scope id of its store may differ for a subagent.

    ``resumed`` is true for a task that is observed again after a restart of the host.
    """

    task_id: str
    run_id: str
    thread_id: str
    kind: Literal["lead", "subagent"]
    parent_task_id: str | None = None
    agent_name: str | None = None
    resumed: bool = False


class TaskLifecycleContributor(Protocol):
    """Hooks around each task. All contributors share one budget of three seconds per batch.

    The same ``task_store`` is given to both hooks. A start may have been skipped, so a stop tolerates
    whatever is missing.
    """

    async def on_task_start(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo
    ) -> None:
        """Called before the agent is built."""
        return

    async def on_task_stop(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        """Called after the host has recorded how the task ended and before it publishes that."""
        return
