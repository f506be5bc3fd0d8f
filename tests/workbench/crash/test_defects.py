"""A defect of the engine stops one run, and says so; whoever follows that run is not left waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.crash import kit
from workflows_core.engine.supervisor import Supervisor


def test_a_supervisor_that_fails_leaves_its_run_recoverable(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Supervisor) -> None:
        raise LookupError("not meant to happen")

    script = kit.write_script(folder, "quick", kit.QUICK)
    with monkeypatch.context() as broken:
        broken.setattr(Supervisor, "run", fail)
        result = command("run", script, "--json")
    assert result.status == 5
    assert result.document["state"] == "recoverable"
    assert result.document["cause"]["code"] == "internal_error"
    assert "LookupError" in result.document["cause"]["message"]
    log = (folder / ".workbench" / "workbench.log").read_text("utf-8")
    assert "LookupError" in log
    assert command("run", script).status == 0
    assert command("cancel", result.document["run_id"], "--json").document["state"] == "cancelled"
