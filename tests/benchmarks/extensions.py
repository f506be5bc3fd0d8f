"""Zero extensions cost nothing per run: what of a child run is there for extensions, where none is loaded.

Measured on a host without the workflow plugin, against one child run of the same host, and beside a host with one
empty task hook and one empty observer of assemblies.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from extension_api.agent_runs import AgentRunRequest
from workbench.agents.stub import StubBackend
from workbench.host.handles import LocalAgentRuns
from workbench.host.host import LocalHost
from workbench.workspace import Workspace

ROUNDS = 15
RUNS = 100
LOOK_UPS = 20_000
#: The share of a child run that may be there for extensions, where none is loaded.
BAR = 0.05

EMPTY = """
from deerflow_extension_api import AgentAssemblyObserver, TaskLifecycleContributor

class Hooks(TaskLifecycleContributor): pass
class Watcher(AgentAssemblyObserver): pass

def install(registry, config):
    registry.task_lifecycle(Hooks())
    registry.agent_assembly_observer(Watcher())
"""


@contextmanager
def host(folder: Path, plugins: str) -> Iterator[LocalHost]:
    folder.mkdir()
    (folder / "bench_empty_extension.py").write_text(EMPTY)
    (folder / "workbench.yaml").write_text(f"plugins: {plugins}\n")
    opened = LocalHost.open(Workspace.find(explicit=folder))
    try:
        yield opened
    finally:
        opened.close()


async def child_runs(session: LocalAgentRuns, options: dict[str, Any], round_: int) -> float:
    """Seconds for each of RUNS child runs, one after the other."""
    begin = time.perf_counter()
    for number in range(RUNS):
        key = f"{round_}-{number}"
        view = await session.admit(
            AgentRunRequest(
                "lead_agent",
                f"wf_{key}",
                key,
                {"task": {"n": number}},
                metadata={"workflow_run_id": f"wr_{round_}"},
                options=options,
            )
        )
        if view.status.active:
            await session.observe(view.run_id)
    return (time.perf_counter() - begin) / RUNS


async def look_ups(host: LocalHost, options: dict[str, Any]) -> float:
    """Seconds for what one child run does about extensions where none is loaded."""
    generations, stub = host.extensions.generations, StubBackend()
    begin = time.perf_counter()
    for _ in range(LOOK_UPS):
        generation = generations.of("wr_1")
        if not generation.snapshot.observes_runs:
            generation.assembler.assemble("lead_agent", stub, {}, options)
    return (time.perf_counter() - begin) / LOOK_UPS


def run() -> list[dict[str, Any]]:
    with (
        tempfile.TemporaryDirectory() as name,
        host(Path(name) / "none", "[]") as none,
        host(Path(name) / "one", "[{name: e, use: 'bench_empty_extension:install'}]") as one,
    ):
        options = none.workspace.options()
        sessions = (none.session(), one.session())
        alone: list[float] = []
        shares: list[float] = []
        ratios: list[float] = []
        for round_ in range(ROUNDS):
            plain = none.submit(child_runs(sessions[0], options, round_)).result()
            hooked = one.submit(child_runs(sessions[1], options, round_)).result()
            alone.append(plain)
            shares.append(none.submit(look_ups(none, options)).result() / plain)
            ratios.append(hooked / plain)
    share = statistics.median(shares)
    return [
        row("child run, no extension", statistics.median(alone) * 1000, "ms"),
        row("extensions in it, none loaded", share, "x", BAR, share <= BAR),
        row("child run, empty hooks / none", statistics.median(ratios), "x"),
    ]


def row(
    name: str, value: float, unit: str, bar: float | None = None, ok: bool | None = None
) -> dict[str, Any]:
    return {"demand": "15 extensions", "name": name, "value": value, "unit": unit, "bar": bar, "ok": ok}
