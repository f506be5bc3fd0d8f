"""The control inbox: commands of other processes, applied by the owner and settled in the same order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from extension_api.agent_runs import AgentRunRefused, AgentRuns

from ..errors import StoreError, UsageError, WorkflowError
from ..model import now
from ..store.base import InboxRow, WorkflowStore
from ..store.rows import UNREADABLE
from .answering import applying
from .controls import apply

if TYPE_CHECKING:
    from .service import WorkflowService

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0


class Inbox:
    """Watches one store's inbox for its owner."""

    def __init__(
        self,
        service: WorkflowService,
        store: WorkflowStore,
        session: Callable[[Mapping[str, Any]], AgentRuns],
    ) -> None:
        self._service = service
        self._store = store
        self._session = session

    async def watch(self, every_seconds: float) -> None:
        """Settle rows until cancelled. A store that fails is asked again after RETRY_SECONDS."""
        unsettled = False
        while True:
            try:
                if self._store.inbox_changed() or unsettled:
                    unsettled = True
                    for row in self._store.inbox_open():
                        await self._settle(row)
                    unsettled = False
            except StoreError as error:
                logger.error("the control inbox cannot be settled: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
            await asyncio.sleep(every_seconds)

    async def _settle(self, row: InboxRow) -> None:
        try:
            with applying(row.id):
                detail = await self._apply(row)
            outcome = "applied"
        except AgentRunRefused as error:
            outcome, detail = "refused", {"error": {"type": "NotPermitted", "message": error.message}}
        except StoreError:
            raise
        except WorkflowError as error:
            outcome = "refused"
            detail = {"error": {"type": type(error).__name__, "code": error.code, "message": error.message}}
        except Exception as error:
            logger.exception("control %d (%s) failed", row.id, row.kind)
            outcome = "refused"
            detail = {
                "error": {"type": "WorkflowError", "message": f"the owner failed with {type(error).__name__}"}
            }
        self._store.inbox_settle(row.id, outcome, detail, now())

    async def _apply(self, row: InboxRow) -> dict[str, Any]:
        if row.kind == UNREADABLE:
            raise UsageError("the control row is malformed")
        return await apply(self._service, row.kind, row.run_id, row.body, self._session(row.actor))
