"""The commands over the real engine, on stubs."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.cli.conftest import Command
from workflows_core.store.lock import ProcessLock, lock_path, owner_pid

EXAMPLES = Path(__file__).parents[3] / "examples"
MAIN = "import sys; from workbench.cli.main import main; main(sys.argv[1:])"
HANG = "return await agent({stepId: 'slow', agentRef: 'lead_agent', task: 1});\n"


def store(folder: Path) -> Path:
    return folder / ".workbench" / "workflows.sqlite"


def example(folder: Path, name: str) -> Path:
    """An example, copied, with answers that come at once."""
    script = folder / f"{name}.workflow.js"
    script.write_text((EXAMPLES / script.name).read_text("utf-8"), "utf-8")
    stubs = (EXAMPLES / f"{name}.stubs.yaml").read_text("utf-8")
    (folder / f"{name}.stubs.yaml").write_text(
        re.sub(r"^  after: .*\n", "", stubs, flags=re.MULTILINE), "utf-8"
    )
    return script


@pytest.fixture
def hanging(folder: Path) -> Path:
    """A script whose one Agent never answers."""
    (folder / "hang.stubs.yaml").write_text("- step: slow\n  hang: true\n")
    script = folder / "hang.workflow.js"
    script.write_text(HANG)
    return script


@contextmanager
def process(*arguments: str | Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own, killed at the end where it is still there."""
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    ) as running:
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()


def wait_for_line(running: subprocess.Popen[str], words: str) -> str:
    assert running.stderr is not None
    seen = ""
    for line in running.stderr:
        seen += line
        if words in line:
            return seen
    raise AssertionError(f"the process ended before it said {words!r}: {seen}")


