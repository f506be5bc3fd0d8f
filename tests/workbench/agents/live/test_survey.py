"""``doctor`` says which Agents can be called for real, and asks none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workbench.agents.contract import PLANTED
from tests.workbench.agents.servers import CompletionServer, GatewayServer
from tests.workbench.cli.conftest import Command


def test_what_is_configured_is_told(
    command: Command, real: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    result = command("doctor", "--json")
    assert result.status == 0, result.out
    found = {each["name"]: each for each in result.document["findings"]}
    assert found["agent remote"]["value"] == f"deerflow: lead_agent at 127.0.0.1:{gateway.port} as ada"
    assert found["agent writer"]["value"] == f"openai: m at 127.0.0.1:{completions.port}"
    assert found["agent writer"]["status"] == found["agent remote"]["status"] == "ok"
    assert "agent lead_agent" not in found
    assert gateway.seen == completions.seen == []
    assert PLANTED not in result.out


def test_what_stands_in_the_way_is_told(
    command: Command, real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WRITER_KEY")
    text = (real / "workbench.yaml").read_text()
    (real / "workbench.yaml").write_text(text.replace("http://127.0.0.1", "http://gateway.example", 1))
    result = command("doctor")
    assert result.status == 0
    assert "the environment variable WRITER_KEY is not set" in result.out
    assert "Its secret would travel without encryption: use https." in result.out
