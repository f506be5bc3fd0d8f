"""What if: another recorded answer or another script, where it first differs, and the new run beside its parent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from workflows_core.errors import WorkflowError
from workflows_core.script.check import check_script

from ... import words
from ...continuing import How, agreed_only
from ...forking import Fork, prepare_fork
from ...inert import inert
from ...replaying import Given, Opened
from ..widgets.pane import Pane
from .author_dialogs import NameDialog, Picker
from .replay_dialogs import ReplyDialog
from .replay_difference import FirstDifference
from .replay_edit import ScriptDialog
from .run_compare import RunCompareScreen, view_of_file
from .run_fork import ask_real_fork, no_real_agents

if TYPE_CHECKING:
    from workflows_core.model import RunView

    from .replay import ReplayScreen


class Subject(NamedTuple):
    """What is to be another one: the answer of ``step``, recorded in frame ``frame``; without a step, the script."""

    step: str | None = None
    frame: int = 0
    output: Any = None


def subjects(opened: Opened, number: int | None) -> list[tuple[Subject, str]]:
    """What can be another one, each with a remark: answers of the frame ``number``, the script, all other answers."""
    here: list[tuple[Subject, str]] = []
    elsewhere: list[tuple[Subject, str]] = []
    for step in opened.view.steps if opened.view is not None else ():
        if step.agent_ref is None or step.response_frame is None:
            continue
        subject = Subject(step.step_id, step.response_frame, step.output)
        if number in (step.request_frame, step.response_frame):
            here.append((subject, f"answered in frame {step.response_frame}"))
        else:
            elsewhere.append((subject, f"answered in frame {step.response_frame}"))
    return [*here, (Subject(), "edit it, and replay it on the recorded answers"), *elsewhere]


class WhatIf:
    """One what-if, asked step by step; ``number`` is the frame under the cursor. Run ``ask`` in a worker."""

    def __init__(self, screen: ReplayScreen, opened: Opened, number: int | None) -> None:
        self._screen = screen
        self._opened = opened
        self._number = number

    async def ask(self) -> None:
        """From the choice of what to edit to the new run beside its parent, or nowhere."""
        subject = await self._choose()
        while subject is not None:
            edit = await self._edit(subject)
            if edit is None:
                return
            async with self._screen.busy("replaying to the first difference"):
                fork = await prepare_fork(self._opened.bundle, **edit)
            view = FirstDifference(
                fork,
                what=self._what(subject),
                parent=self._opened.bundle.run_id,
                refused=await self._refused(fork),
                no_real=await no_real_agents(self._screen),
                script=subject.step is None,
                unicode=self._screen.unicode,
            )
            answer = await self._screen.workbench.push_screen_wait(view)
            if answer == "edit":
                continue
            if answer == "here":
                self._screen.open(partial(Given, self._opened.bundle, fork.script))
            elif answer == "launch" and not await self._launch(fork, edit, view.how):
                continue
            return

    async def _choose(self) -> Subject | None:
        found = subjects(self._opened, self._number)
        choices = [
            ("the script" if subject.step is None else f"the answer of {subject.step}", remark)
            for subject, remark in found
        ]
        which = await self._screen.workbench.push_screen_wait(_Which("What is to be another one?", choices))
        return None if which is None else found[which][0]

    def _what(self, subject: Subject) -> str:
        name = inert(self._opened.name)
        return (
            f"{name} with another script"
            if subject.step is None
            else f"{name} with another answer of {subject.step}"
        )

    async def _edit(self, subject: Subject) -> dict[str, Any] | None:
        """What ``prepare_fork`` is to be given, or None. What was typed is kept for the next time."""
        app, texts = self._screen.workbench, self._screen.what_if_texts
        known = texts.get(subject.step)
        if subject.step is not None:
            reply = ReplyDialog(
                subject.step, subject.frame, subject.output, text=known, unicode=self._screen.unicode
            )
            given = await app.push_screen_wait(reply)
            texts[subject.step] = reply.text
            if given is None:
                return None
            edit: dict[str, Any] = {"at": subject.frame, "step": subject.step, "reply": given[0]}
            return edit | ({"script": self._opened.script} if self._opened.edited else {})
        dialog = ScriptDialog(
            self._opened.name,
            self._opened.script if known is None else known,
            line=self._screen.panes.line,
            max_calls=self._opened.bundle.record.limits.max_calls,
            unicode=self._screen.unicode,
        )
        script = await app.push_screen_wait(dialog)
        texts[None] = dialog.text
        return None if script is None else {"script": script}

    async def _refused(self, fork: Fork) -> str | None:
        """Why this workspace would not launch the script, or None."""
        workspace = self._screen.context.workspace
        problems = await check_script(
            fork.script,
            agents=workspace.allowed_agents,
            max_calls=workspace.max_calls,
            args=self._opened.bundle.args,
        )
        first = next((one for one in problems if one.severity == "error"), None)
        return None if first is None else f"{words.place(first.line, first.column)}  {first.message}"

    async def _launch(self, fork: Fork, edit: dict[str, Any], how: How) -> bool:
        """Launch and show the run beside its parent; False where the person thinks again."""
        screen, app, opened = self._screen, self._screen.workbench, self._opened
        request = fork.request
        if how == "real":
            if not await ask_real_fork(screen, fork):
                return False
            request = (await prepare_fork(opened.bundle, real=True, **edit)).request
        elif how == "stubs":
            request = agreed_only(fork, opened.bundle)
        async with screen.busy("launching"):
            outcome = await screen.context.client.launch(request)
        app.notice(outcome.run_id, title="Launched")
        app.show_run(outcome.run_id)
        if opened.view is not None:
            app.push_screen(RunCompareScreen(opened.view, outcome.run_id))
        return True


class _Which(Picker):
    """The picker, as high as its few choices."""

    def __init__(self, title: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__(title, choices)
        self._height = len(choices) + 4

    def on_mount(self) -> None:
        frame = self.query_one("#frame", Pane)
        frame.styles.max_width, frame.styles.height, frame.styles.max_height = 80, self._height, "88%"


async def compare_with_parent(screen: ReplayScreen, opened: Opened) -> None:
    """The run beside the one that it names as its parent, which is asked for where the workspace does not have it."""
    parent = opened.bundle.record.parent_run_id
    if parent is None or opened.view is None:
        return
    other: RunView | str = parent
    try:
        async with screen.busy("reading the parent"):
            await screen.context.client.view(parent)
    except WorkflowError as error:
        text = f"{error}. It may be in a file: a .wfrun file, or a store file with one run."
        dialog = NameDialog("", title="Compare with the parent", text=inert(text))
        target = await screen.workbench.push_screen_wait(dialog)
        if target is None:
            return
        other = await view_of_file(screen, target)
    screen.workbench.push_screen(RunCompareScreen(other, opened.view))
