"""A seat at a terminal: one command with a pseudo-terminal as its controlling terminal, driven as a person would."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAIN = """\
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from {module} import main
main(sys.argv[1:])
"""
_SECONDS = 60.0
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


class Seat:
    """What the terminal shows, and the keys that are pressed."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self._seen = b""
        self._read_from = 0

    @property
    def raw(self) -> bytes:
        """Every byte that was written to the terminal."""
        return self._seen

    @property
    def shown(self) -> str:
        """Everything on the terminal so far, without colours."""
        return _COLORS.sub("", self._seen.decode("utf-8", "replace")).replace("\r\n", "\n")

    def until(self, words: str) -> str:
        """Read until ``words`` appear after what was read last; the text since then."""
        deadline = time.monotonic() + _SECONDS
        while True:
            new = self.shown[self._read_from :]
            if words in new:
                end = new.index(words) + len(words)
                self._read_from += end
                return new[:end]
            assert time.monotonic() < deadline, f"{words!r} did not appear:\n{self.shown}"
            if not self._read(0.2):
                assert self.process.poll() is None or self._read(0.0), (
                    f"the command ended before {words!r} appeared:\n{self.shown}"
                )

    def type(self, line: str) -> None:
        os.write(self._master, line.encode() + b"\n")

    def interrupt(self) -> None:
        os.write(self._master, b"\x03")

    def finish(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + _SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"the command did not end:\n{self.shown}"
            self._read(0.1)
        while self._read(0.0):
            pass
        return self.process.wait()

    def _read(self, wait: float) -> bool:
        if not select.select([self._master], [], [], wait)[0]:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            return False
        self._seen += data
        return bool(data)


@contextmanager
def seat(
    *arguments: str | Path,
    folder: Path,
    rows: int = 40,
    columns: int = 100,
    output: int | None = None,
    error: int | None = None,
    module: str = "workbench.cli.main",
) -> Iterator[Seat]:
    """Run a command in ``folder`` at a terminal of its own.

    ``output`` takes its standard output away from it, ``error`` its standard error. ``module`` has the ``main`` that
    is run.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-c", _MAIN.format(module=module), *map(str, arguments)],
        stdin=slave,
        stdout=slave if output is None else output,
        stderr=slave if error is None else error,
        start_new_session=True,
        cwd=folder,
        env={**environment, "TERM": "xterm"},
    )
    os.close(slave)
    try:
        yield Seat(process, master)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
