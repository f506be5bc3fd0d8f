"""Run evidence: pages over the host's child runs and their events.

Cursors are opaque: signed, versioned and bound to the scope of the reader that gave them.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from typing import Any, Final

from extension_api.agent_runs import AgentRunStatus
from extension_api.run_evidence import (
    RUN_EVIDENCE_MAX_LIMIT,
    InvalidRunEvidenceCursor,
    RunEventPage,
    RunEventView,
    RunEvidenceReader,
    RunPage,
    RunStatusView,
)
from workflows_core.model import iso

from .secret import Secret
from .store import ChildRow, HostStore, to_json

_VERSION: Final = 1
_PURPOSE: Final = "run-evidence-cursor"
_SIGNATURE: Final = 32


class LocalRunEvidence(RunEvidenceReader):
    """A reader for one owner's runs, or for all with ``owner=None``."""

    def __init__(self, store: HostStore, secret: Secret, owner: str | None) -> None:
        self._store = store
        self._secret = secret
        self._owner = owner

    async def list_changed_runs(self, *, cursor: str | None, limit: int) -> RunPage:
        _check_limit(limit)
        after = (0, "") if cursor is None else self._read_cursor(cursor)
        rows = self._store.changed_children(self._owner, after, limit + 1)
        page = rows[:limit]
        following = cursor
        if page:
            change, last = page[-1]
            following = self._write_cursor(change, last.run_id)
        return RunPage(tuple(_status(row) for _, row in page), following, len(rows) > limit)

    async def list_run_events(
        self, *, thread_id: str, run_id: str, after_seq: int | None, limit: int
    ) -> RunEventPage:
        _check_limit(limit)
        if after_seq is not None and (
            isinstance(after_seq, bool) or not isinstance(after_seq, int) or after_seq < 0
        ):
            raise ValueError("after_seq must be a whole number that is not negative")
        if self._visible(thread_id, run_id) is None:
            return RunEventPage()
        rows = self._store.events(thread_id, run_id, after_seq or 0, limit + 1)
        items = tuple(_event(thread_id, run_id, row) for row in rows[:limit])
        return RunEventPage(items, items[-1].seq if items else after_seq, len(rows) > limit)

    async def get_run_status(self, *, thread_id: str, run_id: str) -> RunStatusView | None:
        row = self._visible(thread_id, run_id)
        return None if row is None else _status(row)

    def _visible(self, thread_id: str, run_id: str) -> ChildRow | None:
        row = self._store.child(run_id)
        if row is None or row.thread_id != thread_id or self._owner not in (None, row.owner):
            return None
        return row

    def _write_cursor(self, change: int, run_id: str) -> str:
        body = to_json([_VERSION, change, run_id])
        text = f"{self._sign(body)}{body}"
        return base64.urlsafe_b64encode(text.encode()).decode("ascii")

    def _read_cursor(self, cursor: str) -> tuple[int, str]:
        if not isinstance(cursor, str):
            raise InvalidRunEvidenceCursor("a cursor is text")
        try:
            text = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode()
        except (binascii.Error, ValueError):
            raise InvalidRunEvidenceCursor("the cursor is malformed") from None
        signature, body = text[:_SIGNATURE], text[_SIGNATURE:]
        if not hmac.compare_digest(signature.encode(), self._sign(body).encode()):
            raise InvalidRunEvidenceCursor("the cursor is malformed, or comes from another scope")
        version, *rest = json.loads(body)
        if version != _VERSION:
            raise InvalidRunEvidenceCursor(f"cursors of version {version} are not supported")
        change, run_id = rest
        return change, run_id

    def _sign(self, body: str) -> str:
        scope = "all" if self._owner is None else f"owner:{self._owner}"
        return self._secret.sign(f"{_PURPOSE}/{scope}", body.encode())[:_SIGNATURE]


def _check_limit(limit: object) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= RUN_EVIDENCE_MAX_LIMIT:
        raise ValueError(f"limit must be a whole number from 1 to {RUN_EVIDENCE_MAX_LIMIT}")


def _status(row: ChildRow) -> RunStatusView:
    answer = None if row.active else row.decided()
    failed = answer is not None and answer.status is not AgentRunStatus.SUCCESS
    return RunStatusView(
        thread_id=row.thread_id,
        run_id=row.run_id,
        status=row.status,
        created_at=iso(row.created_at) or "",
        updated_at=iso(row.updated_at) or "",
        error=answer.error_message if answer is not None and failed else None,
        stop_reason=answer.error_code if answer is not None and failed else None,
    )


def _event(thread_id: str, run_id: str, row: tuple[Any, ...]) -> RunEventView:
    seq, event_type, category, content, metadata, created_at = row
    return RunEventView(
        thread_id=thread_id,
        run_id=run_id,
        seq=seq,
        event_type=event_type,
        category=category,
        content=None if content is None else json.loads(content),
        metadata={key: value for key, value in json.loads(metadata).items() if key != "auth_token"},
        created_at=iso(created_at) or "",
    )
