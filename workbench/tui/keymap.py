"""One table of all keys of all screens.

Every row has an id, which ``keymap:`` of ``workbench.yaml`` uses, a verb for the bottom line and a sentence
for help. Widgets and screens take their bindings from here with ``bindings(pane)``; help and the bottom line
are generated from the same rows. The same single letter carries the same verb in every pane. Terminals send
ctrl+h, ctrl+i, ctrl+j and ctrl+m as other keys, so they are never bound. ``remap`` puts a person's keys in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from textual.binding import Binding, BindingType

from .keys.author import AUTHOR, EDITOR, PANES_OF_AUTHOR
from .keys.dialogs import DIALOGS
from .keys.general import APP, SHARED
from .keys.host import HOST
from .keys.replay import REPLAY
from .keys.review import REVIEW
from .keys.row import Key
from .keys.runs import RUNS

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
    "runs.compare": "In a comparison of runs",
    "runs.child": "In a child run",
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
    "runs.compare": ("list", "runs.compare", "compare", "app"),
    "runs.child": ("list", "runs.child", "compare", "app"),
    "runs.watch": ("list", "runs", "screen", "app"),
    "dialog": ("button", "dialog", "app"),
    "dialog.list": ("list", "dialog", "app"),
    "dialog.field": ("field", "dialog", "app"),
    "help": ("list", "help", "app"),
    "help.field": ("field", "help", "app"),
    "palette": ("list", "palette", "app"),
    "palette.field": ("field", "palette", "app"),
    "notices": ("list", "notices", "app"),
}

TABLE: Final[tuple[Key, ...]] = (
    *APP,
    *SHARED,
    *AUTHOR,
    *PANES_OF_AUTHOR,
    *EDITOR,
    *RUNS,
    *REVIEW,
    *REPLAY,
    *HOST,
    *DIALOGS,
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
