"""``review``: what waits for a person, in the application or as lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import common, err, find_workspace, out, print_json, reading
from .demo import open_application
from .exits import Exit

if TYPE_CHECKING:
    from workbench.review import Waiting
    from workbench.workspace import Workspace

    from .output import Output


@click.command()
@click.option("--list", "listed", is_flag=True, help="List what waits for you, oldest first, and end.")
@common
def review(listed: bool, workspace: Path | None, as_json: bool) -> int:
    """Open the application at the Review screen.

    There is everything that waits for a person. Without a terminal: --list, artifact, decide, answer and resume.
    """
    space = find_workspace(workspace)
    if not listed:
        return open_application(space, "review")
    from workflows_core.model import now

    items = _waiting(space)
    if as_json:
        print_json({"waiting": [_document(item) for item in items]})
    elif items:
        _lines(out(), items, now())
    else:
        err().line("Nothing waits for you.")
    return Exit.DONE


def _waiting(space: Workspace) -> list[Waiting]:
    """Everything that waits, the oldest first: the runs, then what manual agents are asked in running ones."""
    from workbench.review import inbox, unsettled
    from workbench.review_questions import open_questions
    from workflows_core.model import RunState

    with reading(space) as reader:
        if reader is None:
            return []
        runs = reader.runs(None)
        to_settle = {
            run.run_id: unsettled(reader.view(run.run_id))
            for run in runs
            if run.state is RunState.NEEDS_RECONCILIATION
        }
    return inbox(runs, open_questions(space.host_store_path), to_settle)


def _lines(output: Output, items: list[Waiting], at: int) -> None:
    """One line for each: what to do, the step, the run, the deadline or the age, the command that does it."""
    output.table(
        [
            [
                (item.mark.text(unicode=output.unicode), item.mark.tone),
                item.step_id,
                item.name,
                (item.run_id, "quiet"),
                item.time(at),
                command_of(item),
            ]
            for item in items
        ]
    )


def command_of(item: Waiting) -> str:
    """The command that does what ``item`` waits for; where that takes a look at the run first, the one that shows it."""
    from workbench.review import Act

    if item.act is Act.DECIDE:
        return f"workbench decide {item.run_id} {item.step_id} approve|reject"
    if item.act is Act.RESUME:
        return f"workbench resume {item.run_id} {item.step_id}"
    if item.child_run_id is not None:
        return f"workbench answer {item.run_id} {item.step_id}"
    if item.step_id:
        return f"workbench reconcile {item.run_id} {item.step_id} --outcome …"
    return f"workbench show {item.run_id}"


def _document(item: Waiting) -> dict[str, Any]:
    from workflows_core.model import iso

    return {
        "act": item.act.value,
        "run_id": item.run_id,
        "name": item.name,
        "state": item.state.value,
        "step_id": item.step_id or None,
        "attempt": item.attempt,
        "since": iso(item.since),
        "expires_at": iso(item.expires_at),
        "agent": item.agent or None,
        "child_run_id": item.child_run_id,
    }
