"""Keys of the Host screen."""

from __future__ import annotations

from typing import Final

from .row import Key

HOST: Final = (
    Key(
        "host.reload",
        "host",
        "L",
        "reload",
        "reload",
        "Load extensions anew, after naming live runs",
        shown=True,
    ),
    Key(
        "host.log_in", "host", "I", "log_in", "log in", "Log in with an account and its password", shown=True
    ),
    Key("host.log_out", "host", "Q", "log_out", "log out", "End your session in this workspace", shown=True),
    Key(
        "host.end",
        "host.detail",
        "D",
        "screen.end_session",
        "end",
        "End the session under the cursor",
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
