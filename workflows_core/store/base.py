"""What the engine needs of a store, and the values that cross.

The methods are synchronous: the engine's loop runs in a thread of its own and commits without a hop.
Every write raises StoreFailed when the disk refuses; a write that names a revision raises Conflict when the
record has moved on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from ..journal.frames import Frame, Mark
from ..model import Attestation, Capture, Decision, Definition, RunRecord


class Tombstone(msgspec.Struct, frozen=True):
    """What stays of a deleted run, so that a late retry of its launch is refused by name."""

    run_id: str
    owner: str
    request_id: str
    identity_hash: str
    deleted_at: int


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction writes for a run. ``admissions`` and ``readmissions`` are (step id, attempt)."""

    frames: Sequence[Frame] = ()
    marks: Sequence[Mark] = ()
    admissions: Sequence[tuple[str, int]] = ()
    readmissions: Sequence[tuple[str, int]] = ()
    captures: Sequence[Capture] = ()
    decision: Decision | None = None
    attestation: Attestation | None = None
    record: RunRecord | None = None


class InboxRow(msgspec.Struct, frozen=True):
    """One control from another process. ``kind`` names the command; ``actor`` describes its session."""

    id: int
    kind: str
    run_id: str | None
    body: Mapping[str, Any]
    actor: Mapping[str, Any]
    created_at: int
    settled_at: int | None = None
    outcome: str | None = None
    detail: Mapping[str, Any] | None = None


class WorkflowStore(Protocol):
    """One owner's store. Both implementations pass the same contract suite."""

    incarnation: str

    def create_run(self, record: RunRecord, script: str, start: Frame) -> None:
        """Insert a new run with its frame 0 in one transaction."""

    def commit(self, run_id: str, batch: Batch) -> None:
        """One transaction with everything in ``batch``.

        ``batch.record.revision`` must be one above the stored revision; otherwise, and where a decision or an
        admission stands already, Conflict is raised and nothing is written.
        """

    def load(self, run_id: str) -> RunRecord | None: ...

    def by_request(self, owner: str, request_id: str) -> RunRecord | Tombstone | None: ...

    def decisions(self, run_id: str) -> list[Decision]: ...

    def capture(self, run_id: str, version: str) -> Capture | None:
        """The captured bytes of a version in one run."""

    def capture_count(self, run_id: str) -> int: ...

    def captured_bytes(self, owner: str) -> int: ...

    def attestations(self, run_id: str) -> list[Attestation]: ...

    def save_definition(self, definition: Definition, script: str) -> None:
        """Insert a saved version; an identical one stays as it was, with the bytes of ``script``."""

    def definitions(self, owner: str) -> list[Definition]: ...

    def expired_waits(self, at: int) -> list[RunRecord]:
        """Recoverable records whose wait ended before ``at``."""

    def unfinished(self) -> list[RunRecord]:
        """Records in a state that only a living owner may hold."""

    def journal(self, run_id: str) -> tuple[list[Frame], list[Mark]]: ...

    def script(self, script_hash: str) -> str: ...

    def count_active(self, owner: str | None = None) -> int: ...

    def count_uncertain_places(self) -> int:
        """How many uncertain children of runs that need reconciliation hold a concurrency place."""

    def count_retained(self, owner: str) -> int: ...

    def admissions(self, run_id: str) -> list[tuple[str, int]]:
        """The step and attempt of every admission intent that stands."""

    def latest_time(self) -> int:
        """The latest time that a run was written at, in microseconds since the epoch; 0 in an empty store."""

    def delete_run(self, record: RunRecord, at: int, control: int | None = None) -> None:
        """Delete a run with its journal on condition of its revision, leaving a tombstone.

        ``control`` is the control row that asked for it, where another process did.
        """

    def deleted_by(self, control: int) -> list[str]:
        """The runs that were deleted for a control row, in that order."""

    def tombstone(self, run_id: str) -> Tombstone | None: ...

    def give_back(self, *, rewrite: bool) -> bool:
        """One step of giving the bytes of what was deleted back; whether to ask again.

        ``rewrite``: whether a step may hold the thread for as long as writing the whole store takes.
        """

    def latest(self, owner: str, limit: int) -> list[RunRecord]: ...

    def older_than(self, owner: str, before: int) -> list[RunRecord]: ...

    def inbox_changed(self) -> bool:
        """Whether another connection wrote since the last call."""

    def inbox_open(self) -> list[InboxRow]: ...

    def inbox_settle(self, row_id: int, outcome: str, detail: Mapping[str, Any], at: int) -> None:
        """Settle a control that is not settled yet, and let go of its body. Id, kind and outcome stay."""

    def settling(self, row_id: int, detail: Mapping[str, Any]) -> AbstractContextManager[None]:
        """The commit inside also settles this control as applied, in the same transaction."""

    def owner_pid_of(self, incarnation: str) -> int | None: ...

    def close(self) -> None: ...
