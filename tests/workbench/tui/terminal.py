"""A real terminal for the application: a child process on a pseudo-terminal, its keys and its bytes.

Run as a program this module is that child: ``python -m tests.workbench.tui.terminal MODE ROOT``.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 60


class Terminal:
    """The child and the terminal's side of it. ``seen`` is every byte it wrote.

    ``module`` is run with ``mode`` and ``root``.
    """

    def __init__(
        self,
        mode: str,
        root: Path,
        *,
        columns: int = 100,
        rows: int = 30,
        pixels: tuple[int, int] = (0, 0),
        module: str = __name__,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, *pixels))
        self._slave = slave
        self._open = [slave, self._master]
        self.before = termios.tcgetattr(slave)
        self.seen = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, mode, str(root)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def read_until(self, *parts: str) -> None:
        """Read until every one of ``parts`` was written since the last call."""
        start = len(self.seen)
        wanted = [part.encode() for part in parts]
        assert self.reads(lambda: all(part in self.seen[start:] for part in wanted)), self.seen[-2_000:]

    def reads(self, condition: Callable[[], bool], seconds: float = SECONDS) -> bool:
        """Read until ``condition`` holds, for so many seconds at most. Whether it holds."""
        end = time.monotonic() + seconds
        while not (held := condition()) and time.monotonic() < end:
            self.read(0.1)
        return held

    def quiet(self, seconds: float = 0.4) -> None:
        """Read until nothing is written for a while."""
        end = time.monotonic() + SECONDS
        while self.read(seconds):
            assert time.monotonic() < end, self.seen[-2_000:]

    def answered(self) -> None:
        """Read until a key had its effect; one that has none is not waited for long."""
        if self.read(2.0):
            self.quiet(0.15)

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def finish(self) -> int:
        """Read to the end and return the exit code."""
        assert self.reads(lambda: self.process.poll() is not None), self.seen[-2_000:]
        while self.read(0.0):
            pass
        return self.process.wait()

    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    def hang_up(self) -> None:
        """Be gone, without a signal to anybody."""
        while self._open:
            os.close(self._open.pop())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.hang_up()

    def read(self, wait: float) -> bool:
        """Read what is written, waiting so many seconds for it. Whether anything was."""
        if not select.select([self._master], [], [], wait)[0]:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            return False
        self.seen += data
        return bool(data)


def without_blinking() -> None:
    """Let no cursor blink, so that an application that has nothing to do writes nothing."""
    from textual.widgets import Input, TextArea

    for owner in (Input, TextArea):
        owner.cursor_blink = False  # type: ignore[assignment]


def child(mode: str, root: Path) -> int:
    """What runs on the terminal: the application over a fake client."""
    from tests.workbench.tui.fakes import FakeClient, completed_run
    from tests.workbench.tui.test_hostile import hostile_list, hostile_run
    from workbench.logs import logged
    from workbench.tui import app
    from workbench.tui.screens.runs import RunsScreen
    from workbench.workspace import Workspace
    from workflows_core.errors import StoreInUse

    client = FakeClient(*((hostile_run(), *hostile_list()) if mode == "hostile" else (completed_run(),)))

    async def factory() -> Any:
        if mode == "in use":
            raise StoreInUse("process 4711 owns this workspace")
        return client

    if mode == "not hosted":
        client.failures["start_hosting"] = StoreInUse("the plugin cannot be loaded")

    if mode == "crash":

        def crash(self: RunsScreen) -> None:
            raise RuntimeError("planted \x1b]0;PWN\x07")

        RunsScreen.action_next_group = crash  # type: ignore[method-assign]
    without_blinking()
    workspace = Workspace.find(root, root)
    try:
        with logged(workspace.state_dir):
            code = app.run_app(workspace, factory, "runs")
    except StoreInUse as error:
        print(f"refused: {error}", "closed" if client.closed else "open")
        return 6
    print("closed" if client.closed else "NOT CLOSED")
    return code


if __name__ == "__main__":
    raise SystemExit(child(sys.argv[1], Path(sys.argv[2])))
