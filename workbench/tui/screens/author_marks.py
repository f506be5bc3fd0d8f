"""A run's steps as gutter marks on the lines of the working copy, which may have moved since the launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final

from workflows_core.model import RunView, StepStatus, StepView

from ... import words
from ..widgets.editor_marks import Mark

#: Of several steps on one line the one that most needs a look is shown.
_FIRST_SHOWN: Final = (
    StepStatus.UNCERTAIN,
    StepStatus.FAILED,
    StepStatus.REJECTED,
    StepStatus.EXPIRED,
    StepStatus.WAITING,
    StepStatus.INTERRUPTED,
    StepStatus.RUNNING,
    StepStatus.QUEUED,
    StepStatus.APPROVED,
    StepStatus.COMPLETED,
)
_RANK: Final = {status: rank for rank, status in enumerate(_FIRST_SHOWN)}


def _need(step: StepView) -> int:
    return _RANK[step.status]


def rows_now(then: Sequence[str], now: Sequence[str]) -> Mapping[int, int]:
    """Which row of ``now`` each row of ``then`` has become, rows from 0; changed lines have none."""
    shorter = min(len(then), len(now))
    start = 0
    while start < shorter and then[start] == now[start]:
        start += 1
    end = 0
    while end < shorter - start and then[-1 - end] == now[-1 - end]:
        end += 1
    shift = len(now) - len(then)
    rows = {row: row for row in range(start)}
    rows |= {row: row + shift for row in range(len(then) - end, len(then))}
    middle_then, middle_now = then[start : len(then) - end], now[start : len(now) - end]
    if middle_then and middle_now:
        for block in SequenceMatcher(None, middle_then, middle_now, autojunk=False).get_matching_blocks():
            rows |= {start + block.a + at: start + block.b + at for at in range(block.size)}
    return rows


def run_marks(view: RunView, rows: Mapping[int, int], *, unicode: bool = True) -> dict[int, Mark]:
    """The gutter marks of a run by row from 0, given where its script's rows are now.

    The line on which the run failed is marked too, whatever was called there.
    """
    shown: dict[int, StepView] = {}
    for step in view.steps:
        if step.line is None:
            continue
        row = rows.get(step.line - 1)
        if row is not None and (row not in shown or _RANK[step.status] < _RANK[shown[row].status]):
            shown[row] = step
    marks = {}
    for row, step in shown.items():
        mark = words.step_mark(step)
        marks[row] = Mark(mark.glyph if unicode else mark.ascii, mark.tone)
    fault = words.fault_line(view)
    row = None if fault is None else rows.get(fault - 1)
    if row is not None:
        mark = words.run_mark(view.state)
        marks[row] = Mark(mark.glyph if unicode else mark.ascii, mark.tone)
    return marks


class MarkedRun:
    """The last run of one script, with its rows mapped onto a text that keeps changing."""

    def __init__(self) -> None:
        self.view: RunView | None = None
        self._script: list[str] = []
        self._mapped: tuple[str, str] | None = None
        self._rows: Mapping[int, int] = {}

    def marks(self, text: str, *, unicode: bool = True) -> dict[int, Mark]:
        """The marks for a working copy ``text``; the rows are worked out again only where a text changed."""
        if self.view is None:
            return {}
        return run_marks(self.view, self._rows_of(self.view, text), unicode=unicode)

    def steps_at(self, row: int, text: str) -> list[StepView]:
        """The steps that are called in ``row``, from 0, or in the nearest row above it that calls any.

        The one that most needs a look comes first.
        """
        if self.view is None:
            return []
        rows = self._rows_of(self.view, text)
        placed = [(rows.get(step.line - 1), step) for step in self.view.steps if step.line is not None]
        above = [at for at, _step in placed if at is not None and at <= row]
        nearest = max(above, default=None)
        return sorted((step for at, step in placed if at == nearest and at is not None), key=_need)

    def _rows_of(self, view: RunView, text: str) -> Mapping[int, int]:
        if self._mapped != (view.script, text):
            self._rows = rows_now(view.script.split("\n"), text.split("\n"))
            self._mapped = (view.script, text)
        return self._rows
