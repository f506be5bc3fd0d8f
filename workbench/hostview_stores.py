"""What the stores of a workspace say about its host, read beside whoever owns it. Nothing is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from workflows_core.errors import StoreError
from workflows_core.store.opening import failed
from workflows_core.store.queries import read_only

from .logs import LOG_NAME

if TYPE_CHECKING:
    from .workspace import Workspace

#: The latest child runs whose assemblies and events are looked at, and the events that are kept of them.
CHILDREN: Final = 400
EVENTS: Final = 200
_BUSY_SECONDS: Final = 1.0
_EVENT_RUNS: Final = 80

_ASSEMBLIES: Final = (
    "SELECT agent_ref, incarnation, evidence, created_at, badge, workflow_run, step_id FROM child_runs "
    "WHERE evidence IS NOT NULL ORDER BY change DESC LIMIT ?"
)
# The change number rises with every start and end, so the latest events belong to the latest changes.
_EVENTS: Final = (
    "SELECT events.thread_id, events.seq, events.run_id, agent_ref, workflow_run, step_id, badge, event_type, "
    "category, content, metadata, events.created_at "
    "FROM (SELECT * FROM child_runs ORDER BY change DESC LIMIT ?) AS child "
    "JOIN events ON events.thread_id = child.thread_id AND events.run_id = child.run_id "
    "ORDER BY events.created_at DESC, events.thread_id, events.seq DESC LIMIT ?"
)
_ACTIVE: Final = (
    "SELECT workflow_run, agent_ref, step_id FROM child_runs WHERE status IN ('pending', 'running')"
)
_LOG_INS: Final = (
    "SELECT session_id, user_id, description, created_at, expires_at FROM sessions "
    "WHERE revoked_at IS NULL AND expires_at > ? ORDER BY created_at DESC"
)
_CAPTURED: Final = "SELECT owner, sum(size) FROM captures JOIN runs USING (run_id) GROUP BY owner"
_VERSIONS: Final = "SELECT owner, count(*) FROM definitions GROUP BY owner"


class StoreFile(NamedTuple):
    """A file of the workspace; ``size`` in bytes with its write-ahead log, None where it does not exist."""

    name: str
    path: Path
    size: int | None
    meaning: str


class AssemblyRow(NamedTuple):
    """The evidence (JSON text) of one child run. Equal ``lifetime`` means that versions can be compared."""

    agent: str
    lifetime: str
    evidence: str
    at: int
    badge: str
    workflow_run: str
    step_id: str


class HostEvent(NamedTuple):
    """One event of a child run; ``content`` and ``metadata`` are JSON text."""

    thread_id: str
    seq: int
    child_run_id: str
    agent: str
    workflow_run: str
    step_id: str
    badge: str
    event_type: str
    category: str
    content: str | None
    metadata: str
    at: int


class ActiveCall(NamedTuple):
    """A child run that has not ended."""

    workflow_run: str
    agent: str
    step_id: str


class LogIn(NamedTuple):
    """A log-in that has not expired."""

    session_id: str
    user_id: str
    description: str
    created_at: int
    expires_at: int


@dataclass(frozen=True)
class Stored:
    """What was found. ``captured`` is bytes by owner, ``versions`` saved versions by owner."""

    files: Sequence[StoreFile] = ()
    assemblies: Sequence[AssemblyRow] = ()
    events: Sequence[HostEvent] = ()
    active: Sequence[ActiveCall] = ()
    log_ins: Sequence[LogIn] = ()
    captured: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def read_stores(workspace: Workspace, at: int) -> Stored:
    """Read both stores. Blocking. What one of them refuses is a problem in words, by section.

    Raises ConfigurationError where the configuration does not say where the engine stores.
    """
    problems: dict[str, str] = {}
    engine, host = workspace.storage_path, workspace.host_store_path
    asked = ((_ASSEMBLIES, (CHILDREN,)), (_EVENTS, (_EVENT_RUNS, EVENTS)), (_ACTIVE, ()), (_LOG_INS, (at,)))
    try:
        assemblies, events, active, log_ins = ask(host, asked)
    except StoreError as error:
        problems["agents"] = problems["events"] = f"{error.title}. {error}"
        assemblies, events, active, log_ins = [], [], [], []
    try:
        captured, versions = ask(engine, ((_CAPTURED, ()), (_VERSIONS, ())))
    except StoreError as error:
        problems["stores"] = f"{error.title}. {error}"
        captured, versions = [], []
    return Stored(
        files=(
            _file("runs", engine, "runs, journals, captures, decisions, saved versions"),
            _file("host", host, "child runs with their events, accounts, settings"),
            _file("log", workspace.state_dir / LOG_NAME, "what the host and its extensions report"),
        ),
        assemblies=[AssemblyRow(*row) for row in assemblies],
        events=[HostEvent(*row) for row in events],
        active=[ActiveCall(*row) for row in active],
        log_ins=[LogIn(*row) for row in log_ins],
        captured=dict(captured),
        versions=dict(versions),
        problems=problems,
    )


def ask(path: Path, questions: Sequence[tuple[str, tuple[Any, ...]]]) -> list[list[Any]]:
    """The rows of each question, in one connection that only reads; none where there is no store yet. Blocks.

    Raises StoreError.
    """
    if not path.exists():
        return [[] for _ in questions]
    try:
        with closing(sqlite3.connect(read_only(path), uri=True, timeout=_BUSY_SECONDS)) as connection:
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if not tables:
                return [[] for _ in questions]
            return [connection.execute(*question).fetchall() for question in questions]
    except sqlite3.Error as error:
        raise failed(error, path, "reading the store") from None


def _file(name: str, path: Path, meaning: str) -> StoreFile:
    size: int | None = None
    for each in (path, path.with_name(path.name + "-wal")):
        try:
            size = (size or 0) + each.stat().st_size
        except OSError:
            continue  # it is made when something is written
    return StoreFile(name, path, size, meaning)
