"""Runs to compare, to watch and to look into, for the tests of the Runs screen."""

from __future__ import annotations

import json
from typing import Any

from tests.workbench.tui.fakes import NOW, SECOND, completed_run, make_step
from workbench.child_runs import Assembled, ChildEvent, ChildRun
from workbench.hostview_assembly import CHANGED, NOT_COMPARABLE, ONLY, SAME, Change
from workflows_core.model import Attestation, Cause, RunState, RunView, StepStatus

FIRST, SECOND_RUN = "wr_00000000000000a1", "wr_00000000000000e5"


def forked(run_id: str = SECOND_RUN, **changes: Any) -> RunView:
    """A later run than ``completed_run``: one step equal, one with another output, one that failed, one more."""
    fields: dict[str, Any] = {
        "parent_run_id": FIRST,
        "created_at": NOW - 30 * SECOND,
        "since": NOW - 21 * SECOND,
        "last_progress": NOW - 21 * SECOND,
        "state": RunState.FAILED,
        "cause": Cause("agent_failed", "formula failed: the stub set has no reply left", 4, 9),
        "args": {"product": "Synthetic soap, unscented"},
        "result": None,
        "has_result": False,
        "steps": (
            make_step("evidence", requested=30, started=29.9, finished=27),
            make_step(
                "claims",
                requested=27,
                started=26.9,
                finished=22.5,
                line=3,
                column=9,
                request_frame=3,
                output={"verdict": "fail", "findings": ["no source for claim 2", "claim 4 is vague"]},
                badge="recorded",
            ),
            make_step(
                "formula",
                StepStatus.FAILED,
                requested=27,
                started=25.8,
                finished=21.2,
                line=4,
                column=9,
                request_frame=3,
                error=Cause("agent_failed", "the stub set has no reply left"),
            ),
            make_step("second-opinion", StepStatus.INTERRUPTED, requested=22, started=22, line=7, column=3),
        ),
    }
    return completed_run(run_id, **(fields | changes))


EVIDENCE = {
    "fingerprint": "3f9a2c1d",
    "components": {"model": "a1", "prompt": "b2", "tool:search": "c3"},
    "numbers": {"temperature": 0.2},
}


def assembled_run(run_id: str = FIRST) -> RunView:
    """A run whose four steps have evidence: the first assembly, the same, changed, not comparable."""
    names = ("evidence", "claims", "formula", "summary")
    steps = tuple(
        make_step(name, requested=60 - n, started=60 - n, finished=55 - n, evidence=EVIDENCE)
        for n, name in enumerate(names)
    )
    return completed_run(run_id, steps=steps)


ASSEMBLED = {
    "evidence": Assembled(ONLY),
    "claims": Assembled(SAME, (), FIRST, "evidence", NOW - 60 * SECOND),
    "formula": Assembled(
        CHANGED,
        (
            Change("parameter:temperature", "changed", "0.2 → 0.7"),
            Change("prompt", "changed"),
            Change("tool:search", "added"),
        ),
        "wr_00000000000000ff",
        "formula",
        NOW - 7_200 * SECOND,
    ),
    "summary": Assembled(NOT_COMPARABLE, (), "wr_00000000000000ff", "summary", NOW - 90_000 * SECOND),
}


def attestation(run_id: str = FIRST, **changes: Any) -> Attestation:
    """A person states that ``claims`` did not run."""
    fields: dict[str, Any] = {
        "run_id": run_id,
        "step_id": "claims",
        "attempt": 1,
        "outcome": "did_not_run",
        "reason": "The Gateway's log shows no request of that thread.",
        "statement_hash": "5" * 64,
        "evidence_hash": "e" * 64,
        "actor": {
            "user_id": "os:1000",
            "session_id": "s1",
            "mode": "terminal",
            "description": "terminal, uid 1000, pts/3, not password-verified",
        },
        "settles": True,
        "attested_at": NOW - 100 * SECOND,
    }
    return Attestation(**(fields | changes))


def child(run_id: str, **changes: Any) -> ChildRun:
    """A stub child with its four events."""
    start = NOW - 60 * SECOND
    task, answer = {"product": "Synthetic soap"}, {"verdict": "pass", "notes": ["all claims have a source"]}
    fields: dict[str, Any] = {
        "run_id": run_id,
        "thread_id": "wf-evidence",
        "agent": "lead_agent",
        "workflow_run": FIRST,
        "step_id": "evidence",
        "attempt": 1,
        "backend": "stub",
        "badge": "stub",
        "durable": True,
        "status": "success",
        "created_at": start,
        "updated_at": start + 2 * SECOND,
        "events": (
            ChildEvent(1, "run_start", "lifecycle", None, '{"attempt":1,"step_id":"evidence"}', start),
            ChildEvent(2, "human_message", "message", json.dumps(task), "{}", start + 2_000),
            ChildEvent(3, "ai_message", "message", json.dumps(answer), "{}", start + 2 * SECOND),
            ChildEvent(4, "run_end", "lifecycle", None, '{"status":"success"}', start + 2 * SECOND),
        ),
    }
    return ChildRun(**(fields | changes))
