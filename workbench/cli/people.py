"""What a person says to a run: ``resume``, ``decide``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .common import common, err, find_workspace, out, print_json, require_posix
from .exits import Exit
from .launch import followed, print_outcome
from .runs import find_step, read_store, receipt_of, view_run

if TYPE_CHECKING:
    from workbench.client import Client
    from workbench.review import Progress
    from workbench.review_copies import Copy
    from workbench.workspace import Workspace
    from workflows_core.model import Artifact, Decision, RunView, StepView

    from .person import Person

#: Characters of the hash that a person types.
_TYPED: Final = 7
#: Steps named as those that come next.
_CONSUMERS: Final = 3


@click.command()
@click.argument("run")
@click.argument("step")
@common
def resume(run: str, step: str, workspace: Path | None, as_json: bool) -> int:
    """Let a paused run go on, and follow it.

    STEP is the pause that it waits at. A run whose owner is gone is recovered first. RUN is a run id or the
    beginning of one.
    """
    require_posix()
    space = find_workspace(workspace)
    view = view_run(space, run)
    attempt = find_step(view, step).attempt

    async def begin(client: Client) -> tuple[str, RunView]:
        known = await client.view(view.run_id)
        outcome = await client.resume(view.run_id, step, attempt)
        err().line(outcome.message)
        return view.run_id, known

    return followed(space, begin, lambda ended: print_outcome(ended, as_json=as_json), view.run_id)


@click.command()
@click.argument("run")
@click.argument("step")
@click.argument("decision", type=click.Choice(["approve", "reject"]))
@click.option("--reason", metavar="T", help="Why. A rejection needs a reason; without it you are asked.")
@common
def decide(
    run: str, step: str, decision: str, reason: str | None, workspace: Path | None, as_json: bool
) -> int:
    """Approve or reject the exact bytes of a checkpoint.

    Shows them in full, page by page, or exports the exact copy for you to view, then asks for the first 7
    characters of their hash. Needs an interactive session. STEP is the checkpoint. An approved run goes on and is followed; where its owner is gone it is
    recovered first. A rejected run fails. RUN is a run id or the beginning of one.
    """
    from workbench import checkpoints
    from workflows_core.engine.waits import DecideRequest

    from .person import in_person

    require_posix()
    space = find_workspace(workspace)
    with in_person(space, "a decision") as person:
        view = view_run(space, run)
        checkpoint = checkpoints.checkpoint(view, step)
        made = receipt_of(view, checkpoint)
        if made is not None and (made.decision, made.sha256) == (decision, checkpoint.artifact_version):
            return _decided_before(view, made, as_json=as_json)
        _check_undecided(view, checkpoint)
        artifact = read_store(space, lambda reader: reader.artifact(view.run_id, step))
        checkpoints.check_bytes(checkpoint, artifact)
        _introduce(person, view, checkpoint, artifact)
        record = _show(person, view, checkpoint, artifact)
        if decision == "reject" and not (reason or "").strip():
            reason = person.ask("Why is it rejected?")
        _ask_hash(person, decision, artifact.version)
    request = DecideRequest(
        run_id=view.run_id,
        step_id=step,
        attempt=checkpoint.attempt,
        decision=decision,
        sha256=artifact.version,
        reason=reason,
        review=record,
    )
    return _send(space, view, request, as_json=as_json)


def _decided_before(view: RunView, made: Decision, *, as_json: bool) -> int:
    """Give the receipt of the decision that is asked for once more. Nothing is recorded anew."""
    from workbench import words
    from workbench.document import receipt_document, run_document
    from workflows_core.model import now

    from . import render

    if as_json:
        print_json({**receipt_document(made), "run": run_document(view)})
        return Exit.DONE
    out().line((made.step_id, "title"), " ", words.receipt(made, now()))
    err().line("That was decided before; this is its receipt.")
    render.what_next(err(), view)
    return Exit.DONE


def _check_undecided(view: RunView, checkpoint: StepView) -> None:
    """Raise Conflict before anything is shown that cannot be decided any more."""
    from workbench import words
    from workflows_core.errors import Conflict
    from workflows_core.model import StepStatus, now

    made = receipt_of(view, checkpoint)
    if made is not None:
        raise Conflict(f"{checkpoint.step_id} was decided already: {words.receipt(made, now())}")
    if checkpoint.status is not StepStatus.WAITING or view.waiting is None:
        raise Conflict(
            f"{checkpoint.step_id} is {checkpoint.status.value} and the run {words.run_mark(view.state).word}; "
            "there is nothing to decide"
        )


def _introduce(person: Person, view: RunView, checkpoint: StepView, artifact: Artifact) -> None:
    """What is decided, what comes of it, and who decides."""
    from workbench import checkpoints, words
    from workflows_core.model import RunState, now

    from . import render

    output = person.output
    render.run_head(output, view, now())
    output.line()
    what = f"{words.kib(len(artifact.body))} of {artifact.media_type}"
    if artifact.path is not None:
        what += f", captured from {artifact.path}"
    output.line(("Asked about  ", "quiet"), f"{artifact.step_id}: {what}")
    output.line(("Version      ", "quiet"), artifact.version)
    next_steps = checkpoints.next_steps(view.script, checkpoint)
    for index, step in enumerate(next_steps[:_CONSUMERS]):
        given = ", which is given these bytes" if step.given else ""
        place = f"{step.step_id}, {step.kind} at line {step.line}{given}"
        output.line(("Then         " if index == 0 else "             ", "quiet"), place)
    if not next_steps:
        output.line(("Then         ", "quiet"), "no further step; the script ends")
    output.line(("You decide   ", "quiet"), f"as {person.session}")
    if view.state is RunState.RECOVERABLE:
        output.line(("The owner of this run is gone: it is recovered first when you approve.", "waiting"))


def _show(person: Person, view: RunView, checkpoint: StepView, artifact: Artifact) -> dict[str, Any]:
    """Page the exact bytes, or have their copy viewed; what the receipt says about it. Raises Refused where neither is."""
    import shutil

    from workbench import checkpoints
    from workbench.review import Progress
    from workflows_core.errors import Refused

    progress = Progress.of(artifact)
    output = person.output
    output.line()
    if progress.pictorial:
        output.line(
            f"This is {artifact.media_type}, which its bytes do not show: the exact copy is viewed outside."
        )
        _view_outside(person, artifact, progress)
        return progress.review()
    how = checkpoints.renderer(artifact)
    note = {
        "json": "exactly these bytes; only line breaks and indents are added",
        "text": "exactly these bytes; what is invisible or acts on a terminal is shown as a symbol",
        "hex": "no text, so as hexadecimal",
    }[how]
    output.line(("-- begin: ", "quiet"), (note, "quiet"))
    columns = shutil.get_terminal_size((80, 24)).columns
    size = len(artifact.body)
    shown = person.page(checkpoints.rows(artifact, columns), size)
    output.line(("-- end ", "quiet"), (_last(artifact.body) if shown.whole else "", "quiet"))
    progress.coverage.add(0, shown.end)
    progress.renderers.add(f"command line, {how}")
    if shown.outside:
        _view_outside(person, artifact, progress)
    elif not shown.whole:
        raise Refused(
            f"only {shown.end:,} of {size:,} bytes were shown, so nothing can be decided. To read them outside: "
            f"workbench artifact {view.run_id} {checkpoint.step_id} -o FILE"
        )
    return progress.review()


def _view_outside(person: Person, artifact: Artifact, progress: Progress) -> None:
    """Export the exact copy and ask whether it was viewed; ``progress`` holds it then.

    Raises Refused where the person does not state it, or where the copy was changed meanwhile.
    """
    from workbench.review import Outside
    from workbench.review_copies import suggested_name
    from workflows_core.errors import Refused

    suggested = suggested_name(artifact)
    person.output.line(
        "The exact copy is written to a new file; one that holds exactly these bytes will do too."
    )
    copy = None
    while copy is None:
        name = person.ask(f"File for the exact copy [{suggested}]:") or suggested
        copy = _exported(person, artifact, Path.cwd() / Path(os.path.expanduser(name)))  # noqa: PTH111 - never raises
    person.output.line(("Copy         ", "quiet"), str(copy.path))
    person.output.line(("SHA-256      ", "quiet"), copy.sha256)
    if not person.agrees("View the copy now. Have you viewed it?"):
        raise Refused("it was not stated that the copy was viewed; nothing was decided")
    if not copy.intact():
        raise Refused(
            "the copy was changed or removed, so what you viewed is not known to be these bytes; nothing was decided"
        )
    progress.outside, progress.stated = Outside.EXPORTED, True


def _exported(person: Person, artifact: Artifact, target: Path) -> Copy | None:
    """The exact copy at ``target``, which may be there already; None, with the reason shown, where there is none."""
    from workbench.review import digest
    from workbench.review_copies import Copy, export
    from workflows_core.errors import UsageError

    before = Copy(target, digest(artifact))
    try:
        return before if target.is_file() and before.intact() else export(artifact, target)
    except (UsageError, OSError, ValueError) as error:
        person.output.line((str(error), "bad"))
        return None


def _last(body: bytes) -> str:
    return "with a line feed" if body.endswith(b"\n") else "without a line feed"


def _ask_hash(person: Person, decision: str, version: str) -> None:
    """Raise Refused unless the person types the beginning of the version that was shown."""
    from workflows_core.errors import Refused

    output = person.output
    output.line()
    output.line(("Version      ", "quiet"), version)
    typed = person.ask(f"To {decision} it, type the first {_TYPED} characters of its hash:").lower()
    if len(typed) < _TYPED or not version.startswith(typed):
        raise Refused("what was typed is not the beginning of the hash; nothing was decided")


def _send(workspace: Workspace, view: RunView, request: Any, *, as_json: bool) -> int:
    from workbench import words
    from workbench.document import receipt_document, run_document
    from workflows_core.model import RunState, now

    receipts: list[Decision] = []

    async def begin(client: Client) -> tuple[str, RunView]:
        known = await client.view(view.run_id)
        made = await client.decide(request)
        receipts.append(made)
        recovered = known.state is RunState.RECOVERABLE and made.decision == "approve"
        if recovered:
            err().line("Its owner was gone, so it was recovered first.")
        if not as_json:
            out().line((made.step_id, "title"), " ", words.receipt(made, now()))
        return view.run_id, known

    def show(ended: RunView) -> None:
        if as_json:
            print_json({**receipt_document(receipts[0]), "run": run_document(ended)})
        else:
            print_outcome(ended, as_json=False)

    status = followed(workspace, begin, show, view.run_id)
    # A rejection is done once it is recorded; that the run has failed is what was asked for.
    return Exit.DONE if request.decision == "reject" else status
