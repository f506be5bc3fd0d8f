"""Demand 20: ``--help``, ``check`` and ``runs`` answer within 2.5 × a bare Python start plus click.

All commands start in fresh interpreters, interleaved with the bare start, so that the machine's moods fall on
all of them; the ratio of the medians is judged. Modules are compiled beforehand, as they are where a package is
installed: into a folder of this measurement, whatever the environment says about bytecode.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

BAR: Final = 2.5
ROUNDS: Final = 15
BARE: Final = "import click"
COMMAND: Final = "import sys; from workbench.cli.main import main; main(sys.argv[1:])"


def run() -> list[dict[str, Any]]:
    """One row a command: milliseconds as ``detail``, the ratio as ``value``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _fill(folder)
        jobs = {
            "bare": [BARE],
            "--help": [COMMAND, "--help"],
            "check": [COMMAND, "check", "first.workflow.js"],
            "runs": [COMMAND, "runs"],
        }
        seconds: dict[str, list[float]] = {job: [] for job in jobs}
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for turn in range(ROUNDS + 1):
            for job, arguments in jobs.items():
                taken = _time(arguments, folder, environment)
                if turn:  # The first turn only compiles the modules and warms the page cache.
                    seconds[job].append(taken)
    bare = median(seconds.pop("bare"))
    return [
        {
            "demand": 20,
            "name": f"workbench {job}",
            "value": round(median(taken) / bare, 2),
            "unit": "× python + click",
            "bar": BAR,
            "ok": median(taken) / bare <= BAR,
            "detail": f"{median(taken) * 1000:.0f} ms of {bare * 1000:.0f} ms",
        }
        for job, taken in seconds.items()
    ]


def _fill(folder: Path) -> None:
    """A workspace with a script and twenty runs."""
    from workbench.client import Client
    from workbench.scripts import write_starter
    from workbench.workspace import Workspace
    from workflows_core.engine.requests import LaunchRequest

    write_starter(folder)
    workspace = Workspace.find(folder, folder)

    async def launch() -> None:
        client = await Client.open(workspace, host="required")
        try:
            for number in range(20):
                request = LaunchRequest(
                    script=f"return {number};",
                    args={},
                    name=f"run {number}",
                    request_id=f"req_{number}",
                    options=workspace.options(),
                )
                await client.launch(request)
                await client.wait_idle()
        finally:
            await client.close()

    asyncio.run(launch())


def _time(arguments: list[str], folder: Path, environment: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", *arguments],
        cwd=folder,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=60,
    )
    return time.perf_counter() - begin


if __name__ == "__main__":
    for row in run():
        print(row)
