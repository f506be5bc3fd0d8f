"""One run out of a store file: of a living owner, of a dead machine with its log, damaged, newer."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from tests.workflows_core.engine.fakes import FakeRuns, request, run_script, service
from workflows_core.errors import NotFound, StoreFailed
from workflows_core.journal.bundle import open_bundle, write
from workflows_core.journal.verify import verify_bundle
from workflows_core.model import RunState
from workflows_core.store.snapshot import is_store, list_stored, read_stored

SCRIPT = """\
const one = await agent({stepId: 'one', agentRef: 'lead_agent', task: args});
log('one is there');
return await agent({stepId: 'two', agentRef: 'lead_agent', task: one.output});
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


async def hang(runs: FakeRuns, asked: Any) -> Any:
    if asked.metadata["step_id"] == "two":
        await asyncio.Event().wait()
    return asked.input["task"]


async def left_behind(folder: Path, target: Path) -> str:
    """The files of a store as they are while its owner works: what a dead machine leaves. Returns the run id."""
    runs = FakeRuns(hang)
    target.mkdir()
    async with service(folder, runs) as engine:
        launched = await engine.launch(request(SCRIPT, args={"a": 1}), runs)
        async with asyncio.timeout(60):
            while len((await engine.inspect(launched.run_id, runs)).frames) < 4 or len(runs.admitted) < 2:
                await asyncio.sleep(0.01)
        for name in ("w.sqlite", "w.sqlite-wal"):
            shutil.copyfile(folder / name, target / name)
        live = await asyncio.to_thread(read_stored, folder / "w.sqlite", launched.run_id)
        assert live.record.state is RunState.RUNNING
        assert open_bundle(write(live)).record.state is RunState.RUNNING
    return launched.run_id


async def test_a_finished_run_comes_out_whole(tmp_path: Path) -> None:
    view = await run_script(tmp_path, SCRIPT, args={"a": 1})
    assert view.state is RunState.COMPLETED, view.cause
    path = tmp_path / "w.sqlite"
    assert is_store(path)
    assert [(run.run_id, run.name) for run in list_stored(path)] == [(view.run_id, "test")]
    before = contents(tmp_path)
    taken = read_stored(path, view.run_id)
    assert taken.view() == view
    assert contents(tmp_path) == before
    opened = open_bundle(write(taken))
    assert opened.view() == view
    assert (await verify_bundle(opened)).verdict == "complete"
    assert opened.read_options() == {"agents": "stub", "label": "test"}


async def test_a_store_of_a_dead_machine_is_read_from_a_copy(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    run_id = await left_behind(tmp_path / "work", tmp_path / "found")
    before = contents(tmp_path / "found")
    taken = read_stored(tmp_path / "found" / "w.sqlite", run_id)
    assert contents(tmp_path / "found") == before
    assert taken.record.state is RunState.RECOVERABLE
    assert taken.record.cause is not None and taken.record.cause.code == "owner_gone"
    assert [frame.kind.value for frame in taken.frames] == ["start", "request", "response", "request"]
    opened = open_bundle(write(taken))
    verdict = await verify_bundle(opened)
    assert verdict.verdict == "ends_early"
    assert "no answer recorded for two" in verdict.notes[-1]


async def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    await run_script(tmp_path, "return 1;")
    with pytest.raises(NotFound, match="there is no run wr_other"):
        read_stored(tmp_path / "w.sqlite", "wr_other")
    with pytest.raises(StoreFailed, match="there is no store"):
        list_stored(tmp_path / "missing.sqlite")
    other = tmp_path / "other.sqlite"
    sqlite3.connect(other).close()
    with pytest.raises(StoreFailed, match="is not a store of runs"):
        read_stored(other, "wr_1")
    assert not is_store(tmp_path)


async def test_a_store_of_a_newer_version_is_read_as_far_as_it_is_understood(tmp_path: Path) -> None:
    view = await run_script(tmp_path, SCRIPT, args={})
    path = tmp_path / "w.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO migrations VALUES (99, 'dreams', 1)")
    connection.execute("CREATE TABLE dreams (run_id TEXT)")
    connection.execute("ALTER TABLE runs ADD COLUMN colour TEXT")
    connection.commit()
    connection.close()
    taken = read_stored(path, view.run_id)
    assert taken.view() == view
    assert [
        note for note in taken.notes if "schema 99" in note or "dreams" in note or "colour" in note
    ] == list(taken.notes)
    assert len(taken.notes) == 3


@pytest.mark.parametrize("count", [60, pytest.param(400, marks=pytest.mark.soak)])
async def test_cut_and_damaged_stores_are_read_or_refused_in_words(tmp_path: Path, count: int) -> None:
    """Half of them cut, half overwritten somewhere."""
    view = await run_script(tmp_path, SCRIPT, args={})
    whole = (tmp_path / "w.sqlite").read_bytes()
    rng = random.Random(3)
    folder = tmp_path / "damaged"
    folder.mkdir()
    path = folder / "w.sqlite"
    read = 0
    for attempt in range(count):
        data = bytearray(whole)
        if attempt % 2:
            del data[rng.randrange(len(data)) :]
        else:
            at = rng.randrange(len(data) - 400)
            data[at : at + 400] = rng.randbytes(400)
        path.write_bytes(data)
        begin = time.process_time()
        taken = None
        try:
            taken = read_stored(path, view.run_id)
        except (StoreFailed, NotFound) as error:
            assert str(error)
        assert time.process_time() - begin < 10
        if taken is not None:
            read += 1
            await verify_bundle(taken) if taken.frames != () and read < 3 else None
        assert contents(folder) == {"w.sqlite": bytes(data)}
    assert read < count


def test_a_hostile_store(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE contents (hash TEXT, body BLOB)")
    connection.execute("CREATE TABLE frames (run_id TEXT)")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS run_id FROM n"
    connection.execute(f"CREATE VIEW runs AS {endless}")
    connection.commit()
    connection.close()
    with pytest.raises(StoreFailed, match="is not a store of runs"):
        read_stored(path, "wr_1")
