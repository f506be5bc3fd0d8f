"""The check in the calling thread finds what the check in an event loop finds."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from workflows_core.script.blocking import check_blocking
from workflows_core.script.check import Problem, check_script
from workflows_core.worker.compiling import Compiling
from workflows_core.worker.outcome import SyntaxProblem

SETTINGS: dict[str, Any] = {"agents": ["lead_agent"], "max_calls": 16}
ESCAPES = [
    "}); evil(); (async () => {",
    "}, async () => {",
    "return 1 /*",
    "\ud800",
    "// " + "x" * 16_000,
    "}" * 70_000,
]


@pytest.mark.parametrize(
    "script",
    [
        "return 1;",
        "return await agent({stepId: 'a', agentRef: 'nobody', task: 1});",
        "let a = 1;\nlet a = (2;",
        "x" * 2_000_000,
        *ESCAPES,
    ],
)
async def test_it_finds_what_the_event_loop_finds(script: str) -> None:
    found = check_blocking(script, **SETTINGS)
    assert found == await check_script(script, **SETTINGS)
    assert bool(found) is (script != "return 1;")


@pytest.mark.parametrize("script", ESCAPES)
def test_what_is_not_one_function_body_never_reaches_the_engine(
    script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[Compiling] = []
    monkeypatch.setattr(Compiling, "go", gone.append)
    assert check_blocking(script, **SETTINGS)
    assert gone == []


def test_the_engine_goes_on_while_the_rules_are_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    go, verdict = Compiling.go, Compiling.verdict

    def noted_go(self: Compiling) -> None:
        order.append("go")
        go(self)

    def noted_verdict(self: Compiling) -> SyntaxProblem | None:
        order.append("verdict")
        return verdict(self)

    def noted_rules(script: str, **settings: Any) -> list[Problem]:
        order.append("rules")
        return []

    monkeypatch.setattr(Compiling, "go", noted_go)
    monkeypatch.setattr(Compiling, "verdict", noted_verdict)
    monkeypatch.setattr("workflows_core.script.check.check_static", noted_rules)
    assert check_blocking("return 1;", **SETTINGS) == []
    assert order[:3] == ["go", "rules", "verdict"]


def test_an_engine_that_cannot_be_started_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    (problem,) = check_blocking("return 1;", **SETTINGS)
    assert (problem.rule, problem.severity) == ("syntax", "error")
    assert "could not be started" in problem.message
