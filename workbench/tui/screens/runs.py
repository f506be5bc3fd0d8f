"""The Runs screen: all runs on the left, one of them in full on the right, or several of them watched at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import events, on
from textual.containers import Vertical
from textual.widget import Widget

from workflows_core.errors import WorkflowError
from workflows_core.model import RunSummary, RunView, StepView

from .. import keymap
from ..messages import RunsChanged, Tick
from ..refresh import Refresher
from ..widgets.lines import LineList
from ..widgets.pane import ListPane
from ..widgets.run_detail import RunDetail, copied_from
from ..widgets.run_list import GROUPS, RunRows
from ..widgets.run_watch import WatchPane, watched
from .base import Column
from .run_acts import RunActs

#: Seconds for which another run's details may stand while the selected run is read.
PATIENCE: Final = 0.1


class RunList(LineList):
    """The list of runs, with its own keys."""

    BINDINGS = keymap.bindings("runs.list")


class RunsScreen(RunActs):
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
        self._wanted_step: tuple[str, str, int] | None = None
        self._marked: dict[str, None] = {}
        self._reader = Refresher(self, self._read_selected, "run")
        self._watcher = Refresher(self, self._read_watched, "run")

    def compose_columns(self) -> Iterable[Widget]:
        self._runs = ListPane(GROUPS[0][0], lines=RunList(), id="runs")
        self._detail = RunDetail(
            self.context.clock,
            key=lambda act: self.workbench.key_label(f"runs.{act}"),
            unicode=self.unicode,
            id="detail",
        )
        self._watch = WatchPane(self.context.clock, unicode=self.unicode, id="watch")
        self._watch.display = False
        yield self._runs
        yield Vertical(self._detail, self._watch, id="run")

    def home(self) -> Widget | None:
        return self._runs.list

    async def refresh_all(self) -> None:
        self._fill()
        self._reader.request()
        self._watcher.request()

    def kept(self) -> dict[str, Any]:
        return super().kept() | ({"group": GROUPS[self._group][0]} if self._group else {})

    def take_back(self, kept: Mapping[str, Any]) -> None:
        super().take_back(kept)
        names = [name for name, _states in GROUPS]
        self._group = names.index(kept["group"]) if kept.get("group") in names else 0

    # What is shown

    def show_run(self, run_id: str, step: tuple[str, int] | None = None) -> None:
        """Put the cursor on ``run_id``, out of any filter, once it is listed; and on a step of it, once it is read."""
        self._group = 0
        self._wanted_step = None if step is None else (run_id, *step)
        self._runs.clear_filter()
        self._wanted = run_id
        self._fill()
        self._reader.request()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        launched, self.workbench.launched = self.workbench.launched, None
        if launched is not None:
            self.show_run(launched)

    def on_runs_changed(self, message: RunsChanged) -> None:
        self._fill()
        if not message.run_ids or self._selected in message.run_ids:
            self._reader.request()
        if self._watching and self._watch.concerns(message.run_ids):
            self._watcher.request()

    def on_tick(self, message: Tick) -> None:
        if self.is_current:
            self._fill()
            self._detail.tick()
            if self._watching:
                self._watch.tick()

    def _fill(self) -> None:
        name, states = GROUPS[self._group]
        book = self.workbench.book
        runs = (
            book.newest
            if states is None
            else [run for run in book.newest if run.state in states or run.run_id == self._selected]
        )
        for run_id in [run_id for run_id in self._marked if book.loaded and book.get(run_id) is None]:
            del self._marked[run_id]
        self._runs.rename(name)
        self._runs.border_subtitle = f"{len(self._marked):,} marked" if self._marked else None
        self._runs.list.set_empty(self._empty())
        self._runs.set_rows(RunRows(runs, self.context.clock(), marked=self._marked, unicode=self.unicode))
        if self._wanted is not None and self._runs.list.go_to(self._wanted):
            self._wanted = None
        if self._runs.list.current_id != self._selected:
            self._select(self._runs.list.current_id)
        if self._watching:
            self._watch.show_runs(watched(book.newest, self._marked), marked=bool(self._marked))
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
        self._select(self._runs.list.current_id)  # the row of now: the cursor may have gone on since

    @on(LineList.Highlighted, "#run LineList")
    def _another_row(self, message: LineList.Highlighted) -> None:
        message.stop()
        self.refresh_bindings()

    @on(LineList.Selected, "#runs LineList")
    def _opened(self, message: LineList.Selected) -> None:
        message.stop()
        self._show_details()

    @on(RunDetail.TabShown)
    def _tab_shown(self, message: RunDetail.TabShown) -> None:
        message.stop()
        self.refresh_bindings()
        if message.name == "evidence":
            self._reader.request()

    def _show_details(self) -> None:
        self._watch.display, self._detail.display = False, True
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
        """The run under the cursor of the list, as the book has it."""
        return None if self._selected is None else self.workbench.book.get(self._selected)

    async def _read_selected(self) -> None:
        run_id = self._selected
        if run_id is None:
            return
        client = self.context.client
        try:
            async with self.busy("reading the run"):
                view = await client.view(run_id)
                attestations = await client.attestations(run_id)
        except WorkflowError as error:
            if run_id == self._selected:
                self._detail.announce(self._run())
                self._detail.fail(f"{error.title}.\n{error}")
            return
        if run_id != self._selected:
            return
        self._detail.show(view, attestations)
        if self._wanted_step is not None and self._wanted_step[0] == run_id:
            _, step_id, attempt = self._wanted_step
            self._wanted_step = None
            self.reveal("run")
            self._detail.go_to_step(step_id, attempt)
        self.refresh_bindings()
        if self._detail.tab == "evidence":
            try:
                async with self.busy("reading the assemblies"):
                    compared, problem = await client.assemblies(view), ""
            except WorkflowError as error:
                compared, problem = {}, f"{error.title}. {error}"
            if run_id == self._selected:
                self._detail.show_assemblies(compared, problem)

    # Watching several runs

    @property
    def marked(self) -> Collection[str]:
        return self._marked

    @property
    def _watching(self) -> bool:
        return self._watch.display

    def action_mark(self) -> None:
        """Mark the run under the cursor, or take its mark away."""
        run_id = self._runs.list.current_id
        if run_id is not None:
            if run_id in self._marked:
                del self._marked[run_id]
            else:
                self._marked[run_id] = None
            self._fill()
            self._watcher.request()

    def action_watch(self) -> None:
        """Watch the marked runs, or all live ones, in place of the details; the same key gives these back."""
        if self._watching:
            self._show_details()
            return
        self._detail.display, self._watch.display = False, True
        self._fill()
        self.reveal("run")
        self._watch.list.focus()
        self._watcher.request()

    async def _read_watched(self) -> None:
        if self._watching:
            await self._watch.read(self.context.client)
            self.refresh_bindings()

    @on(LineList.Selected, "#watch LineList")
    def _watched_opened(self, message: LineList.Selected) -> None:
        message.stop()
        self.show_run(message.row_id.partition("\n")[0])
        self._show_details()

    # Acts

    def acting_run(self) -> RunSummary | None:
        if self._watching and self._watch.has_focus_within:
            run_id = self._watch.run_id
            return None if run_id is None else self.workbench.book.get(run_id)
        return self._run()

    def acting_view(self) -> RunView | None:
        if self._watching and self._watch.has_focus_within:
            return self._watch.view
        view = self._detail.view
        return view if view is not None and view.run_id == self._selected else None

    def acting_step(self) -> StepView | None:
        if self._watching and self._watch.has_focus_within:
            return self._watch.step
        return self._detail.step if self._detail.has_focus_within else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("copy_value", "watch", "mark"):
            return self.is_mounted and len(self.workbench.book.newest) > 0
        if action == "next_group":
            return len(self.workbench.book.newest) > 0
        return super().check_action(action, parameters)

    def action_next_group(self) -> None:
        self._group = (self._group + 1) % len(GROUPS)
        self._runs.list.focus()
        self._selected = self._wanted = None
        self._fill()

    def action_tab_at(self, number: int) -> None:
        if not self._watching:
            self._detail.go_to_tab_at(number)

    def action_copy_value(self) -> None:
        """Copy the whole value under the cursor: a run's id, an output, a frame, the script."""
        panes = [pane for pane in (self._detail, self._watch) if pane.has_focus_within]
        copied = copied_from(panes[0].list if panes else self._runs.list)
        if copied is not None:
            self.workbench.copy(*copied)
