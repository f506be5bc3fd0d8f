"""What is deleted is gone from the files, and its bytes are given back; a saved version is what was saved."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from workflows_core.engine import definitions
from workflows_core.errors import NotFound, StoreFailed, UsageError
from workflows_core.journal.bundle import open_bundle, write
from workflows_core.journal.frames import FrameKind, JournalWriter
from workflows_core.model import Capture, Decision, RunState, StepStatus, Wait, now
from workflows_core.store import space
from workflows_core.store.base import Batch
from workflows_core.store.blocking import BlockingReader
from workflows_core.store.opening import connect, migrate
from workflows_core.store.reader import StoreReader
from workflows_core.store.snapshot import read_stored
from workflows_core.store.sqlite import SqliteStore

from .builders import SCRIPT, record, start

MIB = 1024 * 1024
MARK = b"a-body-of-a-launch"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "workflows.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    yield opened
    opened.close()


def held(path: Path) -> int:
    """Bytes of the store with its log."""
    return sum(each.stat().st_size for each in path.parent.iterdir() if each.name.startswith(path.name))


def content(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.iterdir())


def with_capture(store: SqliteStore, size: int) -> str:
    run = record(state=RunState.COMPLETED)
    store.create_run(run, SCRIPT, start(JournalWriter()))
    capture = Capture(
        run_id=run.run_id,
        step_id="c",
        attempt=1,
        source_step_id="e",
        path="x",
        version="0" * 64,
        media_type="text/plain",
        body=os.urandom(size),
        captured_at=2,
    )
    store.commit(run.run_id, Batch(captures=[capture]))
    return run.run_id


def delete(store: SqliteStore, run_id: str, *, rewrite: bool = False) -> int:
    """Delete a run and give its bytes back; how many steps that took."""
    run = store.load(run_id)
    assert run is not None
    store.delete_run(run, 9)
    steps = 1
    while store.give_back(rewrite=rewrite):
        steps += 1
    return steps


def test_deleting_gives_the_bytes_back_in_steps(store: SqliteStore, path: Path) -> None:
    before = held(path)
    runs = [with_capture(store, 2 * MIB) for _ in range(3)]
    kept = runs.pop(1)
    full = held(path)
    assert full > before + 6 * MIB
    for run_id in runs:
        assert 2 <= delete(store, run_id) <= 4, "a step is bounded"
    assert held(path) < before + 2.5 * MIB
    capture = store.capture(kept, "0" * 64)
    assert capture is not None and len(capture.body) == 2 * MIB
    delete(store, kept)
    assert held(path) < before + 0.5 * MIB
    assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_store_of_an_earlier_version_is_written_anew_once_nothing_runs(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    old = sqlite3.connect(path, isolation_level=None)
    old.execute("PRAGMA journal_mode=WAL")
    migrate(old, path)
    assert old.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    old.close()
    store = SqliteStore(path)
    try:
        first, second, third = (with_capture(store, 2 * MIB) for _ in range(3))
        full = held(path)
        delete(store, first, rewrite=False)
        assert held(path) > full - 4.5 * MIB, "nothing is written anew while a run is live"
        assert space.free_pages(store._connection) > space.WORTH_PAGES
        delete(store, second, rewrite=True)
        assert held(path) < 2.5 * MIB
        assert store._connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        delete(store, third)
        assert held(path) < 0.5 * MIB
    finally:
        store.close()


async def test_a_reader_meanwhile_puts_off_nothing_but_the_log(store: SqliteStore, path: Path) -> None:
    run_id = with_capture(store, 2 * MIB)
    reader = await StoreReader.open(path)
    assert reader is not None
    assert await reader.summary(run_id)
    delete(store, run_id)
    assert await reader.runs(None) == []
    await reader.close()


async def test_settled_controls_keep_no_script_arguments_or_stubs(store: SqliteStore, path: Path) -> None:
    reader = await StoreReader.open(path)
    assert reader is not None
    store._connection.execute("PRAGMA secure_delete=OFF")  # what many builds of SQLite start with
    body = {"script": MARK.decode() * 400, "args": {"secret": MARK.decode()}}
    row_id = await reader.post("launch", None, body, {"uid": 1})
    (row,) = store.inbox_open()
    assert row.body == body
    assert MARK in content(path)
    store.inbox_settle(row_id, "applied", {"run_id": "wr_1"}, 5)
    settled = await reader.inbox_row(row_id)
    assert settled is not None
    assert (settled.id, settled.kind, settled.outcome, settled.body) == (row_id, "launch", "applied", {})
    assert settled.detail == {"run_id": "wr_1"}, "what a retry is answered with"
    await reader.close()
    store.give_back(rewrite=False)
    assert MARK not in content(path)


def test_what_earlier_versions_left_in_settled_controls_goes_when_the_store_is_opened(path: Path) -> None:
    SqliteStore(path).close()
    connection = connect(path)
    insert = (
        "INSERT INTO inbox (kind, run_id, body, actor, created_at, settled_at, outcome, detail) "
        "VALUES (?, ?, ?, X'7B7D', 1, ?, ?, ?)"
    )
    body = b'{"script": "' + MARK * 300 + b'"}'
    connection.execute("INSERT INTO tombstones VALUES ('wr_gone', 'os:1', 'rq', 'i', 3, NULL)")
    connection.execute(insert, ("launch", None, body, 2, "applied", b'{"run_id":"wr_1"}'))
    connection.execute(insert, ("decide", "wr_gone", b"{}", 2, "applied", b'{"reason":"private"}'))
    connection.execute(insert, ("delete", "wr_gone", b"{}", 2, "applied", b'{"status":"applied"}'))
    connection.execute(insert, ("cancel", "wr_1", body, None, None, None))
    connection.close()
    store = SqliteStore(path)
    found = store._connection.execute("SELECT kind, length(body), detail FROM inbox ORDER BY id").fetchall()
    assert found == [
        ("launch", 2, b'{"run_id":"wr_1"}'),
        ("decide", 2, None),
        ("delete", 2, b'{"status":"applied"}'),
        ("cancel", len(body), None),
    ]
    store.close()


def test_a_control_can_be_settled_with_its_effect(store: SqliteStore, path: Path) -> None:
    run = record()
    store.create_run(run, SCRIPT, start(JournalWriter()))
    connection = connect(path)
    connection.execute(
        "INSERT INTO inbox (kind, body, actor, created_at) VALUES ('reconcile', X'7B7D', X'7B7D', 1)"
    )
    connection.close()
    stale = msgspec.structs.replace(run, revision=7)
    with pytest.raises(Exception, match="changed in the meantime"), store.settling(1, {"n": 1}):
        store.commit(run.run_id, Batch(record=stale))
    assert len(store.inbox_open()) == 1, "no effect, no settlement"
    with store.settling(1, {"n": 1}):
        store.commit(run.run_id, Batch(record=msgspec.structs.replace(run, revision=2)))
    assert store.inbox_open() == []
    assert store._connection.execute("SELECT outcome, detail FROM inbox").fetchone() == (
        "applied",
        b'{"n":1}',
    )


def test_a_saved_version_whose_bytes_were_changed_is_not_given_out(store: SqliteStore, path: Path) -> None:
    saved = definitions.save(store, "os:1", "v", SCRIPT)
    with sqlite3.connect(path) as other:
        other.execute("UPDATE contents SET body = ? WHERE hash = ?", (b"return 5", saved.version))
    other.close()
    with pytest.raises(StoreFailed, match="is not the one that was saved"):
        definitions.load(store, "os:1", "v", saved.version)
    reader = BlockingReader.open(path)
    assert reader is not None
    with pytest.raises(StoreFailed, match="is not the one that was saved"):
        reader.definition("v", saved.version)
    assert definitions.save(store, "os:1", "v", SCRIPT) == saved, "saving it again puts it right"
    assert definitions.load(store, "os:1", "v", saved.version)[1] == SCRIPT
    assert reader.definition("v", saved.version)[1] == SCRIPT
    reader.close()


def test_versions_belong_to_their_owner_and_two_may_have_the_same(store: SqliteStore, path: Path) -> None:
    mine, yours = (definitions.save(store, owner, "v", SCRIPT) for owner in ("os:1", "ada"))
    only_yours = definitions.save(store, "ada", "v", "return 6;")
    reader = BlockingReader.open(path)
    assert reader is not None
    with closing(reader):
        assert reader.definitions("os:1") == [mine]
        assert reader.definition("v", mine.version, "os:1") == (mine, SCRIPT)
        assert reader.definition("v", mine.version[:7])[1] == SCRIPT
        with pytest.raises(NotFound):
            reader.definition("v", only_yours.version, "os:1")
        assert {item.owner for item in reader.definitions()} == {"os:1", "ada"}
    assert yours.owner == "ada"


def test_a_name_does_not_end_with_a_space(store: SqliteStore) -> None:
    with pytest.raises(UsageError, match="does not end with a space"):
        definitions.save(store, "os:1", "v ", SCRIPT)
    assert definitions.save(store, "os:1", "a b", SCRIPT).name == "a b"
    assert definitions.save(store, "os:1", "c", SCRIPT).name == "c"


# Waits that ended while nobody owned them.


def left_waiting(path: Path, *, decided: bool, expires_at: int) -> str:
    """A run that waited at a pause when its owner ended."""
    store = SqliteStore(path)
    run = record(
        state=RunState.PAUSED,
        owner_incarnation=store.incarnation,
        waiting=Wait("pause", "p", 1, expires_at),
    )
    writer = JournalWriter()
    store.create_run(run, SCRIPT, start(writer))
    body = b'{"calls":[{"id":1,"op":"pause","step_id":"p"}]}'
    store.commit(run.run_id, Batch(frames=[writer.frame(FrameKind.REQUEST, body, 7)]))
    if decided:
        decision = Decision(
            run_id=run.run_id,
            step_id="p",
            attempt=1,
            decision="resume",
            sha256=None,
            reason=None,
            actor={},
            review={},
            decided_at=8,
        )
        store.commit(run.run_id, Batch(decision=decision))
    store.close()
    return run.run_id


@pytest.mark.parametrize(
    ("decided", "late", "code", "status"),
    [
        (False, True, "wait_expired", StepStatus.EXPIRED),
        (True, True, "owner_gone", StepStatus.WAITING),
        (False, False, "owner_gone", StepStatus.WAITING),
    ],
)
def test_readers_show_that_a_wait_has_expired_once_its_owner_is_gone(
    path: Path, decided: bool, late: bool, code: str, status: StepStatus
) -> None:
    run_id = left_waiting(path, decided=decided, expires_at=now() + (-1 if late else 10**12))
    reader = BlockingReader.open(path)
    assert reader is not None
    view = reader.view(run_id)
    assert view.state is RunState.RECOVERABLE
    assert view.cause is not None and view.cause.code == code
    assert [step.status for step in view.steps] == [status]
    (row,) = reader.runs(None)
    assert row.cause == view.cause
    reader.close()
    taken = read_stored(path, run_id)  # the file of a dead machine, as Replay opens it, and an export of it
    assert taken.view() == view == open_bundle(write(taken)).view()


def test_the_log_of_a_store_is_private_as_well(store: SqliteStore, path: Path) -> None:
    with_capture(store, 1000)
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}
