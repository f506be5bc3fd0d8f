from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from extension_api.run_evidence import InvalidRunEvidenceCursor, RunEvidenceReader
from workbench.host.evidence import LocalRunEvidence

from .kit import OWNER, Kit, options, request


def reader(kit: Kit, owner: str | None = None) -> LocalRunEvidence:
    return LocalRunEvidence(kit.store, kit.secret, owner)


async def pages(evidence: RunEvidenceReader, limit: int, cursor: str | None = None) -> list[list[str]]:
    found: list[list[str]] = []
    while True:
        page = await evidence.list_changed_runs(cursor=cursor, limit=limit)
        found.append([item.run_id for item in page.items])
        cursor = page.next_cursor
        if not page.has_more:
            return found


async def test_runs_are_paged_in_the_order_of_their_changes(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        slow = kit.runs.admit(request("slow", launch=options({"hang": True})), OWNER)
        quick = [kit.runs.admit(request(f"q{i}"), OWNER).run_id for i in range(4)]
        evidence = reader(kit)
        assert await pages(evidence, 2) == [[slow.run_id, quick[0]], quick[1:3], quick[3:]]
        cursor = (await evidence.list_changed_runs(cursor=None, limit=2000)).next_cursor
        await kit.runs.interrupt(slow.run_id, OWNER)
        assert await pages(evidence, 5, cursor) == [[slow.run_id]]
    async with Kit(tmp_path) as kit:  # a cursor outlives a restart
        assert await pages(reader(kit), 5, cursor) == [[slow.run_id]]
        empty = await reader(kit).list_changed_runs(cursor=cursor, limit=1)
        again = await reader(kit).list_changed_runs(cursor=empty.next_cursor, limit=1)
        assert (again.items, again.next_cursor, again.has_more) == ((), empty.next_cursor, False)


async def test_an_empty_store_gives_an_empty_page(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        page = await reader(kit).list_changed_runs(cursor=None, limit=1)
        assert (page.items, page.next_cursor, page.has_more) == ((), None, False)


async def test_events_are_numbered_over_the_runs_of_a_thread(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        first = kit.runs.admit(request("a", {"n": 1}, thread_id="t"), OWNER)
        second = kit.runs.admit(request("b", thread_id="t", launch=options({"fail": "no"})), OWNER)
        evidence = reader(kit)
        page = await evidence.list_run_events(thread_id="t", run_id=first.run_id, after_seq=None, limit=10)
        assert [(e.seq, e.event_type, e.category) for e in page.items] == [
            (1, "run_start", "lifecycle"),
            (2, "human_message", "message"),
            (3, "ai_message", "message"),
            (4, "run_end", "lifecycle"),
        ]
        assert page.items[1].content == {"task": {"n": 1}} and page.items[2].content == {"n": 1}
        assert page.items[0].metadata == {"workflow_run_id": "wr_1", "step_id": "a", "attempt": 1}
        assert page.items[0].created_at.endswith("Z")
        rest = await evidence.list_run_events(thread_id="t", run_id=second.run_id, after_seq=5, limit=10)
        assert [(e.seq, e.event_type, e.metadata) for e in rest.items] == [
            (6, "human_message", {}),
            (7, "run_end", {"status": "error", "error": "no"}),
        ]
        part = await evidence.list_run_events(thread_id="t", run_id=first.run_id, after_seq=0, limit=3)
        assert (part.next_after_seq, part.has_more) == (3, True)
        last = await evidence.list_run_events(thread_id="t", run_id=first.run_id, after_seq=4, limit=3)
        assert (last.items, last.next_after_seq, last.has_more) == ((), 4, False)


async def test_what_is_given_out_is_detached(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        view = kit.runs.admit(request("a", {"n": [1]}), OWNER)
        names = {"thread_id": view.thread_id, "run_id": view.run_id, "after_seq": None, "limit": 10}
        page = await reader(kit).list_run_events(**names)  # type: ignore[arg-type]
        page.items[1].content["task"]["n"].append(2)
        page.items[0].metadata.clear()
        again = await reader(kit).list_run_events(**names)  # type: ignore[arg-type]
        assert again.items[1].content == {"task": {"n": [1]}}
        assert again.items[0].metadata["step_id"] == "a"


async def test_status_views(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        failed = kit.runs.admit(request("f", launch=options({"fail": "no"})), OWNER)
        active = kit.runs.admit(request("h", launch=options({"reply": 1, "after": 50})), OWNER)
        evidence = reader(kit)
        status = await evidence.get_run_status(thread_id=failed.thread_id, run_id=failed.run_id)
        assert status is not None
        assert (status.status, status.error, status.stop_reason) == ("error", "no", "stub_failed")
        status = await evidence.get_run_status(thread_id=active.thread_id, run_id=active.run_id)
        assert status is not None and (status.status, status.error) == ("running", None)


async def test_what_is_deleted_or_not_visible_does_not_exist(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        mine = kit.runs.admit(request("a"), OWNER)
        other = kit.runs.admit(request("b"), "os:2")
        gone = kit.runs.admit(request("c", run="wr_gone"), OWNER)
        assert kit.runs.delete_of("wr_gone", OWNER) == 1
        evidence = reader(kit, OWNER)
        assert await pages(evidence, 10) == [[mine.run_id]]
        for thread, run in (
            (other.thread_id, other.run_id),
            (gone.thread_id, gone.run_id),
            ("wrong", mine.run_id),
            (mine.thread_id, "cr_none"),
        ):
            assert await evidence.get_run_status(thread_id=thread, run_id=run) is None
            page = await evidence.list_run_events(thread_id=thread, run_id=run, after_seq=None, limit=5)
            assert (page.items, page.has_more) == ((), False)
        assert await pages(reader(kit), 10) == [[mine.run_id, other.run_id]]


@pytest.mark.parametrize("limit", [0, 2001, -1, True, False, 1.5, "1", None])
async def test_limits_are_checked(tmp_path: Path, limit: Any) -> None:
    async with Kit(tmp_path) as kit:
        with pytest.raises(ValueError, match="limit must be"):
            await reader(kit).list_changed_runs(cursor=None, limit=limit)
        with pytest.raises(ValueError, match="limit must be"):
            await reader(kit).list_run_events(thread_id="t", run_id="r", after_seq=None, limit=limit)


@pytest.mark.parametrize("after", [-1, True, 1.5, "1"])
async def test_positions_are_checked(tmp_path: Path, after: Any) -> None:
    async with Kit(tmp_path) as kit:
        with pytest.raises(ValueError, match="after_seq must be"):
            await reader(kit).list_run_events(thread_id="t", run_id="r", after_seq=after, limit=1)


async def test_cursors_are_bound_to_their_scope_and_cannot_be_made(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        kit.runs.admit(request(), OWNER)
        every, mine = reader(kit), reader(kit, OWNER)
        cursor = (await every.list_changed_runs(cursor=None, limit=1)).next_cursor
        assert cursor is not None
        body = base64.urlsafe_b64encode(json.dumps([1, 0, ""]).encode()).decode()
        flipped = ("A" if cursor[0] != "A" else "B") + cursor[1:]
        for bad in ("", "x", "é", cursor[:-4], flipped, body, cursor + "AAAA", 5):
            with pytest.raises(InvalidRunEvidenceCursor):
                await every.list_changed_runs(cursor=bad, limit=1)  # type: ignore[arg-type]
        with pytest.raises(InvalidRunEvidenceCursor):
            await mine.list_changed_runs(cursor=cursor, limit=1)
        newer = every._sign('[2,0,""]') + '[2,0,""]'
        with pytest.raises(InvalidRunEvidenceCursor, match="version 2"):
            await every.list_changed_runs(cursor=base64.urlsafe_b64encode(newer.encode()).decode(), limit=1)
