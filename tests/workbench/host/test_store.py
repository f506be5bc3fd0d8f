from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from extension_api.agent_runs import AgentRunStatus
from workbench.agents.base import Answer
from workbench.host import schema
from workbench.host.events import closing_events
from workbench.host.store import ChildRow, Event, HostStore, encode_answer, run_id_of
from workflows_core.errors import StoreFailed, StoreTooNew


def row(run: str, thread: str = "t", **changes: object) -> ChildRow:
    base = ChildRow(
        run_id=run, thread_id=thread, agent_ref="a", owner="o", workflow_run="wr", step_id="s", attempt=1,
        backend="stub", badge="stub", durable=1, incarnation="i", status="running", answer=None, due=None,
        files=None, evidence=None, counted=None, created_at=1, updated_at=1, finished_at=None,
    )  # fmt: skip
    return base._replace(**changes)


def event(name: str) -> Event:
    return Event(name, "message", None, "{}", 1)


def nothing() -> None:
    return None


@pytest.fixture
def store(tmp_path: Path):  # type: ignore[no-untyped-def]
    opened = HostStore.open(tmp_path / "host.sqlite")
    yield opened
    opened.close()


def test_the_files_are_private_and_the_tables_strict(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = HostStore.open(tmp_path / "host.sqlite")
        store.admit(row("cr_1"), [event("e")], nothing)
    finally:
        os.umask(old)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert store.read("PRAGMA journal_mode") == [("wal",)]
    assert store.read("PRAGMA synchronous") == [(1,)]
    with pytest.raises(StoreFailed):
        store.write("UPDATE child_runs SET attempt = 'x'")
    store.close()


def test_files_that_others_could_read_are_made_private(tmp_path: Path) -> None:
    path = tmp_path / "host.sqlite"
    first = HostStore.open(path)
    first.admit(row("cr_1"), [event("e")], nothing)  # so that there is a log
    files = list(tmp_path.iterdir())
    assert len(files) == 3
    for each in files:
        each.chmod(0o644)
    second = HostStore.open(path)
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
    second.close()
    first.close()


def test_deleting_child_runs_gives_their_bytes_back(tmp_path: Path) -> None:
    path = tmp_path / "host.sqlite"
    old = sqlite3.connect(path)
    old.execute("PRAGMA journal_mode=WAL")
    for statements in (entry[2] for entry in schema.MIGRATIONS):
        for statement in statements:
            old.execute(statement)
    old.execute("CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT, applied_at INTEGER) STRICT")
    old.executemany("INSERT INTO migrations VALUES (?, ?, 0)", [entry[:2] for entry in schema.MIGRATIONS])
    old.commit()
    old.close()
    store = HostStore.open(path)
    text = "a-secret-answer" * 100_000
    for number in range(3):
        key = f"cr_{number}"
        store.admit(
            row(key, f"t{number}", workflow_run=f"wr_{number}", status="success", answer=text), [], nothing
        )
    full = path.stat().st_size
    assert full > 4_000_000
    for number in range(3):  # the first time the store is written anew, from then on its end is cut off
        assert store.delete_children(f"wr_{number}", "o") == [f"cr_{number}"]
        store.give_back()
        assert path.stat().st_size < full - 1_300_000 * (number + 1)
    assert b"a-secret-answer" not in b"".join(each.read_bytes() for each in tmp_path.iterdir())
    store.close()


def test_a_newer_store_is_refused_in_words_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "host.sqlite"
    HostStore.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO migrations VALUES (99, 'later', 0)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreTooNew, match="has schema 99, and this version knows 2"):
        HostStore.open(path)


def test_a_file_that_is_no_store_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "host.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreFailed, match="is not a readable store"):
        HostStore.open(path)
    with pytest.raises(StoreFailed, match="cannot be opened"):
        HostStore.open(tmp_path / "missing" / "host.sqlite")


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "host.sqlite"
    broken = (*schema.MIGRATIONS, (3, "broken", ("CREATE TABLE half (a)", "CREATE TABLE nonsense (")))
    monkeypatch.setattr("workbench.host.store.MIGRATIONS", broken)
    with pytest.raises(StoreFailed):
        HostStore.open(path)
    monkeypatch.setattr("workbench.host.store.MIGRATIONS", schema.MIGRATIONS)
    store = HostStore.open(path)
    assert store.read("SELECT number FROM migrations") == [(1,), (2,)]
    assert store.read("SELECT 1 FROM sqlite_schema WHERE name = 'half'") == []
    store.close()


