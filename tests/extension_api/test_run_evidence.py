"""Run evidence: the request's own reader, and the test kit's reader by the rules of a host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from extension_api import (
    RUN_EVIDENCE_READER_RESOLVER_KEY,
    InvalidRunEvidenceCursor,
    RunEventView,
    RunStatusView,
    require_run_evidence_reader,
    resolve_run_evidence_reader,
)
from extension_api.testing import FakeRunEvidence, fake_request


def request(resolver: object) -> Any:
    state = SimpleNamespace(**{RUN_EVIDENCE_READER_RESOLVER_KEY: resolver})
    return SimpleNamespace(app=SimpleNamespace(state=state))


async def coroutine_resolver(_: object) -> FakeRunEvidence:
    return FakeRunEvidence()


UNAVAILABLE: dict[str, Any] = {
    "no application": object(),
    "no resolver": fake_request(),
    "not callable": request(FakeRunEvidence()),
    "answers None": request(lambda _: None),
    "a coroutine function": request(coroutine_resolver),
}


@pytest.mark.parametrize("reason", UNAVAILABLE)
def test_a_host_without_request_scoped_evidence(reason: str) -> None:
    assert resolve_run_evidence_reader(UNAVAILABLE[reason]) is None
    with pytest.raises(NotImplementedError, match=r"^request-scoped run evidence is unavailable$"):
        require_run_evidence_reader(UNAVAILABLE[reason])


def test_the_reader_of_the_request() -> None:
    reader = FakeRunEvidence()
    asked = fake_request(reader=reader)
    assert resolve_run_evidence_reader(asked) is reader
    assert require_run_evidence_reader(asked) is reader


@pytest.mark.parametrize("error", [PermissionError("no"), RuntimeError("down")])
def test_errors_of_the_resolver_pass_on(error: Exception) -> None:
    def resolver(_: object) -> Any:
        raise error

    for call in (resolve_run_evidence_reader, require_run_evidence_reader):
        with pytest.raises(type(error)) as raised:
            call(request(resolver))
        assert raised.value is error


class TestFakeRunEvidence:
    def filled(self, runs: int = 3) -> FakeRunEvidence:
        reader = FakeRunEvidence()
        for index in range(1, runs + 1):
            reader.put_run(RunStatusView("t", f"r{index}", "running"))
        return reader

    async def test_pages_follow_the_changes(self) -> None:
        reader = self.filled()
        page = await reader.list_changed_runs(cursor=None, limit=2)
        assert [run.run_id for run in page.items] == ["r1", "r2"]
        assert page.has_more
        rest = await reader.list_changed_runs(cursor=page.next_cursor, limit=2)
        assert [run.run_id for run in rest.items] == ["r3"]
        assert not rest.has_more
        reader.put_run(RunStatusView("t", "r1", "success"))
        changed = await reader.list_changed_runs(cursor=rest.next_cursor, limit=2)
        assert [(run.run_id, run.status) for run in changed.items] == [("r1", "success")]
        nothing = await reader.list_changed_runs(cursor=changed.next_cursor, limit=2)
        assert nothing.items == ()
        assert nothing.next_cursor == changed.next_cursor

    async def test_seq_rises_within_a_thread_across_runs(self) -> None:
        reader = self.filled(2)
        for run_id in ("r1", "r2", "r1"):
            reader.put_event(RunEventView("t", run_id, event_type="message"))
        first = await reader.list_run_events(thread_id="t", run_id="r1", after_seq=None, limit=1)
        assert ([event.seq for event in first.items], first.has_more, first.next_after_seq) == ([1], True, 1)
        second = await reader.list_run_events(thread_id="t", run_id="r1", after_seq=1, limit=10)
        assert ([event.seq for event in second.items], second.has_more) == ([3], False)

    async def test_content_and_metadata_are_detached_and_the_token_is_gone(self) -> None:
        reader = self.filled(1)
        content, metadata = {"a": [1]}, {"auth_token": "x", "k": {"n": 1}}
        reader.put_event(RunEventView("t", "r1", content=content, metadata=metadata))
        content["a"].append(2)
        for _ in range(2):
            page = await reader.list_run_events(thread_id="t", run_id="r1", after_seq=None, limit=1)
            assert (page.items[0].content, page.items[0].metadata) == ({"a": [1]}, {"k": {"n": 1}})
            page.items[0].content["a"].append(3)
            page.items[0].metadata["k"]["n"] = 2

    async def test_a_deleted_run_leaves_nothing(self) -> None:
        reader = self.filled(1)
        reader.put_event(RunEventView("t", "r1"))
        reader.delete_run("t", "r1")
        assert await reader.get_run_status(thread_id="t", run_id="r1") is None
        page = await reader.list_run_events(thread_id="t", run_id="r1", after_seq=None, limit=5)
        assert page.items == ()
        assert (await reader.list_changed_runs(cursor=None, limit=5)).items == ()
        with pytest.raises(LookupError):
            reader.put_event(RunEventView("t", "r1"))

    @pytest.mark.parametrize("limit", [0, -1, 2001, True, 1.0, "5", None])
    async def test_limits(self, limit: Any) -> None:
        reader = self.filled(1)
        with pytest.raises(ValueError, match="limit"):
            await reader.list_changed_runs(cursor=None, limit=limit)
        with pytest.raises(ValueError, match="limit"):
            await reader.list_run_events(thread_id="t", run_id="r1", after_seq=None, limit=limit)

    @pytest.mark.parametrize("after", [-1, True, 1.5, "0"])
    async def test_after_seq_is_not_negative(self, after: Any) -> None:
        with pytest.raises(ValueError, match="after_seq"):
            await self.filled(1).list_run_events(thread_id="t", run_id="r1", after_seq=after, limit=1)

    async def test_the_largest_page(self) -> None:
        page = await self.filled(3).list_changed_runs(cursor=None, limit=2000)
        assert len(page.items) == 3

    async def test_cursors_of_elsewhere_are_refused(self) -> None:
        foreign = FakeRunEvidence(scope="user:bob")
        foreign.put_run(RunStatusView("t", "r1"))
        cursor = (await foreign.list_changed_runs(cursor=None, limit=1)).next_cursor
        with pytest.raises(InvalidRunEvidenceCursor, match="another scope"):
            await self.filled().list_changed_runs(cursor=cursor, limit=1)

    @pytest.mark.parametrize(
        "cursor",
        ["", "x", "e30=", "WzFd", "ä", "WzIsImFsbCIsMSwidCIsInIiXQ==", "WzEsImFsbCIsIjEiLCJ0IiwiciJd"],
    )
    async def test_malformed_and_unsupported_cursors_are_refused(self, cursor: str) -> None:
        with pytest.raises(InvalidRunEvidenceCursor):
            await self.filled().list_changed_runs(cursor=cursor, limit=1)
