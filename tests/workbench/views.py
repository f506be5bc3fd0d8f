"""Views of runs and steps for tests, with everything filled in."""

from typing import Any

import msgspec

from workflows_core.limits import Limits
from workflows_core.model import RunState, RunSummary, RunView, StepKind, StepStatus, StepView

AT = 1_700_000_000_000_000


def run_view(**changes: Any) -> RunView:
    fields: dict[str, Any] = {
        "run_id": "wr_0123456789abcdef",
        "name": "checks",
        "owner": "os:1000",
        "state": RunState.COMPLETED,
        "cause": None,
        "waiting": None,
        "result": None,
        "has_result": False,
        "script_hash": "a" * 64,
        "args_hash": "b" * 64,
        "request_id": "req_1",
        "parent_run_id": None,
        "created_at": AT,
        "since": AT,
        "last_progress": AT,
        "cancel_requested": False,
        "revision": 1,
        "steps": (),
        "log": (),
        "frames": (),
        "script": "return 1;",
        "args": {},
        "agents": ("lead_agent",),
        "options": {"agents": "stub", "stubs": [], "stubs_hash": "", "label": "no stub set"},
        "limits": Limits(),
    }
    return RunView(**(fields | changes))


def summary_of(view: RunView) -> RunSummary:
    return RunSummary(**{name: getattr(view, name) for name in RunSummary.__struct_fields__})


def agent_step(step_id: str, **changes: Any) -> StepView:
    fields: dict[str, Any] = {
        "step_id": step_id,
        "kind": StepKind.AGENT,
        "attempt": 1,
        "status": StepStatus.COMPLETED,
        "agent_ref": "lead_agent",
        "badge": "stub",
        "thread_id": "th_1",
        "child_run_id": "cr_1",
        "artifact_version": "av_1",
        "line": 5,
        "column": 24,
        "requested_at": AT,
        "started_at": AT,
        "finished_at": AT + 400_000,
        "input": {"ask": "something"},
        "output": None,
        "has_output": "output" in changes,
    }
    return StepView(**(fields | changes))


def with_state(view: RunView, state: RunState, **changes: Any) -> RunView:
    return msgspec.structs.replace(view, state=state, **changes)
