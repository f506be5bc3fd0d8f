from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunRefused, AgentRunStatus, AgentRunUncertain, AgentRunView
from workbench.agents.stubset import request_hash
from workbench.host.store import CommitUncertain
from workflows_core.errors import StoreFailed
from workflows_core.model import now

from .kit import OWNER, Kit, options, request, success

SECOND = 1_000_000


class Clock:
    """The wall clock, moved on at will."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return now() + self.ahead


async def test_an_answer_that_is_due_at_once_is_final_at_admission(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        view = kit.runs.admit(request(task={"a": 1}), OWNER)
        assert (view.status, view.output, view.badge) == (AgentRunStatus.SUCCESS, {"a": 1}, "stub")
        assert view.started_at == view.finished_at
        assert view.evidence is not None and set(view.evidence["components"]) == {"model", "prompt"}
        assert kit.runs.live == {}
        assert await kit.runs.observe(view.run_id, OWNER) == view
        assert kit.runs.find("wr_1/a/1", OWNER) == view


async def test_the_same_key_returns_the_same_execution(tmp_path: Path) -> None:
    launch = options({"replies": [1, 2]})
    async with Kit(tmp_path, calls=tmp_path / "calls") as kit:
        first = kit.runs.admit(request(launch=launch), OWNER)
        assert kit.runs.admit(request(launch=launch), OWNER) == first
        assert len((tmp_path / "calls").read_text().splitlines()) == 1
        for changes in ({"agent_ref": "writer"}, {"thread_id": "wf_other"}):
            with pytest.raises(AgentRunRefused) as caught:
                kit.runs.admit(request(launch=launch, **changes), OWNER)
            assert caught.value.code == "conflict"
        with pytest.raises(AgentRunRefused):
            kit.runs.admit(request(launch=launch), "os:1")


async def test_replies_are_counted_per_run_and_entry(tmp_path: Path) -> None:
    launch = options({"step": "a*", "replies": ["a1", "a2"]}, {"replies": ["b1"]})

    def ask(step: str, run: str = "wr_1") -> Any:
        view = kit.runs.admit(request(step, launch=launch, run=run), OWNER)
        return view.output if view.status is AgentRunStatus.SUCCESS else view.error_code

    async with Kit(tmp_path) as kit:
        assert [ask("a-1"), ask("b-1"), ask("a-2"), ask("a-3"), ask("b-2")] == [
            "a1",
            "b1",
            "a2",
            "stub_exhausted",
            "stub_exhausted",
        ]
        assert ask("a-1", run="wr_2") == "a1"
    async with Kit(tmp_path) as kit:
        assert ask("a-9", run="wr_2") == "a2"


async def test_each_call_is_one_line_before_it_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    async with Kit(tmp_path, calls=path) as kit:
        view = kit.runs.admit(request("a"), OWNER)
        kit.runs.admit(request("b", launch=options({"hang": True})), OWNER)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {
        "run_id": "wr_1",
        "step_id": "a",
        "attempt": 1,
        "agent_ref": "lead_agent",
        "thread_id": "wf_wr_1_a",
        "child_run_id": view.run_id,
    }
    assert lines[1]["step_id"] == "b"
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_line_that_cannot_be_written_refuses_the_call(tmp_path: Path) -> None:
    async with Kit(tmp_path, calls=tmp_path / "missing" / "calls") as kit:
        with pytest.raises(AgentRunRefused) as caught:
            kit.runs.admit(request(), OWNER)
        assert caught.value.code == "stub_calls"
        assert kit.runs.find("wr_1/a/1", OWNER) is None


async def test_a_delayed_answer_arrives_at_its_due_time(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        view = kit.runs.admit(request(launch=options({"reply": 1, "after": 0.02})), OWNER)
        assert (view.status, view.output, view.finished_at) == (AgentRunStatus.RUNNING, None, None)
        first, second = await asyncio.gather(*(kit.runs.observe(view.run_id, OWNER) for _ in range(2)))
        assert first == second
        assert (first.status, first.output) == (AgentRunStatus.SUCCESS, 1)
        assert first.finished_at is not None and first.started_at is not None
        assert first.finished_at - first.started_at >= 20_000
        assert kit.runs.live == {}


async def test_cancelling_an_observer_does_not_touch_the_child(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        view = kit.runs.admit(request(launch=options({"reply": 1, "after": 0.03})), OWNER)
        observer = asyncio.ensure_future(kit.runs.observe(view.run_id, OWNER))
        await asyncio.sleep(0)
        observer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await observer
        assert (await kit.runs.observe(view.run_id, OWNER)).output == 1


@pytest.mark.parametrize("late", [False, True])
async def test_a_stub_child_of_an_earlier_process_is_observed_without_a_second_call(
    tmp_path: Path, late: bool
) -> None:
    clock = Clock()
    launch = options({"reply": {"n": "{{task.n}}"}, "after": 0.02 if not late else 30})
    before = Kit(tmp_path, clock=clock, calls=tmp_path / "calls")
    view = before.runs.admit(request(task={"n": 5}, launch=launch), OWNER)
    before.kill()
    if late:
        clock.ahead = 60 * SECOND
    async with Kit(tmp_path, clock=clock, calls=tmp_path / "calls") as kit:
        found = kit.runs.find("wr_1/a/1", OWNER)
        assert found is not None and found.run_id == view.run_id
        observed = await asyncio.wait_for(kit.runs.observe(view.run_id, OWNER), 60)
        assert (observed.status, observed.output) == (AgentRunStatus.SUCCESS, {"n": 5})
        assert observed.evidence == view.evidence
        assert len((tmp_path / "calls").read_text().splitlines()) == 1
        assert kit.runs.live == {}


async def test_recorded_answers_keep_their_order_in_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later answer is asked about first, and given once the engine has committed the earlier one."""
    monkeypatch.setattr("workbench.agents.stuborder.PATIENCE", 1e6)
    entries = [
        {"step": step, "reply": step, "turn": turn, "request": request_hash("lead_agent", {"task": None})}
        for step, turn in (("never", 1), ("early", 2), ("late", 3))
    ]
    before = Kit(tmp_path)
    early, late = (
        before.runs.admit(request(step, launch=options(*entries)), OWNER) for step in ("early", "late")
    )
    assert (early.status, late.status) == (AgentRunStatus.RUNNING, AgentRunStatus.RUNNING)
    await asyncio.sleep(0)
    before.kill()
    async with Kit(tmp_path) as kit:
        last = asyncio.ensure_future(kit.runs.observe(late.run_id, OWNER))
        await asyncio.sleep(0)
        first = await asyncio.wait_for(kit.runs.observe(early.run_id, OWNER), 60)
        assert first.output == "early"
        waits = kit.runs.find("wr_1/late/1", OWNER)
        assert waits is not None and waits.status.active, "only the commit of the earlier answer gives it"
        kit.runs.delivered("wr_1", ["early"])
        assert (await asyncio.wait_for(last, 60)).output == "late"


