"""The host's own store: child runs, their events, accounts, sessions and settings.

WAL with synchronous=NORMAL, written inline in the host's loop: a record survives the death of the process.
Should a power cut lose one, the engine still holds its intent and calls the step uncertain. Times are
microseconds since the epoch. Every method raises StoreError when the disk refuses.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from extension_api.agent_runs import AgentRunStatus, AgentRunView
from workflows_core.errors import StoreFailed, StoreTooNew
from workflows_core.model import now
from workflows_core.store import space
from workflows_core.store.opening import failed, make_private

from ..agents.base import Answer
from .schema import MIGRATIONS, NEWEST

logger = logging.getLogger(__name__)

BUSY_SECONDS: Final = 5.0
#: Steps of giving bytes back after one deletion: 64 MiB, a second at most.
_GIVE_BACK_STEPS: Final = 64
#: As in the engine's store: a log that wraps early is overwritten in place instead of growing.
_WAL_PAGES: Final = 250
_COLUMNS: Final = (
    "run_id, thread_id, agent_ref, owner, workflow_run, step_id, attempt, backend, badge, "
    "durable, incarnation, status, answer, due, files, evidence, counted, created_at, updated_at, finished_at, "
    "turn"
)
_INSERT_CHILD: Final = f"INSERT INTO child_runs ({_COLUMNS}, change) VALUES ({', '.join('?' * 22)})"
_SELECT_CHILD: Final = f"SELECT {_COLUMNS} FROM child_runs WHERE run_id = ?"


#: Compact JSON text. Raises ValueError for NaN and the infinities, TypeError for what is not JSON.
to_json: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class ChildRow(NamedTuple):
    """One child run as it is stored. ``answer``, ``files`` and ``evidence`` are JSON text or None.

    ``answer`` is what the run will say at ``due`` (or has said, once ``status`` is final); one with a ``turn`` in the
    recorded order of its workflow run is said not before that.
    """

    run_id: str
    thread_id: str
    agent_ref: str
    owner: str
    workflow_run: str
    step_id: str
    attempt: int
    backend: str
    badge: str
    durable: int
    incarnation: str
    status: str
    answer: str | None
    due: int | None
    files: str | None
    evidence: str | None
    counted: int | None
    created_at: int
    updated_at: int
    finished_at: int | None
    turn: int | None = None

    @property
    def active(self) -> bool:
        return AgentRunStatus(self.status).active

    def decided(self) -> Answer | None:
        """The recorded answer, or None where there is none yet."""
        if self.answer is None:
            return None
        status, output, code, message = json.loads(self.answer)
        return Answer(AgentRunStatus(status), output, code, message)

    def view(self, answer: Answer | None = None, evidence: Mapping[str, Any] | None = None) -> AgentRunView:
        """What the contract shows of it. ``answer`` and ``evidence`` save decoding where they are at hand."""
        status = AgentRunStatus(self.status)
        if status.active:
            answer = None
        elif answer is None:
            answer = self.decided()
        if evidence is None and self.evidence is not None:
            evidence = json.loads(self.evidence)
        return AgentRunView(
            run_id=self.run_id,
            thread_id=self.thread_id,
            agent_ref=self.agent_ref,
            status=status,
            output=None if answer is None else answer.output,
            error_code=None if answer is None else answer.error_code,
            error_message=None if answer is None else answer.error_message,
            badge=self.badge,
            evidence=evidence,
            started_at=self.created_at,
            finished_at=self.finished_at,
        )


def encode_answer(answer: Answer) -> str:
    """The stored form of an answer: JSON of status, output, error code and error message."""
    return to_json([answer.status.value, answer.output, answer.error_code, answer.error_message])


def run_id_of(key: str) -> str:
    """The child run that an idempotency key names: there is at most one, in this store and in every other."""
    return f"cr_{hashlib.sha256(key.encode()).hexdigest()[:24]}"


class Event(NamedTuple):
    """One event of a child run, before it has its number. ``content`` and ``metadata`` are JSON text."""

    event_type: str
    category: str
    content: str | None
    metadata: str
    created_at: int


class HostStore:
    """The writer. Use from one thread."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.path = path
        self._connection = connection
        self._execute = connection.execute
        self._change: int = self._one(
            "SELECT max(coalesce((SELECT max(change) FROM child_runs), 0), "
            "coalesce((SELECT value FROM floors WHERE name = 'change'), 0))"
        )

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open, create with mode 0600 and migrate. Raises StoreTooNew or StoreFailed."""
        try:
            make_private(path)
            for end in ("-wal", "-shm"):
                _keep_private(path.with_name(path.name + end))
        except OSError as error:
            raise StoreFailed(f"{path} cannot be opened: {error.strerror}") from None
        try:
            connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
        except sqlite3.Error as error:
            raise failed(error, path, "opening the host's store") from None
        try:
            if space.pages(connection) == 0:
                space.prepare(connection)
            for pragma in (
                "journal_mode=WAL",
                "synchronous=NORMAL",
                "trusted_schema=OFF",
                f"wal_autocheckpoint={_WAL_PAGES}",
            ):
                connection.execute(f"PRAGMA {pragma}")
            _migrate(connection, path)
            return cls(connection, path)
        except sqlite3.Error as error:
            connection.close()
            raise failed(error, path, "opening the host's store") from None
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    # Child runs

    def admit(self, row: ChildRow, events: Sequence[Event], before_commit: Callable[[], None]) -> bool:
        """Insert a child run with its first events in one transaction.

        ``before_commit`` runs inside it; what it raises passes on and nothing is written. False, and nothing
        written, where the thread has an active run. Raises CommitUncertain where only the commit failed.
        """
        self._execute("BEGIN IMMEDIATE")
        try:
            if row.active and self._thread_busy(row.thread_id):
                self._execute("ROLLBACK")
                return False
            self._change = max(self._change + 1, row.updated_at)
            self._execute(_INSERT_CHILD, (*row, self._change))
            self._append(row.thread_id, row.run_id, events)
            before_commit()
        except BaseException as error:
            self._execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise failed(error, self.path, "recording a child run") from None
            raise
        try:
            self._execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise CommitUncertain(str(failed(error, self.path, "recording a child run"))) from None
        return True

    def finish(
        self,
        row: ChildRow,
        answer: Answer,
        at: int,
        events: Sequence[Event],
    ) -> bool:
        """Make an active child run final. False, and nothing written, where it was final already."""
        with self._transaction("finishing a child run"):
            self._change = max(self._change + 1, at)
            changed = self._execute(
                "UPDATE child_runs SET status = ?, answer = ?, updated_at = ?, finished_at = ?, change = ? "
                "WHERE run_id = ? AND status IN ('pending', 'running')",
                (answer.status.value, encode_answer(answer), at, at, self._change, row.run_id),
            ).rowcount
            if changed:
                self._append(row.thread_id, row.run_id, events)
        return changed == 1

    def attach_evidence(self, run_id: str, evidence: str) -> None:
        """Record what the agent was assembled from, once that is known."""
        self.write("UPDATE child_runs SET evidence = ? WHERE run_id = ?", evidence, run_id)

    def child(self, run_id: str) -> ChildRow | None:
        try:
            row = self._execute(_SELECT_CHILD, (run_id,)).fetchone()
        except sqlite3.Error as error:
            raise failed(error, self.path, "reading the host's store") from None
        return None if row is None else ChildRow(*row)

    def count_calls(self, workflow_run: str, entry: int) -> int:
        """How many recorded child runs of this workflow run a counted stub entry has answered."""
        return self._one(
            "SELECT count(*) FROM child_runs WHERE workflow_run = ? AND counted = ?", workflow_run, entry
        )

    def open_turns(self, workflow_run: str) -> dict[str, int]:
        """The turns in the recorded order of the active child runs of this workflow run, by step."""
        return dict(
            self._all(
                "SELECT step_id, turn FROM child_runs WHERE workflow_run = ? AND turn IS NOT NULL "
                "AND status IN ('pending', 'running')",
                workflow_run,
            )
        )

    def lost_children(self, incarnation: str) -> list[ChildRow]:
        """Active child runs that ran inside another process and died with it."""
        rows = self._all(
            f"SELECT {_COLUMNS} FROM child_runs "
            "WHERE status IN ('pending', 'running') AND durable = 0 AND incarnation <> ?",
            incarnation,
        )
        return [ChildRow(*row) for row in rows]

    def delete_children(self, workflow_run: str, owner: str | None) -> list[str]:
        """Delete the final child runs of a workflow run with their events; which there were. None is any owner.

        Their event numbers and change numbers are not given again.
        """
        rows = self._all(
            "SELECT run_id, thread_id FROM child_runs WHERE workflow_run = ? AND (? IS NULL OR owner = ?) "
            "AND status NOT IN ('pending', 'running')",
            workflow_run,
            owner,
            owner,
        )
        if not rows:
            return []
        with space.erasing(self._connection), self._transaction("deleting child runs"):
            floor = "INSERT OR REPLACE INTO floors VALUES (?, ?)"
            self._execute(floor, ("change", self._change))
            for run_id, thread_id in rows:
                self._execute(floor, (f"thread:{thread_id}", self._last_seq(thread_id)))
                self._execute("DELETE FROM events WHERE thread_id = ? AND run_id = ?", (thread_id, run_id))
                self._execute("DELETE FROM child_runs WHERE run_id = ?", (run_id,))
        return [run_id for run_id, _ in rows]

    def give_back(self) -> None:
        """Give the bytes of what was deleted back to the file system. Where the disk refuses, the next time does.

        A store of an earlier version is written anew for that, while no child run is active.
        """
        idle = not self._one("SELECT count(*) FROM child_runs WHERE status IN ('pending', 'running')")
        try:
            for _ in range(_GIVE_BACK_STEPS):
                if not space.give_back(self._connection, rewrite=idle):
                    break
        except sqlite3.Error as error:
            logger.warning("%s", failed(error, self.path, "giving back the bytes of deleted child runs"))

    # Run evidence

    def changed_children(
        self, owner: str | None, after: tuple[int, str], limit: int
    ) -> list[tuple[int, ChildRow]]:
        """Child runs in the order of (change, run) behind ``after``; of one owner, or of all with None."""
        rows = self._all(
            f"SELECT change, {_COLUMNS} FROM child_runs WHERE (change, run_id) > (?, ?) "
            "AND (? IS NULL OR owner = ?) ORDER BY change, run_id LIMIT ?",
            *after,
            owner,
            owner,
            limit,
        )
        return [(row[0], ChildRow(*row[1:])) for row in rows]

    def events(self, thread_id: str, run_id: str, after: int, limit: int) -> list[tuple[Any, ...]]:
        """Rows of (seq, type, category, content, metadata, created_at) of one run, by seq."""
        return self._all(
            "SELECT seq, event_type, category, content, metadata, created_at FROM events "
            "WHERE thread_id = ? AND seq > ? AND run_id = ? ORDER BY seq LIMIT ?",
            thread_id,
            after,
            run_id,
            limit,
        )

    # Everything else

    def write(self, statement: str, *values: Any) -> int:
        """One statement in a transaction of its own; the number of rows it changed."""
        with self._transaction("writing the host's store"):
            return self._execute(statement, values).rowcount

    def read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._all(statement, *values)

    def _thread_busy(self, thread_id: str) -> bool:
        found = self._execute(
            "SELECT 1 FROM child_runs WHERE thread_id = ? AND status IN ('pending', 'running')", (thread_id,)
        )
        return found.fetchone() is not None

    def _append(self, thread_id: str, run_id: str, events: Sequence[Event]) -> None:
        seq = self._last_seq(thread_id)
        self._connection.executemany(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(thread_id, seq + i, run_id, *event) for i, event in enumerate(events, 1)],
        )

    def _last_seq(self, thread_id: str) -> int:
        row = self._execute(
            "SELECT max(coalesce((SELECT max(seq) FROM events WHERE thread_id = ?), 0), "
            "coalesce((SELECT value FROM floors WHERE name = ?), 0))",
            (thread_id, f"thread:{thread_id}"),
        ).fetchone()
        return int(row[0])

    def _one(self, statement: str, *values: Any) -> int:
        return int(self._all(statement, *values)[0][0])

    def _all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise failed(error, self.path, "reading the host's store") from None

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[None]:
        try:
            self._execute("BEGIN IMMEDIATE")
            try:
                yield
                self._execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
        except sqlite3.Error as error:
            raise failed(error, self.path, doing) from None

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._execute("ROLLBACK")


def _keep_private(path: Path) -> None:
    """A log that a crash left behind keeps its mode: take it from everybody but its owner.

    Not by opening it: closing it again would drop the locks that SQLite holds on it in this process.
    """
    with suppress(FileNotFoundError):
        if path.lstat().st_mode & 0o077 and not path.is_symlink():
            path.chmod(0o600)


class CommitUncertain(StoreFailed):
    """The disk refused the commit itself: whether the record exists is not known."""


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations "
        "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT"
    )
    have = _schema(connection)
    if have > NEWEST:
        raise StoreTooNew(
            f"{path} has schema {have}, and this version knows {NEWEST}. Use the newer workbench that wrote "
            "it; nothing was changed"
        )
    for number, name, statements in MIGRATIONS:
        if number <= have:
            continue
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _schema(connection) < number:  # another process may have been first
                for statement in statements:
                    connection.execute(statement)
                connection.execute("INSERT INTO migrations VALUES (?, ?, ?)", (number, name, now()))
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def _schema(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()[0])
