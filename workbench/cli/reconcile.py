"""``reconcile``: a person attests what became of a step whose outcome is uncertain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .common import (
    common,
    connected,
    engine_settings,
    err,
    find_workspace,
    out,
    print_json,
    require_posix,
    run_async,
)
from .exits import Exit
from .runs import attestations_of, change, find_step, view_run

if TYPE_CHECKING:
    from workbench.workspace import Workspace
    from workflows_core.engine.evidence import Evidence
    from workflows_core.engine.reconciliation import ReconcileRequest
    from workflows_core.model import RunView, StepView

    from .output import Output
    from .person import Person

#: Lines of an output that are shown before it is attested.
_OUTPUT_LINES: Final = 40


@click.command()
@click.argument("run")
@click.argument("step")
@click.option(
    "--outcome",
    type=click.Choice(["did_not_run", "succeeded", "failed"]),
    required=True,
    help="What became of it: it never ran and may be asked again, it succeeded, or it failed.",
)
@click.option("--output", metavar="@FILE", help="For succeeded: its output, JSON in a file.")
@click.option(
    "--fetch", is_flag=True, help="For succeeded: take the output from the child run, where it is known."
)
@click.option("--reason", metavar="T", required=True, help="How you know. It is kept with the run.")
@common
def reconcile(
    run: str,
    step: str,
    outcome: str,
    output: str | None,
    fetch: bool,
    reason: str,
    workspace: Path | None,
    as_json: bool,
) -> int:
    """Attest what became of a step whose outcome is uncertain.

    Needs an interactive session; what you attest is kept with your name, and the run goes on from it. Once every
    uncertain step is settled the run can be recovered, or is cancelled where a cancel is recorded. RUN is a run
    id or the beginning of one.
    """
    from workflows_core.engine.reconciliation import ReconcileRequest, check_evidence
    from workflows_core.errors import Conflict, Refused

    from .person import in_person

    require_posix()
    space = find_workspace(workspace)
    with in_person(space, "an attestation") as person:
        view = view_run(space, run)
        found = find_step(view, step)
        if not found.unsettled:
            raise Conflict(f"the outcome of {step} is not uncertain; it is {found.status.value}")
        value, given = output_option(output)
        known = _evidence(space, view.run_id, step)
        view = view_run(space, view.run_id)  # not older than what the host says
        found = find_step(view, step)
        request = ReconcileRequest(
            run_id=view.run_id,
            step_id=step,
            outcome=outcome,
            reason=reason,
            output=value,
            has_output=given,
            fetch=fetch,
            evidence_hash=known.hash,
        )
        check_evidence(request, known)
        if fetch and not known.has_output:
            raise Conflict(
                f"the child run of {step} is {known.status or 'not known to the host'}: no output to fetch"
            )
        _state_attestation(person, space, view, found, request, known)
        if not person.agrees("Attest this? It is kept and cannot be taken back."):
            raise Refused("nothing was attested")
    applied = change(space, lambda client: client.reconcile(request))
    after = view_run(space, view.run_id)
    if as_json:
        print_json(
            {
                "run_id": after.run_id,
                "step_id": step,
                "outcome": outcome,
                "status": applied.status,
                "state": after.state.value,
                "message": applied.message,
            }
        )
        return Exit.DONE
    from . import render

    out().line(applied.message)
    render.what_next(err(), after)
    return Exit.DONE


def _evidence(workspace: Workspace, run_id: str, step: str) -> Evidence:
    """What is known of the step, as the owner says; where nobody is, this process is it for a moment."""

    async def ask() -> Evidence:
        async with connected(workspace, "to_look") as client:
            return await client.evidence(run_id, step)

    return run_async(ask)


def output_option(given: str | None) -> tuple[Any, bool]:
    """The output of ``--output``, and whether there is one. Raises UsageError in words."""
    if given is None:
        return None, False
    from workbench.scripts import parse_value, read_text
    from workflows_core.errors import UsageError

    if not given.startswith("@"):
        raise UsageError("--output takes @FILE, a file with the output as JSON")
    path = Path(given[1:])
    return parse_value(read_text(path, "the output"), f"the output in {path}"), True


def _state_attestation(
    person: Person,
    workspace: Workspace,
    view: RunView,
    step: StepView,
    request: ReconcileRequest,
    known: Evidence,
) -> None:
    """What is known of the step, what others have attested of it, and what would be put on record."""
    from workflows_core.model import now

    from . import render

    output = person.output
    render.run_head(output, view, now())
    output.line()
    render.step(output, step, now(), attested=attestations_of(workspace, view, step))
    output.line()
    _state_record(output, known)
    effect = {
        "did_not_run": "it did not run. The program may ask the Agent again",
        "succeeded": "it succeeded, with "
        + ("the output of its child run" if request.fetch else "the output below"),
        "failed": "it failed. The script is given an error with your reason",
    }[request.outcome]
    output.line(("You attest: ", "title"), f"{step.step_id}: {effect}")
    output.line(("Because: ", "title"), request.reason)
    output.line(("As: ", "title"), person.session)
    if engine_settings(workspace).reviewers > 1:
        output.line("Here two reviewers must attest the same before it counts.")
    if request.has_output:
        render.value(output, request.output)
    if request.fetch:
        _state_output(output, known)


def _state_record(output: Output, known: Evidence) -> None:
    """What the host has on record of the step's child run."""
    from workbench import words

    output.line(words.on_record(known))
    if known.has_output:
        output.line(("Its output: ", "quiet"), f"sha256 {known.output_hash}")


def _state_output(output: Output, known: Evidence) -> None:
    """The output that is attested with ``--fetch``: its first lines, and how much more there is."""
    shown = (
        known.output
        if isinstance(known.output, str)
        else json.dumps(known.output, ensure_ascii=False, indent=2)
    )
    lines = shown.split("\n")
    output.text("\n".join(lines[:_OUTPUT_LINES]), "  ")
    if len(lines) > _OUTPUT_LINES:
        output.line(
            (f"  … {len(lines) - _OUTPUT_LINES:,} more lines; the hash above covers all of it", "quiet")
        )
