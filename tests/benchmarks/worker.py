"""Demand 17: a worker is ready within 1.3 × a bare Python start; a paused run costs at most 12 MiB.

Starts alternate with bare starts of the same interpreter, so that the machine's moods fall on both, and the
ratio of the medians is judged. Ready means: limits set, the script compiled, args handed over.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from workflows_core.limits import SCRIPT_BYTES, Limits
from workflows_core.worker.process import Worker

READY_BAR: Final = 1.3
RESIDENT_BAR: Final = 12.0
STARTS: Final = 60
SCRIPT: Final = """
const first = await agent({stepId: 'first', agentRef: 'lead_agent', task: args.product});
const checks = await parallel([
  () => agent({stepId: 'a', agentRef: 'lead_agent', task: {evidence: first.output}}),
  () => agent({stepId: 'b', agentRef: 'lead_agent', task: {evidence: first.output}}),
]);
return checks.map((check) => check.output);
"""


def run() -> list[dict[str, Any]]:
    """The rows of demand 17, with the times that the ratio comes from and the start of a 16 kB script."""
    return asyncio.run(_run())


async def _run() -> list[dict[str, Any]]:
    long = _long_script()
    bare: list[float] = []
    ready: list[float] = []
    ready_long: list[float] = []
    for turn in range(STARTS + 2):
        samples = _bare(), await _start(SCRIPT), await _start(long)
        if turn > 1:  # The first turns only warm the page cache and the compiled modules.
            for times, taken in zip((bare, ready, ready_long), samples, strict=True):
                times.append(taken)
    base = median(bare)
    rows = [
        _row("bare python -I -S, p50", base * 1000, "ms"),
        _row("worker ready, p50", median(ready) * 1000, "ms"),
        _row("worker ready with a script of 16 kB, p50", median(ready_long) * 1000, "ms"),
        _row("worker ready", median(ready) / base, "× python -I -S -c pass", READY_BAR),
    ]
    resident = await _resident(long)
    if resident is not None:
        rows.append(_row("memory of a paused worker with a script of 16 kB", resident, "MiB", RESIDENT_BAR))
    return rows


def _row(name: str, value: float, unit: str, bar: float | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {"demand": "17", "name": name, "value": round(value, 3), "unit": unit}
    if bar is not None:
        row |= {"bar": bar, "ok": value <= bar}
    return row


def _bare() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True, stdin=subprocess.DEVNULL)
    return time.perf_counter() - started


async def _start(script: str) -> float:
    started = time.perf_counter()
    worker = await Worker.start(script=script, args=b'{"product":"x"}', limits=Limits())
    taken = time.perf_counter() - started
    await worker.close()
    return taken


def _long_script() -> str:
    lines = ["await pause({stepId: 'wait'});"]
    while sum(map(len, lines)) + 2 * len(lines) < SCRIPT_BYTES - 200:
        number = len(lines)
        lines.append(
            f"const check{number} = (value) => value.items.filter((item) => item.weight > {number});"
        )
    return "\n".join(lines)


async def _resident(script: str) -> float | None:
    """MiB that a worker holds while it waits at a pause; None where the system does not tell."""
    worker = await Worker.start(script=script, args=b"{}", limits=Limits())
    try:
        turn = await worker.first_turn()
        assert turn.outstanding == 1
        status = Path(f"/proc/{worker.pid}/status")
        if not status.exists():
            return None
        (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024
    finally:
        await worker.close()


if __name__ == "__main__":
    for row in run():
        judged = "" if "ok" not in row else f"  at most {row['bar']}: {'ok' if row['ok'] else 'missed'}"
        print(f"{row['name']:50} {row['value']:>9.2f} {row['unit']}{judged}")
