"""The calls of manual agents that people must answer, as the host keeps them.

Read beside whoever owns the workspace, in one question to the host's store that looks only at child runs that have
not ended, however many runs there are. Nothing is written. Times are microseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .agents.names import MANUAL
from .hostview_stores import ask

if TYPE_CHECKING:
    from pathlib import Path

_OPEN: Final = (
    "SELECT workflow_run, step_id, attempt, agent_ref, run_id, created_at FROM child_runs "
    "WHERE status IN ('pending', 'running') AND backend = ? ORDER BY created_at, run_id"
)

_ENDING: Final = (
    "SELECT workflow_run, step_id FROM child_runs WHERE status IN ('pending', 'running') AND durable = 0 "
    "ORDER BY created_at, run_id"
)


@dataclass(frozen=True, slots=True)
class Question:
    """One call that has no answer yet. Whether it can still be answered says the state of its run."""

    run_id: str
    step_id: str
    attempt: int
    agent: str
    child_run_id: str
    since: int


def open_questions(store: Path) -> list[Question]:
    """Those without an answer, the oldest first; none where there is no store yet. Blocks. Raises StoreError."""
    (rows,) = ask(store, ((_OPEN, (MANUAL,)),))
    return [Question(*row) for row in rows]


def calls_that_end(store: Path) -> dict[str, list[str]]:
    """By run, the steps whose calls end with the process that runs them, so that nobody knows their outcome then.

    Blocks. Raises StoreError.
    """
    (rows,) = ask(store, ((_ENDING, ()),))
    found: dict[str, list[str]] = {}
    for run_id, step_id in rows:
        found.setdefault(run_id, []).append(step_id)
    return found
