"""Seeded simulation: whatever happens in whatever order, nothing is lost, nothing happens twice."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .simulation import MOVE_NAMES, Clock, ordered, simulate

CI_SEEDS = 12
SOAK_SEEDS = 10_000


async def _simulate(seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    states: Counter[str] = Counter()
    for seed in seeds:
        clock = Clock()
        monkeypatch.setattr("workflows_core.model.time", clock)
        try:
            async with asyncio.timeout(60):
                states += await simulate(seed, tmp_path / str(seed), clock)
        except BaseException as error:
            error.add_note(f"seed {seed} reproduces it")
            raise
    return states


@pytest.mark.parametrize("part", range(4))
async def test_no_seed_loses_or_repeats_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    each = CI_SEEDS // 4
    states = await _simulate(range(part * each, (part + 1) * each), tmp_path, monkeypatch)
    assert sum(states.values()) > each


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(MOVE_NAMES), max_size=14), st.integers(0, 2**32))
def test_commands_crashes_and_clock_jumps_in_any_order(moves: list[str], seed: int) -> None:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr("workflows_core.model.time", clock)
        states = asyncio.run(ordered(moves, seed, Path(folder), clock))
    assert sum(states.values()) >= 1


@pytest.mark.soak
async def test_ten_thousand_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = await _simulate(range(SOAK_SEEDS), tmp_path, monkeypatch)
    assert {"completed", "failed", "cancelled"} <= set(states)