def wait_until_free(folder: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while owner_pid(lock_path(store(folder))) is not None:
        assert time.monotonic() < deadline, "the owner did not leave"
        time.sleep(0.02)


def test_a_live_run_is_watched_from_another_terminal_without_touching_it(
    command: Command, folder: Path, hanging: Path
) -> None:
    with process("run", hanging) as running:
        wait_for_line(running, "slow")
        run = command("runs", "--json").document["runs"][0]["run_id"]
        with process("show", run, "--follow") as left:
            wait_for_line(left, "slow")
            left.send_signal(signal.SIGINT)
            assert "goes on" in left.communicate(timeout=90)[1]
            assert left.returncode == 130 and running.poll() is None
        with process("show", run, "--follow", "--json") as watching:
            wait_for_line(watching, "slow")
            assert command("cancel", run).status == 0
            shown = json.loads(watching.communicate(timeout=90)[0])
            assert watching.returncode == 1
        assert (shown["run_id"], shown["state"]) == (run, "cancelled")
        running.communicate(timeout=90)


def test_the_example_does_what_it_says(command: Command, folder: Path) -> None:
    script = example(folder, "checks")
    args = '{"product": "Soap", "formula": ["water"], "claims": ["cleans"]}'
    result = command("run", script, "--args", args, "--json")
    assert result.status == 0, result.err
    run = result.document
    assert run["state"] == "completed"
    assert [step["step_id"] for step in run["steps"]] == [
        "evidence", "check-formula", "check-claims", "review-1", "review-2",
    ]  # fmt: skip
    assert {step["badge"] for step in run["steps"]} == {"stub"}
    assert all(step["line"] and step["column"] and step["finished_at"] for step in run["steps"])
    assert len({step["child_run_id"] for step in run["steps"]}) == 5
    assert run["result"]["product"] == "Soap"
    assert [finding["about"] for finding in run["result"]["findings"]] == ["formula", "claims", "evidence"]
    assert (run["result"]["reviews"], run["result"]["review"]) == (2, "complete")
    assert "pass" not in json.dumps(run["result"])
    assert [line["message"] for line in run["log"]] == [
        "Two checks, 2 findings",
        "The first review asked for more",
    ]


def test_the_example_copes_with_answers_in_no_shape(command: Command, folder: Path) -> None:
    script = example(folder, "checks")
    (folder / "checks.stubs.yaml").unlink()
    result = command("run", script, "--json")
    assert result.status == 0
    assert result.document["result"]["review"] == "unclear"
    assert result.document["result"]["reviews"] == 1


def test_the_first_script_runs_as_new_writes_it(command: Command) -> None:
    command("new")
    result = command("run", "first.workflow.js", "--args", '{"name": "Ada"}')
    assert result.status == 0
    assert "Hello, Ada." in result.out
    assert "agents: first.stubs.yaml" in result.err


def test_what_was_run_can_be_looked_at(command: Command, folder: Path) -> None:
    run = command("run", example(folder, "first"), "--json").document
    run_id = run["run_id"]
    (listed,) = command("runs", "--json").document["runs"]
    assert listed == {key: value for key, value in run.items() if key not in ("steps", "log")}
    assert command("show", run_id[:8], "--json").document == run
    step = command("step", run_id, "hello", "--json").document
    assert step["output"] == "Hello, world."
    assert step["input"] is not None
    assert command("log", run_id, "--json").document["log"] == run["log"]
    assert command("runs").out.startswith("✓ completed  first  wr_")
    assert "Hello, world." in command("show", run_id).out


def test_a_request_makes_one_run(command: Command, folder: Path) -> None:
    script = example(folder, "first")
    first = command("run", script, "--request-id", "r1", "--json")
    again = command("run", script, "--request-id", "r1", "--json")
    assert (first.status, again.status) == (0, 0)
    assert again.document == first.document
    other = command("run", script, "--request-id", "r1", "--args", '{"name": "Ada"}', "--json")
    assert other.status == 7
    assert other.document["error"]["code"] == "conflict"
    assert command("delete", first.document["run_id"]).status == 0
    late = command("run", script, "--request-id", "r1", "--json")
    assert late.status == 7
    assert first.document["run_id"] in late.err
    assert command("runs", "--json").document == {"runs": []}


def test_a_run_that_fails_says_where(command: Command, folder: Path) -> None:
    script = folder / "a.workflow.js"
    script.write_text("\nthrow new Error('no \\u001b[31m luck');\n")
    result = command("run", script)
    assert result.status == 1
    assert "no ␛[31m luck" in result.out
    assert "line 2" in result.out
    assert "\x1b" not in result.out + result.err


def test_ctrl_c_leaves_a_run_that_can_be_cancelled(command: Command, folder: Path, hanging: Path) -> None:
    with process("run", hanging) as running:
        wait_for_line(running, "running")
        running.send_signal(signal.SIGINT)
        _, rest = running.communicate(timeout=90)
    assert running.returncode == 130
    assert "is kept and recoverable" in rest
    (listed,) = command("runs", "--json").document["runs"]
    assert listed["state"] == "recoverable"
    assert command("show", listed["run_id"]).status == 0
    cancelled = command("cancel", listed["run_id"], "--json")
    assert cancelled.status == 0
    assert (cancelled.document["status"], cancelled.document["state"]) == ("applied", "cancelled")
    deleted = command("delete", listed["run_id"], "--json")
    assert deleted.document["deleted"] == [listed["run_id"]]


def test_kill_leaves_a_truthful_record(command: Command, folder: Path, hanging: Path) -> None:
    with process("run", hanging) as running:
        wait_for_line(running, "running")
        running.kill()
        running.communicate(timeout=90)
    (listed,) = command("runs", "--json").document["runs"]
    assert listed["state"] == "recoverable"
    assert listed["cause"]["message"]
    shown = command("show", listed["run_id"])
    assert shown.status == 0
    assert "↻ recoverable" in shown.out


def test_kill_at_any_moment_leaves_a_truthful_record(command: Command, folder: Path) -> None:
    script = example(folder, "checks")
    stubs = folder / "checks.stubs.yaml"
    stubs.write_text(re.sub(r"^(- step: .*)", r"\1\n  after: 0.05", stubs.read_text(), flags=re.MULTILINE))
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    moments = random.Random(seed)
    for _ in range(4):
        with process("run", script) as running:
            wait_for_line(running, "evidence")
            time.sleep(moments.uniform(0, 0.4))
            running.kill()
            running.communicate(timeout=90)
        run = command("runs", "--json").document["runs"][0]
        shown = command("show", run["run_id"], "--json").document
        assert shown["state"] in ("recoverable", "completed")
        for step in shown["steps"]:
            answered = (
                command("step", run["run_id"], step["step_id"], "--json").document["output"] is not None
            )
            assert answered == (step["status"] == "completed")
        assert (shown["result"] is not None) == (shown["state"] == "completed")


def test_commands_work_through_the_owner(command: Command, folder: Path, hanging: Path) -> None:
    quick = example(folder, "first")
    with process("run", hanging, "--json") as owner:
        wait_for_line(owner, "running")
        guest = command("run", quick, "--json")
        assert guest.status == 0, guest.err
        assert guest.document["state"] == "completed"
        by_name = {run["name"]: run for run in command("runs", "--json").document["runs"]}
        assert by_name["hang"]["state"] == "running"
        assert command("delete", by_name["first"]["run_id"]).status == 0
        cancelled = command("cancel", by_name["hang"]["run_id"], "--json")
        assert cancelled.document.get("state") == "cancelled", cancelled.err
        out, _ = owner.communicate(timeout=90)
    assert owner.returncode == 1
    assert json.loads(out)["state"] == "cancelled"


def test_detach_returns_at_once_and_the_run_goes_on(command: Command, folder: Path) -> None:
    script = folder / "slow.workflow.js"
    script.write_text(HANG)
    (folder / "slow.stubs.yaml").write_text("- step: slow\n  after: 0.6\n  reply: done\n")
    result = command("run", script, "--detach", "--json")
    assert result.status == 0, result.err
    assert result.document["state"] in ("queued", "running")
    run_id = result.document["run_id"]
    assert owner_pid(lock_path(store(folder))) not in (None, os.getpid())
    second = command("run", script, "--detach")
    assert second.status == 0
    assert "wr_" in second.out
    wait_until_free(folder)
    shown = command("show", run_id, "--json").document
    assert (shown["state"], shown["result"]["output"]) == ("completed", "done")


def test_detach_reports_what_the_background_owner_could_not_do(command: Command, script: Path) -> None:
    (script.parent / "workbench.yaml").write_text(
        "plugins:\n  - {name: w, use: 'workflows_core.extension:install', config: {storage_path: 'one.workflow.js/x'}}\n"
    )
    result = command("run", script, "--detach")
    assert result.status == 6
    assert result.err.count("\n") == 1


def test_an_owner_that_does_not_answer(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.access.ANSWER_SECONDS", 0.2)
    script = example(folder, "first")
    run_id = command("run", script, "--json").document["run_id"]
    lock = ProcessLock.acquire(lock_path(store(folder)))
    try:
        for arguments in (("run", script), ("cancel", run_id), ("delete", run_id)):
            result = command(*arguments)
            assert result.status == 6
            assert "has not answered" in result.err
        assert command("show", run_id).status == 0
    finally:
        lock.release()


def test_a_store_from_a_newer_version(command: Command, folder: Path) -> None:
    script = example(folder, "first")
    command("run", script)
    with sqlite3.connect(store(folder)) as connection:
        columns = connection.execute("PRAGMA table_info(migrations)").fetchall()
        names = ", ".join(column[1] for column in columns)
        values = ["later" if column[2] == "TEXT" else 999 for column in columns]
        connection.execute(
            f"INSERT INTO migrations ({names}) VALUES ({', '.join('?' * len(columns))})", values
        )
    connection.close()
    before = store(folder).read_bytes()
    for arguments in (("runs",), ("run", script)):
        result = command(*arguments)
        assert result.status == 6
        assert result.err.splitlines()[-1].startswith("Written by a newer version: ")
    assert store(folder).read_bytes() == before


LIMITED = """
import resource, sys
from workbench.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
main(sys.argv[2:])
"""


def test_a_full_disk(command: Command, folder: Path) -> None:
    script = example(folder, "first")
    command("run", script)
    size = store(folder).stat().st_size
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "8192", "run", str(script)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (5, 6), done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"The disk refused|store", done.stderr)
    assert store(folder).stat().st_size >= size
    runs = command("runs", "--json").document["runs"]
    assert runs[-1]["state"] == "completed"


def test_a_full_standard_output(folder: Path) -> None:
    script = example(folder, "first")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "check", str(script), "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 6
    assert done.stderr == "The disk refused: No space left on device\n"


def test_a_reader_that_leaves_early_is_no_error(folder: Path) -> None:
    script = example(folder, "first")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "check", str(script)], stdout=write, stderr=subprocess.PIPE, timeout=60
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_demo_prints_lines_and_leaves_nothing_behind(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    result = command("demo", "--headless", "--json")
    assert result.status == 0, result.err
    assert result.document["state"] == "completed"
    assert "review-2" in result.err
    assert list(temporary.iterdir()) == []
    assert list(folder.iterdir()) == []


def test_a_console_script_is_installed() -> None:
    script = Path(sys.executable).parent / "workbench"
    done = subprocess.run([str(script), "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("workbench ")
