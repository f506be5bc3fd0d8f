"""A run, a step and a list of runs for people to read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from workbench import words
from workflows_core.model import Attestation, Decision, LogLine, RunSummary, RunView, StepKind, StepView, Wait

from .output import Output, Piece


def run(output: Output, view: RunView, at: int) -> None:
    """One run: its state with cause and since when, its steps, log and result."""
    run_head(output, view, at)
    identity = [f"script {words.hash7(view.script_hash)}", f"arguments {words.hash7(view.args_hash)}"]
    output.line((f"{'; '.join(identity)}; request {view.request_id}", "quiet"))
    if view.definition is not None:
        name, _, version = view.definition.rpartition("@")
        output.line((f"saved version {name}@{words.hash7(version)}", "quiet"))
    if view.parent_run_id is not None:
        output.line((f"forked from {view.parent_run_id}", "quiet"))
    if view.steps:
        _title(output, words.count(len(view.steps), "step"))
        steps(output, view.steps, at, view.waiting)
    if view.receipts:
        _title(output, words.count(len(view.receipts), "receipt"))
        for made in view.receipts:
            output.line(f"  {made.step_id} ", words.receipt(made, at))
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


def what_next(output: Output, view: RunView) -> None:
    """The command by which a person lets the run go on, where it is one's turn."""
    command = words.next_command(view)
    if command is not None:
        output.line(("Next: ", "quiet"), command)


def steps(output: Output, views: Sequence[StepView], at: int, wait: Wait | None = None) -> None:
    """One line a step. ``wait`` is what the run waits for, so that its step tells the deadline."""
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
                (step.error.message, "bad") if step.error is not None else (_about(step, wait, at), "quiet"),
            ]
        )
    output.table(rows, indent="  ", right=(4,))


def _about(step: StepView, wait: Wait | None, at: int) -> str:
    """What is particular to a step: the file of a capture, the version of a checkpoint, a wait's deadline."""
    parts: list[str] = []
    given = step.input if isinstance(step.input, dict) else {}
    made = step.output if isinstance(step.output, dict) else {}
    if step.kind is StepKind.CAPTURE:
        parts.append(str(given.get("path", "")))
        if isinstance(made.get("size"), int):
            parts.append(f"{words.kib(made['size'])} of {made.get('mediaType')}")
    if step.kind in (StepKind.CAPTURE, StepKind.CHECKPOINT) and step.artifact_version:
        of = f" of {given.get('sourceStepId')}" if step.kind is StepKind.CHECKPOINT else ""
        parts.append(f"version {words.hash7(step.artifact_version)}{of}")
    if wait is not None and (wait.step_id, wait.attempt) == (step.step_id, step.attempt):
        parts.append(words.deadline(wait, at))
    return ", ".join(part for part in parts if part)


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


def step(
    output: Output,
    view: StepView,
    at: int,
    receipt: Decision | None = None,
    attested: Sequence[Attestation] = (),
) -> None:
    """One step with its identities, input and output, the receipt of the decision about it, and what was attested."""
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
        [("captured", "quiet"), "after a recovery, later than the script asked for it" if view.late else ""],
        [("script", "quiet"), f"line {place}" if (place := words.place(view.line, view.column)) else ""],
        [("decided", "quiet"), words.receipt(receipt, at) if receipt is not None else ""],
        [("finished", "quiet"), words.absolute(view.finished_at) if view.finished_at is not None else ""],
    ]
    for item in attested:
        facts.append([("attested", "quiet"), words.attested(item, at)])
    output.table([row for row in facts if row[1]], indent="  ")
    if view.kind is StepKind.AGENT or view.input is not None:
        _title(output, "Input")
        value(output, view.input)
    if view.has_output:
        _title(output, "Output")
        value(output, view.output)


def runs(
    output: Output, summaries: Sequence[RunSummary], at: int, notes: Mapping[str, str] | None = None
) -> None:
    """One line a run. ``notes`` say what a running one waits for, by its id."""
    rows: list[list[Piece]] = []
    for summary in summaries:
        mark = words.run_mark(summary.state)
        note = words.because(summary) or (notes or {}).get(summary.run_id, "")
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


def value(output: Output, thing: Any, indent: str = "  ") -> None:
    """A JSON value: text as text, the rest as indented JSON."""
    if isinstance(thing, str):
        output.text(thing, indent)
    else:
        output.text(json.dumps(thing, ensure_ascii=False, indent=2), indent)


def _title(output: Output, text: str) -> None:
    output.line()
    output.line((text, "title"))
