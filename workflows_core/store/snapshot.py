"""One run out of a store file, as a Bundle: from a living workspace, or from a file that a dead machine left.

A store that nobody owns is copied first, with its write-ahead log, into a private folder, and only that copy is
opened: a file that was found is never changed, not even by opening it. A store of another version is read as
far as it can be understood.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from .. import jsontext, limits
from ..errors import NotFound, StoreFailed
from ..journal.bundle import Bundle, CaptureInfo, versions_here
from ..journal.frames import Frame, FrameKind, Mark
from ..journal.opening import read_record
from ..model import Attestation, Capture
from . import rows
from .lock import lock_path, owner_pid
from .migrations import NEWEST
from .opening import failed
from .queries import expired, orphaned, overdue

_SECONDS: Final = 10.0
_FRAMES: Final = 40_000
_VALUE_BYTES: Final = 8 * 1024 * 1024
_HEAD: Final = b"SQLite format 3\0"
_KNOWN: Final = frozenset(
    """migrations contents runs frames marks admissions inbox owners tombstones decisions captures definitions
    attestations""".split()  # noqa: SIM905 - a table of names reads better as text
)

T = TypeVar("T")


class StoredRun(msgspec.Struct, frozen=True):
    """A line of the list of runs in a store file. Times are microseconds since the epoch."""

    run_id: str
    name: str
    created_at: int


def is_store(path: Path) -> bool:
    """Whether the file begins as a store does. False for a folder and for what cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(_HEAD)) == _HEAD
    except OSError:
        return False


def list_stored(path: Path, *, copy: bool = True) -> list[StoredRun]:
    """The runs in a store file, newest first. Raises StoreFailed in words. ``copy`` as for ``read_stored``."""
    with _opened(path, copy) as (connection, alive):
        found = _Reader(connection, path, alive).all(
            "SELECT run_id, name, created_at FROM runs ORDER BY created_at DESC"
        )
        return [StoredRun(*row) for row in found]


def resolve_stored(path: Path, run: str, *, copy: bool = True) -> str:
    """The full id for an id, or the beginning of one, in a store file. Raises NotFound in words."""
    ids = [found.run_id for found in list_stored(path, copy=copy) if found.run_id.startswith(run)]
    if run in ids:
        return run
    if len(ids) == 1:
        return ids[0]
    if ids:
        raise NotFound(f"more than one run starts with {run}: {', '.join(ids[:5])}. Give more of the id")
    raise NotFound(f"there is no run {run} in {path}")


def read_stored(path: Path, run_id: str, *, copy: bool = True) -> Bundle:
    """The run ``run_id`` of the store file ``path``; captured bytes included.

    Without ``copy`` the file is opened read-only where it lies: for a workspace's own store. Raises NotFound,
    and StoreFailed where the file is damaged or no store.
    """
    with _opened(path, copy) as (connection, alive):
        return _Reader(connection, path, alive).bundle(run_id)


@contextmanager
def _opened(path: Path, copy: bool) -> Iterator[tuple[sqlite3.Connection, bool]]:
    """A connection that changes nothing at ``path``, and whether a living process owns the store."""
    if not path.is_file():
        raise StoreFailed(f"there is no store at {path}")
    alive = owner_pid(lock_path(path)) is not None
    if alive or not copy:
        with _connected(path, path, "ro") as connection:
            yield connection, alive
        return
    with tempfile.TemporaryDirectory(prefix="workbench-copy-") as folder:
        private = Path(folder) / "store.sqlite"
        try:
            for suffix in ("", "-wal"):
                part = path.with_name(path.name + suffix)
                if part.is_file():
                    shutil.copyfile(part, private.with_name(private.name + suffix))
        except OSError as error:
            raise StoreFailed(f"{path} cannot be copied to be read: {error.strerror}") from None
        with _connected(private, path, "rw") as connection:
            yield connection, False


