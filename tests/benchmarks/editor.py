"""Demand 19: how long a key takes to show, with highlighting against the same editor without, in one run.

Two small applications run side by side, each in a pseudo-terminal of 120 × 40 with a 16 kB script. Keys go to
them in turn, block by block, so that whatever else the machine does falls on both. The time of a key is from
writing it to the moment at which its echo has been read. The second half runs beside a process that burns a core.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import gc
import os
import pty
import random
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any

COLUMNS, ROWS = 120, 40
BLOCK = 20
BAR = 1.6
SETTLE_SECONDS = 60.0


def script(size: int = 16_000) -> str:
    """A plausible workflow script of about ``size`` bytes."""
    lines = ["const product = args.product;", "let findings = [];"]
    number = 0
    while sum(map(len, lines)) + len(lines) < size - 150:
        number += 1
        lines += [
            f"// round {number}: what the reviewers said, in order",
            f"const review{number} = await agent({{stepId: 'review-{number}', agentRef: 'lead_agent',",
            f'  task: {{kind: "review", round: {number}, product, note: `part ${{product}} of {number}`}}}});',
            f"if (review{number}.output.verdict === 'pass' && /^ok\\b/.test(review{number}.output.note)) {{",
            f"  findings.push({{round: {number}, text: review{number}.output.note ?? null}});",
            "}",
        ]
    return "\n".join([*lines, "return {findings};", ""])


class Screen:
    """One child application and the terminal it believes to have."""

    def __init__(self, language: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
        }
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.editor", "--child", language],
            stdin=slave,
            stdout=slave,
            stderr=slave,  # where Textual paints
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        self._seen = bytearray()

    def _read(self, timeout: float) -> bool:
        if not select.select([self._master], [], [], timeout)[0]:
            return False
        self._seen += os.read(self._master, 65_536)
        return True

    def wait_for(self, text: bytes) -> None:
        """Read until ``text`` was painted."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while text not in self._seen:
            if not self._read(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"the editor did not show {text!r}")

    def settle(self, seconds: float = 0.15) -> None:
        """Read until nothing is painted any more."""
        while self._read(seconds):
            pass
        self._seen.clear()

    def block(self, pauses: random.Random) -> list[float]:
        """Type a word key by key, timing each; then take it out again."""
        times = []
        for count in range(1, BLOCK + 1):
            self._seen.clear()
            started = time.perf_counter()
            os.write(self._master, b"q")
            self.wait_for(b"q" * count)
            times.append(time.perf_counter() - started)
            time.sleep(pauses.uniform(0.0, 0.02))
        os.write(self._master, b"\x7f" * BLOCK)
        self.settle()
        return times

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child.pid, signal.SIGKILL)
        self._child.wait()
        os.close(self._master)


@contextlib.contextmanager
def bomb() -> Iterator[None]:
    """A process that burns one core."""
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"])
    try:
        yield
    finally:
        child.kill()
        child.wait()


def p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


def measure(blocks: int) -> list[tuple[str, list[float], list[float]]]:
    """Per condition: its name, the times with highlighting and those without, in seconds."""
    pauses = random.Random(19)
    highlighted, plain = Screen("javascript"), Screen("none")
    try:
        for screen in (highlighted, plain):
            screen.wait_for(b"lead_agent")
            screen.settle(0.5)
            screen.block(pauses)
        found = []
        for name, beside in (("idle machine", contextlib.nullcontext()), ("beside a CPU bomb", bomb())):
            with beside:
                with_times: list[float] = []
                without_times: list[float] = []
                for _ in range(blocks):
                    with_times += highlighted.block(pauses)
                    without_times += plain.block(pauses)
            found.append((name, with_times, without_times))
        return found
    finally:
        highlighted.close()
        plain.close()


def run(blocks: int = 25) -> list[dict[str, Any]]:
    """Rows for the table of ``make bench``; times in ms."""
    rows: list[dict[str, Any]] = []
    for name, highlighted, plain in measure(blocks):
        ratio = p99(highlighted) / p99(plain)
        rows += [
            _row(f"key echo p50 with highlighting, {name}", statistics.median(highlighted) * 1000, "ms"),
            _row(f"key echo p50 without, {name}", statistics.median(plain) * 1000, "ms"),
            _row(f"key echo p99 with highlighting, {name}", p99(highlighted) * 1000, "ms"),
            _row(f"key echo p99 without, {name}", p99(plain) * 1000, "ms"),
            _row(f"key echo p99, ratio, {name}", ratio, "×", BAR, ratio <= BAR),
        ]
    return rows


def _row(name: str, value: float, unit: str, bar: float | None = None, ok: bool = True) -> dict[str, Any]:
    return {"demand": 19, "name": name, "value": round(value, 2), "unit": unit, "bar": bar, "ok": ok}


def child(language: str) -> None:
    """The application under test: one editor, the collector kept away from keys as the workbench does."""
    from textual.app import App, ComposeResult

    from workbench.tui.widgets.editor import ScriptEditor

    class OneEditor(App[None]):
        ENABLE_COMMAND_PALETTE = False

        def compose(self) -> ComposeResult:
            yield ScriptEditor(script(), language=None if language == "none" else language)

        def on_mount(self) -> None:
            self.query_one(ScriptEditor).move_cursor((24, 2))
            gc.collect()
            gc.freeze()
            gc.disable()

    OneEditor().run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--child")
    parser.add_argument("--blocks", type=int, default=25)
    options = parser.parse_args()
    if options.child:
        child(options.child)
    else:
        for row in run(options.blocks):
            print(row)
