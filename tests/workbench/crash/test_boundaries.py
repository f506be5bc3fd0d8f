"""SIGKILL at commit boundaries: what Agents and JavaScript had by then was committed, and the run can go on."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.workbench.crash import kit
from workbench.client import Client
from workbench.workspace import Workspace
from workflows_core.journal.frames import FrameKind

SEED = 42
SAMPLE = 4

THREE = """\
const a = await agent({stepId: 'a', agentRef: 'lead_agent', task: {n: 1}});
const b = await agent({stepId: 'b', agentRef: 'lead_agent', task: {n: a.output.n + 1}});
const c = await agent({stepId: 'c', agentRef: 'lead_agent', task: {n: b.output.n + 1}});
return c.output;
"""
PARALLEL = """\
const call = (stepId, task) => () => agent({stepId, agentRef: 'lead_agent', task});
const sides = await parallel(['a', 'b', 'c', 'd', 'e'].map(name => call(name, {name})));
const more = await parallel(sides.map((side, index) => call(`again-${index}`, side.output)));
return more.map(each => each.output.name);
"""
CAUGHT = """\
const seen = [];
for (let n = 0; n < 12; n++) {
  log(`round ${n}`);
  try {
    seen.push((await agent({stepId: `s-${n}`, agentRef: 'lead_agent', task: {n}})).output.n);
  } catch (error) {
    seen.push(error.code);
  }
}
return seen;
"""
THROWS = """\
for (const n of [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) await agent({stepId: `t-${n}`, agentRef: 'lead_agent', task: n});
const left = agent({stepId: 'left', agentRef: 'lead_agent', task: 1});
throw new Error('enough');
"""
LONG = """\
let value = {n: 0};
for (const n of [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]) {
  value = (await agent({stepId: `l-${n}`, agentRef: 'lead_agent', task: {n, value: value.n}})).output;
}
return value;
"""
DELAYS = "- {step: '[bc]', after: 0.02, reply: {name: slow, n: 2}}\n- {step: s-3, fail: 'no'}\n- {step: left, hang: true}\n"
SCRIPTS = {"three": THREE, "parallel": PARALLEL, "caught": CAUGHT, "throws": THROWS, "long": LONG}
#: Commit boundaries of a run, whatever finishes together.
FEWEST = {"three": 18, "parallel": 14, "caught": 54, "throws": 46, "long": 62}
ENDS = {
    "three": "completed",
    "parallel": "completed",
    "caught": "completed",
    "throws": "failed",
    "long": "completed",
}


class Point(NamedTuple):
    """One killed (or finished) process: its workspace, and the boundaries that it passed."""

    folder: Path
    killed: bool
    passed: list[str]

    @property
    def calls(self) -> Any:
        return kit.agent_calls(self.folder.with_suffix(".calls.jsonl"))

    @property
    def given(self) -> list[bytes]:
        path = self.folder.with_suffix(".given")
        return path.read_bytes().splitlines() if path.exists() else []


def drive(root: Path, name: str, points: list[int]) -> list[Point]:
    script = kit.write_script(root, name, SCRIPTS[name], DELAYS)
    done = subprocess.run(
        [
            sys.executable, "-m", "tests.workbench.crash.driver",
            str(root), str(script), str(root / f"{name}.stubs.yaml"), *map(str, points),
        ],
        capture_output=True,
        text=True,
        timeout=kit.PATIENCE_SECONDS * 10,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = []
    for line in done.stdout.splitlines():
        report = json.loads(line)
        found.append(Point(root / str(report["point"]), report["killed"], report["passed"]))
    return found


@pytest.mark.parametrize("name", SCRIPTS)
async def test_i01_i02_i03_killed_at_commit_boundaries(tmp_path: Path, name: str) -> None:
    (whole,) = drive(tmp_path, name, [0])
    await check_whole(whole, name)
    boundaries = range(1, len(whole.passed) + 1)
    points = sorted(random.Random(SEED + len(name)).sample(boundaries, SAMPLE))
    print(f"seed {SEED}: killed at {[(point, whole.passed[point - 1]) for point in points]}")
    for point in drive(tmp_path, name, points):
        await check_point(point)


@pytest.mark.soak
@pytest.mark.parametrize("name", SCRIPTS)
async def test_i01_i02_i03_killed_at_every_commit_boundary(tmp_path: Path, name: str) -> None:
    (whole,) = drive(tmp_path, name, [0])
    points = drive(tmp_path, name, list(range(1, len(whole.passed) + 3)))
    for number, point in enumerate(points, 1):
        await check_point(point)
        # What finishes together is committed together, so one run may have fewer boundaries than another.
        assert point.killed is (len(point.passed) == number)
    assert sum(point.killed for point in points) >= FEWEST[name]


@pytest.mark.soak
def test_the_scripts_have_enough_boundaries(tmp_path: Path) -> None:
    passed = 0
    for name in SCRIPTS:
        root = tmp_path / name
        root.mkdir()
        passed += len(drive(root, name, [0])[0].passed)
    assert passed >= 200


def test_a_step_costs_two_commits(tmp_path: Path) -> None:
    (whole,) = drive(tmp_path, "long", [0])
    assert whole.passed == [
        f"{side} {what}"
        for what in ("create run", "record", *("request", "response") * 14, "end")
        for side in ("before", "after")
    ]


async def check_whole(point: Point, name: str) -> None:
    assert not point.killed
    (run,) = kit.query(point.folder, "SELECT run_id, state FROM runs")
    assert run[1] == ENDS[name]
    frames = kit.journal(point.folder, run[0])
    assert point.given == [frame.body for frame in frames if frame.kind is FrameKind.RESPONSE]
    assert set(point.calls) == kit.intents(point.folder, run[0])


async def check_point(point: Point) -> None:
    """What is on the disk, what a reader says, what the next owner makes of it, and that cancel works."""
    folder = point.folder
    workspace = Workspace(folder)
    stored = kit.query(folder, "SELECT run_id FROM runs")
    assert bool(stored) == (len(point.passed) > 1), "the first commit is the one that creates the run"
    if not stored:
        assert not point.calls
        assert not point.given
        return
    ((run_id,),) = stored
    frames = kit.journal(folder, run_id)
    committed = [frame.body for frame in frames if frame.kind is FrameKind.RESPONSE]
    assert point.given == committed[: len(point.given)], "JavaScript saw what was not committed"
    assert len(committed) - len(point.given) <= 1, "a committed batch is given at once"
    assert set(point.calls) <= kit.intents(folder, run_id), "an Agent was asked without a committed intent"
    assert max(point.calls.values(), default=1) == 1
    before = await seen(workspace, run_id)
    kit.check_truth(folder, before, point.calls)
    if not point.killed or before["state"] in ("completed", "failed"):
        return
    assert before["state"] == "recoverable"
    assert before["cause"]["code"] == "owner_gone"
    client = await Client.open(workspace, host="required")
    try:
        assert kit.query(folder, "SELECT state FROM runs") == [("recoverable",)]
        assert await seen(workspace, run_id) == before, "the new owner writes what readers had said"
        await client.cancel(run_id)
        await client.wait_idle()
    finally:
        await client.close()
    after = await seen(workspace, run_id)
    if after["state"] != "cancelled":
        assert after["state"] == "needs_reconciliation"
        lost = {step["step_id"] for step in after["steps"] if step["status"] == "uncertain"}
        assert lost
        assert lost.isdisjoint(step_id for _, step_id, _ in point.calls), (
            "what was asked is known to the host"
        )
    kit.journal(folder, run_id)


async def seen(workspace: Workspace, run_id: str) -> dict[str, Any]:
    from workbench.document import run_document

    client = await Client.open(workspace, host="never")
    try:
        return run_document(await client.view(run_id))
    finally:
        await client.close()
