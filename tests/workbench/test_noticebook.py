"""Notices outlive a session, are private, and a file that holds anything does no harm."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from workbench import noticebook
from workbench.noticebook import KEPT, Notice, NoticeBook


def notice(n: int = 1, message: str = "a message") -> Notice:
    return Notice(n, "A title", message, "warning")


def test_the_next_session_reads_what_was_said(tmp_path: Path) -> None:
    path = tmp_path / "state" / "book.notices"
    book = NoticeBook(path)
    book.load()
    book.add(notice(1))
    book.add(notice(2, "two\nlines"))
    book.write()
    later = NoticeBook(path)
    later.add(notice(3))
    later.load()
    assert list(later.all) == [notice(1), notice(2, "two\nlines"), notice(3)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_was_written_before_it_was_read_is_there_once(tmp_path: Path) -> None:
    book = NoticeBook(tmp_path / "book")
    book.add(notice(1))
    book.write()
    book.load()
    assert list(book.all) == [notice(1)]


def test_only_the_latest_are_kept_also_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noticebook, "FILE_BYTES", 10_000)
    book = NoticeBook(tmp_path / "book")
    for n in range(KEPT * 3):
        book.add(notice(n))
        book.write()
    assert [each.at for each in book.all] == list(range(KEPT * 2, KEPT * 3))
    later = NoticeBook(tmp_path / "book")
    later.load()
    assert later.all == book.all
    assert len((tmp_path / "book").read_bytes().splitlines()) < KEPT * 2


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"\xff",
        b'{"at": "x", "title": "", "message": "", "severity": "error"}',
        b'{"at": 1, "title": "", "message": "", "severity": "shout"}',
        b'{"at": 1, "title": [], "message": "", "severity": "error"}',
        b"[" * 100_000,
    ],
)
def test_lines_that_are_no_notices_are_left_out(tmp_path: Path, line: bytes) -> None:
    good = {"at": 5, "title": "t\x1b[2J", "message": "m", "severity": "error"}
    (tmp_path / "book").write_bytes(line + b"\n" + json.dumps(good).encode() + b"\n")
    book = NoticeBook(tmp_path / "book")
    book.load()
    assert [each.text for each in book.all] == ["t␛[2J: m"]


def test_a_disk_that_refuses_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    book = NoticeBook(tmp_path / "file" / "book")
    book.load()
    book.add(notice())
    book.write()
    assert list(book.all) == [notice()]
