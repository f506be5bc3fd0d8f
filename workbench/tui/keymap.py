"""One table of all keys of all screens.

Every row has an id, which ``keymap:`` of ``workbench.yaml`` uses, a verb for the bottom line and a sentence
for help. Widgets and screens take their bindings from here with ``bindings(pane)``; help and the bottom line
are generated from the same rows. The same single letter carries the same verb in every pane. Terminals send
ctrl+h, ctrl+i, ctrl+j and ctrl+m as other keys, so they are never bound. ``remap`` puts a person's keys in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from textual.binding import Binding, BindingType

from .widgets.editor_keys import AUTHOR_BINDINGS, EDITOR_BINDINGS


@dataclass(frozen=True, slots=True)
class Key:
    """One row: what ``keys`` do in ``pane``.

    ``keys`` is a comma-separated list in Textual's names. ``shown`` puts the verb into the bottom line.
    ``priority`` keys act before the focused widget sees them, text fields included.
    """

    id: str
    pane: str
    keys: str
    action: str
    verb: str
    tooltip: str
    shown: bool = False
    priority: bool = False


#: Panes with the heading that help gives them. A pane is where keys act: a kind of widget or a screen.
PANES: Final[Mapping[str, str]] = {
    "app": "Everywhere",
    "screen": "On every screen",
    "list": "In lists",
    "field": "In text fields",
    "button": "On buttons and choices",
    "author": "Author",
    "author.scripts": "Author: scripts",
    "author.editor": "Author: editor",
    "author.problems": "Author: problems",
    "runs": "Runs",
    "runs.list": "Runs: list",
    "runs.detail": "Runs: details of a run",
    "review": "Review",
    "review.list": "Review: list",
    "review.output": "Review: output",
    "replay": "Replay",
    "replay.source": "Replay: source",
    "replay.sight": "Replay: what is in sight",
    "host": "Host",
    "host.detail": "Host: a section",
    "compare": "In a comparison",
    "dialog": "In dialogs",
    "help": "In help",
    "palette": "In the command palette",
    "notices": "In notices",
}

#: What is active together, innermost first: the focused pane, then what surrounds it.
CHAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "author.scripts": ("author.scripts", "list", "author", "screen", "app"),
    "author.editor": ("author.editor", "author", "screen", "app"),
    "author.problems": ("author.problems", "list", "author", "screen", "app"),
    "author.field": ("field", "author", "screen", "app"),
    "author.button": ("button", "author", "screen", "app"),
    "runs.list": ("runs.list", "list", "runs", "screen", "app"),
    "runs.detail": ("runs.detail", "list", "runs", "screen", "app"),
    "runs.field": ("field", "runs", "screen", "app"),
    "review.list": ("review.list", "list", "review", "screen", "app"),
    "review.output": ("review.output", "list", "review", "screen", "app"),
    "review.field": ("field", "review", "screen", "app"),
    "review.button": ("button", "review", "screen", "app"),
    "replay.frames": ("list", "replay", "screen", "app"),
    "replay.source": ("replay.source", "list", "replay", "screen", "app"),
    "replay.sight": ("replay.sight", "list", "replay", "screen", "app"),
    "replay.field": ("field", "replay", "screen", "app"),
    "host.list": ("list", "host", "screen", "app"),
    "host.detail": ("host.detail", "list", "host", "screen", "app"),
    "host.field": ("field", "host", "screen", "app"),
    "compare": ("list", "compare", "app"),
    "dialog": ("button", "dialog", "app"),
    "dialog.list": ("list", "dialog", "app"),
    "dialog.field": ("field", "dialog", "app"),
    "help": ("list", "help", "app"),
    "help.field": ("field", "help", "app"),
    "palette": ("list", "palette", "app"),
    "palette.field": ("field", "palette", "app"),
    "notices": ("list", "notices", "app"),
}

_APP: Final = (
    Key("app.author", "app", "f2", "show_screen('author')", "Author", "Go to Author", priority=True),
    Key("app.runs", "app", "f3", "show_screen('runs')", "Runs", "Go to Runs", priority=True),
    Key("app.review", "app", "f4", "show_screen('review')", "Review", "Go to Review", priority=True),
    Key("app.replay", "app", "f5", "show_screen('replay')", "Replay", "Go to Replay", priority=True),
    Key("app.host", "app", "f6", "show_screen('host')", "Host", "Go to Host", priority=True),
    Key("app.palette", "app", "ctrl+p", "palette", "palette", "Search all commands", priority=True),
    Key("app.command", "app", "colon", "palette", "palette", "Search all commands, outside text fields"),
    Key("app.help", "app", "f1", "help", "help", "Show all keys, from anywhere", priority=True),
    Key(
        "app.keys",
        "app",
        "question_mark",
        "help",
        "all keys",
        "Show all keys, outside text fields",
        shown=True,
    ),
    Key("app.notices", "app", "n", "notices", "notices", "Read past notices again"),
    Key(
        "app.quit",
        "app",
        "ctrl+q",
        "leave",
        "quit",
        "Leave, after saying what becomes of live runs",
        priority=True,
    ),
    Key(
        "app.copy_selection",
        "app",
        "ctrl+c",
        "copy_selection",
        "copy",
        "Copy the text selected with the mouse",
    ),
)

_SHARED: Final = (
    Key("screen.next", "screen", "tab", "pane(1)", "pane", "Go to the next pane"),
    Key("screen.previous", "screen", "shift+tab", "pane(-1)", "pane", "Go to the previous pane"),
    Key(
        "screen.back",
        "screen",
        "escape",
        "back",
        "back",
        "Clear the filter, or go back to the screen's list",
        shown=True,
    ),
    Key("list.up", "list", "up,k", "cursor(-1)", "up", "Go up one line"),
    Key("list.down", "list", "down,j", "cursor(1)", "down", "Go down one line"),
    Key("list.page_up", "list", "pageup", "page(-1)", "up", "Go up one page"),
    Key("list.page_down", "list", "pagedown", "page(1)", "down", "Go down one page"),
    Key("list.first", "list", "home", "edge(-1)", "first", "Go to the first line"),
    Key("list.last", "list", "end", "edge(1)", "last", "Go to the last line"),
    Key("list.left", "list", "shift+left", "sideways(-8)", "scroll", "Scroll to the left"),
    Key("list.right", "list", "shift+right", "sideways(8)", "scroll", "Scroll to the right"),
    Key("list.open", "list", "enter", "select", "open", "Open the line under the cursor", shown=True),
    Key("list.filter", "list", "slash", "filter", "filter", "Show only lines that hold a text", shown=True),
    Key("field.leave", "field", "escape", "leave_field", "leave", "Leave the field for the list", shown=True),
    Key("field.submit", "field", "enter", "submit", "accept", "Accept what was typed", shown=True),
    Key("field.left", "field", "left", "cursor_left", "left", "Move left"),
    Key("field.right", "field", "right", "cursor_right", "right", "Move right"),
    Key("field.select_left", "field", "shift+left", "cursor_left(True)", "select", "Select to the left"),
    Key("field.select_right", "field", "shift+right", "cursor_right(True)", "select", "Select to the right"),
    Key("field.word_left", "field", "ctrl+left", "cursor_left_word", "left", "Move left by a word"),
    Key("field.word_right", "field", "ctrl+right", "cursor_right_word", "right", "Move right by a word"),
    Key("field.start", "field", "home,ctrl+a", "home", "start", "Move to the start"),
    Key("field.end", "field", "end,ctrl+e", "end", "end", "Move to the end"),
    Key("field.rub_out", "field", "backspace", "delete_left", "rub out", "Remove the character to the left"),
    Key(
        "field.remove",
        "field",
        "delete,ctrl+d",
        "delete_right",
        "rub out",
        "Remove the character to the right",
    ),
    Key(
        "field.rub_out_word", "field", "ctrl+w", "delete_left_word", "rub out", "Remove the word to the left"
    ),
    Key(
        "field.rub_out_start",
        "field",
        "ctrl+u",
        "delete_left_all",
        "rub out",
        "Remove everything to the left",
    ),
    Key(
        "field.rub_out_end",
        "field",
        "ctrl+k",
        "delete_right_all",
        "rub out",
        "Remove everything to the right",
    ),
    Key("field.cut", "field", "ctrl+x", "cut", "cut", "Cut the selection"),
    Key("field.copy", "field", "ctrl+c", "copy", "copy", "Copy the selection"),
    Key("field.paste", "field", "ctrl+v", "paste", "paste", "Paste"),
    Key("button.press", "button", "enter,space", "press", "press", "Do what the button says", shown=True),
)

#: The rows of the Author screen; its editing keys are in "author.editor".
_AUTHOR: Final = (
    Key(
        "author.check",
        "author",
        "ctrl+t",
        "check",
        "check",
        "Check the script now",
        shown=True,
        priority=True,
    ),
    Key(
        "author.launch",
        "author",
        "ctrl+r",
        "launch",
        "launch",
        "Check and launch the script",
        shown=True,
        priority=True,
    ),
    Key(
        "author.save",
        "author",
        "ctrl+s",
        "save",
        "save",
        "Save the script to its file",
        shown=True,
        priority=True,
    ),
)

#: What the panes of the Author screen add, as their module lists it.
_PANES_OF_AUTHOR: Final = tuple(
    Key(
        item.id or "",
        pane,
        item.key,
        item.action,
        item.description,
        item.tooltip,
        shown=item.show,
        priority=item.priority,
    )
    for pane, items in AUTHOR_BINDINGS.items()
    for item in items
)

#: The editor's own keys, as its module lists them.
_EDITOR: Final = tuple(
    Key(item.id or "", "author.editor", item.key, item.action, item.description.lower(), item.tooltip)
    for item in EDITOR_BINDINGS
    if isinstance(item, Binding)
)

_RUNS: Final = (
    Key(
        "runs.state",
        "runs.list",
        "s",
        "screen.next_group",
        "state",
        "Show all runs, or one group of states after another",
        shown=True,
    ),
    Key("runs.replay", "runs", "p", "replay", "replay", "Open the run in Replay, read-only"),
    Key("runs.resume", "runs", "r", "resume", "resume", "Let the pause go on", shown=True),
    Key(
        "runs.review",
        "runs",
        "i",
        "review",
        "review",
        "Show in Review what waits for approval",
        shown=True,
    ),
    Key("runs.recover", "runs", "R", "recover", "recover", "Show what recovering does, and ask", shown=True),
    Key(
        "runs.reconcile",
        "runs",
        "S",
        "reconcile",
        "reconcile",
        "Put on record what became of an uncertain step",
        shown=True,
    ),
    Key(
        "runs.cancel",
        "runs",
        "c",
        "cancel",
        "cancel",
        "Cancel the run and interrupt its children",
        shown=True,
    ),
    Key("runs.delete", "runs", "d", "delete", "delete", "Delete the run with its journal", shown=True),
    Key("runs.export", "runs", "E", "export", "export", "Write the exact bytes to a new file", shown=True),
    Key("runs.copy", "runs", "y", "copy_value", "copy", "Copy the value under the cursor, whole", shown=True),
    Key("runs.tab_left", "runs.detail", "left", "tab(-1)", "tab", "Go to the tab on the left"),
    Key("runs.tab_right", "runs.detail", "right", "tab(1)", "tab", "Go to the tab on the right", shown=True),
    *(
        Key(f"runs.tab_{number}", "runs", str(number), f"tab_at({number})", "tab", f"Go to tab {number}")
        for number in range(1, 8)
    ),
)

_REVIEW: Final = (
    Key(
        "review.group",
        "review.list",
        "s",
        "screen.next_group",
        "state",
        "Show what waits, or what was decided",
        shown=True,
    ),
    Key(
        "review.unseen",
        "review",
        "u",
        "unseen",
        "unseen",
        "Go to the next part that was not shown",
        shown=True,
    ),
    Key("review.approve", "review", "A", "approve", "approve", "Approve exactly these bytes", shown=True),
    Key("review.reject", "review", "X", "reject", "reject", "Reject this output, with a reason", shown=True),
    Key("review.resume", "review", "r", "resume", "resume", "Let the pause go on", shown=True),
    Key(
        "review.viewed",
        "review",
        "V",
        "viewed",
        "viewed",
        "State that you have viewed the exact copy outside",
        shown=True,
    ),
    Key(
        "review.compare",
        "review",
        "equals_sign",
        "compare",
        "compare",
        "Compare with the last approved version",
        shown=True,
    ),
    Key(
        "review.outside",
        "review",
        "o",
        "open_outside",
        "open outside",
        "Open a private copy in the system's viewer",
        shown=True,
    ),
    Key(
        "review.export", "review", "E", "export", "export", "Write the exact bytes to a new file", shown=True
    ),
    Key("review.show_run", "review", "t", "show_run", "run", "Show the run in Runs"),
    Key("review.copy", "review", "y", "copy_value", "copy", "Copy the output, or the run's id, whole"),
    Key("review.tab_left", "review.output", "left", "tab(-1)", "tab", "Go to the tab on the left"),
    Key(
        "review.tab_right",
        "review.output",
        "right",
        "tab(1)",
        "tab",
        "Go to the tab on the right",
        shown=True,
    ),
    *(
        Key(f"review.tab_{number}", "review", str(number), f"tab_at({number})", "tab", f"Go to tab {number}")
        for number in range(1, 8)
    ),
)

_REPLAY: Final = (
    Key("replay.back", "replay", "less_than_sign", "frame(-1)", "frame", "Go back by one frame"),
    Key("replay.on", "replay", "greater_than_sign", "frame(1)", "frame", "Go on by one frame", shown=True),
    Key("replay.step_back", "replay", "comma", "step(-1)", "statement", "Go back by one statement"),
    Key("replay.step", "replay", "full_stop", "step(1)", "statement", "Go on by one statement", shown=True),
    Key(
        "replay.run_back",
        "replay",
        "left_square_bracket",
        "run_to(-1)",
        "to breakpoint",
        "Go back to a breakpoint",
    ),
    Key(
        "replay.run_on",
        "replay",
        "right_square_bracket",
        "run_to(1)",
        "to breakpoint",
        "Go on to the next breakpoint",
        shown=True,
    ),
    Key(
        "replay.breakpoint",
        "replay",
        "b",
        "breakpoint",
        "breakpoint",
        "Set or clear a breakpoint on the source line",
        shown=True,
    ),
    Key("replay.watch", "replay", "w", "watch", "watch", "Watch an expression at every position", shown=True),
    Key("replay.go_to", "replay", "g", "go_to", "go to", "Go to a frame, a statement or a line", shown=True),
    Key(
        "replay.divergence",
        "replay",
        "v",
        "divergence",
        "divergence",
        "Show what was recorded and what is asked now",
        shown=True,
    ),
    Key(
        "replay.what_if",
        "replay",
        "F",
        "what_if",
        "what if",
        "Launch a new run with another recorded answer",
        shown=True,
    ),
    Key("replay.open", "replay", "O", "open_file", "open", "Open a bundle, a store file or a run"),
    Key("replay.copy", "replay", "y", "copy_value", "copy", "Copy the value under the cursor whole"),
    Key("replay.left", "replay.source", "left", "screen.step(-1)", "statement", "Go back by one statement"),
    Key("replay.right", "replay.source", "right", "screen.step(1)", "statement", "Go on by one statement"),
    Key("replay.unwatch", "replay.sight", "delete", "screen.unwatch", "unwatch", "Watch it no longer"),
)

_HOST: Final = (
    Key(
        "host.reload",
        "host",
        "L",
        "reload",
        "reload",
        "Load extensions anew, after naming live runs",
        shown=True,
    ),
    Key("host.show_run", "host.detail", "t", "screen.show_run", "run", "Show the run in Runs", shown=True),
    Key(
        "host.copy",
        "host.detail",
        "y",
        "screen.copy_value",
        "copy",
        "Copy the value under the cursor",
        shown=True,
    ),
    *(
        Key(
            f"host.section_{number}",
            "host",
            str(number),
            f"section_at({number})",
            "section",
            f"Go to section {number}",
        )
        for number in range(1, 8)
    ),
)

_DIALOGS: Final = (
    Key(
        "dialog.dismiss",
        "dialog",
        "escape",
        "dismiss_dialog",
        "back",
        "Close without doing anything",
        shown=True,
    ),
    Key("dialog.up", "dialog", "up", "scroll_text(-1)", "up", "Scroll the text up"),
    Key("dialog.down", "dialog", "down", "scroll_text(1)", "down", "Scroll the text down"),
    Key("dialog.next", "dialog", "tab,right", "pane(1)", "choice", "Go to the next choice"),
    Key("dialog.previous", "dialog", "shift+tab,left", "pane(-1)", "choice", "Go to the previous choice"),
    Key("help.dismiss", "help", "escape", "dismiss_dialog", "back", "Close help", shown=True),
    Key("help.next", "help", "tab", "pane(1)", "pane", "Go to the next pane"),
    Key("help.previous", "help", "shift+tab", "pane(-1)", "pane", "Go to the previous pane"),
    Key("help.up", "help", "up", "list_cursor(-1)", "up", "Go up one line while typing"),
    Key("help.down", "help", "down", "list_cursor(1)", "down", "Go down one line while typing"),
    Key("palette.dismiss", "palette", "escape", "dismiss_dialog", "back", "Close the palette", shown=True),
    Key("palette.next", "palette", "tab", "pane(1)", "pane", "Go to the next pane"),
    Key("palette.previous", "palette", "shift+tab", "pane(-1)", "pane", "Go to the previous pane"),
    Key("palette.up", "palette", "up", "list_cursor(-1)", "up", "Go up one line while typing"),
    Key("palette.down", "palette", "down", "list_cursor(1)", "down", "Go down one line while typing"),
    Key("compare.dismiss", "compare", "escape", "dismiss_dialog", "back", "Close the comparison", shown=True),
    Key("notices.dismiss", "notices", "escape", "dismiss_dialog", "back", "Close the notices", shown=True),
    Key("notices.copy", "notices", "y", "copy_value", "copy", "Copy the notice under the cursor", shown=True),
)

TABLE: Final[tuple[Key, ...]] = (
    *_APP,
    *_SHARED,
    *_AUTHOR,
    *_PANES_OF_AUTHOR,
    *_EDITOR,
    *_RUNS,
    *_REVIEW,
    *_REPLAY,
    *_HOST,
    *_DIALOGS,
)
BY_ID: Final[Mapping[str, Key]] = {key.id: key for key in TABLE}


def bindings(*panes: str) -> list[BindingType]:
    """The Textual bindings of one or more panes, for a class's ``BINDINGS``."""
    return [
        Binding(
            key.keys,
            key.action,
            key.verb,
            show=key.shown,
            priority=key.priority,
            tooltip=key.tooltip,
            id=key.id,
        )
        for key in TABLE
        if key.pane in panes
    ]


def rows(chain: Sequence[str]) -> list[Key]:
    """The rows of ``chain``, innermost pane first."""
    return [key for pane in chain for key in TABLE if key.pane == pane]
