"""Keys of the Runs screen."""

from __future__ import annotations

from typing import Final

from .row import Key

RUNS: Final = (
    Key(
        "runs.state",
        "runs.list",
        "s",
        "screen.next_group",
        "state",
        "Show all runs, or one group of states after another",
        shown=True,
    ),
    Key("runs.mark", "runs.list", "space", "screen.mark", "mark", "Mark the run, to watch or compare it"),
    Key(
        "runs.watch",
        "runs",
        "w",
        "watch",
        "watch",
        "Watch the marked runs, or all live ones, at once",
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
        "runs.answer",
        "runs",
        "T",
        "answer",
        "answer",
        "Type the answer that a manual agent waits for",
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
    Key("runs.compare", "runs", "equals_sign", "compare", "compare", "Compare with another run", shown=True),
    Key("runs.fork", "runs", "K", "fork", "fork", "Launch a new run from what was recorded"),
    Key(
        "runs.child", "runs", "H", "child", "child run", "Show the events of the step's child run", shown=True
    ),
    Key("runs.copy", "runs", "y", "copy_value", "copy", "Copy the value under the cursor, whole", shown=True),
    Key(
        "runs.export",
        "runs",
        "E",
        "export",
        "export",
        "Write the run, or a step's bytes, to a new file",
        shown=True,
    ),
    Key("runs.child_copy", "runs.child", "y", "copy_value", "copy", "Copy the value, whole", shown=True),
    Key("runs.tab_left", "runs.detail", "left", "tab(-1)", "tab", "Go to the tab on the left"),
    Key("runs.tab_right", "runs.detail", "right", "tab(1)", "tab", "Go to the tab on the right", shown=True),
    *(
        Key(f"runs.tab_{number}", "runs", str(number), f"tab_at({number})", "tab", f"Go to tab {number}")
        for number in range(1, 9)
    ),
)
