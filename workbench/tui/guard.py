"""The terminal is given back as it was, however the application ends.

An exit, an error that nothing handled and a signal that can be caught leave time to put everything back. A
process that is killed, or that a library takes down, has none: so a small shell waits for the application's end
at a pipe, and puts the terminal back where the application did not say that it had done so itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

#: Leaves mouse reporting, focus reporting, bracketed paste, the keyboard protocol and the second screen, and
#: shows the cursor: what a driver that did not come to its end leaves behind.
RESET: Final = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2048l"
    "\x1b[<u\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"
)
#: Put the terminal's title on its stack, and take it back from there.
KEEP_TITLE: Final = "\x1b[22;2t"
GIVE_TITLE_BACK: Final = "\x1b[23;2t"
#: Values of TERM whose terminals have no title.
NO_TITLE: Final = frozenset({"dumb", "linux", "unknown", ""})
KILLED: Final = "The workbench was killed. Runs are kept: workbench runs lists them."

#: Its standard output is the terminal. It says that it knows the settings, and waits for a line.
_WATCH: Final = (
    'exec 3<&1; saved=$(stty -g <&3); echo ready >&2; read -r done || { stty "$saved" <&3; printf %s "$1"; }'
)


def has_title() -> bool:
    """Whether the terminal that is drawn on has a title."""
    return os.environ.get("TERM", "") not in NO_TITLE


@contextmanager
def kept_title() -> Iterator[None]:
    """Keep the terminal's title, and give it back whatever happens inside."""
    terminal = sys.__stderr__
    kept = terminal is not None and terminal.isatty() and has_title()
    if kept:
        _write(KEEP_TITLE)
    try:
        yield
    finally:
        if kept:
            _write(GIVE_TITLE_BACK)


@contextmanager
def watched() -> Iterator[None]:
    """While it lasts, a process of its own puts the terminal back should this one be killed.

    Where that process cannot be started nothing is lost but this.
    """
    terminal = sys.__stderr__
    watcher: subprocess.Popen[bytes] | None = None
    if terminal is not None and terminal.isatty() and sys.stdin.isatty():
        back = RESET + (GIVE_TITLE_BACK if has_title() else "") + f"{KILLED}\n"
        with suppress(OSError):
            watcher = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "sh", back],
                stdin=subprocess.PIPE,
                stdout=terminal.fileno(),
                stderr=subprocess.PIPE,
                start_new_session=True,  # what is sent to the group of this process does not reach it
            )
    try:
        if watcher is not None:
            assert watcher.stderr is not None
            watcher.stderr.readline()  # from here on the settings may change
            watcher.stderr.close()
        yield
    finally:
        if watcher is not None:
            with suppress(OSError):  # it was killed itself
                watcher.communicate(b"done\n")
            watcher.wait()


def reset() -> None:
    """Write what leaves everything that a driver may have left on."""
    _write(RESET)


def _write(sequence: str) -> None:
    terminal = sys.__stderr__
    if terminal is not None:
        with suppress(OSError):  # the terminal is gone
            terminal.write(sequence)
            terminal.flush()
