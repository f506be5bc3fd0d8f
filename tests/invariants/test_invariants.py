"""The invariants of the design, watched from outside the engine: on the disk, at the Agent, in the worker.

Those of states (6), limits (11), cancelling (12), uncertain admissions (4) and text (13) also have tests beside
the code that keeps them, under the same names.
"""

from __future__ import annotations

import ast
import asyncio
import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunRequest, AgentRunUncertain
from tests.workflows_core.engine.fakes import (
    Fails,
    FakeRuns,
    NeedsInput,
    request,
    run_script,
    service,
    settle,
)
from workflows_core.limits import OUTPUT_BYTES, TASK_BYTES, Limits
from workflows_core.model import TRANSITIONS, RunState
from workflows_core.worker.process import Turn, Worker

ROOT = Path(__file__).parents[2]
SEED = 7

THREE = """\
const a = await agent({stepId: 'a', agentRef: 'lead_agent', task: {n: 1}});
const rest = await parallel(['b', 'c', 'd'].map(name => () =>
  agent({stepId: name, agentRef: 'lead_agent', task: {n: a.output.n + 1}})));
return rest.map(each => each.output.n);
"""
ONE = "return await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});\n"


def query(folder: Path, sql: str, *values: Any) -> list[Any]:
    """Rows of the store as any other process sees them: what is committed and nothing else."""
    with closing(sqlite3.connect(f"{(folder / 'w.sqlite').as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql, values).fetchall()


def bodies(folder: Path, run_id: str, kind: str) -> list[bytes]:
    """The bodies of a run's committed frames of one kind, in order."""
    sql = "SELECT body FROM frames WHERE run_id = ? AND kind = ? ORDER BY number"
    return [row[0] for row in query(folder, sql, run_id, kind)]


def requested(folder: Path, run_id: str) -> set[str]:
    return {
        call["step_id"]
        for body in bodies(folder, run_id, "request")
        for call in json.loads(body)["calls"]
        if "step_id" in call
    }


async def test_i01_a_request_is_committed_before_an_agent_is_asked(tmp_path: Path) -> None:
    committed: dict[str, bool] = {}

    async def look(asked: AgentRunRequest) -> None:
        step_id, run_id = asked.metadata["step_id"], asked.metadata["workflow_run_id"]
        committed[step_id] = step_id in requested(tmp_path, run_id)

    runs = FakeRuns()
    runs.before_admit = look
    view = await run_script(tmp_path, THREE, runs)
    assert (view.state, view.result) == (RunState.COMPLETED, [2, 2, 2])
    assert committed == dict.fromkeys("abcd", True)


async def test_i02_a_response_is_committed_before_javascript_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[bytes] = []
    early: list[bytes] = []
    give = Worker.give

    async def watched(worker: Worker, frames: Sequence[bytes]) -> Turn:
        stored = {row[0] for row in query(tmp_path, "SELECT body FROM frames WHERE kind = 'response'")}
        given.extend(frames)
        early.extend(frame for frame in frames if frame not in stored)
        return await give(worker, frames)

    monkeypatch.setattr(Worker, "give", watched)
    view = await run_script(tmp_path, THREE)
    assert view.state is RunState.COMPLETED
    assert early == []
    assert given == bodies(tmp_path, view.run_id, "response"), "what JavaScript got are the journaled bytes"


async def test_i03_intents_come_before_admissions_and_child_ids_at_once(tmp_path: Path) -> None:
    intended: dict[str, bool] = {}

    async def look(asked: AgentRunRequest) -> None:
        sql = "SELECT attempt FROM admissions WHERE run_id = ? AND step_id = ?"
        found = query(tmp_path, sql, asked.metadata["workflow_run_id"], asked.metadata["step_id"])
        intended[asked.metadata["step_id"]] = found == [(1,)]

    async def answer_once_known(runs: FakeRuns, asked: AgentRunRequest) -> Any:
        """Only a child whose id is committed while it runs ever answers."""
        child = runs.by_key[asked.idempotency_key]
        sides = "SELECT side FROM marks UNION ALL SELECT side FROM frames"
        async with asyncio.timeout(60):
            while not any(child.encode() in row[0] for row in query(tmp_path, sides)):
                await asyncio.sleep(0.005)
        return asked.input["task"]

    runs = FakeRuns(answer_once_known)
    runs.before_admit = look
    view = await run_script(tmp_path, THREE, runs)
    assert view.state is RunState.COMPLETED
    assert intended == dict.fromkeys("abcd", True)


async def test_i05_results_go_to_their_steps_in_whatever_order_they_arrive(tmp_path: Path) -> None:
    script = """\
    const names = ['a', 'b', 'c', 'd'];
    const got = await parallel(names.map(name => () =>
      agent({stepId: name, agentRef: 'lead_agent', task: {of: args.of, name}})));
    return got.map(each => [each.output.of, each.output.name, each.threadId]);
    """
    draw = random.Random(SEED)
    late: dict[str, float] = {}

    async def answer(runs: FakeRuns, asked: AgentRunRequest) -> Any:
        await asyncio.sleep(late.setdefault(asked.idempotency_key, draw.choice((0, 0.005, 0.01, 0.02))))
        return asked.input["task"]

    runs = FakeRuns(answer)
    async with service(
        tmp_path, runs, concurrency=4, global_concurrency=8, max_workflows_per_owner=4
    ) as engine:
        launched = [
            (await engine.launch(request(script, args={"of": number}), runs)).run_id for number in range(4)
        ]
        views = [await settle(engine, run_id, runs) for run_id in launched]
    threads = set()
    for number, view in enumerate(views):
        assert [(of, name) for of, name, _ in view.result] == [(number, name) for name in "abcd"]
        assert [(step.step_id, step.output) for step in view.steps] == [
            (name, {"of": number, "name": name}) for name in "abcd"
        ]
        threads |= {thread for _, _, thread in view.result}
    assert len(threads) == 16, "the same stepId in two runs names two things"
    assert len({asked.idempotency_key for asked in runs.admitted}) == 16


async def test_i06_every_stored_change_of_a_state_stands_in_the_table(tmp_path: Path) -> None:
    async def answer(runs: FakeRuns, asked: AgentRunRequest) -> Any:
        if asked.input["task"] == "ask":
            raise NeedsInput("which one?")
        if asked.input["task"] == "fail":
            raise Fails("no")
        if asked.input["task"] == "hang":
            await asyncio.sleep(60)

    async def lose(asked: AgentRunRequest) -> None:
        if asked.input["task"] == "lose":
            raise AgentRunUncertain("nobody knows")

    async with service(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / "w.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE audit (before TEXT, after TEXT, steps INTEGER)")
        connection.execute(
            "CREATE TRIGGER audit_runs AFTER UPDATE ON runs BEGIN INSERT INTO audit VALUES "
            "(OLD.state, NEW.state, NEW.revision - OLD.revision); END"
        )
    runs = FakeRuns(answer)
    runs.before_admit = lose
    script = ONE.replace("task: 1", "task: args.do")
    async with service(tmp_path, runs, max_workflows_per_owner=4, max_workflows=8) as engine:
        for task in ("go", "fail", "ask", "lose"):
            launched = await engine.launch(request(script, args={"do": task}), runs)
            await settle(engine, launched.run_id, runs)
            await engine.cancel(launched.run_id, runs)
        live = await engine.launch(request(script, args={"do": "hang"}), runs)
        left = await engine.launch(request(script, args={"do": "hang"}), runs)
        while len(runs.alive()) < 2:
            await asyncio.sleep(0.005)
        await engine.cancel(live.run_id, runs)
        await settle(engine, live.run_id, runs)
    async with service(tmp_path, runs) as engine:
        await engine.cancel(left.run_id, runs)
    changes = query(tmp_path, "SELECT before, after, steps FROM audit")
    admitted = {(before.value, after.value) for row in TRANSITIONS.values() for before, after in row.items()}
    assert {(before, after) for before, after, _ in changes} <= admitted
    assert {steps for _, _, steps in changes} == {1}, "each write raises the revision by one"
    assert {after for _, after, _ in changes} >= {
        "running", "completed", "failed", "waiting_input", "needs_reconciliation", "cancelled", "recoverable",
    }  # fmt: skip


def sources() -> list[tuple[str, ast.Module]]:
    """Every module of the program, parsed, with its path from the root."""
    found = []
    for package in ("extension_api", "workflows_core", "workbench"):
        for path in sorted((ROOT / package).rglob("*.py")):
            found.append((str(path.relative_to(ROOT)), ast.parse(path.read_bytes())))
    return found


def test_i10_no_module_but_the_workers_can_reach_the_engine() -> None:
    worker = "workflows_core/worker/"
    for name, tree in sources():
        for node in ast.walk(tree):
            imported: list[str] = []
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            engines = [each for each in imported if each.partition(".")[0] in ("quickjs", "_quickjs")]
            assert not engines or (name, engines) == (f"{worker}launch.py", ["_quickjs"]), name
            inside = [each for each in imported if each.endswith(("worker.child", "worker.probe_child"))]
            assert not inside or name == f"{worker}probe_child.py", name
            if isinstance(node, ast.Constant) and node.value in ("quickjs", "_quickjs"):
                assert name == f"{worker}child.py", name
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "_quickjs":
                assert node.attr == "__file__", f"{name}:{node.lineno}"


#: Runs a command line while the engine's module offers its path and nothing else.
GUARDED = """
import importlib.util, os, sys, types
spec = importlib.util.find_spec("_quickjs")
def refuse(name):
    if name.startswith("__"):
        raise AttributeError(name)
    os.write(2, f"the engine was reached for: {name}\\n".encode())
    os._exit(97)
engine = types.ModuleType("_quickjs")
engine.__file__, engine.__spec__, engine.__getattr__ = spec.origin, spec, refuse
sys.modules["_quickjs"], sys.modules["quickjs"] = engine, None
from workbench.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("arguments", "status"), [(["run"], 0), (["check"], 0), (["check", "--syntax-error"], 1)]
)
def test_i10_commands_work_without_the_engine_in_their_process(
    tmp_path: Path, arguments: list[str], status: int
) -> None:
    script = tmp_path / "one.workflow.js"
    script.write_text(ONE if len(arguments) == 1 else "return (1 +;\n")
    done = subprocess.run(
        [sys.executable, "-c", GUARDED, arguments[0], str(script), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert done.returncode == status, done.stderr
    document = json.loads(done.stdout)
    if arguments == ["run"]:
        assert document["result"]["output"] == 1
    else:
        assert bool(document["problems"]) == bool(status)


async def test_i11_at_a_limit_nothing_is_cut(tmp_path: Path) -> None:
    task = "x" * (TASK_BYTES - len('{"artifacts":[],"task":""}'))
    output = "y" * (OUTPUT_BYTES - 2)

    async def answer(runs: FakeRuns, asked: AgentRunRequest) -> Any:
        return output

    runs = FakeRuns(answer)
    script = f"const one = await agent({{stepId: 'a', agentRef: 'lead_agent', task: 'x'.repeat({len(task)})}});\nreturn one.output;"
    view = await run_script(tmp_path / "at", script, runs)
    assert (view.state, view.result) == (RunState.COMPLETED, output)
    assert runs.admitted[0].input["task"] == task
    assert view.steps[0].input == task

    over = FakeRuns(answer)
    view = await run_script(tmp_path / "over", script.replace(f"({len(task)})", f"({len(task) + 1})"), over)
    assert (view.state, over.admitted) == (RunState.FAILED, [])
    assert view.cause is not None and f"{TASK_BYTES:,}" in view.cause.message
    assert bodies(tmp_path / "over", view.run_id, "request") == []


async def test_i12_a_cancel_is_taken_in_every_state_that_is_not_final(tmp_path: Path) -> None:
    async def answer(runs: FakeRuns, asked: AgentRunRequest) -> Any:
        if asked.input["task"] == "ask":
            raise NeedsInput("which one?")
        await asyncio.sleep(60)

    async def lose(asked: AgentRunRequest) -> None:
        if asked.input["task"] == "lose":
            raise AgentRunUncertain("nobody knows")

    runs = FakeRuns(answer)
    runs.before_admit = lose
    script = ONE.replace("task: 1", "task: args.do")
    ends = {"ask": "cancelled", "lose": "needs_reconciliation", "hang": "cancelled", "left": "cancelled"}
    async with service(tmp_path, runs, max_workflows_per_owner=4) as engine:
        launched = {
            task: (await engine.launch(request(script, args={"do": task}), runs)).run_id for task in ends
        }
        for task in ("ask", "lose"):
            await settle(engine, launched[task], runs)
        while len(runs.alive()) < 2:
            await asyncio.sleep(0.005)
        for task in ("ask", "lose", "hang"):
            assert (await engine.cancel(launched[task], runs)).status == "recorded"
        await settle(engine, launched["hang"], runs)
    async with service(tmp_path, runs) as engine:
        assert (await engine.inspect(launched["left"], runs)).state is RunState.RECOVERABLE
        await engine.cancel(launched["left"], runs)
        for task, state in ends.items():
            async with asyncio.timeout(60):
                while (view := await engine.inspect(launched[task], runs)).state.value != state:
                    await asyncio.sleep(0.005)
            assert view.cancel_requested, task


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads the environment of a process")
async def test_i14_the_worker_has_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    secret = "planted-secret-4711"
    for name in ("OPENAI_API_KEY", "LD_PRELOAD_NOT", "PYTHONPATH", "HOME"):
        monkeypatch.setenv(name, f"/{secret}/{name}")
    worker = await Worker.start(script="return 1;", args=b"{}", limits=Limits())
    try:
        process = Path(f"/proc/{worker.pid}")
        assert process.joinpath("environ").read_bytes().split(b"\0") == [b"LC_ALL=C.UTF-8", b""]
        assert secret.encode() not in process.joinpath("cmdline").read_bytes()
        inherited = {str(each.readlink()).partition(":")[0] for each in process.joinpath("fd").iterdir()}
        assert inherited == {"pipe"}, "no file of ours is open in the worker"
    finally:
        await worker.close()
