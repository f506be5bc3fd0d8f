"""``run``: check a script, launch it, follow it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from .common import (
    Stopped,
    common,
    connected,
    err,
    find_workspace,
    out,
    print_json,
    reading,
    require_posix,
    run_async,
)
from .exits import Exit, of_state

if TYPE_CHECKING:
    from workbench.client import Client
    from workbench.workspace import Workspace
    from workflows_core.engine.requests import LaunchRequest
    from workflows_core.model import RunView

#: Characters of a hash that name a version.
_LEAST_HASH: Final = 7


@click.command()
@click.argument("script", type=click.Path(path_type=Path), required=False)
@click.option(
    "--version",
    "version",
    metavar="NAME@HASH",
    help="Launch this saved version instead of a SCRIPT. HASH: at least the first 7 characters.",
)
@click.option("--args", "args_text", metavar="JSON|@FILE", help="The arguments, a JSON object. Default: {}.")
@click.option(
    "--stubs",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Answer Agent calls from this stub set. Default: the stub sets of workbench.yaml; where it names "
    "none, the file NAME.stubs.yaml beside the script.",
)
@click.option(
    "--agents",
    type=click.Choice(["stub", "real"]),
    default="stub",
    show_default=True,
    help="Who answers: stubs, or the real Agents of workbench.yaml, which can cost money.",
)
@click.option("--request-id", metavar="ID", help="Launching twice with one id makes one run. Default: new.")
@click.option("--name", metavar="N", help="The name of the run. Default: the script's, without its suffix.")
@click.option("--detach", is_flag=True, help="Return once the run is recorded; it goes on by itself.")
@common
def run(
    script: Path | None,
    version: str | None,
    args_text: str | None,
    stubs: Path | None,
    agents: str,
    request_id: str | None,
    name: str | None,
    detach: bool,
    workspace: Path | None,
    as_json: bool,
) -> int:
    """Check a script, launch it, and follow it to its end or wait.

    Instead of a SCRIPT, --version names a saved one; it is never another one than that.

    Progress goes to standard error: one line for each step that starts or ends. The result goes to standard
    output. Ends with 0 when the run completed, 1 when it failed or was cancelled or the check found errors,
    3 when it waits for a person, 4 when it needs reconciliation, 5 when it is recoverable or interrupted.
    """
    from workflows_core.errors import UsageError

    require_posix()
    if stubs is not None and agents == "real":
        raise UsageError("--stubs and --agents real exclude each other: real Agents answer for themselves")
    if (script is None) == (version is None):
        raise UsageError("name either a SCRIPT or a saved version with --version NAME@HASH")
    space = find_workspace(workspace)
    if version is None:
        assert script is not None
        source = script_source(space, script, stubs, real=agents == "real")
    else:
        source = saved_source(space, version)
    launch = prepare(space, source, args_text, stubs, agents == "real", request_id, name, as_json=as_json)
    if launch is None:
        return Exit.FAILED
    if detach:
        from .owner import launch_detached

        return launch_detached(space, launch, as_json=as_json)
    return execute(space, launch, as_json=as_json)


@dataclass(frozen=True)
class Source:
    """What a launch runs. ``shown`` is its name in messages; ``stubs`` the stub set that lies beside it."""

    text: str
    shown: str
    name: str
    definition: str | None = None
    stubs: Path | None = None


def script_source(workspace: Workspace, script: Path, stubs: Path | None, *, real: bool) -> Source:
    """A script file, with the stub set beside it where no other answers."""
    from workbench.scripts import read_script, script_name, stubs_beside

    text = read_script(script)
    beside = stubs_beside(script) if stubs is None and not real and not workspace.config.stubs else None
    return Source(text, str(script), script_name(script), stubs=beside)


def saved_source(workspace: Workspace, version: str) -> Source:
    """A saved version, named as NAME@HASH. Raises UsageError and NotFound."""
    from workbench.login import acting_as
    from workflows_core.errors import NotFound, UsageError

    name, _, digest = version.rpartition("@")
    if not name or len(digest) < _LEAST_HASH:
        raise UsageError(
            f"{version!r} names no version; write NAME@HASH with at least the first {_LEAST_HASH} characters of "
            "the hash. 'workbench library' lists the versions"
        )
    with reading(workspace) as reader:
        if reader is None:
            raise NotFound(f"nothing is saved in {workspace.root} yet; 'workbench save' saves a script")
        found, text = reader.definition(name, digest, acting_as(workspace))
    whole = f"{found.name}@{found.version}"
    return Source(text, f"{found.name}@{found.version[:_LEAST_HASH]}", found.name, definition=whole)


def prepare(
    workspace: Workspace,
    source: Source,
    args_text: str | None,
    stubs: Path | None,
    real: bool,
    request_id: str | None,
    name: str | None,
    *,
    as_json: bool,
) -> LaunchRequest | None:
    """Read and check everything a launch needs; None where the check stopped it, which has been said."""
    from workbench.document import problems_document
    from workflows_core.engine.requests import LaunchRequest
    from workflows_core.model import new_id

    from .author import find_problems, has_errors, show_before_launch

    args = read_arguments(args_text)
    options = workspace.options(stubs=source.stubs if stubs is None else stubs, real=real)
    problems = find_problems(workspace, source.text, args)
    show_before_launch(problems, source.shown)
    if has_errors(problems):
        if as_json:
            print_json(problems_document(problems))
        return None
    return LaunchRequest(
        script=source.text if source.definition is None else "",
        args=args,
        name=source.name if name is None else name,
        request_id=new_id("req") if request_id is None else request_id,
        options=options,
        definition=source.definition,
    )


def read_arguments(text: str | None) -> dict[str, Any]:
    """The arguments of ``--args``: JSON, or @FILE. Raises UsageError in words."""
    from workbench.scripts import parse_arguments, read_text

    if text is None:
        return {}
    if text.startswith("@"):
        path = Path(text[1:])
        return parse_arguments(read_text(path, "the arguments file"), f"the arguments file {path}")
    return parse_arguments(text, "--args")


@dataclass
class _Progress:
    """What is known while a run is followed, for the case that ctrl+c ends the following."""

    run_id: str | None = None
    hosting: bool = False
    settled: bool = False


#: Starts or continues a run through a client. Returns its id and, where it existed before, what is known of it.
Begin: TypeAlias = "Callable[[Client], Awaitable[tuple[str, RunView | None]]]"


def execute(workspace: Workspace, request: LaunchRequest, *, as_json: bool) -> int:
    """Launch, follow and print the outcome; the exit code says how the run stands."""

    async def launch(client: Client) -> tuple[str, None]:
        outcome = await client.launch(request)
        say_launched(outcome.run_id, request, existing=outcome.existing)
        return outcome.run_id, None

    return followed(workspace, launch, lambda view: print_outcome(view, as_json=as_json))


def followed(
    workspace: Workspace, begin: Begin, show: Callable[[RunView], None], run_id: str | None = None
) -> int:
    """Begin something, follow the run until it ends, waits or stops, and show it as it was then.

    This process hosts the engine where nobody does, and stays while it supervises other runs; a run that
    waits when it leaves is recoverable. ``run_id`` is given where the run exists before. Returns the exit code.
    """
    progress = _Progress(run_id)
    try:
        view = run_async(lambda: _followed(workspace, begin, show, progress))
    except Stopped as stop:
        raise Stopped(stop.signum, _left_behind(progress)) from None
    return of_state(view.state)


async def _followed(
    workspace: Workspace, begin: Begin, show: Callable[[RunView], None], progress: _Progress
) -> RunView:
    from .follow import follow

    async with connected(workspace, "if_free") as client:
        progress.hosting = client.owner
        progress.run_id, known = await begin(client)
        progress.hosting = client.owner
        view = await follow(client, progress.run_id, err(), known)
        progress.settled = True
        show(view)
        if client.owner:
            await _host_others(client, view.run_id)
    return view


def watch(workspace: Workspace, run_id: str, *, as_json: bool) -> int:
    """Follow a run from beside its owner until it ends, waits or stops; show it. Returns the code of its state."""

    async def look() -> RunView:
        from .follow import follow

        async with connected(workspace, "never") as client:
            return await follow(client, run_id, err())

    try:
        view = run_async(look)
    except Stopped as stop:
        raise Stopped(stop.signum, f"Stopped following. {run_id} goes on.") from None
    print_outcome(view, as_json=as_json)
    return of_state(view.state)


def say_launched(run_id: str, request: LaunchRequest, *, existing: bool) -> None:
    output = err()
    if existing:
        output.line(f"Request {request.request_id} has a run already: ", (run_id, "title"))
    else:
        label = str(request.options.get("label") or request.options.get("agents", ""))
        output.line("Launched ", (request.name, "title"), f" as {run_id}", (f", agents: {label}", "quiet"))


def print_outcome(view: RunView, *, as_json: bool) -> None:
    """The run as it ended or began to wait, on standard output."""
    from workbench.document import run_document
    from workflows_core.model import now

    from . import render

    if as_json:
        print_json(run_document(view))
        return
    output = out()
    render.run_head(output, view, now())
    if view.has_result:
        render.value(output, view.result)
    render.what_next(err(), view)


async def _host_others(client: Client, run_id: str) -> None:
    """Stay while this process still supervises runs that other commands have launched here."""
    from .follow import MOVING, changes

    said: set[str] = set()
    with changes(client) as next_change:
        while True:
            others = [run for run in await client.live() if run.run_id != run_id and run.state in MOVING]
            if not others:
                return
            for other in others:
                if other.run_id not in said:
                    said.add(other.run_id)
                    name = (other.name, "title")
                    err().line("This command also hosts ", name, f" {other.run_id} and stays for it.")
            await next_change()


def _left_behind(progress: _Progress) -> str:
    if progress.run_id is None:
        return "Stopped before a run was recorded here; launching again with the same request id is safe."
    if progress.settled:
        return f"Stopped. See the run with: workbench show {progress.run_id}"
    if progress.hosting:
        return (
            f"Stopped. {progress.run_id} is kept and recoverable; see it with: "
            f"workbench show {progress.run_id}"
        )
    return (
        f"Stopped following. {progress.run_id} goes on in the workbench that owns this workspace; "
        f"see it with: workbench show {progress.run_id}"
    )
