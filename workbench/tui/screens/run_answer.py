"""What Runs and Review ask where a call of a manual agent waits: the answer that a person types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from textual import on, work
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from workflows_core import jsontext
from workflows_core.errors import WorkflowError
from workflows_core.model import RunView, StepStatus, StepView

from ... import words
from ...inert import inert
from .. import keymap
from ..widgets.choice import Choice
from ..widgets.editor_form import TextBlock
from ..widgets.json_rows import pretty
from ..widgets.lines import Line, Span, wrap
from ..widgets.pane import Field, Pane
from .dialogs import DialogText, Modal
from .review_dialogs import leave_safe_answer

if TYPE_CHECKING:
    from ...workspace import Workspace
    from ..context import AppContext
    from .base import WorkbenchScreen

_WIDTH: Final = 96
OVER: Final = "It cannot be answered any more"
#: Seconds between two looks at whether what is asked still waits.
LOOK_SECONDS: Final = 1.0


class Given(NamedTuple):
    """What a person gives: ``typed`` as it was typed, the ``value`` it is sent as, or why there is none."""

    typed: str
    value: Any = None
    failed: str | None = None


def read_answer(typed: str) -> Any:
    """The value of a typed line: JSON where it is JSON, else the text itself."""
    try:
        return jsontext.parse(typed, "the answer")
    except jsontext.JsonRefused:
        return typed


async def answer_question(screen: WorkbenchScreen, view: RunView, step: StepView) -> bool:
    """Ask for the answer of a call that ``words.awaiting_answer`` lists, and give it; whether it was given.

    What is refused stays in the notice.
    """
    client = screen.context.client
    assert step.child_run_id is not None
    instructions = instructions_of(screen.context.workspace, step)
    over = partial(why_over, screen.context, view.run_id, step)
    dialog = AnswerDialog(view, step, instructions, who=client.identity(), over=over)
    given = await screen.app.push_screen_wait(dialog)
    if given is None:
        return False
    try:
        async with screen.busy("giving the answer"):
            outcome = await client.answer(step.child_run_id, given.value, failed=given.failed)
    except WorkflowError as error:
        said = f"{error}\nNothing was recorded. You typed:\n{given.typed}"
        screen.workbench.notice(said, title="Not answered", severity="error")
        return False
    screen.workbench.notice(outcome.message, title="Answer")
    return True


async def why_over(context: AppContext, run_id: str, step: StepView) -> str:
    """Why the call of ``step`` takes no answer any more, as inert sentences; empty where it still does."""
    try:
        view = await context.client.view(run_id)
    except WorkflowError as error:
        return inert(f"{error.title}. {error}")
    if any(each.child_run_id == step.child_run_id for each in words.awaiting_answer(view)):
        return ""
    place = step.step_id, step.attempt
    found = next((each for each in view.steps if (each.step_id, each.attempt) == place), None)
    if found is not None and found.status in (StepStatus.COMPLETED, StepStatus.FAILED):
        return f"{inert(step.step_id)} was answered in the meantime."
    because = words.because(view)
    return (
        f"{inert(step.step_id)} takes no answer any more: the run {words.condition(view, context.clock())}"
        + (f". {because}" if because else ".")
    )


def instructions_of(workspace: Workspace, step: StepView) -> str:
    """What the configuration tells whoever answers for the step's Agent; empty where it tells nothing."""
    agent = workspace.config.agents.get(step.agent_ref or "")
    return "" if agent is None else str(agent.settings.get("instructions", ""))


def facts(view: RunView, step: StepView, instructions: str) -> list[tuple[str, str]]:
    """Who asks what, line by line, each with its tone. Every text is inert."""
    given = step.input
    task = given.split("\n") if isinstance(given, str) else pretty(given)
    blocks = [
        ([f"{view.name or 'unnamed'}, {view.run_id}"], "strong"),
        ([f"You are {step.agent_ref}, for the step {step.step_id}"], "quiet"),
    ]
    if instructions:
        blocks += [(["", "Instructions"], "strong"), (instructions.split("\n"), "")]
    blocks += [(["", "Task"], "strong"), (list(task), "")]
    return [(inert(text), tone) for texts, tone in blocks for text in texts]


