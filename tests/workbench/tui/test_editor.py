"""The script editor as a person types in it: keys, text that stays exact, marks and problems in the gutter."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import TextArea

from workbench.inert import acts
from workbench.tui.widgets import editor as editor_module
from workbench.tui.widgets.editor import PASTE_CHARACTERS, ScriptEditor
from workbench.tui.widgets.editor_json import ArgumentsEditor
from workbench.tui.widgets.editor_keys import AUTHOR_BINDINGS, EDITOR_BINDINGS
from workbench.tui.widgets.editor_marks import Mark, ProblemMark

SCRIPT = "const a = await agent({\n  stepId: 'a',\n});\nreturn a;\n"
GUTTER = 6


class OneEditor(App[None]):
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [
        *(Binding(f"f{number}", f"seen('f{number}')") for number in range(1, 13)),
        Binding("ctrl+r", "seen('ctrl+r')", priority=True),
        Binding("escape", "seen('escape')"),
        Binding("tab", "seen('tab')", priority=True),
    ]

    def __init__(self, editor: ScriptEditor) -> None:
        super().__init__()
        self.editor = editor
        self.seen: list[str] = []
        self.refused: list[int] = []

    def compose(self) -> ComposeResult:
        yield self.editor

    def action_seen(self, key: str) -> None:
        self.seen.append(key)

    def on_script_editor_paste_refused(self, message: ScriptEditor.PasteRefused) -> None:
        self.refused.append(message.length)


@asynccontextmanager
async def running(
    text: str = SCRIPT, *, editor: ScriptEditor | None = None, size: tuple[int, int] = (60, 12)
) -> AsyncIterator[tuple[Pilot[None], ScriptEditor]]:
    app = OneEditor(editor or ScriptEditor(text))
    async with app.run_test(size=size) as pilot:
        app.editor.focus()
        await pilot.pause()
        yield pilot, app.editor


def shown(editor: ScriptEditor, row: int) -> str:
    """What stands in a row of the editor, with the gutter."""
    return editor.render_line(row).text.rstrip()


async def paste(pilot: Pilot[None], text: str) -> None:
    pilot.app.post_message(events.Paste(text))
    await pilot.pause()


async def test_what_is_typed_stands_in_the_text_and_undo_takes_it_back() -> None:
    async with running("") as (pilot, editor):
        await pilot.press(*"let x;", "enter", *"return x;")
        assert editor.text == "let x;\nreturn x;"
        await pilot.press("ctrl+z")
        await pilot.press("ctrl+z")
        assert editor.text == "let x;"
        await pilot.press("ctrl+y")
        assert editor.text == "let x;\n"


async def test_every_line_shows_its_number_and_the_glyphs_beside_it() -> None:
    async with running() as (pilot, editor):
        editor.set_marks({0: Mark("✓", "good"), 3: Mark("●", "running")})
        editor.set_problems([ProblemMark(2, 11, "warning"), ProblemMark(4, 8, "error")])
        await pilot.pause()
        assert shown(editor, 0) == "✓   1 const a = await agent({"
        assert shown(editor, 1) == " W  2   stepId: 'a',"
        assert shown(editor, 3) == "●E  4 return a;"
        underlined = [s.text for s in editor.render_line(1) if s.style is not None and s.style.underline]
        assert underlined == ["'a'"]


async def test_marks_and_problems_stay_with_their_lines_while_it_is_typed() -> None:
    async with running() as (pilot, editor):
        editor.set_marks({3: Mark("✓", "good")})
        editor.set_problems([ProblemMark(4, 8, "error")])
        editor.go_to(1)
        await pilot.press("enter", "enter")
        assert editor.marks == {5: Mark("✓", "good")}
        assert editor.problems == (ProblemMark(6, 8, "error"),)
        await pilot.press("ctrl+z", "ctrl+z")
        assert editor.marks == {3: Mark("✓", "good")}


async def test_only_lines_that_look_different_are_painted_again() -> None:
    async with running() as (pilot, editor):
        editor.set_marks({0: Mark("●", "running"), 1: Mark("○", "quiet")})
        await pilot.pause()
        with patch.object(editor_module, "paint", wraps=editor_module.paint) as painted:
            editor.set_marks({0: Mark("✓", "good"), 1: Mark("○", "quiet")})
            await pilot.pause()
            assert {call.args[0].row for call in painted.call_args_list} == {0}
            painted.reset_mock()
            await pilot.press("x")
            await pilot.pause()
            assert {call.args[0].row for call in painted.call_args_list} == {0}


async def test_enter_keeps_the_indentation_and_deepens_it_after_a_bracket() -> None:
    async with running("  if (x) {") as (pilot, editor):
        await pilot.press("ctrl+end", "enter", "y", "enter", "z")
        assert editor.text == "  if (x) {\n    y\n    z"


async def test_alt_arrows_indent_and_dedent_the_selected_lines_as_one_step() -> None:
    async with running("a\n\n  b\n\tc\nd") as (pilot, editor):
        await pilot.press("alt+right")
        assert editor.text == "  a\n\n  b\n\tc\nd"
        await pilot.press("ctrl+z", "ctrl+home", "shift+down", "shift+down", "shift+down", "shift+down")
        await pilot.press("alt+right")
        assert editor.text == "  a\n\n    b\n  \tc\nd"
        await pilot.press("alt+left", "alt+left")
        assert editor.text == "a\n\nb\nc\nd"
        await pilot.press("ctrl+z")
        assert editor.text == "a\n\n  b\n\tc\nd"


async def test_alt_with_a_letter_is_a_binding_and_types_nothing() -> None:
    async with running("ab\ncd") as (pilot, editor):
        pilot.app.post_message(events.Key("alt+a", "a"))
        await pilot.pause()
        assert editor.text == "ab\ncd"
        assert editor.selected_text == "ab\ncd"
        pilot.app.post_message(events.Key("alt+z", "z"))
        await pilot.pause()
        assert editor.text == "ab\ncd"


async def test_a_paste_comes_in_with_line_feeds_and_without_half_characters() -> None:
    async with running("") as (pilot, editor):
        await paste(pilot, "a\r\nb\rc\nd\ud800")
        assert editor.text == "a\nb\nc\nd\ufffd"


async def test_a_paste_that_is_too_large_is_refused_whole() -> None:
    async with running("x") as (pilot, editor):
        await paste(pilot, "y" * (PASTE_CHARACTERS + 1))
        assert editor.text == "x"
        assert pilot.app.refused == [PASTE_CHARACTERS + 1]  # type: ignore[attr-defined]


@pytest.mark.parametrize("key", [*(f"f{number}" for number in range(1, 13)), "ctrl+r", "escape", "tab"])
async def test_the_applications_keys_pass_the_editor(key: str) -> None:
    async with running() as (pilot, editor):
        await pilot.press(key)
        assert pilot.app.seen == [key]  # type: ignore[attr-defined]
        assert editor.text == SCRIPT
        assert editor.selection.is_empty


def test_every_binding_has_an_id_and_a_tooltip_and_none_takes_a_key_of_the_application() -> None:
    rows = [*EDITOR_BINDINGS, *(row for rows in AUTHOR_BINDINGS.values() for row in rows)]
    ids = []
    for row in rows:
        assert isinstance(row, Binding)
        assert row.id and row.tooltip
        ids.append(row.id)
        for key in row.key.split(","):
            assert key not in {"ctrl+h", "ctrl+i", "ctrl+j", "ctrl+m", "ctrl+p", "ctrl+q", "ctrl+r", "ctrl+s"}
            assert not key.startswith("f1") and key.lstrip("f") not in {str(n) for n in range(2, 13)}
    assert len(ids) == len(set(ids))


def test_every_act_of_the_stock_editor_can_still_be_done() -> None:
    stock = {row.action for row in TextArea.BINDINGS if isinstance(row, Binding)}
    ours = {row.action for row in EDITOR_BINDINGS if isinstance(row, Binding)}
    assert stock <= ours


HOSTILE = "const s = '\x1b[31m\x9b0m\u202e\u2066\u200b\ufeff\U000e0041\x07[bold]x[/]\x00\u2028';\t// \x7f\r"


async def test_i13_what_would_act_on_the_terminal_is_shown_and_the_text_stays() -> None:
    async with running(HOSTILE + "\nnext", size=(200, 5)) as (pilot, editor):
        assert editor.text == HOSTILE + "\nnext"
        text = "".join(segment.text for row in range(5) for segment in editor.render_line(row))
        assert not acts(text)
        assert "␛[31m\\u{009B}0m\\u{202E}\\u{2066}\\u{200B}\\u{FEFF}\\u{E0041}␇[bold]x[/]␀\\u{2028}" in text
        await pilot.press("ctrl+end", "x")
        assert editor.text == HOSTILE + "\nnextx"


async def test_the_cursor_stands_where_the_character_is_drawn() -> None:
    async with running("a\u202eb日c\n012345678901234") as (pilot, editor):
        await pilot.press(*["right"] * 3)
        line = editor.render_line(0)
        cell = editor.cursor_screen_offset.x
        assert line.crop(cell, cell + 2).text == "日"
        await pilot.press("down")
        assert editor.cursor_location == (1, cell - GUTTER)
        await pilot.click(editor, offset=(GUTTER + 4, 0))
        assert editor.cursor_location == (0, 1)


async def test_a_line_that_is_wider_than_the_view_says_so_and_scrolls_with_the_cursor() -> None:
    line = "const name = '" + "x" * 80 + "';"
    async with running(line, size=(40, 5)) as (pilot, editor):
        assert shown(editor, 0).endswith("…")
        assert len(shown(editor, 0)) == 40
        await pilot.press("end")
        await pilot.pause()
        assert shown(editor, 0).endswith("xx';")


async def test_beside_a_scrollbar_a_line_that_goes_on_still_says_so() -> None:
    async with running(("x" * 80 + "\n") * 30, size=(40, 10)) as (_pilot, editor):
        assert editor.show_vertical_scrollbar
        assert shown(editor, 3).endswith("…")
        assert len(shown(editor, 3)) == 39


async def test_the_matching_bracket_is_found_across_lines_in_both_directions() -> None:
    async with running("f({\n a: [1, {}],\n}) // )") as (_pilot, editor):
        assert editor.find_matching_bracket("(", (0, 1)) == (2, 1)
        assert editor.find_matching_bracket("{", (0, 2)) == (2, 0)
        assert editor.find_matching_bracket(")", (2, 1)) == (0, 1)
        assert editor.find_matching_bracket("]", (1, 11)) == (1, 4)
        assert editor.find_matching_bracket(")", (2, 6)) is None
        assert editor.find_matching_bracket("x", (0, 0)) is None


async def test_a_selection_over_several_lines_is_drawn_and_cut() -> None:
    async with running("abc\n\ndef") as (pilot, editor):
        await pilot.press("right", "shift+down", "shift+down", "shift+right")
        style = editor._styles.theme.selection_style
        assert style is not None

        def marked(row: int) -> str:
            return "".join(
                s.text for s in editor.render_line(row) if s.style and s.style.bgcolor == style.bgcolor
            )

        assert [marked(0), marked(1), marked(2)] == ["bc ", " ", "de"]
        await pilot.press("ctrl+x")
        assert editor.text == "af"
        await pilot.press("ctrl+v")
        assert editor.text == "abc\n\ndef"


@given(st.text("ab\n{ \r"), st.text("ab\n{ \r"))
@settings(max_examples=60, deadline=None)
def test_become_is_one_edit_that_undo_takes_back(old: str, new: str) -> None:
    app = OneEditor(ScriptEditor(old))
    with app._context():
        editor = app.editor
        before = editor.lines.newline
        editor.become(new)
        assert editor.text == new
        if editor.lines.newline == before and old != new:
            assert len(editor.history.undo_stack) == 1
            editor.undo()
            assert editor.text == old


async def test_become_keeps_the_cursor_at_its_text() -> None:
    async with running("one\ntwo\nthree") as (_pilot, editor):
        editor.go_to(3, 4)
        editor.become("zero\none\n2\nthree")
        assert editor.cursor_location == (3, 3)


async def test_a_read_only_editor_takes_no_text() -> None:
    async with running(editor=ScriptEditor(SCRIPT, read_only=True)) as (pilot, editor):
        await pilot.press("x", "enter", "alt+right", "backspace")
        assert editor.text == SCRIPT


async def test_colours_follow_the_theme() -> None:
    async with running("return 'a';") as (pilot, editor):
        dark = editor.render_line(0)
        pilot.app.theme = "textual-light"
        await pilot.pause()
        assert editor.theme == "workbench-light"
        assert editor.render_line(0) != dark


async def test_the_arguments_editor_underlines_the_place_of_an_error() -> None:
    async with running(editor=ArgumentsEditor('{"a": 1,}')) as (pilot, editor):
        assert isinstance(editor, ArgumentsEditor)
        editor.show_error((1, 9))
        await pilot.pause()
        assert [s.text for s in editor.render_line(0) if s.style is not None and s.style.underline] == ["}"]
        assert shown(editor, 0) == '{"a": 1,}'
        editor.show_error(None)
        await pilot.pause()
        assert not [s for s in editor.render_line(0) if s.style is not None and s.style.underline]


async def test_an_empty_arguments_editor_shows_what_is_sent_without_arguments() -> None:
    async with running(editor=ArgumentsEditor()) as (pilot, editor):
        assert "{}" in editor.render_line(0).text
        await pilot.press("{")
        assert shown(editor, 0) == "{"


async def test_a_key_asks_the_tree_only_for_the_painted_rows() -> None:
    async with running(SCRIPT * 400, size=(60, 12)) as (pilot, _editor):
        with patch.object(editor_module.Highlights, "_fill", autospec=True) as fill:
            fill.side_effect = lambda self, first: self._rows.update(
                dict.fromkeys(range(first, first + 32), ())
            )
            await pilot.press("x")
            await pilot.pause()
            assert {call.args[1] for call in fill.call_args_list} == {0}


async def test_ten_thousand_lines_can_be_opened_and_typed_in() -> None:
    async with running("const a = 1;\n" * 10_000) as (pilot, editor):
        with patch.object(editor_module, "paint", wraps=editor_module.paint) as painted:
            await pilot.press("ctrl+end", "x")
            await pilot.pause()
            assert editor.text.endswith("\nx")
            assert len({call.args[0].row for call in painted.call_args_list}) <= 2 * editor.size.height


async def test_a_place_that_is_gone_to_before_the_first_layout_does_not_scroll_sideways() -> None:
    editor = ScriptEditor("const a = 1;\n" * 40)
    editor.go_to(30, 4)
    async with running(editor=editor) as (pilot, _):
        await pilot.pause()
        assert editor.scroll_offset.x == 0
        assert editor.scroll_offset.y <= 29 < editor.scroll_offset.y + editor.size.height


@pytest.mark.parametrize(("column", "left"), [(50, 0), (80, 29)])
async def test_going_to_a_place_scrolls_sideways_only_as_far_as_it_must(column: int, left: int) -> None:
    async with running("short\n" + "x" * 100 + "\n" + "short\n" * 40) as (pilot, editor):
        editor.go_to(2, column)
        await pilot.pause()
        assert editor.scroll_offset.x == left
