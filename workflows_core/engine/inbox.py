"""The control inbox: commands of other processes, applied and settled by the owner.

Controls of one run are applied in their order, those of different runs beside each other: one that waits for a
remote child or for a whole replay keeps nobody else's waiting. A cancel waits for no other control (invariant 12).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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


#: What is applied one after the other: the controls of one run, or of one kind where they name no run.
Lane: TypeAlias = tuple[str, bool]


def _lane(row: InboxRow) -> Lane:
    return row.run_id or row.kind, row.kind == "cancel"


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
        lanes: dict[Lane, asyncio.Task[None]] = {}
        unsettled = False
        try:
            while True:
                try:
                    for lane in [lane for lane, task in lanes.items() if task.done()]:
                        lanes.pop(lane).result()
                    if self._store.inbox_changed() or unsettled:
                        open_rows = self._store.inbox_open()
                        unsettled = bool(open_rows)
                        for row in open_rows:
                            if _lane(row) not in lanes:
                                lanes[_lane(row)] = asyncio.create_task(self._settle(row))
                except StoreError as error:
                    unsettled = True
                    logger.error("the control inbox cannot be settled: %s", error)
                    await asyncio.sleep(RETRY_SECONDS)
                if lanes:
                    await asyncio.wait(
                        lanes.values(), timeout=every_seconds, return_when=asyncio.FIRST_COMPLETED
                    )
                else:
                    await asyncio.sleep(every_seconds)
        finally:
            for task in lanes.values():
                task.cancel()
            if lanes:
                await asyncio.wait(lanes.values())

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
