"""The keys of the editor and of the Author screen's other panes. Function keys are left alone in text.

Every binding has an id, so that it can be remapped, and a tooltip, from which help is made. Terminals send
ctrl+h, ctrl+i, ctrl+j and ctrl+m as backspace, tab and enter, and alt with b, f, a digit or a sign as other keys:
they are never bound. The first key of each row arrives from every terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from textual.binding import Binding, BindingType


def _key(keys: str, action: str, tooltip: str, name: str | None = None) -> Binding:
    return Binding(keys, action, tooltip, show=False, tooltip=tooltip, id=f"edit.{name or action}")


EDITOR_BINDINGS: Final[list[BindingType]] = [
    _key("up", "cursor_up", "Cursor up"),
    _key("down", "cursor_down", "Cursor down"),
    _key("left", "cursor_left", "Cursor left"),
    _key("right", "cursor_right", "Cursor right"),
    _key("ctrl+left", "cursor_word_left", "One word left"),
    _key("ctrl+right", "cursor_word_right", "One word right"),
    _key("home,ctrl+a", "cursor_line_start", "Start of the line"),
    _key("end,ctrl+e", "cursor_line_end", "End of the line"),
    _key("ctrl+home", "document_start", "Start of the text"),
    _key("ctrl+end", "document_end", "End of the text"),
    _key("pageup", "cursor_page_up", "One page up"),
    _key("pagedown", "cursor_page_down", "One page down"),
    _key("shift+up", "cursor_up(True)", "Select up", "select_up"),
    _key("shift+down", "cursor_down(True)", "Select down", "select_down"),
    _key("shift+left", "cursor_left(True)", "Select left", "select_left"),
    _key("shift+right", "cursor_right(True)", "Select right", "select_right"),
    _key("ctrl+shift+left", "cursor_word_left(True)", "Select one word left", "select_word_left"),
    _key("ctrl+shift+right", "cursor_word_right(True)", "Select one word right", "select_word_right"),
    _key("shift+home", "cursor_line_start(True)", "Select to the start of the line", "select_line_start"),
    _key("shift+end", "cursor_line_end(True)", "Select to the end of the line", "select_line_end"),
    _key("alt+l", "select_line", "Select the line"),
    _key("alt+a", "select_all", "Select everything"),
    _key("backspace", "delete_left", "Delete the character before the cursor"),
    _key("delete,ctrl+d", "delete_right", "Delete the character at the cursor"),
    _key("ctrl+w,ctrl+backspace,alt+backspace", "delete_word_left", "Delete one word to the left"),
    _key("alt+delete", "delete_word_right", "Delete one word to the right"),
    _key("ctrl+u,super+backspace", "delete_to_start_of_line", "Delete to the start of the line"),
    _key("ctrl+k", "delete_to_end_of_line_or_delete_line", "Delete to the end of the line"),
    _key("alt+k,ctrl+shift+k", "delete_line", "Delete the line"),
    _key("alt+right", "indent", "Indent the line or the selected lines"),
    _key("alt+left", "dedent", "Take one step of indentation away"),
    _key("ctrl+x,super+x", "cut", "Cut the selection, or the line"),
    _key("ctrl+c,super+c", "copy", "Copy the selection"),
    _key("ctrl+v", "paste", "Paste what was cut or copied here"),
    _key("ctrl+z,super+z", "undo", "Undo"),
    _key("ctrl+y,super+y", "redo", "Redo"),
    _key(
        "ctrl+@,ctrl+space", "screen.complete", "Complete the word, step or Agent at the cursor", "complete"
    ),
]


def _pane(name: str, keys: str, action: str, verb: str, tooltip: str, shown: bool = False) -> Binding:
    modified = "+" in keys.split(",")[0]
    return Binding(keys, action, verb, show=shown, priority=modified, tooltip=tooltip, id=f"author.{name}")


#: What the Author screen's panes add to check, launch and save. Keys with a modifier also act while typing.
AUTHOR_BINDINGS: Final[Mapping[str, list[Binding]]] = {
    "author": [
        _pane("again", "alt+r", "run_again", "run again", "Launch the same again, as a new run", True),
        _pane("fix", "alt+q", "fix", "fix", "Apply the fix of the problem at the cursor"),
        _pane("problem_next", "alt+down", "problem(1)", "problem", "Go to the next problem"),
        _pane("problem_previous", "alt+up", "problem(-1)", "problem", "Go to the previous problem"),
        _pane("step", "alt+t", "show_step", "step", "Show the step of this line in Runs"),
        _pane(
            "step_next", "alt+pagedown", "step(1)", "step", "Go to the next line with a step of the last run"
        ),
        _pane("step_previous", "alt+pageup", "step(-1)", "step", "Go to the previous line with a step"),
        _pane("tab_next", "ctrl+pagedown", "file(1)", "script", "Go to the next open script"),
        _pane("tab_previous", "ctrl+pageup", "file(-1)", "script", "Go to the previous open script"),
        _pane(
            "save_version",
            "alt+s",
            "save_version",
            "save version",
            "Save the text as a version of the library",
        ),
        _pane("compare", "alt+c", "compare", "compare", "Compare with another script or version"),
        _pane("arguments", "alt+g", "go_arguments", "arguments", "Go to the arguments"),
    ],
    "author.scripts": [
        _pane("new", "a", "screen.new", "new", "Write a first script and its stub set", True),
        _pane("outside", "e", "screen.edit_outside", "edit in $EDITOR", "Open the script in $EDITOR", True),
        _pane(
            "compare_here",
            "equals_sign",
            "screen.compare",
            "compare",
            "Compare with another script or version",
            True,
        ),
        _pane("close", "x", "screen.close_file", "close", "Close the script"),
    ],
    "author.problems": [
        _pane("fix_here", "f", "screen.fix", "fix", "Apply the fix of this problem", True),
    ],
}
