from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunStatus
from extension_api.hashing import canonical_hash
from workbench.agents.base import Backends, BackendUnavailable, Call, ChildRef, FileRefused
from workbench.agents.registry import available_backends
from workbench.agents.stub import StubBackend, empty_stub_options, media_type

CHILD = ChildRef("cr_1", "wf_1", "lead_agent")


def options(*entries: Any) -> dict[str, Any]:
    return {"agents": "stub", "stubs": list(entries), "stubs_hash": canonical_hash(list(entries))}


def call(step: str = "a", task: Any = None, **launch: Any) -> Call:
    return Call("cr_1", "lead_agent", "wf_1", {"task": task}, "wr_1", step, 1, launch or empty_stub_options())


def none_earlier(run_id: str, entry: int) -> int:
    return 0


def test_without_a_match_the_task_is_echoed_at_once() -> None:
    started = StubBackend().start(call(task={"a": [1]}), none_earlier, 100)
    assert started.answer is not None
    assert (started.answer.status, started.answer.output) == (AgentRunStatus.SUCCESS, {"a": [1]})
    assert (started.due, started.badge, started.durable, started.counted) == (100, "stub", True, None)


def test_the_due_time_counts_everything_the_entry_declares() -> None:
    entry = {
        "reply": 1,
        "after": 0.5,
        "system": [{"kind": "goal", "reply": 1, "after": 0.25}],
        "subagents": [{"agent": "x", "after": 1}],
    }
    assert StubBackend().start(call(**options(entry)), none_earlier, 1_000_000).due == 2_750_000


def test_counted_entries_are_asked_how_often_they_answered() -> None:
    asked: list[tuple[str, int]] = []

    def earlier(run_id: str, entry: int) -> int:
        asked.append((run_id, entry))
        return 1

    launch = options({"step": "z", "reply": 0}, {"replies": ["first", "second"]})
    started = StubBackend().start(call(**launch), earlier, 0)
    assert started.answer is not None
    assert (started.answer.output, started.counted, asked) == ("second", 1, [("wr_1", 1)])


def test_the_same_call_gets_the_same_answer() -> None:
    launch = options({"reply": {"a": "{{task}}"}})
    first, second = (StubBackend().start(call(task=5, **launch), none_earlier, 7) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "launch",
    [
        {"agents": "stub", "stubs": [], "stubs_hash": "0" * 64},
        {"agents": "stub", "stubs": "x", "stubs_hash": canonical_hash([])},
        {"agents": "stub", "stubs": [{"repyl": 1}]},
    ],
)
def test_options_that_hold_no_stub_set_are_refused(launch: dict[str, Any]) -> None:
    with pytest.raises(BackendUnavailable):
        StubBackend().start(call(**launch), none_earlier, 0)


def test_the_model_is_the_set() -> None:
    launch = options({"reply": 1})
    assert StubBackend().describe("a", {}, launch).effective_model == f"stub/{launch['stubs_hash']}"


async def test_a_hanging_stub_waits_until_it_is_cancelled() -> None:
    started = StubBackend().start(call(**options({"hang": True})), none_earlier, 0)
    assert (started.answer, started.due) == (None, None)
    task = asyncio.ensure_future(StubBackend().observe(CHILD, None))
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_files_are_read_by_their_name() -> None:
    files = {"report.md": "# Über", "/mnt/user-data/outputs/raw.bin": "base64:AAEC"}
    stub = StubBackend()
    assert await stub.read_file(CHILD, files, "report.md", max_bytes=100) == (
        "# Über".encode(),
        "text/markdown",
    )
    assert await stub.read_file(CHILD, files, "/mnt/user-data/report.md", max_bytes=100) == (
        "# Über".encode(),
        "text/markdown",
    )
    assert await stub.read_file(CHILD, files, "outputs/raw.bin", max_bytes=3) == (
        b"\x00\x01\x02",
        "application/octet-stream",
    )


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing.md", "file_not_found"),
        ("../report.md", "bad_path"),
        ("a/./b", "bad_path"),
        ("", "bad_path"),
        ("a\0b", "bad_path"),
        ("report.md", "file_too_large"),
    ],
)
async def test_files_that_cannot_be_read_are_refused_by_code(path: str, code: str) -> None:
    with pytest.raises(FileRefused) as caught:
        await StubBackend().read_file(CHILD, {"report.md": "longer than this"}, path, max_bytes=5)
    assert caught.value.code == code


def test_media_types_do_not_depend_on_the_machine() -> None:
    assert media_type("a.PNG") == "image/png"
    assert media_type("a") == "application/octet-stream"


def test_a_backend_that_is_not_there_is_refused_in_words() -> None:
    backends = available_backends()
    assert "stub" in backends and "langchain" not in backends
    with pytest.raises(
        BackendUnavailable, match=r"the backend 'langchain' is not part of this workbench yet"
    ):
        backends.get("langchain")
    assert Backends({}).real() == []
