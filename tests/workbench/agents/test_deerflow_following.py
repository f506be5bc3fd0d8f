"""The deerflow backend follows a run: faults, how runs end, another process, interruptions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunStatus

from .contract import PLANTED, call, child, execute, until_asked
from .labs import GatewayLab, found, words
from .servers import GatewayServer, human, message, said

STEP: dict[str, Any] = {"workflow_run": "wr_1", "workflow_step": "a", "workflow_attempt": 1}


@pytest.fixture
async def lab(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayLab]:
    monkeypatch.setenv("GATEWAY_PASSWORD", PLANTED)
    with GatewayServer(ada=PLANTED) as server:
        made = GatewayLab(server)
        yield made
        await made.backend.close()


# Following


async def test_looking_goes_on_through_faults(lab: GatewayLab) -> None:
    lab.server.looks = 3
    lab.server.fault("look", 503, "drop", 429, "pass", 500)
    lab.server.fault("messages", 503, "drop")
    assert (await execute(lab, call(lab))).output == "task"


@pytest.mark.parametrize(("kind", "said_words"), [(403, "forbids"), (404, "does not know")])
async def test_a_run_that_cannot_be_looked_at_is_uncertain(
    lab: GatewayLab, kind: int, said_words: str
) -> None:
    lab.server.fault("look", kind)
    answer = await execute(lab, call(lab))
    assert (answer.status, said_words in words(answer)) == (AgentRunStatus.UNKNOWN, True)


@pytest.mark.parametrize(
    ("status", "outcome", "code"),
    [
        ("error", AgentRunStatus.ERROR, "agent_failed"),
        ("timeout", AgentRunStatus.TIMEOUT, "agent_timeout"),
        ("interrupted", AgentRunStatus.INTERRUPTED, "interrupted"),
        ("rolled_back", AgentRunStatus.UNKNOWN, "uncertain"),
        ("", AgentRunStatus.UNKNOWN, "uncertain"),
    ],
)
async def test_only_success_is_success(
    lab: GatewayLab, status: str, outcome: AgentRunStatus, code: str
) -> None:
    lab.server.outcome = said("an answer", status)
    answer = await execute(lab, call(lab))
    assert (answer.status, answer.error_code, answer.output) == (outcome, code, None)


async def test_an_unknown_assistant_is_admitted_and_fails(lab: GatewayLab) -> None:
    lab.settings["assistant"] = "nobody"
    answer = await execute(lab, call(lab))
    assert (answer.status, words(answer)) == (AgentRunStatus.ERROR, "the remote run ended as error")


async def test_a_fallback_is_no_answer(lab: GatewayLab) -> None:
    fallback = message("ai", "Sorry", additional_kwargs={"deerflow_error_fallback": True})
    lab.server.outcome = lambda task: ("success", [fallback])
    assert (await execute(lab, call(lab))).error_code == "provider_failed"


@pytest.mark.parametrize("status", ["success", "interrupted"])
async def test_a_clarification_waits_for_a_person(lab: GatewayLab, status: str) -> None:
    request = {"human_input": {"kind": "human_input_request", "question": "Which soap?"}}
    asks = message("tool", "Which soap?", artifact=request, name="ask_clarification")
    lab.server.outcome = lambda task: (status, [asks])
    answer = await execute(lab, call(lab))
    assert (answer.status, words(answer)) == (AgentRunStatus.WAITING_INPUT, "Which soap?")


async def test_a_person_in_the_thread_conflicts(lab: GatewayLab) -> None:
    lab.server.outcome = lambda task: (
        "success",
        [message("ai", "a"), human("and?", "m2"), message("ai", "b")],
    )
    answer = await execute(lab, call(lab))
    assert (answer.status, answer.error_code) == (AgentRunStatus.ERROR, "attribution_conflict")


async def test_an_answer_behind_many_messages_is_found(lab: GatewayLab) -> None:
    lab.server.page = 7
    tools: list[dict[str, Any]] = [message("tool", f"result {number}") for number in range(40)]
    lab.server.outcome = lambda task: ("success", [*tools, message("ai", "done"), *tools])
    assert (await execute(lab, call(lab))).output == "done"


async def test_messages_without_end_are_refused(lab: GatewayLab) -> None:
    lab.server.page = 1
    tools = [message("tool", "x") for _ in range(80)]
    lab.server.outcome = lambda task: ("success", [*tools, message("ai", "done")])
    answer = await execute(lab, call(lab))
    assert (answer.status, "more than 10,000 messages" in words(answer)) == (AgentRunStatus.UNKNOWN, True)


async def test_an_answer_with_the_password_is_not_kept(lab: GatewayLab) -> None:
    lab.server.outcome = said(f"the password is {PLANTED}")
    assert (await execute(lab, call(lab))).error_code == "secret_in_answer"


# Another process


async def test_a_run_of_an_earlier_process_is_found_on_its_thread(lab: GatewayLab) -> None:
    lab.server.held = True
    made = call(lab)
    observing = asyncio.ensure_future(lab.backend.observe(child(made), made))
    await until_asked(lab)
    async with asyncio.timeout(60):
        while not lab.server.runs:
            await asyncio.sleep(0.005)
    observing.cancel()
    await asyncio.wait({observing})
    lab.server.release()
    later = GatewayLab(lab.server)
    lab.server.fault("list", 503, "drop")
    assert (await found(later)).output == "task"
    assert len(lab.server.posts) == 1
    await later.backend.close()


@pytest.mark.parametrize("thread", [False, True])
async def test_a_thread_without_a_run_proves_nothing(lab: GatewayLab, thread: bool) -> None:
    """Killed between the admission and the request, or while the request was under way."""
    if thread:
        lab.server.threads["wf_a"] = {}
    answer = await found(lab)
    assert (answer.status, "which proves nothing" in words(answer)) == (AgentRunStatus.UNKNOWN, True)
    assert lab.server.posts == []


# Interrupting


async def test_an_interruption_stops_the_remote_run(lab: GatewayLab) -> None:
    lab.server.held = True
    made = call(lab)
    observing = asyncio.ensure_future(lab.backend.observe(child(made), made))
    await until_asked(lab)
    lab.server.fault("cancel", 503, "drop")
    assert await lab.backend.interrupt(child(made))
    answer = await asyncio.wait_for(observing, 60)
    assert answer.status is AgentRunStatus.INTERRUPTED
    assert [run["status"] for run in lab.server.runs.values()] == ["interrupted"]


async def test_an_interruption_before_the_request_asks_nothing(lab: GatewayLab) -> None:
    made = call(lab)
    await lab.backend.interrupt(child(made))
    answer = await execute(lab, made)
    assert answer.status is AgentRunStatus.INTERRUPTED
    assert lab.server.posts == []


async def test_an_interruption_that_comes_too_late_changes_nothing(lab: GatewayLab) -> None:
    made = call(lab)
    await execute(lab, made)
    await lab.backend.interrupt(child(made))
    assert (await found(lab, made)).output == "task"


async def test_an_interruption_reaches_a_run_of_an_earlier_process(lab: GatewayLab) -> None:
    lab.server.threads["wf_a"] = {}
    run_id = lab.server.add_run("wf_a", "running", **STEP, child_run="cr_a")
    lab.server.held = True
    await lab.backend.interrupt(child(call(lab)))
    assert (await found(lab)).status is AgentRunStatus.INTERRUPTED
    assert lab.server.runs[run_id]["status"] == "interrupted"
