"""Rows of the Review screen besides the bytes: what waits, what was decided, receipts, and two versions side by side."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from workflows_core.model import Artifact

from ... import words
from ...inert import cells, inert
from ...review import Decided, Progress, Waiting, brief
from ...review_coverage import Coverage
from ...review_pictures import PictureCoverage
from .byte_rows import breaks, decoded, visible
from .json_rows import pretty
from .lines import Line, Span, TextRows, fit, wrap

_DECIDED: Final = {
    "approve": words.Mark("✓", "+", "approved", "good"),
    "reject": words.Mark("✗", "x", "rejected", "bad"),
    "resume": words.Mark("✓", "+", "resumed", "good"),
}
_UNKNOWN: Final = words.Mark("·", "-", "decided", "quiet")
_WORD_WIDTH: Final = 9
_TIME_WIDTH: Final = 10


def decision_mark(decision: str) -> words.Mark:
    return _DECIDED.get(decision, _UNKNOWN)


@dataclass(frozen=True, slots=True)
class InboxRows:
    """One line for each thing that waits: what to do, the step, the run's name, the time left."""

    items: Sequence[Waiting]
    now: int
    unicode: bool = True

    def __len__(self) -> int:
        return len(self.items)

    def row_id(self, index: int) -> str:
        return self.items[index].id

    def text(self, index: int) -> str:
        item = self.items[index]
        return f"{item.mark.word} {item.step_id} {item.name} {item.run_id}"

    def copied(self, index: int) -> tuple[str, str]:
        return "the run's id", self.items[index].run_id

    def time(self, index: int) -> str:
        return self.items[index].time(self.now)

    def line(self, index: int, width: int) -> Line:
        item, time = self.items[index], self.time(index)
        tone = "bad" if time == "expired" else "quiet"
        return _row(item.mark, item.step_id, item.name, time, tone, width, self.unicode)


@dataclass(frozen=True, slots=True)
class DecidedRows:
    """One line for each decision: what was decided, the step, the run's name, how long ago."""

    items: Sequence[Decided]
    now: int
    unicode: bool = True

    def __len__(self) -> int:
        return len(self.items)

    def row_id(self, index: int) -> str:
        return self.items[index].id

    def text(self, index: int) -> str:
        item = self.items[index]
        word = decision_mark(item.receipt.decision).word
        return f"{word} {item.receipt.step_id} {item.name} {item.receipt.run_id} {item.receipt.reason or ''}"

    def copied(self, index: int) -> tuple[str, str]:
        return "the run's id", self.items[index].receipt.run_id

    def time(self, index: int) -> str:
        return f"{brief(self.now - self.items[index].receipt.decided_at)} ago"

    def line(self, index: int, width: int) -> Line:
        item = self.items[index]
        mark = decision_mark(item.receipt.decision)
        return _row(mark, item.receipt.step_id, item.name, self.time(index), "quiet", width, self.unicode)


def look(rows: InboxRows | DecidedRows) -> tuple[object, ...]:
    """What the rows look like: the same for two that need no painting in between."""
    return type(rows), rows.items, [rows.time(index) for index in range(len(rows))]


def coverage_label(
    progress: Progress,
    shown: Coverage | PictureCoverage,
    unseen_key: str,
    outside_keys: str,
    *,
    in_bytes: bool,
) -> str:
    """What stands behind the bar of ``shown``: how much counts, and how to go on. ``in_bytes``: of a tab of bytes."""
    if progress.in_full:
        return "in full"
    if progress.may_decide:
        return f"{progress.percent} %, viewed outside"
    if progress.pictorial and shown is progress.coverage:
        what = "bytes do not count" if in_bytes else "not drawn legibly"
        return f"{what}; view it outside: {outside_keys}"
    return f"{shown.percent} %; {unseen_key} goes to the next unseen part"


def _row(
    mark: words.Mark, step_id: str, name: str, time: str, time_tone: str, width: int, unicode: bool
) -> Line:
    room = max(8, width - 2 - _WORD_WIDTH - 1 - 1 - _TIME_WIDTH)
    dot = " · " if unicode else " - "
    subject = dot.join(part for part in (step_id, name) if part)
    return (
        Span(f"{mark.glyph if unicode else mark.ascii} ", mark.tone),
        Span(f"{mark.word:<{_WORD_WIDTH}} ", mark.tone),
        Span(fit(subject, room)),
        Span(f" {time:>{_TIME_WIDTH}}", time_tone),
    )


