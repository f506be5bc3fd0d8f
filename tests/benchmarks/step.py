"""Demand 15: one durable step against a bare QuickJS loop with two commits, and against LangGraph's saver.

All are measured in one run, interleaved, on the same disk. Ours includes the host's record and the stub agent.
LangGraph is measured where it is installed (``pip install langgraph langgraph-checkpoint-sqlite``).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import _quickjs

from workbench.client import Client
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchRequest
from workflows_core.model import new_id

STEPS = 32
RUNS = 20

SCRIPT = f"""\
let last = null;
for (let i = 0; i < {STEPS}; i++) {{
  last = await agent({{stepId: `s${{i}}`, agentRef: 'lead_agent', task: {{i, text: 'a short task'}}}});
}}
return last.output;
"""

CONFIG = """\
plugins:
  - name: workflows
    use: workflows_core.extension:install
    config: {max_calls: 32, retained_runs: 1000}
"""


def bare(folder: Path) -> list[float]:
    """Seconds for each step of a loop that evaluates JavaScript and commits a request and a response."""
    connection = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS frames (number INTEGER PRIMARY KEY, body TEXT) STRICT")
    context = _quickjs.Context()
    step = context.eval("(function (text) { return JSON.stringify({task: JSON.parse(text)}); })")
    times = []
    for index in range(STEPS):
        begin = time.perf_counter()
        request = step(json.dumps({"i": index, "text": "a short task"}))
        for body in (request, json.dumps({"output": json.loads(request)})):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO frames (body) VALUES (?)", (body,))
            connection.execute("COMMIT")
        times.append(time.perf_counter() - begin)
    connection.close()
    return times


async def ours(client: Client) -> list[float]:
    """Seconds for each step of one run, from the commit of one request to that of the next."""
    options = client.workspace.options()
    launched = await client.launch(
        LaunchRequest(script=SCRIPT, args={}, name="bench", request_id=new_id("rq"), options=options)
    )
    await client.wait_idle()
    view = await client.view(launched.run_id)
    assert view.state == "completed", view.cause
    at = [frame.at for frame in view.frames if frame.kind == "request"]
    return [(after - before) / 1e6 for before, after in itertools.pairwise(at)]


def langgraph(folder: Path) -> list[float] | None:
    """Seconds a step of a LangGraph graph of as many nodes with the synchronous SQLite saver."""
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.graph import END, START, StateGraph
    except ImportError:
        return None

    connection = sqlite3.connect(folder / "langgraph.sqlite", check_same_thread=False)
    graph: Any = StateGraph(dict)
    stamps: list[float] = []

    def node(state: dict[str, Any]) -> dict[str, Any]:
        stamps.append(time.perf_counter())
        return {"i": state["i"] + 1, "text": "a short task"}

    graph.add_node("step", node)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: END if state["i"] >= STEPS else "step")
    compiled = graph.compile(checkpointer=SqliteSaver(connection))
    config = {"configurable": {"thread_id": new_id("t")}, "recursion_limit": STEPS + 5}
    compiled.invoke({"i": 0}, config, durability="sync")
    connection.close()
    return [after - before for before, after in itertools.pairwise(stamps)]


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "workbench.yaml").write_text(CONFIG)
        return asyncio.run(_measure(folder))


async def _measure(folder: Path) -> list[dict[str, Any]]:
    client = await Client.open(Workspace.find(folder, folder), host="required")
    loop_times: list[float] = []
    our_times: list[float] = []
    peer_times: list[float] = []
    try:
        for _ in range(RUNS):
            our_times += await ours(client)
            loop_times += bare(folder)
            peer_times += langgraph(folder) or []
    finally:
        await client.close()
    base = statistics.median(loop_times)
    step = statistics.median(our_times)
    rows = [
        {"demand": "15", "name": "bare loop with two commits, p50", "value": base * 1e3, "unit": "ms"},
        {"demand": "15", "name": "durable step, p50", "value": step * 1e3, "unit": "ms"},
        {
            "demand": "15",
            "name": "durable step / bare loop",
            "value": step / base,
            "unit": "×",
            "bar": 2.2,
            "ok": step / base <= 2.2,
        },
    ]
    if peer_times:
        peer = statistics.median(peer_times)
        rows.append(
            {
                "demand": "15",
                "name": "durable step / LangGraph SqliteSaver (sync)",
                "value": step / peer,
                "unit": "×",
                "bar": 0.5,
                "ok": step / peer <= 0.5,
            }
        )
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
