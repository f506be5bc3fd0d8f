"""Keys of the Replay screen."""

from __future__ import annotations

from typing import Final

from .row import Key

REPLAY: Final = (
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
    Key(
        "replay.history",
        "replay",
        "W",
        "history",
        "history",
        "Show the value of an expression at every frame",
        shown=True,
    ),
    Key("replay.console", "replay", "C", "console", "console", "Evaluate expressions here"),
    Key("replay.go_to", "replay", "g", "go_to", "go to", "Go to a frame, a statement or a line"),
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
        "Launch a new run with another answer or script",
        shown=True,
    ),
    Key("replay.compare", "replay", "equals_sign", "compare", "compare", "Compare with the parent run"),
    Key("replay.open", "replay", "O", "open_file", "open", "Open a bundle, a store file or a run"),
    Key("replay.copy", "replay", "y", "copy_value", "copy", "Copy the value under the cursor whole"),
    Key("replay.left", "replay.source", "left", "screen.step(-1)", "statement", "Go back by one statement"),
    Key("replay.right", "replay.source", "right", "screen.step(1)", "statement", "Go on by one statement"),
    Key("replay.unwatch", "replay.sight", "delete", "screen.unwatch", "unwatch", "Watch it no longer"),
)
