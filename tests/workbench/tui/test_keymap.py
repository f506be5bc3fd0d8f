"""The table of keys keeps its rules, and a person's keys are taken, or refused in words."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import _character_to_key
from textual.screen import Screen

import workbench.tui
from workbench.tui import keymap, remap
from workbench.tui.keypage import page
from workbench.tui.keys.row import Key
from workbench.tui.screens.help import help_rows
from workbench.tui.widgets.editor_keys import EDITOR_BINDINGS


def our_classes() -> Iterator[type[DOMNode]]:
    """Every widget, screen and application class of this package."""
    for module in pkgutil.walk_packages(workbench.tui.__path__, "workbench.tui."):
        loaded = importlib.import_module(module.name)
        for value in vars(loaded).values():
            if isinstance(value, type) and issubclass(value, DOMNode) and value.__module__ == module.name:
                yield value


def test_every_row_has_id_verb_and_a_sentence() -> None:
    for row in keymap.TABLE:
        assert re.fullmatch(r"[a-z]+\.[a-z_0-9]+(\(.*\))?", row.id), row
        assert row.verb and row.tooltip and row.pane in keymap.PANES, row
        assert row.tooltip[0].isupper() and not row.tooltip.endswith("."), row
        assert len(row.tooltip) <= 52, row


def test_ids_are_unique() -> None:
    assert len(keymap.BY_ID) == len(keymap.TABLE)


def test_a_letter_means_the_same_verb_in_every_pane() -> None:
    verbs = defaultdict(set)
    for row in keymap.TABLE:
        for key in row.keys.split(","):
            if len(key) == 1 and key.isalpha():
                verbs[key].add(row.verb)
    assert {key: names for key, names in verbs.items() if len(names) > 1} == {}


def test_no_two_rows_meet_on_one_key() -> None:
    assert list(remap.clashes({})) == []


def test_keys_that_terminals_send_as_others_are_not_bound() -> None:
    for row in keymap.TABLE:
        assert not set(row.keys.split(",")) & remap.unusable(), row


#: What xterm puts before the end of a sequence, and kitty's protocol before its "u", for modifiers.
BITS = {"shift": 1, "alt": 2, "ctrl": 4, "super": 8}
LETTERS = {"up": "A", "down": "B", "right": "C", "left": "D", "end": "F", "home": "H"}
NUMBERS = {"delete": 3, "pageup": 5, "pagedown": 6}
PLAIN = {
    "escape": "\x1b",
    "tab": "\t",
    "enter": "\r",
    "backspace": "\x7f",
    "ctrl+@": "\x00",
    "shift+tab": "\x1b[Z",
}
FUNCTION = {f"f{n}": f"\x1bO{letter}" for n, letter in enumerate("PQRS", 1)} | {
    f"f{n}": f"\x1b[{number}~" for n, number in enumerate((15, 17, 18, 19, 20, 21, 23, 24), 5)
}
CHARACTERS = {_character_to_key(chr(code)): chr(code) for code in range(0x20, 0x7F)}


def sent(key: str) -> str | None:
    """What every terminal sends for a key; None where that takes kitty's protocol."""
    *modifiers, name = key.split("+")
    bits = 1 + sum(BITS[modifier] for modifier in modifiers)
    if key in PLAIN or key in FUNCTION:
        return PLAIN.get(key) or FUNCTION[key]
    if name in LETTERS:
        return f"\x1b[{LETTERS[name]}" if bits == 1 else f"\x1b[1;{bits}{LETTERS[name]}"
    if name in NUMBERS:
        return f"\x1b[{NUMBERS[name]}~" if bits == 1 else f"\x1b[{NUMBERS[name]};{bits}~"
    if name in CHARACTERS and not modifiers:
        return CHARACTERS[name]
    if name in CHARACTERS and modifiers == ["alt"]:
        return f"\x1b{CHARACTERS[name]}"
    if len(name) == 1 and name.isalpha() and modifiers == ["ctrl"]:
        return chr(ord(name) & 0x1F)
    return None