async def test_a_hanging_child_of_an_earlier_process_hangs_until_it_is_interrupted(tmp_path: Path) -> None:
    before = Kit(tmp_path)
    view = before.runs.admit(request(launch=options({"hang": True})), OWNER)
    before.kill()
    async with Kit(tmp_path) as kit:
        observer = asyncio.ensure_future(kit.runs.observe(view.run_id, OWNER))
        await asyncio.sleep(0.01)
        assert not observer.done()
        ended = await kit.runs.interrupt(view.run_id, OWNER)
        assert ended.status is AgentRunStatus.INTERRUPTED
        assert await observer == ended


@pytest.mark.parametrize("entry", [{"hang": True}, {"reply": 1, "after": 60}])
async def test_interrupting_ends_a_child_once(tmp_path: Path, entry: dict[str, Any]) -> None:
    async with Kit(tmp_path) as kit:
        view = kit.runs.admit(request(launch=options(entry)), OWNER)
        observer = asyncio.ensure_future(kit.runs.observe(view.run_id, OWNER))
        await asyncio.sleep(0)
        ended = await kit.runs.interrupt(view.run_id, OWNER)
        assert (ended.status, ended.error_code) == (AgentRunStatus.INTERRUPTED, "interrupted")
        assert await observer == ended
        assert await kit.runs.interrupt(view.run_id, OWNER) == ended
    async with Kit(tmp_path) as kit:
        assert await kit.runs.observe(view.run_id, OWNER) == ended


