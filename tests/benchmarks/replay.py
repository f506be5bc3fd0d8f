"""Demand 16: replaying a recorded run, stepping back in it, and opening a journal of the largest size.

Replay is measured from the worker that is ready to the verdict, over 1,000 steps; a bare QuickJS loop on the same
answers, in the same process, stands beside it. LangGraph's replay of as many nodes is measured where it is installed.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import _quickjs
import msgspec

from workflows_core.journal.bundle import Bundle, open_bundle, versions_here, write
from workflows_core.journal.debugger import Debugger
from workflows_core.journal.frames import Frame, FrameKind, JournalWriter, Side, start_body
from workflows_core.journal.replay import Replayer
from workflows_core.jsontext import encode, sha256
from workflows_core.limits import JOURNAL_BYTES, Limits
from workflows_core.model import RunRecord, RunState
from workflows_core.script.source import script_hash
from workflows_core.worker.ahead import ReplayWorker
from workflows_core.worker.process import runtime_signature

STEPS = 1_000
ROUNDS = 7
SCRIPT = f"""\
let total = 0;
for (let i = 0; i < {STEPS}; i++) {{
  const r = await agent({{stepId: `s${{i}}`, agentRef: 'lead_agent', task: {{i, text: 'a short task'}}}});
  total += r.output.n;
}}
return total;
"""


def journal(steps: int, output: Any) -> list[Frame]:
    writer = JournalWriter()
    body = start_body(
        script_hash=script_hash(SCRIPT),
        args={},
        limits=msgspec.structs.asdict(Limits()),
        agents=["lead_agent"],
        options_hash="o",
        runtime_signature=runtime_signature(),
    )
    frames = [writer.frame(FrameKind.START, body, 0)]
    for i in range(steps):
        call = {"id": i + 1, "op": "agent", "step_id": f"s{i}", "agent_ref": "lead_agent"}
        request = encode({"calls": [{**call, "task": {"i": i, "text": "a short task"}}]})
        frames.append(writer.frame(FrameKind.REQUEST, request, i, Side(positions=((3, 19),))))
        value = {
            "output": output,
            "threadId": "t" * 43,
            "runId": "r" * 16,
            "status": "success",
            "artifactVersion": "v" * 64,
        }
        frames.append(
            writer.frame(
                FrameKind.RESPONSE, encode({"results": [{"id": i + 1, "ok": True, "value": value}]}), i
            )
        )
    if steps == STEPS:
        end = encode({"by": "script", "ok": True, "value": steps * output["n"]})
        frames.append(writer.frame(FrameKind.END, end, steps))
    return frames


async def replayed(frames: list[Frame]) -> float:
    worker = await ReplayWorker.start(script=SCRIPT, args=b"{}", limits=Limits(), replay=True)
    try:
        begin = time.perf_counter()
        await Replayer(worker, frames).run()
        return time.perf_counter() - begin
    finally:
        await worker.close()


def bare(frames: list[Frame]) -> float:
    """The same answers through a bare engine: parse, add, and write the next request."""
    context = _quickjs.Context()
    step = context.eval(
        "((total) => (i, text) => { total += JSON.parse(text).results[0].value.output.n;"
        " return JSON.stringify({id: i, op: 'agent', task: {i, text: 'a short task'}, total}); })(0)"
    )
    answers = [frame.body.decode() for frame in frames if frame.kind is FrameKind.RESPONSE]
    begin = time.perf_counter()
    for index, answer in enumerate(answers):
        json.loads(step(index, answer))
    return time.perf_counter() - begin


async def step_back(frames: list[Frame]) -> list[float]:
    """Seconds of single steps back near the end of the run."""
    debugger = await Debugger.open(SCRIPT, frames)
    try:
        await debugger.go_to_frame(len(frames) - 2)
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            await debugger.step_back()
            times.append(time.perf_counter() - begin)
        return times
    finally:
        await debugger.close()


def bundle(frames: list[Frame]) -> Bundle:
    record = RunRecord(
        run_id="wr_bench",
        owner="os:1",
        request_id="r",
        name="bench",
        state=RunState.RECOVERABLE,
        revision=1,
        created_at=1,
        since=1,
        last_progress=1,
        script_hash=script_hash(SCRIPT),
        args_hash=sha256(b"{}"),
        identity_hash="i",
        configuration_revision="c",
        runtime_signature=runtime_signature(),
        agents=("lead_agent",),
        options={"agents": "stub"},
        limits=Limits(),
    )
    return Bundle(
        record=record,
        script=SCRIPT,
        frames=tuple(frames),
        marks=(),
        decisions=(),
        attestations=(),
        captures=(),
        read_capture=dict[str, bytes]().__getitem__,
        read_options=lambda: {"agents": "stub"},
        versions=versions_here(),
    )


def opening() -> list[float]:
    """Seconds to open a bundle whose journal is as large as one can be, and to show its run."""
    large = {"n": 1, "text": "x" * 11_000, "list": list(range(100))}
    frames = journal((JOURNAL_BYTES - 40_000) // 12_000, large)
    times = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "large.wfrun"
        path.write_bytes(write(bundle(frames)))
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            open_bundle(path).view()
            times.append(time.perf_counter() - begin)
    return times


def run() -> list[dict[str, Any]]:
    frames = journal(STEPS, {"n": 1})
    ours: list[float] = []
    loop: list[float] = []
    asyncio.run(replayed(frames))
    for _ in range(ROUNDS):
        ours.append(asyncio.run(replayed(frames)) / STEPS)
        loop.append(bare(frames) / STEPS)
    back = asyncio.run(step_back(frames))
    opened = opening()
    rows = [
        ("replay, a step", statistics.median(ours) * 1e3, 0.1, f"best {min(ours) * 1e3:.3f} ms"),
        ("replay, a step of a bare loop", statistics.median(loop) * 1e3, None, ""),
        ("step back at 1,000 frames", statistics.median(back) * 1e3, 150, f"worst {max(back) * 1e3:.0f} ms"),
        ("open a 4 MiB journal", statistics.median(opened) * 1e3, 300, f"worst {max(opened) * 1e3:.0f} ms"),
    ]
    return [
        {
            "demand": 16,
            "name": name,
            "value": value,
            "unit": "ms",
            "bar": bar,
            "ok": None if bar is None else value <= bar,
            "detail": detail,
        }
        for name, value, bar, detail in rows
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
