"""Model calls that the host makes for itself (contract 0.1.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from .state import ExtensionData


class SystemOperationKind(StrEnum):
    """What the host asked a model for."""

    GOAL = "goal"
    MEMORY = "memory"
    TITLE = "title"
    SUMMARIZATION = "summarization"


@dataclass(frozen=True)
class SystemModelRequest:
    """The call as it was before it was made. ``messages`` is always a tuple; a string is one message."""

    messages: Sequence[Any] = ()
    model_name: str | None = None
    invoke_config: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        messages = self.messages
        normalized = (messages,) if isinstance(messages, (str, bytes)) else tuple(messages)
        object.__setattr__(self, "messages", normalized)


@dataclass(frozen=True)
class SystemModelResult:
    """What came of the call: a response, or the exception (a CancelledError where it was cancelled)."""

    response: Any | None = None
    error: BaseException | None = None
    duration_ms: float | None = None


class SystemModelCallObserver(Protocol):
    """Told of every such call, however it ended. ``task_store`` is a detached store where no task is live."""

    async def on_system_model_call(
        self,
        app_store: ExtensionData,
        task_store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        """Awaited on the path of the run, without a budget; after a cancellation off that path."""
        return
