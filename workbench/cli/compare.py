"""``compare``: two runs step by step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .common import common, err, find_workspace, out, print_json
from .exits import Exit
from .runs import view_run

if TYPE_CHECKING:
    from workbench.comparing import StepPair
    from workbench.workspace import Workspace
    from workflows_core.journal.replay import Difference
    from workflows_core.model import RunView, StepView

    from .output import Output, Piece

_VALUE_WIDTH = 60


@click.command()
@click.argument("run", nargs=2, metavar="RUN RUN")
@common
def compare(run: tuple[str, str], workspace: Path | None, as_json: bool) -> int:
    """Compare two runs step by step.

    Steps are paired by their stepId; status, input, output and time are compared. Each RUN is a run id, the
    beginning of one, a .wfrun file, or a store file with one run.
    """
    from workbench.comparing import compare as compared
    from workbench.comparing import comparison_document, in_words

    space = find_workspace(workspace)
    found = compared(_view(space, run[0]), _view(space, run[1]))
    if as_json:
        print_json(comparison_document(found))
        return Exit.DONE
    output = out()
    for view in (found.first, found.second):
        output.line(
            (view.run_id, "title"), f"  {view.name}  {view.state.value}  script {view.script_hash[:7]}"
        )
    output.line("")
    output.table([_row(pair) for pair in found.steps])
    for pair in found.steps:
        _errors(output, pair)
        _differ(output, f"input of {pair.step_id}", pair.input)
        _differ(output, f"output of {pair.step_id}", pair.output)
    _differ(output, "args", found.args)
    _differ(output, "result", found.result)
    output.line("")
    output.line(in_words(found))
    return Exit.DONE


def _view(workspace: Workspace, target: str) -> RunView:
    """The run that ``target`` names, in the workspace or in a file."""
    from workbench.opening import names_file, open_run

    if not names_file(target):
        return view_run(workspace, target)
    bundle = open_run(workspace, target)
    if bundle.redacted:
        err().line(f"{target} is redacted: hashes stand for its values, so that they differ from all others.")
    return bundle.view()


def _row(pair: StepPair) -> list[Piece]:
    from workbench.comparing import seconds
    from workbench.words import duration

    def side(step: StepView | None) -> str:
        if step is None:
            return "no such step"
        took = seconds(step)
        return step.status.value if took is None else f"{step.status.value} {duration(round(took * 1e6))}"

    return ["=" if pair.same else "*", pair.step_id, side(pair.first), side(pair.second)]


def _errors(output: Output, pair: StepPair) -> None:
    from workbench.comparing import error_of
    from workbench.inert import shorten

    first, second = error_of(pair.first), error_of(pair.second)
    if first != second:
        output.line("")
        output.line((f"error of {pair.step_id} differs", "title"))
        for error in (first, second):
            output.line("    " + shorten(error or "no error", _VALUE_WIDTH * 2))


def _differ(output: Output, what: str, found: Sequence[Difference]) -> None:
    from workbench.inert import shorten

    if not found:
        return
    output.line("")
    output.line((f"{what} differs", "title"))
    for item in found:
        output.line(f"  {item.path or 'the whole'}")
        for value in (item.recorded, item.now):
            output.line("    " + shorten(json.dumps(value, ensure_ascii=False), _VALUE_WIDTH))
