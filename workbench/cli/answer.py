"""``answer``: a person types what a manual agent answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import common, connected, find_workspace, out, print_json, require_posix, run_async
from .exits import Exit
from .runs import find_step, view_run

if TYPE_CHECKING:
    from workbench.workspace import Workspace
    from workflows_core.engine.requests import Outcome
    from workflows_core.model import RunView, StepView

    from .person import Person


@click.command()
@click.argument("run")
@click.argument("step")
@click.option("--text", metavar="T", help="The answer, taken as text.")
@click.option("--output", metavar="@FILE", help="The answer, JSON in a file.")
@click.option(
    "--fail", "failed", metavar="T", help="Why there is no answer: the step fails with this reason."
)
@common
def answer(
    run: str,
    step: str,
    text: str | None,
    output: str | None,
    failed: str | None,
    workspace: Path | None,
    as_json: bool,
) -> int:
    """Answer a call of a manual agent.

    Shows what is asked and, without an option, asks for one line: JSON where it is JSON, else text. Needs an
    interactive session. The run goes on in the process that owns it. RUN is a run id or the beginning of one,
    STEP the step that waits for you.
    """
    from workbench import words
    from workflows_core.errors import Conflict, Refused, UsageError

    from .person import in_person
    from .reconcile import output_option

    require_posix()
    if sum(given is not None for given in (text, output, failed)) > 1:
        raise UsageError("--text, --output and --fail exclude each other")
    space = find_workspace(workspace)
    with in_person(space, "an answer") as person:
        view = view_run(space, run)
        found = find_step(view, step)
        if found not in words.awaiting_answer(view):
            raise Conflict(_no_question(view, found))
        _introduce(person, space, view, found)
        value: Any = text
        if output is not None:
            value, _ = output_option(output)
        elif text is None and failed is None:
            value = _typed(person)
        _state(person, value, failed)
        if not person.agrees("Give this answer? It cannot be taken back."):
            raise Refused("nothing was answered")
    child_run_id = found.child_run_id
    assert child_run_id is not None

    async def give() -> Outcome:
        async with connected(space, "never") as client:
            return await client.answer(child_run_id, value, failed=failed)

    applied = run_async(give)
    if as_json:
        print_json(
            {
                "run_id": view.run_id,
                "step_id": found.step_id,
                "status": applied.status,
                "message": applied.message,
            }
        )
    else:
        out().line(applied.message)
    return Exit.DONE


def _no_question(view: RunView, step: StepView) -> str:
    """Why the step has nothing to be answered."""
    from workbench import words

    if step.badge != "manual" and step.agent_ref is not None and step.badge is not None:
        return f"{step.step_id} is answered by its Agent {step.agent_ref}, not by a person"
    return (
        f"{step.step_id} is {step.status.value} and the run {words.run_mark(view.state).word}; "
        "no answer is asked for"
    )


def _introduce(person: Person, workspace: Workspace, view: RunView, step: StepView) -> None:
    """Who asks what, and who answers."""
    from workflows_core.model import now

    from . import render

    output = person.output
    render.run_head(output, view, now())
    output.line()
    output.line(("You are     ", "quiet"), f"{step.agent_ref}, for the step {step.step_id}")
    output.line(("You answer  ", "quiet"), f"as {person.session}")
    agent = workspace.config.agents.get(step.agent_ref or "")
    instructions = "" if agent is None else str(agent.settings.get("instructions", ""))
    if instructions:
        output.line()
        output.line(("Instructions", "title"))
        render.value(output, instructions)
    output.line()
    output.line(("Task", "title"))
    render.value(output, step.input)
    output.line()


def _typed(person: Person) -> Any:
    """One typed line: JSON where it is JSON, else text."""
    from workflows_core import jsontext

    line = person.ask("Your answer, on one line (longer ones with --output @FILE):")
    try:
        return jsontext.parse(line)
    except jsontext.JsonRefused:
        return line


def _state(person: Person, value: Any, failed: str | None) -> None:
    """What would be put on record."""
    from . import render

    output = person.output
    if failed is not None:
        output.line(("The step fails: ", "title"), failed)
        return
    kind = "text" if isinstance(value, str) else "JSON"
    output.line(("The answer, as ", "title"), (kind, "title"))
    render.value(output, value)
