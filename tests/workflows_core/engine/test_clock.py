"""Time: boot time inside a process, never backwards across restarts, and none of it spent by a wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from workflows_core import clock
from workflows_core.model import RunState, now

from .fakes import FakeRuns, crash, request, service, settle
from .test_waits import PAUSE, reach

HOUR_NS = 3_600 * 10**9


@pytest.fixture(autouse=True)
def _own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_offset", None)


def set_wall_clock(monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    wall = clock.wall_ns
    monkeypatch.setattr(clock, "wall_ns", lambda: wall() + by)


@pytest.mark.parametrize("by", [HOUR_NS, -HOUR_NS])
async def test_setting_the_clock_spends_no_budget_and_ends_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: int
) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs, timeout_seconds=60, pause_timeout_seconds=120) as engine:
        run_id = (await engine.launch(request(PAUSE), runs)).run_id
        set_wall_clock(monkeypatch, by)
        await reach(engine, run_id, runs, RunState.PAUSED)
        await engine.resume(run_id, "hold", 1, runs)
        view = await settle(engine, run_id, runs)
    assert view.state is RunState.COMPLETED, view.cause


async def test_time_never_goes_back_across_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs) as engine:
        run_id = (await engine.launch(request(PAUSE), runs)).run_id
        latest = (await reach(engine, run_id, runs, RunState.PAUSED)).last_progress
    set_wall_clock(monkeypatch, -HOUR_NS)
    async with service(tmp_path, runs) as engine:
        assert now() > latest
        await engine.resume(run_id, "hold", 1, runs)
        view = await settle(engine, run_id, runs)
    assert view.last_progress > latest


async def test_a_wait_that_expired_on_the_wall_clock_has_expired_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs, pause_timeout_seconds=60) as engine:
        run_id = (await engine.launch(request(PAUSE), runs)).run_id
        await reach(engine, run_id, runs, RunState.PAUSED)
    set_wall_clock(monkeypatch, HOUR_NS)
    async with service(tmp_path, runs, pause_timeout_seconds=60) as engine:
        assert (await engine.inspect(run_id, runs)).state is RunState.FAILED


async def test_a_crash_during_the_recovery_of_a_wait_spends_no_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = FakeRuns()
    async with service(tmp_path, runs, timeout_seconds=60) as engine:
        run_id = (await engine.launch(request(PAUSE), runs)).run_id
        await reach(engine, run_id, runs, RunState.PAUSED)
    async with service(tmp_path, runs, timeout_seconds=60) as engine:
        await engine.recover(run_id, runs)
        await crash(engine)
    set_wall_clock(monkeypatch, HOUR_NS)
    async with service(tmp_path, runs, timeout_seconds=60) as engine:
        await engine.resume(run_id, "hold", 1, runs)
        async with asyncio.timeout(60):
            view = await settle(engine, run_id, runs)
    assert view.state is RunState.COMPLETED, view.cause