@contextmanager
def _connected(file: Path, named: Path, mode: str) -> Iterator[sqlite3.Connection]:
    deadline = time.monotonic() + _SECONDS
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(
            f"{file.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=5
        )
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
        connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA query_only=ON")
        connection.execute("BEGIN")
        yield connection
    except sqlite3.Error as error:
        raise failed(error, named, "reading the store") from None
    except (msgspec.MsgspecError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise StoreFailed(f"{named} holds a row that cannot be understood: {error}") from None
    finally:
        if connection is not None:
            connection.close()


def _query(connection: sqlite3.Connection, path: Path, sql: str, values: Sequence[Any] = ()) -> list[Any]:
    try:
        return connection.execute(sql, values).fetchall()
    except sqlite3.DatabaseError as error:
        raise failed(error, path, "reading the store") from None


class _Reader:
    def __init__(self, connection: sqlite3.Connection, path: Path, alive: bool) -> None:
        self.connection = connection
        self.path = path
        self.alive = alive
        self.notes: list[str] = []
        kinds = dict(self.all("SELECT name, type FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))
        self.tables = {name for name, kind in kinds.items() if kind == "table"}
        if not {"runs", "frames", "contents"} <= self.tables:
            raise StoreFailed(f"{path} is not a store of runs")
        if "migrations" in self.tables:
            number = self.all("SELECT coalesce(max(number), 0) FROM migrations")[0][0]
            if number > NEWEST:
                self.notes.append(
                    f"The store was written by a newer version (schema {number}; this one knows {NEWEST})."
                )
                unknown = sorted(self.tables - _KNOWN)
                if unknown:
                    self.notes.append(
                        f"It has tables that this version does not know: {', '.join(unknown[:8])}."
                    )

    def all(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return _query(self.connection, self.path, sql, values)

    def bundle(self, run_id: str) -> Bundle:
        raw = self._record(run_id)
        options = raw.pop("options")
        record = read_record({**raw, "options": _summary(options)}, self.notes)
        if record.state.owned and not self.alive:
            record = orphaned(record, self._pid(record.owner_incarnation))
        decisions = tuple(
            map(rows.decision, self._rows("decisions", rows.DECISION_COLUMNS, run_id, "decided_at"))
        )
        wait = overdue(record)
        if wait is not None and not any(
            (item.step_id, item.attempt) == (wait.step_id, wait.attempt) for item in decisions
        ):
            record = expired(record, wait)
        captures = self._captures(run_id)
        bodies = {capture.version: capture.body for capture in captures}

        def read_capture(version: str) -> bytes:
            if version not in bodies:
                raise NotFound(f"the captured bytes of version {version[:7]} are missing")
            return bodies[version]

        return Bundle(
            record=record,
            script=self._content(record.script_hash, "script").decode("utf-8", "replace"),
            frames=tuple(self._frames(run_id)),
            marks=tuple(self._marks(run_id)),
            decisions=decisions,
            attestations=tuple(self._attestations(run_id)),
            captures=tuple(_info(capture) for capture in captures),
            read_capture=read_capture,
            read_options=lambda: options,
            versions=versions_here(),
            notes=tuple(self.notes),
        )

    def _record(self, run_id: str) -> dict[str, Any]:
        found = self.all("SELECT * FROM runs WHERE run_id = ?", (run_id,))
        if not found:
            raise NotFound(f"there is no run {run_id} in {self.path}")
        names = [column[1] for column in self.all("PRAGMA table_info(runs)")]
        row = dict(zip(names, found[0], strict=True))
        missing = set(rows.RUN_COLUMNS.split(", ")) - set(row)
        if missing:
            raise StoreFailed(
                f"{self.path} lays out runs in another way: {', '.join(sorted(missing))} is missing"
            )
        rest = jsontext.parse(row.pop("record"), "the record of the run")
        options_hash = row.pop("options_hash")
        options = jsontext.parse(self._content(options_hash, "launch options"), "the launch options")
        return {**row, **rest, "options": options}

    def _content(self, digest: str, what: str) -> bytes:
        found = self.all("SELECT body FROM contents WHERE hash = ?", (digest,))
        if not found:
            raise StoreFailed(f"{self.path} does not hold the {what} of the run")
        return bytes(found[0][0])

    def _pid(self, incarnation: str) -> int | None:
        if "owners" not in self.tables:
            return None
        found = self.all("SELECT pid FROM owners WHERE incarnation = ?", (incarnation,))
        return int(found[0][0]) if found else None

    def _frames(self, run_id: str) -> Iterator[Frame]:
        size, count = self.all(
            "SELECT coalesce(sum(length(body)), 0), count(*) FROM frames WHERE run_id = ?", (run_id,)
        )[0]
        if size > limits.JOURNAL_BYTES or count > _FRAMES:
            raise StoreFailed(f"the journal of {run_id} is larger than a run's can be")
        for row in self._rows("frames", rows.FRAME_COLUMNS, run_id, "number"):
            if row[1] not in list(FrameKind):
                self.notes.append(
                    f"Frame {row[0]} is of the kind {str(row[1])[:40]!r}, which this version does not know; "
                    "what follows it is left out."
                )
                return
            if type(row[2]) is not bytes or type(row[3]) is not bytes:
                raise StoreFailed(f"frame {row[0]} of {run_id} is not stored as bytes")
            yield rows.frame(row)

    def _marks(self, run_id: str) -> list[Mark]:
        return [rows.mark(row) for row in self._rows("marks", rows.MARK_COLUMNS, run_id, "seq")]

    def _captures(self, run_id: str) -> list[Capture]:
        size = 0
        if "captures" in self.tables:
            size = self.all("SELECT coalesce(sum(size), 0) FROM captures WHERE run_id = ?", (run_id,))[0][0]
        if size > limits.CAPTURES_PER_RUN * limits.CAPTURE_BYTES:
            raise StoreFailed(f"the captures of {run_id} are larger than a run's can be")
        return [
            rows.capture(row) for row in self._rows("captures", rows.CAPTURE_COLUMNS, run_id, "captured_at")
        ]

    def _attestations(self, run_id: str) -> list[Attestation]:
        found = self._rows("attestations", rows.ATTESTATION_COLUMNS, run_id, "attested_at")
        return [rows.attestation(row) for row in found]

    def _rows(self, table: str, columns: str, run_id: str, order: str) -> list[Any]:
        """The rows of a run; none where an older store has no such table."""
        if table not in self.tables:
            return []
        return self.all(f"SELECT {columns} FROM {table} WHERE run_id = ? ORDER BY {order}", (run_id,))


def _summary(options: Any) -> dict[str, Any]:
    """What of the launch options says which Agents were asked; the stub set itself stays with the options."""
    if not isinstance(options, Mapping):
        return {}
    return {key: options[key] for key in ("agents", "label", "stubs_hash") if key in options}


def _info(capture: Capture) -> CaptureInfo:
    fields = {field.name for field in msgspec.structs.fields(CaptureInfo)}
    known = {key: value for key, value in msgspec.structs.asdict(capture).items() if key in fields}
    return CaptureInfo(**known, size=len(capture.body))
