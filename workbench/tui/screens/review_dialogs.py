"""What the Review screen asks: whether to decide, why something is rejected, and where an export goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import on
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Static

from workflows_core.engine.waits import REASON_LENGTH
from workflows_core.model import Artifact

from ... import words
from ...checkpoints import NextStep
from ...inert import inert
from ...review import Progress, told
from ...review_copies import suggested_name
from .. import keymap
from ..widgets.choice import Choice
from ..widgets.lines import Span, wrap
from ..widgets.pane import Field, Pane
from ..widgets.review_detail import Subject
from .dialogs import Answer, Dialog, DialogText, Modal

#: The title of a question whose object is over, and the one answer that it leaves.
OVER: Final = "It cannot be decided any more"
_CLOSE: Final = "Close"


class DecisionDialog(Dialog):
    """A question that can be withdrawn while it is open."""

    withdrawn = False

    def withdraw(self, why: str) -> None:
        """Say ``why``, an inert text, and leave only the safe answer."""
        self.withdrawn = True
        self._title, self._text = OVER, _over(why, self._text)
        leave_safe_answer(self, OVER)
        self._lay_out()


def _over(why: str, text: str) -> str:
    """``why``, and of what the question said only what it was about: its first paragraph."""
    about, _, _ = text.partition("\n\n")
    return f"{why}\n\n{about}"


def leave_safe_answer(dialog: Modal[Any], title: str) -> None:
    """Give the dialog this title and leave only its first answer, which closes it."""
    dialog.query_one("#frame", Pane).set_title(title)
    safe, *others = dialog.query(Choice)
    safe.rename(_CLOSE)
    if dialog.focused in others:
        safe.focus()
    for choice in others:
        choice.disabled = True


class TextDialog(Modal[str | None]):
    """Says what an act does and asks for one line of text. The result is that text, None where nothing is done.

    ``check`` gives the sentence that stands in the way of a text, empty where nothing does. The focus starts in
    the field; enter there goes to the safe answer, so that nothing happens by typing alone.
    """

    BINDINGS = keymap.bindings("dialog")
    DEFAULT_CSS = """
    TextDialog #text { margin-bottom: 1; }
    TextDialog #problem { height: 1; color: $text-error; margin-bottom: 1; }
    TextDialog #answers { height: 1; }
    """
    AUTO_FOCUS: ClassVar[str] = ""
    withdrawn = False

    def __init__(
        self,
        title: str,
        text: str,
        answers: Sequence[Answer],
        *,
        placeholder: str,
        check: Callable[[str], str],
        value: str = "",
    ) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._answers = answers
        self._check = check
        self._lines = DialogText()
        self.field = Field(value, placeholder=placeholder)
        self._problem = Static("", id="problem", markup=False)

    def content(self) -> Iterable[Widget]:
        yield self._lines
        yield self.field
        yield self._problem
        yield Horizontal(
            *(Choice(answer.label, name=answer.name, danger=answer.danger) for answer in self._answers),
            id="answers",
        )

    def on_mount(self) -> None:
        self.query_one("#frame", Pane).set_title(self._title)
        self._lay_out()
        self.field.focus()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        inner = max(20, min(72, self.size.width - 4) - 4)
        self._lines.say(lambda width: [(Span(line),) for line in wrap(self._text, width)], inner)

    def withdraw(self, why: str) -> None:
        """Say ``why``, an inert text, and leave only the safe answer. What was typed stays to be copied."""
        self.withdrawn = True
        self._title, self._text = OVER, _over(why, self._text)
        leave_safe_answer(self, OVER)
        self._problem.update("")
        self._lay_out()

    @on(Input.Submitted)
    def _typed(self, message: Input.Submitted) -> None:
        message.stop()
        self.query(Choice).first().focus()

    @on(Choice.Pressed)
    def _answered(self, message: Choice.Pressed) -> None:
        message.stop()
        if message.name == self._answers[0].name:
            self.finish(None)
            return
        text = self.field.value.strip()
        problem = self._check(text)
        self._problem.update(inert(problem))
        if problem:
            self.field.focus()
        else:
            self.finish(text)


def reason_problem(reason: str) -> str:
    if not reason:
        return "A rejection needs a reason: what is wrong with the output?"
    if len(reason) > REASON_LENGTH:
        return f"A reason has at most {REASON_LENGTH:,} characters; this one has {len(reason):,}."
    return ""


def name_problem(name: str) -> str:
    return "" if name else "Type the name of a new file."


def export_dialog(artifact: Artifact, folder: Path) -> TextDialog:
    """Asks for the name of the new file that the exact bytes go to; a relative one is in ``folder``."""
    return TextDialog(
        "Export the exact bytes",
        f"{words.kib(len(artifact.body))} are written to a new file that only you can read. "
        f"A relative name is in {folder}.",
        [Answer("no", "Do not export"), Answer("export", "Export")],
        placeholder="file name",
        check=name_problem,
        value=suggested_name(artifact),
    )


def object_of(subject: Subject, progress: Progress) -> str:
    """What is decided, exactly: step, run, bytes, hash, and how they were shown."""
    artifact, item = subject.artifact, subject.item
    assert artifact is not None and item is not None
    shown = "shown in full" if progress.in_full else f"{progress.percent} % shown here"
    if progress.pictorial and progress.coverage.seen and not progress.in_full:
        shown += f", its bytes read as {inert(', '.join(sorted(progress.renderers)))}"
    if progress.outside is not None and progress.stated:
        shown += f", {progress.outside.value}"
    return (
        f"{inert(item.step_id)} of {inert(item.name or item.run_id)}\n"
        f"{words.kib(len(artifact.body))} from {inert(artifact.step_id)}, {shown}\n"
        f"SHA-256 {progress.sha256}"
    )


def approving(subject: Subject, progress: Progress, next_steps: Sequence[NextStep]) -> str:
    """What approving does, for its dialog. The text is inert."""
    item = subject.item
    assert item is not None
    recovers = "Its owner is gone, so the run is recovered first. " if item.retained else ""
    return (
        f"{object_of(subject, progress)}\n\n{recovers}The run goes on with exactly these bytes. "
        f"{told(next_steps)}\n\nThe decision cannot be changed or taken back."
    )


def rejecting(subject: Subject, progress: Progress) -> str:
    """What rejecting does, for its dialog. The text is inert."""
    return (
        f"{object_of(subject, progress)}\n\nThe run ends failed, with your reason as its cause. "
        "Nothing behind the checkpoint is called.\n\nThe decision cannot be changed or taken back."
    )
