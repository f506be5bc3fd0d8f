"""Floods of changes become at most ten paints a second, readings never overlap, and the book stays true."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from itertools import pairwise

import pytest
from textual.app import App

from tests.workbench.tui.fakes import (
    FakeClient,
    completed_run,
    failed_run,
    make_run,
    running_run,
    waiting_run,
)
from workbench.tui.book import MANY, RunBook
from workbench.tui.collector import WORTH_WHILE, YOUNG, IdleCollector
from workbench.tui.context import Changes
from workbench.tui.refresh import Refresher
from workflows_core.errors import StoreFailed
from workflows_core.model import RunState

PERIOD, LONG = 0.05, 3_600.0


async def test_the_first_change_is_told_at_once_and_a_flood_in_sets() -> None:
    changes = Changes(LONG)
    told: list[frozenset[str]] = []
    changes.listen(told.append)
    changes.note("a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == [{"a"}] and not changes.pending
    for number in range(1_000):
        changes.note(f"r{number % 3}")
    await asyncio.sleep(0)
    assert len(told) == 1 and changes.pending
    assert changes._timer is not None
    assert changes._timer.when() == changes._last + LONG
    changes._timer.cancel()
    changes._flush()
    assert told[1:] == [{"r0", "r1", "r2"}]
    changes.close()


async def test_however_often_a_run_changes_it_is_told_at_most_once_a_period() -> None:
    changes = Changes(PERIOD)
    times: list[float] = []
    loop = asyncio.get_running_loop()
    changes.listen(lambda _changed: times.append(loop.time()))
    while len(times) < 6:
        changes.note("a")
        await asyncio.sleep(PERIOD / 20)
    changes.close()
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) >= PERIOD * 0.9


async def test_nobody_is_told_after_the_end() -> None:
    changes = Changes(PERIOD)
    told: list[frozenset[str]] = []
    stop = changes.listen(told.append)
    changes.note("a")
    changes.close()
    await asyncio.sleep(PERIOD * 2)
    assert told == []
    stop()


async def test_a_listener_can_stop() -> None:
    changes = Changes(PERIOD)
    told: list[frozenset[str]] = []
    stop = changes.listen(told.append)
    stop()
    changes.note("a")
    await asyncio.sleep(PERIOD * 2)
    assert told == []
    changes.close()


async def test_the_book_lists_the_newest_first_and_counts_states() -> None:
    client = FakeClient(completed_run(), running_run(), failed_run(), waiting_run())
    book = RunBook(client)  # type: ignore[arg-type]
    assert not book.loaded
    await book.load()
    assert [run.state.value for run in book.newest] == ["running", "completed", "waiting_approval", "failed"]
    assert book.count(RunState.RUNNING, RunState.FAILED) == 2


async def test_the_book_reads_only_the_runs_that_changed() -> None:
    client = FakeClient(completed_run("wr_1"), running_run("wr_2"))
    book = RunBook(client)  # type: ignore[arg-type]
    await book.load()
    client.failures["runs"] = AssertionError("the whole list was read again")
    client.change("wr_2", state=RunState.FAILED)
    client.put(running_run("wr_3", created_at=client.views["wr_2"].created_at + 1))
    client.remove("wr_1")
    await book.update(["wr_1", "wr_2", "wr_3", "never existed"])
    assert [(run.run_id, run.state.value) for run in book.newest] == [("wr_3", "running"), ("wr_2", "failed")]
    assert book.get("wr_1") is None


async def test_very_many_changes_are_read_at_once() -> None:
    client = FakeClient(*(make_run(f"wr_{n}") for n in range(MANY + 1)))
    book = RunBook(client)  # type: ignore[arg-type]
    await book.load()
    client.failures["summary"] = AssertionError("one by one")
    await book.update(list(client.views))
    assert len(book.newest) == MANY + 1


async def test_an_error_of_the_store_reaches_who_asked() -> None:
    client = FakeClient(make_run("wr_1"))
    client.failures["summary"] = StoreFailed("the disk refused a read")
    book = RunBook(client)  # type: ignore[arg-type]
    await book.load()
    with pytest.raises(StoreFailed):
        await book.update(["wr_1"])


async def test_readings_never_overlap_and_the_last_request_is_answered() -> None:
    running = 0
    most = 0
    reads = 0
    gate = asyncio.Event()

    async def read() -> None:
        nonlocal running, most, reads
        running += 1
        most = max(most, running)
        reads += 1
        await gate.wait()
        running -= 1

    app: App[None] = App()
    async with app.run_test() as pilot:
        refresher = Refresher(app, read, "test")
        refresher.request()
        await pilot.pause()
        for _ in range(10):
            refresher.request()
        await pilot.pause()
        assert reads == 1
        gate.set()
        await app.workers.wait_for_complete()
        assert (reads, most) == (2, 1)
        refresher.request()
        await app.workers.wait_for_complete()
        assert reads == 3


async def test_a_reading_that_failed_does_not_stop_the_next() -> None:
    reads = 0

    async def read() -> None:
        nonlocal reads
        reads += 1
        if reads == 1:
            raise StoreFailed("once")

    app: App[None] = App()
    async with app.run_test() as pilot:
        refresher = Refresher(app, read, "test")
        refresher.request()
        await pilot.pause()
        refresher.request()
        await pilot.pause()
        assert reads == 2


@pytest.fixture
def collector() -> Iterator[tuple[IdleCollector, list[float]]]:
    time = [100.0]
    made = IdleCollector(lambda: time[0])
    before = gc.get_threshold()
    yield made, time
    made.stop()
    assert gc.isenabled() and gc.get_threshold() == before


def litter(count: int) -> list[list[object]]:
    return [[] for _ in range(count)]


def test_garbage_is_collected_only_when_nobody_types(collector: tuple[IdleCollector, list[float]]) -> None:
    idle, time = collector
    idle.start()
    assert gc.isenabled() and gc.get_threshold()[0] == YOUNG and gc.get_threshold()[2] > 100_000
    kept = litter(WORTH_WHILE * 2)
    idle.key()
    assert not idle.due()
    time[0] += 1.5
    assert idle.due()
    idle.poll()
    assert not idle.due()
    assert len(kept) == WORTH_WHILE * 2


def test_little_garbage_waits(collector: tuple[IdleCollector, list[float]]) -> None:
    idle, time = collector
    idle.start()
    time[0] += 60
    gc.collect()
    assert not idle.due()


def test_what_piles_up_while_somebody_types_is_collected_in_small_pieces(
    collector: tuple[IdleCollector, list[float]],
) -> None:
    idle, _time = collector
    idle.start()
    for _ in range(YOUNG * 4):
        loop: list[object] = []
        loop.append(loop)
        idle.key()
    assert len(gc.get_objects(generation=0)) <= YOUNG + 100


def test_before_the_start_and_after_the_end_python_collects_itself(
    collector: tuple[IdleCollector, list[float]],
) -> None:
    idle, _time = collector
    assert gc.isenabled() and not idle.due()
    idle.start()
    assert gc.get_freeze_count() > 0
    idle.stop()
    assert gc.isenabled() and gc.get_freeze_count() == 0
