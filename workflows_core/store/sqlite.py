"""The embedded store: one synchronous writer connection in the engine's thread.

WAL with synchronous=FULL: a committed frame survives a power cut, and a commit on a run's path is one flush, but
for the one in a hundred that also moves the log into the database.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from ..errors import Conflict, StoreFailed
from ..journal.frames import Frame, Mark
from ..journal.view import reduce_journal
from ..jsontext import sha256
from ..model import (
    ACTIVE,
    DELETABLE,
    Attestation,
    Capture,
    Decision,
    Definition,
    RunRecord,
    StepStatus,
    new_id,
    now,
)
from . import rows, space
from .base import Batch, InboxRow, Tombstone
from .lock import ProcessLock, lock_path
from .opening import MINIMUM_SQLITE, WAL_PAGES, connect, failed, make_private, migrate, private_directory

#: Keeps bytes under their hash; those that are kept already are put right where the file was damaged.
_KEEP: Final = (
    "INSERT INTO contents VALUES (?, ?) ON CONFLICT (hash) DO UPDATE SET body = excluded.body "
    "WHERE body <> excluded.body"
)

T = TypeVar("T")


class SqliteStore:
    """The writer. ``crash_point`` is called with a name before and after each commit: tests kill there."""

    def __init__(self, path: Path, crash_point: Callable[[str], None] | None = None) -> None:
        """Open ``path``, creating and migrating it; take the process lock.

        Raises StoreInUse, StoreTooNew or StoreFailed.
        """
        if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
            raise StoreFailed(f"SQLite {sqlite3.sqlite_version} is too old: STRICT tables need 3.37")
        self.path = path
        self.incarnation = new_id("ow")
        self._crash_point = crash_point
        private_directory(path.parent)
        self._lock = ProcessLock.acquire(lock_path(path))
        try:
            self._connection = self._open()
        except BaseException:
            self._lock.release()
            raise
        self._data_version = 0
        self._options: dict[str, Mapping[str, Any]] = {}
        #: The control row, with its detail, that the next commit settles.
        self._answer: tuple[int, Mapping[str, Any]] | None = None

    def _open(self) -> sqlite3.Connection:
        try:
            make_private(self.path)
            connection = connect(self.path)
        except OSError as error:
            raise StoreFailed(f"{self.path} cannot be opened: {error.strerror}") from None
        except sqlite3.Error as error:
            raise failed(error, self.path, "opening the store") from None
        try:
            connection.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")
            migrate(connection, self.path)
            self._empty_settled(connection)
            connection.execute(
                "INSERT INTO owners (incarnation, pid, started_at) VALUES (?, ?, ?)",
                (self.incarnation, os.getpid(), now()),
            )
        except sqlite3.Error as error:
            connection.close()
            raise failed(error, self.path, "opening the store") from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _empty_settled(self, connection: sqlite3.Connection) -> None:
        """Take away what settled controls still hold: the bodies of earlier versions, answers about deleted runs."""
        where = (
            "settled_at IS NOT NULL AND (body <> ? OR "
            "(detail IS NOT NULL AND kind <> 'delete' AND run_id IN (SELECT run_id FROM tombstones)))"
        )
        if connection.execute(f"SELECT 1 FROM inbox WHERE {where} LIMIT 1", (rows.EMPTY,)).fetchone():
            with space.erasing(connection):
                connection.execute(
                    "UPDATE inbox SET body = ?, detail = CASE WHEN kind <> 'delete' AND run_id IN "
                    f"(SELECT run_id FROM tombstones) THEN NULL ELSE detail END WHERE {where}",
                    (rows.EMPTY, rows.EMPTY),
                )

    @contextmanager
    def _transaction(self, name: str) -> Any:
        connection = self._connection
        if self._crash_point is not None:
            self._crash_point(f"before {name}")
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise failed(error, self.path, name) from None
        if self._crash_point is not None:
            self._crash_point(f"after {name}")

    def _read(self, doing: str, query: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return query(self._connection)
        except sqlite3.Error as error:
            raise failed(error, self.path, doing) from None

    def create_run(self, record: RunRecord, script: str, start: Frame) -> None:
        options = rows.options_bytes(record.options)
        options_hash = sha256(options)
        with self._transaction("create run") as connection:
            connection.execute(_KEEP, (record.script_hash, script.encode("utf-8")))
            connection.execute(_KEEP, (options_hash, options))
            connection.execute(
                f"INSERT INTO runs ({rows.RUN_COLUMNS}) VALUES ({', '.join('?' * 14)})",
                rows.run_row(record, options_hash),
            )
            self._insert_frames(connection, record.run_id, (start,))

    def commit(self, run_id: str, batch: Batch) -> None:
        frames, marks = batch.frames, batch.marks
        name = frames[-1].kind.value if frames else ("mark" if marks else "record")
        with self._transaction(name) as connection:
            self._insert_frames(connection, run_id, frames)
            for mark in marks:
                connection.execute("INSERT INTO marks VALUES (?, ?, ?, ?, ?)", rows.mark_row(run_id, mark))
            for step_id, attempt in batch.readmissions:
                connection.execute(
                    "DELETE FROM admissions WHERE run_id = ? AND step_id = ? AND attempt = ?",
                    (run_id, step_id, attempt),
                )
            if batch.admissions:
                at = frames[-1].at if frames else marks[-1].at if marks else now()
                for step_id, attempt in batch.admissions:
                    connection.execute(
                        "INSERT INTO admissions VALUES (?, ?, ?, ?)", (run_id, step_id, attempt, at)
                    )
            for capture in batch.captures:
                connection.execute(
                    f"INSERT INTO captures ({rows.CAPTURE_COLUMNS}) VALUES ({', '.join('?' * 10)})",
                    rows.capture_row(capture),
                )
            if batch.decision is not None:
                self._insert_decision(connection, batch.decision)
            if batch.attestation is not None:
                connection.execute(
                    f"INSERT INTO attestations ({rows.ATTESTATION_COLUMNS}) VALUES ({', '.join('?' * 10)})",
                    rows.attestation_row(batch.attestation),
                )
            if batch.record is not None:
                self._update(connection, batch.record)
            if self._answer is not None:
                row_id, detail = self._answer
                self._settle(connection, row_id, "applied", detail, now())

    def _insert_decision(self, connection: sqlite3.Connection, decision: Decision) -> None:
        inserted = connection.execute(
            f"INSERT OR IGNORE INTO decisions ({rows.DECISION_COLUMNS}) VALUES ({', '.join('?' * 9)})",
            rows.decision_row(decision),
        ).rowcount
        if inserted != 1:
            raise Conflict(f"{decision.step_id} of run {decision.run_id} has a decision already")

    def _insert_frames(self, connection: sqlite3.Connection, run_id: str, frames: Sequence[Frame]) -> None:
        for frame in frames:
            connection.execute(
                "INSERT INTO frames VALUES (?, ?, ?, ?, ?, ?, ?)", rows.frame_row(run_id, frame)
            )

    def _update(self, connection: sqlite3.Connection, record: RunRecord) -> None:
        row = rows.run_row(record, "")
        changed = connection.execute(
            "UPDATE runs SET state = ?, revision = ?, since = ?, cancel_requested_at = ?, "
            "owner_incarnation = ?, record = ? WHERE run_id = ? AND revision = ?",
            (row[4], row[5], row[7], row[11], row[12], row[13], record.run_id, record.revision - 1),
        ).rowcount
        if changed != 1:
            raise Conflict(f"run {record.run_id} has changed in the meantime; look at it and try again")

    def load(self, run_id: str) -> RunRecord | None:
        row = self._read(
            "reading a run",
            lambda c: c.execute(
                f"SELECT {rows.RUN_COLUMNS} FROM runs WHERE run_id = ?", (run_id,)
            ).fetchone(),
        )
        return self._record(row) if row is not None else None

    def _record(self, row: Any) -> RunRecord:
        options_hash = row[9]
        options = self._options.get(options_hash)
        if options is None:
            body = self._read(
                "reading launch options",
                lambda c: c.execute("SELECT body FROM contents WHERE hash = ?", (options_hash,)).fetchone(),
            )
            options = rows.decode_object(body[0]) if body is not None else {}
            if len(self._options) > 64:
                self._options.clear()
            self._options[options_hash] = options
        return rows.run_record(row, options)

    def by_request(self, owner: str, request_id: str) -> RunRecord | Tombstone | None:
        row = self._read(
            "reading a run",
            lambda c: c.execute(
                f"SELECT {rows.RUN_COLUMNS} FROM runs WHERE owner = ? AND request_id = ?", (owner, request_id)
            ).fetchone(),
        )
        if row is not None:
            return self._record(row)
        row = self._read(
            "reading a tombstone",
            lambda c: c.execute(
                "SELECT run_id, owner, request_id, identity_hash, deleted_at FROM tombstones "
                "WHERE owner = ? AND request_id = ?",
                (owner, request_id),
            ).fetchone(),
        )
        return Tombstone(*row) if row is not None else None

    def _select(self, where: str, values: Sequence[Any]) -> list[RunRecord]:
        found = self._read(
            "reading runs",
            lambda c: c.execute(
                f"SELECT {rows.RUN_COLUMNS} FROM runs WHERE {where} ORDER BY created_at, run_id", values
            ).fetchall(),
        )
        return [self._record(row) for row in found]

    def decisions(self, run_id: str) -> list[Decision]:
        found = self._read(
            "reading decisions",
            lambda c: c.execute(
                f"SELECT {rows.DECISION_COLUMNS} FROM decisions WHERE run_id = ? ORDER BY decided_at",
                (run_id,),
            ).fetchall(),
        )
        return [rows.decision(row) for row in found]

    def capture(self, run_id: str, version: str) -> Capture | None:
        row = self._read(
            "reading a capture",
            lambda c: c.execute(
                f"SELECT {rows.CAPTURE_COLUMNS} FROM captures WHERE run_id = ? AND version = ? "
                "ORDER BY capture_id LIMIT 1",
                (run_id, version),
            ).fetchone(),
        )
        return rows.capture(row) if row is not None else None

    def capture_count(self, run_id: str) -> int:
        row = self._read(
            "counting captures",
            lambda c: c.execute("SELECT count(*) FROM captures WHERE run_id = ?", (run_id,)).fetchone(),
        )
        return int(row[0])

    def captured_bytes(self, owner: str) -> int:
        row = self._read(
            "counting captured bytes",
            lambda c: c.execute(
                "SELECT coalesce(sum(size), 0) FROM captures JOIN runs USING (run_id) WHERE owner = ?",
                (owner,),
            ).fetchone(),
        )
        return int(row[0])

    def attestations(self, run_id: str) -> list[Attestation]:
        found = self._read(
            "reading attestations",
            lambda c: c.execute(
                f"SELECT {rows.ATTESTATION_COLUMNS} FROM attestations WHERE run_id = ? "
                "ORDER BY attestation_id",
                (run_id,),
            ).fetchall(),
        )
        return [rows.attestation(row) for row in found]

    def save_definition(self, definition: Definition, script: str) -> None:
        with self._transaction("save definition") as connection:
            connection.execute(_KEEP, (definition.version, script.encode("utf-8")))
            connection.execute(
                "INSERT OR IGNORE INTO definitions VALUES (?, ?, ?, ?)",
                (definition.owner, definition.name, definition.version, definition.saved_at),
            )

    def definitions(self, owner: str) -> list[Definition]:
        found = self._read(
            "reading definitions",
            lambda c: c.execute(
                "SELECT owner, name, version, saved_at FROM definitions WHERE owner = ? "
                "ORDER BY name, saved_at DESC",
                (owner,),
            ).fetchall(),
        )
        return [Definition(owner=row[0], name=row[1], version=row[2], saved_at=row[3]) for row in found]

    def expired_waits(self, at: int) -> list[RunRecord]:
        return [
            record
            for record in self._select("state = 'recoverable'", [])
            if record.waiting is not None
            and record.waiting.expires_at is not None
            and record.waiting.expires_at <= at
        ]

    def unfinished(self) -> list[RunRecord]:
        states = sorted(state.value for state in ACTIVE)
        return self._select(f"state IN ({', '.join('?' * len(states))})", states)

    def latest(self, owner: str, limit: int) -> list[RunRecord]:
        found = self._read(
            "reading runs",
            lambda c: c.execute(
                f"SELECT {rows.RUN_COLUMNS} FROM runs WHERE owner = ? "
                "ORDER BY created_at DESC, run_id DESC LIMIT ?",
                (owner, limit),
            ).fetchall(),
        )
        return [self._record(row) for row in found]

    def older_than(self, owner: str, before: int) -> list[RunRecord]:
        states = sorted(state.value for state in DELETABLE)
        marks = ", ".join("?" * len(states))
        return self._select(f"owner = ? AND created_at < ? AND state IN ({marks})", [owner, before, *states])

    def journal(self, run_id: str) -> tuple[list[Frame], list[Mark]]:
        def query(connection: sqlite3.Connection) -> tuple[list[Frame], list[Mark]]:
            frames = connection.execute(
                f"SELECT {rows.FRAME_COLUMNS} FROM frames WHERE run_id = ? ORDER BY number", (run_id,)
            )
            marks = connection.execute(
                f"SELECT {rows.MARK_COLUMNS} FROM marks WHERE run_id = ? ORDER BY seq", (run_id,)
            )
            return [rows.frame(row) for row in frames], [rows.mark(row) for row in marks]

        return self._read("reading a journal", query)

    def script(self, script_hash: str) -> str:
        row = self._read(
            "reading a script",
            lambda c: c.execute("SELECT body FROM contents WHERE hash = ?", (script_hash,)).fetchone(),
        )
        if row is None:
            raise StoreFailed(f"the script {script_hash[:7]} is missing from {self.path}")
        return str(row[0], "utf-8")

    def count_active(self, owner: str | None = None) -> int:
        states = sorted(state.value for state in ACTIVE)
        where = f"state IN ({', '.join('?' * len(states))})"
        values = [*states]
        if owner is not None:
            where += " AND owner = ?"
            values.append(owner)
        return self._count(where, values)

    def count_uncertain_places(self) -> int:
        return sum(
            1
            for record in self._select("state = 'needs_reconciliation'", [])
            for step in reduce_journal("", *self.journal(record.run_id)).view(record).steps
            if step.status is StepStatus.UNCERTAIN
        )

    def latest_time(self) -> int:
        query = (
            "SELECT coalesce(max(CASE WHEN json_valid(text) THEN json_extract(text, '$.last_progress') END), 0) "
            "FROM (SELECT CAST(record AS TEXT) AS text FROM runs)"
        )
        found = self._read("reading the latest time", lambda c: c.execute(query).fetchone())
        return int(found[0])

    def admissions(self, run_id: str) -> list[tuple[str, int]]:
        found = self._read(
            "reading admission intents",
            lambda c: c.execute(
                "SELECT step_id, attempt FROM admissions WHERE run_id = ? ORDER BY step_id, attempt",
                (run_id,),
            ).fetchall(),
        )
        return [(str(row[0]), int(row[1])) for row in found]

    def count_retained(self, owner: str) -> int:
        return self._count("owner = ?", [owner])

    def _count(self, where: str, values: Sequence[Any]) -> int:
        row = self._read(
            "counting runs",
            lambda c: c.execute(f"SELECT count(*) FROM runs WHERE {where}", values).fetchone(),
        )
        return int(row[0])

    def delete_run(self, record: RunRecord, at: int, control: int | None = None) -> None:
        with space.erasing(self._connection), self._transaction("delete") as connection:
            gone = connection.execute(
                "DELETE FROM runs WHERE run_id = ? AND revision = ? RETURNING script_hash, options_hash",
                (record.run_id, record.revision),
            ).fetchone()
            if gone is None:
                raise Conflict(f"run {record.run_id} has changed in the meantime; look at it and try again")
            connection.execute(
                "INSERT INTO tombstones (run_id, owner, request_id, identity_hash, deleted_at, control) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (record.run_id, record.owner, record.request_id, record.identity_hash, at, control),
            )
            connection.execute(
                "DELETE FROM contents WHERE hash IN (?, ?) "
                "AND NOT EXISTS (SELECT 1 FROM runs WHERE script_hash = contents.hash) "
                "AND NOT EXISTS (SELECT 1 FROM runs WHERE options_hash = contents.hash) "
                "AND NOT EXISTS (SELECT 1 FROM definitions WHERE version = contents.hash)",
                gone,
            )

    def deleted_by(self, control: int) -> list[str]:
        query = "SELECT run_id FROM tombstones WHERE control = ? ORDER BY deleted_at, run_id"
        found = self._read("reading tombstones", lambda c: c.execute(query, (control,)).fetchall())
        return [str(row[0]) for row in found]

    def give_back(self, *, rewrite: bool) -> bool:
        """One step of giving the bytes of what was deleted back to the file system; whether to ask again.

        Raises StoreFailed where the disk refuses; then nothing is lost. See ``space.give_back``.
        """
        return self._read("giving bytes back", lambda c: space.give_back(c, rewrite=rewrite))

    def tombstone(self, run_id: str) -> Tombstone | None:
        row = self._read(
            "reading a tombstone",
            lambda c: c.execute(
                "SELECT run_id, owner, request_id, identity_hash, deleted_at FROM tombstones WHERE run_id = ?",
                (run_id,),
            ).fetchone(),
        )
        return Tombstone(*row) if row is not None else None

    def inbox_changed(self) -> bool:
        version = self._read("watching the inbox", lambda c: c.execute("PRAGMA data_version").fetchone()[0])
        changed: bool = version != self._data_version
        self._data_version = version
        return changed

    def inbox_open(self) -> list[InboxRow]:
        found = self._read(
            "reading the inbox",
            lambda c: c.execute(
                f"SELECT {rows.INBOX_COLUMNS} FROM inbox WHERE settled_at IS NULL ORDER BY id"
            ).fetchall(),
        )
        return [rows.inbox(row) for row in found]

    def inbox_settle(self, row_id: int, outcome: str, detail: Mapping[str, Any], at: int) -> None:
        with space.erasing(self._connection), self._transaction("settle") as connection:
            self._settle(connection, row_id, outcome, detail, at)

    def _settle(
        self, connection: sqlite3.Connection, row_id: int, outcome: str, detail: Mapping[str, Any], at: int
    ) -> None:
        connection.execute(
            "UPDATE inbox SET settled_at = ?, outcome = ?, detail = ?, body = ? "
            "WHERE id = ? AND settled_at IS NULL",
            (at, outcome, rows.encode_object(detail), rows.EMPTY, row_id),
        )

    @contextmanager
    def settling(self, row_id: int, detail: Mapping[str, Any]) -> Iterator[None]:
        self._answer = (row_id, detail)
        try:
            with space.erasing(self._connection):
                yield
        finally:
            self._answer = None

    def owner_pid_of(self, incarnation: str) -> int | None:
        row = self._read(
            "reading owners",
            lambda c: c.execute("SELECT pid FROM owners WHERE incarnation = ?", (incarnation,)).fetchone(),
        )
        return int(row[0]) if row is not None else None

    def close(self) -> None:
        """Mark the owner as ended, close, and let go of the lock. Safe to call twice."""
        try:
            self._connection.execute(
                "UPDATE owners SET ended_at = ? WHERE incarnation = ?", (now(), self.incarnation)
            )
        except sqlite3.Error:
            pass  # A full disk must not keep the process from ending; the next owner sees a missing end.
        finally:
            self._connection.close()
            self._lock.release()
