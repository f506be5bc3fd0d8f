"""Runs a script in one fresh workspace after another and kills itself at the n-th commit boundary.

``python -m tests.workbench.crash.driver ROOT SCRIPT STUBS POINT…`` makes the workspace ROOT/POINT for each
POINT, forks a process that hosts the engine in it, launches the script and waits for its end. The process is
killed with SIGKILL at the POINT-th boundary, counted from 1 over "before X" and "after X" of each commit; point
0 kills nowhere. One JSON line a point says which boundaries were passed and whether the process was killed.

Beside each workspace: ``calls.jsonl``, what the stub Agents were asked, and ``given``, one response frame a line
in the moment at which it went to the worker.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.client import Client
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchRequest
from workflows_core.engine.service import WorkflowService
from workflows_core.store.sqlite import SqliteStore
from workflows_core.worker.process import Turn, Worker


class _Boundaries:
    """Passed to the store; writes each boundary's name to ``passed`` and kills at the chosen one."""

    def __init__(self, point: int, passed: int) -> None:
        self._left = point
        self._passed = passed

    def __call__(self, name: str) -> None:
        os.write(self._passed, f"{name}\n".encode())
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _watch_worker(given: Path) -> None:
    give = Worker.give

    async def watched(worker: Worker, frames: Sequence[bytes]) -> Turn:
        with given.open("ab", buffering=0) as file:
            for frame in frames:
                file.write(frame + b"\n")
        return await give(worker, frames)

    setattr(Worker, "give", watched)  # noqa: B010 - a plain assignment to a method is no type


async def _launch(folder: Path, script: Path, stubs: Path) -> None:
    workspace = Workspace(folder)
    client = await Client.open(workspace, host="required")
    try:
        request = LaunchRequest(
            script=script.read_text("utf-8"),
            args={},
            name=script.name,
            request_id="once",
            options=workspace.options(stubs=stubs),
        )
        await client.launch(request)
        await client.wait_idle()
    finally:
        await client.close()


def _die_at(point: int, folder: Path, script: Path, stubs: Path, passed: int) -> None:
    os.environ["WORKBENCH_STUB_CALLS"] = str(folder.with_suffix(".calls.jsonl"))
    crash_point = _Boundaries(point, passed)
    defaults = WorkflowService.__init__.__kwdefaults__
    assert defaults is not None
    defaults["store"] = functools.partial(SqliteStore, crash_point=crash_point)
    _watch_worker(folder.with_suffix(".given"))
    asyncio.run(_launch(folder, script, stubs))


def _forked(point: int, folder: Path, script: Path, stubs: Path) -> dict[str, Any]:
    folder.mkdir()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            _die_at(point, folder, script, stubs, writing)
        except BaseException:  # noqa: BLE001 - a fork must not go on as its parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as names:
        passed = names.read().splitlines()
    status = os.waitpid(pid, 0)[1]
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if not killed and status != 0:
        raise SystemExit(f"point {point}: the process ended with status {status}")
    return {"point": point, "killed": killed, "passed": passed}


def main(arguments: list[str]) -> None:
    root, script, stubs = map(Path, arguments[:3])
    for point in map(int, arguments[3:]):
        print(json.dumps(_forked(point, root / str(point), script, stubs)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
