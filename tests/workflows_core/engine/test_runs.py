"""Runs from launch to their end: what scripts get, what is journaled, and what stops them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from workflows_core.journal.frames import verify_chain
from workflows_core.jsontext import parse
from workflows_core.model import RunState, StepStatus

from .fakes import Fails, FakeRuns, NeedsInput, request, run_script, service, settle

CHECKS = """\
const first = await agent({stepId: 'first', agentRef: 'lead_agent', task: args.task});
const checks = await parallel([
  () => agent({stepId: 'a', agentRef: 'lead_agent', task: {evidence: first.output}}),
  () => agent({stepId: 'b', agentRef: 'lead_agent', task: {evidence: first.output}}),
]);
log('Two checks finished');
return checks.map(check => check.output);
"""


def agent(step: str, task: str = "1") -> str:
    return f"agent({{stepId: '{step}', agentRef: 'lead_agent', task: {task}}})"


async def test_a_script_runs_to_its_result_and_every_frame_is_chained(tmp_path: Path) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(CHECKS, args={"task": "hi"}), runs)
        view = await settle(engine, launched.run_id, runs)
        frames, _ = engine.store.journal(launched.run_id)
    verify_chain(frames)
    assert view.state is RunState.COMPLETED
    assert view.result == [{"evidence": "hi"}, {"evidence": "hi"}]
    assert [(step.step_id, step.status.value, step.line) for step in view.steps] == [
        ("first", "completed", 1),
        ("a", "completed", 3),
        ("b", "completed", 4),
    ]
    assert [line.message for line in view.log] == ["Two checks finished"]
    assert [frame.kind for frame in view.frames][:3] == ["start", "request", "response"]
    assert view.frames[-1].kind == "end"
    assert all(step.badge == "stub" and step.child_run_id for step in view.steps)


async def test_parallel_keeps_order_whatever_finishes_first(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def slow_first(runs: FakeRuns, req: Any) -> Any:
        if req.metadata["step_id"] == "a":
            await gate.wait()
        return req.metadata["step_id"]

    script = f"return (await parallel([() => {agent('a')}, () => {agent('b')}])).map(r => r.output);"
    runs = FakeRuns(slow_first)
    async with service(tmp_path, runs) as engine:
        run_id = (await engine.launch(request(script), runs)).run_id
        while not any(f.kind == "response" for f in (await engine.inspect(run_id, runs)).frames):
            await asyncio.sleep(0.005)
        gate.set()
        view = await settle(engine, run_id, runs)
    assert view.result == ["a", "b"]
    responses = [frame for frame in view.frames if frame.kind == "response"]
    assert [frame.summary for frame in responses] == ["b", "a"]


async def test_an_agent_failure_is_an_ordinary_rejection(tmp_path: Path) -> None:
    async def fails(runs: FakeRuns, req: Any) -> Any:
        raise Fails("no model today")

    script = f"try {{ await {agent('a')}; }} catch (e) {{ return [e.name, e.code, e.message]; }}"
    view = await run_script(tmp_path, script, FakeRuns(fails))
    assert view.result == ["AgentError", "agent_failed", "no model today"]
    assert view.steps[0].status is StepStatus.FAILED


async def test_an_uncaught_throw_fails_the_run_with_its_place(tmp_path: Path) -> None:
    view = await run_script(tmp_path, "const x = 1;\nthrow new RangeError('out of soap');")
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert (view.cause.code, view.cause.line) == ("script_error", 2)
    assert "out of soap" in view.cause.message


async def test_an_unawaited_call_fails_the_run_and_interrupts_the_child(tmp_path: Path) -> None:
    async def never(runs: FakeRuns, req: Any) -> Any:
        await asyncio.sleep(60)

    runs = FakeRuns(never)
    script = f"{agent('lost')};\nawait 0;\nreturn 1;"
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(script), runs)
        view = await settle(engine, launched.run_id, runs)
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert view.cause.code == "unawaited_call"
    assert "lost" in view.cause.message
    assert runs.alive() == []


async def test_a_stalled_script_is_a_failure_of_its_own(tmp_path: Path) -> None:
    view = await run_script(tmp_path, "await new Promise(() => {});")
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert view.cause.code == "stalled"


async def test_a_child_that_asks_a_human_stops_the_run_even_if_caught(tmp_path: Path) -> None:
    async def asks(runs: FakeRuns, req: Any) -> Any:
        if req.metadata["step_id"] == "ask":
            raise NeedsInput("which soap?")
        await asyncio.sleep(60)

    runs = FakeRuns(asks)
    script = f"try {{ await parallel([() => {agent('ask')}, () => {agent('side')}]); }} catch {{}} return 1;"
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(script), runs)
        view = await settle(engine, launched.run_id, runs)
    assert view.state is RunState.WAITING_INPUT
    assert view.waiting is not None
    assert (view.waiting.kind, view.waiting.step_id) == ("input", "ask")
    assert [step.status.value for step in view.steps] == ["waiting", "interrupted"]
    assert runs.alive() == []


async def test_i04_an_uncertain_admission_stops_the_run_and_is_never_repeated(tmp_path: Path) -> None:
    runs = FakeRuns()

    async def breaks(req: Any) -> None:
        raise ConnectionError("the line went dead")

    runs.before_admit = breaks
    script = f"try {{ await {agent('a')}; }} catch {{}} return 1;"
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(script), runs)
        view = await settle(engine, launched.run_id, runs)
        assert view.state is RunState.NEEDS_RECONCILIATION
        assert view.steps[0].status is StepStatus.UNCERTAIN
        assert view.cause is not None
        assert "a is uncertain" in view.cause.message
        # It keeps its concurrency place until it is settled.
        assert engine._slots.used == 1
    assert runs.admitted == []


async def test_a_slow_admission_is_uncertain_after_its_time(tmp_path: Path) -> None:
    runs = FakeRuns()

    async def hangs(req: Any) -> None:
        await asyncio.sleep(60)

    runs.before_admit = hangs
    view = await run_script(tmp_path, f"return await {agent('a')};", runs, admission_timeout_seconds=1)
    assert view.state is RunState.NEEDS_RECONCILIATION
    assert view.cause is not None
    assert "within 1 s" in view.cause.message


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (
            f"for (let i = 0; i < 3; i++) await {agent('s').replace(chr(39) + 's' + chr(39), '`s${i}`')};",
            "call_limit",
        ),
        (f"await {agent('big', '{x: ' + repr('y') + '.repeat(17000)}')};", "task_too_large"),
        ("for (let i = 0; i < 21; i++) log('x');", "log_limit"),
        ("log('x'.repeat(200));", "log_too_large"),
        ("return 'x'.repeat(13000);", "result_too_large"),
    ],
)
async def test_i11_what_is_over_a_limit_is_refused_before_it_is_committed(
    tmp_path: Path, script: str, code: str
) -> None:
    caught = f"try {{ {script} }} catch {{}}"
    runs = FakeRuns()
    view = await run_script(tmp_path, caught, runs, max_calls=2)
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert view.cause.code == code
    for frame in view.frames:
        assert len(frame.body) < 13_000
    assert len(runs.admitted) <= 2


async def test_an_oversized_output_fails_in_words(tmp_path: Path) -> None:
    async def large(runs: FakeRuns, req: Any) -> Any:
        return "x" * 12_001

    view = await run_script(tmp_path, f"try {{ await {agent('a')}; }} catch {{}} return 1;", FakeRuns(large))
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert view.cause.code == "output_too_large"
    assert "12,000" in view.cause.message


async def test_four_tasks_of_16_kB_in_one_turn_span_frames_of_one_round(tmp_path: Path) -> None:
    calls = ", ".join(
        f"() => agent({{stepId: 's{i}', agentRef: 'lead_agent', task: 'x'.repeat(15900)}})" for i in range(4)
    )

    async def short(runs: FakeRuns, req: Any) -> Any:
        return len(req.input["task"])

    runs = FakeRuns(short)
    async with service(tmp_path, runs, concurrency=4) as engine:
        launched = await engine.launch(
            request(f"return (await parallel([{calls}])).map(r => r.output);"), runs
        )
        view = await settle(engine, launched.run_id, runs)
        frames, _ = engine.store.journal(launched.run_id)
    assert view.result == [15900] * 4
    requests = [frame for frame in frames if frame.kind == "request"]
    assert len(requests) == 2
    assert requests[0].at == requests[1].at
    assert parse(requests[0].body)["more"] is True
    assert [len(frame.side.admitting) for frame in requests] == [0, 4]


async def test_concurrency_is_bounded_per_run_and_over_all_runs(tmp_path: Path) -> None:
    most = 2

    async def slow(runs: FakeRuns, req: Any) -> Any:
        while runs.most_active < most:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)  # more than may be active have the time to become so
        return 1

    calls = ", ".join(f"() => {agent(f's{i}')}" for i in range(6))
    script = f"return (await parallel([{calls}])).length;"
    runs = FakeRuns(slow)
    view = await run_script(tmp_path / "one", script, runs, concurrency=2)
    assert view.result == 6
    assert runs.most_active == 2
    most = 3
    runs = FakeRuns(slow)
    async with service(tmp_path / "two", runs, concurrency=2, global_concurrency=3) as engine:
        launched = [await engine.launch(request(script), runs) for _ in range(2)]
        views = [await settle(engine, item.run_id, runs) for item in launched]
        assert engine._slots.used == 0
    assert [view.result for view in views] == [6, 6]
    assert runs.most_active == 3


async def test_an_agent_outside_the_allowlist_is_refused_as_an_ordinary_failure(tmp_path: Path) -> None:
    runs = FakeRuns()
    script = "try { await agent({stepId: 'a', agentRef: 'other', task: 1}); } catch (e) { return e.code; }"
    view = await run_script(tmp_path, script, runs)
    assert view.result == "unknown_agent"
    assert runs.admitted == []


async def test_authority_is_checked_before_each_child(tmp_path: Path) -> None:
    async def revoke(runs: FakeRuns, req: Any) -> Any:
        runs.refused.add("lead_agent")
        return 1

    runs = FakeRuns(revoke)
    script = f"await {agent('a')}; try {{ await {agent('b')}; }} catch (e) {{ return e.code; }}"
    view = await run_script(tmp_path, script, runs)
    assert view.result == "not_permitted"
    assert len(runs.admitted) == 1


async def test_a_changed_configuration_stops_before_the_next_child(tmp_path: Path) -> None:
    async def change(runs: FakeRuns, req: Any) -> Any:
        runs.revision = "r2"
        return 1

    runs = FakeRuns(change)
    view = await run_script(tmp_path, f"await {agent('a')}; try {{ await {agent('b')}; }} catch {{}}", runs)
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert view.cause.code == "configuration_changed"
    assert len(runs.admitted) == 1


async def test_the_wall_clock_ends_a_run_and_its_children(tmp_path: Path) -> None:
    async def never(runs: FakeRuns, req: Any) -> Any:
        await asyncio.sleep(60)

    runs = FakeRuns(never)
    view = await run_script(tmp_path, f"return await {agent('a')};", runs, timeout_seconds=1)
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert view.cause.message.startswith("Execution deadline exceeded")
    assert runs.alive() == []


async def test_a_result_of_another_execution_is_never_taken(tmp_path: Path) -> None:
    runs = FakeRuns()
    original = runs.observe

    async def swapped(run_id: str) -> Any:
        view = await original(run_id)
        return type(view)(**{**vars(view), "run_id": "ar_other"})

    runs.observe = swapped  # type: ignore[method-assign]
    view = await run_script(tmp_path, f"return await {agent('a')};", runs)
    assert view.state is RunState.NEEDS_RECONCILIATION
    assert view.steps[0].output is None


async def test_a_dead_worker_leaves_the_run_recoverable(tmp_path: Path) -> None:
    async def kill(runs: FakeRuns, req: Any) -> Any:
        (supervisor,) = engine._supervisors.values()
        assert supervisor._worker is not None
        import os
        import signal

        os.kill(supervisor._worker.pid, signal.SIGKILL)
        await asyncio.sleep(60)

    runs = FakeRuns(kill)
    async with service(tmp_path, runs) as engine:
        launched = await engine.launch(request(f"return await {agent('a')};"), runs)
        view = await settle(engine, launched.run_id, runs)
    assert view.state is RunState.RECOVERABLE
    assert view.cause is not None
    assert view.cause.code == "worker_died"


@pytest.mark.parametrize("script", ["for (;;);", "for (;;) { await 0; }"])
async def test_a_script_that_spins_is_stopped(tmp_path: Path, script: str) -> None:
    view = await run_script(tmp_path, f"try {{ {script} }} catch {{}}")
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert view.cause.code in ("time_limit", "job_limit", "turn_limit")


async def test_a_script_that_computes_too_long_says_where_it_was_last_seen(tmp_path: Path) -> None:
    view = await run_script(tmp_path, "log('a');\nlog('b');\nfor (;;);")
    assert view.cause is not None
    assert (view.cause.code, view.cause.line) == ("time_limit", 2)
    assert "last seen at line 2" in view.cause.message


async def test_a_syntax_error_fails_with_its_position(tmp_path: Path) -> None:
    view = await run_script(tmp_path, "const a = 1;\nconst b = ;")
    assert view.state is RunState.FAILED
    assert view.cause is not None
    assert view.cause.line == 2
