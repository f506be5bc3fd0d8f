"""Comparing two runs step by step on the screen, and choosing the other one.

Any screen that knows two runs opens the comparison with ``app.push_screen(RunCompareScreen(first, second))``, the
earlier or parent run first: each a run id of the workspace, or the view of a run out of a file. It reads runs of the
workspace itself, again while they change, says in words what it cannot read, and gives the focus back when it is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, cast

from textual import on
from textual.widget import Widget
from textual.widgets import Input

from workflows_core.errors import WorkflowError
from workflows_core.model import RunSummary, RunView

from ... import words
from ...comparing import Comparison, compare
from ...inert import inert
from ...opening import names_file, open_run
from .. import keymap
from ..refresh import Refresher
from ..widgets.lines import Line, LineList, Span, fit
from ..widgets.pane import Field, Pane
from ..widgets.run_compare_rows import SCRIPTS, SIDE_BY_SIDE, CompareRows
from ..widgets.run_list import RunRows
from .dialogs import Modal

if TYPE_CHECKING:
    from ..app import WorkbenchApp
    from .base import WorkbenchScreen


class RunCompareScreen(Modal[None]):
    """How the run ``second`` differs from ``first``: a run id of the workspace is read, a view stays as it is.

    Equal steps are folded into one line. Of the others every difference of input, output and error is shown by its
    path with both values, and both times. Side by side where there is room, else one below the other.
    """

    BINDINGS = keymap.bindings("compare", "runs.compare")

    def __init__(self, first: RunView | str, second: RunView | str) -> None:
        super().__init__(id="run-compare")
        self._sides = (first, second)
        self._found: Comparison | None = None
        self._turned: set[str] = set()
        self._list = LineList(empty="Reading the runs.")
        self._reader = Refresher(self, self._read, "run")
        self._stop: Callable[[], None] | None = None

    @property
    def workbench(self) -> WorkbenchApp:
        return cast("WorkbenchApp", self.app)

    @property
    def found(self) -> Comparison | None:
        """The comparison that is shown, once both runs were read."""
        return self._found

    def content(self) -> Iterable[Widget]:
        yield self._list

    def on_mount(self) -> None:
        frame = self.query_one("#frame", Pane)
        frame.set_title("Compare two runs")
        frame.styles.width, frame.styles.max_width, frame.styles.height = "100%", "100%", "1fr"
        self._list.focus()
        self._stop = self.workbench.context.changes.listen(self._changed)
        self._reader.request()

    def on_unmount(self) -> None:
        if self._stop is not None:
            self._stop()

    def _changed(self, run_ids: frozenset[str]) -> None:
        if not run_ids or run_ids & {side for side in self._sides if isinstance(side, str)}:
            self._reader.request()

    async def _read(self) -> None:
        client = self.workbench.context.client
        try:
            first, second = [
                await client.view(side) if isinstance(side, str) else side for side in self._sides
            ]
        except WorkflowError as error:
            self._list.set_empty(f"{error.title}.\n{error}")
            return
        # Large values take their time to compare, which no key has to wait for.
        self._found = await asyncio.to_thread(compare, first, second)
        self._fill()

    def on_resize(self) -> None:
        self._fill()

    def _fill(self) -> None:
        if self._found is None:
            return
        beside = self.size.width - 4 >= SIDE_BY_SIDE
        unicode = not self.workbench.ascii
        self._list.set_rows(CompareRows(self._found, self._turned, beside=beside, unicode=unicode))
        first, second = self._found.first, self._found.second
        names = [run.name or run.run_id for run in (first, second)]
        self.query_one("#frame", Pane).set_title(f"Compare {names[0]} with {names[1]}")

    @on(LineList.Selected)
    def _turn(self, message: LineList.Selected) -> None:
        """Fold or unfold what the row stands for; the scripts are compared as texts."""
        message.stop()
        if self._found is None:
            return
        if message.row_id == SCRIPTS:
            from .author_compare import CompareScreen

            first, second = self._found.first, self._found.second
            sides = [
                (f"{run.name or 'script'} {words.hash7(run.script_hash)}", run.script)
                for run in (first, second)
            ]
            self.app.push_screen(CompareScreen(sides[0], sides[1]))
            return
        rows = self._list.rows
        if isinstance(rows, CompareRows):
            turned = rows.turned(message.index)
            self._turned.symmetric_difference_update({turned})
            self._fill()
            self._list.go_to(turned)

    def action_copy_value(self) -> None:
        """Copy what the row stands for: both values with their path, a stepId, a run's id."""
        rows, index = self._list.rows, self._list.current_index
        if isinstance(rows, CompareRows) and index is not None:
            self.workbench.copy(*rows.copied(index))


