"""``demo``, and opening the application."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from .common import common, drawable, err, find_workspace, interactive, require_posix
from .exits import Exit

if TYPE_CHECKING:
    from workbench.replaying import Given
    from workbench.workspace import Workspace

ARGUMENTS: Final = '{"product": "Synthetic sample", "formula": ["ingredient A"], "claims": ["sample claim"]}'


@click.command()
@click.option("--headless", is_flag=True, help="Lines instead of the application, also on a terminal.")
@common
def demo(headless: bool, workspace: Path | None, as_json: bool) -> int:
    """Run the bundled example on stubs, in a temporary workspace.

    On a terminal this opens the application, ready to launch, with all bundled examples; otherwise it runs the
    first one and prints lines as "run" does. The temporary workspace is removed at the end. With --workspace
    the examples are written there and stay.
    """
    import tempfile

    require_posix()
    if workspace is not None:
        return _demo(workspace, headless=headless, as_json=as_json)
    with tempfile.TemporaryDirectory(prefix="workbench-demo-", ignore_cleanup_errors=True) as folder:
        return _demo(Path(folder), headless=headless, as_json=as_json)


def _demo(folder: Path, *, headless: bool, as_json: bool) -> int:
    from workbench.scripts import write_examples

    from .launch import execute, prepare, script_source

    folder.mkdir(parents=True, exist_ok=True)
    script, stubs = write_examples(folder)[0]
    space = find_workspace(folder)
    if drawable() and not headless and not as_json:
        return open_application(space)
    err().line("Running ", ("checks.workflow.js", "title"), " on stubs in a temporary workspace")
    source = script_source(space, script, stubs, real=False)
    request = prepare(space, source, ARGUMENTS, stubs, False, None, None, as_json=as_json)
    if request is None:
        return Exit.FAILED
    status = execute(space, request, as_json=as_json)
    if not as_json:
        err().line(("Next: workbench new, then workbench run first.workflow.js", "quiet"))
    return status


def open_application(workspace: Workspace, screen: str = "author", given: Given | None = None) -> int:
    """Open the Textual application on a workspace, hosting the engine where nobody does.

    ``given`` is a run that Replay opens at first.
    """
    from workflows_core.errors import UsageError

    require_posix()
    if not interactive():
        raise UsageError("the application needs a terminal. For the commands see: workbench --help")
    if not drawable():
        raise UsageError(
            "the application draws on standard error, which is no terminal here. Start it without redirecting "
            "standard error (2>)"
        )
    # What is imported and built for the first paint is no garbage; the application collects from then on.
    gc.disable()
    try:
        from workbench.client import Client
        from workbench.logs import logged
        from workbench.tui.app import run_app

        with logged(workspace.state_dir):
            return run_app(workspace, lambda: Client.open(workspace, host="later"), screen, given)
    finally:
        gc.enable()
