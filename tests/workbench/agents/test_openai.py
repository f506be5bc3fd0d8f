"""The openai backend: one request, one answer, and what is known where none came."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunStatus
from workbench.agents.base import Answer, BackendUnavailable

from .contract import PLANTED, call, child, execute, start
from .labs import CompletionLab
from .servers import DROP, CompletionServer, Response, completion


@pytest.fixture
async def lab(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CompletionLab]:
    monkeypatch.setenv("WRITER_KEY", PLANTED)
    with CompletionServer(PLANTED) as server:
        made = CompletionLab(server)
        yield made
        await made.backend.close()


async def judged(lab: CompletionLab, *replies: Response, **settings: Any) -> Answer:
    lab.server.replies.extend(replies)
    lab.settings |= settings
    return await execute(lab, call(lab))


async def test_what_is_sent(lab: CompletionLab) -> None:
    lab.settings |= {"temperature": 0.5, "max_tokens": 100, "parameters": {"top_p": 0.9, "seed": 7}}
    made = call(lab, {"b": 1, "a": [None]})
    assert (await execute(lab, made)).output == {"a": [None], "b": 1}
    assert lab.server.calls == [
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "You write."},
                {"role": "user", "content": '{"a":[null],"b":1}'},
            ],
            "temperature": 0.5,
            "max_tokens": 100,
            "top_p": 0.9,
            "seed": 7,
        }
    ]
    (request,) = lab.server.seen
    assert request.headers["authorization"] == f"Bearer {PLANTED}"


async def test_a_server_without_a_key_is_sent_none(lab: CompletionLab) -> None:
    lab.server.key = None
    del lab.settings["api_key"], lab.settings["system"]
    assert (await execute(lab, call(lab))).output == "task"
    (request,) = lab.server.seen
    assert "authorization" not in request.headers
    assert [message["role"] for message in request.json()["messages"]] == ["user"]


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (Response(401, {"error": {"message": f"bad key {PLANTED}"}}), "server_refused", "bad key [secret]"),
        (Response(403, {"error": {"message": "no"}}), "server_refused", "forbids it (HTTP 403): no"),
        (Response(404), "server_refused", "does not know it (HTTP 404)"),
        (Response(429, None, (("Retry-After", "7"),)), "server_refused", "too many requests (HTTP 429); it asks to wait 7 s"),
        (Response(302, None, (("Location", "http://x/"),)), "server_refused", "redirects elsewhere"),
        (Response(500, data=b"<html>"), "server_failed", "the server failed (HTTP 500)"),
        (Response(503, {"detail": "a\x1b[31mb"}), "server_failed", "a␛[31mb"),
        (Response(200, data=b"<html>"), "not_a_completion", "check base_url"),
        (Response(200, {"choices": []}), "not_a_completion", "check base_url"),
        (Response(200, {"choices": [{"message": None}]}), "not_a_completion", "check base_url"),
        (Response(200, [1]), "not_a_completion", "check base_url"),
        (completion('{"a": 1', "length"), "answer_cut_off", "raise max_tokens"),
        (completion("x", "content_filter"), "answer_refused", "refused"),
        (completion(None, refusal="I cannot"), "answer_refused", "refused"),
        (completion(None, "tool_calls", tool_calls=[{}]), "asks_for_tools", "asks for tools"),
        (completion(None), "no_answer", "no answer"),
        (completion("  "), "no_answer", "no answer"),
        (completion(f"my key is {PLANTED}"), "secret_in_answer", "not kept"),
        (completion(json.dumps({PLANTED: 1})), "secret_in_answer", "not kept"),
        (Response(200, data=b"x" * 3_000_000), "answer_unusable", "larger than"),
        (Response(200, data=b"x", headers=(("Content-Encoding", "gzip"),)), "answer_unusable", "not asked for"),
    ],
)  # fmt: skip
async def test_what_is_no_answer(lab: CompletionLab, reply: Response, code: str, words: str) -> None:
    answer = await judged(lab, reply)
    assert (answer.error_code, answer.output) == (code, None)
    assert answer.error_message is not None and words in answer.error_message
    assert PLANTED not in answer.error_message
    assert len(lab.server.calls) == 1, "nothing is asked twice"


async def test_content_blocks_and_json(lab: CompletionLab) -> None:
    assert (await judged(lab, completion([{"type": "text", "text": '{"n": 1}'}]))).output == {"n": 1}
    assert (await judged(lab, completion("```json\n{}\n```"))).output == "```json\n{}\n```"


@pytest.mark.parametrize("broken", [DROP, Response(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), Response(raw=b"nonsense\r\n\r\n")])  # fmt: skip
async def test_a_connection_that_breaks_after_the_request_leaves_it_open(
    lab: CompletionLab, broken: Response
) -> None:
    answer = await judged(lab, broken)
    assert (answer.status, answer.error_code) == (AgentRunStatus.UNKNOWN, "uncertain")
    assert answer.error_message is not None and "may have been made and charged" in answer.error_message
    assert len(lab.server.calls) == 1


async def test_a_server_that_is_too_slow_leaves_it_open(lab: CompletionLab) -> None:
    lab.hangs()
    answer = await judged(lab, timeout_seconds=1)
    assert answer.status is AgentRunStatus.UNKNOWN
    assert answer.error_message is not None and "within 1 s" in answer.error_message


async def test_a_server_that_drips_is_too_slow(lab: CompletionLab) -> None:
    """Each byte comes in time, the whole does not."""
    lab.server.replies.append(completion("x" * 200)._replace(drip=0.02))
    assert (await judged(lab, timeout_seconds=1)).status is AgentRunStatus.UNKNOWN


async def test_a_server_that_is_not_there_was_asked_nothing(lab: CompletionLab) -> None:
    with CompletionServer() as gone:
        url = f"{gone.url}/v1"
    answer = await judged(lab, base_url=url)
    assert (answer.status, answer.error_code) == (AgentRunStatus.ERROR, "server_unreachable")
    assert answer.error_message is not None and answer.error_message.startswith("nothing was started")
    assert url not in answer.error_message


async def test_a_missing_secret_starts_nothing(lab: CompletionLab, monkeypatch: pytest.MonkeyPatch) -> None:
    made = call(lab)
    monkeypatch.delenv("WRITER_KEY")
    with pytest.raises(BackendUnavailable, match="the environment variable WRITER_KEY is not set"):
        start(lab, made)
    answer = await lab.backend.observe(child(made), made)
    assert answer.error_message == "nothing was started: the environment variable WRITER_KEY is not set"
    monkeypatch.setenv("WRITER_KEY", "line\nfeed")
    answer = await lab.backend.observe(child(made), made)
    assert answer.error_message is not None and "printable ASCII" in answer.error_message
    assert "feed" not in answer.error_message
    assert lab.server.seen == []


async def test_an_execution_of_an_earlier_process_cannot_be_found(lab: CompletionLab) -> None:
    answer = await lab.backend.observe(child(call(lab)), None)
    assert answer.status is AgentRunStatus.UNKNOWN
    assert lab.server.seen == []


async def test_calls_side_by_side_share_a_client(lab: CompletionLab) -> None:
    made = [call(lab, number, f"s{number}") for number in range(5)]
    answers = await asyncio.gather(*(lab.backend.observe(child(each), each) for each in made))
    assert sorted(answer.output for answer in answers) == list(range(5))


async def test_cookies_of_a_server_do_not_reach_another(lab: CompletionLab) -> None:
    await judged(lab, completion("1")._replace(headers=(("Set-Cookie", "a=b"),)))
    with CompletionServer(PLANTED) as other:
        assert (await judged(lab, base_url=f"{other.url}/v1")).output == "task"
        assert "cookie" not in other.seen[0].headers


def test_a_description_names_the_model_and_its_numbers(lab: CompletionLab) -> None:
    settings = {**lab.settings, "temperature": 0.5, "parameters": {"top_p": 1}}
    described = lab.backend.describe("writer", settings, {})
    assert (described.effective_model, described.prompt) == ("m", "You write.")
    assert described.model_parameters == {"temperature": 0.5, "top_p": 1}


async def test_a_proxy_of_the_environment_has_no_business_with_this_machine(
    lab: CompletionLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CompletionServer() as gone:
        proxy = gone.url
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await judged(lab)).output == "task"
    lab.server.replies.clear()
    await lab.backend.close()
    local = f"http://localhost:{lab.server.port}/v1"
    assert (await judged(lab, base_url=local)).output == "task"


async def test_a_connection_that_is_not_secure_is_said_to_be_none(lab: CompletionLab) -> None:
    answer = await judged(lab, base_url=lab.server.url.replace("http://", "https://"))
    assert answer.error_code == "server_unreachable"
    assert answer.error_message is not None and "no secure connection can be made" in answer.error_message
    assert lab.server.calls == []
