"""A child run with its events: what the Agent was asked and what the host saw of it until it ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from textual import on
from textual.widget import Widget

from workflows_core.errors import WorkflowError
from workflows_core.model import StepView

from ... import child_words
from ...child_runs import ChildEvent, ChildRun
from ...inert import cells, inert
from .. import keymap
from ..refresh import Refresher
from ..widgets.json_rows import json_line, pretty
from ..widgets.lines import Line, LineList, Span, fit
from ..widgets.pane import Pane
from .dialogs import Modal

if TYPE_CHECKING:
    from ..app import WorkbenchApp


class _Row(NamedTuple):
    id: str
    shown: Line
    what: str = ""
    value: str = ""
    event: int = -1


class EventRows:
    """A child run in facts, then its events, a line each; below an opened one its content and metadata."""

    def __init__(self, child: ChildRun, opened: set[str], now: int) -> None:
        self._child = child
        self._types = min(28, max((cells(inert(event.event_type)) for event in child.events), default=0))
        self._rows = [*self._facts(now), *self._events(opened)]
        self.width = max(cells(inert("".join(span.text for span in row.shown))) for row in self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def row_id(self, index: int) -> str:
        return self._rows[index].id

    def text(self, index: int) -> str:
        return "".join(span.text for span in self._rows[index].shown)

    def line(self, index: int, width: int) -> Line:
        return self._rows[index].shown

    def event(self, index: int) -> str:
        """The id of the event that the row is, or belongs to; empty for a fact."""
        return str(self._rows[index].event) if self._rows[index].event >= 0 else ""

    def copied(self, index: int) -> tuple[str, str]:
        row = self._rows[index]
        return (row.what, row.value) if row.what else ("the line", self.text(index))

    def _facts(self, now: int) -> Iterator[_Row]:
        for name, value in child_words.facts(self._child, now):
            shown = (Span(f"{name:<11}", "quiet"), Span(inert(value)))
            yield _Row(name, shown, f"the {name}", value)
        yield _Row("blank", ())
        yield _Row("events", (Span(child_words.counted(self._child), "strong"),))

    def _events(self, opened: set[str]) -> Iterator[_Row]:
        for event in self._child.events:
            since = child_words.since(self._child, event)
            head = (
                Span(f"{event.seq:>4} {since:>9}  ", "quiet"),
                Span(fit(event.event_type, self._types), "accent"),
                Span(f"  {child_words.summary(event)}"),
            )
            whole = event.content if event.content is not None else event.metadata
            yield _Row(str(event.seq), head, f"event {event.seq}", whole, event.seq)
            if str(event.seq) in opened:
                yield from self._inside(event, whole)

    def _inside(self, event: ChildEvent, whole: str) -> Iterator[_Row]:
        number = 0
        for name, text in child_words.parts(event):
            lines = _laid_out(text) if not (event.cut and name == "content") else text.split("\n")
            for part, line in enumerate(lines):
                label = name if not part else ""
                shown = (Span(f"{'':>4} {label:>9}  ", "quiet"), *json_line(line))
                yield _Row(f"{event.seq}\n{number}", shown, f"event {event.seq}", whole, event.seq)
                number += 1
        if cut := child_words.cut(event):
            shown = (Span(f"{'':>16}{cut}", "quiet"),)
            yield _Row(f"{event.seq}\ncut", shown, f"event {event.seq}", whole, event.seq)


def _laid_out(text: str) -> list[str]:
    try:
        return pretty(json.loads(text))
    except (ValueError, RecursionError):
        return text.split("\n")


class ChildRunScreen(Modal[None]):
    """The child run of ``step`` with its events, read again while the run of the step changes."""

    BINDINGS = keymap.bindings("compare", "runs.child")

    def __init__(self, run_id: str, step: StepView) -> None:
        super().__init__(id="run-child")
        self._run_id = run_id
        self._step = step
        self._opened: set[str] = set()
        self._child: ChildRun | None = None
        self._list = LineList(empty="Reading the child run.")
        self._reader = Refresher(self, self._read, "run")
        self._stop: Callable[[], None] | None = None

    @property
    def workbench(self) -> WorkbenchApp:
        return cast("WorkbenchApp", self.app)

    def content(self) -> Iterable[Widget]:
        yield self._list

    def on_mount(self) -> None:
        frame = self.query_one("#frame", Pane)
        frame.set_title(f"Child run of {self._step.step_id}")
        frame.styles.width, frame.styles.max_width, frame.styles.height = "94%", 120, "88%"
        self._list.focus()
        self._stop = self.workbench.context.changes.listen(self._changed)
        self._reader.request()

    def on_unmount(self) -> None:
        if self._stop is not None:
            self._stop()

    def _changed(self, run_ids: frozenset[str]) -> None:
        if not run_ids or self._run_id in run_ids:
            self._reader.request()

    async def _read(self) -> None:
        client = self.workbench.context.client
        try:
            child = await client.child_run(self._step.child_run_id or "")
        except WorkflowError as error:
            self._list.set_empty(f"{error.title}.\n{error}")
            return
        if child is None:
            self._list.set_empty(child_words.unknown(self._step.child_run_id or ""))
            return
        self._child = child
        self._fill()

    def _fill(self) -> None:
        if self._child is not None:
            self._list.set_rows(EventRows(self._child, self._opened, self.workbench.context.clock()))

    @on(LineList.Selected)
    def _open(self, message: LineList.Selected) -> None:
        """Open or close the event under the cursor."""
        message.stop()
        rows = self._list.rows
        if isinstance(rows, EventRows) and (event := rows.event(message.index)):
            self._opened.symmetric_difference_update({event})
            self._fill()
            self._list.go_to(event)

    def action_copy_value(self) -> None:
        """Copy the fact, or the whole content of the event, under the cursor."""
        rows, index = self._list.rows, self._list.current_index
        if isinstance(rows, EventRows) and index is not None:
            self.workbench.copy(*rows.copied(index))