class AnswerDialog(Modal[Given | None]):
    """Instructions and task of one call, and a line for the answer. The result is None where nothing is given.

    ``who`` is the acting session. The focus starts in the field; enter there leads to the safe choice, so that
    typing alone answers nothing. ``over`` says why the call takes no answer any more: then nothing but the safe choice
    is left, and what was typed stays to be copied.
    """

    BINDINGS = keymap.bindings("dialog")
    AUTO_FOCUS: ClassVar[str] = ""
    DEFAULT_CSS = """
    AnswerDialog #text { margin-bottom: 1; }
    AnswerDialog #effect { margin: 1 0 0 0; }
    AnswerDialog #problem { color: $text-error; }
    AnswerDialog #answers { height: 1; margin-top: 1; }
    """

    def __init__(
        self,
        view: RunView,
        step: StepView,
        instructions: str,
        *,
        who: str,
        over: Callable[[], Awaitable[str]],
    ) -> None:
        super().__init__()
        self._over = over
        self.withdrawn = False
        self._view = view
        self._step = step
        self._instructions = instructions
        self._who = who
        self._lines = DialogText()
        self._typed = Field(placeholder="your answer: text or JSON, on one line", id="typed")
        self._typed.select_on_focus = False
        self._effect = TextBlock(id="effect")
        self._problem = TextBlock(id="problem")

    def content(self) -> Iterable[Widget]:
        yield self._lines
        yield self._typed
        yield self._effect
        yield self._problem
        yield Horizontal(
            Choice("Leave it unanswered", name="leave"),
            Choice("Give this answer", name="give", danger=True),
            Choice("Fail the step", name="fail", danger=True),
            id="answers",
        )

    def on_mount(self) -> None:
        self.query_one("#frame", Pane).set_title(f"Answer {self._step.step_id}")
        self._lay_out()
        self._show()
        self._typed.focus()
        self.set_interval(LOOK_SECONDS, self._look)

    @work(group="look", exclusive=True, exit_on_error=False)
    async def _look(self) -> None:
        """Withdraw the question once it is over."""
        why = "" if self.withdrawn else await self._over()
        if why and self.is_attached:
            self.withdrawn = True
            leave_safe_answer(self, OVER)
            self._effect.show()
            self._problem.show(Span(why))

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width = max(20, min(_WIDTH, self.size.width * 94 // 100) - 4)
        self._lines.say(self._facts, width)

    def _facts(self, width: int) -> list[Line]:
        return [
            (Span(line, tone),)
            for text, tone in facts(self._view, self._step, self._instructions)
            for line in wrap(text, width) or [""]
        ]

    @on(Input.Changed)
    def _changed(self, message: Input.Changed) -> None:
        message.stop()
        if not self.withdrawn:
            self._problem.show()
            self._show()

    def _show(self) -> None:
        typed = self._typed.value.strip()
        kind = "text" if isinstance(read_answer(typed), str) else "JSON"
        first = f"It is sent as {kind}." if typed else "JSON is sent as JSON, everything else as text."
        self._effect.show(
            Span(f"{first} Where the step is failed instead, it is the reason that the script is given."),
            Span(f"It is kept with your name ({self._who}) and cannot be taken back."),
        )

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self.query(Choice).first().focus()

    @on(Choice.Pressed)
    def _answered(self, message: Choice.Pressed) -> None:
        message.stop()
        typed = self._typed.value.strip()
        if message.name == "leave":
            self.finish(None)
        elif not typed:
            self._problem.show(Span("Type the answer first, or why there is none."))
            self._typed.focus()
        elif message.name == "fail":
            self.finish(Given(typed, failed=typed))
        else:
            self.finish(Given(typed, read_answer(typed)))
