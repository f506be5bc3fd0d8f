"""Backends with something behind them that a test can tell what to do (see ``contract.Lab``)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from extension_api.hashing import canonical_hash
from workbench.agents.base import Answer, Backend, Call
from workbench.agents.deerflow import DeerFlowBackend
from workbench.agents.openai import OpenAIBackend
from workbench.agents.stub import StubBackend

from .contract import PLANTED, call, child
from .servers import CompletionServer, GatewayServer, Response, completion, said


class StubLab:
    settings: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.backend: Backend = StubBackend()
        self.entries: list[dict[str, Any]] = []
        self._asked = 0

    @property
    def options(self) -> dict[str, Any]:
        return {"agents": "stub", "stubs": self.entries, "stubs_hash": canonical_hash(self.entries)}

    def _entry(self, **entry: Any) -> None:
        self.entries = [entry]
        self._asked += 1

    def answers(self, output: Any) -> None:
        self._entry(reply=output)

    def fails(self) -> None:
        self._entry(fail="no")

    def hangs(self) -> None:
        self._entry(hang=True)

    def asked(self) -> int:
        return self._asked


class CompletionLab:
    options: Mapping[str, Any] = {"agents": "real"}

    def __init__(self, server: CompletionServer) -> None:
        self.backend = OpenAIBackend()
        self.server = server
        self.settings: dict[str, Any] = {
            "base_url": f"{server.url}/v1",
            "model": "m",
            "api_key": {"env": "WRITER_KEY"},
            "system": "You write.",
        }

    def answers(self, output: Any) -> None:
        self.server.replies.append(completion(json.dumps(output)))

    def fails(self) -> None:
        self.server.replies.append(Response(500, {"error": {"message": f"broken for {PLANTED}"}}))

    def hangs(self) -> None:
        self.server.replies.append(self.server.hang)

    def asked(self) -> int:
        return len(self.server.calls)


class GatewayLab:
    options: Mapping[str, Any] = {"agents": "real"}

    def __init__(self, server: GatewayServer) -> None:
        self.backend = DeerFlowBackend(pace=0.02)
        self.server = server
        self.settings: dict[str, Any] = {
            "base_url": server.url,
            "username": "ada",
            "password": {"env": "GATEWAY_PASSWORD"},
        }

    def answers(self, output: Any) -> None:
        self.server.outcome = said(json.dumps(output))

    def fails(self) -> None:
        self.server.outcome = said("x", "error")

    def hangs(self) -> None:
        self.server.held = True

    def asked(self) -> int:
        return len(self.server.posts)


async def found(lab: GatewayLab, made: Call | None = None) -> Answer:
    """Observe as the next process would."""
    async with asyncio.timeout(60):
        return await lab.backend.observe(child(made or call(lab)), None)


def words(answer: Answer) -> str:
    assert answer.error_message is not None
    assert PLANTED not in answer.error_message and "token" not in answer.error_message
    return answer.error_message
