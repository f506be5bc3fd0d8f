"""Keys of the Review screen."""

from __future__ import annotations

from typing import Final

from .row import Key

REVIEW: Final = (
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
        "review.answer",
        "review",
        "T",
        "answer",
        "answer",
        "Type the answer that a manual agent waits for",
        shown=True,
    ),
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
