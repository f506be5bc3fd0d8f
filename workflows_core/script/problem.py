"""What the checks report: problems with a place, a sentence and, where one is safe, a fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from .source import Source, parse

Severity = Literal["error", "warning"]


class Edit(msgspec.Struct, frozen=True):
    """Replace the text from one position up to (not including) another. Lines and columns start at 1."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class Fix(msgspec.Struct, frozen=True):
    """A change of the script that removes one problem and changes nothing else. Edits do not overlap."""

    title: str
    edits: tuple[Edit, ...]


class Problem(msgspec.Struct, frozen=True):
    """One finding. ``rule`` is a key of RULES; columns count characters."""

    rule: str
    severity: Severity
    line: int
    column: int
    message: str
    fix: Fix | None = None


class RuleInfo(msgspec.Struct, frozen=True):
    """What a rule is for, in one line; some rules also report milder cases as warnings."""

    severity: Severity
    summary: str


RULES: Final[Mapping[str, RuleInfo]] = {
    "syntax": RuleInfo("error", "The engine cannot compile the script."),
    "not-text": RuleInfo("error", "The script holds half of a surrogate pair, which is not text."),
    "one-function-body": RuleInfo("error", "The script closes the function it runs in, or swallows its end."),
    "module-syntax": RuleInfo("error", "A script is a function body: no import, export or require."),
    "script-too-large": RuleInfo("error", "The script is over its limit of JSON bytes."),
    "args-too-large": RuleInfo("error", "The arguments are over their limit of JSON bytes."),
    "invalid-args": RuleInfo("error", "The arguments are not a JSON object."),
    "task-too-large": RuleInfo("error", "A task written in the script is over its limit of JSON bytes."),
    "duplicate-step": RuleInfo("error", "Two steps have the same stepId (a warning where only one can run)."),
    "invalid-step-id": RuleInfo("error", "A stepId is not 1 to 80 letters, digits, underscores or hyphens."),
    "unknown-agent": RuleInfo("error", "agentRef names no Agent of this workspace."),
    "call-shape": RuleInfo(
        "error", "A call of the script API misses a property, or has one it does not take."
    ),
    "parallel-functions": RuleInfo(
        "error", "parallel() takes functions that start the calls, not started calls."
    ),
    "wait-in-parallel": RuleInfo("error", "humanCheckpoint() or pause() would run beside other calls."),
    "unapproved-artifact": RuleInfo(
        "error", "artifacts: uses a version that is not approved on every path to it."
    ),
    "dropped-promise": RuleInfo(
        "warning", "A promise is neither awaited nor kept: of a started call, or one whose rejection is lost."
    ),
    "missing-await": RuleInfo("warning", "A property of a promise is read that only the awaited result has."),
    "loop-step": RuleInfo("warning", "A stepId inside a loop is the same in every round."),
    "unknown-step": RuleInfo("warning", "sourceStepId names no step, or not the one whose version is given."),
    "unknown-name": RuleInfo("warning", "The script uses a name that it does not have."),
    "frozen-args": RuleInfo("warning", "args is frozen; assigning to it fails."),
    "unreachable-code": RuleInfo("warning", "No path reaches this code."),
    "unreachable-checkpoint": RuleInfo("warning", "No path reaches this checkpoint or pause."),
    "last-pause": RuleInfo("warning", "A pause after the last agent() call holds nothing back."),
    "slow-regex": RuleInfo("warning", "A regular expression can take exponential time."),
    "too-many-calls": RuleInfo("warning", "The script has more agent() calls than a run admits."),
}


def apply_fix(script: str, fix: Fix) -> str:
    """The script with the edits of ``fix`` made. Positions outside the script are moved to its nearest end."""
    source = parse(script)
    data = script.encode("utf-8", "surrogatepass")
    spans = sorted(
        (
            (source.offset(edit.line, edit.column), source.offset(edit.end_line, edit.end_column), edit.text)
            for edit in fix.edits
        ),
        key=lambda span: span[:2],
        reverse=True,
    )
    for start, end, text in spans:
        data = data[:start] + text.encode("utf-8", "surrogatepass") + data[max(start, end) :]
    return data.decode("utf-8", "surrogatepass")


def make_fix(source: Source, title: str, changes: Iterable[tuple[int, int, str]]) -> Fix:
    """A fix from byte ranges of the script and their new text."""
    edits = []
    for start, end, text in changes:
        line, column = source.position(start)
        end_line, end_column = source.position(end)
        edits.append(Edit(line, column, end_line, end_column, text))
    return Fix(title, tuple(edits))
