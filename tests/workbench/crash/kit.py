"""Real processes that are stopped, killed and raced, and what must be true of the workspace they leave."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from workflows_core.journal.frames import Frame, FrameKind, verify_chain
from workflows_core.store import rows
from workflows_core.store.lock import lock_path, owner_pid

MAIN = "import sys; from workbench.cli.main import main; main(sys.argv[1:])"
PATIENCE_SECONDS = 90.0

#: Sequential and parallel steps; ``left``, ``right`` and ``third`` compete for two places.
SCRIPT = """\
const first = await agent({stepId: 'first', agentRef: 'lead_agent', task: {n: 1}});
const sides = await parallel(['left', 'right', 'third'].map(side => () =>
  agent({stepId: side, agentRef: 'lead_agent', task: {side, before: first.output}})));
log(`${sides.length} sides`);
let total = 0;
for (const n of [1, 2, 3, 4, 5]) {
  const step = await agent({stepId: `count-${n}`, agentRef: 'lead_agent', task: {n}});
  total += step.output.n;
}
const last = await agent({stepId: 'last', agentRef: 'lead_agent', task: {total}});
return {total, last: last.output};
"""
STUBS = """\
- {step: first, after: 0.08, reply: {ok: true}}
- {step: left, after: 0.1, reply: {ok: true}}
- {step: right, after: 0.03, reply: {ok: true}}
- {step: count-3, after: 0.04, reply: {n: 3}}
- {step: last, after: 0.06, reply: done}
"""
STEPS = ("first", "left", "right", "third", *(f"count-{n}" for n in range(1, 6)), "last")
RESULT = {"total": 15, "last": "done"}

HANG = "return await agent({stepId: 'slow', agentRef: 'lead_agent', task: 1});\n"
QUICK = "return await agent({stepId: 'quick', agentRef: 'lead_agent', task: args});\n"


def write_script(folder: Path, name: str, script: str, stubs: str | None = None) -> Path:
    """A script in ``folder``, with the stub set beside it."""
    path = folder / f"{name}.workflow.js"
    path.write_text(script, "utf-8")
    if stubs is not None:
        (folder / f"{name}.stubs.yaml").write_text(stubs, "utf-8")
    return path


def hanging(folder: Path) -> Path:
    """A script whose one Agent never answers."""
    return write_script(folder, "hang", HANG, "- step: slow\n  hang: true\n")


def store(folder: Path) -> Path:
    return folder / ".workbench" / "workflows.sqlite"


def owner(folder: Path) -> int | None:
    """The pid of the process that owns the workspace."""
    return owner_pid(lock_path(store(folder)))


@contextmanager
def process(
    *arguments: str | Path, folder: Path, calls: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own in ``folder``, killed at the end where it is still there."""
    environment = dict(os.environ)
    if calls is not None:
        environment["WORKBENCH_STUB_CALLS"] = str(calls)
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
    ) as running:
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()


def wait_for_line(running: subprocess.Popen[str], words: str) -> str:
    """Read standard error until a line holds ``words``; everything that was read."""
    assert running.stderr is not None
    seen = ""
    for line in running.stderr:
        seen += line
        if words in line:
            return seen
    raise AssertionError(f"the process ended before it said {words!r}: {seen}")


def wait_until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.01)


def wait_until_free(folder: Path) -> None:
    wait_until(lambda: owner(folder) is None, "the owner leaves")


def descendants(pid: int) -> list[int]:
    """The pids of a process's children, for example its workers."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has reaped yet counts as ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return status.rpartition(")")[2].split()[0] in ("Z", "X")


def agent_calls(path: Path) -> Counter[tuple[str, str, int]]:
    """How often the stub Agents were really asked, by (run, step, attempt)."""
    if not path.exists():
        return Counter()
    lines = path.read_text("utf-8").splitlines()
    return Counter((call["run_id"], call["step_id"], call["attempt"]) for call in map(json.loads, lines))


def query(folder: Path, sql: str, *values: Any) -> list[Any]:
    """Rows of the engine's store, read without the program."""
    with closing(sqlite3.connect(f"{store(folder).as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql, values).fetchall()


def journal(folder: Path, run_id: str) -> list[Frame]:
    """The frames of a run, after their chain was verified."""
    found = query(folder, f"SELECT {rows.FRAME_COLUMNS} FROM frames WHERE run_id = ? ORDER BY number", run_id)
    frames = [rows.frame(row) for row in found]
    verify_chain(frames)
    return frames


def intents(folder: Path, run_id: str) -> set[tuple[str, str, int]]:
    """The admission intents that were committed."""
    found = query(folder, "SELECT run_id, step_id, attempt FROM admissions WHERE run_id = ?", run_id)
    return {tuple(row) for row in found}


def answered(frames: list[Frame]) -> set[int]:
    """The ids of the calls that a committed response frame answers."""
    return {
        result["id"]
        for frame in frames
        if frame.kind is FrameKind.RESPONSE
        for result in json.loads(frame.body)["results"]
    }


def requested(frames: list[Frame]) -> dict[str, int]:
    """Step ids in the order of their requests, with the ids of their calls."""
    return {
        call["step_id"]: call["id"]
        for frame in frames
        if frame.kind is FrameKind.REQUEST
        for call in json.loads(frame.body)["calls"]
        if "step_id" in call
    }


def check_truth(folder: Path, document: dict[str, Any], calls: Counter[tuple[str, str, int]]) -> None:
    """The document of a run says what the journal holds and what Agents were really asked."""
    run_id = document["run_id"]
    frames = journal(folder, run_id)
    steps = {step["step_id"]: step for step in document["steps"]}
    asked = {step_id for run, step_id, _ in calls if run == run_id}
    assert max(calls.values(), default=1) == 1, "an Agent was asked twice"
    assert {key for key in calls if key[0] == run_id} <= intents(folder, run_id)
    assert asked <= set(steps)
    assert list(steps) == list(requested(frames))
    delivered = {step_id for step_id, call in requested(frames).items() if call in answered(frames)}
    for step_id, step in steps.items():
        status = step["status"]
        if status in ("completed", "failed"):
            assert step_id in asked
        elif status == "queued":
            assert step_id not in asked
        elif status == "running":
            assert step["child_run_id"] is not None
            assert step_id in asked
        else:
            assert status in ("uncertain", "interrupted")
        assert (status in ("completed", "failed")) == (step_id in delivered)
    ended = bool(frames) and frames[-1].kind is FrameKind.END
    assert ended == (document["state"] in ("completed", "failed", "cancelled"))
