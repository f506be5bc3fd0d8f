"""Demand 19: the first paint takes at most 2.5 × ``import textual``.

Whole processes, interleaved: a Python that imports textual and ends, and ``workbench`` on a pseudo-terminal of
120 × 40, from its start to the moment at which the panes of the Author screen have been read from the terminal.
The workspace holds a script and a store; nothing owns it, so the application hosts the engine itself, after that
paint. Modules are compiled beforehand, as they are where a package is installed. The ratio of the medians is judged.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

BAR: Final = 2.5
ROUNDS: Final = 15
COLUMNS, LINES = 120, 40
#: What stands on the terminal once all panes are drawn: the title of the last one.
PAINTED: Final = b"Launch"
#: What stands there once the script is open and checked.
USABLE: Final = b"No problems."
PATIENCE_SECONDS: Final = 60.0
COMMAND: Final = "import sys; from workbench.cli.main import main; main(sys.argv[1:])"


def run(rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Rows for the table of ``make bench``; times in ms."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workspace = folder / "workspace"
        workspace.mkdir()
        environment = {
            **os.environ,
            "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            **{f"XDG_{kind}_HOME": str(folder / kind) for kind in ("CONFIG", "STATE", "DATA", "CACHE")},
        }
        for unwanted in ("PYTHONDONTWRITEBYTECODE", "NO_COLOR"):
            environment.pop(unwanted, None)
        _call(["new", "first"], workspace, environment)
        _call(["run", "first.workflow.js"], workspace, environment)
        bare: list[float] = []
        painted: list[float] = []
        usable: list[float] = []
        for turn in range(rounds + 1):
            imported = _import_textual(environment)
            first, later = _paint(workspace, environment)
            if turn:  # The first turn only compiles the modules and warms the page cache.
                bare.append(imported)
                painted.append(first)
                usable.append(later)
    ratio = median(painted) / median(bare)
    return [
        _row("import textual", median(bare) * 1000, "ms"),
        _row("first paint", median(painted) * 1000, "ms"),
        _row("script open and checked", median(usable) * 1000, "ms"),
        _row("first paint, ratio", ratio, "×", BAR, ratio <= BAR),
    ]


def _row(name: str, value: float, unit: str, bar: float | None = None, ok: bool = True) -> dict[str, Any]:
    return {"demand": 19, "name": name, "value": round(value, 2), "unit": unit, "bar": bar, "ok": ok}


def _call(arguments: list[str], folder: Path, environment: dict[str, str]) -> None:
    subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )


def _import_textual(environment: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "import textual"], env=environment, check=True, timeout=PATIENCE_SECONDS
    )
    return time.perf_counter() - begin


def _paint(folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds from the start of the process to the first paint, and to the script being open and checked."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    begin = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        stdin=slave,
        stdout=slave,
        stderr=slave,  # where Textual paints
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    try:
        seen = bytearray()
        return tuple(_until(master, seen, text) - begin for text in (PAINTED, USABLE))  # type: ignore[return-value]
    finally:
        # The check runs in a process of the same group.
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        os.close(master)


def _until(master: int, seen: bytearray, text: bytes) -> float:
    """The time at which ``text`` has been read."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while text not in seen:
        if not select.select([master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError(f"the application did not show {text!r}")
        seen += os.read(master, 65_536)
    return time.perf_counter()


if __name__ == "__main__":
    for row in run():
        print(row)
