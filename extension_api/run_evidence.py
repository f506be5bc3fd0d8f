"""Read-only evidence of the host's runs. Reader and views: contract 0.2.1. Per request: 0.2.3.

A reader from ``ExtensionRuntimeDeps`` sees the runs of all users. What a user's route answers comes from the
request's own reader, which sees that caller's runs only.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from .identity import host_resolver

RUN_EVIDENCE_READER_RESOLVER_KEY: Final = "deerflow_extension_run_evidence_reader_resolver"
"""``app.state`` attribute of the host's resolver ``(request) -> RunEvidenceReader | None``."""

RUN_EVIDENCE_MAX_LIMIT: Final = 2000
"""The largest page that a reader gives; the smallest is 1."""


class InvalidRunEvidenceCursor(ValueError):
    """The cursor is malformed, of a version this host does not read, or from another scope."""


@dataclass(frozen=True)
class RunStatusView:
    """One run. Times are text as the host records them."""

    thread_id: str = ""
    run_id: str = ""
    status: str = ""
    created_at: str = ""
    updated_at: str = ""
    error: str | None = None
    stop_reason: str | None = None


@dataclass(frozen=True)
class RunEventView:
    """One event. ``seq`` rises within a thread, across its runs. Content and metadata are detached copies."""

    thread_id: str = ""
    run_id: str = ""
    seq: int = 0
    event_type: str = ""
    category: str = ""
    content: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: str = ""


@dataclass(frozen=True)
class RunPage:
    """Runs in the order in which they changed. ``next_cursor`` continues after the last of them."""

    items: tuple[RunStatusView, ...] = ()
    next_cursor: str | None = None
    has_more: bool = False


@dataclass(frozen=True)
class RunEventPage:
    """Events of one run. ``next_after_seq`` continues after the last of them."""

    items: tuple[RunEventView, ...] = ()
    next_after_seq: int | None = None
    has_more: bool = False


class RunEvidenceReader(Protocol):
    """Pages through runs and their events.

    ``limit`` is from 1 to 2000 and ``after_seq`` not negative; ValueError otherwise, for a bool too. A
    deleted run leaves nothing behind: its status is None and its events are an empty page, as for a run
    that the reader may not see.
    """

    async def list_changed_runs(self, *, cursor: str | None, limit: int) -> RunPage:
        """Runs that changed after ``cursor``. Raises InvalidRunEvidenceCursor for a foreign cursor."""
        raise NotImplementedError

    async def list_run_events(
        self, *, thread_id: str, run_id: str, after_seq: int | None, limit: int
    ) -> RunEventPage:
        """Events of the run with a ``seq`` above ``after_seq``."""
        raise NotImplementedError

    async def get_run_status(self, *, thread_id: str, run_id: str) -> RunStatusView | None:
        """The run, or None where it is absent or not visible."""
        raise NotImplementedError


def resolve_run_evidence_reader(request: object) -> RunEvidenceReader | None:
    """A reader bound to the caller of a contributed route, or None on a host that has none per request.

    ``request`` is duck-typed. An error of the host's resolver passes on: PermissionError for a caller who may
    not read runs.
    """
    resolver = host_resolver(request, RUN_EVIDENCE_READER_RESOLVER_KEY)
    if resolver is None:
        return None
    reader = resolver(request)
    if inspect.iscoroutine(reader):
        reader.close()  # a resolver is synchronous; what this one offers is not a reader
        return None
    return cast("RunEvidenceReader | None", reader)


def require_run_evidence_reader(request: object) -> RunEvidenceReader:
    """``resolve_run_evidence_reader``, raising NotImplementedError where that returns None.

    A route maps NotImplementedError to HTTP 503 and PermissionError to 403.
    """
    reader = resolve_run_evidence_reader(request)
    if reader is None:
        raise NotImplementedError("request-scoped run evidence is unavailable")
    return reader
