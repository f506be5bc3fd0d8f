"""Command agents from the command line: a whole run, what its script may capture, and that nothing is left of it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.crash import kit

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere only the process group is reached"
)

CONFIG = {
    "plugins": [
        {
            "name": "workflows",
            "use": "workflows_core.extension:install",
            "config": {"enabled": True, "agents": ["helper"]},
        }
    ],
}
ASK = "return (await agent({stepId: 'ask', agentRef: 'helper', task: args})).output;\n"
CAPTURES = """\
await agent({stepId: 'made', agentRef: 'helper', task: args});
const seen = [];
for (const [index, path] of args.paths.entries()) {
  try {
    const file = await captureArtifact({stepId: `file-${index}`, sourceStepId: 'made', path});
    seen.push(file.sha256);
  } catch (error) {
    seen.push(error.code);
  }
}
return seen;
"""
STUBBORN = """
trap '' TERM
echo $$ > pids
(trap '' TERM; sh -c 'echo $PPID' >> pids; sleep 600) &
(setsid sh -c 'trap "" TERM; echo $$ >> pids; sleep 600' &)
while [ $(wc -l < pids) -lt 3 ]; do sleep 0.01; done
touch ready
sleep 600
"""


def helper(folder: Path, script: str, **settings: Any) -> None:
    """The workspace's one Agent: a shell that runs ``script``."""
    agent = {"backend": "command", "argv": ["sh", "-c", script], "stop_seconds": 0.2, **settings}
    (folder / "workbench.yaml").write_text(json.dumps({**CONFIG, "agents": {"helper": agent}}), "utf-8")


def children(folder: Path) -> list[Path]:
    found = folder / ".workbench" / "children"
    return sorted(found.iterdir()) if found.exists() else []


def run(command: Command, script: Path, **args: Any) -> dict[str, Any]:
    result = command("run", script, "--agents", "real", "--args", json.dumps(args), "--json")
    assert result.document["state"] == "completed", result.err + result.out
    document: dict[str, Any] = result.document
    return document


def step_error(command: Command, document: dict[str, Any], step: str) -> dict[str, str]:
    error: dict[str, str] = command("step", document["run_id"], step, "--json").document["error"]
    return error


# A whole run.


def test_a_program_answers_and_its_folder_goes_with_the_run(command: Command, folder: Path) -> None:
    helper(folder, "echo kept > kept.txt; cat")
    document = run(command, kit.write_script(folder, "ask", ASK), a=1)
    assert document["result"]["task"] == {"a": 1}
    assert document["result"]["run_id"] == document["run_id"]
    (step,) = document["steps"]
    assert (step["badge"], step["status"]) == ("live", "completed")
    (left,) = children(folder)
    assert (left.name, (left / "kept.txt").read_text("utf-8")) == (step["child_run_id"], "kept\n")
    assert command("delete", document["run_id"]).status == 0
    kit.wait_until(lambda: children(folder) == [], "the folder is removed, in a thread")


def test_a_folder_that_a_crash_left_is_removed_at_the_next_start(command: Command, folder: Path) -> None:
    helper(folder, "cat")
    run(command, kit.write_script(folder, "ask", ASK))
    kept = children(folder)
    (folder / ".workbench" / "children" / "cr_of_nobody").mkdir()
    run(command, kit.write_script(folder, "again", ASK))
    kit.wait_until(lambda: len(children(folder)) == 2, "the folder of nobody is removed")
    assert set(kept) < set(children(folder))


def test_what_a_failed_program_said_is_inert_in_the_run(command: Command, folder: Path) -> None:
    helper(folder, "printf 'no \\033]0;owned\\007 [red]file[/red]\\n' >&2; exit 4")
    result = command("run", kit.write_script(folder, "ask", ASK), "--agents", "real", "--json")
    assert (result.status, result.document["state"]) == (1, "failed")
    said = "helper ended with exit code 4. It said: no ␛]0;owned␇ [red]file[/red]"
    assert step_error(command, result.document, "ask") == {"code": "program_failed", "message": said}
    page = command("show", result.document["run_id"])
    assert said in page.out and "\x1b]" not in page.out + result.err


def test_a_program_that_is_missing_fails_the_step_and_nothing_was_started(
    command: Command, folder: Path
) -> None:
    helper(folder, "cat", argv=["no-such-program-4711"])
    result = command("run", kit.write_script(folder, "ask", ASK), "--agents", "real", "--json")
    assert result.status == 1
    error = step_error(command, result.document, "ask")
    assert error["code"] == "backend_unavailable"
    assert "there is no program no-such-program-4711 on the PATH" in error["message"]
    assert children(folder) == []


# Demand 12: what a script may capture of the folder.

SECRET = b"a secret outside"


