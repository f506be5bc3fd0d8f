"""Rows of the Replay screen's panes: frames, source with position and breakpoints, what is in sight, one frame."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workflows_core.journal.frames import FrameKind

from ... import words
from ...inert import cells, inert, shorten
from ...replaying import FrameLine, Opened, recovery_pieces, verdict_pieces
from ...travelling import Seen
from .json_rows import json_line, pretty
from .lines import Line, Span, fit, wrap
from .run_rows import SourceText

#: Lines of a value that is opened in place.
_OPENED_LINES: Final = 400
_ARROWS: Final = {FrameKind.REQUEST: ("→", ">"), FrameKind.RESPONSE: ("←", "<")}
#: What JSON cannot say, in words.
_WORDS: Final = {"unassigned": "not yet assigned", "missing": "nothing"}


class FrameRows:
    """A frame a row: number, direction, the steps, and the time since the frame before. Last, where it ends."""

    def __init__(self, opened: Opened, *, unicode: bool = True) -> None:
        self._frames = opened.frames
        self._ending = opened.ending
        found = opened.verdict.divergence
        self._differs = None if found is None else found.frame
        self._unicode = unicode
        self._digits = len(str(len(self._frames)))

    def __len__(self) -> int:
        return len(self._frames) + bool(self._ending)

    def row_id(self, index: int) -> str:
        return str(index) if index < len(self._frames) else "end"

    def text(self, index: int) -> str:
        """All of the frame, so that the filter searches what was asked and answered."""
        if index >= len(self._frames):
            return self._ending
        frame = self._frames[index]
        return f"{frame.kind.value} {' '.join(frame.labels)} {frame.raw}"

    def labels(self, index: int) -> Sequence[str]:
        """What the frame is called by: its steps or operations, else its kind."""
        frame = self._frames[index]
        return frame.labels if frame.kind in _ARROWS else (frame.kind.value,)

    def head(self, index: int, width: int) -> Line:
        """Number, direction and names of a frame in exactly ``width`` cells."""
        frame = self._frames[index]
        arrow = _ARROWS.get(frame.kind)
        number = f"{index:>{self._digits}} "
        sign = f"{arrow[0 if self._unicode else 1]} " if arrow else ""
        room = max(1, width - len(number) - len(sign))
        tone = "bad" if frame.failed else ""
        return (
            Span(number, "quiet"),
            Span(sign, "accent"),
            Span(fit("  ".join(self.labels(index)), room), tone),
        )

    def line(self, index: int, width: int) -> Line:
        if index >= len(self._frames):
            number = Span(f"{index:>{self._digits}} ", "quiet")
            return (number, Span(fit(f"  {self._ending}", width - cells(number.text)), "bad"))
        frame = self._frames[index]
        took = "" if frame.took is None else short_time(frame.took)
        differs = self._differs
        if index == differs:
            took = "differs"
        number, sign, names = self.head(index, width - len(took) - 1)
        if differs is not None and index >= differs:
            names = Span(names.text, "quiet" if index > differs else "bad")
        return (number, sign, names, Span(f" {took}", "bad" if index == differs else "quiet"))


def short_time(micros: int) -> str:
    """A span between frames: milliseconds below one second."""
    return f"{micros // 1000} ms" if micros < 1_000_000 else words.duration(micros)


class SourceRows:
    """The script, a line a row: a breakpoint or the position in front, then the number."""

    def __init__(
        self, source: SourceText, position: int | None, breakpoints: Collection[int], *, unicode: bool = True
    ) -> None:
        self._source = source
        self._position = position
        self._breakpoints = breakpoints
        self._digits = len(str(len(source.lines)))
        self._glyphs = ("●", "▶") if unicode else ("*", ">")
        self.width = self._digits + 5 + source.width

    def __len__(self) -> int:
        return len(self._source.lines)

    def row_id(self, index: int) -> str:
        return str(index + 1)

    def text(self, index: int) -> str:
        return self._source.lines[index]

    def copied(self, index: int) -> tuple[str, str]:
        return "the script", "\n".join(self._source.lines)

    def line(self, index: int, width: int) -> Line:
        here = index + 1 == self._position
        return (
            Span(self._glyphs[0] if index + 1 in self._breakpoints else " ", "accent"),
            Span(self._glyphs[1] if here else " ", "waiting"),
            Span(f"{index + 1:>{self._digits}}  ", "strong" if here else "quiet"),
            *self._source.spans(index),
        )


@dataclass(frozen=True, slots=True)
class Sight:
    """A row of what is in sight. ``key`` is unique; ``value`` is JSON where there is a value to open.

    ``expression`` is what gives the value, of a watch or a variable.
    """

    key: str
    spans: Line = ()
    value: Any = None
    has_value: bool = False
    watch: str | None = None
    expression: str | None = None


class SightRows:
    """Variables with their scopes, watches, and calls in flight. ``opened`` are the keys that show whole."""

    def __init__(self, rows: Sequence[Sight], opened: Collection[str]) -> None:
        self.rows: list[tuple[Sight, Line, str]] = []
        for row in rows:
            self.rows.append((row, row.spans, row.key))
            if row.key in opened and row.has_value:
                lines = pretty(row.value)
                for number, text in enumerate(lines[:_OPENED_LINES]):
                    self.rows.append((row, (Span("  "), *json_line(text)), f"{row.key}/{number}"))
                if len(lines) > _OPENED_LINES:
                    rest = words.count(len(lines) - _OPENED_LINES, "more line")
                    self.rows.append((row, (Span(f"  {rest}", "quiet"),), f"{row.key}/more"))
        self.width = max(
            (
                sum(cells(inert(span.text)) for span in line)
                for row, line, key in self.rows
                if not (row.has_value and key == row.key)
            ),
            default=0,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def row_id(self, index: int) -> str:
        return self.rows[index][2]

    def line(self, index: int, width: int) -> Line:
        """A value on one line ends in an ellipsis where it is longer than the pane: opened, it is shown whole."""
        row, line, key = self.rows[index]
        if key != row.key or not row.has_value or not line:
            return line
        *before, last = line
        room = width - sum(cells(inert(span.text)) for span in before)
        return (*before, Span(shorten(inert(last.text), max(1, room)), last.tone))

    def text(self, index: int) -> str:
        return "".join(span.text for span in self.rows[index][1])

    def copied(self, index: int) -> tuple[str, str] | None:
        row = self.rows[index][0]
        if not row.has_value:
            return None
        return (row.expression or "the value"), "\n".join(pretty(row.value))


def sight_rows(opened: Opened, seen: Seen, width: int, *, unicode: bool = True) -> list[Sight]:
    """What is in sight, in groups: limits and notes in lines of ``width`` cells, variables, watches, calls in flight."""
    moment = seen.moment
    rows: list[Sight] = []
    if moment.limit is not None:
        rows += _note("limit", f"Limit here: {moment.limit}", "bad", width)
    if moment.diverged is not None:
        rows.append(Sight("diverged", (Span("The replay stops agreeing here", "bad"),)))
    for number, note in enumerate(seen.notes):
        rows += _note(f"note:{number}", note, "waiting", width)
    if not moment.locals and seen.level == "statements" and moment.limit is None:
        rows.append(Sight("none", (Span("no variable is in sight here", "quiet"),)))
    scope = ""
    for number, local in enumerate(moment.locals):
        if local.scope != scope:
            scope = local.scope
            rows += _group(f"scope:{number}", scope, rows)
        rows.append(
            Sight(
                f"local:{number}:{local.name}",
                _valued(local.name, local.value),
                local.value,
                True,
                expression=local.name,
            )
        )
    if seen.watches:
        rows += _group("watch", "watch", rows)
        rows += [
            Sight(f"watch:{text}", _valued(text, value), value, True, watch=text, expression=text)
            for text, value in seen.watches
        ]
    if moment.pending:
        rows += _group("flight", "in flight", rows)
    for call in moment.pending:
        where = words.place(call.line, call.column)
        taken = _recorded(opened, call.call)
        arrow = _ARROWS[FrameKind.RESPONSE][0 if unicode else 1]
        told = Span(f"  {arrow} frame {taken}", "quiet") if taken is not None else Span("  no answer", "bad")
        rows.append(Sight(f"call:{call.call}", (Span(f"  {call.label}", "accent"), Span(f"  {where}"), told)))
    return rows


def _note(key: str, text: str, tone: str, width: int) -> list[Sight]:
    lines = textwrap.wrap(text, max(20, width))
    return [Sight(f"{key}:{number}", (Span(line, tone),)) for number, line in enumerate(lines)]


def _group(key: str, name: str, before: Sequence[Sight]) -> list[Sight]:
    """The heading of a group, apart from what stands above it."""
    heading = Sight(key, (Span(name, "quiet"),))
    return [Sight(f"{key}:gap"), heading] if before else [heading]


def _recorded(opened: Opened, call: int) -> int | None:
    """The frame that answers a call."""
    for frame in opened.frames:
        if frame.kind is FrameKind.RESPONSE and any(
            one.get("id") == call for one in frame.entries("results")
        ):
            return frame.number
    return None


class HistoryRows:
    """The value of an expression at each frame; where it is what it was before, it is quiet."""

    def __init__(self, opened: Opened, found: Sequence[tuple[int, Any]], *, unicode: bool = True) -> None:
        self._frames = FrameRows(opened, unicode=unicode)
        self._found = found

    def __len__(self) -> int:
        return len(self._found)

    def row_id(self, index: int) -> str:
        return str(self._found[index][0])

    def text(self, index: int) -> str:
        number, value = self._found[index]
        return f"{' '.join(self._frames.labels(number))} {history_value(value)[0]}"

    def line(self, index: int, width: int) -> Line:
        number, value = self._found[index]
        frame = self._frames.head(number, max(12, min(32, width // 3)))
        room = width - sum(cells(inert(span.text)) for span in frame) - 2
        text, tone = history_value(value, max(1, room))
        same = index > 0 and value == self._found[index - 1][1]
        return (*frame, Span("  "), Span(text, "quiet" if same else tone))


def history_value(value: Any, width: int = 120) -> tuple[str, str]:
    """A value of a history on one line, with its tone; a name that does not exist at that frame is not in sight."""
    if isinstance(value, Mapping) and value.get("$type") == "error" and value.get("name") == "ReferenceError":
        return "not in sight", "quiet"
    return shown(value, width)


def _valued(name: str, value: Any) -> Line:
    text, tone = shown(value)
    return (Span(f"  {name}", "accent"), Span("  "), Span(text, tone))


def shown(value: Any, width: int = 120) -> tuple[str, str]:
    """A value on one line of at most ``width`` cells, with its tone; what JSON cannot say in words."""
    if isinstance(value, Mapping) and isinstance(value.get("$type"), str):
        kind = value["$type"]
        if kind == "error":
            return shorten(f"{value.get('name', 'Error')}: {value.get('message', '')}", width), "bad"
        extra = value.get("name") or value.get("class") or ""
        word: str = _WORDS.get(kind) or kind
        return shorten(f"{word} {extra}" if extra else word, width), "quiet"
    return shorten(json.dumps(value, ensure_ascii=False), width), ""


def frame_lines(opened: Opened, number: int | None, width: int, *, unicode: bool = True) -> list[Line]:
    """One frame for reading: what it is, the verdict and recovery, then its values laid out."""
    frame = opened.frames[number] if number is not None and number < len(opened.frames) else None
    lines: list[Line] = []
    bodies: list[Line] = []
    if frame is None:
        cause = opened.bundle.record.cause
        ends = [(opened.ending or "no frame", "bad")]
        if cause is not None and opened.ending:
            ends.append((f"  {cause.message}", ""))
        lines += _broken("end", ends, width)
    else:
        _told(opened, frame, lines, bodies, "→" if unicode else "->")
    lines += _broken("recovery", recovery_pieces(opened), width)
    lines += _broken("verdict", verdict_pieces(opened, unicode=unicode), width)
    return [*lines, *bodies]


def _told(opened: Opened, frame: FrameLine, lines: list[Line], bodies: list[Line], arrow: str) -> None:
    body = frame.body
    if body is None:
        lines.append(_headed(frame.kind.value, [("no JSON object", "bad")]))
        bodies += [(Span(line),) for line in frame.raw.split("\n")]
        return
    if frame.kind is FrameKind.REQUEST:
        for call, where in zip(frame.entries("calls"), frame.places, strict=False):
            step = opened.step(call)
            name = str(call.get("step_id", call.get("op", "?")))
            ref = f" {arrow} {call['agent_ref']}" if "agent_ref" in call else ""
            at = f"  {words.place(*where)}" if where is not None else ""
            badge = f"  recorded {step.badge}" if step is not None and step.badge else ""
            lines.append(_headed("request", [(name, "strong"), (ref, ""), (at, "quiet"), (badge, "accent")]))
            rest = {
                key: value for key, value in call.items() if key not in ("id", "step_id", "agent_ref", "op")
            }
            bodies += _laid(name, rest)
    elif frame.kind is FrameKind.RESPONSE:
        for label, result in zip(frame.labels, frame.entries("results"), strict=False):
            good = result.get("ok") is True
            lines.append(
                _headed(
                    "response", [(label, "strong"), ("  ok" if good else "  failed", "" if good else "bad")]
                )
            )
            value = result.get("value", result.get("artifact")) if good else result.get("error")
            output = value["output"] if isinstance(value, dict) and "output" in value else value
            bodies += _laid(label, output)
    else:
        good = body.get("ok") is not False
        word = "the arguments" if frame.kind is FrameKind.START else "the result" if good else "the error"
        value = (
            body.get("args")
            if frame.kind is FrameKind.START
            else body.get("value")
            if good
            else body.get("error")
        )
        lines.append(_headed(frame.kind.value, [(word, "" if good else "bad")]))
        bodies += _laid(word, value)


def _headed(word: str, pieces: Sequence[tuple[str, str]]) -> Line:
    return (Span(f"{word:<10}", "quiet"), *(Span(text, tone) for text, tone in pieces if text))


def _laid(name: str, value: Any) -> list[Line]:
    first, *rest = pretty(value)
    return [(Span(f"{name}  ", "quiet"), *json_line(first)), *(json_line(line) for line in rest)]


def _broken(word: str, pieces: Sequence[tuple[str, str]], width: int) -> list[Line]:
    """Pieces in sequence, broken at spaces under each other behind ``word``."""
    room = max(10, width - 11)
    rows: list[list[Span]] = [[]]
    used = 0
    for text, tone in pieces:
        for number, part in enumerate(inert(text).split(" ")):
            space = " " if number else ""
            for index, piece in enumerate(wrap(part, room)):
                if used and (index or used + cells(space + piece) > room):
                    rows.append([])
                    used, space = 0, ""
                rows[-1].append(Span(space + piece, tone))
                used += cells(space + piece)
    first = _headed(word, [(span.text, span.tone) for span in rows[0]])
    return [first, *((Span(" " * 10), *row) for row in rows[1:])]
