"""The execution budget does not run while a run does nothing but wait for people to type an Agent's answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from extension_api.agent_runs import AgentRunRequest, AgentRunView
from workflows_core.engine.service import WorkflowService
from workflows_core.model import RunRecord, RunState

from .fakes import FakeRuns, request, service, settle

ONE = "return (await agent({stepId: 'a', agentRef: 'person', task: 1})).output;"
THREE = """\
const all = await parallel(['a', 'b', 'c'].map(id => () => agent({stepId: id, agentRef: 'person', task: id})));
return all.map(one => one.output);
"""
MIXED = """\
const all = await parallel([
  () => agent({stepId: 'a', agentRef: 'person', task: 1}),
  () => agent({stepId: 'b', agentRef: 'lead_agent', task: 2}),
]);
return all.map(one => one.output);
"""
AGENTS = ["lead_agent", "person"]


class People(FakeRuns):
    """Calls of ``person`` wait until ``answered``, calls of others until ``ready``."""

    def __init__(self) -> None:
        super().__init__(self._wait)
        self.answered, self.ready = asyncio.Event(), asyncio.Event()

    @staticmethod
    async def _wait(runs: Any, asked: AgentRunRequest) -> Any:
        await (runs.answered if asked.agent_ref == "person" else runs.ready).wait()
        return asked.input["task"]

    async def admit(self, request: AgentRunRequest) -> AgentRunView:
        view = await super().admit(request)
        if request.agent_ref == "person":
            view = self.views[view.run_id] = replace(view, badge="manual")
        return view


async def counting(engine: WorkflowService, run_id: str, runs: People, counts: bool) -> RunRecord:
    """The record, once its budget runs, or once it does not."""
    async with asyncio.timeout(60):
        while True:
            record = engine.store.load(run_id)
            assert record is not None and not record.state.final, record
            if runs.admitted and (record.active_since is not None) is counts:
                return record
            await asyncio.sleep(0.005)


async def test_waiting_for_people_takes_nothing_of_the_budget(tmp_path: Path) -> None:
    runs = People()
    async with service(tmp_path, runs, agents=AGENTS, timeout_seconds=3) as engine:
        launched = await engine.launch(request(ONE), runs)
        record = await counting(engine, launched.run_id, runs, False)
        assert (record.state, record.cause) == (RunState.RUNNING, None)
        await asyncio.sleep(3.2)
        runs.answered.set()
        view = await settle(engine, launched.run_id, runs)
        assert (view.state, view.result) == (RunState.COMPLETED, 1)
        after = engine.store.load(launched.run_id)
        assert after is not None and record.used <= after.used < 3_000_000


async def test_calls_that_wait_behind_people_take_nothing_either(tmp_path: Path) -> None:
    runs = People()
    async with service(tmp_path, runs, agents=AGENTS, concurrency=2) as engine:
        launched = await engine.launch(request(THREE), runs)
        await counting(engine, launched.run_id, runs, False)
        assert len(runs.admitted) == 2
        runs.answered.set()
        assert (await settle(engine, launched.run_id, runs)).result == ["a", "b", "c"]


async def test_the_budget_runs_while_anything_else_goes_on(tmp_path: Path) -> None:
    runs = People()
    async with service(tmp_path, runs, agents=AGENTS, timeout_seconds=1) as engine:
        launched = await engine.launch(request(MIXED), runs)
        view = await settle(engine, launched.run_id, runs)
        assert view.state is RunState.FAILED and view.cause is not None
        assert view.cause.code == "deadline"
        assert runs.alive() == []


async def test_the_budget_stops_with_the_last_other_call_and_runs_on_with_the_first_answer(
    tmp_path: Path,
) -> None:
    runs = People()
    script = MIXED.replace(
        "return all", "await agent({stepId: 'c', agentRef: 'lead_agent', task: 3});\nreturn all"
    )
    async with service(tmp_path, runs, agents=AGENTS) as engine:
        launched = await engine.launch(request(script), runs)
        await counting(engine, launched.run_id, runs, True)
        runs.ready.set()
        stopped = await counting(engine, launched.run_id, runs, False)
        assert stopped.used > 0
        runs.ready.clear()
        runs.answered.set()
        await counting(engine, launched.run_id, runs, True)
        runs.ready.set()
        assert (await settle(engine, launched.run_id, runs)).result == [1, 2]


async def test_a_cancel_reaches_a_run_whose_budget_stands_still(tmp_path: Path) -> None:
    runs = People()
    async with service(tmp_path, runs, agents=AGENTS) as engine:
        launched = await engine.launch(request(ONE), runs)
        await counting(engine, launched.run_id, runs, False)
        await engine.cancel(launched.run_id, runs)
        assert (await settle(engine, launched.run_id, runs)).state is RunState.CANCELLED
        assert runs.alive() == []
