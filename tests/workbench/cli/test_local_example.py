"""The example with Agents on this machine: a program and a person, and the same script on stubs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.cli.seat import seat
from tests.workbench.crash import kit

EXAMPLE = Path(__file__).parents[3] / "examples" / "local"
BROKEN = ["start.md: missing.md"]


@pytest.fixture
def example(folder: Path) -> Path:
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".workbench"))
    return folder


def test_it_has_no_problems_and_runs_on_stubs(command: Command, example: Path) -> None:
    assert command("check", "links.workflow.js", "--json").document == {"problems": []}
    result = command("run", "links.workflow.js", "--json").document["result"]
    assert (result["broken"], result["verdict"]) == (BROKEN, "removed")


def test_a_program_looks_and_a_person_decides(command: Command, example: Path) -> None:
    with kit.process("run", "links.workflow.js", "--agents", "real", "--json", folder=example) as running:
        said = kit.wait_for_line(running, "workbench answer ")
        run_id = said.split("workbench answer ")[1].split()[0]
        assert "3 links, 1 broken" in said
        with seat("answer", run_id, "verdict", folder=example) as sitting:
            assert "Say for each broken link" in sitting.until("Your answer")
            sitting.type("removed")
            sitting.until("[y/N] ")
            sitting.type("y")
            assert sitting.finish() == 0
        document = json.loads(running.communicate(timeout=kit.PATIENCE_SECONDS)[0])
    assert document["result"]["verdict"] == "removed"
    assert [step["badge"] for step in document["steps"]] == ["live", None, "manual"]
    report = command("artifact", run_id, "report", "-o", "report.md", "--json").document
    assert report["sha256"] == document["result"]["report"]
    assert (example / "report.md").read_text("utf-8") == (
        "1 of 3 links lead nowhere.\n\n- start.md: missing.md\n"
    )


def test_nobody_is_asked_where_nothing_is_broken_and_a_missing_page_is_said(
    command: Command, example: Path
) -> None:
    args = ("--agents", "real", "--json", "--args")
    result = command("run", "links.workflow.js", *args, '{"pages": ["second.md"]}')
    assert (result.status, result.document["result"]["broken"]) == (0, [])
    failed = command("run", "links.workflow.js", *args, '{"pages": ["none.md"]}').document
    assert (
        "links ended with exit code 1. It said: none.md cannot be read: No such file"
        in failed["cause"]["message"]
    )
