"""Demand 19: a list of 10,000 runs, a 4 MiB journal and a 2 MiB artifact scroll without a pause over 50 ms.

Two workbenches run in turn, each in a pseudo-terminal of 120 × 40: one on a store with 10,000 runs, of which the
newest has a journal of the largest size in many frames, and one on a store with 50 runs and a short journal. The
time of a key is from writing it to the moment at which the row that it leads to has been read from the terminal.
Beside it stands the longest piece of work that held the application's loop, in CPU time, which other load on the
machine does not lengthen; collecting garbage once nobody has pressed a key for a second is not part of it. The ratio is that of the 99th percentiles of the large store and the small one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import pty
import random
import re
import select
import signal
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

COLUMNS, ROWS = 120, 40
MANY, FEW = 10_000, 50
#: Lines of the artifact of 2 MiB.
LINES: Final = 40_000
#: In ms of CPU time of the loop's thread, which other load on the machine does not count into.
BAR: Final = 50.0
#: What a long list may cost a key against a short one, in the same run.
RATIO: Final = 1.6
PATIENCE_SECONDS: Final = 60.0
JOURNAL: Final = 4 * 1024 * 1024 - 64 * 1024
COMMAND: Final = "import sys; from workbench.cli.main import main; main(sys.argv[1:])"
_FRAME: Final = re.compile(r"(\d+) [→←]")
_ESCAPES: Final = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")


# The stores


def environment(folder: Path) -> dict[str, str]:
    found = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        **{f"XDG_{kind}_HOME": str(folder / kind) for kind in ("CONFIG", "STATE", "DATA", "CACHE")},
    }
    found.pop("NO_COLOR", None)
    return found


def build(folder: Path, runs: int, journal: int) -> Path:
    """A workspace whose store holds ``runs`` copies of one real run; the newest has ``journal`` bytes of frames."""
    workspace = folder / f"with-{runs}"
    workspace.mkdir()
    for arguments in (["new", "first"], ["run", "first.workflow.js"]):
        subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments],
            cwd=workspace,
            env=environment(folder),
            check=True,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
        )
    with contextlib.closing(sqlite3.connect(workspace / ".workbench" / "workflows.sqlite")) as store:
        store.execute("PRAGMA foreign_keys = ON")
        copy_runs(store, runs)
        fill_journal(store, name(0), journal)
        store.commit()
    return workspace


def name(number: int) -> str:
    """The id and name of a run; 0 is the newest."""
    return f"wr_{number:05}x"


def copy_runs(store: sqlite3.Connection, count: int) -> None:
    (first,) = store.execute("SELECT run_id FROM runs").fetchone()
    (made,) = store.execute("SELECT created_at FROM runs").fetchone()
    for table, own in (
        ("runs", {"run_id": "?1", "request_id": "?1", "name": "?1", "created_at": "?2", "since": "?2"}),
        ("frames", {"run_id": "?1"}),
        ("marks", {"run_id": "?1"}),
    ):
        columns = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
        values = ", ".join(own.get(column, column) for column in columns)
        statement = (
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} WHERE run_id = ?3"
        )
        store.executemany(
            statement, ((name(number), made - number * 60_000_000, first) for number in range(count))
        )
    store.execute("DELETE FROM frames WHERE run_id = ?", (first,))
    store.execute("DELETE FROM marks WHERE run_id = ?", (first,))
    store.execute("DELETE FROM runs WHERE run_id = ?", (first,))


def fill_journal(store: sqlite3.Connection, run_id: str, size: int) -> None:
    """Put requests and answers between the run's first frame and its end."""
    from workflows_core.journal.frames import Side, encode_side
    from workflows_core.jsontext import encode

    last, at = store.execute(
        "SELECT number, at FROM frames WHERE run_id = ? ORDER BY number DESC LIMIT 1", (run_id,)
    ).fetchone()
    store.execute("DELETE FROM frames WHERE run_id = ? AND number = ?", (run_id, last))
    written, number = 0, last
    side = encode_side(Side(positions=((3, 19),)))
    while written < size:
        call = {"id": 1_000 + number, "op": "readArtifact", "version": "a" * 64, "offset": number}
        value = {"text": "x" * (number % 600), "number": number}
        for kind, body in (
            ("request", encode({"calls": [call]})),
            ("response", encode({"results": [{"id": call["id"], "ok": True, "value": value}]})),
        ):
            store.execute(
                "INSERT INTO frames (run_id, number, kind, body, hash, at, side) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (run_id, number, kind, body, number.to_bytes(32, "big"), at, side),
            )
            written += len(body)
            number += 1


# The terminal


