"""A client whose workspace is a list of views, so that commands meet every state a run can be in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.workbench.views import run_view, summary_of
from workflows_core.engine.requests import LaunchOutcome, LaunchRequest, Outcome
from workflows_core.errors import NotFound
from workflows_core.model import Attestation, RunState, RunSummary, RunView


class FakeClient:
    """Shows the views of ``script`` one after the other; the last one stays.

    The class attributes are what a test arranges and what it asks about afterwards.
    """

    script: list[RunView] = []
    owner = True
    existing = False
    launched: list[LaunchRequest] = []
    opened: list[str] = []
    closed = 0
    refusal: Exception | None = None
    others: list[RunSummary] = []

    @classmethod
    def reset(cls, *views: RunView, **arranged: Any) -> None:
        cls.script = list(views) or [run_view()]
        cls.owner, cls.existing, cls.closed, cls.refusal = True, False, 0, None
        cls.launched, cls.opened, cls.others = [], [], []
        for name, value in arranged.items():
            setattr(cls, name, value)

    @classmethod
    async def open(cls, workspace: Any, *, host: str = "never") -> FakeClient:
        cls.opened.append(host)
        if cls.refusal is not None:
            raise cls.refusal
        return cls()

    async def launch(self, request: LaunchRequest) -> LaunchOutcome:
        type(self).launched.append(request)
        return LaunchOutcome(self.script[0].run_id, existing=self.existing)

    async def view(self, run_id: str) -> RunView:
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    async def live(self) -> list[RunSummary]:
        now, type(self).others = self.others, []
        return now

    async def cancel(self, run_id: str) -> Outcome:
        return Outcome("recorded", f"cancelling run {run_id}", (run_id,))

    async def delete(self, run_id: str) -> Outcome:
        return Outcome("applied", f"run {run_id} was deleted", (run_id,))

    async def delete_older_than(self, before: int) -> Outcome:
        gone = tuple(view.run_id for view in self.script if view.created_at < before)
        return Outcome("applied", f"{len(gone)} runs were deleted", gone)

    def subscribe(self, callback: Callable[[str], None]) -> Callable[[], None]:
        callback("any")
        return lambda: None

    async def wait_idle(self) -> None:
        pass

    async def close(self) -> None:
        type(self).closed += 1


class FakeReader:
    """The same views, as commands read them that need no engine."""

    @classmethod
    def open(cls, path: Any) -> FakeReader:
        FakeClient.opened.append("never")
        if FakeClient.refusal is not None:
            raise FakeClient.refusal
        return cls()

    def view(self, run_id: str) -> RunView:
        return FakeClient.script[0]

    def runs(self, limit: int | None) -> list[RunSummary]:
        return [summary_of(view) for view in FakeClient.script][:limit]

    def attestations(self, run_id: str) -> list[Attestation]:
        return []

    def resolve(self, run: str) -> str:
        for view in FakeClient.script:
            if view.run_id.startswith(run):
                return view.run_id
        raise NotFound(f"there is no run {run}")

    def close(self) -> None:
        FakeClient.closed += 1


def ended(state: RunState, **changes: Any) -> RunView:
    return run_view(state=state, **changes)
