"""Drafts without a screen: files whole or not at all, other programs noticed, arguments, what a session keeps."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.drafts import (
    REMEMBERED_LAUNCHES,
    AuthorSession,
    Draft,
    LaunchForm,
    OnDisk,
    OpenScript,
    launch_key,
    read_arguments,
    read_file,
)
from workflows_core.errors import Conflict, LimitExceeded, StoreFailed, UsageError
from workflows_core.limits import Limits

needs_limits = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "a.workflow.js"
    path.write_bytes("return 'ü';\r\n".encode())
    return path


# Text and file


def test_a_draft_is_dirty_while_its_text_differs_from_the_file(script: Path) -> None:
    draft = Draft.open(script)
    assert (draft.text, draft.dirty) == ("return 'ü';\r\n", False)
    draft.text += "x"
    assert draft.dirty
    draft.text = draft.text[:-1]
    assert not draft.dirty


def test_saving_writes_the_text_byte_for_byte_and_keeps_the_mode(script: Path) -> None:
    script.chmod(0o640)
    draft = Draft.open(script)
    draft.text = "a\r\nb\u2028c"
    draft.save()
    assert script.read_bytes() == "a\r\nb\u2028c".encode()
    assert stat.S_IMODE(script.stat().st_mode) == 0o640
    assert not draft.dirty
    assert draft.on_disk() is OnDisk.SAME
    assert [path.name for path in script.parent.iterdir()] == [script.name]


def test_saving_through_a_link_writes_the_file_it_leads_to(script: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.workflow.js"
    link.symlink_to(script.name)
    draft = Draft.open(link)
    draft.text = "new"
    draft.save()
    assert link.is_symlink()
    assert script.read_text() == "new"
    assert draft.on_disk() is OnDisk.SAME


def test_a_new_script_gets_the_modes_that_the_umask_leaves(tmp_path: Path) -> None:
    draft = Draft(tmp_path / "new.workflow.js", text="return 1;")
    assert draft.dirty
    assert draft.on_disk() is OnDisk.GONE
    before = os.umask(0o027)
    try:
        draft.save()
    finally:
        os.umask(before)
    assert stat.S_IMODE(draft.path.stat().st_mode) == 0o640
    assert not draft.dirty


def test_a_failed_save_leaves_the_old_file_the_text_and_no_rest(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = Draft.open(script)
    draft.text = "new"

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFailed, match=r"a\.workflow\.js cannot be written: No space left on device"):
        draft.save()
    assert script.read_text() == "return 'ü';\r\n".replace("\r\n", "\n")
    assert draft.dirty
    assert draft.text == "new"
    assert [path.name for path in script.parent.iterdir()] == [script.name]


@needs_limits
def test_a_read_only_file_is_not_replaced(script: Path) -> None:
    draft = Draft.open(script)
    script.chmod(0o400)
    draft.text = "new"
    with pytest.raises(StoreFailed, match="it is read-only"):
        draft.save()


def test_a_folder_that_is_gone_is_said_in_words(script: Path) -> None:
    draft = Draft.open(script)
    script.unlink()
    script.parent.rmdir()
    draft.text = "new"
    with pytest.raises(StoreFailed, match="No such file or directory"):
        draft.save()


def test_half_a_character_is_not_stored(script: Path) -> None:
    draft = Draft.open(script)
    draft.text = "\ud800"
    with pytest.raises(UsageError, match="lone surrogate"):
        draft.save()
    assert script.read_text() == "return 'ü';\n"


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (None, UsageError, "does not exist"),
        (b"\xff", UsageError, "not UTF-8 text: byte 0 is invalid"),
        (b"x" * (1024 * 1024 + 1), LimitExceeded, "larger than 1024 KiB"),
    ],
)
def test_a_file_that_is_no_script_is_refused_in_words(
    tmp_path: Path, content: bytes | None, error: type[Exception], words: str
) -> None:
    path = tmp_path / "b.workflow.js"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=words):
        Draft.open(path)


# Other programs


def _touch(path: Path, text: str) -> None:
    """Write as another program would, with a time that differs."""
    path.write_text(text)
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1_000_000))


def test_a_change_by_another_program_is_noticed_and_not_overwritten(script: Path) -> None:
    draft = Draft.open(script)
    _touch(script, "theirs")
    assert draft.on_disk() is OnDisk.CHANGED
    draft.text = "mine"
    with pytest.raises(Conflict, match="changed by another program") as caught:
        draft.save()
    assert caught.value.code == "changed_on_disk"
    assert script.read_text() == "theirs"
    draft.save(overwrite=True)
    assert script.read_text() == "mine"
    assert draft.on_disk() is OnDisk.SAME


def test_a_file_that_was_only_touched_is_the_same(script: Path) -> None:
    draft = Draft.open(script)
    os.utime(script, ns=(1, 1))
    assert draft.on_disk() is OnDisk.SAME


def test_a_file_that_is_gone_is_written_anew(script: Path) -> None:
    draft = Draft.open(script)
    script.unlink()
    assert draft.on_disk() is OnDisk.GONE
    draft.save()
    assert script.exists()


def test_a_file_that_cannot_be_read_any_more_counts_as_changed(script: Path) -> None:
    draft = Draft.open(script)
    script.write_bytes(b"\xff\xff")
    assert draft.on_disk() is OnDisk.CHANGED


def test_a_file_that_appears_under_a_new_script_is_not_overwritten(tmp_path: Path) -> None:
    draft = Draft(tmp_path / "new.workflow.js", text="mine")
    draft.path.write_text("theirs")
    assert draft.on_disk() is OnDisk.CHANGED
    with pytest.raises(Conflict):
        draft.save()


def test_reloading_takes_the_file_as_text_and_as_saved(script: Path) -> None:
    draft = Draft.open(script)
    draft.text = "mine"
    _touch(script, "theirs")
    draft.accept(read_file(script))
    assert (draft.text, draft.dirty, draft.on_disk()) == ("theirs", False, OnDisk.SAME)


def test_a_change_while_the_file_is_read_is_noticed_afterwards(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench import drafts

    real = drafts.read_text

    def then_changed(path: Path, what: str) -> str:
        text = real(path, what)
        _touch(path, "theirs")
        return text

    monkeypatch.setattr(drafts, "read_text", then_changed)
    draft = Draft.open(script)
    monkeypatch.setattr(drafts, "read_text", real)
    assert draft.on_disk() is OnDisk.CHANGED


# Arguments


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("", "{}"),
        (" \n", "{}"),
        ('{"b": 1,\n "a": "\\u00fc"}', '{"a":"ü","b":1}'),
        ('{"n": 1e2}', '{"n":100.0}'),
    ],
)
def test_what_is_sent_is_the_canonical_json(text: str, sent: str) -> None:
    read = read_arguments(text)
    assert read.sent == sent
    assert read.value == json.loads(sent)
    assert read.error == ""


@pytest.mark.parametrize(
    ("text", "words", "place"),
    [
        ('{"a": 1,}', "property name enclosed in double quotes", (1, 9)),
        ('{\n  "a": tru\n}', "expecting value", (2, 8)),
        ("{} x", "extra data", (1, 4)),
        ("[1]", "must be a JSON object", (1, 1)),
        ("\n  3", "must be a JSON object", (2, 3)),
        ('{"a":\n  [12345678901234567890]}', "cannot represent exactly", (2, 4)),
        ('{"a": 1,\n  "b": 1, "a": 2}', 'the key "a" twice', (2, 11)),
        ('{"a": NaN}', "NaN, which is not JSON", (1, 7)),
        ('{"a": -Infinity}', "not JSON", (1, 7)),
        ('{"a": "' + "x" * 4_000 + '"}', "4,000 are admitted", (1, 1)),
        ("[" * 300 + "]" * 300, "nested deeper", (1, 1)),
        ("[" * 100_000, "", (1, 1)),
    ],
)
def test_what_cannot_be_sent_says_why_and_where(text: str, words: str, place: tuple[int, int]) -> None:
    read = read_arguments(text)
    assert read.value is None
    assert read.error
    assert words in read.error
    assert (read.line, read.column) == place or words == ""


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    read = read_arguments(text)
    assert (read.value is None) == bool(read.error)
    if read.value is None and read.line is not None:
        assert 1 <= read.line <= text.count("\n") + 1


# What a session remembers


def test_a_session_comes_back_as_it_was() -> None:
    session = AuthorSession(
        open=[OpenScript(path="a.workflow.js", line=3, column=7, unsaved="x")],
        current="a.workflow.js",
        forms={"a.workflow.js": LaunchForm(arguments='{"a": 1}', real=True, stubs="b.stubs.yaml")},
    )
    session.request_for("k").run_id = "wr_1"
    assert AuthorSession.load(json.loads(json.dumps(session.dump()))) == session


@pytest.mark.parametrize("value", [None, 3, [], {"open": 3}, {"open": [{"path": 3}]}, {"forms": {"a": 1}}])
def test_what_is_no_session_gives_an_empty_one(value: Any) -> None:
    assert AuthorSession.load(value) == AuthorSession()


def test_the_same_content_keeps_its_request_until_it_is_to_run_again() -> None:
    session = AuthorSession()
    first = session.request_for("k")
    assert session.request_for("k") is first
    assert session.request_for("other").request_id != first.request_id
    again = session.request_for("k", again=True)
    assert again.request_id != first.request_id
    assert session.request_for("k") is again


def test_only_the_latest_launches_are_remembered() -> None:
    session = AuthorSession()
    first = session.request_for("0").request_id
    for number in range(1, REMEMBERED_LAUNCHES):
        session.request_for(str(number))
    assert session.request_for("0").request_id == first
    session.request_for("new")
    assert len(session.launches) == REMEMBERED_LAUNCHES
    assert "1" not in session.launches
    assert "0" in session.launches


BASE: dict[str, Any] = {
    "script": "return 1;",
    "args": {"a": 1},
    "name": "a",
    "options": {"agents": "stub", "stubs_hash": "x", "label": "one"},
    "agents": ("b", "a"),
    "of": Limits(),
}


@pytest.mark.parametrize(
    "change",
    [
        {"script": "return 1; "},
        {"args": {"a": 2}},
        {"name": "b"},
        {"options": {"agents": "stub", "stubs_hash": "y"}},
        {"agents": ("a",)},
        {"of": Limits(max_calls=3)},
    ],
)
def test_any_change_of_content_is_another_launch(change: dict[str, Any]) -> None:
    assert launch_key(**BASE) != launch_key(**(BASE | change))


def test_order_and_label_are_no_content() -> None:
    other = BASE | {"agents": ("a", "b"), "options": BASE["options"] | {"label": "two"}}
    assert launch_key(**BASE) == launch_key(**other)