def sent_by_kitty(key: str) -> str:
    *modifiers, name = key.split("+")
    code = 127 if name == "backspace" else ord(CHARACTERS[name])
    return f"\x1b[{code};{1 + sum(BITS[modifier] for modifier in modifiers)}u"


@pytest.mark.parametrize("row", keymap.TABLE, ids=lambda row: row.id)
def test_every_key_arrives_as_itself_and_the_first_from_every_terminal(row: Key) -> None:
    keys = row.keys.split(",")
    assert sent(keys[0]) is not None
    for key in keys:
        assert remap.typed(sent(key) or sent_by_kitty(key)) == [key]


@pytest.mark.parametrize("key", ["alt+f", "alt+b", "alt+=", "alt+-", "alt+1", "alt+.", "ctrl+m", "ctrl+["])
def test_a_key_that_textual_reads_as_another_is_refused(key: str) -> None:
    (problem,) = remap.load({"review.approve": key}).problems
    assert "which terminals send as another key" in problem


def test_keys_that_arrive_are_not_refused() -> None:
    assert remap.load({"review.approve": "alt+v,ctrl+n,alt+shift+n"}).problems == ()


def test_priority_keys_are_no_plain_characters() -> None:
    for row in keymap.TABLE:
        if row.priority:
            assert all(re.fullmatch(r"f\d+|(ctrl|alt)\+.+", key) for key in row.keys.split(",")), row


def test_every_pane_is_active_somewhere_and_every_chain_knows_its_panes() -> None:
    reached = {pane for chain in keymap.CHAINS.values() for pane in chain}
    assert reached == set(keymap.PANES)


def test_keys_that_move_never_destroy() -> None:
    moving = {"up", "down", "left", "right", "pageup", "pagedown", "home", "end", "tab", "shift+tab", "enter"}
    for row in keymap.TABLE:
        if row.verb in ("cancel", "delete", "quit"):
            assert not set(row.keys.split(",")) & moving, row


def test_every_binding_of_ours_is_in_the_table_with_its_tooltip() -> None:
    editor = {binding.id for binding in EDITOR_BINDINGS if isinstance(binding, Binding)}
    found = set()
    for cls in our_classes():
        for binding in Binding.make_bindings(cls.__dict__.get("BINDINGS", ())):
            assert binding.id and binding.tooltip, (cls, binding)
            assert binding.id in keymap.BY_ID or binding.id in editor, (cls, binding)
            found.add(binding.id)
    assert set(keymap.BY_ID) - found == set()


def test_none_of_our_classes_inherits_keys_without_ids() -> None:
    for cls in our_classes():
        if issubclass(cls, App | Screen) or getattr(cls, "can_focus", False):
            for _key, binding in cls._merge_bindings():
                assert binding.id, (cls, binding)


def test_help_shows_every_row_with_its_keys() -> None:
    keys = remap.load({})
    text = "\n".join("".join(span.text for span in line) for line in help_rows((), keys))
    for row in keymap.TABLE:
        assert row.id in text, row
        assert row.tooltip[:50] in text, row
    for heading in keymap.PANES.values():
        assert heading in text


def test_help_starts_with_the_panes_that_are_active() -> None:
    lines = help_rows(("runs.list", "list"), remap.load({}))
    assert [span.text for span in lines[0]] == ["Runs: list", "  here"]


def test_help_shows_a_persons_keys_not_the_tables() -> None:
    keys = remap.load({"runs.cancel": "f9"})
    lines = help_rows((), keys, "runs.cancel")
    text = "".join(span.text for span in lines[1])
    assert "f9" in text and not re.search(r"\bc\b", text)


@pytest.mark.parametrize(
    ("query", "wanted"), [("quit", "app.quit"), ("CTRL+P", "app.palette"), ("delete run", "runs.delete")]
)
def test_help_is_filtered_by_typing(query: str, wanted: str) -> None:
    lines = help_rows((), remap.load({}), query)
    assert any(wanted in span.text for line in lines for span in line)
    assert not any("list.up" in span.text for line in lines for span in line)


def test_a_filter_that_nothing_holds_leaves_nothing() -> None:
    assert help_rows((), remap.load({}), "zzz") == []


