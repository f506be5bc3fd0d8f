"""Scripted Agent runs, leases on a test's clock, and stand-in requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extension_api import (
    AgentRunRefused,
    AgentRunRequest,
    AgentRuns,
    AgentRunStatus,
    AgentRunUncertain,
    ExecutionLeaseLost,
    ExecutionLeases,
    ExtensionPrincipal,
    arequire_plugin_management,
    require_admin,
    require_plugin_management,
)
from extension_api.testing import Answer, FakeAgentRuns, FakeExecutionLeases, fake_request


def request(key: str = "k1", agent: str = "lead_agent") -> AgentRunRequest:
    return AgentRunRequest(agent, "thread-1", key, {"task": {"n": 1}})


class TestFakeAgentRuns:
    async def test_answers_come_in_order_and_a_key_is_answered_once(self) -> None:
        runs = FakeAgentRuns({"lead_agent": [{"n": 1}, Answer({"n": 2})]})
        assert isinstance(runs, AgentRuns)
        first = await runs.admit(request("a"))
        assert (first.output, first.status, first.badge) == ({"n": 1}, AgentRunStatus.SUCCESS, "stub")
        assert await runs.admit(request("a")) == first
        assert (await runs.admit(request("b"))).output == {"n": 2}
        assert await runs.find("a") == first
        assert await runs.find("c") is None
        assert [each.idempotency_key for each in runs.requests] == ["a", "b"]
        with pytest.raises(AgentRunRefused) as refused:
            await runs.admit(request("c"))
        assert refused.value.code == "no_answer"

    async def test_an_answer_may_be_computed_or_raised(self) -> None:
        def compute(asked: AgentRunRequest) -> Any:
            return AgentRunUncertain("lost") if asked.idempotency_key == "bad" else asked.input["task"]

        runs = FakeAgentRuns({"lead_agent": compute})
        assert (await runs.admit(request())).output == {"n": 1}
        with pytest.raises(AgentRunUncertain):
            await runs.admit(request("bad"))
        assert await runs.find("bad") is None

    async def test_a_failed_answer_has_no_output(self) -> None:
        answer = Answer("ignored", AgentRunStatus.ERROR, "model_failed", "The model failed.")
        view = await FakeAgentRuns({"lead_agent": [answer]}).admit(request())
        assert (view.output, view.error_code, view.error_message) == (
            None,
            "model_failed",
            "The model failed.",
        )

    async def test_a_held_execution_is_observed_until_it_is_finished(self) -> None:
        runs = FakeAgentRuns({"lead_agent": [Answer(held=True)]})
        view = await runs.admit(request())
        assert view.status.active
        observing = asyncio.create_task(runs.observe(view.run_id))
        await asyncio.sleep(0)
        assert not observing.done()
        await runs.finish(view.run_id, {"late": True})
        assert (await observing).output == {"late": True}
        assert (await runs.interrupt(view.run_id)).status is AgentRunStatus.SUCCESS

    async def test_an_interrupt_ends_a_held_execution(self) -> None:
        runs = FakeAgentRuns({"lead_agent": [Answer(held=True)]})
        view = await runs.admit(request())
        assert (await runs.interrupt(view.run_id)).status is AgentRunStatus.INTERRUPTED
        assert (await runs.observe(view.run_id)).status is AgentRunStatus.INTERRUPTED

    async def test_files(self) -> None:
        runs = FakeAgentRuns({"lead_agent": [Answer(files={"a.txt": (b"abc", "text/plain")})]})
        view = await runs.admit(request())
        assert await runs.read_file(view.run_id, "a.txt", max_bytes=3) == (b"abc", "text/plain")
        with pytest.raises(AgentRunRefused, match="exceeds"):
            await runs.read_file(view.run_id, "a.txt", max_bytes=2)
        with pytest.raises(AgentRunRefused, match="no file"):
            await runs.read_file(view.run_id, "b.txt", max_bytes=2)

    async def test_a_revoked_handle_refuses_everything(self) -> None:
        runs = FakeAgentRuns({"lead_agent": [1]})
        view = await runs.admit(request())
        runs.revoke()
        for call in (
            runs.admit(request("b")),
            runs.find("a"),
            runs.observe(view.run_id),
            runs.interrupt(view.run_id),
            runs.read_file(view.run_id, "a", max_bytes=1),
            runs.delete_runs("wr_1"),
        ):
            with pytest.raises(AgentRunRefused) as refused:
                await call
            assert refused.value.code == "revoked"
        with pytest.raises(AgentRunRefused):
            runs.authorize("lead_agent")
        with pytest.raises(AgentRunRefused):
            runs.check_options({})
        with pytest.raises(AgentRunRefused):
            runs.configuration_revision({})
        with pytest.raises(AgentRunRefused):
            runs.configuration_components({})

    async def test_the_final_executions_of_a_workflow_run_are_deleted(self) -> None:
        def asked(key: str, run: str) -> AgentRunRequest:
            return AgentRunRequest("lead_agent", "t", key, {}, metadata={"workflow_run_id": run})

        runs = FakeAgentRuns({"lead_agent": [1, Answer(held=True), 3]})
        final = await runs.admit(asked("a", "wr_1"))
        held = await runs.admit(asked("b", "wr_1"))
        other = await runs.admit(asked("c", "wr_2"))
        assert await runs.delete_runs("wr_1") == 1
        assert await runs.find("a") is None
        with pytest.raises(AgentRunRefused, match="no execution"):
            await runs.observe(final.run_id)
        assert (await runs.find("b"), await runs.find("c")) == (held, other)
        await runs.finish(held.run_id)
        assert await runs.delete_runs("wr_1") == 1
        assert await runs.delete_runs("wr_1") == 0

    async def test_unknown_agents_and_executions_are_refused(self) -> None:
        runs = FakeAgentRuns()
        with pytest.raises(AgentRunRefused) as refused:
            await runs.admit(request())
        assert refused.value.code == "unknown_agent"
        with pytest.raises(AgentRunRefused) as refused:
            await runs.observe("child-9")
        assert refused.value.code == "not_found"

    def test_the_revision_depends_on_agents_and_options(self) -> None:
        one, other = FakeAgentRuns({"a": [1]}), FakeAgentRuns({"b": [1]})
        revisions = {
            one.configuration_revision({}),
            one.configuration_revision({"x": 1}),
            other.configuration_revision({}),
        }
        assert len(revisions) == 3
        assert one.configuration_revision({}) in revisions

    def test_the_components_name_what_changed(self) -> None:
        runs = FakeAgentRuns({"a": [1], "b": [1]})
        then, now = runs.configuration_components({"x": 1}), runs.configuration_components({"x": 2})
        assert [path for path in then if then[path] != now[path]] == ["launch.x"]
        assert sorted(then) == ["agents.a", "agents.b", "launch.x"]

    def test_who_is_behind_it(self) -> None:
        runs = FakeAgentRuns(principal=ExtensionPrincipal("ada"))
        assert (runs.principal.user_id, runs.session.mode, runs.session.interactive) == (
            "ada",
            "terminal",
            True,
        )


class TestFakeExecutionLeases:
    async def test_an_execution_has_one_owner_until_the_lease_ends(self) -> None:
        leases = FakeExecutionLeases()
        assert isinstance(leases, ExecutionLeases)
        first = await leases.acquire("run-1", owner_id="a", seconds=15)
        assert first is not None
        assert await leases.acquire("run-1", owner_id="b", seconds=15) is None
        assert await leases.acquire("run-2", owner_id="b", seconds=15) is not None
        assert await leases.holder("run-1") == first
        leases.advance(15)
        assert await leases.holder("run-1") is None
        second = await leases.acquire("run-1", owner_id="b", seconds=15)
        assert second is not None
        assert second.epoch == first.epoch + 1

    async def test_renewing_keeps_the_epoch_and_extends_the_end(self) -> None:
        leases = FakeExecutionLeases()
        lease = await leases.acquire("run-1", owner_id="a", seconds=5)
        assert lease is not None
        leases.advance(4)
        renewed = await leases.renew(lease, seconds=5)
        assert (renewed.epoch, renewed.acquired_at) == (lease.epoch, lease.acquired_at)
        assert renewed.expires_at == leases.now + 5_000_000
        leases.advance(4.999)
        assert await leases.renew(lease, seconds=5)

    async def test_a_stale_owner_can_neither_renew_nor_release(self) -> None:
        leases = FakeExecutionLeases()
        stale = await leases.acquire("run-1", owner_id="a", seconds=5)
        assert stale is not None
        leases.advance(5)
        with pytest.raises(ExecutionLeaseLost):
            await leases.renew(stale, seconds=5)
        fresh = await leases.acquire("run-1", owner_id="a", seconds=5)
        with pytest.raises(ExecutionLeaseLost):
            await leases.renew(stale, seconds=5)
        assert await leases.release(stale) is False
        assert await leases.holder("run-1") == fresh

    async def test_an_epoch_is_never_used_twice(self) -> None:
        leases = FakeExecutionLeases()
        epochs = []
        for _ in range(3):
            lease = await leases.acquire("run-1", owner_id="a", seconds=5)
            assert lease is not None
            epochs.append(lease.epoch)
            assert await leases.release(lease) is True
            assert await leases.release(lease) is False
        assert epochs == [1, 2, 3]

    @pytest.mark.parametrize("seconds", [4, 61, 0, -5, True, 5.0, None])
    async def test_the_range_of_seconds(self, seconds: Any) -> None:
        with pytest.raises(ValueError, match="from 5 to 60"):
            await FakeExecutionLeases().acquire("run-1", owner_id="a", seconds=seconds)


class TestFakeRequest:
    async def test_it_serves_the_helpers_of_the_contract(self) -> None:
        ada = ExtensionPrincipal("ada", is_admin=True)
        asked = fake_request(ada, manages=[("my.plugin", "read")])
        assert require_admin(asked) is ada
        assert require_plugin_management(asked, "my.plugin") is ada
        assert await arequire_plugin_management(asked, "my.plugin") is ada
        with pytest.raises(PermissionError):
            require_plugin_management(asked, "my.plugin", scope="write")
        with pytest.raises(PermissionError):
            await arequire_plugin_management(asked, "other")
        with pytest.raises(PermissionError):
            require_plugin_management(fake_request(ada), "my.plugin")
