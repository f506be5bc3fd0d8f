"""Seeded simulation: whatever happens in whatever order, nothing is lost, nothing happens twice."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .simulation import MOVE_NAMES, ordered, simulate

CI_SEEDS = 12
SOAK_SEEDS = 10_000
SHARDS = 20


def play(seeds: range, folder: Path) -> Counter[str]:
    """The states that the runs of these seeds reached."""
    states: Counter[str] = Counter()
    for seed in seeds:
        states += simulate(seed, folder / str(seed)).states
    return states


def shard(part: int, parts: int, seeds: int) -> range:
    return range(part * seeds // parts, (part + 1) * seeds // parts)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: a seed is as true there, and does not wait for a disk's flushes.

    It stays only where a seed has failed.
    """
    shared = Path("/dev/shm")
    if not shared.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="simulation-", dir=shared))
    yield folder
    if not any(folder.iterdir()):
        folder.rmdir()


@pytest.mark.parametrize("part", range(4))
def test_no_seed_loses_or_repeats_anything(memory: Path, part: int) -> None:
    seeds = shard(part, 4, CI_SEEDS)
    assert sum(play(seeds, memory).values()) > len(seeds)


def test_a_seed_reproduces_exactly(memory: Path) -> None:
    """Every row that is stored is the same again, so a seed that fails fails again."""
    for seed in (3, 11):
        assert simulate(seed, memory / "once").digest == simulate(seed, memory / "again").digest


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(MOVE_NAMES), max_size=14), st.integers(0, 2**32))
def test_commands_crashes_and_clock_jumps_in_any_order(moves: list[str], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        states = ordered(moves, seed, Path(folder) / "world").states
    assert sum(states.values()) >= 1


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SHARDS))
def test_ten_thousand_seeds(memory: Path, part: int) -> None:
    seeds = shard(part, SHARDS, SOAK_SEEDS)
    assert {"completed", "failed", "cancelled"} <= set(play(seeds, memory))
    last = seeds[-1]
    assert simulate(last, memory / "once").digest == simulate(last, memory / "again").digest
