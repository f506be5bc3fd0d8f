"""The control inbox: commands of other processes, applied by the owner and settled in the same order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from extension_api.agent_runs import AgentRunRefused, AgentRuns

from ..errors import StoreError, UsageError, WorkflowError
from ..model import now
from ..store.base import InboxRow, WorkflowStore
from .requests import LaunchRequest

if TYPE_CHECKING:
    from .service import WorkflowService

logger = logging.getLogger(__name__)


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
        """Settle rows until cancelled. A store that fails is asked again at the next turn."""
        while True:
            try:
                if self._store.inbox_changed():
                    for row in self._store.inbox_open():
                        await self._settle(row)
            except StoreError as error:
                logger.error("the control inbox cannot be read: %s", error)
            await asyncio.sleep(every_seconds)

    async def _settle(self, row: InboxRow) -> None:
        try:
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
        runs = self._session(row.actor)
        if row.kind == "launch":
            try:
                request = msgspec.convert(row.body, LaunchRequest)
            except msgspec.ValidationError as error:
                raise UsageError(f"the launch in the control inbox is malformed: {error}") from None
            launched = await self._service.launch(request, runs)
            return {"run_id": launched.run_id, "existing": launched.existing}
        if row.kind == "cancel" and row.run_id is not None:
            return msgspec.structs.asdict(await self._service.cancel(row.run_id, runs))
        if row.kind == "delete" and row.run_id is not None:
            return msgspec.structs.asdict(await self._service.delete(row.run_id, runs))
        if row.kind == "delete_older_than":
            before = row.body.get("before")
            if not isinstance(before, int):
                raise UsageError("delete --older-than needs a time")
            return msgspec.structs.asdict(await self._service.delete_older_than(before, runs))
        raise UsageError(f"the owner does not know the control {row.kind}; it may be an older version")
