"""The JSON documents that commands print: one place for their keys.

Every function returns plain JSON values. Keys are snake_case, lines and columns start at 1, times are ISO 8601
UTC with microseconds. ``dumps`` writes ASCII only, so that no text inside can act on a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from workflows_core import jsontext
from workflows_core.model import (
    Attestation,
    Cause,
    Decision,
    LogLine,
    RunSummary,
    RunView,
    StepKind,
    StepView,
    Wait,
    iso,
)

_LISTED_RESULT: Final = 1_000
_LISTED_MESSAGE: Final = 500


def dumps(document: Mapping[str, Any]) -> str:
    """One JSON document as ASCII text, with a line feed at its end."""
    return json.dumps(document, ensure_ascii=True, allow_nan=False, indent=2) + "\n"


def run_document(run: RunView) -> dict[str, Any]:
    """A run with its steps, in the order of their requests, and its log."""
    return {
        **run_head(run),
        "steps": [step_head(step) for step in run.steps],
        "log": [log_entry(line) for line in run.log],
    }


def run_head(run: RunView | RunSummary) -> dict[str, Any]:
    """A run document without steps and log, as ``runs`` lists it."""
    return {
        "run_id": run.run_id,
        "name": run.name,
        "state": run.state.value,
        "cause": cause(run.cause),
        "waiting": waiting(run.waiting),
        "result": run.result if run.has_result else None,
        "script_hash": run.script_hash,
        "args_hash": run.args_hash,
        "request_id": run.request_id,
        "parent_run_id": run.parent_run_id,
    }


def run_in_list(run: RunSummary) -> dict[str, Any]:
    """A run document's head for a list of bounded size.

    A result over 1,000 bytes of JSON is null there and a cause's message over 500 characters is cut; ``left_out``
    names what was: ``result``, ``cause.message``.
    """
    head, left_out = run_head(run), []
    if jsontext.size(head["result"], "the result") > _LISTED_RESULT:
        head["result"] = None
        left_out.append("result")
    if run.cause is not None and len(run.cause.message) > _LISTED_MESSAGE:
        head["cause"] = {**head["cause"], "message": run.cause.message[:_LISTED_MESSAGE] + "…"}
        left_out.append("cause.message")
    return {**head, "left_out": left_out}


def runs_document(runs: Iterable[RunSummary]) -> dict[str, Any]:
    return {"runs": [run_head(run) for run in runs]}


def step_head(step: StepView) -> dict[str, Any]:
    """A step as it stands in a run document, without input and output."""
    return {
        "step_id": step.step_id,
        "kind": step.kind.value,
        "attempt": step.attempt,
        "status": step.status.value,
        "agent_ref": step.agent_ref,
        "badge": step.badge,
        "thread_id": step.thread_id,
        "child_run_id": step.child_run_id,
        "artifact_version": step.artifact_version,
        "line": step.line,
        "column": step.column,
        "started_at": iso(step.started_at),
        "finished_at": iso(step.finished_at),
    }


def step_document(step: StepView) -> dict[str, Any]:
    """One step with what went in and what came out; a capture with type, size and hash of its bytes."""
    document = {
        **step_head(step),
        "input": step.input,
        "output": step.output if step.has_output else None,
        "error": cause(step.error),
    }
    if step.kind is StepKind.CAPTURE:
        captured = step.output if isinstance(step.output, Mapping) else {}
        document |= {
            "media_type": captured.get("mediaType"),
            "size": captured.get("size"),
            "sha256": captured.get("sha256"),
            "late": step.late,
        }
    return document


def log_document(run: RunView) -> dict[str, Any]:
    return {"run_id": run.run_id, "log": [log_entry(line) for line in run.log]}


def log_entry(line: LogLine) -> dict[str, Any]:
    return {"at": iso(line.at), "message": line.message, "line": line.line, "column": line.column}


def cause(value: Cause | None) -> dict[str, Any] | None:
    return None if value is None else {"code": value.code, "message": value.message}


def waiting(value: Wait | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {
        "kind": value.kind,
        "step_id": value.step_id,
        "attempt": value.attempt,
        "expires_at": iso(value.expires_at),
    }


def receipt_document(decision: Decision) -> dict[str, Any]:
    """A decision's receipt: who, in which session, about which bytes, how they were shown."""
    return {
        "run_id": decision.run_id,
        "step_id": decision.step_id,
        "attempt": decision.attempt,
        "decision": decision.decision,
        "sha256": decision.sha256,
        "reason": decision.reason,
        "actor": dict(decision.actor),
        "review": dict(decision.review),
        "decided_at": iso(decision.decided_at),
    }


def attestation_document(attestation: Attestation) -> dict[str, Any]:
    """What a person attested of a step; ``settles`` is false where a second reviewer is still needed."""
    return {
        "run_id": attestation.run_id,
        "step_id": attestation.step_id,
        "attempt": attestation.attempt,
        "outcome": attestation.outcome,
        "reason": attestation.reason,
        "evidence_hash": attestation.evidence_hash,
        "actor": dict(attestation.actor),
        "settles": attestation.settles,
        "attested_at": iso(attestation.attested_at),
    }


def error_document(code: str, title: str, message: str) -> dict[str, Any]:
    """What a command with ``--json`` prints instead of its document when it cannot do its work."""
    return {"error": {"code": code, "title": title, "message": message}}
