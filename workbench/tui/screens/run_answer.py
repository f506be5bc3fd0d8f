"""What the Runs screen asks where a call of a manual agent waits: the answer that a person types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final, NamedTuple

from textual import on
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from workflows_core import jsontext
from workflows_core.model import RunView, StepView

from ...inert import inert
from .. import keymap
from ..widgets.choice import Choice
from ..widgets.editor_form import TextBlock
from ..widgets.json_rows import pretty
from ..widgets.lines import Line, LineList, Span, TextRows, wrap
from ..widgets.pane import Field, Pane
from .dialogs import Modal

_WIDTH: Final = 96


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


class AnswerDialog(Modal[Given | None]):
    """Instructions and task of one call, and a line for the answer. The result is None where nothing is given.

    ``who`` is the acting session. The focus starts in the field; enter there leads to the safe choice, so that
    typing alone answers nothing.
    """

    BINDINGS = keymap.bindings("dialog")
    AUTO_FOCUS: ClassVar[str] = ""
    DEFAULT_CSS = """
    AnswerDialog #text { margin-bottom: 1; }
    AnswerDialog #effect { margin: 1 0 0 0; }
    AnswerDialog #problem { color: $text-error; }
    AnswerDialog #answers { height: 1; margin-top: 1; }
    """

    def __init__(self, view: RunView, step: StepView, instructions: str, *, who: str) -> None:
        super().__init__()
        self._view = view
        self._step = step
        self._instructions = instructions
        self._who = who
        self._lines = LineList(opens=False, filterable=False, id="text")
        self._lines.show_cursor = self._lines.can_focus = False
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

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width = max(20, min(_WIDTH, self.size.width * 94 // 100) - 4)
        lines = self._facts(width)
        room = max(1, self.size.height - 14)
        if len(lines) > room:
            lines = self._facts(width - 1)  # the scroll bar takes a cell
        self._lines.styles.height = min(len(lines), room)
        self._lines.can_focus = len(lines) > room
        self._lines.set_rows(TextRows(lines))

    def _facts(self, width: int) -> list[Line]:
        """Who asks what. Every text is inert."""
        view, step = self._view, self._step
        given = step.input
        task = given.split("\n") if isinstance(given, str) else pretty(given)
        blocks = [
            ([f"{view.name or 'unnamed'}, {view.run_id}"], "strong"),
            ([f"You are {step.agent_ref}, for the step {step.step_id}"], "quiet"),
        ]
        if self._instructions:
            blocks += [(["", "Instructions"], "strong"), (self._instructions.split("\n"), "")]
        blocks += [(["", "Task"], "strong"), (list(task), "")]
        return [
            (Span(line, tone),)
            for texts, tone in blocks
            for text in texts
            for line in wrap(inert(text), width) or [""]
        ]

    @on(Input.Changed)
    def _changed(self, message: Input.Changed) -> None:
        message.stop()
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
