"""What every command shares: its two options, the workspace, the client, and stopping in order."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import click

from .output import Output

if TYPE_CHECKING:
    from workbench.client import Client
    from workbench.workspace import Workspace
    from workflows_core.limits import EngineConfig
    from workflows_core.store.blocking import BlockingReader

P = ParamSpec("P")
R = TypeVar("R")

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):
    """The command was told to stop by a signal and has shut down in order. ``note`` says what is left."""

    def __init__(self, signum: int, note: str = "") -> None:
        super().__init__(note)
        self.signum = signum
        self.note = note


workspace_option = click.option(
    "--workspace",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The workspace. Default: the nearest folder upwards with .workbench/ or workbench.yaml, else here.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on standard output."
)


def common(command: Callable[P, R]) -> Callable[P, R]:
    """Give a command ``--workspace`` and ``--json`` (parameters ``workspace`` and ``as_json``)."""

    @functools.wraps(command)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        # `workbench --workspace DIR COMMAND` means the same as `workbench COMMAND --workspace DIR`.
        if kwargs.get("workspace") is None:
            kwargs["workspace"] = click.get_current_context().find_root().params.get("workspace")
        return command(*args, **kwargs)

    return workspace_option(json_option(inner))


def find_workspace(explicit: Path | None) -> Workspace:
    from workbench.workspace import Workspace

    return Workspace.find(None, explicit)


def engine_settings(workspace: Workspace) -> EngineConfig:
    """The workflow plugin's settings in this workspace: its Agents and limits.

    Raises ConfigurationError where they are wrong or the plugin is switched off.
    """
    from workflows_core.errors import ConfigurationError
    from workflows_core.limits import engine_config

    if workspace.config_path is None:
        return engine_config({})  # its defaults, without loading what reads a configuration
    record = workspace.config.workflows
    if record is None:
        raise ConfigurationError(
            f"{workspace.config_path} leaves the workflow plugin out; "
            "add a record with use: workflows_core.extension:install under plugins, enabled: true"
        )
    return engine_config(record.config)


def out() -> Output:
    """Standard output: data."""
    return Output(sys.stdout)


def err() -> Output:
    """Standard error: progress and diagnostics."""
    return Output(sys.stderr)


def print_json(document: dict[str, Any]) -> None:
    from workbench.document import dumps

    sys.stdout.write(dumps(document))
    sys.stdout.flush()


def interactive() -> bool:
    """Whether a person can be asked: standard input and output are terminals."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def drawable() -> bool:
    """Whether the application can open: a person can be asked, and standard error, which it draws on, is a terminal."""
    return interactive() and sys.stderr.isatty()


@asynccontextmanager
async def connected(
    workspace: Workspace, host: Literal["never", "if_free", "to_look", "required"]
) -> AsyncIterator[Client]:
    """The workspace's client, closed in order whatever happens."""
    from workbench.client import Client
    from workbench.logs import logged

    with logged(workspace.state_dir if host != "never" else None):
        client = await Client.open(workspace, host=host)
        try:
            yield client
        finally:
            await client.close()


@contextmanager
def reading(workspace: Workspace) -> Iterator[BlockingReader | None]:
    """The workspace's store for questions that need no engine and follow nothing; None where there is none yet."""
    from workflows_core.store.blocking import BlockingReader

    reader = BlockingReader.open(workspace.storage_path)
    try:
        yield reader
    finally:
        if reader is not None:
            reader.close()


def run_async(work: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run ``work`` to its end; ctrl+c and termination cancel it once, in order.

    Raises Stopped once it has shut down after such a signal. A second signal ends the process at once.
    """
    import asyncio

    return asyncio.run(_supervised(work))


async def _supervised(work: Callable[[], Coroutine[Any, Any, R]]) -> R:
    import asyncio

    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work())
    received: list[int] = []

    def stop(signum: signal.Signals) -> None:
        received.append(signum)
        for each in _STOPPING:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)
        if signum == signal.SIGINT:
            err().line(("Stopping in order; ctrl+c again ends at once.", "quiet"))
        task.cancel()

    for each in _STOPPING:
        loop.add_signal_handler(each, functools.partial(stop, each))
    try:
        return await task
    except asyncio.CancelledError:
        if not received:
            raise
        raise Stopped(received[0]) from None
    finally:
        if not received:
            for each in _STOPPING:
                loop.remove_signal_handler(each)


def require_posix() -> None:
    """Refuse to execute anything where the worker's limits do not exist."""
    if os.name != "posix":
        from workflows_core.errors import UsageError

        raise UsageError(
            "Workflows run on Linux and macOS only: the worker's limits need POSIX. On Windows use WSL."
        )
