"""What every backend must do, whatever runs its Agents. Subclass BackendContract and give it a ``lab`` fixture."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Protocol

import pytest

from extension_api.agent_runs import AgentRunStatus
from extension_api.hashing import canonical_json
from workbench.agents.base import Answer, Backend, Call, ChildRef, FileRefused, Started

#: In every secret of a lab: it may stand nowhere else.
PLANTED = "planted-secret-0123456789"


class Lab(Protocol):
    """A backend with something behind it that can be told what to do."""

    @property
    def backend(self) -> Backend: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...

    @property
    def options(self) -> Mapping[str, Any]: ...

    def answers(self, output: Any) -> None:
        """The next call is answered with this output."""

    def fails(self) -> None:
        """The next call fails."""

    def hangs(self) -> None:
        """The next call has no end of its own."""

    def asked(self) -> int:
        """How often something was really asked."""


def call(lab: Lab, task: Any = "task", step: str = "a") -> Call:
    return Call(
        child_run_id=f"cr_{step}",
        agent_ref="writer",
        thread_id=f"wf_{step}",
        input={"task": task, "artifacts": []},
        run_id="wr_1",
        step_id=step,
        attempt=1,
        options=lab.options,
        settings=lab.settings,
    )


def child(made: Call) -> ChildRef:
    return ChildRef(
        made.child_run_id,
        made.thread_id,
        made.agent_ref,
        made.settings,
        made.input,
        made.run_id,
        made.step_id,
        made.attempt,
    )


def start(lab: Lab, made: Call) -> Started:
    return lab.backend.start(made, lambda run, entry: 0, 0)


async def execute(lab: Lab, made: Call) -> Answer:
    """Start and observe; the answer."""
    started = start(lab, made)
    if started.answer is not None:
        return started.answer
    async with asyncio.timeout(60):
        return await lab.backend.observe(child(made), made)


async def until_asked(lab: Lab, count: int = 1) -> None:
    async with asyncio.timeout(60):
        while lab.asked() < count:
            await asyncio.sleep(0.005)


class BackendContract:
    """The contract suite."""

    def test_what_starts_is_what_the_backend_says(self, lab: Lab) -> None:
        lab.answers("x")
        started = start(lab, call(lab))
        assert started.badge in ("stub", "recorded", "manual", "live")
        assert started.durable == lab.backend.durable
        assert (started.answer is None) == (started.due is None)

    @pytest.mark.parametrize(
        "output", ["text", "", {"n": [1, 2.5, None, True]}, 7, [], "\u2028 \0 é", {"deep": {"a": [{}]}}]
    )
    async def test_an_answer_is_the_output(self, lab: Lab, output: Any) -> None:
        lab.answers(output)
        answer = await execute(lab, call(lab))
        assert (answer.status, answer.output) == (AgentRunStatus.SUCCESS, output)
        assert (answer.error_code, answer.error_message) == (None, None)

    async def test_a_failure_has_a_code_and_a_sentence(self, lab: Lab) -> None:
        lab.fails()
        answer = await execute(lab, call(lab))
        assert answer.status is AgentRunStatus.ERROR
        assert answer.error_code and answer.error_message
        assert PLANTED not in answer.error_message

    async def test_a_call_is_asked_once(self, lab: Lab) -> None:
        for number, step in enumerate(("a", "b"), 1):
            lab.answers(number)
            assert (await execute(lab, call(lab, step=step))).output == number
            assert lab.asked() == number

    async def test_a_failed_call_is_not_asked_again(self, lab: Lab) -> None:
        lab.fails()
        await execute(lab, call(lab))
        assert lab.asked() == 1

    def test_a_description_is_stable_json_without_secrets(self, lab: Lab) -> None:
        first = lab.backend.describe("writer", lab.settings, lab.options)
        assert first == lab.backend.describe("writer", lab.settings, lab.options)
        assert first.effective_model
        text = canonical_json([first.model_parameters, first.prompt, first.policies, first.effective_model])
        assert PLANTED not in text and PLANTED not in repr(first) and json.loads(text)

    async def test_ending_the_observation_ends_it(self, lab: Lab) -> None:
        lab.hangs()
        made = call(lab)
        if start(lab, made).answer is not None:
            pytest.fail("what hangs has no answer")
        before = asyncio.all_tasks()
        observing = asyncio.ensure_future(lab.backend.observe(child(made), made))
        await until_asked(lab)
        observing.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(60):
                await observing
        assert asyncio.all_tasks() - before <= {observing}

    async def test_an_interruption_ends_what_runs(self, lab: Lab) -> None:
        lab.hangs()
        made = call(lab)
        start(lab, made)
        observing = asyncio.ensure_future(lab.backend.observe(child(made), made))
        await until_asked(lab)
        tells = lab.backend.durable and await lab.backend.interrupt(child(made))
        if not tells:
            observing.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait({observing})
        if tells:
            assert observing.result().status is AgentRunStatus.INTERRUPTED
        else:
            assert observing.cancelled()

    @pytest.mark.parametrize("path", ["../secret", "a/../../b", "", "a\0b", "missing.md", "/etc/passwd"])
    async def test_only_files_of_the_childs_own_are_read(self, lab: Lab, path: str) -> None:
        lab.answers("x")
        made = call(lab)
        await execute(lab, made)
        with pytest.raises(FileRefused) as caught:
            await lab.backend.read_file(child(made), None, path, max_bytes=100)
        assert caught.value.code and str(caught.value)
