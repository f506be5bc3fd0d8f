"""A run, a step, a list of runs and a list of problems for people to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from workbench import words
from workflows_core.model import LogLine, RunSummary, RunView, StepKind, StepView

from .output import Output, Piece

if TYPE_CHECKING:
    from workflows_core.script.check import Problem


def run(output: Output, view: RunView, at: int) -> None:
    """One run: its state with cause and since when, its steps, log and result."""
    run_head(output, view, at)
    identity = [f"script {words.hash7(view.script_hash)}", f"arguments {words.hash7(view.args_hash)}"]
    output.line((f"{'; '.join(identity)}; request {view.request_id}", "quiet"))
    if view.parent_run_id is not None:
        output.line((f"forked from {view.parent_run_id}", "quiet"))
    if view.steps:
        _title(output, words.count(len(view.steps), "step"))
        steps(output, view.steps, at)
    if view.log:
        _title(output, "Log")
        log(output, view.log)
    if view.has_result:
        _title(output, "Result")
        value(output, view.result)


def run_head(output: Output, view: RunView, at: int) -> None:
    mark = words.run_mark(view.state)
    glyph = mark.glyph if output.unicode else mark.ascii
    output.line((view.name, "title"), "  ", (view.run_id, "quiet"))
    output.line((f"{glyph} {words.condition(view, at)}", mark.tone))
    because = words.because(view)
    if because:
        output.line(f"  {because}")


def steps(output: Output, views: Sequence[StepView], at: int) -> None:
    rows: list[list[Piece]] = []
    for step in views:
        mark = words.step_mark(step)
        badge = step.badge if step.badge not in (None, "live") else ""
        rows.append(
            [
                (mark.text(unicode=output.unicode), mark.tone),
                step.step_id,
                step.agent_ref or step.kind.value,
                (badge or "", "quiet"),
                words.took(step, at),
                (f"line {step.line}" if step.line is not None else "", "quiet"),
                (step.error.message if step.error is not None else "", "bad"),
            ]
        )
    output.table(rows, indent="  ", right=(4,))


def log(output: Output, lines: Sequence[LogLine], indent: str = "  ") -> None:
    rows: list[list[Piece]] = [
        [
            (datetime.fromtimestamp(line.at / words.SECOND).astimezone().strftime("%H:%M:%S"), "quiet"),
            (f"line {line.line}" if line.line is not None else "", "quiet"),
            line.message,
        ]
        for line in lines
    ]
    output.table(rows, indent=indent)


def step(output: Output, view: StepView, at: int) -> None:
    """One step with its identities, input and output."""
    mark = words.step_mark(view)
    output.line((view.step_id, "title"), "  ", (f"{view.kind.value}, attempt {view.attempt}", "quiet"))
    took = words.took(view, at)
    output.line((mark.text(unicode=output.unicode), mark.tone), f" in {took}" if took else "")
    if view.error is not None:
        output.line(("  " + view.error.message, "bad"))
    facts: list[list[Piece]] = [
        [("agent", "quiet"), view.agent_ref or ""],
        [("answered by", "quiet"), view.badge or ""],
        [("child run", "quiet"), view.child_run_id or ""],
        [("thread", "quiet"), view.thread_id or ""],
        [("artifact", "quiet"), view.artifact_version or ""],
        [("script", "quiet"), f"line {place}" if (place := words.place(view.line, view.column)) else ""],
        [("finished", "quiet"), words.absolute(view.finished_at) if view.finished_at is not None else ""],
    ]
    output.table([row for row in facts if row[1]], indent="  ")
    if view.kind is StepKind.AGENT or view.input is not None:
        _title(output, "Input")
        value(output, view.input)
    if view.has_output:
        _title(output, "Output")
        value(output, view.output)


def runs(output: Output, summaries: Sequence[RunSummary], at: int) -> None:
    rows: list[list[Piece]] = []
    for summary in summaries:
        mark = words.run_mark(summary.state)
        note = words.because(summary)
        if summary.waiting is not None and not summary.state.final:
            deadline = words.deadline(summary.waiting, at)
            note = words.awaited(summary.waiting) + (f"; {deadline}" if deadline else "")
        rows.append(
            [
                (mark.text(unicode=output.unicode), mark.tone),
                summary.name,
                (summary.run_id, "quiet"),
                words.ago(summary.since, at),
                note,
            ]
        )
    output.table(rows)


def problems(output: Output, found: Sequence[Problem], file: str) -> None:
    """One line a problem: place, severity, sentence, rule; and below it the fix where there is one."""
    rows: list[list[Piece]] = []
    for problem in found:
        tone = "bad" if problem.severity == "error" else "waiting"
        rows.append(
            [f"{file}:{problem.line}:{problem.column}", (problem.severity, tone), (problem.rule, "quiet")]
        )
    for row, problem in zip(rows, found, strict=True):
        output.line(row[0], "  ", row[1], "  ", problem.message, "  ", row[2])
        if problem.fix is not None:
            output.line(("    fix: " + problem.fix.title, "quiet"))


def value(output: Output, thing: Any, indent: str = "  ") -> None:
    """A JSON value: text as text, the rest as indented JSON."""
    if isinstance(thing, str):
        output.text(thing, indent)
    else:
        output.text(json.dumps(thing, ensure_ascii=False, indent=2), indent)


def _title(output: Output, text: str) -> None:
    output.line()
    output.line((text, "title"))
