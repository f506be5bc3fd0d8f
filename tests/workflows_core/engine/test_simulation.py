"""Seeded simulation: whatever happens in whatever order, nothing is lost, nothing happens twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from .simulation import Clock, simulate

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


@pytest.mark.soak
async def test_ten_thousand_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = await _simulate(range(SOAK_SEEDS), tmp_path, monkeypatch)
    assert {"completed", "failed", "cancelled"} <= set(states)
