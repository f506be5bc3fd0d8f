"""Keys of dialogs, help, the palette, comparisons and notices."""

from __future__ import annotations

from typing import Final

from .row import Key

DIALOGS: Final = (
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
    Key("compare.copy", "runs.compare", "y", "copy_value", "copy", "Copy both values, whole", shown=True),
    Key("notices.dismiss", "notices", "escape", "dismiss_dialog", "back", "Close the notices", shown=True),
    Key("notices.copy", "notices", "y", "copy_value", "copy", "Copy the notice under the cursor", shown=True),
)