def test_what_happens_before_the_commit_can_undo_it(store: HostStore) -> None:
    def refuse() -> None:
        raise OSError("full")

    with pytest.raises(OSError):
        store.admit(row("cr_1"), [event("e")], refuse)
    assert store.child("cr_1") is None
    assert store.read("SELECT count(*) FROM events") == [(0,)]
    assert store.admit(row("cr_1"), [event("e")], nothing)


def test_one_active_run_a_thread(store: HostStore) -> None:
    assert store.admit(row("cr_1"), [], nothing)
    assert not store.admit(row("cr_2"), [], nothing)
    assert store.admit(
        row("cr_3", status="success", answer=encode_answer(Answer(AgentRunStatus.SUCCESS))), [], nothing
    )
    assert store.finish(row("cr_1"), Answer(AgentRunStatus.SUCCESS, 1), 5, [])
    assert store.admit(row("cr_2"), [], nothing)


def test_a_final_run_is_not_made_final_again(store: HostStore) -> None:
    store.admit(row("cr_1"), [], nothing)
    first, second = Answer(AgentRunStatus.SUCCESS, {"a": 1}), Answer(AgentRunStatus.ERROR, None, "x", "y")
    store.attach_evidence("cr_1", "[]")
    assert store.finish(row("cr_1"), first, 5, closing_events(first, 5))
    assert not store.finish(row("cr_1"), second, 6, closing_events(second, 6))
    found = store.child("cr_1")
    assert found is not None
    assert (found.status, found.decided(), found.finished_at, found.evidence) == ("success", first, 5, "[]")
    assert [name for _, name, *_ in store.events("t", "cr_1", 0, 10)] == ["ai_message", "run_end"]


def test_event_numbers_rise_over_runs_restarts_and_deletions(tmp_path: Path) -> None:
    path = tmp_path / "host.sqlite"
    numbers: list[int] = []
    for run in ("cr_1", "cr_2", "cr_3"):
        store = HostStore.open(path)
        store.admit(row(run, status="success"), [event("a"), event("b")], nothing)
        numbers += [seq for seq, *_ in store.events("t", run, 0, 10)]
        assert store.delete_children("wr", "o") == [run]
        assert store.child(run) is None
        assert store.events("t", run, 0, 10) == []
        store.close()
    assert numbers == [1, 2, 3, 4, 5, 6]


def test_change_numbers_rise_also_when_the_clock_goes_back(tmp_path: Path) -> None:
    path = tmp_path / "host.sqlite"
    seen: list[int] = []
    for run, at in (("cr_1", 1000), ("cr_2", 10), ("cr_3", 5)):
        store = HostStore.open(path)
        store.admit(row(run, thread=run, status="success", updated_at=at), [], nothing)
        seen += [change for change, found in store.changed_children(None, (0, ""), 10) if found.run_id == run]
        store.delete_children("wr", "o")
        store.close()
    assert seen == sorted(set(seen)) and seen[0] == 1000


def test_only_final_runs_of_the_owner_are_deleted(store: HostStore) -> None:
    assert store.delete_children("wr", "o") == []
    store.admit(row("cr_1", "t1", status="success"), [event("a")], nothing)
    store.admit(row("cr_2", "t2"), [event("a")], nothing)
    store.admit(row("cr_3", "t3", status="success", owner="other"), [event("a")], nothing)
    store.admit(row("cr_4", "t4", status="success", workflow_run="wr2"), [event("a")], nothing)
    assert store.delete_children("wr", "o") == ["cr_1"]
    assert [store.child(f"cr_{i}") is None for i in range(1, 5)] == [True, False, False, False]
    assert store.read("SELECT count(*) FROM events") == [(3,)]


def test_a_key_names_one_run_everywhere() -> None:
    assert run_id_of("wr_1/a/1") == run_id_of("wr_1/a/1") != run_id_of("wr_1/a/2")
    assert len(run_id_of("x")) == 27
