"""Two reviewers of one uncertain step: they must agree, each may attest anew, and each new try is reviewed anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extension_api import ExtensionPrincipal
from workflows_core.engine.reconciliation import ReconcileRequest
from workflows_core.engine.service import WorkflowService
from workflows_core.errors import Conflict, NotPermitted
from workflows_core.model import RunState, RunView

from .fakes import FakeRuns, crash, request, service, settle

ONE = "return await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});"


async def breaks(asked: Any) -> None:
    raise ConnectionError


def attest(view: RunView, outcome: str) -> ReconcileRequest:
    return ReconcileRequest(run_id=view.run_id, step_id="a", outcome=outcome, reason="looked")


def first_of() -> FakeRuns:
    runs = FakeRuns(interactive=True, user_id="ada", mode="password")
    runs.before_admit = breaks
    return runs


def second_of(runs: FakeRuns, name: str = "bob") -> FakeRuns:
    other = runs.twin(user_id=name, interactive=True, mode="password")
    other.principal = ExtensionPrincipal(name, is_admin=True)
    return other


async def uncertain(engine: WorkflowService, runs: FakeRuns) -> RunView:
    launched = await engine.launch(request(ONE), runs)
    view = await settle(engine, launched.run_id, runs)
    assert view.state is RunState.NEEDS_RECONCILIATION
    return view


async def said(engine: WorkflowService, view: RunView, runs: FakeRuns) -> str:
    cause = (await engine.inspect(view.run_id, runs)).cause
    assert cause is not None and cause.code == "uncertain"
    return cause.message


async def test_two_reviewers_must_attest_the_same(tmp_path: Path) -> None:
    runs = first_of()
    async with service(tmp_path, runs, reviewers=2) as engine:
        view = await uncertain(engine, runs)
        second = second_of(runs)
        outcome = await engine.reconcile(attest(view, "did_not_run"), runs)
        assert outcome.status == "recorded"
        assert "ada attested did_not_run; a second reviewer must attest the same" in outcome.message
        assert "ada attested did_not_run; a second reviewer" in await said(engine, view, runs)
        with pytest.raises(Conflict, match="another person"):
            await engine.reconcile(attest(view, "did_not_run"), runs)
        assert (await engine.reconcile(attest(view, "did_not_run"), second)).status == "applied"
        assert (await engine.inspect(view.run_id, runs)).state is RunState.RECOVERABLE
        made = engine.store.attestations(view.run_id)
    assert [(item.actor["user_id"], item.settles) for item in made] == [("ada", False), ("bob", True)]


async def test_reviewers_who_disagree_may_come_to_agree(tmp_path: Path) -> None:
    runs = first_of()
    async with service(tmp_path, runs, reviewers=2) as engine:
        view = await uncertain(engine, runs)
        second = second_of(runs)
        await engine.reconcile(attest(view, "failed"), runs)
        outcome = await engine.reconcile(attest(view, "did_not_run"), second)
        assert outcome.status == "recorded", "a second reviewer who saw something else is heard"
        words = "ada attested failed, bob attested did_not_run; two reviewers must attest the same"
        assert words in outcome.message and words in await said(engine, view, runs)
        # The first one mistyped: the latest word of each counts, and so they agree.
        assert (await engine.reconcile(attest(view, "did_not_run"), runs)).status == "applied"
        made = engine.store.attestations(view.run_id)
    assert [(item.outcome, item.settles) for item in made] == [
        ("failed", False), ("did_not_run", False), ("did_not_run", True),
    ]  # fmt: skip


async def test_what_a_reviewer_took_back_confirms_nothing(tmp_path: Path) -> None:
    runs = first_of()
    async with service(tmp_path, runs, reviewers=2) as engine:
        view = await uncertain(engine, runs)
        for outcome in ("failed", "did_not_run"):
            assert (await engine.reconcile(attest(view, outcome), runs)).status == "recorded"
        second, third = second_of(runs), second_of(runs, "cleo")
        assert (await engine.reconcile(attest(view, "failed"), second)).status == "recorded"
        assert (await engine.reconcile(attest(view, "failed"), third)).status == "applied"


async def test_one_person_cannot_settle_the_next_try_by_what_was_said_of_the_first(tmp_path: Path) -> None:
    runs = first_of()
    async with service(tmp_path, runs, reviewers=2) as engine:
        view = await uncertain(engine, runs)
        second = second_of(runs)
        await engine.reconcile(attest(view, "did_not_run"), runs)
        await engine.reconcile(attest(view, "did_not_run"), second)
        await engine.recover(view.run_id, runs)
        view = await settle(engine, view.run_id, runs)
        assert view.state is RunState.NEEDS_RECONCILIATION, "the next try is uncertain as well"
        await crash(engine)
    async with service(tmp_path, runs, reviewers=2) as engine:
        assert (await engine.reconcile(attest(view, "did_not_run"), second)).status == "recorded"
        assert (await engine.reconcile(attest(view, "did_not_run"), runs)).status == "applied"


async def test_two_reviewers_cannot_exist_where_there_is_one_person(tmp_path: Path) -> None:
    runs = FakeRuns(interactive=True)
    runs.before_admit = breaks
    async with service(tmp_path, runs, reviewers=2) as engine:
        view = await uncertain(engine, runs)
        for refused in (
            engine.reconcile(attest(view, "failed"), runs),
            engine.evidence(view.run_id, "a", runs),
        ):
            with pytest.raises(NotPermitted, match=r"auth\.mode terminal knows one person"):
                await refused
        assert engine.store.attestations(view.run_id) == []