async def test_interrupting_what_is_final_changes_nothing(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        view = kit.runs.admit(request(), OWNER)
        assert await kit.runs.interrupt(view.run_id, OWNER) == view


async def test_a_child_that_ran_inside_an_earlier_process_is_interrupted(tmp_path: Path) -> None:
    before = Kit(tmp_path)
    views = [
        before.runs.admit(request(step, agent="writer", launch={"agents": "real"}), OWNER)
        for step in ("a", "b", "c")
    ]
    assert [view.badge for view in views] == ["live"] * 3
    before.kill()
    async with Kit(tmp_path) as kit:
        observed = await kit.runs.observe(views[0].run_id, OWNER)
        assert (observed.status, observed.error_code) == (AgentRunStatus.INTERRUPTED, "host_gone")
        found = kit.runs.find("wr_1/b/1", OWNER)
        assert found is not None and found.status is AgentRunStatus.INTERRUPTED
        assert kit.runs.sweep() == 1
        assert kit.runs.sweep() == 0


async def test_a_child_inside_this_process_is_left_alone_by_the_sweep(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        view = kit.runs.admit(request(agent="writer", launch={"agents": "real"}), OWNER)
        assert kit.runs.sweep() == 0
        await asyncio.sleep(0)
        kit.backend.answers["a"].set_result(success("done"))
        assert (await kit.runs.observe(view.run_id, OWNER)).output == "done"


async def test_closing_leaves_durable_children_active_and_interrupts_the_others(tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    stub = kit.runs.admit(request("a", launch=options({"reply": 7, "after": 600})), OWNER)
    hang = kit.runs.admit(request("h", launch=options({"hang": True})), OWNER)
    inside = kit.runs.admit(request("b", agent="writer", launch={"agents": "real"}), OWNER)
    await asyncio.sleep(0)
    await asyncio.wait_for(kit.runs.drain(0.01), 60)
    await kit.close()
    async with Kit(tmp_path, clock=lambda: now() + 600 * SECOND) as again:
        status = [again.store.child(view.run_id) for view in (stub, hang, inside)]
        assert [row.status for row in status if row is not None] == ["running", "running", "interrupted"]
        assert (await again.runs.observe(stub.run_id, OWNER)).output == 7


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"agent": "nobody"}, "unknown_agent", "there is no agent 'nobody' in this workspace"),
        ({"launch": {"agents": "real"}}, "backend_unavailable", "lead_agent has only the stub backend"),
        (
            {"agent": "remote", "launch": {"agents": "real"}},
            "backend_unavailable",
            "'deerflow' is not part of",
        ),
        ({"launch": {}}, "bad_request", "neither stub nor real"),
        (
            {"launch": options() | {"stubs_hash": "x"}},
            "backend_unavailable",
            "not the one that its hash names",
        ),
        ({"thread_id": "a/b"}, "bad_request", "a thread id has 1 to 64"),
        ({"thread_id": "a" * 65}, "bad_request", "a thread id has 1 to 64"),
        ({"idempotency_key": ""}, "bad_request", "an idempotency key has 1 to 300"),
        ({"input": {"task": float("nan")}}, "bad_request", "the input is not JSON"),
        ({"metadata": {"attempt": "x"}}, "bad_request", "metadata.attempt"),
    ],
)
async def test_a_refusal_starts_nothing(
    tmp_path: Path, changes: dict[str, Any], code: str, words: str
) -> None:
    async with Kit(tmp_path, calls=tmp_path / "calls") as kit:
        with pytest.raises(AgentRunRefused) as caught:
            kit.runs.admit(request(**changes), OWNER)
        assert caught.value.code == code
        assert words in caught.value.message
        assert kit.store.read("SELECT count(*) FROM child_runs") == [(0,)]
        assert not (tmp_path / "calls").exists()


