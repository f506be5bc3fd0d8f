"""``fork``: a new run from a recorded one, with another answer or another script."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import common, err, find_workspace, print_json, require_posix, run_async
from .exits import Exit
from .replay import show_verdict, store_option

if TYPE_CHECKING:
    from workbench.forking import Fork


@click.command()
@click.argument("run")
@click.option(
    "--at", type=int, metavar="FRAME", help="The frame whose recorded answer is replaced by --reply."
)
@click.option("--step", metavar="STEP", help="Which answer of that frame, where it holds several.")
@click.option(
    "--reply", metavar="JSON|@FILE", help="The output that the Agent is to have given there, as JSON."
)
@click.option(
    "--script",
    type=click.Path(path_type=Path),
    metavar="EDITED.js",
    help="Run this script instead of the recorded one.",
)
@click.option(
    "--stubs",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Answers calls that were not recorded. Default: the stub set that the run itself ran on.",
)
@click.option(
    "--agents",
    type=click.Choice(["stub", "real"]),
    default="stub",
    show_default=True,
    help="Who answers calls that were not recorded: stubs, or the real Agents of workbench.yaml, which can cost money.",
)
@click.option(
    "--recorded",
    type=click.Choice(["all", "agreed", "none"]),
    default="all",
    show_default=True,
    help="Which recorded answers are used again: all, wherever a call asks exactly the same, only those before the "
    "first difference, or none, so that every call is answered anew.",
)
@click.option("--request-id", metavar="ID", help="Launching twice with one id makes one run. Default: new.")
@store_option
@common
def fork(
    run: str,
    at: int | None,
    step: str | None,
    reply: str | None,
    script: Path | None,
    stubs: Path | None,
    agents: str,
    recorded: str,
    request_id: str | None,
    store: Path | None,
    workspace: Path | None,
    as_json: bool,
) -> int:
    """Launch a new run from a recorded one: what if?

    A call that asks exactly what was recorded gets the recorded answer; any other is answered by stubs, or by real
    Agents with --agents real. The new run names its parent and inherits no approval. Where it first differs from
    its parent is said before it is launched. RUN is a run id, the beginning of one, a .wfrun file, or a store file
    with one run.
    """
    from workbench.document import problems_document
    from workbench.opening import open_run
    from workbench.scripts import read_script
    from workflows_core.errors import UsageError

    from .author import find_problems, has_errors, show_before_launch
    from .launch import execute

    require_posix()
    real = agents == "real"
    if stubs is not None and real:
        raise UsageError("--stubs and --agents real exclude each other: real Agents answer for themselves")
    if recorded == "none" and reply is not None:
        raise UsageError("--reply replaces a recorded answer, and --recorded none uses none; leave one out")
    space = find_workspace(workspace)
    given = space.options(stubs=stubs, real=real) if real or stubs is not None else None
    bundle = open_run(space, run, store)
    edits: dict[str, Any] = {"at": at, "step": step, "real": real, "request_id": request_id}
    if script is not None:
        edits["script"] = read_script(script)
    if reply is not None:
        edits["reply"] = _reply(reply)
    if given is not None and not real:
        edits["stubs"] = given["stubs"]
    made = _prepare(bundle, edits)
    problems = find_problems(space, made.script, bundle.args)
    show_before_launch(problems, str(script) if script is not None else bundle.run_id)
    if has_errors(problems):
        if as_json:
            print_json(problems_document(problems))
        return Exit.FAILED
    for note in made.notes:
        err().line(note)
    if made.verdict.verdict == "diverged":
        show_verdict(err(), made.script, made.verdict)
    else:
        err().line(("It asks what was recorded, as far as that goes.", "quiet"))
    request = made.request
    if recorded == "agreed":
        from workbench.continuing import agreed_only

        request = agreed_only(made, bundle)
    elif recorded == "none":
        from workbench.continuing import anew

        request = anew(made, bundle, given)
    return execute(space, request, as_json=as_json)


def _prepare(bundle: Any, edits: dict[str, Any]) -> Fork:
    from workbench.forking import prepare_fork

    return run_async(lambda: prepare_fork(bundle, **edits))


def _reply(text: str) -> Any:
    """The JSON of ``--reply``, given directly or in a file. Raises UsageError in words."""
    from workbench.scripts import read_text
    from workflows_core import jsontext
    from workflows_core.errors import UsageError

    what = "--reply"
    if text.startswith("@"):
        path = Path(text[1:])
        text, what = read_text(path, "the reply file"), f"the reply file {path}"
    try:
        return jsontext.parse(text, what)
    except jsontext.JsonRefused as error:
        raise UsageError(str(error)) from None
