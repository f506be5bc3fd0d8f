"""The openai backend: one chat completion at any server that speaks that protocol.

A completion is one request with one answer: nothing of it can be observed or found again, so a call runs inside
this process and dies with it. It is sent once. A server that cannot be reached was asked nothing; once a request
is sent and no answer comes, nobody knows whether the call was made and charged, and the outcome is uncertain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from extension_api.agent_runs import AgentRunStatus
from workflows_core.jsontext import JsonRefused

from .attribution import child_message, output_of, text_of
from .base import (
    AgentDescription,
    Answer,
    BackendUnavailable,
    Call,
    ChildRef,
    EarlierCalls,
    FileRefused,
    Started,
)
from .http import HttpFailed, Reply, Unusable, open_client, request, status_words
from .names import OPENAI
from .secrets import Scrubber, resolve, secret_problem
from .settings import OPENAI_SECONDS

if TYPE_CHECKING:
    import httpx

#: More than any answer that may be kept (12,000 bytes), with room for reasoning and usage around it.
ANSWER_BYTES: Final = 2 * 1024 * 1024


class OpenAIBackend:
    """Asks a server for chat completions."""

    name = OPENAI
    durable = False

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None
        self._opening = asyncio.Lock()

    def describe(
        self, agent_ref: str, settings: Mapping[str, Any], options: Mapping[str, Any]
    ) -> AgentDescription:
        model = str(settings.get("model", ""))
        return AgentDescription(
            effective_model=model,
            requested_model=model,
            model_parameters=_parameters(settings),
            prompt=str(settings.get("system", "")),
            policies={"server": str(settings.get("base_url", ""))},
        )

    def start(self, call: Call, earlier: EarlierCalls, now: int) -> Started:
        problem = secret_problem(call.settings["api_key"]) if "api_key" in call.settings else None
        if problem is not None:
            raise BackendUnavailable(problem)
        return Started(badge="live", durable=False)

    async def observe(self, child: ChildRef, call: Call | None) -> Answer:
        if call is None:
            return _uncertain("a call to this server cannot be found again")
        settings = call.settings
        key = None
        if "api_key" in settings:
            try:
                key = await resolve(settings["api_key"])
            except BackendUnavailable as error:
                return _error("backend_unavailable", f"nothing was started: {error}")
        client = await self._open()
        scrubber = Scrubber() if key is None else Scrubber(key)
        try:
            reply = await request(
                client,
                "POST",
                f"{settings['base_url'].rstrip('/')}/chat/completions",
                seconds=float(settings.get("timeout_seconds", OPENAI_SECONDS[2])),
                max_bytes=ANSWER_BYTES,
                body=_body(settings, child_message(call.input)),
                headers={} if key is None else {"Authorization": f"Bearer {key}"},
            )
        except Unusable as error:
            return _error("answer_unusable", str(error))
        except HttpFailed as error:
            if not error.sent:
                return _error("server_unreachable", f"nothing was started: {error}")
            return _uncertain(f"{error}; the call may have been made and charged")
        return _judged(reply, scrubber)

    async def _open(self) -> httpx.AsyncClient:
        async with self._opening:
            if self._client is None:
                self._client = await open_client()
            return self._client

    async def interrupt(self, child: ChildRef) -> None:
        """A request is stopped by ending its observation."""

    async def read_file(
        self, child: ChildRef, files: Mapping[str, str] | None, path: str, *, max_bytes: int
    ) -> tuple[bytes, str]:
        raise FileRefused(
            "file_not_found", "an Agent of the openai backend answers with text and leaves no files"
        )

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def _parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    named = {key: settings[key] for key in ("temperature", "max_tokens") if key in settings}
    return {**settings.get("parameters", {}), **named}


def _body(settings: Mapping[str, Any], text: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    if "system" in settings:
        messages.insert(0, {"role": "system", "content": settings["system"]})
    return {**_parameters(settings), "model": settings["model"], "messages": messages}


def _judged(reply: Reply, scrubber: Scrubber) -> Answer:
    if reply.status != 200:
        code = "server_failed" if reply.status >= 500 else "server_refused"
        return _error(code, status_words(reply, scrubber))
    try:
        choice = reply.json()["choices"][0]
        message = choice["message"]
        content = message.get("content")
        reason, refusal = choice.get("finish_reason"), message.get("refusal")
    except (ValueError, LookupError, TypeError, AttributeError):
        return _error("not_a_completion", "the server's answer is not a chat completion; check base_url")
    if reason == "length":
        return _error("answer_cut_off", "the answer was cut off at the limit on tokens; raise max_tokens")
    if reason == "content_filter" or (isinstance(refusal, str) and refusal):
        return _error("answer_refused", "the model refused to answer")
    if message.get("tool_calls"):
        return _error("asks_for_tools", "the model asks for tools, and this backend gives it none")
    if not text_of(content).strip() and not (isinstance(content, list) and content):
        return _error("no_answer", "the server's completion holds no answer")
    try:
        output = output_of(content)
    except JsonRefused as error:
        return _error("output_not_json", str(error))
    if scrubber.found_in(output):
        return _error("secret_in_answer", "the answer holds the secret it was asked with, so it was not kept")
    return Answer(AgentRunStatus.SUCCESS, output=output)


def _error(code: str, message: str) -> Answer:
    return Answer(AgentRunStatus.ERROR, error_code=code, error_message=message)


def _uncertain(message: str) -> Answer:
    return Answer(AgentRunStatus.UNKNOWN, error_code="uncertain", error_message=message)
