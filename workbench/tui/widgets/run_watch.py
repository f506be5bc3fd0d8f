"""Several runs watched at once: the condition of each with its steps, or a line each where there is little room."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from workflows_core.errors import Deleted, NotFound
from workflows_core.model import RunSummary, RunView, StepStatus, StepView

from ... import acts, words
from ...inert import cells, inert
from ...review import brief
from .lines import Line, Span, fit, wrap
from .pane import ListPane
from .step_rows import StepRows

if TYPE_CHECKING:
    from ...client import Client

#: Runs that are shown with their steps; of more, a line each is shown for the rest.
MOST_WATCHED: Final = 12
#: Cells and lines of the list from which runs are shown with their steps.
WIDE: Final = 56
HIGH: Final = 22
_CAUSE_LINES: Final = 2
_DONE: Final = (StepStatus.COMPLETED, StepStatus.APPROVED)


class _Row(NamedTuple):
    """A row of run ``run``: ``step`` is the index in its rows of steps, or ``line`` is drawn as it is."""

    run: str
    kind: str
    line: Line = ()
    step: int | None = None


class WatchRows:
    """``runs`` in the order of the list; ``views`` holds those that were read. Steps are shown for ``width`` cells;
    with 0 there is a line each.

    A run keeps its rows' ids, so the cursor stays where it is while everything moves on.
    """

    def __init__(
        self,
        runs: Sequence[RunSummary],
        views: Mapping[str, RunView],
        now: int,
        width: int = 0,
        *,
        unicode: bool = True,
    ) -> None:
        self._runs = {run.run_id: run for run in runs}
        self._views = views
        self._now = now
        self._width = width
        self._unicode = unicode
        self._steps: dict[str, StepRows] = {}
        self._name_width = min(20, max((cells(inert(run.name)) for run in runs), default=0))
        self._word_width = max((len(words.run_mark(run.state).word) for run in runs), default=0)
        self._rows: list[_Row] = []
        for number, run in enumerate(runs):
            self._add(run, width > 0 and number < MOST_WATCHED)

    def __len__(self) -> int:
        return len(self._rows)

    def run_id(self, index: int) -> str:
        """The run that a row belongs to."""
        return self._rows[index].run

    def step_at(self, index: int) -> StepView | None:
        """The step of a row, where it is one's."""
        row = self._rows[index]
        return None if row.step is None else self._steps[row.run].step(row.step)

    def row_id(self, index: int) -> str:
        row = self._rows[index]
        return f"{row.run}\n{row.kind}" if row.kind else row.run

    def text(self, index: int) -> str:
        row = self._rows[index]
        run = self._runs[row.run]
        if row.step is not None:
            return f"{run.name} {self._steps[row.run].text(row.step)}"
        return f"{run.name} {run.run_id} {words.condition(run, self._now)} " + "".join(
            s.text for s in row.line
        )

    def copied(self, index: int) -> tuple[str, str]:
        row = self._rows[index]
        if row.step is not None:
            return self._steps[row.run].copied(row.step)
        return "the run's id", row.run

    def line(self, index: int, width: int) -> Line:
        row = self._rows[index]
        if row.step is not None:
            return (Span("  "), *self._steps[row.run].line(row.step, width - 2))
        if row.kind == "brief":
            return self._brief(self._runs[row.run], width)
        return row.line

    def _add(self, run: RunSummary, whole: bool) -> None:
        view = self._views.get(run.run_id)
        if not whole:
            self._rows.append(_Row(run.run_id, "brief"))
            return
        shown = view if view is not None else run
        mark = words.run_mark(shown.state)
        dot = " · " if self._unicode else " - "
        progress = (
            "" if shown.state.final else f"{dot}last progress {words.ago(shown.last_progress, self._now)}"
        )
        condition, room = words.condition(shown, self._now), self._width - 2
        name = inert(run.name) or run.run_id
        head = [Span(f"{mark.glyph if self._unicode else mark.ascii} ", mark.tone), Span(name, "strong")]
        if cells(name) + 2 + cells(condition + progress) <= room:
            self._rows.append(
                _Row(run.run_id, "", (*head, Span(f"  {condition}", mark.tone), Span(progress, "quiet")))
            )
        else:
            said = wrap(f"{condition}{progress}", max(10, room))
            self._rows.append(_Row(run.run_id, "", head))
            self._rows += [
                _Row(run.run_id, f"condition {n}", (Span(f"  {line}", mark.tone),))
                for n, line in enumerate(said)
            ]
        if cause := words.because(shown):
            lines = wrap(cause, max(10, room))[:_CAUSE_LINES]
            self._rows += [
                _Row(run.run_id, f"cause {n}", (Span(f"  {line}"),)) for n, line in enumerate(lines)
            ]
        if view is not None and view.steps:
            steps = self._steps[run.run_id] = StepRows(view, self._now, unicode=self._unicode)
            self._rows += [_Row(run.run_id, steps.row_id(at), step=at) for at in range(len(steps))]
        elif view is not None:
            self._rows.append(_Row(run.run_id, "none", (Span("  No step yet.", "quiet"),)))
        self._rows.append(_Row(run.run_id, "end"))

    def _brief(self, run: RunSummary, width: int) -> Line:
        """State, name, progress and wait in one line."""
        view = self._views.get(run.run_id)
        shown = view if view is not None else run
        mark = words.run_mark(shown.state)
        said = progress(shown, self._now)
        name = min(self._name_width, max(8, width - self._word_width - 6 - 20))
        return (
            Span(f"{mark.glyph if self._unicode else mark.ascii} ", mark.tone),
            Span(fit(mark.word, self._word_width), mark.tone),
            Span(f"  {fit(run.name or run.run_id, name)}  "),
            Span(said, "quiet"),
        )


