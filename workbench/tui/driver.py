"""The terminal's driver, for a terminal that may go away.

Textual writes through a thread behind a queue with few places. Were that thread to end because the terminal is gone
(its window was closed, a connection broke), the next writes would fill the queue and the application would wait for
ever. So what cannot be written is dropped.
"""

from __future__ import annotations

from contextlib import suppress
from typing import IO, Any

from textual.drivers.linux_driver import LinuxDriver


class Output:
    """A text file to which writing never fails."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()

    def isatty(self) -> bool:
        return self._file.isatty()

    def fileno(self) -> int:
        return self._file.fileno()


class TerminalDriver(LinuxDriver):
    """Textual's driver with an output that may be gone."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file: Any = Output(self._file)
