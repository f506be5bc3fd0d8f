"""The fixtures of the command line's tests, with a workspace whose agents ask servers of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workbench.agents.contract import PLANTED
from tests.workbench.agents.servers import CompletionServer, GatewayServer
from tests.workbench.cli.conftest import command, folder, own_environment

__all__ = ["command", "completions", "folder", "gateway", "own_environment", "real"]

CONFIGURATION = """\
plugins:
  - name: workflows
    use: workflows_core.extension:install
    config: {{enabled: true, agents: [lead_agent, remote, writer], timeout_seconds: 120}}
agents:
  lead_agent: {{backend: stub}}
  remote: {{backend: deerflow, base_url: "{gateway}", username: ada, password: {{env: GATEWAY_PASSWORD}}}}
  writer: {{backend: openai, base_url: "{completions}/v1", model: m, api_key: {{env: WRITER_KEY}}, system: Write.}}
"""


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[GatewayServer]:
    monkeypatch.setenv("GATEWAY_PASSWORD", PLANTED)
    with GatewayServer(ada=PLANTED) as server:
        yield server


@pytest.fixture
def completions(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompletionServer]:
    monkeypatch.setenv("WRITER_KEY", PLANTED)
    with CompletionServer(PLANTED) as server:
        yield server


@pytest.fixture
def real(folder: Path, gateway: GatewayServer, completions: CompletionServer) -> Path:
    """A current folder whose agents ``remote`` and ``writer`` ask the two servers."""
    text = CONFIGURATION.format(gateway=gateway.url, completions=completions.url)
    (folder / "workbench.yaml").write_text(text)
    return folder
