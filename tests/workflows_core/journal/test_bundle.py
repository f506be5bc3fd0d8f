"""Bundles: every export reopens, what is not one is refused in words, and a redacted one holds no value."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from workflows_core import limits
from workflows_core.errors import NotFound, StoreFailed
from workflows_core.journal import archive
from workflows_core.journal.bundle import BundleRefused, open_bundle, save, write
from workflows_core.journal.verify import verify_bundle
from workflows_core.jsontext import encode, parse, sha256
from workflows_core.model import RunState

from .runs import CAPTURED, bundle, changed, comparable, members


@pytest.fixture(scope="module")
def whole() -> bytes:
    import asyncio

    return write(asyncio.run(bundle()))


async def test_an_export_reopens_with_everything_in_it(tmp_path: Path) -> None:
    made = await bundle()
    path = tmp_path / "run.wfrun"
    size = save(made, path)
    assert size == path.stat().st_size
    assert path.stat().st_mode & 0o777 == 0o600
    opened = open_bundle(path)
    assert comparable(opened) == comparable(made)
    assert opened.read_capture(sha256(CAPTURED)) == CAPTURED
    assert write(msgspec.structs.replace(opened, exported_at=None)) != b""
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.wfrun"]


async def test_a_reopened_run_shows_the_same_view_and_replays(tmp_path: Path) -> None:
    made = await bundle()
    opened = open_bundle(write(made))
    view = opened.view()
    assert [(step.step_id, step.line, step.badge) for step in view.steps] == [
        ("evidence", 1, "stub"), ("check-one", 3, None), ("check-two", 3, None),
    ]  # fmt: skip
    assert view == made.view()
    assert view.receipts == made.decisions
    assert (await verify_bundle(opened)).verdict == "complete"


@pytest.mark.parametrize("rounds", [0, 1])
async def test_an_unfinished_run_reopens_too(rounds: int) -> None:
    made = await bundle(rounds=rounds, state=RunState.RECOVERABLE)
    opened = open_bundle(write(made))
    assert comparable(opened) == comparable(made)
    assert (await verify_bundle(opened)).verdict == "ends_early"


async def test_an_empty_journal_reopens() -> None:
    made = await bundle(frames=(), marks=(), decisions=(), captures=())
    opened = open_bundle(write(made))
    assert opened.frames == ()
    assert opened.args is None
    assert (await verify_bundle(opened)).verdict == "incompatible"


def test_writing_twice_gives_the_same_bytes(whole: bytes) -> None:
    opened = open_bundle(whole)
    assert write(opened) == whole


async def test_a_frame_that_is_no_text_is_not_written() -> None:
    made = await bundle()
    frames = (made.frames[0], msgspec.structs.replace(made.frames[1], body=b"\xff"))
    with pytest.raises(BundleRefused, match="frame 1 is not UTF-8 text"):
        write(msgspec.structs.replace(made, frames=frames))


async def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="cannot be written"):
        save(await bundle(), tmp_path / "missing" / "run.wfrun")
    assert list(tmp_path.iterdir()) == []


def test_a_record_of_a_newer_version_is_understood_as_far_as_possible(whole: bytes) -> None:
    record = parse(members(whole)["record.json"])
    record |= {"state": "dreaming", "colour": "blue"}
    record["limits"]["max_dreams"] = 3
    opened = open_bundle(changed(whole, record__json=encode(record)))
    assert opened.record.state is RunState.INTERRUPTED
    assert [
        note for note in opened.notes if "dreaming" in note or "max_dreams" in note or "colour" in note
    ] == list(opened.notes)
    assert len(opened.notes) == 3


def test_a_frame_of_an_unknown_kind_ends_what_is_understood(whole: bytes) -> None:
    lines = members(whole)["frames.jsonl"].splitlines(keepends=True)
    newer = lines[2].replace(b'"kind":"response"', b'"kind":"telegram"')
    opened = open_bundle(changed(whole, frames__jsonl=b"".join([*lines[:2], newer, *lines[3:]])))
    assert len(opened.frames) == 2
    assert "'telegram'" in opened.notes[0]


def test_places_outside_the_script_are_named_and_left_out(whole: bytes) -> None:
    lines = members(whole)["frames.jsonl"].splitlines(keepends=True)
    for place in ([99_999, 1], [-5, 0], [1, 99_999], [0, 1]):
        line = parse(lines[1])
        line["side"] = {"positions": [place]}
        opened = open_bundle(
            changed(whole, frames__jsonl=b"".join([lines[0], encode(line) + b"\n", *lines[2:]]))
        )
        assert opened.notes == ("Frame 1 names places outside the script, which are left out.",)
        assert opened.frames[1].side.positions == (None,)
    assert open_bundle(whole).notes == ()


async def test_captured_bytes_that_are_missing_are_named(whole: bytes) -> None:
    opened = open_bundle(changed(whole, **{f"captures/{sha256(CAPTURED)}": None}))
    assert "evidence captured are not in the bundle" in opened.notes[0]
    with pytest.raises(NotFound):
        opened.read_capture(sha256(CAPTURED))


def test_the_bounds_of_a_member_cover_what_a_run_can_hold() -> None:
    assert archive.MEMBER_BYTES["script.js"] >= limits.SCRIPT_BYTES
    assert archive.MEMBER_BYTES["frames.jsonl"] > 2 * limits.JOURNAL_BYTES
    assert archive.FILE_BYTES > limits.CAPTURES_PER_RUN * limits.CAPTURE_BYTES + limits.RECORD_BYTES
