"""Rows of a comparison of two runs: what differs step by step, side by side or one below the other."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from workflows_core.journal.replay import Difference
from workflows_core.model import RunView, StepView

from ... import words
from ...comparing import MISSING, Comparison, StepPair, error_of, in_words, is_missing
from ...inert import cells, inert, shorten
from .json_rows import pretty
from .lines import Line, Span

#: Cells from which the two runs stand side by side.
SIDE_BY_SIDE: Final = 96
#: The row that stands for all equal steps.
EQUAL: Final = "equal"
#: The row that leads to a comparison of the scripts.
SCRIPTS: Final = "scripts"
_LABEL: Final = 28
#: Characters of a value that are drawn; the rest is cut off and can be copied.
_DRAWN: Final = 2_000


class _Row(NamedTuple):
    """``label`` on the left, then what either run has there. ``what`` and ``value`` are for copying.

    ``turns`` is what opening the row folds or unfolds, where that is not the row itself.
    """

    id: str
    label: Line
    first: Line = ()
    second: Line = ()
    what: str = ""
    value: str = ""
    turns: str = ""


class CompareRows:
    """``opened`` holds ids of rows that were turned: equal steps unfold, a step that differs folds, a value is
    laid out over lines. ``beside`` puts the runs side by side; else a difference takes three lines."""

    def __init__(
        self,
        comparison: Comparison,
        opened: Collection[str] = (),
        *,
        beside: bool = True,
        unicode: bool = True,
    ) -> None:
        self._found = comparison
        self._opened = opened
        self._beside = beside
        self._unicode = unicode
        self._rows = list(self._flatten())
        ids = [pair.step_id for pair in comparison.steps]
        self._label = min(_LABEL, 4 + max((cells(inert(id)) for id in ids), default=8))
        if beside:
            self._label = max(self._label, 22)

    def __len__(self) -> int:
        return len(self._rows)

    def row_id(self, index: int) -> str:
        return self._rows[index].id

    def text(self, index: int) -> str:
        row = self._rows[index]
        return "".join(span.text for line in (row.label, row.first, row.second) for span in line)

    def copied(self, index: int) -> tuple[str, str]:
        row = self._rows[index]
        return (row.what, row.value) if row.what else ("the line", self.text(index))

    def turned(self, index: int) -> str:
        """The id of the row that opening this one folds or unfolds."""
        row = self._rows[index]
        return row.turns or row.id

    def line(self, index: int, width: int) -> Line:
        row = self._rows[index]
        if not row.first and not row.second:
            return row.label
        if self._beside:
            half = max(8, (width - self._label - 3) // 2)
            return (
                *fitted(row.label, self._label),
                *fitted(row.first, half),
                Span(" │ ", "quiet"),
                *fitted(row.second, half),
            )
        arrow = " → " if self._unicode else " -> "
        return (*fitted(row.label, self._label), *row.first, Span(arrow, "quiet"), *row.second)

    # Rows

    def _flatten(self) -> Iterator[_Row]:
        found = self._found
        yield from self._heads()
        if self._beside:
            yield _Row("above", ())
        yield _Row("words", (Span(in_words(found), "strong"),))
        yield _Row("blank", ())
        if not found.same_script:
            yield _Row(SCRIPTS, (*self._sign(False), Span("the scripts differ", "strong")), what="")
        yield from self._differences("args", "arguments", found.args)
        same = [pair for pair in found.steps if pair.same]
        if same:
            names = ", ".join(inert(pair.step_id) for pair in same)
            mark = (
                ("▾" if self._unicode else "v") if EQUAL in self._opened else ("▸" if self._unicode else ">")
            )
            label = words.count(len(same), "equal step")
            yield _Row(EQUAL, (Span(f"{mark} ", "quiet"), Span(f"{label}: {names}", "quiet")))
        for pair in found.steps:
            if not pair.same:
                yield from self._step(pair)
            elif EQUAL in self._opened:
                yield self._head(pair)
        yield from self._differences("result", "result", found.result)

    def _heads(self) -> Iterator[_Row]:
        """Which runs these are."""
        first, second = self._found.first, self._found.second
        if self._beside:
            yield _Row(
                "runs",
                (Span("run", "quiet"),),
                (Span(_named(first), "strong"),),
                (Span(_named(second), "strong"),),
            )
            yield _Row("states", (Span("state", "quiet"),), self._state(first), self._state(second))
            yield _Row("ids", (Span("id", "quiet"),), _identity(first), _identity(second))
        else:
            for name, run in (("first", first), ("second", second)):
                yield _Row(
                    name,
                    (Span(f"{name:<8}", "quiet"), Span(f"{_named(run)}  ", "strong"), *self._state(run)),
                    what=f"the id of the {name} run",
                    value=run.run_id,
                )
                yield _Row(
                    f"{name} id",
                    (Span(" " * 8), *_identity(run)),
                    what=f"the id of the {name} run",
                    value=run.run_id,
                )

    def _state(self, run: RunView) -> Line:
        mark = words.run_mark(run.state)
        end = run.since if run.state.final else run.last_progress
        took = f"  {words.duration(end - run.created_at)}"
        return (Span(mark.text(unicode=self._unicode), mark.tone), Span(took, "quiet"))

    def _sign(self, same: bool) -> Line:
        if same:
            return (Span("= ", "quiet"),)
        return (Span("≠ " if self._unicode else "# ", "waiting"),)

    def _head(self, pair: StepPair) -> _Row:
        label = (*self._sign(pair.same), Span(inert(pair.step_id), "" if pair.same else "strong"))
        return _Row(
            f"step\n{pair.step_id}",
            label,
            self._side(pair.first),
            self._side(pair.second),
            "the stepId",
            pair.step_id,
        )

    def _side(self, step: StepView | None) -> Line:
        """Status, time and badge of one run's step."""
        if step is None:
            return (Span("no such step", "quiet"),)
        mark = words.step_mark(step)
        took = words.took(step, step.started_at or 0) if step.finished_at is not None else ""
        more = "  ".join(part for part in (took, step.badge or "") if part)
        return (Span(mark.text(unicode=self._unicode), mark.tone), Span(f"  {more}" if more else "", "quiet"))

    def _step(self, pair: StepPair) -> Iterator[_Row]:
        head = self._head(pair)
        yield head
        if head.id in self._opened:
            return
        first, second = error_of(pair.first), error_of(pair.second)
        if first != second:
            sides = [MISSING if error is None else error for error in (first, second)]
            yield from self._values(f"error\n{pair.step_id}", "error", *sides)
        for what, found in (("input", pair.input), ("output", pair.output)):
            yield from self._paths(f"{what}\n{pair.step_id}", what, found)

    def _differences(self, id: str, name: str, found: Sequence[Difference]) -> Iterator[_Row]:
        if found:
            yield _Row(id, (*self._sign(False), Span(name, "strong")))
            if id not in self._opened:
                yield from self._paths(id, "", found)

    def _paths(self, id: str, what: str, found: Sequence[Difference]) -> Iterator[_Row]:
        for difference in found:
            yield from self._values(
                f"{id}\n{difference.path}",
                path_of(what, difference.path),
                difference.recorded,
                difference.now,
            )

    def _values(self, id: str, label: str, first: Any, second: Any) -> Iterator[_Row]:
        """One difference: its path and both values, laid out over lines where it was opened."""
        what = label
        whole = f"{label}\nfirst: {whole_of(first)}\nsecond: {whole_of(second)}"
        if id in self._opened:
            sides = list(zip_longest(_lines(first), _lines(second), fillvalue=""))
        else:
            sides = [(_short(first), _short(second))]
        tones = ["quiet" if is_missing(value) else "" for value in (first, second)]
        if self._beside:
            for number, (left, right) in enumerate(sides):
                shown = (Span("    "), Span(inert(label), "accent")) if not number else (Span("    "),)
                yield _Row(
                    id if not number else f"{id}\n{number}",
                    shown,
                    (Span(left, tones[0]),),
                    (Span(right, tones[1]),),
                    what,
                    whole,
                    id,
                )
            return
        yield _Row(id, (Span("    "), Span(inert(label), "accent")), what=what, value=whole)
        for side, (name, tone) in enumerate(zip(("first", "second"), tones, strict=True)):
            lines = [pair[side] for pair in sides]
            while len(lines) > 1 and not lines[-1]:
                lines.pop()
            for number, text in enumerate(lines):
                head = name if not number else ""
                yield _Row(
                    f"{id}\n{name}\n{number}",
                    (Span(f"      {head:<8}", "quiet"), Span(text, tone)),
                    what=what,
                    value=whole,
                    turns=id,
                )