async def test_a_thread_has_one_active_run(tmp_path: Path) -> None:
    launch = options({"step": "a", "hang": True}, {"reply": 1, "after": 1})
    async with Kit(tmp_path) as kit:
        first = kit.runs.admit(request("a", launch=launch), OWNER)
        with pytest.raises(AgentRunRefused) as caught:
            kit.runs.admit(request("b", launch=launch, thread_id="wf_wr_1_a"), OWNER)
        assert caught.value.code == "thread_busy"
        await kit.runs.interrupt(first.run_id, OWNER)
        again = kit.runs.admit(request("b", launch=launch, thread_id="wf_wr_1_a"), OWNER)
        assert again.status is AgentRunStatus.RUNNING


async def test_other_users_children_do_not_exist(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        view = kit.runs.admit(request(launch=options({"hang": True})), OWNER)
        assert kit.runs.find("wr_1/a/1", "os:1") is None
        for operation in (
            kit.runs.observe(view.run_id, "os:1"),
            kit.runs.interrupt(view.run_id, "os:1"),
            kit.runs.read_file(view.run_id, "os:1", "a", max_bytes=1),
            kit.runs.observe("cr_missing", OWNER),
        ):
            with pytest.raises(AgentRunRefused, match="there is no child run"):
                await operation


async def test_files_survive_a_restart(tmp_path: Path) -> None:
    launch = options({"reply": 1, "files": {"report.md": "# Evidence\n"}})
    async with Kit(tmp_path) as kit:
        view = kit.runs.admit(request(launch=launch), OWNER)
    async with Kit(tmp_path) as kit:
        read = await kit.runs.read_file(view.run_id, OWNER, "report.md", max_bytes=1000)
        assert read == (b"# Evidence\n", "text/markdown")
        with pytest.raises(AgentRunRefused) as caught:
            await kit.runs.read_file(view.run_id, OWNER, "other.md", max_bytes=1000)
        assert caught.value.code == "file_not_found"


async def test_provenance_stamps_are_stripped_from_the_task(tmp_path: Path) -> None:
    task = {"keep": 1, "deerflow_content_kind": "memory", "in": [{"deerflow_producer_kind": "x", "a": 2}]}
    async with Kit(tmp_path) as kit:
        view = kit.runs.admit(request(task=task), OWNER)
    assert view.output == {"keep": 1, "in": [{"a": 2}]}


async def test_a_failed_commit_is_uncertain_and_an_earlier_failure_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Kit(tmp_path) as kit:
        for raised, expected in (
            (CommitUncertain("?"), AgentRunUncertain),
            (StoreFailed("full"), AgentRunRefused),
        ):

            def admit(*_: object, error: Exception = raised) -> bool:
                raise error

            monkeypatch.setattr(kit.store, "admit", admit)
            with pytest.raises(expected):
                kit.runs.admit(request(), OWNER)


async def test_options_are_checked_before_a_launch(tmp_path: Path) -> None:
    async with Kit(tmp_path) as kit:
        kit.runs.check_options(options({"reply": 1}))
        kit.runs.check_options({"agents": "real"})
        for launch, code in (
            ({"agents": "stub", "stubs": [1]}, "bad_request"),
            ({"agents": "else"}, "bad_request"),
        ):
            with pytest.raises(AgentRunRefused) as caught:
                kit.runs.check_options(launch)
            assert caught.value.code == code


async def test_all_final_states_come_back_from_the_store_as_they_were(tmp_path: Path) -> None:
    launch = options(
        {"step": "fail", "fail": "no"},
        {"step": "ask", "needs_input": "which?"},
        {"step": "text", "reply": "\u2028 NUL\0 \U0001f9fc"},
        {"step": "big", "reply": [2**53, -0.0, 1e-7]},
    )
    steps = ("fail", "ask", "text", "big", "echo")
    views: list[AgentRunView] = []
    async with Kit(tmp_path) as kit:
        views += [kit.runs.admit(request(step, launch=launch), OWNER) for step in steps]
    assert [view.status.value for view in views] == ["error", "waiting_input", *["success"] * 3]
    async with Kit(tmp_path) as kit:
        for view in views:
            assert await kit.runs.observe(view.run_id, OWNER) == view
