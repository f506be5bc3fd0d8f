"""LineList: only what is in view is computed, the cursor keeps its row, and the filter finds."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from workbench.inert import cells
from workbench.tui.widgets.lines import Line, LineList, Span, TextRows, fit, wrap


class Counting:
    """Rows with numbers that record which were computed."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids
        self.computed: list[int] = []

    def __len__(self) -> int:
        return len(self.ids)

    def row_id(self, index: int) -> str:
        return self.ids[index]

    def line(self, index: int, width: int) -> Line:
        self.computed.append(index)
        return (Span(f"row {self.ids[index]}", "strong"),)

    def text(self, index: int) -> str:
        return f"row {self.ids[index]}"


class Shown(App[None]):
    def __init__(self, lines: LineList) -> None:
        super().__init__()
        self.lines = lines
        self.messages: list[tuple[str, Any]] = []

    def compose(self) -> ComposeResult:
        yield self.lines

    def on_line_list_highlighted(self, message: LineList.Highlighted) -> None:
        self.messages.append(("highlighted", message.row_id))

    def on_line_list_selected(self, message: LineList.Selected) -> None:
        self.messages.append(("selected", message.row_id))

    def on_line_list_filter_wanted(self, message: LineList.FilterWanted) -> None:
        self.messages.append(("filter", None))


@asynccontextmanager
async def shown(lines: LineList, size: tuple[int, int] = (40, 10)) -> Any:
    app = Shown(lines)
    async with app.run_test(size=size) as pilot:
        lines.focus()
        await pilot.pause()
        yield app, pilot


def drawn(lines: LineList) -> list[str]:
    return [lines.render_line(y).text.rstrip() for y in range(lines.size.height)]


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


async def test_only_rows_in_view_are_computed() -> None:
    rows = Counting([str(n) for n in range(10_000)])
    async with shown(LineList(rows)) as (_app, pilot):
        assert set(rows.computed) == set(range(10))
        rows.computed.clear()
        await press(pilot, "end")
        assert set(rows.computed) == set(range(9_990, 10_000))


async def test_ten_thousand_rows_are_left_alone_while_the_cursor_moves() -> None:
    rows = Counting([str(n) for n in range(10_000)])
    async with shown(LineList(rows)) as (_app, pilot):
        for _ in range(5):
            await press(pilot, "pagedown")
        assert len(rows.computed) < 200


async def test_keys_move_the_cursor_and_report_the_row() -> None:
    async with shown(LineList(Counting(list("abcdefghijklmnopqrstuvwxyz")))) as (app, pilot):
        await press(pilot, "down")
        await press(pilot, "j")
        await press(pilot, "up")
        await press(pilot, "end")
        await press(pilot, "home")
        await press(pilot, "pagedown")
        await press(pilot, "pageup")
        assert app.messages == [("highlighted", row) for row in "bcbzaja"]


async def test_moving_past_an_end_stays_there_and_says_nothing() -> None:
    async with shown(LineList(Counting(list("ab")))) as (app, pilot):
        await press(pilot, "up")
        await press(pilot, "end")
        await press(pilot, "down")
        assert app.messages == [("highlighted", "b")]


async def test_enter_and_double_click_open_a_row() -> None:
    async with shown(LineList(Counting(list("abc")))) as (app, pilot):
        await press(pilot, "down", "enter")
        await pilot.click(LineList, offset=(3, 2), times=2)
        await pilot.pause()
        assert app.messages == [
            ("highlighted", "b"),
            ("selected", "b"),
            ("highlighted", "c"),
            ("selected", "c"),
        ]


async def test_enter_does_nothing_where_nothing_opens() -> None:
    async with shown(LineList(Counting(list("abc")), opens=False)) as (app, pilot):
        await press(pilot, "enter")
        assert app.messages == []


async def test_an_empty_list_says_what_to_do_and_survives_every_key() -> None:
    lines = LineList(empty="Nothing yet.\nDo this.")
    async with shown(lines) as (app, pilot):
        await press(pilot, "down", "up", "end", "home", "pagedown", "pageup", "enter", "shift+right")
        assert drawn(lines)[:3] == [" Nothing yet.", " Do this.", ""]
        assert app.messages == []
        assert lines.current_id is None


async def test_the_cursor_stays_on_its_row_when_rows_come_and_go() -> None:
    lines = LineList(Counting(list("abcdef")))
    async with shown(lines) as (app, pilot):
        await press(pilot, "down", "down")
        lines.set_rows(Counting(list("xyabcdef")))
        await pilot.pause()
        assert (lines.current_id, lines.cursor) == ("c", 4)
        lines.set_rows(Counting(list("cab")))
        await pilot.pause()
        assert (lines.current_id, lines.cursor) == ("c", 0)
        assert app.messages == [("highlighted", "b"), ("highlighted", "c")][-len(app.messages) :]


async def test_the_row_under_the_cursor_does_not_move_on_the_screen_when_rows_come_above() -> None:
    ids = [str(n) for n in range(100)]
    lines = LineList(Counting(ids))
    async with shown(lines) as (_app, pilot):
        await press(pilot, *["pagedown"] * 3)
        before = drawn(lines).index(f"row {lines.current_id}")
        lines.set_rows(Counting(["new 1", "new 2", *ids]))
        await pilot.pause()
        assert drawn(lines).index(f"row {lines.current_id}") == before


async def test_when_the_row_is_gone_the_cursor_takes_the_one_in_its_place() -> None:
    lines = LineList(Counting(list("abcd")))
    async with shown(lines) as (app, pilot):
        await press(pilot, "end")
        app.messages.clear()
        lines.set_rows(Counting(list("abc")))
        await pilot.pause()
        assert lines.current_id == "c"
        assert app.messages == [("highlighted", "c")]
        lines.set_rows(Counting([]))
        await pilot.pause()
        assert app.messages[-1] == ("highlighted", None)


