"""Reading a store from screens, commands and other processes, and posting controls to its owner.

Reads use aiosqlite on a read-only connection in the caller's own loop. The one thing a process that is not
the owner may write is a row of the control inbox, on a short-lived connection of its own.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import aiosqlite
import msgspec

from ..errors import NotFound, StoreFailed, StoreTooNew
from ..journal.view import RunReducer, summary
from ..model import Cause, RunRecord, RunState, RunSummary, RunView, now
from . import rows
from .base import InboxRow
from .lock import lock_path, owner_pid
from .migrations import NEWEST
from .sqlite import BUSY_MILLISECONDS, connect, failed

_CACHED_REDUCERS: Final = 16


class StoreReader:
    """A read-only view of one SQLite store. ``None`` from :meth:`open` means that there is no store yet."""

    def __init__(self, path: Path, connection: aiosqlite.Connection) -> None:
        self.path = path
        self._connection = connection
        self._reducers: dict[str, tuple[RunReducer, Mapping[str, Any]]] = {}
        self._reducing = asyncio.Lock()

    @classmethod
    async def open(cls, path: Path) -> StoreReader | None:
        """Open ``path`` read-only; raise StoreTooNew or StoreFailed in words."""
        if not path.exists():
            return None
        connection: aiosqlite.Connection | None = None
        try:
            connection = await aiosqlite.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_MILLISECONDS / 1000
            )
            async with connection.execute(
                "SELECT count(*) FROM sqlite_master WHERE name = 'inbox'"
            ) as cursor:
                row = await cursor.fetchone()
            if row is None or row[0] == 0:
                await connection.close()
                return None
            async with connection.execute("SELECT max(number) FROM migrations") as cursor:
                row = await cursor.fetchone()
        except sqlite3.Error as error:
            if connection is not None:
                await connection.close()
            raise failed(error, path, "reading the store") from None
        if row is not None and row[0] > NEWEST:
            await connection.close()
            raise StoreTooNew(
                f"{path} has schema {row[0]}, and this version knows {NEWEST}. "
                "Use the newer workbench that wrote it; nothing was changed"
            )
        return cls(path, connection)

    def owner_pid(self) -> int | None:
        """The pid of the process that owns the store, None where nobody does, 0 where it cannot be read."""
        return owner_pid(lock_path(self.path))

    async def _all(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            async with self._connection.execute(sql, values) as cursor:
                return list(await cursor.fetchall())
        except sqlite3.Error as error:
            raise failed(error, self.path, "reading the store") from None

    async def data_version(self) -> int:
        """A number that changes whenever another connection has written."""
        return int((await self._all("PRAGMA data_version"))[0][0])

    async def runs(self, limit: int | None) -> list[RunSummary]:
        """The newest runs first; ``limit`` None means all."""
        alive = self.owner_pid() is not None
        found = await self._all(
            f"SELECT {rows.RUN_COLUMNS} FROM runs ORDER BY created_at DESC, run_id DESC LIMIT ?",
            (-1 if limit is None else limit,),
        )
        return [summary(await self._effective(rows.run_record(row, {}), alive)) for row in found]

    async def summary(self, run_id: str) -> RunSummary:
        return summary(await self._effective(await self._record(run_id, {}), self.owner_pid() is not None))

    async def revisions(self) -> dict[str, tuple[int, int, int]]:
        """For each run: revision, number of frames, number of marks of those that may still change."""
        found = await self._all(
            "SELECT run_id, revision, "
            "coalesce((SELECT max(number) FROM frames WHERE frames.run_id = runs.run_id), -1), "
            "coalesce((SELECT max(seq) FROM marks WHERE marks.run_id = runs.run_id), -1) FROM runs "
            "WHERE state NOT IN ('completed', 'failed', 'cancelled')"
        )
        return {row[0]: (row[1], row[2], row[3]) for row in found}

    async def resolve(self, run: str) -> str:
        """The full id for an id or a unique prefix of one; raise NotFound in words."""
        if not run:
            raise NotFound("a run id is empty; 'workbench runs' lists the ids")
        found = await self._all(
            "SELECT run_id FROM runs WHERE run_id >= ? AND run_id < ? ORDER BY run_id LIMIT 3",
            (run, run + "\U0010ffff"),
        )
        ids = [row[0] for row in found]
        if run in ids:
            return run
        if len(ids) == 1:
            return str(ids[0])
        if ids:
            raise NotFound(f"more than one run starts with {run}: {', '.join(ids)}. Give more of the id")
        gone = await self._all("SELECT deleted_at FROM tombstones WHERE run_id = ?", (run,))
        if gone:
            raise NotFound(f"run {run} was deleted")
        raise NotFound(f"there is no run {run} in {self.path.parent.parent}; 'workbench runs' lists them")

    async def _record(self, run_id: str, options: Mapping[str, Any]) -> RunRecord:
        found = await self._all(f"SELECT {rows.RUN_COLUMNS} FROM runs WHERE run_id = ?", (run_id,))
        if not found:
            raise NotFound(f"there is no run {run_id}; 'workbench runs' lists them")
        return rows.run_record(found[0], options)

    async def view(self, run_id: str) -> RunView:
        """The view of one run. Repeated calls read only the frames that are new since the last one."""
        async with self._reducing:
            alive = self.owner_pid() is not None
            cached = self._reducers.pop(run_id, None)
            if cached is None:
                cached = await self._start_reducer(run_id)
            reducer, options = cached
            # The record is read before the journal: a view may show frames that are newer than the
            # record's state, never a final state without the frames that led to it.
            record = await self._record(run_id, options)
            frames = await self._all(
                f"SELECT {rows.FRAME_COLUMNS} FROM frames WHERE run_id = ? AND number >= ? ORDER BY number",
                (run_id, reducer.frame_count),
            )
            marks = await self._all(
                f"SELECT {rows.MARK_COLUMNS} FROM marks WHERE run_id = ? AND seq >= ? ORDER BY seq",
                (run_id, reducer.mark_count),
            )
            pending = [rows.mark(row) for row in marks]
            for row in frames:
                while pending and pending[0].after_frame <= reducer.frame_count:
                    reducer.feed_mark(pending.pop(0))
                reducer.feed(rows.frame(row))
            for mark in pending:
                if mark.after_frame <= reducer.frame_count:
                    reducer.feed_mark(mark)
            self._reducers[run_id] = cached
            while len(self._reducers) > _CACHED_REDUCERS:
                del self._reducers[next(iter(self._reducers))]
            return reducer.view(await self._effective(record, alive))

    async def _start_reducer(self, run_id: str) -> tuple[RunReducer, Mapping[str, Any]]:
        found = await self._all(
            "SELECT s.body, o.body FROM runs JOIN contents s ON s.hash = script_hash "
            "JOIN contents o ON o.hash = options_hash WHERE run_id = ?",
            (run_id,),
        )
        if not found:
            raise NotFound(f"there is no run {run_id}; 'workbench runs' lists them")
        return RunReducer(str(found[0][0], "utf-8")), rows.decode_object(found[0][1])

    async def _effective(self, record: RunRecord, alive: bool) -> RunRecord:
        """The record as it must be shown: a run that only a living owner may hold, without one."""
        if alive or not record.state.owned:
            return record
        found = await self._all(
            "SELECT pid, ended_at FROM owners WHERE incarnation = ?", (record.owner_incarnation,)
        )
        return orphaned(record, found[0][0] if found else None)

    async def inbox_row(self, row_id: int) -> InboxRow | None:
        found = await self._all(f"SELECT {rows.INBOX_COLUMNS} FROM inbox WHERE id = ?", (row_id,))
        return rows.inbox(found[0]) if found else None

    async def post(
        self, kind: str, run_id: str | None, body: Mapping[str, Any], actor: Mapping[str, Any]
    ) -> int:
        """Commit one control row for the owner and return its id."""

        def insert() -> int:
            connection = connect(self.path)
            try:
                cursor = connection.execute(
                    "INSERT INTO inbox (kind, run_id, body, actor, created_at) VALUES (?, ?, ?, ?, ?)",
                    (kind, run_id, rows.encode_object(body), rows.encode_object(actor), now()),
                )
                if cursor.lastrowid is None:
                    raise StoreFailed(f"posting a control to {self.path} gave no row")
                return cursor.lastrowid
            finally:
                connection.close()

        try:
            return await asyncio.to_thread(insert)
        except sqlite3.Error as error:
            raise failed(error, self.path, "posting a control") from None

    async def close(self) -> None:
        await self._connection.close()


def orphaned(record: RunRecord, pid: int | None) -> RunRecord:
    """``record`` as recoverable, with the cause in words."""
    who = f"process {pid}" if pid else "the process"
    words = {
        RunState.QUEUED: "before it started",
        RunState.RUNNING: "while it was running",
        RunState.PAUSED: "while it was paused",
        RunState.WAITING_APPROVAL: "while it waited for approval",
    }[record.state]
    message = f"{who} that ran it ended {words}"
    if record.cancel_requested_at is not None:
        message += "; a cancel is recorded, so only cancel can finish it"
    return msgspec.structs.replace(record, state=RunState.RECOVERABLE, cause=Cause("owner_gone", message))
