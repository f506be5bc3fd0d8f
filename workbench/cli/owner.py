"""A background owner: a process that hosts the engine for ``run --detach`` and leaves when nothing is active.

The parent holds the owner's standard input open while it launches; the owner reports on its standard output
with one JSON line whether it could open the workspace, and leaves once that input is closed and no run is
active any more.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from .common import common, connected, find_workspace, print_json, run_async
from .exits import Exit, Relayed, of_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.workspace import Workspace
    from workflows_core.engine.requests import LaunchOutcome, LaunchRequest
    from workflows_core.model import RunView

#: How long a fresh owner may take until it has said whether it could open the workspace.
_READY_SECONDS: Final = 30.0


def launch_detached(workspace: Workspace, request: LaunchRequest, *, as_json: bool) -> int:
    """Launch through the workspace's owner, or through a background owner started for it."""
    from workbench import words
    from workbench.document import run_document
    from workflows_core.errors import StoreError
    from workflows_core.model import now

    from .launch import say_launched

    for last in (False, False, True):
        try:
            outcome, view = _launch_through_owner(workspace, request)
            break
        except StoreError as error:
            # The owner that was there may have left before it saw the request. Launching again with the same
            # request id makes no second run.
            if last or error.code != "owner_gone":
                raise
    say_launched(outcome.run_id, request, existing=outcome.existing)
    if as_json:
        print_json(run_document(view))
    else:
        from .common import out

        out().line(outcome.run_id, "  ", words.condition(view, now()))
    return Exit.DONE


def _launch_through_owner(workspace: Workspace, request: LaunchRequest) -> tuple[LaunchOutcome, RunView]:
    with background_owner(workspace):
        return run_async(lambda: _launch(workspace, request))


async def _launch(workspace: Workspace, request: LaunchRequest) -> tuple[LaunchOutcome, RunView]:
    async with connected(workspace, "never") as client:
        outcome = await client.launch(request)
        return outcome, await client.view(outcome.run_id)


@contextmanager
def background_owner(workspace: Workspace) -> Iterator[None]:
    """Make sure that some process owns the workspace until the block ends.

    Raises Relayed with the background owner's own error where it cannot open the workspace.
    """
    import subprocess

    # -P: the current folder must not supply modules.
    command = [sys.executable, "-P", "-m", "workbench.cli.main", "_own", "--workspace", str(workspace.root)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        with process.stdin, process.stdout:
            _await_ready(process.stdout)
            yield
    finally:
        # Nobody waits for an owner that is at work: it is a session of its own and outlives this process.
        if process.poll() is None:
            process.returncode = 0


def _await_ready(stream: IO[bytes]) -> None:
    """Wait until an owner is ready: the one that ``stream`` comes from, or the one that was there before."""
    import select

    readable, _, _ = select.select([stream], [], [], _READY_SECONDS)
    line = stream.readline() if readable else b""
    try:
        report: dict[str, Any] = json.loads(line)
    except ValueError:
        raise Relayed(
            "The workspace cannot be used",
            "a background owner was started and did not say that it is ready; try without --detach",
            "owner_not_ready",
            Exit.WORKSPACE,
        ) from None
    error = report.get("error")
    # Another process that owns the workspace will do the work.
    if error is not None and error["code"] != "store_in_use":
        raise Relayed(error["title"], error["message"], error["code"], error["exit"])


@click.command(name="_own", hidden=True)
@common
def own(workspace: Path | None, as_json: bool) -> int:
    """Host the engine until nothing is active. Started by run --detach, not meant for people."""
    from workflows_core.errors import WorkflowError

    try:
        run_async(lambda: _own(find_workspace(workspace)))
    except WorkflowError as error:
        status = of_error(error)
        _say({"error": {"title": error.title, "message": error.message, "code": error.code, "exit": status}})
        return status
    return Exit.DONE


async def _own(workspace: Workspace) -> None:
    from .follow import changes

    async with connected(workspace, "required") as client:
        _say({"ready": True})
        # From here on nobody reads: whatever prints must not meet a closed pipe.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
        await _closed(0)
        with changes(client) as next_change:
            while await client.live():
                await next_change()
        await client.wait_idle()


async def _closed(descriptor: int) -> None:
    """Wait until the other end of a pipe is closed."""
    import asyncio

    loop = asyncio.get_running_loop()
    closed = asyncio.Event()
    loop.add_reader(descriptor, lambda: closed.set() if not os.read(descriptor, 4096) else None)
    try:
        await closed.wait()
    finally:
        loop.remove_reader(descriptor)


def _say(report: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
