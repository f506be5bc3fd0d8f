"""The JSON documents that commands print.

Those of runs and steps are the engine's own, so that its actions and the commands return the same keys. Here
are the ones that only commands have. Keys are snake_case, lines and columns start at 1, and ``dumps`` writes
ASCII only, so that no text inside can act on a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from workflows_core.document import (
    attestation_document,
    dumps,
    log_document,
    receipt_document,
    run_document,
    run_head,
    runs_document,
    step_document,
)

if TYPE_CHECKING:
    from workflows_core.script.check import Problem

__all__ = [
    "attestation_document",
    "dumps",
    "error_document",
    "log_document",
    "problems_document",
    "receipt_document",
    "run_document",
    "run_head",
    "runs_document",
    "step_document",
]


def problems_document(problems: Iterable[Problem]) -> dict[str, Any]:
    """What a check found, in the order of positions. ``fix`` is null where there is no safe one."""
    return {"problems": [_problem(problem) for problem in problems]}


def error_document(code: str, title: str, message: str) -> dict[str, Any]:
    """What a command with ``--json`` prints instead of its document when it cannot do its work."""
    return {"error": {"code": code, "title": title, "message": message}}


def _problem(problem: Problem) -> dict[str, Any]:
    fix = problem.fix
    return {
        "rule": problem.rule,
        "severity": problem.severity,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "fix": None if fix is None else {"title": fix.title, "edits": [_edit(edit) for edit in fix.edits]},
    }


def _edit(edit: Any) -> dict[str, Any]:
    return {
        "line": edit.line,
        "column": edit.column,
        "end_line": edit.end_line,
        "end_column": edit.end_column,
        "text": edit.text,
    }
