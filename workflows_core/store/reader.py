"""Reading a store in an asyncio loop, for screens and followers, and posting controls to its owner.

Reads use aiosqlite on a read-only connection in the caller's own loop. The one thing a process that is not
the owner may write is a row of the control inbox, on a short-lived connection of its own. What is asked and
how rows become views is in ``queries.py``.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from ..errors import StoreFailed
from ..model import Artifact, Attestation, Definition, RunSummary, RunView, now
from . import rows
from .base import InboxRow
from .opening import BUSY_MILLISECONDS, connect, failed
from .queries import Question, Questions, Statement, read_only, usable

T = TypeVar("T")

#: Rows of one statement that are turned into values on the caller's loop; more than that take a thread.
MANY_ROWS = 200


class StoreReader:
    """A read-only view of one SQLite store. ``None`` from :meth:`open` means that there is no store yet."""

    def __init__(self, path: Path, connection: aiosqlite.Connection) -> None:
        self.path = path
        self._connection = connection
        self._questions = Questions(path)
        self._viewing = asyncio.Lock()

    @classmethod
    async def open(cls, path: Path) -> StoreReader | None:
        """Open ``path`` read-only; raise StoreTooNew or StoreFailed in words."""
        if not path.exists():
            return None
        try:
            connection = await aiosqlite.connect(read_only(path), uri=True, timeout=BUSY_MILLISECONDS / 1000)
        except sqlite3.Error as error:
            raise failed(error, path, "reading the store") from None
        reader = cls(path, connection)
        found = False
        try:
            found = await reader._ask(usable(path))
        finally:
            if not found:
                await connection.close()
        return reader if found else None

    def owner_pid(self) -> int | None:
        """The pid of the process that owns the store, None where nobody does, 0 where it cannot be read."""
        return self._questions.owner_pid()

    async def _all(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            async with self._connection.execute(sql, values) as cursor:
                return list(await cursor.fetchall())
        except sqlite3.Error as error:
            raise failed(error, self.path, "reading the store") from None

    async def _ask(self, question: Question[T]) -> T:
        """Ask to the end. From the first statement with many rows on, another thread makes values of them, so that
        the caller's loop, which answers keys, is not held meanwhile."""
        many = False
        try:
            statement = next(question)
            while True:
                found = await self._all(*statement)
                many = many or len(found) > MANY_ROWS
                if many:
                    following = await asyncio.to_thread(_sent, question, found)
                    if isinstance(following, StopIteration):
                        raise following
                    statement = following
                else:
                    statement = question.send(found)
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def data_version(self) -> int:
        """A number that changes whenever another connection has written."""
        return int((await self._all("PRAGMA data_version"))[0][0])

    async def runs(self, limit: int | None) -> list[RunSummary]:
        """The newest runs first; ``limit`` None means all."""
        return await self._ask(self._questions.runs(limit))

    async def summary(self, run_id: str) -> RunSummary:
        """The list row of one run. Raises NotFound."""
        return await self._ask(self._questions.summary(run_id))

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
        return await self._ask(self._questions.resolve(run))

    async def view(self, run_id: str) -> RunView:
        """The view of one run. Repeated calls read only the frames that are new since the last one."""
        async with self._viewing:
            return await self._ask(self._questions.view(run_id))

    async def definitions(self, owner: str | None = None) -> list[Definition]:
        """The saved versions of ``owner``, or of everybody, by name and newest first."""
        return await self._ask(self._questions.definitions(owner))

    async def definition(self, name: str, version: str, owner: str | None = None) -> tuple[Definition, str]:
        """A saved version of ``owner``, or of anybody, with its script. Raises NotFound."""
        return await self._ask(self._questions.definition(name, version, owner))

    async def artifact(self, run_id: str, step_id: str) -> Artifact:
        """The exact bytes of a step. Raises NotFound."""
        async with self._viewing:
            return await self._ask(self._questions.artifact(run_id, step_id))

    async def attestations(self, run_id: str) -> list[Attestation]:
        """What people have stated about uncertain steps of a run, in their order."""
        return await self._ask(self._questions.attestations(run_id))

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


def _sent(question: Question[Any], found: list[Any]) -> Statement | StopIteration:
    """The next statement, or the end of the question, which no future can carry as an exception."""
    try:
        return question.send(found)
    except StopIteration as end:
        return end