async def test_a_following_list_stays_at_its_end_only_while_the_cursor_is_there() -> None:
    lines = LineList(Counting(list("abc")), follow=True)
    async with shown(lines) as (_app, pilot):
        await press(pilot, "end")
        lines.set_rows(Counting(list("abcdefghijklmnop")))
        await pilot.pause()
        assert lines.current_id == "p"
        assert drawn(lines)[-1] == "row p"
        await press(pilot, "up")
        lines.set_rows(Counting(list("abcdefghijklmnopqrst")))
        await pilot.pause()
        assert lines.current_id == "o"


async def test_the_filter_keeps_rows_with_every_word_in_any_case() -> None:
    lines = LineList(TextRows.of(["Alpha one", "beta TWO", "alpha two", "gamma"]))
    async with shown(lines) as (_app, pilot):
        await press(pilot, "end")
        lines.set_filter("ALPHA")
        await pilot.pause()
        assert drawn(lines)[:3] == ["Alpha one", "alpha two", ""]
        lines.set_filter("two alpha")
        await pilot.pause()
        assert drawn(lines)[:2] == ["alpha two", ""]
        assert lines.current_index == 2
        lines.set_filter("")
        await pilot.pause()
        assert (len(lines.shown), lines.current_id) == (4, "2")


async def test_a_filter_that_nothing_holds_says_so() -> None:
    lines = LineList(TextRows.of(["a"]))
    async with shown(lines) as (_app, pilot):
        lines.set_filter("zz")
        await pilot.pause()
        assert drawn(lines)[0] == " Nothing here holds 'zz'."
        assert lines.current_index is None


async def test_new_rows_pass_the_filter_that_is_set() -> None:
    lines = LineList(Counting(["a1", "b1"]))
    async with shown(lines) as (_app, pilot):
        lines.set_filter("a")
        lines.set_rows(Counting(["a1", "b1", "a2", "b2"]))
        await pilot.pause()
        assert drawn(lines)[:3] == ["row a1", "row a2", ""]


async def test_the_filter_key_asks_for_the_filter() -> None:
    async with shown(LineList(Counting(list("abc")))) as (app, pilot):
        await press(pilot, "slash")
        assert app.messages == [("filter", None)]


async def test_long_lines_scroll_sideways() -> None:
    lines = LineList(TextRows.of(["x" * 30 + "y" * 30]))
    async with shown(lines, (20, 5)) as (_app, pilot):
        assert drawn(lines)[0] == "x" * 19 + "…"
        await press(pilot, "shift+right", "shift+right", "shift+right")
        assert drawn(lines)[0] == "x" * 6 + "y" * 13 + "…"
        await press(pilot, "shift+left")
        assert drawn(lines)[0] == "x" * 14 + "y" * 5 + "…"


async def test_a_line_that_goes_on_at_the_right_says_so() -> None:
    lines = [(Span(text),) for text in ("a" * 40, "b" * 41, "c" * 40 + "   ", "日" * 21)]
    rows = TextRows(lines)
    async with shown(LineList(rows)) as (app, _pilot):
        assert drawn(app.lines)[:4] == ["a" * 40, "b" * 39 + "…", "c" * 40, "日" * 19 + " …"]
    async with shown(LineList(rows)) as (app, _pilot):
        app.ascii = True
        app.lines.set_rows(rows)
        assert drawn(app.lines)[1] == "b" * 39 + ">"


async def test_lines_fill_exactly_the_width_whatever_their_characters() -> None:
    texts = ["", "日本語" * 20, "e\u0301" * 60, "\x1b[31m" * 20, "👩\u200d💻" * 20]
    lines = LineList(TextRows([(Span(text),) for text in texts]))
    async with shown(lines, (21, 8)):
        for y in range(8):
            assert lines.render_line(y).cell_length == lines.size.width


async def test_the_cursor_is_drawn_only_where_it_is() -> None:
    lines = LineList(Counting(list("abc")))
    async with shown(lines) as (_app, pilot):
        await press(pilot, "down")
        backgrounds = [next(iter(lines.render_line(y))).style.bgcolor for y in range(3)]
        assert backgrounds[0] == backgrounds[2] != backgrounds[1]


async def test_a_tone_that_does_not_exist_is_an_error() -> None:
    lines = LineList()
    async with shown(lines):
        with pytest.raises(ValueError, match="no tone 'pink'"):
            lines._style("pink")


async def test_going_to_a_row_that_is_not_shown_changes_nothing() -> None:
    lines = LineList(Counting(list("abc")))
    async with shown(lines):
        assert lines.go_to("c")
        assert not lines.go_to("z")
        assert lines.current_id == "c"


def test_text_is_broken_at_spaces() -> None:
    assert wrap("one two three", 7) == ["one two", "three"]


def test_a_line_feed_breaks_and_indentation_holds() -> None:
    assert wrap("a\n  bb cc dd", 7) == ["a", "  bb cc", "  dd"]


def test_a_word_that_is_too_long_is_broken() -> None:
    assert wrap("ab " + "x" * 12, 5) == ["ab", "xxxxx", "xxxxx", "xx"]


def test_broken_text_is_inert() -> None:
    assert wrap("a\x1b[2Jb", 40) == ["a␛[2Jb"]


@given(st.text(max_size=60), st.integers(2, 30))
def test_no_broken_line_is_wider_than_asked(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(cells(line) <= max(width, 10) for line in lines)
    assert all(cells(line) <= width or len(line) == 1 for line in lines)


@given(st.text(max_size=40), st.integers(0, 20))
def test_fitted_text_takes_exactly_its_cells(text: str, width: int) -> None:
    assert cells(fit(text, width)) == width
