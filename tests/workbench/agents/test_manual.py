"""Manual agents: a call waits until a person answers it, and until then only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunStatus
from tests.workbench.agents.contract import BackendContract
from workbench.agents.base import Answer, Call, ChildRef
from workbench.agents.manual import ManualBackend
from workflows_core.errors import Conflict


class Answering(ManualBackend):
    """With a person who knows the answer before the question."""

    def __init__(self) -> None:
        super().__init__()
        self.next: Answer | None = None
        self.asked = 0

    async def observe(self, child: ChildRef, call: Call | None) -> Answer:
        self.asked += 1
        if self.next is not None:
            asyncio.get_running_loop().call_soon(self.answer, child.child_run_id, self.next)
        return await super().observe(child, call)


class ManualLab:
    settings: Mapping[str, Any] = {"instructions": "Look closely."}
    options: Mapping[str, Any] = {"agents": "real"}

    def __init__(self) -> None:
        self.backend = Answering()

    def answers(self, output: Any) -> None:
        self.backend.next = Answer(AgentRunStatus.SUCCESS, output)

    def fails(self) -> None:
        self.backend.next = Answer(AgentRunStatus.ERROR, error_code="no", error_message="I cannot")

    def hangs(self) -> None:
        self.backend.next = None

    def asked(self) -> int:
        return self.backend.asked


class TestManual(BackendContract):
    @pytest.fixture
    def lab(self) -> ManualLab:
        return ManualLab()


CHILD = ChildRef("cr_1", "wf_1", "person")


async def test_a_call_waits_for_its_own_answer_and_takes_one() -> None:
    backend = ManualBackend()
    first = asyncio.create_task(backend.observe(CHILD, None))
    second = asyncio.create_task(backend.observe(ChildRef("cr_2", "wf_2", "person"), None))
    await asyncio.sleep(0)
    backend.answer("cr_2", Answer(AgentRunStatus.SUCCESS, "two"))
    with pytest.raises(Conflict, match="does not wait"):
        backend.answer("cr_2", Answer(AgentRunStatus.SUCCESS, "other"))
    assert (await second).output == "two"
    assert not first.done()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    for gone in ("cr_1", "cr_2", "cr_3"):
        with pytest.raises(Conflict):
            backend.answer(gone, Answer(AgentRunStatus.SUCCESS, 1))


def test_the_instructions_are_the_prompt() -> None:
    described = ManualBackend().describe("person", {"instructions": "Look closely."}, {})
    assert (described.effective_model, described.prompt) == ("manual", "Look closely.")
