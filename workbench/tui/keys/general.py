"""Keys of the application, and of what every screen has: panes, lists, text fields, buttons."""

from __future__ import annotations

from typing import Final

from .row import Key

APP: Final = (
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

SHARED: Final = (
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
    Key(
        "list.copy_more",
        "list",
        "Y",
        "app.copy_more",
        "copy more",
        "Choose what to copy: value, line, all, to a file",
    ),
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
