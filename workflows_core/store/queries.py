"""What readers ask of a store, and how the rows become views: one piece of code, however statements are run.

A question is a generator. It yields statements, is sent the rows of each, and returns its answer; a reader
runs it to its end, on a thread of its own (``blocking.py``) or in an asyncio loop (``reader.py``).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from .. import jsontext
from ..errors import NotFound, StoreFailed, StoreTooNew
from ..journal.view import RunReducer, summary
from ..model import (
    RECORD_DAMAGED,
    WAIT_EXPIRED,
    Artifact,
    Attestation,
    Cause,
    Definition,
    RunRecord,
    RunState,
    RunSummary,
    RunView,
    StepKind,
    Wait,
    now,
)
from . import rows
from .lock import lock_path, owner_pid
from .migrations import NEWEST

T = TypeVar("T")

#: SQL text and the values for its placeholders.
Statement: TypeAlias = tuple[str, tuple[Any, ...]]
Question: TypeAlias = Generator[Statement, list[Any], T]

_CACHED_REDUCERS = 16


def read_only(path: Path) -> str:
    """The URI that opens a store for reading only."""
    return f"{path.absolute().as_uri()}?mode=ro"


def usable(path: Path) -> Question[bool]:
    """Whether the file holds a store yet. Raises StoreTooNew."""
    found = yield "SELECT count(*) FROM sqlite_master WHERE name = 'inbox'", ()
    if found[0][0] == 0:
        return False
    found = yield "SELECT max(number) FROM migrations", ()
    number = found[0][0]
    if number is not None and number > NEWEST:
        raise StoreTooNew(
            f"{path} has schema {number}, and this version knows {NEWEST}. "
            "Use the newer workbench that wrote it; nothing was changed"
        )
    if number is None or number < NEWEST:
        raise StoreFailed(
            f"{path} has schema {number or 0}, from an older version. The next command that hosts the engine brings "
            "it up to date, for example 'workbench run'; until then it cannot be read"
        )
    return True


class Questions:
    """The questions about one store. Views are kept, so that asking again reads only what is new.

    Of the questions that give a view one at a time may be under way; the others may overlap.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reducers: dict[str, tuple[RunReducer, Mapping[str, Any]]] = {}

    def owner_pid(self) -> int | None:
        """The pid of the process that owns the store, None where nobody does, 0 where it cannot be read."""
        return owner_pid(lock_path(self.path))

    def runs(self, limit: int | None) -> Question[list[RunSummary]]:
        """The newest runs first; ``limit`` None means all."""
        alive = self.owner_pid() is not None
        found = yield (
            f"SELECT {rows.RUN_COLUMNS} FROM runs ORDER BY created_at DESC, run_id DESC LIMIT ?",
            (-1 if limit is None else limit,),
        )
        listed = []
        for row in found:
            record = yield from self._effective(rows.run_record(row, {}), alive)
            listed.append(summary(record))
        return listed

    def summary(self, run_id: str) -> Question[RunSummary]:
        """The list row of one run. Raises NotFound."""
        alive = self.owner_pid() is not None
        record = yield from self._record(run_id, {})
        record = yield from self._effective(record, alive)
        return summary(record)

    def resolve(self, run: str) -> Question[str]:
        """The full id for an id or a unique prefix of one; raise NotFound in words."""
        if not run:
            raise NotFound("a run id is empty; 'workbench runs' lists the ids")
        found = yield (
            "SELECT run_id FROM runs WHERE run_id >= ? AND run_id < ? ORDER BY run_id LIMIT 3",
            (run, run + "\U0010ffff"),
        )
        ids = [str(row[0]) for row in found]
        if run in ids:
            return run
        if len(ids) == 1:
            return ids[0]
        if ids:
            raise NotFound(f"more than one run starts with {run}: {', '.join(ids)}. Give more of the id")
        gone = yield "SELECT deleted_at FROM tombstones WHERE run_id = ?", (run,)
        if gone:
            raise NotFound(f"run {run} was deleted")
        raise NotFound(f"there is no run {run} in {self.path.parent.parent}; 'workbench runs' lists them")

    def view(self, run_id: str) -> Question[RunView]:
        """The view of one run. Repeated questions read only the frames that are new since the last one."""
        alive = self.owner_pid() is not None
        cached = self._reducers.pop(run_id, None)
        if cached is None:
            cached = yield from self._start_reducer(run_id)
        reducer, options = cached
        # The record is read before the journal: a view may show frames that are newer than the record's
        # state, never a final state without the frames that led to it.
        record = yield from self._record(run_id, options)
        record = yield from self._effective(record, alive)
        frames = yield (
            f"SELECT {rows.FRAME_COLUMNS} FROM frames WHERE run_id = ? AND number >= ? ORDER BY number",
            (run_id, reducer.frame_count),
        )
        marks = yield (
            f"SELECT {rows.MARK_COLUMNS} FROM marks WHERE run_id = ? AND seq >= ? ORDER BY seq",
            (run_id, reducer.mark_count),
        )
        decisions = yield (
            f"SELECT {rows.DECISION_COLUMNS} FROM decisions WHERE run_id = ? ORDER BY decided_at",
            (run_id,),
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
        return reducer.view(record, [rows.decision(row) for row in decisions])

    def attestations(self, run_id: str) -> Question[list[Attestation]]:
        """What people have stated about uncertain steps of a run, in their order."""
        found = yield (
            f"SELECT {rows.ATTESTATION_COLUMNS} FROM attestations WHERE run_id = ? ORDER BY attestation_id",
            (run_id,),
        )
        return [rows.attestation(row) for row in found]

    def definitions(self, owner: str | None = None) -> Question[list[Definition]]:
        """The saved versions of ``owner``, or of everybody, by name and newest first."""
        found = yield (
            "SELECT owner, name, version, saved_at FROM definitions WHERE owner = ?1 OR ?1 IS NULL "
            "ORDER BY name, saved_at DESC",
            (owner,),
        )
        return [Definition(owner=row[0], name=row[1], version=row[2], saved_at=row[3]) for row in found]

    def definition(
        self, name: str, version: str, owner: str | None = None
    ) -> Question[tuple[Definition, str]]:
        """A saved version of ``owner``, or of anybody, by at least 7 characters of its hash, with its script.

        Two owners may have saved the same version. Raises NotFound.
        """
        saved = yield from self.definitions(owner)
        known = {
            item.version: item
            for item in saved
            if item.name == name and len(version) >= 7 and item.version.startswith(version)
        }
        if len(known) != 1:
            problem = "more than one version matches" if known else "there is no saved version"
            raise NotFound(f"{problem} {name}@{version[:12]}; 'workbench library' lists them")
        (one,) = known.values()
        found = yield "SELECT body FROM contents WHERE hash = ?", (one.version,)
        body = found[0][0] if found else b""
        rows.check_saved(one, body)
        return one, str(body, "utf-8")

    def artifact(self, run_id: str, step_id: str) -> Question[Artifact]:
        """The exact bytes of a step: of a capture its file, of anything else its output's canonical JSON.

        For a checkpoint those are the bytes that it asks about. Raises NotFound.
        """
        view = yield from self.view(run_id)
        steps = {step.step_id: step for step in view.steps}
        step = steps.get(step_id)
        if step is not None and step.kind is StepKind.CHECKPOINT and isinstance(step.input, dict):
            step = steps.get(str(step.input.get("sourceStepId")))
        if step is None:
            raise NotFound(f"run {run_id} has no step {step_id}; 'workbench show {run_id}' lists its steps")
        if step.kind is StepKind.CAPTURE:
            found = yield (
                f"SELECT {rows.CAPTURE_COLUMNS} FROM captures WHERE run_id = ? AND step_id = ?",
                (run_id, step.step_id),
            )
            if found:
                capture = rows.capture(found[0])
                if jsontext.sha256(capture.body) != capture.version:
                    raise StoreFailed(
                        f"the kept bytes of {step_id} are not those that were captured; {self.path} was changed"
                    )
                return Artifact(step.step_id, capture.version, capture.media_type, capture.body, capture.path)
        if not step.has_output:
            raise NotFound(f"step {step_id} of run {run_id} has no output; it is {step.status.value}")
        body = jsontext.encode(step.output)
        return Artifact(step.step_id, jsontext.sha256(body), "application/json", body, None)

    def _record(self, run_id: str, options: Mapping[str, Any]) -> Question[RunRecord]:
        found = yield f"SELECT {rows.RUN_COLUMNS} FROM runs WHERE run_id = ?", (run_id,)
        if not found:
            raise NotFound(f"there is no run {run_id}; 'workbench runs' lists them")
        return rows.run_record(found[0], options)

    def _start_reducer(self, run_id: str) -> Question[tuple[RunReducer, Mapping[str, Any]]]:
        found = yield (
            "SELECT s.body, o.body FROM runs LEFT JOIN contents s ON s.hash = script_hash "
            "LEFT JOIN contents o ON o.hash = options_hash WHERE run_id = ?",
            (run_id,),
        )
        if not found:
            raise NotFound(f"there is no run {run_id}; 'workbench runs' lists them")
        script, options = found[0]
        return (
            RunReducer(str(script or b"", "utf-8", "replace")),
            rows.decode_object(options) if options is not None else {},
        )

    def _effective(self, record: RunRecord, alive: bool) -> Question[RunRecord]:
        """The record as it must be shown: a run that only a living owner may hold, without one."""
        if not alive and record.state.owned:
            found = yield (
                "SELECT pid, ended_at FROM owners WHERE incarnation = ?",
                (record.owner_incarnation,),
            )
            record = orphaned(record, found[0][0] if found else None)
        wait = overdue(record)
        if wait is None:
            return record
        decided = yield (
            "SELECT 1 FROM decisions WHERE run_id = ? AND step_id = ? AND attempt = ?",
            (record.run_id, wait.step_id, wait.attempt),
        )
        # A decision was in time, and it is what the run goes on with.
        return record if decided else expired(record, wait)


def overdue(record: RunRecord) -> Wait | None:
    """The wait of a run without an owner that has expired, unless it was decided in time."""
    wait = record.waiting
    if wait is None or wait.expires_at is None or record.state is not RunState.RECOVERABLE:
        return None
    return wait if wait.expires_at <= now() else None


def expired(record: RunRecord, wait: Wait) -> RunRecord:
    """``record`` as it is shown until its next owner ends it; its view shows the step as expired."""
    cause = Cause(WAIT_EXPIRED, f"the wait of {wait.step_id} has expired; nothing was approved")
    return msgspec.structs.replace(record, cause=cause)


def orphaned(record: RunRecord, pid: int | None) -> RunRecord:
    """``record`` as recoverable, with the cause in words; a damaged one as interrupted, with its own."""
    if record.cause is not None and record.cause.code == RECORD_DAMAGED:
        return msgspec.structs.replace(record, state=RunState.INTERRUPTED)
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
