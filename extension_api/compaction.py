"""Messages that were folded into a summary (contract 0.2.0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .state import ExtensionData


@dataclass(frozen=True)
class CompactionEvent:
    """Which messages became which summary.

    The hashes are ``canonical_hash(message.content)``, of the content itself and never of its string form.
    """

    transform_kind: str
    transform_version: str
    source_content_hashes: tuple[str, ...]
    output_content_hash: str
    compacted_message_count: int
    kept_message_count: int


class ContextCompactionObserver(Protocol):
    """Told of each asynchronous summarization, off the path of the run and with a detached store."""

    async def on_context_compacted(
        self, app_store: ExtensionData, task_store: ExtensionData, event: CompactionEvent
    ) -> None:
        """Whatever must outlive this call belongs into ``app_store``."""
        return
