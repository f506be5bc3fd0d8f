"""Keys of the Author screen; those of its panes and its editor stand in ``widgets.editor_keys``."""

from __future__ import annotations

from typing import Final

from textual.binding import Binding

from ..widgets.editor_keys import AUTHOR_BINDINGS, EDITOR_BINDINGS
from .row import Key

#: The rows of the Author screen; its editing keys are in "author.editor".
AUTHOR: Final = (
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
PANES_OF_AUTHOR: Final = tuple(
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
EDITOR: Final = tuple(
    Key(item.id or "", "author.editor", item.key, item.action, item.description.lower(), item.tooltip)
    for item in EDITOR_BINDINGS
    if isinstance(item, Binding)
)
