"""Forking a run from the Runs screen: a new run of what was recorded, or with another answer of one step."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from workflows_core.model import RunSummary, StepView

from ... import words
from ...exporting import stored_run
from ...forking import Fork, prepare_fork
from ...inert import inert
from .dialogs import Answer, Dialog
from .replay_dialogs import ReplyDialog

if TYPE_CHECKING:
    from .base import WorkbenchScreen

_INHERITS = "It names {parent} as its parent and inherits no approval: pauses and checkpoints wait again."


def answered(step: StepView | None) -> bool:
    """Whether the step has a recorded answer of an Agent, which a fork can replace."""
    return step is not None and step.agent_ref is not None and step.response_frame is not None


async def fork(screen: WorkbenchScreen, run: RunSummary, step: StepView | None) -> None:
    """Ask how, say where the new run would differ, and launch it. To be run in a worker of ``screen``.

    With a ``step`` that was answered, its answer may be replaced first.
    """
    app = screen.workbench
    async with screen.busy("reading the run"):
        bundle = await asyncio.to_thread(stored_run, screen.context.workspace, run.run_id)
        plain = await prepare_fork(bundle)
    on_stubs = bundle.read_options().get("agents") == "stub"
    answers = [Answer("no", "No fork"), Answer("pinned", "Recorded answers")]
    if on_stubs:
        answers.append(Answer("stubs", "Its stubs"))
    if answered(step):
        answers.append(Answer("reply", "Edit the answer"))
    how = await app.push_screen_wait(Dialog("Fork this run?", offered(run, step, plain, on_stubs), answers))
    if how is None or how == "no":
        return
    request = plain.request
    if how == "stubs":
        request = msgspec.structs.replace(request, options=dict(bundle.read_options()))
    if how == "reply" and step is not None and step.response_frame is not None:
        number = step.response_frame
        given = await app.push_screen_wait(
            ReplyDialog(step.step_id, number, step.output, unicode=screen.unicode)
        )
        if given is None:
            return
        async with screen.busy("replaying to the first difference"):
            made = await prepare_fork(bundle, at=number, step=step.step_id, reply=given[0])
        text = f"{inert(run.name) or 'unnamed'} with another answer of {inert(step.step_id)}. {differs(made)}"
        text = "\n\n".join([text, _INHERITS.format(parent=run.run_id), *made.notes])
        asked = Dialog("Launch this run?", text, [Answer("no", "Do not launch"), Answer("launch", "Launch")])
        if await app.push_screen_wait(asked) != "launch":
            return
        request = made.request
    async with screen.busy("launching"):
        outcome = await screen.context.client.launch(request)
    compares = app.key_label("runs.compare")
    told = f"{outcome.run_id}, a fork of {run.run_id}; compare the two with {compares}"
    app.notice(told, title="Launched")
    app.show_run(outcome.run_id)


def differs(made: Fork) -> str:
    """Where the fork first asks something else than its parent."""
    found = made.verdict.divergence
    if found is None:
        return "It asks what was recorded, as far as that goes."
    where = words.place(found.line, found.column)
    return f"It first asks something else at frame {found.frame}{f', line {where}' if where else ''}."


def offered(run: RunSummary, step: StepView | None, plain: Fork, on_stubs: bool) -> str:
    """What each way of forking does."""
    parts = [
        f"{inert(run.name) or 'unnamed'}, {words.run_mark(run.state).word}\n{run.run_id}",
        f"A new run of the same script and arguments, from the start. {_INHERITS.format(parent=run.run_id)}",
        "Recorded answers: what asks the same gets the recorded answer"
        + ("; the run's stub set answers the rest." if on_stubs else "; the rest gets its own task back."),
    ]
    if on_stubs:
        parts.append("Its stubs: the run's stub set answers everything anew.")
    if answered(step) and step is not None:
        parts.append(
            f"Edit the answer: {inert(step.step_id)}, frame {step.response_frame}, gets another recorded answer first."
        )
    notes = [note for note in plain.notes if note not in parts]
    return "\n\n".join([*parts, *notes])