def progress(run: RunSummary | RunView, now: int) -> str:
    """How far a run is and what it waits for: ``2 of 3 · approval of evidence, 23 h left``."""
    parts: list[str] = []
    if isinstance(run, RunView):
        done = sum(step.status in _DONE for step in run.steps)
        parts.append(f"{done} of {len(run.steps)}")
    wait = run.waiting
    if wait is not None and not run.state.final:
        left = "" if wait.expires_at is None else f", {brief(wait.expires_at - now)} left"
        if acts.expired(wait, now):
            left = ", expired"
        parts.append(f"{words.awaited(wait)}{left}")
    elif run.state.final:
        parts.append(words.ago(run.since, now))
    elif run.state.owned:
        parts.append(f"last progress {words.ago(run.last_progress, now)}")
    else:
        parts.append(f"for {words.span(now - run.since)}")
    return " · ".join(parts)


def watched(runs: Sequence[RunSummary], marked: Collection[str]) -> list[RunSummary]:
    """What is watched: the marked runs in the order of the list, or where none is marked those that are live."""
    if marked:
        return [run for run in runs if run.run_id in marked]
    return [run for run in runs if run.state.owned]


class WatchPane(ListPane):
    """The watched runs. ``clock`` gives the time in microseconds since the epoch.

    Runs are named by ``show_runs`` and read by ``read``; a run that was not read yet shows what the list knows.
    """

    def __init__(self, clock: Callable[[], int], *, unicode: bool = True, id: str | None = None) -> None:
        super().__init__("Watch", counted=False, id=id)
        self._clock = clock
        self._unicode = unicode
        self._runs: Sequence[RunSummary] = ()
        self._views: dict[str, RunView] = {}
        self._stale: set[str] = set()
        self._reading: set[str] = set()

    @property
    def run_id(self) -> str | None:
        """The run under the cursor."""
        rows, index = self.list.rows, self.list.current_index
        return rows.run_id(index) if isinstance(rows, WatchRows) and index is not None else None

    @property
    def view(self) -> RunView | None:
        """The run under the cursor with its steps, once it was read."""
        return self._views.get(self.run_id or "")

    @property
    def step(self) -> StepView | None:
        """The step under the cursor, if there is one."""
        rows, index = self.list.rows, self.list.current_index
        return rows.step_at(index) if isinstance(rows, WatchRows) and index is not None else None

    def concerns(self, run_ids: frozenset[str]) -> bool:
        """Whether changes of ``run_ids`` (all where empty) are to be read here."""
        watched = {run.run_id for run in self._runs}
        self._stale |= watched & run_ids if run_ids else watched
        return bool(self._stale)

    def show_runs(self, runs: Sequence[RunSummary], *, marked: bool) -> None:
        """Watch these runs. ``marked`` says that a person chose them."""
        self._runs = runs
        ids = {run.run_id for run in runs}
        self._views = {run_id: view for run_id, view in self._views.items() if run_id in ids}
        self._stale |= ids - self._views.keys() - self._reading
        self.rename(f"Watch {words.count(len(runs), 'marked run' if marked else 'live run')}")
        self.list.set_empty(
            "Reading the runs."
            if runs
            else "No run is live. Mark runs in the list to watch them, or launch one; it shows here."
        )
        self.tick()

    def tick(self) -> None:
        """Times go on."""
        size = self.list.size
        width = size.width - 1 if size.width >= WIDE and size.height >= HIGH else 0
        self.set_rows(WatchRows(self._runs, self._views, self._clock(), width, unicode=self._unicode))

    def on_resize(self) -> None:
        self.tick()

    async def read(self, client: Client) -> None:
        """Read the runs that changed since they were read last, the first MOST_WATCHED of them."""
        wanted = [run.run_id for run in self._runs[:MOST_WATCHED] if run.run_id in self._stale]
        self._stale.clear()
        self._reading = set(wanted)
        for run_id in wanted:
            try:
                self._views[run_id] = await client.view(run_id)
            except (NotFound, Deleted):
                self._views.pop(run_id, None)
            finally:
                self._reading.discard(run_id)
        self.tick()