class Terminal:
    """The workbench in a terminal of its own; ``held`` is where it says how long its loop was held."""

    def __init__(self, workspace: Path, folder: Path) -> None:
        self.held = folder / f"{workspace.name}.held"
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.scroll", "--child", str(workspace), str(self.held)],
            stdin=slave,
            stdout=slave,
            stderr=slave,  # where Textual paints
            env=environment(folder),
            start_new_session=True,
        )
        os.close(slave)
        self._seen = bytearray()

    def _read(self, timeout: float) -> bool:
        if not select.select([self._master], [], [], timeout)[0]:
            return False
        self._seen += os.read(self._master, 65_536)
        return True

    def wait_for(self, text: str) -> None:
        """Read until ``text`` was painted since the last key."""
        self.wait_until(lambda seen: text in seen)

    def wait_until(self, done: Callable[[str], bool]) -> None:
        """Read until ``done`` holds of what was painted since the last key."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not done(_ESCAPES.sub(b"", bytes(self._seen)).decode("utf-8", "replace")):
            if not self._read(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"what a key leads to was not shown; seen: {self._seen[-2000:]!r}")

    def settle(self, seconds: float = 0.3) -> None:
        """Read until nothing is painted any more, but for a clock that ticks once a second."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and self._read(seconds):
            pass
        self._seen.clear()

    def press(self, keys: str, text: str) -> float:
        """Seconds from writing ``keys`` until ``text`` was read."""
        return self.timed(keys, lambda seen: text in seen)

    def timed(self, keys: str, done: Callable[[str], bool]) -> float:
        """Seconds from writing ``keys`` until ``done`` holds of what was read since."""
        self._seen.clear()
        begun = time.perf_counter()
        os.write(self._master, keys.encode())
        self.wait_until(done)
        return time.perf_counter() - begun

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def longest(self) -> dict[str, float]:
        """For each part, named by ``mark``, the longest CPU time in ms that the loop was held."""
        os.kill(self._child.pid, signal.SIGUSR1)
        self.settle(0.5)
        found: dict[str, float] = json.loads(self.held.read_text())
        return found

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        os.close(self._master)


DOWN, PAGE_DOWN, PAGE_UP, HOME, END = "\x1b[B", "\x1b[6~", "\x1b[5~", "\x1b[H", "\x1b[F"
F3, ENTER, ESCAPE = "\x1bOR", "\r", "\x1b"


def list_keys(terminal: Terminal, runs: int, pauses: random.Random) -> list[float]:
    """Through the list as a person goes: line by line, page by page, to its end and back."""
    times = []
    at, page = 0, 34
    for _ in range(min(100, runs - 1)):
        at += 1
        times.append(terminal.press(DOWN, name(at)))
        time.sleep(pauses.uniform(0.0, 0.05))
    if runs > 1_000:
        for _ in range(60):
            at += page
            times.append(terminal.press(PAGE_DOWN, name(at)))
            time.sleep(pauses.uniform(0.0, 0.05))
    for _ in range(5):
        times.append(terminal.press(END, name(runs - 1)))
        time.sleep(pauses.uniform(0.05, 0.3))
        times.append(terminal.press(HOME, name(0)))
        time.sleep(pauses.uniform(0.05, 0.3))
    return times


def journal_keys(terminal: Terminal, pauses: random.Random, pages: int) -> list[float]:
    """Through the journal of the newest run, page by page, then to its end and back."""
    times = []
    last = 0

    def further(seen: str) -> bool:
        return max(map(int, _FRAME.findall(seen)), default=0) > last + 10

    for _ in range(pages):
        times.append(terminal.timed(PAGE_DOWN, further))
        terminal.settle(pauses.uniform(0.01, 0.05))
        last += 20
    for _ in range(5):
        times.append(
            terminal.timed(
                END, lambda seen: "return" in seen or "response" in seen or bool(_FRAME.search(seen))
            )
        )
        time.sleep(pauses.uniform(0.05, 0.3))
        times.append(terminal.timed(HOME, lambda seen: "start" in seen))
        time.sleep(pauses.uniform(0.05, 0.3))
    return times


def measure(workspace: Path, folder: Path, runs: int) -> dict[str, Any]:
    """Times of keys in s by part, and how long the loop was held."""
    pauses = random.Random(19)
    terminal = Terminal(workspace, folder)
    try:
        terminal.wait_for("Launch")
        terminal.settle(0.5)
        terminal.type(F3)
        terminal.wait_for(name(1))
        terminal.type(HOME)
        terminal.settle(1.5)
        starting = terminal.longest()
        found: dict[str, Any] = {"list": list_keys(terminal, runs, pauses)}
        found["list held"] = terminal.longest()
        terminal.type(HOME)
        terminal.settle(0.5)
        terminal.type(ENTER)
        terminal.settle(0.5)
        terminal.type("4")
        terminal.settle(0.5)
        terminal.type(HOME)
        terminal.settle(0.5)
        found["opening held"] = terminal.longest()
        found["journal"] = journal_keys(terminal, pauses, 40 if runs == MANY else 1)
        found["journal held"] = terminal.longest()
        found["starting held"] = starting
        return found
    finally:
        terminal.close()


