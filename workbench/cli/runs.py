"""Looking at runs and ending them: ``runs``, ``show``, ``step``, ``log``, ``cancel``, ``delete``."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from .common import common, connected, err, find_workspace, interactive, out, print_json, reading, run_async
from .exits import Exit

if TYPE_CHECKING:
    from workbench.client import Client
    from workbench.workspace import Workspace
    from workflows_core.engine.requests import Outcome
    from workflows_core.model import Attestation, Decision, RunSummary, RunView, StepView
    from workflows_core.store.blocking import BlockingReader

R = TypeVar("R")

_UNITS: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
#: How long to watch a cancel that waits for Agents to be interrupted.
_CANCEL_SECONDS: Final = 30.0
#: The states of a run, as its document names them; spelled out, so that ``--help`` need not load the model.
_STATES: Final = (
    "queued", "running", "completed", "failed", "cancelled", "paused", "waiting_approval", "waiting_input",
    "needs_reconciliation", "recoverable", "interrupted",
)  # fmt: skip
_AGE: Final = re.compile(r"(\d{1,9})\s*(s|m|min|h|d|w)")


@click.command()
@click.option("--all", "everything", is_flag=True, help="List every retained run, not only the latest 20.")
@click.option(
    "--state",
    "states",
    type=click.Choice(_STATES),
    metavar="STATE",
    multiple=True,
    help=f"List only runs in this state; may be given several times. One of {', '.join(_STATES)}.",
)
@common
def runs(everything: bool, states: tuple[str, ...], workspace: Path | None, as_json: bool) -> int:
    """List runs, newest first."""
    from workbench.document import runs_document
    from workflows_core.limits import LISTED_RUNS
    from workflows_core.model import now

    from . import render

    space = find_workspace(workspace)
    with reading(space) as reader:
        summaries = [] if reader is None else reader.runs(None if everything or states else LISTED_RUNS)
        any_run = bool(summaries)
        if states:
            found = [summary for summary in summaries if summary.state.value in states]
            summaries = found if everything else found[:LISTED_RUNS]
        notes = {} if reader is None or as_json else _questions(reader, summaries)
    if as_json:
        print_json(runs_document(summaries))
    elif summaries:
        render.runs(out(), summaries, now(), notes)
        if not everything and len(summaries) == LISTED_RUNS:
            err().line(("The latest 20; all of them with: workbench runs --all", "quiet"))
    elif any_run:
        err().line(f"No run in {space.root} is {' or '.join(states).replace('_', ' ')}.")
    else:
        err().line(f"No runs in {space.root} yet. Launch one with: workbench run SCRIPT")
    return Exit.DONE


def _questions(reader: BlockingReader, summaries: Sequence[RunSummary]) -> dict[str, str]:
    """What running runs ask a person, by run; few run at a time, so each is looked at."""
    from workbench import words
    from workflows_core.model import RunState

    running = [summary.run_id for summary in summaries if summary.state is RunState.RUNNING]
    asked = {run_id: words.awaiting_answer(reader.view(run_id)) for run_id in running}
    return {run_id: words.awaits(steps) for run_id, steps in asked.items() if steps}


@click.command()
@click.argument("run")
@click.option(
    "--follow", "follows", is_flag=True, help="Watch the run until it ends or waits, and change nothing."
)
@click.option("--script", "script", is_flag=True, help="Show the script that the run executes instead.")
@common
def show(run: str, follows: bool, script: bool, workspace: Path | None, as_json: bool) -> int:
    """Show one run: state, cause, steps, log, result.

    With --follow it is watched, and the code is that of its state. RUN is a run id or the beginning of one.
    """
    from workbench.document import run_document
    from workflows_core.model import now

    from . import render

    if follows and script:
        raise click.UsageError("--follow and --script exclude each other")
    space = find_workspace(workspace)
    view = view_run(space, run)
    if follows:
        from .launch import watch

        return watch(space, view.run_id, as_json=as_json)
    if as_json:
        print_json({**run_document(view), "script": view.script} if script else run_document(view))
    elif script:
        out().text(view.script.removesuffix("\n"))
    else:
        render.run(out(), view, now())
        render.what_next(err(), view)
    return Exit.DONE


@click.command()
@click.argument("run")
@click.argument("step")
@click.option("--events", is_flag=True, help="Show the step's child run with its events, too.")
@click.option(
    "--evidence",
    is_flag=True,
    help="Show what the step's Agent was assembled from, too, and what changed since the assembly before.",
)
@common
def step(run: str, step: str, events: bool, evidence: bool, workspace: Path | None, as_json: bool) -> int:
    """Show one step of a run with its input and output.

    RUN is a run id or the beginning of one, STEP a step id; of several attempts the latest is shown.
    """
    from workbench.document import attestation_document, receipt_document, step_document
    from workflows_core.model import now

    from . import render
    from .host_record import assembly_of, child_of, show_assembly, show_child

    space = find_workspace(workspace)
    view = view_run(space, run)
    found = find_step(view, step)
    receipt = receipt_of(view, found)
    attested = attestations_of(space, view, found)
    child = child_of(space, found) if events else None
    assembled = assembly_of(space, view, found) if evidence else None
    if as_json:
        from workbench.child_words import assembly_document, child_document

        document = {
            **step_document(found),
            "receipt": None if receipt is None else receipt_document(receipt),
            "attestations": [attestation_document(item) for item in attested],
        }
        if events:
            document["child_run"] = None if child is None else child_document(child)
        if evidence:
            document["assembly"] = assembly_document(assembled, found.evidence)
        print_json(document)
        return Exit.DONE
    render.step(out(), found, now(), receipt, attested)
    if events:
        show_child(out(), found, child, now())
    if evidence:
        show_assembly(out(), view, found, assembled, now())
    return Exit.DONE


@click.command()
@click.argument("run")
@common
def log(run: str, workspace: Path | None, as_json: bool) -> int:
    """Show what a run's script has logged.

    RUN is a run id or the beginning of one.
    """
    from workbench.document import log_document

    from . import render

    view = view_run(find_workspace(workspace), run)
    if as_json:
        print_json(log_document(view))
    elif view.log:
        render.log(out(), view.log, indent="")
    else:
        err().line(f"{view.run_id} has logged nothing")
    return Exit.DONE


@click.command()
@click.argument("run")
@common
def cancel(run: str, workspace: Path | None, as_json: bool) -> int:
    """Cancel a run.

    Its Agent calls are interrupted and observed; what they have done already is not undone. Works from any
    terminal, and also where the process that ran it is gone. RUN is a run id or the beginning of one.
    """
    from workflows_core.model import now

    from . import render

    space = find_workspace(workspace)
    run_id = read_store(space, lambda reader: reader.resolve(run))
    outcome, view = run_async(lambda: _cancel(space, run_id))
    status = "applied" if view.state.final else outcome.status
    if as_json:
        message = {"run_id": run_id, "status": status, "state": view.state.value, "message": outcome.message}
        print_json(message)
    elif view.state.final:
        render.run_head(out(), view, now())
    else:
        out().line(outcome.message)
    return Exit.DONE


@click.command()
@click.argument("run", required=False)
@click.option(
    "--older-than", metavar="AGE", help="Delete what was launched longer ago than that: 90m, 12h, 7d, 2w."
)
@click.option("--yes", is_flag=True, help="Do not ask before deleting with --older-than on a terminal.")
@common
def delete(run: str | None, older_than: str | None, yes: bool, workspace: Path | None, as_json: bool) -> int:
    """Delete a run, or all that were launched some time ago.

    What they have kept goes with them. Only runs that are completed, failed, cancelled or interrupted can be
    deleted. A mark remains that refuses a late retry under the same request id. RUN is a run id or the
    beginning of one.
    """
    from workflows_core.errors import UsageError
    from workflows_core.model import now

    if (run is None) == (older_than is None):
        raise UsageError("name either a RUN or --older-than AGE")
    space = find_workspace(workspace)
    if run is not None:
        run_id = read_store(space, lambda reader: reader.resolve(run))
        outcome = change(space, lambda client: client.delete(run_id))
        deleted, message, kept = outcome.run_ids, outcome.message, outcome.kept
    else:
        assert older_than is not None
        before = now() - age(older_than)
        with reading(space) as reader:
            old = [] if reader is None else [run for run in reader.runs(None) if _deletable(run, before)]
        if old and not yes and not as_json and interactive() and not _confirm(len(old)):
            err().line("Nothing was deleted.")
            return Exit.DONE
        deleted, message, kept = (), f"no run that can be deleted is older than {older_than}", ()
        if old:
            outcome = change(space, lambda client: client.delete_older_than(before))
            deleted, message, kept = outcome.run_ids, outcome.message, outcome.kept
    if as_json:
        left = [{"run_id": item.run_id, "message": item.message} for item in kept]
        print_json({"deleted": list(deleted), "kept": left, "message": message})
    else:
        out().line(message)
        for item in kept:
            err().line(("Kept: ", "quiet"), item.message)
    return Exit.DONE


def age(text: str) -> int:
    """An age such as ``7d`` in microseconds. Raises UsageError."""
    from workflows_core.errors import UsageError

    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise UsageError(f"{text!r} is not an age; write a number and s, m, h, d or w, such as 90m or 7d")
    return int(match[1]) * _UNITS[match[2]] * 1_000_000


def _deletable(run: RunSummary, before: int) -> bool:
    from workflows_core.model import DELETABLE

    return run.state in DELETABLE and run.created_at < before


def _confirm(number: int) -> bool:
    from workbench.words import count

    question = f"Delete {count(number, 'run')} with all they have kept? This cannot be undone"
    return click.confirm(question, err=True)


async def _cancel(workspace: Workspace, run_id: str) -> tuple[Outcome, RunView]:
    """Cancel and watch what comes of it: the end, or why it is not reached yet."""
    import asyncio

    from workflows_core.model import RunState

    from .follow import changes

    async with connected(workspace, "if_free") as client:
        with changes(client) as next_change:
            outcome = await client.cancel(run_id)
            deadline = asyncio.get_running_loop().time() + _CANCEL_SECONDS
            while True:
                view = await client.view(run_id)
                settled = view.state.final or view.state is RunState.NEEDS_RECONCILIATION
                if settled or asyncio.get_running_loop().time() >= deadline:
                    return outcome, view
                await next_change()


def change(workspace: Workspace, act: Callable[[Client], Awaitable[Outcome]]) -> Outcome:
    """Change something, as the owner where nobody is, else through the owner."""

    async def work() -> Outcome:
        async with connected(workspace, "if_free") as client:
            return await act(client)

    return run_async(work)


def view_run(workspace: Workspace, run: str) -> RunView:
    return read_store(workspace, lambda reader: reader.view(reader.resolve(run)))


def read_store(workspace: Workspace, ask: Callable[[BlockingReader], R]) -> R:
    """One question about a run, without becoming the workspace's owner. Raises NotFound where there are none."""
    with reading(workspace) as reader:
        if reader is None:
            raise workspace.without_runs()
        return ask(reader)


def receipt_of(view: RunView, step: StepView) -> Decision | None:
    """The receipt of the decision about a step, where one was made."""
    made = (item for item in view.receipts if (item.step_id, item.attempt) == (step.step_id, step.attempt))
    return next(made, None)


def attestations_of(workspace: Workspace, view: RunView, step: StepView) -> list[Attestation]:
    """What people have attested of the step, in their order."""
    made = read_store(workspace, lambda reader: reader.attestations(view.run_id))
    return [item for item in made if (item.step_id, item.attempt) == (step.step_id, step.attempt)]


def find_step(view: RunView, step_id: str) -> StepView:
    from workflows_core.errors import NotFound

    attempts = [step for step in view.steps if step.step_id == step_id]
    if not attempts:
        known = ", ".join(dict.fromkeys(step.step_id for step in view.steps)) or "none yet"
        raise NotFound(f"{view.run_id} has no step {step_id!r}; its steps: {known}")
    return max(attempts, key=lambda step: step.attempt)
