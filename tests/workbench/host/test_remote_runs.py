"""Child runs of the backends that ask over HTTP, as the host records them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunRefused, AgentRunStatus, AgentRunUncertain
from extension_api.hashing import canonical_hash
from tests.workbench.agents.contract import PLANTED
from tests.workbench.agents.servers import DROP, CompletionServer, GatewayServer
from workbench.agents.base import Backends
from workbench.agents.deerflow import DeerFlowBackend
from workbench.agents.openai import OpenAIBackend
from workbench.agents.stub import StubBackend
from workbench.agents.stubset import request_hash
from workbench.host.config import AgentConfig, WorkbenchConfig
from workbench.host.revision import Configuration
from workbench.host.runs import ChildRuns

from .kit import OWNER, Kit, eventually, request

REAL = {"agents": "real"}


class RemoteKit(Kit):
    """A host whose agents ``remote`` and ``writer`` ask the servers of a test."""

    def __init__(self, folder: Path, gateway: GatewayServer, completions: CompletionServer) -> None:
        super().__init__(folder)
        self.backends = Backends(
            {"stub": StubBackend(), "deerflow": DeerFlowBackend(pace=0.02), "openai": OpenAIBackend()}
        )
        remote = {"base_url": gateway.url, "username": "ada", "password": {"env": "GATEWAY_PASSWORD"}}
        writer = {"base_url": f"{completions.url}/v1", "model": "m", "api_key": {"env": "WRITER_KEY"}}
        agents = {
            "lead_agent": AgentConfig(name="lead_agent"),
            "remote": AgentConfig(name="remote", backend="deerflow", settings=remote),
            "writer": AgentConfig(name="writer", backend="openai", settings=writer),
        }
        self.configuration = Configuration(folder, WorkbenchConfig(agents=agents), self.secret, self.backends)
        self.runs = ChildRuns(
            store=self.store,
            backends=self.backends,
            configuration=self.configuration,
            generations=self.generations,
            calls=self.calls,
        )

    async def end(self) -> None:
        """End like a killed process, but with its connections closed."""
        tasks = [live.task for live in self.runs.live.values() if live.task is not None]
        self.kill()
        await asyncio.gather(*tasks, return_exceptions=True)  # they find the store closed
        await self.backends.close()

    def text(self) -> str:
        """Everything that the host has stored."""
        rows = self.store.read("SELECT * FROM child_runs") + self.store.read("SELECT * FROM events")
        return repr(rows)


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[GatewayServer]:
    monkeypatch.setenv("GATEWAY_PASSWORD", PLANTED)
    with GatewayServer(ada=PLANTED) as server:
        yield server


@pytest.fixture
def completions(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompletionServer]:
    monkeypatch.setenv("WRITER_KEY", PLANTED)
    with CompletionServer(PLANTED) as server:
        yield server


@asynccontextmanager
async def kit(
    folder: Path, gateway: GatewayServer, completions: CompletionServer
) -> AsyncIterator[RemoteKit]:
    made = RemoteKit(folder, gateway, completions)
    try:
        yield made
    finally:
        await made.close()


def ask(step: str = "a", agent: str = "remote", task: Any = 1, **changes: Any) -> Any:
    return request(step, task, changes.pop("launch", REAL), agent=agent, **changes)


@pytest.mark.parametrize("agent", ["remote", "writer"])
async def test_a_real_answer_is_recorded_as_live(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer, agent: str
) -> None:
    async with kit(tmp_path, gateway, completions) as host:
        view = host.runs.admit(ask(agent=agent, task={"n": 1}), OWNER)
        assert view.status is AgentRunStatus.RUNNING and view.evidence is not None
        final = await host.runs.observe(view.run_id, OWNER)
        assert (final.status, final.output, final.badge) == (AgentRunStatus.SUCCESS, {"n": 1}, "live")
        assert host.runs.admit(ask(agent=agent, task={"n": 1}), OWNER) == final
        assert len(gateway.posts) + len(completions.calls) == 1
        assert PLANTED not in host.text() and "token" not in host.text()


async def test_the_record_comes_before_the_question(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    """Invariant 3: nothing is sent while the child run is being recorded."""
    async with kit(tmp_path, gateway, completions) as host:
        host.runs.admit(ask("a"), OWNER)
        host.runs.admit(ask("b", agent="writer"), OWNER)
        assert gateway.seen == [] and completions.seen == []
        assert host.store.read("SELECT count(*) FROM child_runs WHERE status = 'running'") == [(2,)]


async def test_i04_a_remote_child_of_an_earlier_process_is_observed(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    gateway.held = True
    before = RemoteKit(tmp_path, gateway, completions)
    view = before.runs.admit(ask(task={"n": 2}), OWNER)
    await eventually(lambda: len(gateway.runs) == 1)
    await before.end()
    gateway.release()
    async with kit(tmp_path, gateway, completions) as host:
        assert host.runs.sweep() == 0
        final = await host.runs.observe(view.run_id, OWNER)
        assert (final.status, final.output, final.evidence) == (
            AgentRunStatus.SUCCESS,
            {"n": 2},
            view.evidence,
        )
    assert len(gateway.posts) == 1


async def test_i04_a_child_that_was_perhaps_never_asked_for_is_uncertain(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    before = RemoteKit(tmp_path, gateway, completions)
    view = before.runs.admit(ask(), OWNER)
    await before.end()  # between the record and the request
    async with kit(tmp_path, gateway, completions) as host:
        final = await host.runs.observe(view.run_id, OWNER)
        assert final.status is AgentRunStatus.UNKNOWN
        assert final.error_message is not None and "proves nothing" in final.error_message
    assert gateway.posts == []


async def test_a_step_that_did_not_run_finds_the_run_that_it_had_all_the_same(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    """Somebody attested did_not_run: the same thread, another key. Nothing is asked twice even so."""
    gateway.fault("post", "after_drop")
    gateway.fault("list", "pass", 503, 503, 503)
    async with kit(tmp_path, gateway, completions) as host:
        view = host.runs.admit(ask(), OWNER)
        assert (await host.runs.observe(view.run_id, OWNER)).status is AgentRunStatus.UNKNOWN
        again = host.runs.admit(ask(idempotency_key="wr_1/a/1/2"), OWNER)
        final = await host.runs.observe(again.run_id, OWNER)
        assert (final.status, final.output) == (AgentRunStatus.SUCCESS, 1)
    assert len(gateway.posts) == 1


async def test_what_was_not_known_is_looked_up_again(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    """A person who settles a step, and a recovery, are told what the Gateway shows by now."""
    gateway.fault("post", "after_drop")
    gateway.fault("list", "pass", 503, 503, 503)
    async with kit(tmp_path, gateway, completions) as host:
        view = host.runs.admit(ask(), OWNER)
        assert (await host.runs.observe(view.run_id, OWNER)).status is AgentRunStatus.UNKNOWN
        gateway.fault("list", 404)
        missing = await host.runs.look_up("wr_1/a/1", OWNER)
        assert missing is not None and missing.status is AgentRunStatus.UNKNOWN
        found = await host.runs.look_up("wr_1/a/1", OWNER)
        assert found is not None and (found.status, found.output) == (AgentRunStatus.SUCCESS, 1)
        assert found.evidence == view.evidence and found.badge == "live"
        assert host.runs.find("wr_1/a/1", OWNER) == missing, "the record keeps what was known"
        assert await host.runs.look_up("wr_1/a/1", "os:1") is None
    assert len(gateway.posts) == 1


async def test_a_new_admission_of_a_step_ends_the_record_of_the_one_that_did_not_run(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    gateway.held = True
    before = RemoteKit(tmp_path, gateway, completions)
    view = before.runs.admit(ask(), OWNER)
    await eventually(lambda: len(gateway.runs) == 1)
    await before.end()
    async with kit(tmp_path, gateway, completions) as host:
        with pytest.raises(AgentRunRefused) as caught:
            host.runs.admit(ask("b", thread_id="wf_wr_1_a"), OWNER)
        assert caught.value.code == "thread_busy"
        again = host.runs.admit(ask(idempotency_key="wr_1/a/1/2"), OWNER)
        gateway.release()
        assert (await host.runs.observe(again.run_id, OWNER)).output == 1
        first = await host.runs.observe(view.run_id, OWNER)
        assert (first.status, first.error_code) == (AgentRunStatus.UNKNOWN, "superseded")
    assert len(gateway.posts) == 1


@pytest.mark.parametrize("restarted", [False, True])
async def test_an_interruption_is_what_the_gateway_says(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer, restarted: bool
) -> None:
    gateway.held = True
    first = RemoteKit(tmp_path, gateway, completions)
    view = first.runs.admit(ask(), OWNER)
    await eventually(lambda: len(gateway.runs) == 1)
    if restarted:
        await first.end()
        first = RemoteKit(tmp_path, gateway, completions)
    ended = await asyncio.wait_for(first.runs.interrupt(view.run_id, OWNER), 60)
    assert ended.status is AgentRunStatus.INTERRUPTED
    assert [run["status"] for run in gateway.runs.values()] == ["interrupted"]
    await first.close()


async def test_an_interruption_that_cannot_be_confirmed_leaves_the_child_active(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    gateway.held = True
    async with kit(tmp_path, gateway, completions) as host:
        view = host.runs.admit(ask(), OWNER)
        await eventually(lambda: len(gateway.runs) == 1)
        gateway.fault("cancel", *["drop"] * 1000)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(host.runs.interrupt(view.run_id, OWNER), 0.1)
        assert host.runs.live
        gateway.faults.clear()
        assert (await host.runs.observe(view.run_id, OWNER)).status is AgentRunStatus.INTERRUPTED


async def test_an_interruption_before_the_question_asks_nothing(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    async with kit(tmp_path, gateway, completions) as host:
        view = host.runs.admit(ask(), OWNER)
        assert (await host.runs.interrupt(view.run_id, OWNER)).status is AgentRunStatus.INTERRUPTED
    assert gateway.posts == []


async def test_a_child_of_another_backend_is_not_observed_with_its_settings(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    before = RemoteKit(tmp_path, gateway, completions)
    view = before.runs.admit(ask(), OWNER)
    await before.end()
    async with kit(tmp_path, gateway, completions) as host:
        host.configuration.current.agents["remote"] = AgentConfig(name="remote", backend="openai")  # type: ignore[index]
        with pytest.raises(AgentRunUncertain, match="has no longer the backend deerflow"):
            await host.runs.observe(view.run_id, OWNER)
        with pytest.raises(AgentRunRefused, match="has no longer the backend deerflow"):
            await host.runs.read_file(view.run_id, OWNER, "a", max_bytes=1)
    assert gateway.posts == []


async def test_a_completion_that_died_with_its_process_is_interrupted(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    completions.replies.append(completions.hang)
    before = RemoteKit(tmp_path, gateway, completions)
    view = before.runs.admit(ask(agent="writer"), OWNER)
    await eventually(lambda: len(completions.calls) == 1)
    await before.end()
    async with kit(tmp_path, gateway, completions) as host:
        final = await host.runs.observe(view.run_id, OWNER)
        assert (final.status, final.error_code) == (AgentRunStatus.INTERRUPTED, "host_gone")
    assert len(completions.calls) == 1


async def test_a_completion_without_an_answer_is_uncertain_in_words(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    completions.replies.append(DROP)
    async with kit(tmp_path, gateway, completions) as host:
        view = host.runs.admit(ask(agent="writer"), OWNER)
        final = await host.runs.observe(view.run_id, OWNER)
        assert (final.status, final.error_code) == (AgentRunStatus.UNKNOWN, "uncertain")
        assert final.error_message is not None and "charged" in final.error_message


async def test_a_missing_secret_refuses_before_anything_is_recorded(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WRITER_KEY")
    async with kit(tmp_path, gateway, completions) as host:
        with pytest.raises(AgentRunRefused, match="the environment variable WRITER_KEY is not set"):
            host.runs.admit(ask(agent="writer"), OWNER)
        assert host.store.read("SELECT count(*) FROM child_runs") == [(0,)]


async def test_files_of_a_remote_child(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    gateway.files["mnt/user-data/report.md"] = b"# Evidence"
    async with kit(tmp_path, gateway, completions) as host:
        view = host.runs.admit(ask(), OWNER)
        await host.runs.observe(view.run_id, OWNER)
        read = await host.runs.read_file(view.run_id, OWNER, "report.md", max_bytes=100)
        assert read == (b"# Evidence", "text/markdown")


def pinned(*entries: tuple[str, str, Any, Any]) -> dict[str, Any]:
    """Launch options on real Agents with pinned results: (step, agent, task, reply) each."""
    made = [
        {"step": step, "request": request_hash(agent, {"task": task}), "reply": reply}
        for step, agent, task, reply in entries
    ]
    return {"agents": "real", "stubs": made, "stubs_hash": canonical_hash(made)}


async def test_what_is_pinned_is_not_asked_again_and_the_rest_is(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    launch = pinned(("a", "remote", 1, "recorded"), ("w", "writer", 1, "recorded too"))
    async with kit(tmp_path, gateway, completions) as host:
        host.runs.check_options(launch)
        first = host.runs.admit(ask("a", launch=launch), OWNER)
        assert (first.status, first.output, first.badge) == (AgentRunStatus.SUCCESS, "recorded", "recorded")
        assert host.runs.admit(ask("w", "writer", launch=launch), OWNER).output == "recorded too"
        for step, agent, task in (("a2", "remote", 1), ("b", "remote", 2), ("c", "writer", 1)):
            view = host.runs.admit(ask(step, agent, task, launch=launch), OWNER)
            final = await host.runs.observe(view.run_id, OWNER)
            assert (final.output, final.badge) == (task, "live"), (
                "another step, task or agent is another request"
            )
        with pytest.raises(AgentRunRefused, match="lead_agent has only the stub backend"):
            host.runs.admit(ask("d", "lead_agent", launch=launch), OWNER)
    assert (len(gateway.posts), len(completions.calls)) == (2, 1)


async def test_only_pinned_results_may_stand_beside_real_agents(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    async with kit(tmp_path, gateway, completions) as host:
        for entries, words in (([{"reply": 1}], "needs the hash of its request"), ([{"rely": 1}], "rely")):
            launch = {"agents": "real", "stubs": entries, "stubs_hash": canonical_hash(entries)}
            with pytest.raises(AgentRunRefused, match=words):
                host.runs.check_options(launch)
        wrong = {**pinned(("a", "remote", 1, 2)), "stubs_hash": "0" * 64}
        with pytest.raises(AgentRunRefused, match="not the one that its hash names"):
            host.runs.check_options(wrong)


async def test_the_revision_covers_the_pinned_results(
    tmp_path: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    async with kit(tmp_path, gateway, completions) as host:
        revision = host.configuration.revision
        one, two = pinned(("a", "remote", 1, 1)), pinned(("a", "remote", 1, 2))
        assert len({revision(REAL), revision(one), revision(two)}) == 3
        assert revision(one) == revision({**one, "label": "another"})
