"""One command line at a time, in this process, in an empty folder of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.workbench.cli.fakes import FakeClient, FakeReader
from workbench.cli import follow
from workbench.cli.main import invoke


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as the one JSON document that ``--json`` promises."""
        return json.loads(self.out)


Command = Callable[..., Result]


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "NO_COLOR", "WORKBENCH_DEBUG", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: str | Path) -> Result:
        capsys.readouterr()
        status = invoke([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return run


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    """Replaces the client, the reader and all waiting, and lets every script pass the check."""
    FakeClient.reset()
    monkeypatch.setattr("workbench.client.Client", FakeClient)
    monkeypatch.setattr("workflows_core.store.blocking.BlockingReader", FakeReader)
    monkeypatch.setattr("workbench.cli.author.find_problems", lambda *_: [])
    monkeypatch.setattr(follow, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(follow, "_PAUSE_SECONDS", 0)
    return FakeClient


@pytest.fixture
def script(folder: Path) -> Path:
    path = folder / "one.workflow.js"
    path.write_text("return await agent({stepId: 'a', agentRef: 'lead_agent', task: args});\n")
    return path
