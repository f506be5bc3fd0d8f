"""Run evidence in memory, with the rules of a host: limits, cursors of one scope, detached copies."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace
from typing import Any

from ..run_evidence import (
    RUN_EVIDENCE_MAX_LIMIT,
    InvalidRunEvidenceCursor,
    RunEventPage,
    RunEventView,
    RunEvidenceReader,
    RunPage,
    RunStatusView,
)

_CURSOR_VERSION = 1


class FakeRunEvidence(RunEvidenceReader):
    """A reader over runs that a test puts in. ``scope`` is part of each cursor."""

    def __init__(self, *, scope: str = "all") -> None:
        self._scope = scope
        self._runs: dict[tuple[str, str], tuple[int, RunStatusView]] = {}
        self._events: dict[tuple[str, str], list[RunEventView]] = {}
        self._seq: dict[str, int] = {}
        self._change = 0

    def put_run(self, run: RunStatusView) -> None:
        """Add a run, or change the one with the same thread and run id."""
        self._change += 1
        self._runs[run.thread_id, run.run_id] = (self._change, run)

    def put_event(self, event: RunEventView) -> RunEventView:
        """Append an event to its run; ``seq`` and detached copies are set here. Raises LookupError."""
        key = (event.thread_id, event.run_id)
        if key not in self._runs:
            raise LookupError(f"there is no run {event.run_id!r} on thread {event.thread_id!r}")
        self._seq[event.thread_id] = seq = self._seq.get(event.thread_id, 0) + 1
        stored = _detached(replace(event, seq=seq))
        self._events.setdefault(key, []).append(stored)
        return _detached(stored)

    def delete_run(self, thread_id: str, run_id: str) -> None:
        """Remove a run and its events; nothing tells that it existed."""
        self._runs.pop((thread_id, run_id), None)
        self._events.pop((thread_id, run_id), None)

    async def list_changed_runs(self, *, cursor: str | None, limit: int) -> RunPage:
        _check_limit(limit)
        after = (0, "", "") if cursor is None else self._position(cursor)
        ordered = sorted(
            ((change, *key), run) for key, (change, run) in self._runs.items() if (change, *key) > after
        )
        page = ordered[:limit]
        position = page[-1][0] if page else after
        return RunPage(
            tuple(run for _, run in page),
            self._cursor(position) if page or cursor is not None else None,
            len(ordered) > limit,
        )

    async def list_run_events(
        self, *, thread_id: str, run_id: str, after_seq: int | None, limit: int
    ) -> RunEventPage:
        _check_limit(limit)
        if after_seq is not None and (type(after_seq) is not int or after_seq < 0):
            raise ValueError("after_seq must be a non-negative integer or None")
        after = -1 if after_seq is None else after_seq
        found = [event for event in self._events.get((thread_id, run_id), []) if event.seq > after]
        page = tuple(_detached(event) for event in found[:limit])
        return RunEventPage(page, page[-1].seq if page else after_seq, len(found) > limit)

    async def get_run_status(self, *, thread_id: str, run_id: str) -> RunStatusView | None:
        found = self._runs.get((thread_id, run_id))
        return None if found is None else found[1]

    def _cursor(self, position: tuple[int, str, str]) -> str:
        text = json.dumps([_CURSOR_VERSION, self._scope, *position])
        return base64.urlsafe_b64encode(text.encode()).decode()

    def _position(self, cursor: str) -> tuple[int, str, str]:
        try:
            version, scope, change, thread_id, run_id = json.loads(base64.urlsafe_b64decode(cursor))
        except (ValueError, TypeError) as error:
            raise InvalidRunEvidenceCursor("the cursor is malformed") from error
        if version != _CURSOR_VERSION:
            raise InvalidRunEvidenceCursor("the cursor is of an unsupported version")
        if scope != self._scope:
            raise InvalidRunEvidenceCursor("the cursor belongs to another scope")
        if type(change) is not int or not isinstance(thread_id, str) or not isinstance(run_id, str):
            raise InvalidRunEvidenceCursor("the cursor is malformed")
        return change, thread_id, run_id


def _detached(event: RunEventView) -> RunEventView:
    metadata: dict[str, Any] = copy.deepcopy(event.metadata)
    metadata.pop("auth_token", None)
    return replace(event, content=copy.deepcopy(event.content), metadata=metadata)


def _check_limit(limit: object) -> None:
    if type(limit) is not int or not 1 <= limit <= RUN_EVIDENCE_MAX_LIMIT:
        raise ValueError(f"limit must be an integer from 1 to {RUN_EVIDENCE_MAX_LIMIT}")
