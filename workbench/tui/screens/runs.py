"""The Runs screen: all runs on the left, one of them in full on the right, and what can be done with it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final

from textual import on, work
from textual.widget import Widget

from workflows_core.errors import WorkflowError
from workflows_core.model import DELETABLE, RunSummary

from ... import words
from ...inert import inert
from .. import keymap
from ..messages import RunsChanged, Tick
from ..refresh import Refresher
from ..widgets.lines import LineList
from ..widgets.pane import ListPane
from ..widgets.run_detail import RunDetail, copied_from
from ..widgets.run_list import GROUPS, RunRows
from .base import Column, WorkbenchScreen
from .dialogs import Answer, Dialog

#: Seconds for which another run's details may stand while the selected run is read.
PATIENCE: Final = 0.1


class RunList(LineList):
    """The list of runs, with its own keys."""

    BINDINGS = keymap.bindings("runs.list")


class RunsScreen(WorkbenchScreen):
    """F3. A run under the cursor is read when the cursor rests on it, and again whenever it changes."""

    NAME = "runs"
    COLUMNS = (Column("runs", 40), Column("run", 60))
    MAIN = "runs"
    CSS_PATH = Path(__file__).with_name("runs.tcss")
    BINDINGS: ClassVar = [*keymap.bindings("runs")]

    def __init__(self) -> None:
        super().__init__()
        self._group = 0
        self._selected: str | None = None
        self._reader = Refresher(self, self._read_selected, "run")

    def compose_columns(self) -> Iterable[Widget]:
        self._runs = ListPane(GROUPS[0][0], lines=RunList(), id="runs")
        self._detail = RunDetail(self.context.clock, unicode=self.unicode, id="run")
        yield self._runs
        yield self._detail

    def home(self) -> Widget | None:
        return self._runs.list

    async def refresh_all(self) -> None:
        self._fill()
        self._reader.request()

    # What is shown

    def show_run(self, run_id: str) -> None:
        """Put the cursor on ``run_id``, out of any filter, once it is listed."""
        self._group = 0
        self._runs.clear_filter()
        self._selected = run_id
        self._fill()
        self._runs.list.go_to(run_id)

    def on_runs_changed(self, message: RunsChanged) -> None:
        self._fill()
        if not message.run_ids or self._selected in message.run_ids:
            self._reader.request()

    def on_tick(self, message: Tick) -> None:
        if self.is_current:
            self._fill()
            self._detail.tick()

    def _fill(self) -> None:
        name, states = GROUPS[self._group]
        book = self.workbench.book
        runs = (
            book.newest
            if states is None
            else [run for run in book.newest if run.state in states or run.run_id == self._selected]
        )
        self._runs.rename(name)
        self._runs.list.set_empty(self._empty())
        self._runs.set_rows(RunRows(runs, self.context.clock(), unicode=self.unicode))
        if self._runs.list.current_id != self._selected:
            self._select(self._runs.list.current_id)
        self.refresh_bindings()

    def _empty(self) -> str:
        key = self.workbench.key_label
        book = self.workbench.book
        if not book.loaded:
            return "Reading the runs."
        if book.newest:
            return f"No run is in this group. {key('runs.state')} shows the next one."
        return (
            "No runs yet.\n\n"
            f"{key('app.author')} opens Author: write a script there and launch it with {key('author.launch')}.\n\n"
            "Or, in a shell: workbench run SCRIPT"
        )

    @on(LineList.Highlighted, "#runs LineList")
    def _highlighted(self, message: LineList.Highlighted) -> None:
        message.stop()
        self._select(message.row_id)

    @on(LineList.Selected, "#runs LineList")
    def _opened(self, message: LineList.Selected) -> None:
        message.stop()
        self.reveal("run")
        self._detail.list.focus()

    def _select(self, run_id: str | None) -> None:
        """Read ``run_id``. What was shown before stays until it is read, but not for long."""
        self._selected = run_id
        self.refresh_bindings()
        if run_id is None:
            self._detail.announce(None)
        else:
            self._reader.request()
            self.set_timer(PATIENCE, self._announce)

    def _announce(self) -> None:
        """Take away what belongs to another run than the one under the cursor."""
        if self._detail.run_id != self._selected:
            self._detail.announce(self._run())

    def _run(self) -> RunSummary | None:
        """The run under the cursor, as the book has it."""
        return None if self._selected is None else self.workbench.book.get(self._selected)

    async def _read_selected(self) -> None:
        run_id = self._selected
        if run_id is None:
            return
        try:
            async with self.busy("reading the run"):
                view = await self.context.client.view(run_id)
        except WorkflowError as error:
            if run_id == self._selected:
                self._detail.announce(self._run())
                self._detail.fail(f"{error.title}.\n{error}")
            return
        if run_id == self._selected:
            self._detail.show(view)
            self.refresh_bindings()

    # Acts

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        run = self._run() if self.is_mounted else None
        if action == "cancel":
            return run is not None and not run.state.final and not run.cancel_requested
        if action == "delete":
            return run is not None and run.state in DELETABLE
        if action == "copy_value":
            return run is not None
        if action == "next_group":
            return len(self.workbench.book.newest) > 0
        return super().check_action(action, parameters)

    def action_next_group(self) -> None:
        self._group = (self._group + 1) % len(GROUPS)
        self._runs.list.focus()
        self._selected = None
        self._fill()

    def action_tab_at(self, number: int) -> None:
        self._detail.go_to_tab_at(number)

    def action_copy_value(self) -> None:
        """Copy the whole value under the cursor: a run's id, an output, a frame, the script."""
        focused = self._detail.list if self._detail.has_focus_within else self._runs.list
        copied = copied_from(focused)
        if copied is not None:
            what, value = copied
            self.app.copy_to_clipboard(value)
            size = words.kib(len(value.encode("utf-8", "replace")))
            self.workbench.notice(f"{what} ({size})", title="Copied")

    @work(group="act", exit_on_error=False)
    async def action_cancel(self) -> None:
        run = self._run()
        if run is None:
            return
        text = (
            f"{named(run)}\n\nIts children are interrupted and observed until they end. What they have done "
            "so far is not undone. A cancelled run cannot go on."
        )
        answers = [Answer("keep", "Let it run"), Answer("cancel", "Cancel the run", danger=True)]
        if await self.app.push_screen_wait(Dialog("Cancel this run?", text, answers)) != "cancel":
            return
        async with self.busy("cancelling"):
            outcome = await self.context.client.cancel(run.run_id)
        self.workbench.notice(outcome.message, title="Cancel")

    @work(group="act", exit_on_error=False)
    async def action_delete(self) -> None:
        run = self._run()
        if run is None:
            return
        text = (
            f"{named(run)}\n\nThe run, its journal and its result are deleted. That cannot be undone. "
            "Its request id stays reserved, so that a late retry is refused."
        )
        answers = [Answer("keep", "Keep it"), Answer("delete", "Delete the run", danger=True)]
        if await self.app.push_screen_wait(Dialog("Delete this run?", text, answers)) != "delete":
            return
        async with self.busy("deleting"):
            outcome = await self.context.client.delete(run.run_id)
        self.workbench.notice(outcome.message, title="Delete")


def named(run: RunSummary) -> str:
    """A run in a dialog: name, state, id. The text is inert."""
    return f"{inert(run.name) or 'unnamed'}, {words.run_mark(run.state).word}\n{run.run_id}"
