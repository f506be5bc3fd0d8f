"""Rows of a run's evidence and receipts: what each Agent was assembled from and what changed since the assembly
before, and what people have decided and attested."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from workflows_core.model import Attestation, Decision, RunView, StepView

from ... import child_words, words
from ...child_runs import Assembled
from ...inert import cells, inert
from ...review import receipt_lines
from .json_rows import json_line, pretty
from .lines import Line, Span, wrap

_NAME: Final = 15


class _Row(NamedTuple):
    id: str
    shown: Line
    what: str = ""
    value: str = ""


class RecordRows:
    """Ready rows; copying any of them copies the whole record that it belongs to."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self._rows = rows
        self.width = max((cells(inert("".join(span.text for span in row.shown))) for row in rows), default=0)

    def __len__(self) -> int:
        return len(self._rows)

    def row_id(self, index: int) -> str:
        return self._rows[index].id

    def line(self, index: int, width: int) -> Line:
        return self._rows[index].shown

    def text(self, index: int) -> str:
        return "".join(span.text for span in self._rows[index].shown)

    def copied(self, index: int) -> tuple[str, str]:
        row = self._rows[index]
        return row.what, row.value


# Evidence


def evidence_of(view: RunView) -> list[StepView]:
    """The steps for which the host gave evidence, in the order of their requests."""
    return [step for step in view.steps if step.evidence]


def evidence_rows(
    view: RunView,
    compared: Mapping[str, Assembled] | None,
    opened: Collection[str],
    now: int,
    problem: str = "",
    *,
    unicode: bool = True,
) -> RecordRows:
    """Evidence by step: how it compares with the assembly before, and below an opened step its components.

    ``compared`` is None while that is being read; ``opened`` holds ids of steps (``row_id``); where there is one
    step only it is always open.
    """
    rows: list[_Row] = []
    if problem:
        rows += [_Row("problem", (Span(problem, "bad"),), "the problem", problem), _Row("after problem", ())]
    steps = evidence_of(view)
    for step in steps:
        value = dict(step.evidence or {})
        lines = pretty(value)
        what, whole = f"the evidence of {step.step_id}", "\n".join(lines)
        id = f"{step.step_id}@{step.attempt}"
        said = "  ".join(inert(part) for part in child_words.evidence_head(step))
        rows.append(_Row(id, (Span(inert(step.step_id), "strong"), Span(f"  {said}", "quiet")), what, whole))
        if compared is not None:
            told = child_words.compared(compared.get(step.step_id), step, view.run_id, now)
            rows += [
                _Row(f"{id}\nsaid {n}", (Span("  "), *_plain(line, unicode)), what, whole)
                for n, line in enumerate(told)
            ]
        if id in opened or len(steps) == 1:
            rows += [
                _Row(f"{id}\n{n}", (Span("    "), *json_line(line)), what, whole)
                for n, line in enumerate(lines)
            ]
        rows.append(_Row(f"{id}\nend", (), what, whole))
    return RecordRows(rows[:-1] if rows else rows)


def _plain(line: child_words.Told, unicode: bool) -> Line:
    """``line`` made inert, with its arrow in ASCII where that was asked for."""
    return [Span(inert(text) if unicode else inert(text).replace("→", "->"), tone) for text, tone in line]


# Receipts


def receipt_count(view: RunView, attestations: Sequence[Attestation]) -> int:
    """How many decisions and attestations a run has."""
    return len(view.receipts) + len(attestations)


def receipt_rows(view: RunView, attestations: Sequence[Attestation], now: int, width: int) -> RecordRows:
    """Decisions and attestations in the order in which they were made."""
    made: list[tuple[int, str, list[tuple[str, str]], str]] = [
        (receipt.decided_at, _decided(receipt), receipt_lines(receipt, now), _tone(receipt.decision))
        for receipt in view.receipts
    ]
    made += [
        (
            attestation.attested_at,
            f"{inert(attestation.step_id)}  attested: it {words.OUTCOMES.get(attestation.outcome, attestation.outcome)}",
            attestation_lines(attestation, now),
            "waiting",
        )
        for attestation in attestations
    ]
    rows: list[_Row] = []
    room = max(20, width - _NAME - 2)
    for number, (_at, title, lines, tone) in enumerate(sorted(made, key=lambda each: each[0])):
        whole = "\n".join(f"{name}: {value}" for name, value in lines)
        rows.append(_Row(f"{number}", (Span(title, tone or "strong"),), "the receipt", whole))
        for name, value in lines:
            for part, text in enumerate(wrap(value, room)):
                label = name if not part else ""
                shown = (Span(f"  {label:<{_NAME}}", "quiet"), Span(text))
                rows.append(_Row(f"{number}\n{name}\n{part}", shown, "the receipt", whole))
        rows.append(_Row(f"{number}\nend", (), "the receipt", whole))
    return RecordRows(rows[:-1] if rows else rows)


def _decided(receipt: Decision) -> str:
    return f"{inert(receipt.step_id)}  {words.DECIDED.get(receipt.decision, inert(receipt.decision))}"


def _tone(decision: str) -> str:
    return {"approve": "good", "reject": "bad"}.get(decision, "strong")


def attestation_lines(attestation: Attestation, now: int) -> list[tuple[str, str]]:
    """An attestation as names and values. The text is inert."""
    actor: Mapping[str, Any] = attestation.actor
    lines = [
        ("outcome", words.OUTCOMES.get(attestation.outcome, attestation.outcome)),
        ("step", f"{attestation.step_id}, attempt {attestation.attempt}"),
        ("run", attestation.run_id),
        ("when", f"{words.absolute(attestation.attested_at)}, {words.ago(attestation.attested_at, now)}"),
        ("who", str(actor.get("user_id", "unknown"))),
        ("session", str(actor.get("description") or actor.get("session_id") or "unknown")),
        ("mode", str(actor.get("mode", "unknown"))),
        ("reason", attestation.reason),
        ("statement", attestation.statement_hash),
        ("what was known", attestation.evidence_hash),
        (
            "effect",
            "it settles the step" if attestation.settles else "kept on record; it does not settle the step",
        ),
    ]
    return [(name, inert(value)) for name, value in lines]
