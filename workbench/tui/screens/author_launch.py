"""The launch pane: arguments, who answers, what will be sent, and how the script's last run stands."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget

from workflows_core.limits import ARGS_BYTES
from workflows_core.model import RunView

from ... import words
from ...drafts import Arguments, LaunchForm, read_arguments
from ...forecast import foretold
from ..widgets.choice import Choice
from ..widgets.editor_form import Setting, TextBlock
from ..widgets.lines import Span, plain_bars
from ..widgets.pane import Pane

if TYPE_CHECKING:
    from textual.widgets import TextArea

    from ..widgets.editor_json import ArgumentsEditor

#: How much of what will be sent is shown; the arguments themselves can be read in full above it.
SHOWN_CHARACTERS = 240


@dataclass(frozen=True, slots=True)
class StubChoice:
    """One answer to the question which stub set answers. ``path`` is relative to the workspace; None: default."""

    path: Path | None
    label: str


class LaunchPane(Pane):
    """Holds a ``LaunchForm`` and tells when a person changes it or asks for something."""

    class Turned(Message):
        """The pane folded away or came back."""

    class Changed(Message):
        """The form changed; ``arguments`` tells whether its arguments did."""

        def __init__(self, pane: LaunchPane, *, arguments: bool) -> None:
            super().__init__()
            self.pane = pane
            self.arguments = arguments

    class StubsWanted(Message):
        """Another stub set is to be chosen."""

    def __init__(self, *, unicode: bool = True, id: str) -> None:
        super().__init__(title="Launch", id=id)
        self._unicode = unicode
        self._form = LaunchForm()
        self._stubs: Sequence[StubChoice] = (StubChoice(None, "none"),)
        self._chosen = 0
        self._read = read_arguments("")
        self._filling = asyncio.Lock()
        self._editor: ArgumentsEditor | None = None

    async def fill(self) -> None:
        """Put everything into the pane, once: it is of no use before there is a script, so nobody waits for it."""
        async with self._filling:
            if self._editor is None:
                from ..widgets.editor_json import ArgumentsEditor

                editor = ArgumentsEditor(unicode=self._unicode, id="arguments")
                await self.mount_all(self._parts(editor))
                self._editor = editor
                self._filled()

    def compose(self) -> ComposeResult:
        yield TextBlock(id="no-launch")

    def on_show(self) -> None:
        self.post_message(self.Turned())

    def on_hide(self) -> None:
        self.post_message(self.Turned())

    def on_mount(self) -> None:
        plain_bars(self)
        self.query_one("#no-launch", TextBlock).show(
            Span("A script that is open is launched from here.", "quiet")
        )

    def offer(self, launchable: bool) -> None:
        """Show what a launch needs; without a script there is nothing to launch, which is said."""
        for child in self.children:
            child.display = launchable != (child.id == "no-launch")
        self.disabled = not launchable

    def _parts(self, editor: ArgumentsEditor) -> Iterable[Widget]:
        yield TextBlock(id="arguments-title")
        yield editor
        yield TextBlock(id="sent")
        yield Setting("Agents", ("stub", "real"), all_shown=True, unicode=self._unicode, id="agents")
        yield Setting("Stubs", ("",), unicode=self._unicode, id="stubs")
        yield TextBlock(id="facts")
        yield Horizontal(
            Choice("Launch", name="launch", id="launch-button"),
            Choice("Check", name="check", id="check-button"),
            id="launch-buttons",
        )
        yield TextBlock(id="standing")
        yield Horizontal(
            Choice("Run again", name="again", id="again-button"),
            Choice("Show run", name="show", id="show-button"),
            id="run-buttons",
        )

    @property
    def editor(self) -> ArgumentsEditor:
        """The editor of the arguments, once the pane is filled."""
        assert self._editor is not None
        return self._editor

    def _filled(self) -> None:
        self.query_one("#arguments-title", TextBlock).show(Span("Arguments (JSON)", "quiet"))
        self._show_arguments()
        self.show_run(None, 0)
        self.offer(False)

    # What the form holds

    @property
    def form(self) -> LaunchForm:
        """What stands in the pane now."""
        return LaunchForm(arguments=self.editor.text, real=self._form.real, stubs=self._form.stubs)

    @property
    def arguments(self) -> Arguments:
        """The arguments as read at their last change."""
        return self._read

    def show_form(self, form: LaunchForm, stubs: Sequence[StubChoice]) -> None:
        """Show another script's form. A stub set that is not offered any more gives way to the default."""
        self._form = form
        self.offer_stubs(stubs)
        if self.editor.text != form.arguments:
            self.editor.load_text(form.arguments)
        self.query_one("#agents", Setting).show(("stub", "real"), int(form.real))
        self._show_arguments()

    def offer_stubs(self, stubs: Sequence[StubChoice]) -> None:
        """Offer these stub sets; the default comes first."""
        self._stubs = stubs
        chosen = 0
        for index, choice in enumerate(stubs):
            if choice.path is not None and str(choice.path) == self._form.stubs:
                chosen = index
        if chosen == 0:
            self._form.stubs = None
        self._chosen = chosen
        self._show_stubs()

    def _show_stubs(self) -> None:
        """Show the stub set that answers; real Agents are answered by none."""
        setting = self.query_one("#stubs", Setting)
        setting.disabled = self._form.real
        if self._form.real:
            setting.show(["not used"], 0)
        else:
            setting.show([choice.label for choice in self._stubs], self._chosen)

    def choose_stubs(self, choice: StubChoice) -> None:
        """Take this stub set."""
        self._form.stubs = None if choice.path is None else str(choice.path)
        self.offer_stubs(self._stubs)
        self.post_message(self.Changed(self, arguments=False))

    def _show_arguments(self) -> None:
        self.set_note("")
        self._read = read = read_arguments(self.editor.text)
        sent = self.query_one("#sent", TextBlock)
        if read.value is None:
            place = None if read.line is None or read.column is None else (read.line, read.column)
            self.editor.show_error(place)
            where = f"{words.place(*place)}  " if place is not None else ""
            sent.show(Span(f"{where}{read.error}", "bad"))
            return
        self.editor.show_error(None)
        size = len(read.sent.encode())
        shown = read.sent
        if len(shown) > SHOWN_CHARACTERS:
            shown = shown[:SHOWN_CHARACTERS] + ("…" if self._unicode else "...")
        sent.show(Span(f"sends {size:,} of {ARGS_BYTES:,} bytes", "quiet"), Span(shown, "quiet"))

    def on_text_area_changed(self, message: TextArea.Changed) -> None:
        message.stop()
        self._show_arguments()
        self.post_message(self.Changed(self, arguments=True))

    @on(Setting.Pressed, "#agents")
    def _agents_pressed(self, message: Setting.Pressed) -> None:
        message.stop()
        self._form.real = not self._form.real
        message.setting.show(("stub", "real"), int(self._form.real))
        self._show_stubs()
        self.post_message(self.Changed(self, arguments=False))

    @on(Setting.Pressed, "#stubs")
    def _stubs_pressed(self, message: Setting.Pressed) -> None:
        message.stop()
        self.post_message(self.StubsWanted())

    # What is said of the script and its run

    def show_facts(
        self,
        bound: tuple[int, bool] | None,
        ceiling: int,
        *,
        version: Sequence[Span] = (Span("Version  working copy", "quiet"),),
        expected: int | None = None,
        quota: Span | None = None,
    ) -> None:
        """What a launch would be: of which version, how many Agent calls, how long, and how many runs are active.

        ``bound`` is as ``calls_bound`` gives it, ``expected`` in microseconds; what is not known is left out.
        """
        lines = list(version)
        if bound is not None:
            lines.append(Span(foretold(bound, ceiling, expected), "quiet"))
        if quota is not None:
            lines.append(quota)
        self.query_one("#facts", TextBlock).show(*lines)

    def show_run(
        self, run: RunView | None, now: int, *, repeatable: bool = False, repeated: bool = False
    ) -> None:
        """How the last run stands; ``repeatable``: nothing changed since, ``repeated``: a launch found it."""
        standing = self.query_one("#standing", TextBlock)
        self.query_one("#run-buttons").display = run is not None
        self.query_one("#again-button").display = repeatable
        if run is None:
            standing.show(Span("This script has no run yet.", "quiet"))
            return
        mark = words.run_mark(run.state)
        done = sum(step.finished_at is not None for step in run.steps)
        lines = [
            Span(f"{mark.glyph if self._unicode else mark.ascii} {words.condition(run, now)}", mark.tone)
        ]
        if run.steps:
            lines.append(Span(f"{done} of {words.count(len(run.steps), 'step')} · {run.run_id}", "quiet"))
        else:
            lines.append(Span(run.run_id, "quiet"))
        if cause := words.because(run):
            lines.append(Span(cause, mark.tone))
        if repeated:
            lines.insert(0, Span("Nothing has changed since this run."))
        standing.show(*lines)
