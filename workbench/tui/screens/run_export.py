"""Exporting a run from the screen: where to, and with its values or without."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from workflows_core.model import RunSummary

from ... import words
from ...exporting import export_run, suggested_file
from ...inert import inert
from .. import keymap
from ..widgets.choice import Choice
from ..widgets.editor_form import TextBlock
from ..widgets.lines import Span, wrap
from ..widgets.pane import Field, Pane
from .dialogs import DialogText, Modal

if TYPE_CHECKING:
    from .base import WorkbenchScreen


class ExportDialog(Modal[tuple[Path, bool] | None]):
    """Asks for the new file that a run is written to, and whether its values go with it.

    The result is the path and whether to redact. A file that exists is refused here, before anything is written.
    """

    BINDINGS = keymap.bindings("dialog")
    AUTO_FOCUS: ClassVar[str] = ""
    DEFAULT_CSS = """
    ExportDialog #text { margin-bottom: 1; }
    ExportDialog #problem { color: $text-error; margin: 1 0; }
    ExportDialog #answers { height: 1; }
    """

    def __init__(self, run: RunSummary, folder: Path) -> None:
        super().__init__()
        self._run = run
        self._folder = folder
        self._lines = DialogText()
        self.field = Field(suggested_file(run, folder), placeholder="file name")
        self._problem = TextBlock(id="problem")

    def content(self) -> Iterable[Widget]:
        yield self._lines
        yield self.field
        yield self._problem
        yield Horizontal(
            Choice("Do not export", name="no"),
            Choice("Export", name="whole"),
            Choice("Export redacted", name="redacted"),
            id="answers",
        )

    def on_mount(self) -> None:
        frame = self.query_one("#frame", Pane)
        frame.set_title("Export this run")
        frame.styles.width, frame.styles.height = 76, "auto"
        self._lay_out()
        self.field.focus()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        name = inert(self._run.name) or "unnamed"
        told = (
            f"{name}, {words.run_mark(self._run.state).word}, {self._run.run_id}",
            "The run with all its records goes into a new file that only you can read. Replay opens it anywhere. "
            f"A relative name is in {where(self._folder)}.",
            "Redacted, it holds no values: it proves chain, order and positions, and cannot be run or forked.",
        )
        self._lines.say(
            lambda width: [(Span(line),) for text in told for line in wrap(text, width)],
            min(76, self.size.width) - 4,
        )

    @on(Input.Submitted)
    def _typed(self, message: Input.Submitted) -> None:
        """Nothing is written by typing alone: enter leads to the answers, the safe one first."""
        message.stop()
        self.query(Choice).first().focus()

    @on(Choice.Pressed)
    def _answered(self, message: Choice.Pressed) -> None:
        message.stop()
        if message.name == "no":
            self.finish(None)
        else:
            self._accept(message.name == "redacted")

    @work(group="act", exclusive=True, exit_on_error=False)
    async def _accept(self, redact: bool) -> None:
        typed = self.field.value.strip()
        target = self._folder / Path(os.path.expanduser(typed))  # noqa: PTH111 - never raises
        problem = "Type the name of a new file." if not typed else ""
        if not problem and await asyncio.to_thread(os.path.lexists, target):
            problem = f"{inert(typed)} exists already; give another name. Nothing is replaced."
        if problem:
            self._problem.show(Span(problem))
            self.field.focus()
        else:
            self.finish((target, redact))


def where(folder: Path) -> str:
    """The folder in words."""
    return inert(str(folder))


async def export_bundle(screen: WorkbenchScreen, run: RunSummary) -> None:
    """Ask where to, and write the run. To be run in a worker of ``screen``."""
    app, space = screen.workbench, screen.context.workspace
    answer = await app.push_screen_wait(ExportDialog(run, space.root))
    if answer is None:
        return
    target, redact = answer
    async with screen.busy("replaying and redacting the run" if redact else "exporting the run"):
        made = await export_run(space, run.run_id, target, redact=redact)
    parts = [
        str(made.path),
        f"{words.count(made.frames, 'frame')}, {words.kib(made.size)}{', redacted' if made.redacted else ''}",
        f"SHA-256 {made.sha256}",
        *made.notes,
    ]
    app.notice("\n".join(parts), title="Exported")
