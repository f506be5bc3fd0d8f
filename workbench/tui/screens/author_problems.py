"""The list of a script's problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from workflows_core.script.problem import Problem

from ... import words
from ...inert import shorten
from .. import keymap
from ..widgets.lines import Line, LineList, Span


class ProblemList(LineList):
    """The problems of the shown script; enter goes to the place, its own key applies the fix."""

    BINDINGS: ClassVar[list[BindingType]] = keymap.bindings("author.problems")


class ProblemRows:
    """Problems as rows; a sentence that is too long for its row ends in an ellipsis."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = problems

    def __len__(self) -> int:
        return len(self._problems)

    def row_id(self, index: int) -> str:
        return str(index)

    def line(self, index: int, width: int) -> Line:
        problem = self._problems[index]
        fix = "fix  " if problem.fix is not None else ""
        return (
            Span(f"{words.place(problem.line, problem.column):>7} "),
            Span(f"{problem.severity:<8}", "bad" if problem.severity == "error" else "waiting"),
            Span(fix, "accent"),
            Span(shorten(problem.message, max(1, width - 16 - len(fix)))),
        )

    def text(self, index: int) -> str:
        problem = self._problems[index]
        return f"{problem.severity} {problem.rule} {problem.message}"
