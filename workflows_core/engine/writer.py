"""Writing one run: every commit of a supervised run, and of a run that a command changes, goes through here.

The writer numbers and chains the frames, computes the next record by the state table, and hands the store one
batch a transaction. It keeps no state besides the record and the end of the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from .. import jsontext, limits
from ..journal.frames import ZERO_HASH, ChildNote, Frame, FrameKind, JournalWriter, Mark, Side
from ..model import Attestation, Capture, Cause, Decision, Event, RunRecord, Wait, now, transition
from ..store.base import Batch, WorkflowStore
from .calls import Fault

#: Room kept in a journal for its end frame, which holds at most the result.
END_RESERVE: Final = limits.OUTPUT_BYTES + 2_000


class RunWriter:
    """The one who writes a run. ``changed(run_id)`` is called after each commit."""

    def __init__(
        self,
        record: RunRecord,
        journal: JournalWriter,
        store: WorkflowStore,
        changed: Callable[[str], None],
    ) -> None:
        self.record = record
        self.journal = journal
        self.store = store
        self._changed = changed
        self._committed = journal.state()

    @classmethod
    def reopened(
        cls,
        record: RunRecord,
        store: WorkflowStore,
        changed: Callable[[str], None],
        frames: Sequence[Frame],
        marks: Sequence[Mark],
    ) -> RunWriter:
        """A writer that goes on after a stored journal."""
        size = sum(len(frame.body) for frame in frames)
        last = frames[-1].hash if frames else ZERO_HASH
        journal = JournalWriter(
            frames[-1].number + 1 if frames else 0, last, size, marks[-1].seq + 1 if marks else 0
        )
        return cls(record, journal, store, changed)

    @property
    def run_id(self) -> str:
        return self.record.run_id

    def frame(self, kind: FrameKind, body: bytes, at: int, side: Side | None = None) -> Frame:
        return self.journal.frame(kind, body, at, side)

    def mark(self, at: int, side: Side) -> Mark:
        return self.journal.mark(at, side)

    def next(self, event: Event, **changes: Any) -> RunRecord:
        """The record after ``event``; raises Conflict where the state table has no such row."""
        at = now()
        state = transition(self.record.state, event)
        if state.final:
            changes = {"waiting": None, **changes}
        return msgspec.structs.replace(
            self.record,
            state=state,
            revision=self.record.revision + 1,
            since=at if state is not self.record.state else self.record.since,
            last_progress=at,
            **changes,
        )

    def write(self, event: Event, **changes: Any) -> None:
        self.commit(record=self.next(event, **changes))

    def commit(
        self,
        *,
        frames: Sequence[Frame] = (),
        marks: Sequence[Mark] = (),
        admissions: Sequence[tuple[str, int]] = (),
        readmissions: Sequence[tuple[str, int]] = (),
        captures: Sequence[Capture] = (),
        decision: Decision | None = None,
        attestation: Attestation | None = None,
        record: RunRecord | None = None,
    ) -> None:
        """Commit one batch. Raises StoreFailed or Conflict; then nothing was written."""
        batch = Batch(
            frames=frames,
            marks=marks,
            admissions=admissions,
            readmissions=readmissions,
            captures=captures,
            decision=decision,
            attestation=attestation,
            record=record,
        )
        try:
            self.store.commit(self.record.run_id, batch)
        except BaseException:
            # What was not committed is not part of the chain: the next frame takes its place.
            self.journal.go_back(self._committed)
            raise
        self._committed = self.journal.state()
        if record is not None:
            self.record = record
        self._changed(self.record.run_id)

    def finish(
        self,
        event: Event,
        cause: Cause | None,
        *,
        notes: dict[str, ChildNote] | None = None,
        body: bytes | None = None,
        position: tuple[int, int] | None = None,
        decision: Decision | None = None,
        attestation: Attestation | None = None,
        before: Sequence[Frame] = (),
        **changes: Any,
    ) -> None:
        """Commit the state after ``event``, with the end frame where it is final, in one transaction."""
        at = now()
        record = self.next(event, cause=cause, **changes)
        side = Side(children=notes or {}, position=position)
        frames = list(before)
        marks: list[Mark] = []
        if record.state.final:
            if body is None:
                error = (
                    {"code": cause.code, "message": cause.message, "name": "WorkflowError"} if cause else {}
                )
                body = jsontext.encode({"by": "engine", "error": error, "ok": False})
            frames.append(self.frame(FrameKind.END, body, at, side))
        elif notes:
            marks.append(self.mark(at, side))
        self.commit(frames=frames, marks=marks, decision=decision, attestation=attestation, record=record)

    def wait(self, event: Event, waiting: Wait, frames: Sequence[Frame], **changes: Any) -> None:
        """Commit the frames that reach a wait together with the waiting state."""
        self.commit(frames=frames, record=self.next(event, cause=None, waiting=waiting, **changes))

    def check_journal(self, more: int) -> None:
        """Raise Fault where ``more`` bytes would pass the bound of a journal."""
        if self.journal.bytes + more > limits.JOURNAL_BYTES - END_RESERVE:
            raise Fault(
                "journal_full",
                f"the journal would pass {limits.JOURNAL_BYTES // 1024:,} KiB. "
                "Pass smaller tasks and outputs, or split the workflow",
            )
