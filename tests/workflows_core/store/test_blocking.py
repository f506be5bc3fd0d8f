"""Reading without an event loop: the same answers as with one, and no way to write."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workflows_core.errors import NotFound, StoreFailed, StoreTooNew
from workflows_core.journal import view
from workflows_core.journal.frames import JournalWriter
from workflows_core.model import RunState, RunSummary
from workflows_core.store import queries
from workflows_core.store import reader as reading
from workflows_core.store.blocking import BlockingReader
from workflows_core.store.reader import StoreReader
from workflows_core.store.sqlite import SqliteStore

from .builders import SCRIPT, record, start


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "workflows.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


def fill(store: SqliteStore) -> list[str]:
    ids = []
    for number, state in enumerate((RunState.COMPLETED, RunState.RUNNING, RunState.PAUSED)):
        run = record(
            run_id=f"wr_{number}",
            state=state,
            created_at=number,
            owner_incarnation=store.incarnation,
            args_hash=f"{number}",
        )
        store.create_run(run, SCRIPT, start(JournalWriter()))
        ids.append(run.run_id)
    return ids


@pytest.mark.parametrize("many", [0, reading.MANY_ROWS], ids=["in a thread", "on the loop"])
@pytest.mark.parametrize("alive", [True, False])
async def test_the_answers_are_those_of_the_event_loop(
    path: Path, alive: bool, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MANY_ROWS", many)
    store = SqliteStore(path)
    ids = fill(store)
    if not alive:
        store.close()
    there, here = await StoreReader.open(path), BlockingReader.open(path)
    assert there is not None and here is not None
    try:
        assert [run.run_id for run in here.runs(2)] == ["wr_2", "wr_1"]
        assert here.runs(None) == await there.runs(None)
        states = [run.state.value for run in here.runs(None)]
        assert states == (
            ["paused", "running", "completed"] if alive else ["recoverable"] * 2 + ["completed"]
        )
        for run_id in ids:
            assert here.resolve(run_id) == await there.resolve(run_id)
            assert here.view(run_id) == await there.view(run_id)
            assert here.view(run_id).script == SCRIPT
        for unknown in ("wr", "wr_9", ""):
            with pytest.raises(NotFound) as mine:
                here.resolve(unknown)
            with pytest.raises(NotFound) as theirs:
                await there.resolve(unknown)
            assert mine.value.message == theirs.value.message
        with pytest.raises(NotFound, match="there is no run wr_9"):
            here.view("wr_9")
    finally:
        here.close()
        await there.close()
        if alive:
            store.close()


async def test_many_rows_become_values_off_the_loop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def noted(record: Any) -> RunSummary:
        made.append(threading.get_ident())
        return view.summary(record)

    monkeypatch.setattr(queries, "summary", noted)
    monkeypatch.setattr(reading, "MANY_ROWS", 2)
    store = SqliteStore(path)
    fill(store)
    there = await StoreReader.open(path)
    assert there is not None
    try:
        await there.runs(2)
        assert set(made) == {threading.get_ident()}
        made.clear()
        await there.runs(None)
        assert len(made) == 3 and threading.get_ident() not in made
    finally:
        await there.close()
        store.close()


def test_it_cannot_write(store: SqliteStore, path: Path) -> None:
    reader = BlockingReader.open(path)
    assert reader is not None
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._connection.execute("DELETE FROM runs")
    reader.close()


def test_no_store_yet_is_none(path: Path) -> None:
    assert BlockingReader.open(path) is None
    path.parent.mkdir()
    sqlite3.connect(path).close()
    path.touch()
    assert BlockingReader.open(path) is None


def test_a_store_that_cannot_be_read_is_refused_in_words(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("INSERT INTO migrations VALUES (999, 'later', 1)")
    connection.close()
    with pytest.raises(StoreTooNew, match="has schema 999"):
        BlockingReader.open(path)
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreFailed, match="not a readable store"):
        BlockingReader.open(broken)
    with pytest.raises(StoreFailed):
        BlockingReader.open(tmp_path)
