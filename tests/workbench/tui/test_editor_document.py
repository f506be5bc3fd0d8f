"""The editor's document is exact, its tree keeps in step, and its lines lie where a terminal draws them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from tree_sitter import Parser

from workbench.inert import acts
from workbench.tui.widgets.editor_document import (
    EditorDocument,
    FlatDocument,
    FlatNavigator,
    byte_column,
    char_column,
    layout,
)
from workbench.tui.widgets.editor_highlight import grammar

ANY_TEXT = st.text(
    st.one_of(st.sampled_from("ab\n\r\t {}()'`$;\u2028\u202e\x1b\u65e5\u0301"), st.characters())
)


@given(ANY_TEXT)
@settings(max_examples=200, deadline=None)
def test_a_text_comes_back_as_it_was_given(text: str) -> None:
    assert EditorDocument(text).text == text


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x85", "\r"])
def test_only_a_line_feed_breaks_a_line(separator: str) -> None:
    document = EditorDocument(f"a{separator}b\nc")
    assert document.lines == [f"a{separator}b", "c"]
    document.replace_range((0, 0), (0, 0), f"x{separator}")
    assert document.text == f"x{separator}a{separator}b\nc"


def test_windows_line_ends_stay_and_new_lines_get_them() -> None:
    document = EditorDocument("a\r\nb\r\n")
    assert document.lines == ["a", "b", ""]
    document.replace_range((0, 1), (0, 1), "\nnew")
    assert document.text == "a\r\nnew\r\nb\r\n"


def test_mixed_line_ends_stay_as_they_are() -> None:
    document = EditorDocument("a\r\nb\nc")
    document.replace_range((1, 0), (1, 0), "x")
    assert document.text == "a\r\nxb\nc"
    assert layout(document.lines[0], 2).text == "a␍"


@given(ANY_TEXT, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400), ANY_TEXT), max_size=6))
@settings(max_examples=120, deadline=None)
def test_edits_do_to_the_text_what_they_do_to_a_string_and_undo(
    text: str, edits: list[tuple[int, int, str]]
) -> None:
    language = grammar("javascript").language
    document = EditorDocument(text, language)
    for one, other, insert in edits:
        before = document.text
        newline = document.newline
        start, end = sorted((_boundary(before, one, newline), _boundary(before, other, newline)))
        if newline == "\r\n":
            insert = insert.replace("\r", "").replace("\n", "\r\n")
        first, last = _location(before, start, newline), _location(before, end, newline)
        result = document.replace_range(first, last, insert)
        assert document.text == before[:start] + insert + before[end:]
        assert result.replaced_text == before[start:end]
        document.replace_range(first, result.end_location, result.replaced_text)
        assert document.text == before
        document.replace_range(last, first, insert)
        assert document.text == before[:start] + insert + before[end:]
    source = "\n".join(document.lines).encode("utf-8", "surrogatepass")
    assert document.tree is not None
    assert str(document.tree.root_node) == str(Parser(language).parse(source).root_node)


def _boundary(text: str, index: int, newline: str) -> int:
    """A place in ``text`` that is not inside a line separator."""
    index %= len(text) + 1
    return index - 1 if newline == "\r\n" and text[index - 1 : index + 1] == "\r\n" else index


def _location(text: str, index: int, newline: str) -> tuple[int, int]:
    lines = text[:index].split(newline)
    return len(lines) - 1, len(lines[-1])


def test_an_edit_says_where_it_was_and_how_the_old_lines_were_indented() -> None:
    document = EditorDocument("a\n  b\n\tc\n")
    seen: list[object] = []
    document.on_replaced = seen.append
    document.replace_range((0, 1), (2, 1), "x\ny")
    assert seen == [((0, 1), (2, 1), (1, 1), [0, 2, 1], [])]
    assert document.text == "ax\nyc\n"


def test_places_outside_the_text_are_brought_inside() -> None:
    document = EditorDocument("ab")
    document.replace_range((7, 3), (7, 9), "c")
    document.replace_range((-1, -4), (0, 0), "_")
    assert document.text == "_abc"


@given(ANY_TEXT.filter(lambda text: "\n" not in text))
@settings(max_examples=200, deadline=None)
def test_a_line_is_laid_out_inert_and_as_wide_as_a_terminal_draws_it(line: str) -> None:
    place = layout(line, 4)
    assert not acts(place.text)
    assert place.width == cell_len(place.text) == place.cell(len(line))
    for column in range(len(line)):
        assert place.cell(column) == cell_len(place.text[: place.at(column)])
        if place.cell(column + 1) > place.cell(column):
            assert place.column(place.cell(column)) == column


@given(ANY_TEXT.filter(lambda text: "\n" not in text))
@settings(max_examples=100, deadline=None)
def test_bytes_and_characters_convert_both_ways(line: str) -> None:
    for column in range(len(line) + 1):
        assert char_column(line, byte_column(line, column)) == column


def test_symbols_take_their_own_cells_and_the_cursor_steps_over_them_as_one() -> None:
    line = "a\u202eb\tc"
    place = layout(line, 4)
    assert place.text == "a\\u{202E}b  c"
    assert [place.cell(column) for column in range(6)] == [0, 1, 9, 10, 12, 13]
    assert [place.column(cell) for cell in (0, 1, 5, 8, 9, 10, 11, 12, 13, 99)] == [
        0,
        1,
        1,
        1,
        2,
        3,
        3,
        4,
        5,
        5,
    ]


def test_the_cursor_keeps_its_cell_when_it_goes_up_and_down() -> None:
    document = EditorDocument("a\u202eb\n0123456789\n\nlast")
    view = FlatDocument(document)
    navigator = FlatNavigator(view)
    assert view.location_to_offset((0, 2)) == (9, 0)
    assert navigator.get_location_below((0, 2)) == (1, 9)
    assert navigator.get_location_above((1, 5)) == (0, 1)
    assert navigator.get_location_above((0, 1)) == (0, 0)
    assert navigator.get_location_below((3, 1)) == (3, 4)
    assert view.height == 4
    assert view.offset_to_location((99, 99)) == (3, 4)


def test_the_size_is_the_widest_line_by_the_number_of_lines() -> None:
    assert EditorDocument("a\n日本\n\tx").get_size(4) == (5, 3)