def test_a_person_can_remap() -> None:
    keys = remap.load({"runs.cancel": "x", "app.quit": "ctrl+e, f10"})
    assert keys.problems == ()
    assert keys.overrides == {"runs.cancel": "x", "app.quit": "ctrl+e,f10"}
    assert keys.label("app.quit") == "ctrl+e f10"
    assert keys.label("runs.delete") == "d"


def test_two_bindings_can_be_exchanged() -> None:
    keys = remap.load({"runs.cancel": "d", "runs.delete": "c"})
    assert keys.problems == ()
    assert keys.overrides == {"runs.cancel": "d", "runs.delete": "c"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"runs.cansel": "x"}, "keymap.runs.cansel names no key binding; did you mean runs.cancel?"),
        ({"zzz": "x"}, "keymap.zzz names no key binding"),
        ({"runs.cancel": ""}, "keymap.runs.cancel must be a key such as ctrl+e, or several with commas"),
        ({"runs.cancel": 7}, "keymap.runs.cancel must be a key such as ctrl+e"),
        (
            {"runs.cancel": "ctrl+h"},
            "keymap.runs.cancel is ctrl+h, which terminals send as another key; it keeps c",
        ),
        ({"runs.cancel": "ctrl+i"}, "terminals send as another key"),
        ({"runs.cancel": "banana"}, "keymap.runs.cancel holds 'banana', which is not a key; it keeps c"),
        ({"runs.cancel": "hyper+"}, "which is not a key"),
        ({"app.quit": "q"}, "keymap.app.quit is q, which would also act while you type; it keeps ctrl+q"),
        (
            {"runs.cancel": "d"},
            "keymap.runs.cancel is d, which runs.delete uses in the same pane; it keeps c",
        ),
        ({"runs.cancel": "?"}, "keymap.runs.cancel is ?, which app.keys uses in the same pane; it keeps c"),
        ({"list.open": "k"}, "keymap.list.open is k, which list.up uses in the same pane; it keeps enter"),
    ],
)
def test_what_cannot_be_used_is_reported_and_left_as_it_was(given: dict[str, object], sentence: str) -> None:
    keys = remap.load(given)
    assert len(keys.problems) == 1
    assert sentence in keys.problems[0]
    assert keys.overrides == {}


def test_one_wrong_key_does_not_spoil_the_others() -> None:
    keys = remap.load({"runs.cancel": "d", "runs.copy": "f9"})
    assert keys.overrides == {"runs.copy": "f9"}
    assert len(keys.problems) == 1


def test_hjkl_are_beside_the_arrows_wherever_letters_are_not_typed() -> None:
    letters = remap.load({}, letters=True)
    assert not letters.problems
    assert list(remap.clashes(letters.overrides)) == []
    for id, keys in (("runs.tab_left", "left,h"), ("dialog.down", "down,j"), ("list.up", "up,k")):
        assert letters.keys(id) == keys
    arrows = {"h": "left", "j": "down", "k": "up", "l": "right"}
    for row in keymap.TABLE:
        for key in set(letters.keys(row.id).split(",")) - set(row.keys.split(",")):
            assert arrows[key] in row.keys.split(","), row
            assert row.pane not in ("field", "author.editor", "help", "palette"), row


def test_a_persons_own_keys_come_before_hjkl() -> None:
    mine = remap.load({"runs.cancel": "h"}, letters=True)
    assert mine.keys("runs.cancel") == "h"
    assert mine.keys("runs.tab_left") == "left"
    assert mine.keys("runs.tab_right") == "right,l"
    assert not mine.problems


def test_the_same_key_may_serve_panes_that_are_never_together() -> None:
    assert remap.load({"notices.copy": "f9", "runs.cancel": "f9"}).problems == ()


def test_keys_are_shown_as_people_write_them() -> None:
    assert remap.display("question_mark") == "?"
    assert remap.display("shift+left") == "shift+←"
    assert remap.display("shift+left", unicode=False) == "shift+left"


def test_the_page_of_keys_is_current() -> None:
    found = (Path(__file__).parents[3] / "docs" / "keys.md").read_text("utf-8")
    assert found == page(), "make it anew: python -m workbench.tui.keypage docs/keys.md"
