"""The embedded store: what is committed stays, what conflicts changes nothing, and who owns it."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from workflows_core.errors import Conflict, NotFound, StoreFailed, StoreInUse, StoreTooNew
from workflows_core.journal.frames import FrameKind, JournalWriter, Side, verify_chain
from workflows_core.model import RunState
from workflows_core.store.base import Batch, Tombstone
from workflows_core.store.lock import ProcessLock, lock_path, owner_pid
from workflows_core.store.reader import StoreReader
from workflows_core.store.sqlite import SqliteStore

from .builders import SCRIPT, record, start


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "workflows.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    yield opened
    opened.close()


def test_a_run_is_stored_with_its_script_options_and_first_frame(store: SqliteStore) -> None:
    run = record()
    store.create_run(run, SCRIPT, start(JournalWriter()))
    assert store.load(run.run_id) == run
    assert store.script(run.script_hash) == SCRIPT
    frames, marks = store.journal(run.run_id)
    verify_chain(frames)
    assert [frame.kind for frame in frames] == [FrameKind.START]
    assert marks == []
    assert store.by_request(run.owner, run.request_id) == run
    assert store.count_active() == store.count_active(run.owner) == store.count_retained(run.owner) == 1
    assert store.count_active("somebody else") == 0


def test_i06_a_write_with_a_stale_revision_changes_nothing(store: SqliteStore) -> None:
    run = record()
    writer = JournalWriter()
    store.create_run(run, SCRIPT, start(writer))
    running = msgspec.structs.replace(run, state=RunState.RUNNING, revision=2)
    store.commit(run.run_id, Batch(record=running))
    stale = msgspec.structs.replace(run, state=RunState.FAILED, revision=2)
    frame = writer.frame(FrameKind.END, b"{}", 5)
    with pytest.raises(Conflict, match="changed in the meantime"):
        store.commit(run.run_id, Batch(frames=[frame], record=stale))
    assert store.load(run.run_id) == running
    assert len(store.journal(run.run_id)[0]) == 1


def test_i05_a_second_admission_of_a_step_is_impossible(store: SqliteStore) -> None:
    run = record()
    writer = JournalWriter()
    store.create_run(run, SCRIPT, start(writer))
    store.commit(run.run_id, Batch(frames=[writer.frame(FrameKind.REQUEST, b"{}", 2)], admissions=[("a", 1)]))
    with pytest.raises(StoreFailed):
        store.commit(
            run.run_id, Batch(frames=[writer.frame(FrameKind.REQUEST, b"{}", 3)], admissions=[("a", 1)])
        )
    assert len(store.journal(run.run_id)[0]) == 2


def test_a_frame_number_is_written_once(store: SqliteStore) -> None:
    run = record()
    writer = JournalWriter()
    store.create_run(run, SCRIPT, start(writer))
    frame = writer.frame(FrameKind.REQUEST, b"{}", 2)
    store.commit(run.run_id, Batch(frames=[frame]))
    with pytest.raises(StoreFailed):
        store.commit(run.run_id, Batch(frames=[frame]))


def test_deleting_leaves_a_tombstone_and_frees_contents(store: SqliteStore, path: Path) -> None:
    first, second = record(state=RunState.COMPLETED), record(state=RunState.COMPLETED)
    for run in (first, second):
        store.create_run(run, SCRIPT, start(JournalWriter()))
    store.delete_run(first, 9)
    assert store.load(first.run_id) is None
    assert store.script(second.script_hash) == SCRIPT
    assert store.by_request(first.owner, first.request_id) == Tombstone(
        first.run_id, first.owner, first.request_id, "i", 9
    )
    store.delete_run(second, 9)
    with sqlite3.connect(path) as connection:
        for table in ("contents", "frames", "runs"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    connection.close()


def test_files_are_private(store: SqliteStore, path: Path) -> None:
    store.create_run(record(), SCRIPT, start(JournalWriter()))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name


def test_a_second_owner_is_refused_and_told_the_pid(store: SqliteStore, path: Path) -> None:
    with pytest.raises(StoreInUse, match=f"process {os.getpid()} owns") as caught:
        SqliteStore(path)
    assert caught.value.pid == os.getpid()
    assert owner_pid(lock_path(path)) == os.getpid()


def test_the_lock_ends_with_its_process_and_is_not_inherited(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    code = (
        "import sys, subprocess, pathlib, os\n"
        "from workflows_core.store.lock import ProcessLock\n"
        "ProcessLock.acquire(pathlib.Path(sys.argv[1]))\n"
        "child = subprocess.Popen(['sleep', '300'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    lock = lock_path(path)
    done = subprocess.run([sys.executable, "-c", code, str(lock)], capture_output=True, text=True)
    sleeper = int(done.stdout)
    try:
        assert done.returncode == -9
        deadline = time.monotonic() + 60
        while owner_pid(lock) is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        ProcessLock.acquire(lock).release()
    finally:
        os.kill(sleeper, 9)


def test_a_store_from_a_newer_version_is_refused_in_words(path: Path) -> None:
    SqliteStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO migrations VALUES (99, 'future', 0)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreTooNew, match="schema 99, and this version knows"):
        SqliteStore(path)
    SqliteLock = ProcessLock.acquire(lock_path(path))
    SqliteLock.release()


@pytest.mark.parametrize("content", [b"not a database, but long enough to be read as one" * 30, b"\0" * 200])
def test_a_file_that_is_no_store_is_refused_in_words(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_bytes(content)
    with pytest.raises(StoreFailed, match="not a readable store"):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_a_full_disk_is_said_and_leaves_the_last_commit(store: SqliteStore, path: Path) -> None:
    run = record()
    writer = JournalWriter()
    store.create_run(run, SCRIPT, start(writer))
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count={pages}")
    big = writer.frame(FrameKind.REQUEST, b'{"x":"' + b"y" * 40_000 + b'"}', 2)
    with pytest.raises(StoreFailed, match="the disk is full"):
        store.commit(run.run_id, Batch(frames=[big]))
    assert len(store.journal(run.run_id)[0]) == 1
    store._connection.execute("PRAGMA max_page_count=1000000")
    store.commit(run.run_id, Batch(frames=[big]))
    assert len(store.journal(run.run_id)[0]) == 2


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreFailed, match="cannot be created"):
        SqliteStore(tmp_path / "file" / "sub" / "x.sqlite")


async def test_readers_of_other_processes_see_committed_frames_and_cannot_write(
    store: SqliteStore, path: Path
) -> None:
    run = record()
    writer = JournalWriter()
    store.create_run(run, SCRIPT, start(writer))
    reader = await StoreReader.open(path)
    assert reader is not None
    try:
        assert [row.run_id for row in await reader.runs(None)] == [run.run_id]
        assert (await reader.view(run.run_id)).frames[-1].kind == "start"
        version = await reader.data_version()
        request = b'{"calls":[{"id":1,"op":"agent","step_id":"a","agent_ref":"lead_agent","task":1}]}'
        side = Side(positions=((3, 7),), admitting=("a",))
        store.commit(run.run_id, Batch(frames=[writer.frame(FrameKind.REQUEST, request, 7, side)]))
        assert await reader.data_version() != version
        view = await reader.view(run.run_id)
        assert [(step.step_id, step.status.value, step.line) for step in view.steps] == [("a", "running", 3)]
        assert await reader.resolve(run.run_id[:6]) == run.run_id
        with pytest.raises(NotFound, match="there is no run wr_none"):
            await reader.resolve("wr_none")
        with pytest.raises(sqlite3.OperationalError):
            await reader._connection.execute("DELETE FROM runs")
    finally:
        await reader.close()


async def test_a_run_whose_owner_is_gone_reads_as_recoverable(path: Path) -> None:
    store = SqliteStore(path)
    run = record(state=RunState.RUNNING, owner_incarnation=store.incarnation)
    store.create_run(run, SCRIPT, start(JournalWriter()))
    reader = await StoreReader.open(path)
    assert reader is not None
    assert (await reader.runs(1))[0].state is RunState.RUNNING
    store.close()
    (row,) = await reader.runs(1)
    assert row.state is RunState.RECOVERABLE
    assert row.cause is not None
    assert f"process {os.getpid()} that ran it ended while it was running" in row.cause.message
    await reader.close()


async def test_controls_are_posted_read_and_settled_once(store: SqliteStore, path: Path) -> None:
    store.inbox_changed()
    assert not store.inbox_changed()
    reader = await StoreReader.open(path)
    assert reader is not None
    row_id = await reader.post("cancel", "wr_1", {"x": 1}, {"uid": 1})
    assert store.inbox_changed()
    (row,) = store.inbox_open()
    assert (row.id, row.kind, row.run_id, row.body, row.actor) == (
        row_id,
        "cancel",
        "wr_1",
        {"x": 1},
        {"uid": 1},
    )
    store.inbox_settle(row_id, "applied", {"ok": True}, 5)
    store.inbox_settle(row_id, "refused", {}, 6)
    assert store.inbox_open() == []
    settled = await reader.inbox_row(row_id)
    assert settled is not None
    assert (settled.outcome, settled.detail, settled.settled_at) == ("applied", {"ok": True}, 5)
    await reader.close()


def test_a_full_disk_keeps_nobody_from_owning_the_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir(mode=0o700)
    lock = lock_path(path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("workflows_core.store.lock.os.pwrite", full)
        store = SqliteStore(path)
        assert owner_pid(lock) == 0, "owned, by whom is not readable"
        with pytest.raises(StoreInUse, match="another process owns"):
            SqliteStore(path)
        store.close()
    assert owner_pid(lock) is None
    store = SqliteStore(path)
    blocks = lock.stat().st_size
    assert owner_pid(lock) == os.getpid()
    store.close()
    assert (owner_pid(lock), lock.stat().st_size) == (None, blocks), "its block stays its own"
