"""kill -9 during ``workbench run`` at random moments: what is left says truthfully where the run stands."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.crash import kit

SEED = 20_261
MOMENTS = 10
SOAKED_MOMENTS = 200


def moments(seed: int, count: int) -> list[tuple[int, float]]:
    """(lines of progress to wait for, seconds after the last one), the same for the same seed."""
    draw = random.Random(seed)
    return [(draw.randrange(2 * len(kit.STEPS) + 1), draw.uniform(0, 0.06)) for _ in range(count)]


def killed(folder: Path, script: Path, lines: int, seconds: float) -> str:
    """Kill a ``run`` that many seconds after that many lines of progress; its worker goes too.

    Returns what the process had said by then.
    """
    said = ""
    with kit.process("run", script, folder=folder) as running:
        assert running.stderr is not None
        for _ in range(lines):
            line = running.stderr.readline()
            said += line
            if not line:
                break
        time.sleep(seconds if lines else seconds * 10)
        workers = kit.descendants(running.pid) if running.poll() is None else []
        running.send_signal(signal.SIGKILL)
        running.communicate(timeout=kit.PATIENCE_SECONDS)
    for worker in workers:
        kit.wait_until(lambda pid=worker: kit.gone(pid), f"worker {worker} ends with its owner")
    return said


@pytest.mark.parametrize(("lines", "seconds"), moments(SEED, MOMENTS))
def test_a_killed_run_is_shown_as_it_stands(
    command: Command, folder: Path, calls: Path, lines: int, seconds: float
) -> None:
    print(f"seed {SEED}")
    check_moment(command, folder, calls, lines, seconds)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAKED_MOMENTS))
def test_a_killed_run_is_shown_as_it_stands_at_many_moments(
    command: Command, folder: Path, calls: Path, seed: int
) -> None:
    ((lines, seconds),) = moments(seed, 1)
    print(f"seed {seed}")
    check_moment(command, folder, calls, lines, seconds)


def check_moment(command: Command, folder: Path, calls: Path, lines: int, seconds: float) -> None:
    print(f"killed {seconds * 1000:.0f} ms after line {lines} of its progress")
    script = kit.write_script(folder, "steps", kit.SCRIPT, kit.STUBS)
    said = killed(folder, script, lines, seconds)
    assert "Launched" in said or not lines, said
    asked = kit.agent_calls(calls)
    listed = command("runs", "--json")
    assert listed.status == 0
    runs = listed.document["runs"]
    if lines:
        assert len(runs) == 1, "a run that was announced must be there"
    if not runs:
        assert not asked
    for head in runs:
        check_stands(command, folder, head, asked, calls)
    quick = kit.write_script(folder, "quick", kit.QUICK)
    after = command("run", quick, "--args", '{"a": 1}', "--json")
    assert (after.status, after.document["result"]["output"]) == (0, {"a": 1})
    for head in runs:
        # The new owner has written down what the reader had worked out.
        shown = command("show", head["run_id"], "--json").document
        assert {key: shown[key] for key in head} == head
        check_cancel(command, folder, shown, calls)


def check_stands(command: Command, folder: Path, head: dict[str, Any], asked: Any, calls: Path) -> None:
    shown = command("show", head["run_id"], "--json")
    assert shown.status == 0
    document = shown.document
    assert {key: document[key] for key in head} == head
    kit.check_truth(folder, document, asked)
    if document["state"] == "completed":
        assert (document["result"], document["cause"]) == (kit.RESULT, None)
        assert [step["step_id"] for step in document["steps"]] == list(kit.STEPS)
    else:
        assert document["state"] == "recoverable"
        assert document["cause"]["code"] == "owner_gone"
        assert "that ran it ended" in document["cause"]["message"]
        assert document["result"] is None
        assert "↻ recoverable" in command("show", head["run_id"]).out
    replayed = command("replay", head["run_id"], "--headless", "--json").document
    assert replayed["verdict"] == ("complete" if document["state"] == "completed" else "ends_early")
    assert kit.agent_calls(calls) == asked, "looking at a run asks nobody"


def check_cancel(command: Command, folder: Path, before: dict[str, Any], calls: Path) -> None:
    asked = kit.agent_calls(calls)
    result = command("cancel", before["run_id"], "--json")
    assert result.status == 0, result.err
    after = command("show", before["run_id"], "--json").document
    if before["state"] == "completed":
        assert after == before
        return
    unknown = {step["step_id"] for step in before["steps"] if step["status"] == "uncertain"}
    if after["state"] == "needs_reconciliation":
        # The host has no record of an admission whose intent is committed, which proves nothing.
        assert {step["step_id"] for step in after["steps"] if step["status"] == "uncertain"} <= unknown
        assert unknown
    else:
        assert after["state"] == result.document["state"] == "cancelled"
        assert not {step["status"] for step in after["steps"]} & {"running", "queued", "uncertain"}
    kit.journal(folder, before["run_id"])
    done = [step for step in before["steps"] if step["status"] == "completed"]
    later = {step["step_id"]: step for step in after["steps"]}
    assert done == [later[step["step_id"]] for step in done], "what was done stays as it was"
    assert kit.agent_calls(calls) == asked, "a cancel asks nobody"


def test_a_killed_owner_leaves_the_request_to_a_retry(command: Command, folder: Path, calls: Path) -> None:
    script = kit.hanging(folder)
    with kit.process("run", script, "--request-id", "once", folder=folder) as running:
        kit.wait_for_line(running, "running")
        running.kill()
        running.communicate(timeout=kit.PATIENCE_SECONDS)
    again = command("run", script, "--request-id", "once", "--json")
    assert again.status == 5
    assert again.document["state"] == "recoverable"
    assert len(command("runs", "--json").document["runs"]) == 1
    assert sum(kit.agent_calls(calls).values()) == 1


def test_a_killed_background_owner_leaves_a_truthful_record(
    command: Command, folder: Path, calls: Path
) -> None:
    detached = command("run", kit.hanging(folder), "--detach", "--json")
    assert detached.status == 0, detached.err
    run_id = detached.document["run_id"]
    kit.wait_until(lambda: sum(kit.agent_calls(calls).values()) == 1, "the Agent is asked")
    pid = kit.owner(folder)
    assert pid
    subprocess.run(["kill", "-9", str(pid)], check=True)
    kit.wait_until_free(folder)
    shown = command("show", run_id, "--json").document
    assert shown["state"] == "recoverable"
    assert str(pid) in shown["cause"]["message"]
    kit.check_truth(folder, shown, kit.agent_calls(calls))
    assert json.loads(command("cancel", run_id, "--json").out)["state"] == "cancelled"
