"""Who may answer a manual agent's call, and what is refused before the call hears of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunStatus, SessionView
from extension_api.identity import ExtensionPrincipal
from workbench.agents.base import Answer, Backends, ChildRef
from workbench.agents.manual import ManualBackend
from workbench.host.answers import Answers
from workbench.host.driver import Live
from workflows_core.errors import Conflict, LimitExceeded, NotFound, NotPermitted, UsageError


class Desk:
    """One call of ada's that waits, and one of another backend."""

    def __init__(self) -> None:
        self.backend = ManualBackend()
        row = {
            "owner": "ada",
            "run_id": "cr_1",
            "step_id": "review",
            "workflow_run": "wr_1",
            "agent_ref": "person",
        }
        live = {
            "cr_1": SimpleNamespace(row=SimpleNamespace(**row, backend="manual")),
            "cr_2": SimpleNamespace(row=SimpleNamespace(**(row | {"run_id": "cr_2"}), backend="openai")),
        }
        runs: Any = SimpleNamespace(live=live)
        self.answers = Answers(runs, Backends({"manual": self.backend}))
        self.call = asyncio.ensure_future(self.backend.observe(ChildRef("cr_1", "wf_1", "person"), None))

    def give(self, user: str = "ada", *, admin: bool = False, **given: Any) -> dict[str, Any]:
        view = SessionView(
            "s", given.pop("mode", "terminal"), given.pop("interactive", True), "terminal, pts/3"
        )
        session: Any = SimpleNamespace(principal=ExtensionPrincipal(user, is_admin=admin), session=view)
        return self.answers.apply({"child_run_id": "cr_1", "output": "fine", **given}, session)


@pytest.fixture
async def desk() -> Desk:
    made = Desk()
    await asyncio.sleep(0)
    return made


async def test_the_owner_answers_under_their_name(desk: Desk) -> None:
    assert desk.give() == {"status": "applied", "message": "review is answered", "run_ids": ["wr_1"]}
    answer = await desk.call
    assert answer == Answer(AgentRunStatus.SUCCESS, "fine", answered_by="ada (terminal, pts/3)")


async def test_an_administrator_may_answer_and_a_reason_fails_the_call(desk: Desk) -> None:
    desk.give("root", admin=True, failed=" no access ")
    answer = await desk.call
    assert (answer.status, answer.error_code, answer.error_message) == (
        AgentRunStatus.ERROR,
        "answered_failed",
        "no access",
    )


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"user": "eve"}, NotFound),
        ({"interactive": False}, NotPermitted),
        ({"mode": "disabled"}, NotPermitted),
        ({"child_run_id": "cr_9"}, NotFound),
        ({"child_run_id": "cr_2"}, Conflict),
        ({"child_run_id": 7}, UsageError),
        ({"failed": "  "}, UsageError),
        ({"failed": "x" * 2_001}, UsageError),
        ({"output": "x" * 12_000}, LimitExceeded),
        ({"output": "\ud800"}, UsageError),
        ({"output": 2**60 + 1}, UsageError),
    ],
)
async def test_whatever_is_refused_leaves_the_call_waiting(
    desk: Desk, given: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        desk.give(**given)
    assert not desk.call.done()
    desk.give()
    assert (await desk.call).output == "fine"
    with pytest.raises(Conflict, match="does not wait"):
        desk.give()


async def test_a_question_to_a_person_does_not_hold_up_a_shutdown() -> None:
    """Its answer would not come in those seconds; what a program or a server does might."""
    for backend, busy in (("manual", False), ("command", True), ("openai", True)):
        row: Any = SimpleNamespace(backend=backend, durable=0)
        live = Live(row, asyncio.get_running_loop().create_future())
        seen = [live.busy]
        live.task = asyncio.create_task(asyncio.sleep(0))
        seen.append(live.busy)
        live.waiting = True
        seen.append(live.busy)
        assert seen == [False, True, busy]
        await live.task
