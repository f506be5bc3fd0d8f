"""Reconciliation by two reviewers from the command line: two accounts, each at a terminal of their own."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.cli.seat import Seat, seat
from tests.workbench.crash import kit
from workbench.cli import login as login_commands
from workbench.host import accounts

PASSWORD = "correct horse"
BY_ADA = re.compile(r"did not run, attested [^;]+ by ada \(password, account ada, ")
SCRIPT = """\
const one = await agent({stepId: 'one', agentRef: 'lead_agent', task: 1});
return [one.output, 2];
"""


@pytest.fixture
def people(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Path]:
    """The homes of ada, who launches, and of bob and eve; bob and ada are administrators."""
    config = {
        "auth": {"mode": "password"},
        "plugins": [
            {
                "name": "workflows",
                "use": "workflows_core.extension:install",
                "config": {"enabled": True, "reviewers": 2},
            }
        ],
    }
    (folder / "workbench.yaml").write_text(json.dumps(config), "utf-8")
    monkeypatch.setattr(accounts.Cost, "__new__", lambda cls, n=16, r=1, p=1: tuple.__new__(cls, (n, r, p)))
    monkeypatch.setattr(login_commands, "ask_secret", lambda prompt: PASSWORD)
    homes: dict[str, Path] = {}
    for name, roles in (("ada", ("--admin",)), ("bob", ("--admin",)), ("eve", ())):
        homes[name] = tmp_path / name
        homes[name].mkdir()
        monkeypatch.setenv("HOME", str(homes[name]))
        assert command("login", name, "--create", *roles).status == 0
        assert command("login", name).status == 0
    monkeypatch.setenv("HOME", str(homes["ada"]))
    return homes


@pytest.fixture
def run_id(command: Command, folder: Path, people: dict[str, Path]) -> str:
    """Ada's run, with a step of which the host knows nothing any more."""
    script = kit.write_script(folder, "long", SCRIPT, "- {step: one, after: 60, reply: 1}\n")
    with kit.process("run", script, folder=folder) as running:
        said = kit.wait_for_line(running, "● running      one")
        running.kill()
        running.wait()
    kit.wait_until_free(folder)
    with closing(sqlite3.connect(folder / ".workbench" / "host.sqlite")) as host:
        assert host.execute("DELETE FROM child_runs").rowcount == 1
        host.commit()
    found = "wr_" + said.partition(" as wr_")[2][:16]
    assert command("recover", found, "--json").status == 4
    return found


def attest(sitting: Seat, answer: str = "y") -> tuple[int, str]:
    sitting.until("[y/N] ")
    sitting.type(answer)
    status = sitting.finish()
    return status, sitting.shown


def test_two_people_at_two_terminals_settle_a_step(
    command: Command, folder: Path, people: dict[str, Path], run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    did_not_run = ("reconcile", run_id, "one", "--outcome", "did_not_run", "--reason", "no trace of it")
    failed = ("reconcile", run_id, "one", "--outcome", "failed", "--reason", "I see an error")

    def sit(name: str, *arguments: str) -> Any:
        monkeypatch.setenv("HOME", str(people[name]))
        return seat(*arguments, folder=folder)

    with sit("ada", *did_not_run) as first, sit("bob", *did_not_run, "--json") as second:
        status, text = attest(first)
        assert status == 0
        assert "As: ada, logged in with a password" in text
        assert "Here two reviewers must attest the same before it counts." in text
        assert "a second reviewer must attest the same" in text
        assert "attested by" not in text
        state = command("show", run_id, "--json").document["state"]
        assert state == "needs_reconciliation", "one reviewer settles nothing"
        waits = command("step", run_id, "one")
        assert BY_ADA.search(waits.out)
        assert "reason: no trace of it; a second reviewer must attest the same" in waits.out

        # The same person once more is refused; other words of the second are a disagreement, which settles nothing.
        with sit("ada", *did_not_run) as again:
            status, text = attest(again)
            assert (status, "another person must review it" in text) == (7, True)
            assert BY_ADA.search(text)
        with sit("bob", *failed) as contradicts:
            status, text = attest(contradicts)
            assert (status, "two reviewers must attest the same" in text) == (0, True)
            assert BY_ADA.search(text), "the second sees what the first attested"
            assert "As: bob, logged in with a password" in text
        with sit("eve", *did_not_run) as stranger:
            assert stranger.finish() == 7, "a run of ada's is none of eve's"
            assert "belongs to ada" in stranger.shown

        status, text = attest(second)
        assert status == 0
        document = json.loads(text[text.index("\n{\n") :])
        assert (document["status"], document["state"]) == ("applied", "recoverable")

    monkeypatch.setenv("HOME", str(people["ada"]))
    made = command("step", run_id, "one", "--json").document["attestations"]
    assert [(item["actor"]["user_id"], item["outcome"], item["settles"]) for item in made] == [
        ("ada", "did_not_run", False), ("bob", "failed", False), ("bob", "did_not_run", True),
    ]  # fmt: skip
    assert all(item["actor"]["mode"] == "password" for item in made)
    preview = command("recover", run_id, "--preview", "--json").document
    assert preview["new"] == [{"step_id": "one", "line": 1}]


def test_the_first_reviewer_may_correct_themselves_and_a_cancel_waits_for_both(
    command: Command, folder: Path, people: dict[str, Path], run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("cancel", run_id, "--json").document["state"] == "needs_reconciliation"
    for name, outcome, state in (
        ("ada", "did_not_run", "needs_reconciliation"),
        ("ada", "failed", "needs_reconciliation"),
        ("bob", "failed", "cancelled"),
    ):
        monkeypatch.setenv("HOME", str(people[name]))
        options = ("--outcome", outcome, "--reason", f"{name} looked")
        with seat("reconcile", run_id, "one", *options, folder=folder) as sitting:
            assert attest(sitting)[0] == 0
        assert command("show", run_id, "--json").document["state"] == state
    assert os.environ["HOME"] == str(people["bob"])
