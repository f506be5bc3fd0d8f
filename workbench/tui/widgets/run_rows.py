"""Rows of a run's other tabs: its source with marks, its log, its journal, evidence and artifacts."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final

from workflows_core.model import FrameView, LogLine, RunState, RunView, StepKind, StepStatus, StepView

from ... import words
from ...inert import cells, inert
from .editor_document import EditorDocument
from .editor_highlight import Highlights, grammar
from .json_rows import json_line, pretty
from .lines import Line, Span, fit

#: Of several steps on one source line, the one whose status comes first here is shown.
_LOUDEST: Final = (
    StepStatus.UNCERTAIN,
    StepStatus.FAILED,
    StepStatus.REJECTED,
    StepStatus.EXPIRED,
    StepStatus.WAITING,
    StepStatus.RUNNING,
    StepStatus.INTERRUPTED,
    StepStatus.QUEUED,
    StepStatus.APPROVED,
    StepStatus.COMPLETED,
)


def loudest(steps: Sequence[StepView]) -> StepView:
    """The step that stands for all of one source line."""
    return min(steps, key=lambda step: _LOUDEST.index(step.status))


def by_line(steps: Sequence[StepView]) -> Mapping[int, list[StepView]]:
    """Steps by the source line (from 1) they were called on."""
    lines: dict[int, list[StepView]] = {}
    for step in steps:
        if step.line is not None:
            lines.setdefault(step.line, []).append(step)
    return lines


class SourceText:
    """A script's lines with their highlighting, made once for a run and line by line when it is drawn."""

    def __init__(self, script: str) -> None:
        of = grammar("javascript")
        self._document = EditorDocument(script, of.language)
        self._highlights = Highlights(self._document, of)
        self.lines = self._document.lines
        self.width = max(cells(inert(line.expandtabs(4))) for line in self.lines)

    def spans(self, row: int) -> list[Span]:
        """Row ``row`` (from 0) in tones ``code:NAME``; tabs are four spaces."""
        data = self.lines[row].encode("utf-8", "surrogatepass")
        tones = [""] * len(data)
        for start, end, name in self._highlights[row]:
            stop = len(data) if end is None else min(end, len(data))
            tones[start:stop] = [f"code:{name}"] * max(0, stop - start)
        spans: list[Span] = []
        begin = 0
        for index in range(1, len(data) + 1):
            if index == len(data) or tones[index] != tones[begin]:
                piece = data[begin:index].decode("utf-8", "surrogatepass")
                spans.append(Span(inert(piece.replace("\t", "    ")), tones[begin]))
                begin = index
        return spans


class SourceRows:
    """The script, a line a row; left the mark of what was called there, or that the run failed at ``fault``."""

    def __init__(
        self,
        source: SourceText,
        steps: Sequence[StepView],
        *,
        fault: int | None = None,
        unicode: bool = True,
    ) -> None:
        self._source = source
        self._steps = by_line(steps)
        self._fault = fault
        self._unicode = unicode
        self._digits = len(str(len(source.lines)))
        self._gutter = 2 + self._digits + 2
        self.width = self._gutter + source.width + 6

    def __len__(self) -> int:
        return len(self._source.lines)

    def row_id(self, index: int) -> str:
        return str(index + 1)

    def text(self, index: int) -> str:
        return self._source.lines[index]

    def copied(self, index: int) -> tuple[str, str]:
        return "the script", "\n".join(self._source.lines)

    def line(self, index: int, width: int) -> Line:
        steps = self._steps.get(index + 1, [])
        glyph, tone = " ", ""
        failed = index + 1 == self._fault
        if steps or failed:
            mark = words.run_mark(RunState.FAILED) if failed else words.step_mark(loudest(steps))
            glyph, tone = (mark.glyph if self._unicode else mark.ascii), mark.tone
        times = [Span(f"  {'×' if self._unicode else 'x'}{len(steps)}", "quiet")] if len(steps) > 1 else []
        return (
            Span(f"{glyph} ", tone),
            Span(f"{index + 1:>{self._digits}}  ", "quiet"),
            *self._source.spans(index),
            *times,
        )


class LogRows:
    """What the script logged: when after the start, where, what."""

    def __init__(self, log: Sequence[LogLine], start: int) -> None:
        self._log = log
        self._start = start
        self.width = 19 + max((cells(inert(entry.message)) for entry in log), default=0)

    def __len__(self) -> int:
        return len(self._log)

    def row_id(self, index: int) -> str:
        return str(index)

    def source_line(self, index: int) -> int | None:
        return self._log[index].line

    def text(self, index: int) -> str:
        return self._log[index].message

    def copied(self, index: int) -> tuple[str, str]:
        return "the message", self._log[index].message

    def line(self, index: int, width: int) -> Line:
        entry = self._log[index]
        return (
            Span(f"{words.after(entry.at - self._start):>9}  ", "quiet"),
            Span(f"{words.place(entry.line, entry.column):<7} ", "quiet"),
            Span(inert(entry.message)),
        )


