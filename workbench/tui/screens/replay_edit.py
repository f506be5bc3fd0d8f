"""Editing the script of a recorded run for a what-if: in place, or in the person's own editor."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from textual import on, work
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import TextArea

from workflows_core.errors import UsageError, WorkflowError
from workflows_core.script.check import check_script

from ... import words
from ...scripts import read_script
from .. import keymap
from ..widgets.choice import Choice
from ..widgets.editor import ScriptEditor
from ..widgets.editor_form import TextBlock
from ..widgets.editor_marks import ProblemMark
from ..widgets.lines import Span
from ..widgets.pane import Pane
from .author_outside import edit_outside
from .dialogs import Modal

_TOLD = (
    "What if the script had been another one? It is replayed on the recorded answers up to the first difference. "
    "Nothing of the run changes."
)


class ScriptDialog(Modal[str | None]):
    """Edits the script of a run. The result is a text that the engine compiles, or None.

    ``line`` is where the cursor stands at first; ``text`` is what stands in the editor, whatever the result.
    """

    BINDINGS = keymap.bindings("dialog")
    DEFAULT_CSS = """
    ScriptDialog #script { height: 1fr; margin: 1 0 0 0; }
    ScriptDialog #problem { height: 1; margin: 1 0 0 0; }
    ScriptDialog #answers { height: 1; }
    """

    def __init__(
        self, name: str, text: str, *, line: int | None, max_calls: int, unicode: bool = True
    ) -> None:
        super().__init__(id="script-dialog")
        self._name = name
        self._line = line
        self._max_calls = max_calls
        self._editor = ScriptEditor(text, unicode=unicode, id="script")
        self._problem = TextBlock(id="problem")
        self._outside: tempfile.TemporaryDirectory[str] | None = None
        self._read = text

    @property
    def text(self) -> str:
        """What stands in the editor."""
        return self._editor.text

    def content(self) -> Iterable[Widget]:
        yield TextBlock(id="told")
        yield self._editor
        yield self._problem
        yield Horizontal(
            Choice("Do nothing", name="no"),
            Choice("Edit in $EDITOR", name="outside"),
            Choice("Continue", name="go"),
            id="answers",
        )

    def on_mount(self) -> None:
        frame = self.query_one("#frame", Pane)
        frame.set_title(f"What if: the script of {self._name}")
        frame.styles.width, frame.styles.max_width, frame.styles.height = "100%", "100%", "1fr"
        self.query_one("#told", TextBlock).show(Span(_TOLD, "quiet"))
        if self._line is not None:
            self.call_after_refresh(self._editor.go_to, self._line)
        self._editor.focus()

    def on_unmount(self) -> None:
        if self._outside is not None:
            self._outside.cleanup()

    @on(TextArea.Changed)
    def _changed(self, message: TextArea.Changed) -> None:
        message.stop()
        if self._editor.problems:
            self._tell("")

    @on(Choice.Pressed)
    def _answered(self, message: Choice.Pressed) -> None:
        message.stop()
        if message.name == "no":
            self.finish(None)
        elif message.name == "outside":
            self._edit_outside()
        else:
            self._check()

    def _edit_outside(self) -> None:
        """Hand a private copy to $EDITOR; what it saved is taken over when it returns, or at Continue."""
        if self._outside is None:
            self._outside = tempfile.TemporaryDirectory(prefix="workbench-", ignore_cleanup_errors=True)
        path = self._copy
        path.write_text(self._editor.text, "utf-8", errors="replace")
        self._read = self._editor.text
        try:
            edit_outside(self.app, path)
            self._take_outside()
        except WorkflowError as error:
            self._tell(str(error))
        self._editor.focus()

    @property
    def _copy(self) -> Path:
        assert self._outside is not None
        return Path(self._outside.name) / "what-if.workflow.js"

    def _take_outside(self) -> None:
        """Take over what the other editor has saved since it was read. Raises UsageError where it cannot be read."""
        if self._outside is None:
            return
        text = read_script(self._copy)
        if text != self._read:
            self._read = text
            self._editor.become(text)

    @work(group="check", exclusive=True, exit_on_error=False)
    async def _check(self) -> None:
        """Close with the text, unless the engine would not compile it."""
        try:
            self._take_outside()
        except UsageError as error:
            self._tell(str(error))
            return
        text = self._editor.text
        problems = [
            problem
            for problem in await check_script(text, agents=None, max_calls=self._max_calls)
            if problem.severity == "error"
        ]
        if not problems:
            self.finish(text)
            return
        first = problems[0]
        self._tell(
            f"{words.place(first.line, first.column)}  {first.message}",
            [ProblemMark(one.line, one.column, "error") for one in problems],
        )
        self._editor.go_to(first.line, first.column)
        self._editor.focus()

    def _tell(self, text: str, marks: Iterable[ProblemMark] = ()) -> None:
        self._problem.show(*([Span(text, "bad")] if text else []))
        self._editor.set_problems(list(marks))