def artifact(lines: int, pages: int = 40) -> tuple[float, float]:
    """The longest CPU time in ms that the loop was held: opening text, Markdown, hex or JSON, and scrolling it."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.scroll", "--artifact", str(lines), str(pages)],
        check=True,
        capture_output=True,
        timeout=PATIENCE_SECONDS * 5,
    )
    opening, scrolling = found.stdout.splitlines()[-1].split()
    return float(opening), float(scrolling)


def p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98] if len(times) > 1 else times[0]


def run() -> list[dict[str, Any]]:
    """Rows for the table of ``make bench``; times in ms."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        large = measure(build(folder, MANY, JOURNAL), folder, MANY)
        small = measure(build(folder, FEW, 8_000), folder, FEW)
    for what, times in ((f"{MANY:,} runs", large["list"]), ("4 MiB journal", large["journal"])):
        rows += [
            _row(f"scroll {what}, key p50", statistics.median(times) * 1000, "ms"),
            _row(f"scroll {what}, key p99", p99(times) * 1000, "ms"),
            _row(f"scroll {what}, key max", max(times) * 1000, "ms"),
        ]
    opening, scrolling = artifact(LINES)
    for what, longest in (
        (f"scrolling {MANY:,} runs", large["list held"]["cpu"]),
        ("scrolling a 4 MiB journal", large["journal held"]["cpu"]),
        ("scrolling a 2 MiB artifact", scrolling),
    ):
        rows.append(_row(f"loop held at most, {what}, CPU", longest, "ms", BAR, longest <= BAR))
    for what, longest in (
        ("starting and reading the runs", large["starting held"]["cpu"]),
        ("opening a 4 MiB journal", large["opening held"]["cpu"]),
        ("opening a 2 MiB artifact", opening),
    ):
        rows.append(_row(f"loop held at most, {what}, CPU", longest, "ms"))
    ratio = p99(large["list"]) / p99(small["list"])
    rows.append(_row(f"scroll {FEW} runs, key p99", p99(small["list"]) * 1000, "ms"))
    rows.append(_row(f"scroll {MANY:,} runs, key p99, ratio to {FEW}", ratio, "×", RATIO, ratio <= RATIO))
    return rows


def _row(label: str, value: float, unit: str, bar: float | None = None, ok: bool = True) -> dict[str, Any]:
    return {"demand": 19, "name": label, "value": round(value, 2), "unit": unit, "bar": bar, "ok": ok}


# The application under test


class Longest:
    """The longest callback of the loop of the thread that made it, in CPU and in wall ms."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0
        screen, run_handle = threading.get_ident(), asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            if threading.get_ident() != screen:  # the engine's loop, in a thread of its own
                run_handle(handle)
                return
            cpu, wall = time.thread_time(), time.perf_counter()
            run_handle(handle)
            self.cpu = max(self.cpu, (time.thread_time() - cpu) * 1000)
            self.wall = max(self.wall, (time.perf_counter() - wall) * 1000)

        asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]

    def taken(self) -> dict[str, float]:
        """What was the longest since this was asked last."""
        found = {"cpu": self.cpu, "wall": self.wall}
        self.cpu = self.wall = 0.0
        return found


def child(workspace: str, held: str) -> None:
    """The workbench; SIGUSR1 has it write to ``held`` how long its loop was held since the last time."""
    longest = Longest()

    def write(signum: int, frame: object) -> None:
        Path(held).write_text(json.dumps(longest.taken()))

    signal.signal(signal.SIGUSR1, write)
    from workbench.cli.main import main

    os.chdir(workspace)
    main([])


async def scrolled_artifact(lines: int, pages: int) -> tuple[float, float]:
    """Open and scroll the widget that shows exact bytes, in each of its layouts: how long each held the loop."""
    from textual.app import App, ComposeResult

    from workbench.tui.collector import IdleCollector
    from workbench.tui.widgets.bytes_view import BytesView
    from workbench.tui.widgets.json_bytes import JsonTokens

    class OneView(App[None]):
        ENABLE_COMMAND_PALETTE = False

        def compose(self) -> ComposeResult:
            yield BytesView()

    text = "".join(f"Line {n} of a report, with an ä and a number in it.\n" for n in range(lines)).encode()
    tree = json.dumps({"rows": [{"n": n, "text": "x" * 32} for n in range(lines)]}).encode()
    app, longest, collector = OneView(), Longest(), IdleCollector(time.monotonic)
    opening = scrolling = 0.0
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        collector.start()
        view = app.query_one(BytesView)
        view.focus()
        for layout, data in (("text", text), ("markdown", text), ("hex", text), ("tree", tree)):
            tokens = await asyncio.to_thread(JsonTokens, data) if layout == "tree" else None
            longest.taken()
            await view.show_bytes(data, layout, tokens)
            await pilot.pause(0.2)
            opening = max(opening, longest.taken()["cpu"])
            for key in (*["pagedown"] * pages, "end", "home", *["down"] * pages):
                collector.key()
                await pilot.press(key)
            scrolling = max(scrolling, longest.taken()["cpu"])
        collector.stop()
    return opening, scrolling


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--child", nargs=2)
    parser.add_argument("--artifact", type=int, nargs=2)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
    elif options.artifact:
        print(*asyncio.run(scrolled_artifact(*options.artifact)))
    else:
        for row in run():
            print(row)
