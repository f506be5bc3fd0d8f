"""The steps of a run as a tree with a timeline: what ran side by side, how long it took, what came back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from workflows_core.model import Decision, RunView, StepKind, StepStatus, StepView

from ... import acts, words
from ...inert import cells, inert
from .json_rows import json_line, pretty
from .lines import Line, Span, fit

_DURATION: Final = 8
_PLACE: Final = 7
_LABEL: Final = 10
#: The agent is left out where the bar would have fewer cells.
_BAR: Final = 12
#: Below a call of a manual agent that waits.
_ASKED: Final = "a person must type its answer"


class _Row(NamedTuple):
    """A step, or one line of its details: ``label`` names them, ``value`` is copied, ``shown`` is drawn."""

    step: StepView
    guide: str
    label: str = ""
    value: str = ""
    shown: Line = ()
    number: int = 0


class StepRows:
    """A step a line; below an opened one its child run, task, output and receipt.

    Always below a step: its error, what was captured, and that a person must answer it or say what became of it.

    ``opened`` holds ids of steps (``row_id``). Steps of one round, which run side by side, are bracketed.
    """

    def __init__(
        self, view: RunView, now: int, opened: Collection[str] = (), *, unicode: bool = True
    ) -> None:
        self._view = view
        self._now = now
        self._unicode = unicode
        self._unsettled = {_id(step) for step in acts.unsettled(view)}
        self._asked = {_id(step) for step in words.awaiting_answer(view)}
        self._receipts = {(made.step_id, made.attempt): made for made in view.receipts}
        # Where everything is completed, the glyph and the times say so.
        worded = any(step.status is not StepStatus.COMPLETED for step in view.steps)
        self._word_width = max(len(self._mark(step).word) for step in view.steps) if worded else 0
        self._rows = list(self._flatten(opened))
        ends = [step.finished_at or self._end(step) for step in view.steps]
        self._from = min((step.requested_at or view.created_at for step in view.steps), default=0)
        self._to = max([self._from + 1, *ends])
        self._id_width = min(24, max((len(step.step_id) for step in view.steps), default=0))
        self._agent_width = min(16, max((len(step.agent_ref or step.kind) for step in view.steps), default=0))
        shown = (cells("".join(span.text for span in row.shown)) for row in self._rows if row.label)
        self.width = 6 + _LABEL + max(shown, default=-6 - _LABEL)
        self._badge_width = max((len(step.badge or "") for step in view.steps), default=0)

    def __len__(self) -> int:
        return len(self._rows)

    def row_id(self, index: int) -> str:
        row = self._rows[index]
        return _id(row.step) + (f"\n{row.label}\n{row.number}" if row.label else "")

    def step(self, index: int) -> StepView:
        """The step that the row is, or belongs to."""
        return self._rows[index].step

    def text(self, index: int) -> str:
        row = self._rows[index]
        step = row.step
        return f"{step.step_id} {self._mark(step).word} {step.agent_ref} {step.badge} {row.label} {row.value}"

    def copied(self, index: int) -> tuple[str, str]:
        row = self._rows[index]
        if row.label:
            return f"the {row.label} of {row.step.step_id}", row.value
        if row.step.has_output:
            return f"the output of {row.step.step_id}", _json(row.step.output)
        return "the stepId", row.step.step_id

    def line(self, index: int, width: int) -> Line:
        row = self._rows[index]
        return self._detail(row) if row.label else self._step(row, width)

    def _step(self, row: _Row, width: int) -> Line:
        step = row.step
        mark = self._mark(step)
        left = [
            Span(f"{row.guide} ", "quiet"),
            Span(f"{mark.glyph if self._unicode else mark.ascii} ", mark.tone),
            Span(fit(step.step_id, self._id_width), "strong"),
        ]
        used = 4 + self._id_width + _DURATION + _PLACE
        if self._word_width and width - used - self._word_width - 2 >= 0:
            left += [Span("  "), Span(fit(mark.word, self._word_width), mark.tone)]
            used += self._word_width + 2
        # Where there is little room, the badge is kept before the agent: a stub's answer never looks like another.
        badge = self._badge_width + 2 if self._badge_width else 0
        badge = badge if width - used - badge - 2 >= 0 else 0
        if self._agent_width and width - used - badge - self._agent_width - 2 >= _BAR:
            left += [Span("  "), Span(fit(step.agent_ref or step.kind.value, self._agent_width), "quiet")]
            used += self._agent_width + 2
        if badge:
            left += [Span("  "), Span(fit(step.badge or "", self._badge_width), "quiet")]
            used += badge
        room = width - used - 2
        return (
            *left,
            Span("  "),
            *self._bar(step, max(0, room), mark.tone),
            Span(f"{_short(words.took(step, self._end(step))):>{_DURATION}}"),
            Span(f"{words.place(step.line, step.column):>{_PLACE}}", "quiet"),
        )

    def _mark(self, step: StepView) -> words.Mark:
        """The mark of ``step``: one that has no end in a run that nobody runs was interrupted."""
        if step.status is StepStatus.RUNNING and not self._view.state.owned:
            return words.STEP_MARKS[StepStatus.INTERRUPTED]
        return words.step_mark(step)

    def _end(self, step: StepView) -> int:
        """Until when an unfinished step counts: now while the run is live, else the last that is known."""
        return self._now if self._view.state.owned else max(self._view.last_progress, step.started_at or 0)

    def _bar(self, step: StepView, width: int, tone: str) -> list[Span]:
        """Queued and running time on one scale for all steps."""
        if width < 4:
            return [Span(" " * width)]
        asked = step.requested_at if step.requested_at is not None else self._from
        end = step.finished_at if step.finished_at is not None else self._end(step)
        begin = step.started_at if step.started_at is not None else max(asked, end)
        first, middle, last = (self._cell(at, width) for at in (asked, begin, max(begin, end)))
        if step.started_at is not None:
            last = max(last, middle + 1)
            if last > width:
                middle, last = width - 1, width
            first = min(first, middle)
        queued, run = ("·", "━") if self._unicode else (".", "=")
        return [
            Span(" " * first),
            Span(queued * (middle - first), "quiet"),
            Span(run * (last - middle if step.started_at is not None else 0), tone),
            Span(" " * (width - (last if step.started_at is not None else middle))),
        ]

    def _cell(self, at: int, width: int) -> int:
        return max(0, min(width, round((at - self._from) * width / (self._to - self._from))))

    def _detail(self, row: _Row) -> Line:
        label = "" if row.number else row.label
        return (Span(f"{row.guide}     ", "quiet"), Span(f"{label:<{_LABEL}}", "quiet"), *row.shown)

    def _flatten(self, opened: Collection[str]) -> list[_Row]:
        rows: list[_Row] = []
        steps = self._view.steps
        for index, step in enumerate(steps):
            above = index > 0 and _same_round(steps[index - 1], step)
            below = index + 1 < len(steps) and _same_round(step, steps[index + 1])
            rows.append(_Row(step, self._guide(above, below)))
            under = ("│" if self._unicode else "|") if below else " "
            receipt = self._receipts.get((step.step_id, step.attempt))
            details = _details(step, _id(step) in opened, _id(step) in self._unsettled, receipt, self._now)
            if _id(step) in self._asked:
                line: Line = (Span(_ASKED, "waiting"),)
                rows.append(_Row(step, under, "waits", _ASKED, line))
            for label, value, lines in details:
                rows += [_Row(step, under, label, value, line, n) for n, line in enumerate(lines)]
        return rows

    def _guide(self, above: bool, below: bool) -> str:
        marks = {(False, False): "  ", (False, True): "┌/", (True, True): "├|", (True, False): "└\\"}
        return marks[above, below][0 if self._unicode else 1]


def _short(duration: str) -> str:
    """``duration`` in its first unit only, where both do not fit: ``23 h 57 min`` is ``23 h``."""
    return duration if len(duration) <= _DURATION else " ".join(duration.split()[:2])[:_DURATION]


def _same_round(one: StepView, other: StepView) -> bool:
    return one.request_frame is not None and one.request_frame == other.request_frame


def _id(step: StepView) -> str:
    return f"{step.step_id}@{step.attempt}"


def _details(
    step: StepView, opened: bool, unsettled: bool, receipt: Decision | None, now: int
) -> Iterator[tuple[str, str, Sequence[Line]]]:
    """Label, whole value and lines of each detail of ``step``."""
    if unsettled:
        text = "a person must say what became of it"
        yield "unsettled", text, [(Span(text, "bad"),)]
    if step.error is not None:
        text = f"{step.error.message} ({step.error.code})"
        yield "error", text, [(Span(inert(text), "bad"),)]
    if file := acts.words_of_capture(step):
        yield "file", file, [(Span(file),)]
    if receipt is not None and receipt.reason:
        yield "reason", receipt.reason, [(Span(inert(receipt.reason)),)]
    if not opened:
        return
    given = step.input if isinstance(step.input, dict) else {}
    refers = step.kind in (StepKind.CHECKPOINT, StepKind.CAPTURE)
    for label, known in (
        ("agent", step.agent_ref),
        ("child run", step.child_run_id),
        ("thread", step.thread_id),
        ("attempt", str(step.attempt) if step.attempt > 1 else None),
        ("admitted", f"again, {step.readmitted} times attested not to have run" if step.readmitted else None),
        ("of", str(given["sourceStepId"]) if refers and "sourceStepId" in given else None),
        ("version", step.artifact_version),
        *(_of_receipt(receipt, step, now) if receipt is not None else ()),
    ):
        if known is not None:
            yield label, known, [(Span(inert(known)),)]
    for label, value, present in (
        ("task", step.input, step.input is not None and not refers),
        ("output", step.output, step.has_output and step.kind is not StepKind.CAPTURE),
    ):
        if present:
            lines = pretty(value)
            yield label, "\n".join(lines), [json_line(line) for line in lines]


def _of_receipt(receipt: Decision, step: StepView, now: int) -> list[tuple[str, str | None]]:
    """A decision in lines: what and when, who in which session, which bytes, how they were shown."""
    actor, review = receipt.actor, receipt.review
    session = actor.get("description")
    how = words.coverage(review)
    renderer = review.get("renderer")
    return [
        (
            "decided",
            f"{words.DECIDED.get(receipt.decision, receipt.decision)} {words.ago(receipt.decided_at, now)}, "
            f"{words.absolute(receipt.decided_at)}",
        ),
        ("by", f"{actor.get('user_id', 'somebody')}" + (f" ({session})" if session else "")),
        ("bytes", receipt.sha256 if receipt.sha256 != step.artifact_version else None),
        ("shown", f"{how}, as {renderer}" if how and renderer else how or None),
    ]


def _json(value: Any) -> str:
    return "\n".join(pretty(value))