def make_folder(outside: Path) -> str:
    """A program that leaves one of everything in its folder."""
    return f"""
printf inside > good.txt
mkdir sub; printf deep > sub/deep.bin
ln -s {outside} link.txt
ln -s {outside.parent} up
ln {outside} hard.txt
mkfifo fifo
ln -s /proc/self/environ proc.txt
ln -s /proc/self proc
head -c 2097153 /dev/zero > huge.bin
echo '"done"'
"""


def test_demand_12_only_the_childs_own_regular_files_are_captured(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_bytes(SECRET)
    helper(folder, make_folder(outside))
    expected = {
        "good.txt": hashlib.sha256(b"inside").hexdigest(),
        "sub/deep.bin": hashlib.sha256(b"deep").hexdigest(),
        "/mnt/user-data/good.txt": hashlib.sha256(b"inside").hexdigest(),
        "link.txt": "not_a_file",
        "up/outside.txt": "not_a_file",
        "hard.txt": "not_a_file",
        "fifo": "not_a_file",
        "proc.txt": "not_a_file",
        "proc/environ": "not_a_file",
        "sub": "not_a_file",
        "../../workflows.sqlite": "bad_path",
        "sub/../good.txt": "bad_path",
        str(outside): "bad_path",
        "huge.bin": "file_too_large",
        "none.txt": "file_not_found",
    }
    document = run(command, kit.write_script(folder, "captures", CAPTURES), paths=list(expected))
    assert dict(zip(expected, document["result"], strict=True)) == expected
    assert {sha for sha, _ in stored(folder)} == {value for value in expected.values() if len(value) == 64}
    huge = step_error(command, document, f"file-{list(expected).index('huge.bin')}")
    assert "2,097,153 bytes; admitted are 2,097,152" in huge["message"]


def stored(folder: Path) -> list[tuple[str, bytes]]:
    """Version and bytes of every capture, read without the program."""
    with closing(sqlite3.connect(f"{kit.store(folder).as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT version, body FROM captures").fetchall()


@contextmanager
def meanwhile(act: Callable[[Path], None], folder: Path) -> Iterator[None]:
    """Repeat ``act`` on the newest child's folder in a thread."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            for child in children(folder):
                try:
                    act(child)
                except FileNotFoundError:
                    continue

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def swap_rounds(command: Command, folder: Path, tmp_path: Path, rounds: int) -> None:
    """Capture ``rounds`` times while the name changes between files, links to a secret, and a FIFO."""
    outside = tmp_path / "outside.txt"
    outside.write_bytes(SECRET)
    helper(folder, "printf first > swapped; echo ok; touch ready")
    script = kit.write_script(folder, "captures", CAPTURES)
    inside = {b"first", b"a" * 20_000, b"b" * 300_000}

    def swap(child: Path) -> None:
        if not (child / "ready").exists():
            return  # the program would write through the link, or wait for a reader of the FIFO
        spare = child / "spare"
        for make in (
            lambda: spare.write_bytes(b"a" * 20_000),
            lambda: spare.symlink_to(outside),
            lambda: spare.write_bytes(b"b" * 300_000),
            lambda: os.link(outside, spare),
            lambda: os.mkfifo(spare),
        ):
            spare.unlink(missing_ok=True)
            make()
            spare.replace(child / "swapped")

    seen: list[str] = []
    with meanwhile(swap, folder):
        while len(seen) < rounds:
            document = run(command, script, paths=["swapped"] * min(16, rounds - len(seen)))
            seen += document["result"]
            for version, body in stored(folder):
                assert hashlib.sha256(body).hexdigest() == version
                assert body in inside
            assert command("delete", document["run_id"]).status == 0
    hashes = {hashlib.sha256(body).hexdigest() for body in inside}
    assert set(seen) <= hashes | {"not_a_file", "file_changed", "file_not_found"}


def test_demand_12_a_swap_during_the_read_never_captures_anything_else(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    swap_rounds(command, folder, tmp_path, 50)


@pytest.mark.soak
def test_demand_12_a_thousand_swaps(command: Command, folder: Path, tmp_path: Path) -> None:
    swap_rounds(command, folder, tmp_path, 1000)


def test_demand_12_a_growing_file_is_captured_whole_or_not_at_all(command: Command, folder: Path) -> None:
    helper(folder, ": > growing; echo ok; touch ready")

    def grow(child: Path) -> None:
        if not (child / "ready").exists():
            return
        with (child / "growing").open("ab") as file:
            file.write(b"x" * 997)
            if file.tell() > 1_000_000:
                file.truncate(0)

    with meanwhile(grow, folder):
        document = run(command, kit.write_script(folder, "captures", CAPTURES), paths=["growing"] * 16)
    for version, body in stored(folder):
        assert hashlib.sha256(body).hexdigest() == version
        assert body.strip(b"x") == b""
    assert {each for each in document["result"] if len(each) != 64} <= {"file_changed", "file_too_large"}


# Cancel, stop, crash: what the Agent started is gone.


@contextmanager
def stubborn(folder: Path) -> Iterator[tuple[Any, list[int]]]:
    """A run whose program ignores being asked to stop and has started others; its process and all their pids."""
    helper(folder, STUBBORN)
    script = kit.write_script(folder, "ask", ASK)
    with kit.process("run", script, "--agents", "real", folder=folder) as running:
        kit.wait_until(lambda: any((child / "ready").exists() for child in children(folder)), "it runs")
        (child,) = children(folder)
        left = [int(line) for line in (child / "pids").read_text("utf-8").split()]
        assert len(left) == 3 and not any(map(kit.gone, left))
        yield running, left


def only_run(command: Command) -> dict[str, Any]:
    (summary,) = command("runs", "--json").document["runs"]
    document: dict[str, Any] = command("show", summary["run_id"], "--json").document
    return document


@linux
def test_after_a_cancel_the_program_and_all_it_started_are_dead(command: Command, folder: Path) -> None:
    with stubborn(folder) as (running, left):
        done = command("cancel", only_run(command)["run_id"], "--json")
        assert (done.status, done.document["state"]) == (0, "cancelled")
        assert all(map(kit.gone, left))
        assert running.wait(kit.PATIENCE_SECONDS) == 1
    (step,) = only_run(command)["steps"]
    assert step["status"] == "interrupted"


@linux
def test_after_ctrl_c_they_are_dead_and_the_run_is_left_to_a_person(command: Command, folder: Path) -> None:
    with stubborn(folder) as (running, left):
        running.send_signal(signal.SIGINT)
        assert running.wait(kit.PATIENCE_SECONDS) == 130
        assert all(map(kit.gone, left))
    to_reconcile(command)


@linux
def test_after_the_host_was_killed_they_are_dead_and_the_run_is_left_to_a_person(
    command: Command, folder: Path
) -> None:
    with stubborn(folder) as (running, left):
        running.kill()
        running.wait(kit.PATIENCE_SECONDS)
        kit.wait_until(lambda: all(map(kit.gone, left)), "the program and what it started are gone")
    to_reconcile(command)


def to_reconcile(command: Command) -> None:
    """The run is recoverable; recovering it asks nothing again, but leaves its step to a person."""
    left = only_run(command)
    assert left["state"] == "recoverable"
    preview = command("recover", left["run_id"], "--preview", "--json").document
    assert preview["uncertain"] == [{"step_id": "ask", "line": 1}]
    assert preview["observed"] == preview["new"] == []
    recovered = command("recover", left["run_id"], "--json")
    assert recovered.status == 4, recovered.err
    assert recovered.document["cause"]["code"] == "uncertain"
    assert f"Next: workbench reconcile {left['run_id']} ask" in command("show", left["run_id"]).err
    assert len(children(Path.cwd())) == 1, "nothing was started again"


# Secrets.


def test_i14_a_programs_secret_is_in_no_record_export_or_log(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "tok-4711-very-secret"
    monkeypatch.setenv("MY_TOKEN", secret)
    leaks = """
read line
printf '%s' "$TOKEN" > leak.txt
case "$line" in
  *'"say"'*) echo "$TOKEN" ;;
  *'"fail"'*) echo "denied $TOKEN" >&2; exit 1 ;;
  *) echo '"quiet"' ;;
esac
"""
    helper(folder, leaks, secrets={"TOKEN": {"env": "MY_TOKEN"}})
    script = """\
const seen = [];
for (const how of ['say', 'fail', 'quiet']) {
  try {
    seen.push((await agent({stepId: how, agentRef: 'helper', task: how})).output);
  } catch (error) {
    seen.push(error.message);
  }
}
try {
  await captureArtifact({stepId: 'leak', sourceStepId: 'quiet', path: 'leak.txt'});
} catch (error) {
  seen.push(error.code);
}
return seen;
"""
    document = run(command, kit.write_script(folder, "leaks", script))
    assert document["result"] == [
        "the output of helper holds one of its secrets, so it was not kept",
        "helper ended with exit code 1. It said: denied [secret]",
        "quiet",
        "secret_in_file",
    ]
    assert command("export", document["run_id"], "-o", "out.wfrun").status == 0
    written = [path for path in folder.rglob("*") if path.is_file() and path.name != "leak.txt"]
    assert {"host.sqlite", "workflows.sqlite", "workbench.log", "out.wfrun"} <= {
        path.name for path in written
    }
    assert [path for path in written if secret.encode() in path.read_bytes()] == []
    assert secret not in command("show", document["run_id"]).out