_ARROWS: Final = {"start": ("·", "."), "request": ("→", ">"), "response": ("←", "<"), "end": ("■", "#")}


class JournalRows:
    """The frames, a line each; below an opened one its body. ``opened`` holds frame numbers.

    A closed journal computes nothing before it is drawn; an opened frame is parsed once.
    """

    def __init__(self, frames: Sequence[FrameView], opened: Collection[int], *, unicode: bool = True) -> None:
        self._frames = frames
        self._unicode = unicode
        self._bodies = {n: _body(frames[n].body) for n in sorted(opened) if 0 <= n < len(frames)}
        self._digits = len(str(max(0, len(frames) - 1)))

    def __len__(self) -> int:
        return len(self._frames) + sum(map(len, self._bodies.values()))

    def locate(self, index: int) -> tuple[int, int]:
        """The frame of a row and the line of its body, −1 for the frame itself."""
        for number, body in self._bodies.items():
            if index <= number:
                break
            if index <= number + len(body):
                return number, index - number - 1
            index -= len(body)
        return index, -1

    def row_id(self, index: int) -> str:
        frame, line = self.locate(index)
        return str(frame) if line < 0 else f"{frame}\n{line}"

    def text(self, index: int) -> str:
        number, line = self.locate(index) if self._bodies else (index, -1)
        frame = self._frames[number]
        return (
            self._bodies[number][line] if line >= 0 else f"{number} {frame.kind} {frame.summary} {frame.hash}"
        )

    def copied(self, index: int) -> tuple[str, str]:
        number = self.locate(index)[0]
        return f"frame {number}", self._frames[number].body

    def line(self, index: int, width: int) -> Line:
        number, line = self.locate(index)
        if line >= 0:
            return (Span(" " * (self._digits + 4)), *json_line(self._bodies[number][line]))
        frame = self._frames[number]
        arrow = _ARROWS.get(frame.kind, ("?", "?"))[0 if self._unicode else 1]
        since = frame.at - self._frames[number - 1].at if number else 0
        size = words.kib(len(frame.body.encode("utf-8", "surrogatepass")))
        right = [
            Span(f"{size:>11}", "quiet"),
            Span(f"  {words.hash7(frame.hash)}", "quiet"),
            Span(f"{words.after(since) if number else '':>10}", "quiet"),
        ]
        room = width - self._digits - 3 - 30
        if room < 16:
            right = right[2:]
            room = width - self._digits - 3 - 10
        return (
            Span(f"{number:>{self._digits}} ", "quiet"),
            Span(f"{arrow} ", "accent"),
            Span(fit(frame.summary if frame.kind != "start" else "start", max(1, room))),
            *right,
        )


class ArtifactRows:
    """The captured files, one a line: path, media type, size, hash, and the step whose file it is."""

    def __init__(self, captures: Sequence[StepView]) -> None:
        self._captures = captures
        self._cells = [_artifact(step) for step in captures]
        self._widths = [
            min(most, max((cells(inert(row[n])) for row in self._cells), default=0))
            for n, most in enumerate((40, 24, 12, 7, 40))
        ]
        self.width = sum(self._widths) + 2 * len(self._widths)

    def __len__(self) -> int:
        return len(self._captures)

    def row_id(self, index: int) -> str:
        step = self._captures[index]
        return f"{step.step_id}@{step.attempt}"

    def step(self, index: int) -> StepView:
        return self._captures[index]

    def text(self, index: int) -> str:
        return " ".join((*self._cells[index], self._captures[index].artifact_version or ""))

    def copied(self, index: int) -> tuple[str, str]:
        step = self._captures[index]
        return f"the hash of {step.step_id}", step.artifact_version or ""

    def line(self, index: int, width: int) -> Line:
        tones = ("strong", "quiet", "", "accent", "quiet")
        return [
            Span(fit(text, size, right=n == 2) + "  ", tones[n])
            for n, (text, size) in enumerate(zip(self._cells[index], self._widths, strict=True))
        ]


def _artifact(step: StepView) -> tuple[str, str, str, str, str]:
    given = step.input if isinstance(step.input, dict) else {}
    made = step.output if isinstance(step.output, dict) else {}
    size = made.get("size")
    return (
        str(given.get("path", step.step_id)),
        str(made.get("mediaType", "")),
        words.kib(size) if isinstance(size, int) and not isinstance(size, bool) else "",
        words.hash7(step.artifact_version or ""),
        f"of {given.get('sourceStepId', 'an unknown step')}",
    )


def captures_of(view: RunView) -> list[StepView]:
    """The steps that captured a file, in the order of their requests."""
    return [
        step for step in view.steps if step.kind is StepKind.CAPTURE and step.artifact_version is not None
    ]


@lru_cache(maxsize=128)
def _body(body: str) -> tuple[str, ...]:
    """A frame's body over lines; kept, because a live journal is shown anew with each change."""
    try:
        return tuple(pretty(json.loads(body)))
    except (ValueError, RecursionError):
        return tuple(body.split("\n"))
