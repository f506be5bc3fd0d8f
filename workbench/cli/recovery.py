"""``recover``: take up a run whose owner is gone, or say what that would do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from .common import common, connected, err, find_workspace, out, print_json, require_posix, run_async
from .exits import Exit
from .launch import followed, print_outcome
from .replay import store_option
from .runs import view_run

if TYPE_CHECKING:
    from workbench.client import Client
    from workbench.workspace import Workspace
    from workflows_core.engine.recovery import Preview, StepAt
    from workflows_core.model import RunView, Wait

    from .output import Output

_GROUPS = (
    ("reused", "recorded results that are used again"),
    ("observed", "child runs that are watched to their end"),
    ("uncertain", "outcomes that a person must settle first"),
    ("new", "calls that would start"),
)


@click.command()
@click.argument("run")
@click.option("--preview", is_flag=True, help="Say what recovering would do, and change nothing.")
@store_option
@common
def recover(run: str, preview: bool, store: Path | None, workspace: Path | None, as_json: bool) -> int:
    """Let a run go on whose owner is gone, and follow it.

    A fresh worker replays what is recorded; no Agent is asked twice. RUN is a run id or the beginning of one; with
    --preview also a .wfrun file or a store file with one run, of which is said what can be known without the host
    that ran it.
    """
    from workbench.opening import names_file
    from workflows_core.errors import UsageError

    require_posix()
    space = find_workspace(workspace)
    if not preview and (store is not None or names_file(run)):
        raise UsageError("a file can only be looked at: add --preview. Its own workspace recovers the run")
    if preview:
        ahead = look_ahead(space, run, store)
        if as_json:
            print_json(preview_document(ahead.preview))
        else:
            show_preview(out(), ahead)
        return Exit.DONE
    view = view_run(space, run)

    async def begin(client: Client) -> tuple[str, RunView]:
        known = await client.view(view.run_id)
        outcome = await client.recover(view.run_id)
        err().line(outcome.message)
        return view.run_id, known

    return followed(space, begin, lambda ended: print_outcome(ended, as_json=as_json), view.run_id)


class Ahead(NamedTuple):
    """What recovering a run would do, with what a person needs to read it."""

    script: str
    waiting: Wait | None
    preview: Preview


def look_ahead(workspace: Workspace, run: str, store: Path | None) -> Ahead:
    """What recovering a run of this workspace, of a bundle or of a store file would do."""
    from workbench.opening import names_file, open_run

    if store is not None or names_file(run):
        from workflows_core.journal.preview import preview_bundle

        bundle = open_run(workspace, run, store)
        found = run_async(lambda: preview_bundle(bundle))
        return Ahead(bundle.script, bundle.record.waiting, found)
    view = view_run(workspace, run)

    async def ask() -> Preview:
        async with connected(workspace, "to_look") as client:
            return await client.preview(view.run_id)

    return Ahead(view.script, view.waiting, run_async(ask))


def preview_document(preview: Preview) -> dict[str, object]:
    """What recovering would do. ``compatible`` is null where something cannot be known here."""
    return {
        **{name: _steps(getattr(preview, name)) for name, _ in _GROUPS},
        "compatible": preview.compatible,
        "reasons": list(preview.reasons),
    }


def _steps(found: Sequence[StepAt]) -> list[dict[str, object]]:
    return [{"step_id": step.step_id, "line": step.line} for step in found]


def show_preview(output: Output, ahead: Ahead) -> None:
    """A preview for people: the verdict, why not, and each group with its source lines."""
    from workbench.words import awaited

    preview = ahead.preview
    if preview.compatible is None:
        output.line(("Whether it can be recovered is not known here", "waiting"))
    elif preview.compatible:
        output.line(("It can be recovered", "good"))
    else:
        output.line(("It cannot be recovered as it is", "bad"))
    for reason in preview.reasons:
        output.line(f"  {reason}")
    lines = ahead.script.split("\n")
    for name, meaning in _GROUPS:
        found: Sequence[StepAt] = getattr(preview, name)
        if not found:
            continue
        output.line()
        output.line((f"{len(found)} {name}", "title"), (f"  {meaning}", "quiet"))
        output.table([[step.step_id, *_source(lines, step.line)] for step in found], indent="  ")
    if preview.compatible is not False and ahead.waiting is not None:
        output.line()
        output.line(f"Then it waits for {awaited(ahead.waiting)} again")


def _source(lines: Sequence[str], line: int | None) -> list[tuple[str, str]]:
    if line is None or not 1 <= line <= len(lines):
        return []
    return [(f"line {line}", "quiet"), (lines[line - 1].strip(), "quiet")]
