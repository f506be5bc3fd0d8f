"""Rows of the run list, and the groups of states it can be narrowed to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from workflows_core.model import OWNED, RunState, RunSummary

from ... import words
from .lines import Line, Span, fit

S = RunState
#: What the state key goes through: a name for the title, and the states that are shown; None shows all.
GROUPS: Final[tuple[tuple[str, frozenset[RunState] | None], ...]] = (
    ("Runs", None),
    ("Live runs", OWNED),
    ("Waiting runs", frozenset({S.PAUSED, S.WAITING_APPROVAL, S.WAITING_INPUT})),
    ("Stopped runs", frozenset({S.RECOVERABLE, S.INTERRUPTED, S.NEEDS_RECONCILIATION})),
    ("Failed runs", frozenset({S.FAILED, S.CANCELLED})),
    ("Completed runs", frozenset({S.COMPLETED})),
)
_AGE_WIDTH: Final = 6
#: A name has at least this many cells; the word beside the glyph is shortened for it.
_NAME_WIDTH: Final = 12


class RunRows:
    """One line a run: glyph, word, name, age. The word's column is as wide as the widest word there is.

    ``marked`` holds ids of runs that a person has marked; they have a sign of their own in front.
    """

    def __init__(
        self, runs: Sequence[RunSummary], now: int, *, marked: Collection[str] = (), unicode: bool = True
    ) -> None:
        self._marked = marked
        self._runs = runs
        self._now = now
        self._unicode = unicode
        states = {run.state for run in runs}
        self._word_width = max((len(words.run_mark(state).word) for state in states), default=0)

    def __len__(self) -> int:
        return len(self._runs)

    def run(self, index: int) -> RunSummary:
        return self._runs[index]

    def row_id(self, index: int) -> str:
        return self._runs[index].run_id

    def line(self, index: int, width: int) -> Line:
        run = self._runs[index]
        mark = words.run_mark(run.state)
        sign: tuple[Span, ...] = ()
        if self._marked:
            text = ("» " if self._unicode else "> ") if run.run_id in self._marked else "  "
            sign, width = (Span(text, "accent"),), width - 2
        word_width = max(1, min(self._word_width, width - 2 - 2 - _NAME_WIDTH - 1 - _AGE_WIDTH))
        room = width - 2 - word_width - 2 - 1 - _AGE_WIDTH
        return (
            *sign,
            Span(f"{mark.glyph if self._unicode else mark.ascii} ", mark.tone),
            Span(fit(mark.word, word_width), mark.tone),
            Span("  "),
            Span(fit(run.name or run.run_id, max(1, room))),
            Span(f" {age(self._now - run.created_at):>{_AGE_WIDTH}}", "quiet"),
        )

    def text(self, index: int) -> str:
        run = self._runs[index]
        cause = run.cause.message if run.cause is not None else ""
        marked = " marked" if run.run_id in self._marked else ""
        return f"{words.run_mark(run.state).word} {run.name} {run.run_id} {cause}{marked}"

    def copied(self, index: int) -> tuple[str, str]:
        return "the run's id", self._runs[index].run_id


def age(micros: int) -> str:
    """How old, in one unit: ``12 s``, ``3 min``, ``23 h``, ``4 d``."""
    return " ".join(words.span(micros).split()[:2])
