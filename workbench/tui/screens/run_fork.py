"""Forking a run from the Runs screen: a new run of what was recorded, or with another answer of one step."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final

from workflows_core.errors import WorkflowError
from workflows_core.model import RunSummary, StepView
from workflows_core.script.check import calls_bound

from ... import words
from ...continuing import anew
from ...exporting import stored_run
from ...forecast import calls_at_most
from ...forking import Fork, prepare_fork
from ...inert import inert
from .ask_real import RECORDED, ask_real
from .dialogs import Answer, Dialog
from .replay_dialogs import ReplyDialog

if TYPE_CHECKING:
    from .base import WorkbenchScreen

_INHERITS: Final = (
    "It names {parent} as its parent and inherits no approval: pauses and checkpoints wait again."
)


class ForkDialog(Dialog):
    """As wide as its answers beside each other."""

    WIDTH: ClassVar[int] = 76


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
        no_real = await no_real_agents(screen)
    on_stubs = bundle.read_options().get("agents") == "stub"
    answers = [Answer("no", "No fork"), Answer("pinned", "Recorded")]
    if on_stubs:
        answers.append(Answer("stubs", "Stubs"))
    if no_real is None:
        answers.append(Answer("real", "Real Agents"))
    if answered(step):
        answers.append(Answer("reply", "Edit answer"))
    text = offered(run, step, plain, on_stubs=on_stubs, no_real=no_real)
    how = await app.push_screen_wait(ForkDialog("Fork this run?", text, answers))
    if how is None or how == "no":
        return
    edit: dict[str, Any] = {}
    made = plain
    if how == "reply" and step is not None and step.response_frame is not None:
        number = step.response_frame
        given = await app.push_screen_wait(
            ReplyDialog(step.step_id, number, step.output, unicode=screen.unicode)
        )
        if given is None:
            return
        edit = {"at": number, "step": step.step_id, "reply": given[0]}
        async with screen.busy("replaying to the first difference"):
            made = await prepare_fork(bundle, **edit)
        text = f"{inert(run.name) or 'unnamed'} with another answer of {inert(step.step_id)}. {differs(made)}"
        text = "\n\n".join([text, _INHERITS.format(parent=run.run_id), *made.notes])
        answers = [Answer("no", "Do not launch"), Answer("launch", "Launch")]
        if no_real is None:
            answers.append(Answer("real", "Launch on real Agents"))
        how = await app.push_screen_wait(Dialog("Launch this run?", text, answers))
        if how not in ("launch", "real"):
            return
    request = made.request
    if how == "stubs":
        request = anew(made, bundle)
    elif how == "real":
        if not await ask_real_fork(screen, made):
            return
        request = (await prepare_fork(bundle, real=True, **edit)).request
    async with screen.busy("launching"):
        outcome = await screen.context.client.launch(request)
    compares = app.key_label("runs.compare")
    told = f"{outcome.run_id}, a fork of {run.run_id}; compare the two with {compares}"
    app.notice(told, title="Launched")
    app.show_run(outcome.run_id)


async def no_real_agents(screen: WorkbenchScreen) -> str | None:
    """Why no Agent can be called for real in this workspace, or None."""
    try:
        await asyncio.to_thread(screen.context.workspace.options, real=True)
    except WorkflowError as error:
        return str(error)
    return None


async def ask_real_fork(screen: WorkbenchScreen, made: Fork) -> bool:
    """Ask before real Agents answer what a fork asks and was not recorded."""
    workspace = screen.context.workspace
    calls = calls_at_most(calls_bound(made.script), workspace.max_calls)
    ask = screen.workbench.push_screen_wait
    name = made.request.name
    return await ask_real(ask, name, workspace.config, workspace.allowed_agents, calls, RECORDED)


def differs(made: Fork) -> str:
    """Where the fork first asks something else than its parent."""
    found = made.verdict.divergence
    if found is None:
        return "It asks what was recorded, as far as that goes."
    where = words.place(found.line, found.column)
    return f"It first asks something else at frame {found.frame}{f', line {where}' if where else ''}."


def offered(
    run: RunSummary, step: StepView | None, plain: Fork, *, on_stubs: bool, no_real: str | None
) -> str:
    """What each way of forking does; ``no_real`` is why none can be on real Agents."""
    parts = [
        f"{inert(run.name) or 'unnamed'}, {words.run_mark(run.state).word}\n{run.run_id}",
        f"A new run of the same script and arguments, from the start. {_INHERITS.format(parent=run.run_id)}",
        "Recorded: what asks the same gets the recorded answer"
        + ("; the run's stub set answers the rest." if on_stubs else "; the rest gets its own task back."),
    ]
    if on_stubs:
        parts.append("Stubs: the run's stub set answers everything anew.")
    if no_real is None:
        parts.append("Real Agents: what asks the same gets the recorded answer; real Agents answer the rest.")
    else:
        parts.append(f"Not on real Agents: {inert(no_real)}.")
    if answered(step) and step is not None:
        parts.append(
            f"Edit answer: {inert(step.step_id)}, frame {step.response_frame}, gets another recorded answer first."
        )
    notes = [note for note in plain.notes if note not in parts]
    return "\n\n".join([*parts, *notes])