def named_rows(pairs: Sequence[tuple[str, str]], width: int) -> TextRows:
    """Names and values in two columns, long values broken."""
    column = max((len(name) for name, _ in pairs), default=0) + 2
    lines: list[Line] = []
    for name, value in pairs:
        for number, part in enumerate(wrap(value, max(12, width - column))):
            lines.append((Span(f"{'' if number else name:<{column}}", "quiet"), Span(part)))
    return TextRows(lines)


def text_rows(text: str, width: int) -> TextRows:
    """Paragraphs of ours, broken for ``width`` cells."""
    return TextRows([(Span(line),) for line in wrap(text, max(12, width))])


# Two versions.

#: Two texts whose differing middles have more pairs of lines than this are not aligned line by line.
_MOST_PAIRS: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class Pair:
    """A line of either version, with its number from 1; None on the side that has no such line."""

    old: tuple[int, str] | None
    new: tuple[int, str] | None
    same: bool


def lines_of(artifact: Artifact) -> list[str]:
    """The lines that are compared: JSON laid out, text as it is, anything else in hexadecimal."""
    body = artifact.body
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return [body[start : start + 16].hex(" ") for start in range(0, len(body), 16)]
    if artifact.media_type == "application/json":
        try:
            return pretty(json.loads(text))
        except (ValueError, RecursionError):
            pass
    return text.split("\n")


def side_by_side(old: Sequence[str], new: Sequence[str]) -> list[Pair]:
    """Two versions, line against line."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    pairs = [Pair((n + 1, old[n]), (n + 1, new[n]), True) for n in range(head)]
    first, second = old[head : len(old) - tail], new[head : len(new) - tail]
    blocks = [("replace", 0, len(first), 0, len(second))]
    if len(first) * len(second) <= _MOST_PAIRS:
        blocks = list(difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes())
    for kind, a, b, c, d in blocks:
        for n in range(max(b - a, d - c)):
            left = (head + a + n + 1, first[a + n]) if a + n < b else None
            right = (head + c + n + 1, second[c + n]) if c + n < d else None
            pairs.append(Pair(left, right, kind == "equal"))
    for n in range(tail, 0, -1):
        pairs.append(Pair((len(old) - n + 1, old[-n]), (len(new) - n + 1, new[-n]), True))
    return pairs


def compared_rows(pairs: Sequence[Pair], width: int, heads: tuple[str, str]) -> TextRows:
    """Both versions side by side for ``width`` cells under their headings; long lines are broken."""
    digits = max([3, *(len(str(side[0])) for pair in pairs[-1:] for side in (pair.old, pair.new) if side)])
    half = max(digits + 14, (width - 3) // 2)
    room = half - digits - 3
    lines: list[Line] = [
        (Span(fit(heads[0], half), "quiet"), Span(" │ ", "quiet"), Span(fit(heads[1], half), "quiet"))
    ]
    for pair in pairs:
        left, right = list(_broken(pair.old, room)), list(_broken(pair.new, room))
        for n in range(max(len(left), len(right), 1)):
            lines.append(
                (
                    *_side(left, n, digits, half, "" if pair.same else "bad", "-" if not pair.same else " "),
                    Span(" │ ", "quiet"),
                    *_side(
                        right, n, digits, half, "" if pair.same else "good", "+" if not pair.same else " "
                    ),
                )
            )
    return TextRows(lines)


def _broken(side: tuple[int, str] | None, room: int) -> Iterator[tuple[str, str]]:
    """The number (on the first piece) and the text of each piece."""
    if side is None:
        return
    data = side[1].encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    raw = data.encode("utf-8", "surrogateescape")
    start = 0
    for end in breaks(raw, 0, len(raw), room):
        yield "" if start else str(side[0]), decoded(raw[start:end])
        start = end


def _side(
    pieces: Sequence[tuple[str, str]], n: int, digits: int, half: int, tone: str, sign: str
) -> list[Span]:
    if n >= len(pieces):
        return [Span(" " * half)]
    number, text = pieces[n]
    spans = [Span(f"{number:>{digits}} ", "quiet"), Span(f"{sign} ", tone), *visible(text, tone)]
    used = sum(cells(inert(span.text)) for span in spans)
    return [*spans, Span(" " * max(0, half - used))]