def path_of(what: str, path: str) -> str:
    """Where two values differ, as one path: ``output.checks[0].verdict``."""
    if not path:
        return what or "the whole"
    return f"{what}{'' if path.startswith('[') or not what else '.'}{path}"


def whole_of(value: Any) -> str:
    """A side of a difference as JSON text, or that it has nothing there."""
    return "nothing" if is_missing(value) else json.dumps(value, ensure_ascii=False)


def _short(value: Any) -> str:
    return shorten(whole_of(value)[:_DRAWN], _DRAWN)


def _lines(value: Any) -> Sequence[str]:
    """A value over lines: text as its own lines, anything else as JSON."""
    if is_missing(value):
        return ["nothing"]
    found = value.split("\n") if isinstance(value, str) else pretty(value)
    return [inert(line[:_DRAWN]) for line in found]


def _named(run: RunView) -> str:
    return inert(run.name) or "unnamed"


def _identity(run: RunView) -> Line:
    return (Span(f"{run.run_id}  script {words.hash7(run.script_hash)}", "quiet"),)


def fitted(line: Line, width: int) -> list[Span]:
    """``line`` in exactly ``width`` cells: its last pieces are cut off, or spaces fill it."""
    spans: list[Span] = []
    left = width
    for text, tone in line:
        if left <= 0:
            break
        text = shorten(text, left)
        spans.append(Span(text, tone))
        left -= cells(text)
    return [*spans, Span(" " * left)] if left > 0 else spans
