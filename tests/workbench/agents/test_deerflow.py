"""The deerflow backend against a Gateway that behaves as one does: asking, logging in, files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunStatus
from workbench.agents.base import BackendUnavailable, FileRefused
from workbench.agents.deerflow import DeerFlowBackend

from .contract import PLANTED, call, child, execute, start
from .labs import GatewayLab, found, words
from .servers import GatewayServer, said

STEP: dict[str, Any] = {"workflow_run": "wr_1", "workflow_step": "a", "workflow_attempt": 1}


@pytest.fixture
async def lab(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayLab]:
    monkeypatch.setenv("GATEWAY_PASSWORD", PLANTED)
    with GatewayServer(ada=PLANTED) as server:
        made = GatewayLab(server)
        yield made
        await made.backend.close()


# Asking


async def test_one_run_on_the_childs_own_thread(lab: GatewayLab) -> None:
    lab.settings |= {
        "assistant": "writer",
        "context": {"thinking_enabled": False},
        "config": {"recursion_limit": 50},
    }
    made = call(lab, {"product": "soap"})
    assert (await execute(lab, made)).output == {"product": "soap"}
    (body,) = lab.server.posts
    assert body == {
        "assistant_id": "writer",
        "input": {"messages": [{"role": "user", "content": '{"product":"soap"}'}]},
        "metadata": {**STEP, "child_run": "cr_a"},
        "multitask_strategy": "reject",
        "on_disconnect": "continue",
        "context": {"thinking_enabled": False},
        "config": {"recursion_limit": 50},
    }
    assert list(lab.server.threads) == ["wf_a"]
    assert set(lab.server.threads["wf_a"]["metadata"]).isdisjoint({"step", "parents"})
    asked = [(request.method, request.path) for request in lab.server.seen]
    assert asked[:4] == [
        ("POST", "/api/v1/auth/login/local"),
        ("POST", "/api/threads"),
        ("GET", "/api/threads/wf_a/runs"),
        ("POST", "/api/threads/wf_a/runs"),
    ]


@pytest.mark.parametrize("base", ["", "/", "/api", "/api/"])
async def test_the_address_may_end_with_the_path_of_the_api(lab: GatewayLab, base: str) -> None:
    lab.settings["base_url"] = lab.server.url + base
    assert (await execute(lab, call(lab))).output == "task"


async def test_a_run_of_the_same_step_is_observed_instead_of_asked(lab: GatewayLab) -> None:
    """Also one that another admission of the step has made: a person said that it did not run, and it did."""
    made = call(lab)
    await execute(lab, made)
    lab.server.outcome = said("not asked")
    answer = await execute(lab, made)
    assert answer.output == "task"
    again = await lab.backend.observe(replace(child(made), child_run_id="cr_2"), made)
    assert again.output == "task"
    assert len(lab.server.posts) == 1


async def test_a_strangers_run_on_the_thread_refuses(lab: GatewayLab) -> None:
    lab.server.threads["wf_a"] = {}
    lab.server.add_run("wf_a", workflow_run="wr_0")
    answer = await execute(lab, call(lab))
    assert (answer.status, answer.error_code) == (AgentRunStatus.ERROR, "thread_taken")
    assert words(answer).startswith("nothing was started")
    assert lab.server.posts == []


async def test_two_runs_of_the_step_are_for_a_person(lab: GatewayLab) -> None:
    lab.server.threads["wf_a"] = {}
    for name in ("cr_x", "cr_y"):
        lab.server.add_run("wf_a", **STEP, child_run=name)
    for answer in (await execute(lab, call(lab)), await found(lab)):
        assert (answer.status, "2 runs of this step" in words(answer)) == (AgentRunStatus.UNKNOWN, True)
    assert lab.server.posts == []


@pytest.mark.parametrize(
    ("what", "kind", "code"),
    [
        ("thread", 403, "gateway_refused"),
        ("thread", 500, "gateway_refused"),
        ("thread", "drop", "gateway_unreachable"),
        ("list", 429, "gateway_refused"),
        ("list", "drop", "gateway_unreachable"),
        ("post", 400, "gateway_refused"),
        ("post", 403, "gateway_refused"),
        ("post", 404, "gateway_refused"),
        ("post", 422, "gateway_refused"),
        ("post", 429, "gateway_refused"),
        ("post", 302, "gateway_refused"),
    ],
)
async def test_what_the_gateway_refuses_started_nothing(
    lab: GatewayLab, what: str, kind: str | int, code: str
) -> None:
    lab.server.fault(what, kind)
    answer = await execute(lab, call(lab))
    assert (answer.status, answer.error_code) == (AgentRunStatus.ERROR, code)
    assert words(answer).startswith("nothing was started: ")
    if isinstance(kind, int):
        assert f"(HTTP {kind})" in words(answer) and f"because of {kind}" in words(answer)
    if kind == 429:
        assert "asks to wait 7 s" in words(answer)
    assert len(lab.server.posts) == (what == "post")


@pytest.mark.parametrize("kind", ["drop", "hang", 500, 502, 503, 504])
async def test_a_request_without_an_answer_is_never_sent_again(lab: GatewayLab, kind: str | int) -> None:
    """Invariant 4: it may have made a run; a thread without one proves nothing."""
    lab.settings["timeout_seconds"] = 0.3
    lab.server.fault("post", kind)
    answer = await execute(lab, call(lab))
    assert (answer.status, answer.error_code) == (AgentRunStatus.UNKNOWN, "uncertain")
    assert "Its thread shows none, which proves nothing" in words(answer)
    assert len(lab.server.posts) == 1


@pytest.mark.parametrize("kind", ["after_drop", "after_hang", "after_500", "after_409"])
async def test_a_run_that_was_made_all_the_same_is_found(lab: GatewayLab, kind: str) -> None:
    lab.settings["timeout_seconds"] = 0.3
    lab.server.fault("post", kind)
    lab.server.fault("list", "pass", 503)
    assert (await execute(lab, call(lab))).output == "task"
    assert len(lab.server.posts) == 1


async def test_a_thread_that_is_busy_started_nothing(lab: GatewayLab) -> None:
    """Somebody starts a run between our look and our request."""
    lab.server.fault("post", 409)
    answer = await execute(lab, call(lab))
    assert (answer.status, answer.error_code) == (AgentRunStatus.ERROR, "thread_busy")
    assert "conflicts with what is there (HTTP 409)" in words(answer)
    assert len(lab.server.posts) == 1


async def test_a_gateway_that_is_not_there_was_asked_nothing(lab: GatewayLab) -> None:
    with GatewayServer() as gone:
        lab.settings["base_url"] = gone.url
    answer = await execute(lab, call(lab))
    assert (answer.status, answer.error_code) == (AgentRunStatus.ERROR, "gateway_unreachable")
    assert gone.url not in words(answer)


async def test_closing_lets_a_request_under_way_reach_its_end(lab: GatewayLab) -> None:
    """Ctrl+c while a run is asked for: what was sent should be known to the next process."""
    lab.server.held = True
    lab.server.fault("post", "slow")
    made = call(lab)
    observing = asyncio.ensure_future(lab.backend.observe(child(made), made))
    async with asyncio.timeout(60):
        while not any(r.path == "/api/threads/wf_a/runs" and r.method == "POST" for r in lab.server.seen):
            await asyncio.sleep(0.001)
    observing.cancel()
    ended, _ = await asyncio.wait({observing}, timeout=0.1)
    assert not ended, "the request has no answer yet"
    lab.server.release()
    with pytest.raises(asyncio.CancelledError):
        await observing
    assert (await found(lab)).output == "task"
    assert len(lab.server.posts) == 1


# Logging in


async def test_a_session_that_ran_out_is_renewed_once(lab: GatewayLab) -> None:
    await execute(lab, call(lab))
    lab.server.sessions.clear()
    assert (await execute(lab, call(lab, step="b"))).output == "task"
    assert len(lab.server.of_step("b")) == 1
    logins = [request for request in lab.server.seen if request.path.endswith("/login/local")]
    assert len(logins) == 2


async def test_calls_side_by_side_log_in_once(lab: GatewayLab) -> None:
    made = [call(lab, step=f"s{number}") for number in range(4)]
    answers = await asyncio.gather(*(lab.backend.observe(child(each), each) for each in made))
    assert {answer.output for answer in answers} == {"task"}
    assert sum(request.path.endswith("/login/local") for request in lab.server.seen) == 1


async def test_a_refused_log_in_is_not_tried_until_the_account_is_locked(
    lab: GatewayLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_PASSWORD", f"wrong-{PLANTED}")
    for step in "abcdefgh":
        answer = await execute(lab, call(lab, step=step))
        assert answer.error_code == "gateway_unreachable"
        assert "the log-in of ada was refused" in words(answer)
    assert lab.server.failures == 1
    monkeypatch.setenv("GATEWAY_PASSWORD", PLANTED)
    assert (await execute(lab, call(lab))).output == "task"


async def test_a_gateway_without_log_in_needs_none(lab: GatewayLab) -> None:
    del lab.settings["username"], lab.settings["password"]
    answer = await execute(lab, call(lab))
    assert "give the agent a username and a password" in words(answer)
    with GatewayServer() as server:
        lab.settings["base_url"] = server.url
        assert (await execute(lab, call(lab))).output == "task"
        assert all("x-csrf-token" not in request.headers for request in server.seen)


async def test_a_missing_password_starts_nothing(lab: GatewayLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GATEWAY_PASSWORD")
    with pytest.raises(BackendUnavailable, match="GATEWAY_PASSWORD is not set"):
        start(lab, call(lab))
    assert "GATEWAY_PASSWORD is not set" in words(await lab.backend.observe(child(call(lab)), call(lab)))
    assert lab.server.seen == []


# Files


async def test_files_are_read_below_user_data_and_bounded(lab: GatewayLab) -> None:
    lab.server.files = {
        "mnt/user-data/outputs/report ?#.md": b"# Evidence\n",
        "mnt/user-data/big.bin": b"x" * 101,
    }
    reference = child(call(lab))
    for path in ("outputs/report ?#.md", "/mnt/user-data/outputs/report ?#.md"):
        read = await lab.backend.read_file(reference, None, path, max_bytes=100)
        assert read == (b"# Evidence\n", "text/markdown")
    for path, code in (
        ("big.bin", "file_too_large"),
        ("none", "file_not_found"),
        ("../api/models", "bad_path"),
    ):
        with pytest.raises(FileRefused) as caught:
            await lab.backend.read_file(reference, None, path, max_bytes=100)
        assert caught.value.code == code
    for fault in (403, 500, "drop"):
        lab.server.fault("artifact", fault)
        with pytest.raises(FileRefused) as caught:
            await lab.backend.read_file(reference, None, "big.bin", max_bytes=1000)
        assert caught.value.code == "file_unreadable"


def test_a_description_names_gateway_and_assistant() -> None:
    settings = {"base_url": "http://h", "assistant": "writer", "context": {"model_name": "m"}}
    described = DeerFlowBackend().describe("w", settings, {})
    assert described.effective_model == "deerflow/writer"
    assert described.policies == {"gateway": "http://h", "context": {"model_name": "m"}}
