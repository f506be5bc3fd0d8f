"""Marks and problems stay with the text they belong to while it is edited."""

import pytest

from workbench.tui.widgets.editor_document import EditorDocument
from workbench.tui.widgets.editor_marks import LineMarks, Mark, ProblemMark

TEXT = "one\n  two\nthree\nfour"
DONE = Mark("✓", "good")
LIVE = Mark("●", "running")


def _marked(text: str = TEXT) -> tuple[EditorDocument, LineMarks]:
    document = EditorDocument(text)
    beside = LineMarks()
    document.on_replaced = lambda edit: beside.follow(edit, document.lines)
    beside.set_marks({1: DONE, 3: LIVE})
    beside.set_problems([ProblemMark(2, 3, "error"), ProblemMark(4, 1, "warning")], document.lines)
    return document, beside


@pytest.mark.parametrize(
    ("start", "end", "insert", "marks", "problems"),
    [
        pytest.param((0, 0), (0, 0), "new\n", {2: DONE, 4: LIVE}, [(3, 3), (5, 1)], id="a line above"),
        pytest.param(
            (1, 0), (1, 0), "\n", {2: DONE, 4: LIVE}, [(3, 3), (5, 1)], id="enter before the indent"
        ),
        pytest.param((1, 5), (1, 5), "\n", {1: DONE, 4: LIVE}, [(2, 3), (5, 1)], id="enter at the end"),
        pytest.param(
            (0, 3), (1, 0), "", {0: DONE, 2: LIVE}, [(1, 6), (3, 1)], id="joined with the line above"
        ),
        pytest.param((1, 3), (1, 4), "", {1: DONE, 3: LIVE}, [(2, 3), (4, 1)], id="a letter gone"),
        pytest.param((1, 0), (1, 0), "xx", {1: DONE, 3: LIVE}, [(2, 5), (4, 1)], id="letters before"),
        pytest.param((0, 0), (3, 4), "", {0: LIVE}, [(1, 1), (1, 1)], id="everything gone"),
        pytest.param((2, 0), (3, 0), "", {1: DONE, 2: LIVE}, [(2, 3), (3, 1)], id="a line gone"),
        pytest.param((3, 4), (3, 4), "\nmore", {1: DONE, 3: LIVE}, [(2, 3), (4, 1)], id="a line below"),
    ],
)
def test_an_edit_moves_them(
    start: tuple[int, int],
    end: tuple[int, int],
    insert: str,
    marks: dict[int, Mark],
    problems: list[tuple[int, int]],
) -> None:
    document, beside = _marked()
    document.replace_range(start, end, insert)
    assert beside.marks == marks
    assert [(problem.line, problem.column) for problem in beside.problems] == problems


def test_a_problem_underlines_the_word_or_string_at_its_place() -> None:
    beside = LineMarks()
    lines = ["const name = 'a b' + x;", ""]
    beside.set_problems(
        [
            ProblemMark(1, 7, "warning"),
            ProblemMark(1, 14, "error"),
            ProblemMark(1, 20, "error"),
            ProblemMark(2, 9, "error"),
        ],
        lines,
    )
    assert beside.underlines == {
        0: ((6, 10, "warning"), (13, 18, "error"), (19, 20, "error")),
        1: ((0, 1, "error"),),
    }


def test_a_problem_outside_the_text_is_brought_inside() -> None:
    beside = LineMarks()
    beside.set_problems([ProblemMark(99, 0, "error"), ProblemMark(0, 0, "error")], ["a", "b"])
    assert set(beside.underlines) == {0, 1}


def test_only_rows_that_look_different_are_named() -> None:
    document, beside = _marked()
    assert beside.set_marks({1: DONE, 2: LIVE}) == {2, 3}
    assert beside.set_problems([ProblemMark(2, 3, "error")], document.lines) == {3}
    assert beside.set_problems([ProblemMark(2, 3, "warning")], document.lines) == {1}
    assert beside.set_problems([ProblemMark(2, 3, "warning")], document.lines) == set()
