"""What if a recorded answer had been another one: edit it, say where the run would differ, launch a new run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import words
from ...forking import Fork, prepare_fork
from ...replaying import Opened
from .author_dialogs import Picker
from .dialogs import Answer, Dialog
from .replay_dialogs import ReplyDialog

if TYPE_CHECKING:
    from .base import WorkbenchScreen


def answers_at(opened: Opened, number: int) -> list[tuple[str, Any]]:
    """Steps with a recorded answer of an Agent that frame ``number`` holds or asks for, each with its output."""
    steps = opened.view.steps if opened.view is not None else ()
    return [
        (step.step_id, step.output)
        for step in steps
        if step.agent_ref is not None
        and step.response_frame is not None
        and number in (step.request_frame, step.response_frame)
    ]


async def what_if(screen: WorkbenchScreen, opened: Opened, number: int) -> None:
    """Ask for another answer, then whether to launch. To be run in a worker of ``screen``."""
    app, answers = screen.workbench, answers_at(opened, number)
    which: int | None = 0
    if len(answers) > 1:
        choices = [(step, f"asked or answered in frame {number}") for step, _ in answers]
        which = await app.push_screen_wait(Picker("Whose answer?", choices))
    if which is None or not answers:
        return
    step, output = answers[which]
    given = await app.push_screen_wait(ReplyDialog(step, number, output, unicode=screen.unicode))
    if given is None:
        return
    async with screen.busy("replaying to the first difference"):
        fork = await prepare_fork(opened.bundle, at=number, step=step, reply=given[0])
    answer = await app.push_screen_wait(
        Dialog(
            "Launch this run?",
            forked(opened, step, fork),
            [Answer("keep", "Do not launch"), Answer("launch", "Launch")],
        )
    )
    if answer != "launch":
        return
    async with screen.busy("launching"):
        outcome = await screen.context.client.launch(fork.request)
    app.notice(outcome.run_id, title="Launched")
    app.show_run(outcome.run_id)


def forked(opened: Opened, step: str, fork: Fork) -> str:
    """What launching would do."""
    found = fork.verdict.divergence
    if found is None:
        differs = "It asks what was recorded, as far as that goes."
    else:
        where = words.place(found.line, found.column)
        differs = f"It first asks something else at frame {found.frame}{f', {where}' if where else ''}."
    return "\n\n".join(
        [
            f"{opened.name} with another answer of {step}. {differs}",
            "A new run is launched on stubs: recorded answers where it asks the same, the run's stub set for the "
            f"rest. It names {opened.bundle.run_id} as its parent and inherits no approval.",
            *fork.notes,
        ]
    )
