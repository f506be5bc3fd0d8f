"""Two processes and one workspace: controls of another terminal, an owner that is stopped, races of launches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.crash import kit

RACERS = 3


@pytest.fixture
def slow_owner(folder: Path, calls: Path) -> Iterator[subprocess.Popen[str]]:
    """``run`` of a script that never ends, in a process of its own, once its Agent has been asked."""
    with kit.process("run", kit.hanging(folder), "--json", folder=folder) as running:
        kit.wait_for_line(running, "running")
        yield running


def only_run(command: Command) -> str:
    (listed,) = command("runs", "--json").document["runs"]
    run_id: str = listed["run_id"]
    return run_id


def controls(folder: Path) -> list[tuple[str, str | None]]:
    """Kind and outcome of every control in the inbox, in order."""
    return [tuple(row) for row in kit.query(folder, "SELECT kind, outcome FROM inbox ORDER BY id")]


def test_what_another_terminal_sees_and_does(
    command: Command, folder: Path, calls: Path, slow_owner: subprocess.Popen[str]
) -> None:
    run_id = only_run(command)
    shown = command("show", run_id, "--json")
    assert (shown.status, shown.document["state"]) == (0, "running")
    assert shown.document["steps"][0]["status"] == "running"
    kit.check_truth(folder, shown.document, kit.agent_calls(calls))
    refused = command("delete", run_id, "--json")
    assert (refused.status, refused.document["error"]["code"]) == (7, "conflict")
    guest = command("run", kit.write_script(folder, "quick", kit.QUICK), "--args", '{"a": 1}', "--json")
    assert (guest.status, guest.document["state"]) == (0, "completed")
    assert command("delete", guest.document["run_id"], "--json").document["deleted"] == [
        guest.document["run_id"]
    ]
    assert only_run(command) == run_id
    cancelled = command("cancel", run_id, "--json").document
    assert (cancelled["status"], cancelled["state"]) == ("applied", "cancelled")
    out, _ = slow_owner.communicate(timeout=kit.PATIENCE_SECONDS)
    assert (slow_owner.returncode, json.loads(out)["state"]) == (1, "cancelled")
    assert controls(folder) == [
        ("delete", "refused"), ("launch", "applied"), ("delete", "applied"), ("cancel", "applied"),
    ]  # fmt: skip
    assert kit.owner(folder) is None


def test_an_owner_that_is_stopped_applies_the_record_when_it_continues(
    command: Command,
    folder: Path,
    calls: Path,
    slow_owner: subprocess.Popen[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.access.ANSWER_SECONDS", 0.3)
    run_id = only_run(command)
    quick = kit.write_script(folder, "quick", kit.QUICK)
    slow_owner.send_signal(signal.SIGSTOP)
    for arguments in (("run", quick, "--request-id", "later"), ("cancel", run_id)):
        silent = command(*arguments, "--json")
        assert silent.status == 6
        assert "recorded" in silent.document["error"]["message"]
        assert f"process {slow_owner.pid} has not answered" in silent.document["error"]["message"]
        assert f"process {slow_owner.pid} has not answered" in silent.err
    assert command("show", run_id, "--json").document["state"] == "running"
    assert controls(folder) == [("launch", None), ("cancel", None)]
    slow_owner.send_signal(signal.SIGCONT)
    out, _ = slow_owner.communicate(timeout=kit.PATIENCE_SECONDS)
    assert (slow_owner.returncode, json.loads(out)["state"]) == (1, "cancelled")
    assert controls(folder) == [("launch", "applied"), ("cancel", "applied")]
    again = command("run", quick, "--request-id", "later", "--json")
    assert (again.status, again.document["state"]) == (0, "completed")
    assert "has a run already" in again.err
    assert len(command("runs", "--json").document["runs"]) == 2
    assert sorted(kit.agent_calls(calls).values()) == [1, 1]


def test_a_control_of_an_owner_that_dies_is_applied_by_whoever_asked(
    command: Command, folder: Path, calls: Path, slow_owner: subprocess.Popen[str]
) -> None:
    run_id = only_run(command)
    slow_owner.send_signal(signal.SIGSTOP)
    with kit.process("cancel", run_id, "--json", folder=folder) as asking:
        kit.wait_until(lambda: controls(folder) == [("cancel", None)], "the cancel is recorded")
        slow_owner.kill()
        out, err = asking.communicate(timeout=kit.PATIENCE_SECONDS)
    assert asking.returncode == 0, err
    assert json.loads(out)["state"] == "cancelled"
    assert controls(folder) == [("cancel", "applied")]
    assert command("show", run_id, "--json").document["state"] == "cancelled"


def test_controls_left_behind_are_settled_by_the_next_owner(
    command: Command,
    folder: Path,
    calls: Path,
    slow_owner: subprocess.Popen[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.access.ANSWER_SECONDS", 0.2)
    run_id = only_run(command)
    slow_owner.send_signal(signal.SIGSTOP)
    assert command("cancel", run_id).status == 6
    slow_owner.kill()
    slow_owner.communicate(timeout=kit.PATIENCE_SECONDS)
    assert command("show", run_id, "--json").document["state"] == "recoverable"
    quick = kit.write_script(folder, "quick", kit.QUICK)
    assert command("run", quick).status == 0
    kit.wait_until_free(folder)
    assert controls(folder) == [("cancel", "applied")]
    assert command("cancel", run_id, "--json").document["state"] == "cancelled"


def test_a_preview_leaves_the_workspace_as_it_is(
    command: Command,
    folder: Path,
    calls: Path,
    slow_owner: subprocess.Popen[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.access.ANSWER_SECONDS", 0.2)
    run_id = only_run(command)
    slow_owner.send_signal(signal.SIGSTOP)
    assert command("cancel", run_id).status == 6
    slow_owner.kill()
    slow_owner.communicate(timeout=kit.PATIENCE_SECONDS)

    def stored() -> list[list[tuple[object, ...]]]:
        tables = ("runs", "frames", "marks", "inbox", "decisions", "admissions")
        return [kit.query(folder, f"SELECT * FROM {table}") for table in tables]

    before = stored()
    preview = command("recover", run_id, "--preview", "--json")
    assert preview.status == 0
    assert preview.document["compatible"] is True
    assert [step["step_id"] for step in preview.document["observed"]] == ["slow"]
    assert stored() == before
    assert command("show", run_id, "--json").document["state"] == "recoverable"


def test_ctrl_c_leaves_the_run_recoverable_by_shutdown(
    command: Command, folder: Path, calls: Path, slow_owner: subprocess.Popen[str]
) -> None:
    slow_owner.send_signal(signal.SIGINT)
    out, err = slow_owner.communicate(timeout=kit.PATIENCE_SECONDS)
    assert (slow_owner.returncode, out) == (130, "")
    assert "is kept and recoverable" in err
    shown = command("show", only_run(command), "--json").document
    assert (shown["state"], shown["cause"]["code"]) == ("recoverable", "shutdown")
    assert shown["steps"][0]["status"] == "running"
    kit.check_truth(folder, shown, kit.agent_calls(calls))
    assert kit.owner(folder) is None


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_termination_shuts_down_in_order_too(
    command: Command, folder: Path, slow_owner: subprocess.Popen[str], signum: signal.Signals
) -> None:
    slow_owner.send_signal(signum)
    slow_owner.communicate(timeout=kit.PATIENCE_SECONDS)
    assert slow_owner.returncode == 128 + signum
    shown = command("show", only_run(command), "--json").document
    assert (shown["state"], shown["cause"]["code"]) == ("recoverable", "shutdown")


def test_detach_commits_the_record_and_its_owner_leaves_by_itself(
    command: Command, folder: Path, calls: Path
) -> None:
    script = kit.write_script(folder, "slow", kit.SCRIPT, kit.STUBS)
    detached = command("run", script, "--detach", "--json")
    assert detached.status == 0, detached.err
    run_id = detached.document["run_id"]
    assert kit.query(folder, "SELECT run_id FROM runs") == [(run_id,)]
    pid = kit.owner(folder)
    assert pid not in (None, os.getpid())
    kit.wait_until_free(folder)
    assert pid is not None
    kit.wait_until(lambda: kit.gone(pid), "the background owner ends")
    shown = command("show", run_id, "--json").document
    assert (shown["state"], shown["result"]) == ("completed", kit.RESULT)
    kit.check_truth(folder, shown, kit.agent_calls(calls))


def test_a_background_owner_is_told_to_stop_like_any_other(command: Command, folder: Path) -> None:
    run_id = command("run", kit.hanging(folder), "--detach", "--json").document["run_id"]
    kit.wait_until(lambda: command("show", run_id, "--json").document["state"] == "running", "it runs")
    pid = kit.owner(folder)
    assert pid
    os.kill(pid, signal.SIGTERM)
    kit.wait_until_free(folder)
    shown = command("show", run_id, "--json").document
    assert (shown["state"], shown["cause"]["code"]) == ("recoverable", "shutdown")


def test_cancel_ends_a_detached_run_and_its_owner(command: Command, folder: Path) -> None:
    run_id = command("run", kit.hanging(folder), "--detach", "--json").document["run_id"]
    assert command("cancel", run_id, "--json").document["state"] == "cancelled"
    kit.wait_until_free(folder)


def race(folder: Path, calls: Path, arguments: Callable[[int], list[str]]) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of several commands that start at the same moment."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(kit.process(*arguments(number), folder=folder, calls=calls))
            for number in range(RACERS)
        ]
        outputs = [running.communicate(timeout=kit.PATIENCE_SECONDS) for running in started]
        return [(running.returncode, out, err) for running, (out, err) in zip(started, outputs, strict=True)]


@pytest.mark.parametrize("detach", [False, True])
def test_the_same_request_at_the_same_moment_makes_one_run(
    command: Command, folder: Path, calls: Path, detach: bool
) -> None:
    script = kit.write_script(folder, "steps", kit.SCRIPT, kit.STUBS)
    more = ["--detach"] if detach else []
    ended = race(folder, calls, lambda _: ["run", str(script), "--request-id", "once", "--json", *more])
    assert [status for status, _, _ in ended] == [0] * RACERS, [err for _, _, err in ended]
    assert len({json.loads(out)["run_id"] for _, out, _ in ended}) == 1
    kit.wait_until_free(folder)
    run_id = only_run(command)
    shown = command("show", run_id, "--json").document
    assert (shown["state"], shown["result"]) == ("completed", kit.RESULT)
    asked = kit.agent_calls(calls)
    assert sorted(step for _, step, _ in asked) == sorted(kit.STEPS)
    kit.check_truth(folder, shown, asked)


def test_different_requests_at_the_same_moment_all_run(command: Command, folder: Path, calls: Path) -> None:
    (folder / "workbench.yaml").write_text(
        "plugins:\n  - {name: w, use: 'workflows_core.extension:install', "
        "config: {max_workflows_per_owner: 4}}\n"
    )
    script = kit.write_script(folder, "quick", kit.QUICK)
    ended = race(folder, calls, lambda number: ["run", str(script), "--args", f'{{"n": {number}}}', "--json"])
    assert [status for status, _, _ in ended] == [0] * RACERS, [err for _, _, err in ended]
    assert [json.loads(out)["result"]["output"] for _, out, _ in ended] == [
        {"n": number} for number in range(RACERS)
    ]
    assert max(kit.agent_calls(calls).values()) == 1
    assert len(command("runs", "--json").document["runs"]) == RACERS