async def view_of_file(screen: WorkbenchScreen, target: str) -> RunView:
    """The run in a bundle, or in a store file that holds one run. Raises WorkflowError in words."""
    async with screen.busy("opening the file"):
        bundle = await asyncio.to_thread(open_run, screen.context.workspace, target)
        return bundle.view()


class OtherRows(RunRows):
    """Runs to choose from, each with how it is related to the one that is compared."""

    def __init__(
        self, runs: Sequence[RunSummary], relations: Sequence[str], now: int, *, unicode: bool = True
    ) -> None:
        super().__init__(runs, now, unicode=unicode)
        self._relations = relations
        self._relation_width = max(map(len, relations), default=0)

    def line(self, index: int, width: int) -> Line:
        relation = self._relations[index]
        if not self._relation_width:
            return (*super().line(index, width - 21), Span(f"  {self.run(index).run_id}", "quiet"))
        room = width - self._relation_width - 2 - 21
        return (
            Span(fit(relation, self._relation_width) + "  ", "accent"),
            *super().line(index, room),
            Span(f"  {self.run(index).run_id}", "quiet"),
        )

    def text(self, index: int) -> str:
        return f"{super().text(index)} {self._relations[index]}"


def others(
    run: RunSummary, runs: Sequence[RunSummary], last: str | None, marked: Collection[str] = ()
) -> list[tuple[RunSummary, str]]:
    """The runs that ``run`` can be compared with, the likeliest first, each with its relation.

    Its parent, the one chosen last (``last``), its forks, the marked ones, those of the same name, then the rest;
    within each the newest first.
    """
    ranks = ("parent", "last chosen", "fork", "marked", "same name", "")

    def relation(other: RunSummary) -> str:
        if other.run_id == run.parent_run_id:
            return "parent"
        if other.run_id == last:
            return "last chosen"
        if other.parent_run_id == run.run_id:
            return "fork"
        if other.run_id in marked:
            return "marked"
        return "same name" if other.name and other.name == run.name else ""

    found = [(other, relation(other)) for other in runs if other.run_id != run.run_id]
    return sorted(found, key=lambda each: ranks.index(each[1]))


class RunPicker(Modal[str | None]):
    """Type, choose, enter: the run to compare with. The result is its id, the name of a file that was typed, or None."""

    BINDINGS = keymap.bindings("palette")

    def __init__(
        self, run: RunSummary, choices: Sequence[tuple[RunSummary, str]], now: int, *, unicode: bool
    ) -> None:
        super().__init__(id="run-picker")
        self._run = run
        self._list = LineList(
            OtherRows(
                [other for other, _ in choices], [relation for _, relation in choices], now, unicode=unicode
            ),
            empty="There is no other run to compare with. Type the name of a file that holds one; escape closes.",
            filterable=False,
        )

    def content(self) -> Iterable[Widget]:
        yield Field(placeholder="type to search, or the name of a file")
        yield self._list

    def on_mount(self) -> None:
        self.query_one("#frame", Pane).set_title(f"Compare {inert(self._run.name) or self._run.run_id} with")
        for field in self.query(Field):  # there is none where the application ends meanwhile
            field.focus()

    def moved_list(self) -> LineList:
        return self._list

    @on(Input.Changed)
    def _typed(self, message: Input.Changed) -> None:
        message.stop()
        self._list.set_filter(message.value)

    @on(Input.Submitted)
    def _accepted(self, message: Input.Submitted) -> None:
        message.stop()
        text = message.value.strip()
        if self._list.current_index is None and names_file(text):
            self.finish(text)
        else:
            self._list.action_select()

    @on(LineList.Selected)
    def _chosen(self, message: LineList.Selected) -> None:
        message.stop()
        self.finish(message.row_id)
