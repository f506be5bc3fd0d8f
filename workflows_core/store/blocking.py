"""Reading a store in the calling thread, for commands that ask once: without an asyncio loop, which costs more
to import and to start than all that such a command asks.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, TypeVar

from ..model import Artifact, Attestation, Definition, RunSummary, RunView
from .opening import BUSY_MILLISECONDS, failed
from .queries import Question, Questions, read_only, usable

T = TypeVar("T")


class BlockingReader:
    """A read-only view of one SQLite store. ``None`` from :meth:`open` means that there is no store yet."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._questions = Questions(path)

    @classmethod
    def open(cls, path: Path) -> BlockingReader | None:
        """Open ``path`` read-only; raise StoreTooNew or StoreFailed in words."""
        if not path.exists():
            return None
        try:
            connection = sqlite3.connect(read_only(path), uri=True, timeout=BUSY_MILLISECONDS / 1000)
        except sqlite3.Error as error:
            raise failed(error, path, "reading the store") from None
        reader = cls(path, connection)
        found = False
        try:
            found = reader._ask(usable(path))
        finally:
            if not found:
                connection.close()
        return reader if found else None

    def _all(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise failed(error, self.path, "reading the store") from None

    def _ask(self, question: Question[T]) -> T:
        try:
            statement = next(question)
            while True:
                statement = question.send(self._all(*statement))
        except StopIteration as end:
            answer: T = end.value
            return answer

    def runs(self, limit: int | None) -> list[RunSummary]:
        """The newest runs first; ``limit`` None means all."""
        return self._ask(self._questions.runs(limit))

    def resolve(self, run: str) -> str:
        """The full id for an id or a unique prefix of one; raise NotFound in words."""
        return self._ask(self._questions.resolve(run))

    def view(self, run_id: str) -> RunView:
        """The view of one run."""
        return self._ask(self._questions.view(run_id))

    def attestations(self, run_id: str) -> list[Attestation]:
        """What people have stated about uncertain steps of a run, in their order."""
        return self._ask(self._questions.attestations(run_id))

    def definitions(self, owner: str | None = None) -> list[Definition]:
        """The saved versions of ``owner``, or of everybody, by name and newest first."""
        return self._ask(self._questions.definitions(owner))

    def definition(self, name: str, version: str, owner: str | None = None) -> tuple[Definition, str]:
        """A saved version of ``owner``, or of anybody, with its script. Raises NotFound."""
        return self._ask(self._questions.definition(name, version, owner))

    def artifact(self, run_id: str, step_id: str) -> Artifact:
        """The exact bytes of a step. Raises NotFound."""
        return self._ask(self._questions.artifact(run_id, step_id))

    def close(self) -> None:
        self._connection.close()
