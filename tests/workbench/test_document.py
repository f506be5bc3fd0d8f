"""The JSON documents have exactly the documented keys."""

import json
from collections.abc import Mapping
from typing import Any

from tests.workbench.views import agent_step, run_view, summary_of
from workbench import document
from workflows_core.model import Cause, LogLine, RunState, StepKind, StepStatus, StepView, Wait

RUN_KEYS = [
    "run_id", "name", "state", "cause", "waiting", "result", "script_hash", "args_hash", "request_id",
    "parent_run_id",
]  # fmt: skip
STEP_KEYS = [
    "step_id", "kind", "attempt", "status", "agent_ref", "badge", "thread_id", "child_run_id",
    "artifact_version", "line", "column", "started_at", "finished_at",
]  # fmt: skip


def keys(value: Mapping[str, Any]) -> list[str]:
    return list(value)


def test_run_document() -> None:
    view = run_view(
        state=RunState.WAITING_APPROVAL,
        cause=Cause("pause", "it waits", line=3),
        waiting=Wait("checkpoint", "confirm", 1, 1_700_000_000_000_001),
        steps=(agent_step("evidence"),),
        log=(LogLine(1_700_000_000_000_000, "Two checks", 4, 1, 3),),
    )
    made = document.run_document(view)
    assert keys(made) == [*RUN_KEYS, "steps", "log"]
    assert made["state"] == "waiting_approval"
    assert made["cause"] == {"code": "pause", "message": "it waits"}
    assert made["waiting"] == {
        "kind": "checkpoint",
        "step_id": "confirm",
        "attempt": 1,
        "expires_at": "2023-11-14T22:13:20.000001Z",
    }
    assert keys(made["steps"][0]) == STEP_KEYS
    assert made["steps"][0]["kind"] == "agent"
    assert made["steps"][0]["started_at"] == "2023-11-14T22:13:20.000000Z"
    assert made["log"] == [
        {"at": "2023-11-14T22:13:20.000000Z", "message": "Two checks", "line": 4, "column": 1}
    ]


def test_nothing_is_null_and_a_result_that_is_null_is_null_too() -> None:
    made = document.run_document(run_view())
    assert made["cause"] is None
    assert made["waiting"] is None
    assert made["parent_run_id"] is None
    assert made["result"] is None


def test_runs_document_has_neither_steps_nor_log() -> None:
    made = document.runs_document([summary_of(run_view())])
    assert keys(made) == ["runs"]
    assert keys(made["runs"][0]) == RUN_KEYS


def test_step_document_adds_what_went_in_and_came_out() -> None:
    made = document.step_document(agent_step("evidence", output={"a": 1}))
    assert keys(made) == [*STEP_KEYS, "input", "output", "error"]
    assert made["input"] == {"ask": "something"}
    assert made["output"] == {"a": 1}
    failed = document.step_document(agent_step("evidence", error=Cause("agent_failed", "it fell over")))
    assert failed["error"] == {"code": "agent_failed", "message": "it fell over"}


def test_step_document_of_a_capture_tells_type_size_and_hash() -> None:
    captured = StepView(
        step_id="file",
        kind=StepKind.CAPTURE,
        attempt=1,
        status=StepStatus.COMPLETED,
        output={"artifactVersion": "av_1", "sha256": "ab", "size": 3, "mediaType": "text/markdown"},
        has_output=True,
    )
    made = document.step_document(captured)
    assert keys(made)[-4:] == ["media_type", "size", "sha256", "late"]
    assert (made["media_type"], made["size"], made["sha256"]) == ("text/markdown", 3, "ab")


def test_i13_a_document_is_ascii_and_parses_back() -> None:
    hostile = "\x1b]52;c;aGk=\x07\x9b31m\x7f\u202e\U000e0041ü\ud800"
    made = {"name": hostile}
    text = document.dumps(made)
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == made
