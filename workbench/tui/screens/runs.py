"""The Runs screen: all runs on the left, one of them in full on the right, and what can be done with it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final

from textual import events, on, work
from textual.widget import Widget

from workflows_core.errors import WorkflowError
from workflows_core.model import DELETABLE, RunState, RunSummary, RunView, StepView

from ... import acts, words
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
        self._wanted: str | None = None
        self._reader = Refresher(self, self._read_selected, "run")
        self._previewing = False

    def compose_columns(self) -> Iterable[Widget]:
        self._runs = ListPane(GROUPS[0][0], lines=RunList(), id="runs")
        self._detail = RunDetail(
            self.context.clock,
            key=lambda act: self.workbench.key_label(f"runs.{act}"),
            unicode=self.unicode,
            id="run",
        )
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
        self._wanted = run_id
        self._fill()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        launched, self.workbench.launched = self.workbench.launched, None
        if launched is not None:
            self.show_run(launched)

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
        if self._wanted is not None and self._runs.list.go_to(self._wanted):
            self._wanted = None
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

    @on(LineList.Highlighted, "#run LineList")
    def _another_step(self, message: LineList.Highlighted) -> None:
        message.stop()
        self.refresh_bindings()

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
        now = self.context.clock()
        if action == "resume":
            return run is not None and acts.open_wait(run, "pause", now) is not None
        if action == "review":
            there = "review" in dict(self.workbench.screen_titles)
            return there and run is not None and acts.open_wait(run, "checkpoint", now) is not None
        if action == "replay":
            return run is not None and "replay" in dict(self.workbench.screen_titles)
        if action == "recover":
            return run is not None and acts.may_recover(run)
        if action == "reconcile":
            return run is not None and self._unsettled() is not None
        if action == "export":
            return run is not None and self._exportable() is not None
        if action == "cancel":
            return run is not None and acts.may_cancel(run)
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
        self._selected = self._wanted = None
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

    def _view(self) -> RunView | None:
        """The run under the cursor with its steps, once it was read."""
        view = self._detail.view
        return view if view is not None and view.run_id == self._selected else None

    @work(group="act", exit_on_error=False)
    async def action_resume(self) -> None:
        run = self._run()
        wait = None if run is None else acts.open_wait(run, "pause", self.context.clock())
        if run is None or wait is None:
            return
        async with self.busy("resuming"):
            outcome = await self.context.client.resume(run.run_id, wait.step_id, wait.attempt)
        self.workbench.notice(outcome.message, title="Resume")

    def action_replay(self) -> None:
        if self._selected is not None:
            self.workbench.show_run(self._selected, on="replay")

    def action_review(self) -> None:
        if self._selected is not None:
            self.workbench.show_run(self._selected, on="review")

    @work(group="act", exit_on_error=False)
    async def action_recover(self) -> None:
        """Say what recovering would do, ask, and do it."""
        from .run_dialogs import RecoverDialog

        run = self._run()
        if run is None or self._previewing:
            return
        self._previewing = True
        try:
            async with self.busy("looking at what recovering would do"):
                preview = await self.context.client.preview(run.run_id)
                view = await self.context.client.view(run.run_id)
        finally:
            self._previewing = False
        answer = await self.app.push_screen_wait(RecoverDialog(view, preview, self.context.clock()))
        if answer == "cancel":
            await self._cancel(run)
        if answer != "recover":
            return
        async with self.busy("recovering"):
            outcome = await self.context.client.recover(run.run_id)
        self.workbench.notice(outcome.message, title="Recover")

    def _unsettled(self) -> StepView | None:
        """The unsettled step under the cursor of the details, else the first one of the run."""
        view = self._view()
        steps = acts.unsettled(view) if view is not None else []
        return next((step for step in steps if step == self._detail.step), steps[0] if steps else None)

    @work(group="act", exit_on_error=False)
    async def action_reconcile(self) -> None:
        """Ask what became of the step, and put the answer on record."""
        from .run_dialogs import ReconcileDialog

        view, step = self._view(), self._unsettled()
        if view is None or step is None:
            return
        client = self.context.client
        dialog = ReconcileDialog(
            view,
            step,
            who=client.identity(),
            now=self.context.clock(),
            folder=self.context.workspace.root,
            unicode=self.unicode,
        )
        request = await self.app.push_screen_wait(dialog)
        if request is None:
            return
        async with self.busy("putting it on record"):
            outcome = await client.reconcile(request)
        self.workbench.notice(outcome.message, title="Reconcile")

    def _exportable(self) -> StepView | None:
        """The step under the cursor of the details, where it has bytes."""
        step = self._detail.step if self._detail.has_focus_within and self._view() is not None else None
        return step if step is not None and step.artifact_version is not None else None

    @work(group="act", exit_on_error=False)
    async def action_export(self) -> None:
        """Write the exact bytes of the step under the cursor to a new file."""
        from ...review_copies import export
        from .review_dialogs import export_dialog

        view, step = self._view(), self._exportable()
        if view is None or step is None:
            return
        root = self.context.workspace.root
        async with self.busy("reading the bytes"):
            artifact = await self.context.client.artifact(view.run_id, step.step_id)
        name = await self.app.push_screen_wait(export_dialog(artifact, root))
        if name is not None:
            target = root / Path(os.path.expanduser(name))  # noqa: PTH111 - never raises
            copy = await asyncio.to_thread(export, artifact, target)
            self.workbench.notice(f"{copy.path}\nSHA-256 {copy.sha256}", title="Exported")

    @work(group="act", exit_on_error=False)
    async def action_cancel(self) -> None:
        run = self._run()
        if run is not None:
            await self._cancel(run)

    async def _cancel(self, run: RunSummary) -> None:
        unsettled = run.state is RunState.NEEDS_RECONCILIATION
        text = (
            f"{named(run)}\n\n"
            + (
                "The cancel is recorded; the run ends once its uncertain steps are settled. "
                if unsettled
                else ""
            )
            + "Its children are interrupted and observed until they end. What they have done "
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
