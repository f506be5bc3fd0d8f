"""One run in full: its header, and one list that shows the tab in front.

Each tab keeps its own place. What is live is read again by the screen and given to ``show``; rows that are not
in view are never computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from textual import on
from textual.message import Message
from textual.widget import Widget

from workflows_core.model import Attestation, RunSummary, RunView, StepView

from ... import words
from ...child_runs import Assembled
from .. import keymap
from .json_rows import JsonRows
from .lines import LineList, Rows, TextRows
from .pane import ListPane
from .run_header import RunHeader, Tab, TabBar
from .run_records import evidence_of, evidence_rows, receipt_count, receipt_rows
from .run_rows import ArtifactRows, JournalRows, LogRows, SourceRows, SourceText, captures_of
from .step_rows import StepRows

_EMPTY: Final = {
    "steps": "No step yet. Steps appear here as the script calls agents.",
    "log": "The script has logged nothing. log('…') in a script writes here.",
    "journal": "No frame yet.",
    "source": "The script is empty.",
    "result": "",
}


@dataclass(slots=True)
class _Place:
    """Where the cursor of one tab stands, and what is opened in it."""

    row_id: str | None = None
    opened: set[str] = field(default_factory=set)


class DetailList(LineList):
    """The list in front, with the keys of a run's details."""

    BINDINGS = keymap.bindings("runs.detail")

    class TabWanted(Message):
        """A neighbouring tab is asked for; ``by`` is −1 or 1."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def action_tab(self, by: int) -> None:
        self.post_message(self.TabWanted(by))


class RunDetail(ListPane):
    """The details of one run. ``clock`` gives the time in microseconds since the epoch, ``key`` keys of acts."""

    class TabShown(Message):
        """A tab came to the front; ``name`` is the tab's."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(
        self,
        clock: Callable[[], int],
        *,
        key: Callable[[str], str] = str,
        unicode: bool = True,
        id: str | None = None,
    ) -> None:
        self._header = RunHeader(key=key, unicode=unicode)
        self._bar = TabBar()
        above = (self._header, self._bar)
        super().__init__("Run", lines=DetailList(), counted=False, above=above, id=id)
        self._clock = clock
        self._unicode = unicode
        self._run_id: str | None = None
        self._view: RunView | None = None
        self._source: SourceText | None = None
        self._places: dict[str, _Place] = {}
        self._tab = "steps"
        self._attestations: Sequence[Attestation] = ()
        self._assembled: Mapping[str, Assembled] | None = None
        self._unread = ""

    @property
    def view(self) -> RunView | None:
        return self._view

    @property
    def tab(self) -> str:
        """The name of the tab in front."""
        return self._tab

    # What is shown

    @property
    def run_id(self) -> str | None:
        """The run that was announced last."""
        return self._run_id

    def announce(self, run: RunSummary | RunView | None) -> None:
        """Show the header of ``run`` while the rest is being read; None empties everything."""
        if self._begin(run):
            self.list.set_empty("")
            self.list.set_rows(TextRows())
            self._bar.show((), "")

    def _begin(self, run: RunSummary | RunView | None) -> bool:
        """Show the header of ``run``; True where it is another run than before."""
        self.rename("Run" if run is None else run.name or run.run_id)
        self._header.show(run, self._clock())
        run_id = None if run is None else run.run_id
        if run_id == self._run_id:
            return False
        self._run_id = run_id
        self._view = self._source = self._assembled = None
        self._attestations, self._unread = (), ""
        self._places.clear()
        self.clear_filter()
        return True

    def show(self, view: RunView, attestations: Sequence[Attestation] = ()) -> None:
        """Show ``view``. A run that was shown before keeps its place in every tab."""
        self._begin(view)
        self._attestations = attestations
        if self._view is None or self._view.script != view.script:
            self._source = SourceText(view.script)
        self._view = view
        tabs = self._tabs(view)
        if self._tab not in [tab.name for tab in tabs]:
            self._tab = "steps"
        self._bar.show(tabs, self._tab)
        self._fill()

    def show_assemblies(self, compared: Mapping[str, Assembled], problem: str = "") -> None:
        """Say in the evidence how the assemblies compare with those before; ``problem`` why that is not known."""
        self._assembled, self._unread = compared, problem
        if self._tab == "evidence":
            self._fill()

    def fail(self, message: str) -> None:
        """Show why the run cannot be read."""
        self.list.set_empty(message)
        self.list.set_rows(TextRows())

    def tick(self) -> None:
        """A second has passed."""
        if self._view is not None:
            self._header.show(self._view, self._clock())
            if self._view.state.owned and self._tab == "steps":
                self._fill()

    def _tabs(self, view: RunView) -> list[Tab]:
        tabs = [
            Tab("steps", "Steps", len(view.steps)),
            Tab("source", "Source"),
            Tab("log", "Log", len(view.log)),
            Tab("journal", "Journal", len(view.frames)),
            Tab("result", "Result"),
        ]
        if captures := captures_of(view):
            tabs.insert(4, Tab("artifacts", "Artifacts", len(captures)))
        if evidence := evidence_of(view):
            tabs.insert(len(tabs) - 1, Tab("evidence", "Evidence", len(evidence)))
        if receipts := receipt_count(view, self._attestations):
            tabs.insert(len(tabs) - 1, Tab("receipts", "Receipts", receipts))
        return tabs

    def _fill(self) -> None:
        view = self._view
        if view is None:
            return
        empty = _EMPTY.get(self._tab, "")
        self.list.set_empty(self._no_result(view) if self._tab == "result" else empty)
        self.list.follows = self._tab in ("log", "journal") and not view.state.final
        self.list.opens = self._tab in ("steps", "journal", "evidence")
        self.set_rows(self._rows(view))

    def _rows(self, view: RunView) -> Rows:
        place = self._place()
        if self._tab == "source" and self._source is not None:
            return SourceRows(self._source, view.steps, fault=words.fault_line(view), unicode=self._unicode)
        if self._tab == "log":
            return LogRows(view.log, view.created_at)
        if self._tab == "journal":
            return JournalRows(view.frames, {int(n) for n in place.opened}, unicode=self._unicode)
        if self._tab == "artifacts":
            return ArtifactRows(captures_of(view))
        if self._tab == "evidence":
            return evidence_rows(
                view, self._assembled, place.opened, self._clock(), self._unread, unicode=self._unicode
            )
        if self._tab == "receipts":
            return receipt_rows(view, self._attestations, self._clock(), self.list.size.width)
        if self._tab == "result":
            return JsonRows.of(view.result, "the result") if view.has_result else TextRows()
        return StepRows(view, self._clock(), place.opened, unicode=self._unicode)

    def _no_result(self, view: RunView) -> str:
        if view.state.final:
            return f"There is no result: the run is {words.run_mark(view.state).word}.\n{words.because(view)}"
        return "No result yet. It is what the script returns."

    # Tabs

    def _place(self) -> _Place:
        return self._places.setdefault(self._tab, _Place())

    def go_to_tab(self, name: str) -> None:
        """Bring a tab to the front; the source opens at the line of the row that was under the cursor."""
        if self._view is None or name == self._tab or name not in [tab.name for tab in self._bar.tabs]:
            return
        line = self._source_line()
        self._place().row_id = self.list.current_id
        self._tab = name
        self.clear_filter()
        self._bar.show(self._bar.tabs, name)
        self._fill()
        wanted = str(line) if name == "source" and line is not None else self._place().row_id
        if wanted is None or not self.list.go_to(wanted):
            self.list.action_edge(1 if self.list.follows else -1)
        self.post_message(self.TabShown(name))

    def go_to_step(self, step_id: str, attempt: int) -> None:
        """Put the cursor on a step of the run that is shown, in the tab of steps, and the focus there."""
        self.go_to_tab("steps")
        self.clear_filter()
        self.list.go_to(f"{step_id}@{attempt}")
        self.list.focus()

    def _source_line(self) -> int | None:
        rows, index = self.list.rows, self.list.current_index
        if index is not None and isinstance(rows, StepRows | ArtifactRows):
            return rows.step(index).line
        if index is not None and isinstance(rows, LogRows):
            return rows.source_line(index)
        return None

    def go_to_tab_at(self, number: int) -> None:
        """Bring the tab with this number, from 1, to the front."""
        if 1 <= number <= len(self._bar.tabs):
            self.go_to_tab(self._bar.tabs[number - 1].name)

    @on(DetailList.TabWanted)
    def _neighbour(self, message: DetailList.TabWanted) -> None:
        message.stop()
        names = [tab.name for tab in self._bar.tabs]
        if self._tab in names:
            self.go_to_tab(names[(names.index(self._tab) + message.by) % len(names)])

    @on(TabBar.Chosen)
    def _tab_clicked(self, message: TabBar.Chosen) -> None:
        message.stop()
        self.go_to_tab(message.name)
        self.list.focus()

    @on(LineList.Selected)
    def _open(self, message: LineList.Selected) -> None:
        """Open or close the step, frame or evidence under the cursor."""
        message.stop()
        opened = self._place().opened
        row_id = message.row_id.partition("\n")[0]
        opened.symmetric_difference_update({row_id})
        self._fill()
        self.list.go_to(row_id)

    @property
    def step(self) -> StepView | None:
        """The step under the cursor, or that the row under it belongs to, in the tabs that show steps."""
        rows, index = self.list.rows, self.list.current_index
        return rows.step(index) if index is not None and isinstance(rows, StepRows | ArtifactRows) else None

    # Copying

    def copied(self) -> tuple[str, str] | None:
        """What copying gives: what it is, in words, and the whole value."""
        return copied_from(self.list)


def copied_from(lines: LineList) -> tuple[str, str] | None:
    """What the row under the cursor of ``lines`` gives to copy, if anything."""
    copied = getattr(lines.rows, "copied", None)
    if copied is None or lines.current_index is None:
        return None
    what, value = copied(lines.current_index)
    return str(what), str(value)


def detail_of(widget: Widget | None) -> RunDetail | None:
    """The RunDetail around ``widget``, if there is one."""
    while widget is not None and not isinstance(widget, RunDetail):
        widget = widget.parent if isinstance(widget.parent, Widget) else None
    return widget
