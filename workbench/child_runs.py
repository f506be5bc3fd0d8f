"""Child runs of a run as the host keeps them: their events, and how the assembly of each Agent differs from the
one before it. Read beside whoever owns the workspace; nothing is written. Times are microseconds since the epoch.

Versions of an assembly are keyed with a secret of one host lifetime: across lifetimes they cannot be compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .hostview_assembly import CHANGED, NOT_COMPARABLE, ONLY, SAME, Change, changes
from .hostview_stores import ask

if TYPE_CHECKING:
    from pathlib import Path

    from workflows_core.model import RunView

#: Events of one child run that are read; a person is told where there are more.
MOST_EVENTS: Final = 2_000
#: Bytes of an event's content that are read; the rest of a longer one stays in the store.
MOST_CONTENT: Final = 64 * 1024

_CHILD: Final = (
    "SELECT run_id, thread_id, agent_ref, workflow_run, step_id, attempt, backend, badge, durable, status, "
    "created_at, updated_at FROM child_runs WHERE run_id = ?"
)
_EVENTS: Final = (
    "SELECT seq, event_type, category, substr(content, 1, ?2), length(content), metadata, created_at FROM events "
    "WHERE thread_id = (SELECT thread_id FROM child_runs WHERE run_id = ?1) AND run_id = ?1 ORDER BY seq LIMIT ?3"
)
_OF_RUN: Final = (
    "SELECT run_id, agent_ref, incarnation, evidence, created_at, workflow_run, step_id FROM child_runs "
    "WHERE run_id = ? AND evidence IS NOT NULL"
)
_EARLIER: Final = (
    "SELECT run_id, agent_ref, incarnation, evidence, created_at, workflow_run, step_id FROM child_runs "
    "WHERE agent_ref = ? AND evidence IS NOT NULL AND (created_at, run_id) < (?, ?) "
    "ORDER BY created_at DESC, run_id DESC LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class ChildEvent:
    """One event. ``content`` and ``metadata`` are JSON text; ``cut`` says that the content is longer."""

    seq: int
    event_type: str
    category: str
    content: str | None
    metadata: str
    at: int
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A child run with its events in their order; ``more`` says that there are others behind them.

    ``durable`` tells whether it outlives this host.
    """

    run_id: str
    thread_id: str
    agent: str
    workflow_run: str
    step_id: str
    attempt: int
    backend: str
    badge: str
    durable: bool
    status: str
    created_at: int
    updated_at: int
    events: Sequence[ChildEvent] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class Assembled:
    """How the assembly of one step's Agent compares with the one before it of the same Agent.

    ``comparison`` is ``only`` (there is none before it), ``same``, ``changed`` (``changes`` says what) or ``not
    comparable``. ``before_run`` and ``before_step`` say whose that one was, ``before_at`` when.
    """

    comparison: str
    changes: Sequence[Change] = ()
    before_run: str = ""
    before_step: str = ""
    before_at: int | None = None


def child_run(store: Path, run_id: str) -> ChildRun | None:
    """The child run ``run_id``; None where the host's store knows none. Blocks. Raises StoreError."""
    found, rows = ask(store, ((_CHILD, (run_id,)), (_EVENTS, (run_id, MOST_CONTENT, MOST_EVENTS + 1))))
    if not found:
        return None
    child, thread, agent, workflow_run, step, attempt, backend, badge, durable, status, made, last = found[0]
    events = [
        ChildEvent(seq, kind, category, content, metadata, at, (length or 0) > MOST_CONTENT)
        for seq, kind, category, content, length, metadata, at in rows[:MOST_EVENTS]
    ]
    return ChildRun(
        child, thread, agent, workflow_run, step, attempt, backend, badge, bool(durable), status, made, last,
        events, len(rows) > MOST_EVENTS,
    )  # fmt: skip


def assemblies(store: Path, view: RunView) -> Mapping[str, Assembled]:
    """For each step with evidence, by its id: how its Agent's assembly compares with the one before it.

    Blocks. Raises StoreError. Steps whose child run the host's store does not know are left out.
    """
    found: dict[str, Assembled] = {}
    asked = [step for step in view.steps if step.evidence and step.child_run_id is not None]
    own = ask(store, [(_OF_RUN, (step.child_run_id,)) for step in asked])
    known = [(step, rows[0]) for step, rows in zip(asked, own, strict=True) if rows]
    before = ask(store, [(_EARLIER, (row[1], row[4], row[0])) for _step, row in known])
    for (step, row), earlier in zip(known, before, strict=True):
        found[step.step_id] = _compared(row, earlier[0] if earlier else None)
    return found


def _compared(row: Sequence[Any], before: Sequence[Any] | None) -> Assembled:
    if before is None:
        return Assembled(ONLY)
    _run, _agent, lifetime, evidence, at, workflow_run, step_id = before
    if lifetime != row[2]:
        return Assembled(NOT_COMPARABLE, (), workflow_run, step_id, at)
    differing = changes(_json(evidence), _json(row[3]))
    return Assembled(CHANGED if differing else SAME, differing, workflow_run, step_id, at)


def _json(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
