"""The fixtures of the command line's tests, and the file that counts what Agents were asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workbench.cli.conftest import command, folder, own_environment

__all__ = ["calls", "command", "folder", "own_environment"]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where every call of a stub Agent is counted, in this process and in those it starts."""
    path = tmp_path / "calls.jsonl"
    monkeypatch.setenv("WORKBENCH_STUB_CALLS", str(path))
    return path
