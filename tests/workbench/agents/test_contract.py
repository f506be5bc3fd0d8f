"""The contract suite over the stub backend and the backends that ask over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from .contract import PLANTED, BackendContract
from .labs import CompletionLab, GatewayLab, StubLab
from .servers import CompletionServer, GatewayServer


class TestStub(BackendContract):
    @pytest.fixture
    def lab(self) -> StubLab:
        return StubLab()


class TestOpenAI(BackendContract):
    @pytest.fixture
    async def lab(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CompletionLab]:
        monkeypatch.setenv("WRITER_KEY", PLANTED)
        with CompletionServer(PLANTED) as server:
            made = CompletionLab(server)
            yield made
            await made.backend.close()


class TestDeerFlow(BackendContract):
    @pytest.fixture
    async def lab(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayLab]:
        monkeypatch.setenv("GATEWAY_PASSWORD", PLANTED)
        with GatewayServer(ada=PLANTED) as server:
            made = GatewayLab(server)
            yield made
            await made.backend.close()
