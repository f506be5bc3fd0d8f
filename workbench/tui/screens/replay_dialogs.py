"""What the Replay screen shows and asks in front: a divergence, and a recorded answer to edit."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from textual import on
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Static

from workflows_core import jsontext
from workflows_core.journal.replay import Divergence

from ... import words
from ...inert import inert
from .. import keymap
from ..widgets.choice import Choice
from ..widgets.editor_json import ArgumentsEditor
from ..widgets.json_rows import pretty
from ..widgets.lines import Line, LineList, Span, TextRows, fit, wrap
from ..widgets.pane import Pane
from ..widgets.replay_rows import shown
from .author_compare import SIDE_BY_SIDE, below_each_other, beside_each_other, compare
from .dialogs import Modal

#: Lines of one value of a difference; it stands whole further down.
_DIFFERENCE: Final = 3
_MISSING: Final = {"$type": "missing"}


class DivergenceScreen(Modal[None]):
    """Where the replay stopped agreeing: the source line, each difference, then both requests whole."""

    BINDINGS = keymap.bindings("compare")

    def __init__(self, found: Divergence, source: str) -> None:
        super().__init__(id="divergence")
        self._sides = Sides(found, source)
        self._list = LineList(opens=False, filterable=False)

    def content(self) -> Iterable[Widget]:
        yield self._list

    def on_mount(self) -> None:
        frame = self.query_one("#frame", Pane)
        frame.set_title("Recorded (-) and now (+)")
        frame.styles.width, frame.styles.max_width, frame.styles.height = "100%", "100%", "1fr"
        self._list.focus()

    def on_resize(self) -> None:
        self._list.set_rows(self._sides.rows(self.size.width - 4))


class Sides:
    """A divergence as lines: recorded and now, side by side where there is room."""

    def __init__(self, found: Divergence, source: str) -> None:
        self._found = found
        lines = source.split("\n")
        number = found.line
        self._source = lines[number - 1] if number is not None and 1 <= number <= len(lines) else None
        self._pairs = compare(*(_text(side) for side in (found.recorded, found.now)))

    def rows(self, width: int) -> TextRows:
        """The lines for ``width`` cells."""
        wide = width >= SIDE_BY_SIDE
        lines = [
            *self._head(width),
            *(beside_each_other(self._pairs, width) if wide else below_each_other(self._pairs)),
        ]
        longest = max(sum(len(inert(span.text)) for span in line) for line in lines)
        return TextRows(lines, 0 if wide else longest)

    def _head(self, width: int) -> list[Line]:
        found = self._found
        where = words.place(found.line, found.column)
        lines: list[Line] = [
            (
                Span(f"Differs at frame {found.frame}{f', {where}' if where else ''}", "bad"),
                Span(f"; frame {found.agreed} agreed", "quiet"),
            )
        ]
        if self._source is not None:
            lines.append((Span(f"{found.line:>4}  ", "quiet"), Span(self._source.replace("\t", "    "))))
        half = max(12, (width - 3) // 2)
        lines += [(), *_beside(f"recorded  {_said(found.recorded)}", f"now  {_said(found.now)}", half), ()]
        if not _alike(found.recorded, found.now):
            return lines
        for one in found.differences:
            lines.append((Span(one.path or "the whole", "accent"),))
            left, right = (shown(side, _DIFFERENCE * half * 4 // 5)[0] for side in (one.recorded, one.now))
            lines += [(Span("  "), *row) for row in _beside(left, right, half - 2)[:_DIFFERENCE]]
        return [*lines, ()]


def _alike(left: Any, right: Any) -> bool:
    """Whether both sides are requests, or both ends, so that their parts can be compared one by one."""
    return isinstance(left, dict) and isinstance(right, dict) and ("calls" in left) is ("calls" in right)


def _said(side: Any) -> str:
    """What the script does on one side, in words."""
    if not isinstance(side, dict) or side == _MISSING:
        return "nothing"
    calls = side.get("calls")
    if isinstance(calls, list):
        names = [str(call.get("step_id", call.get("op", "?"))) for call in calls if isinstance(call, dict)]
        return f"asks {', '.join(names)}"
    if "by" not in side:
        return "the script cannot run"
    return "it ends with its result" if side.get("ok") is True else "it ends with an error"


def _beside(left: str, right: str, half: int) -> list[Line]:
    one, two = wrap(left, half), wrap(right, half)
    rows: list[Line] = []
    for at in range(max(len(one), len(two))):
        first, second = (side[at] if at < len(side) else "" for side in (one, two))
        rows.append((Span(fit(first, half), "bad"), Span(" │ ", "quiet"), Span(second, "good")))
    return rows


def _text(value: Any) -> str:
    return "nothing" if value is None or value == _MISSING else "\n".join(pretty(value))


class ReplyDialog(Modal[tuple[Any] | None]):
    """Edits the recorded answer of one call, as JSON. The result is a tuple of the new answer, or None.

    ``text`` is what stands there at first instead of the recorded answer.
    """

    BINDINGS = keymap.bindings("dialog")
    DEFAULT_CSS = """
    ReplyDialog #reply { height: 1fr; margin: 1 0; }
    ReplyDialog #told { height: auto; }
    ReplyDialog #problem { height: 1; color: $text-error; }
    ReplyDialog #answers { height: 1; }
    """

    def __init__(
        self, step: str, frame: int, reply: Any, *, text: str | None = None, unicode: bool = True
    ) -> None:
        super().__init__(id="reply-dialog")
        self._step = step
        told = (
            f"What if {inert(step)} had answered something else? The script is replayed on it up to the first "
            "difference. Nothing of the run changes."
        )
        self._told = Static(told, id="told", markup=False)
        self._editor = ArgumentsEditor(
            json.dumps(reply, ensure_ascii=False, indent=2) if text is None else text,
            unicode=unicode,
            id="reply",
        )
        self._problem = Static("", id="problem", markup=False)
        self._frame_number = frame

    @property
    def text(self) -> str:
        """What stands in the editor, whatever the result."""
        return self._editor.text

    def content(self) -> Iterable[Widget]:
        yield self._told
        yield self._editor
        yield self._problem
        yield Horizontal(Choice("Do nothing", name="no"), Choice("Continue", name="go"), id="answers")

    def on_mount(self) -> None:
        self.query_one("#frame", Pane).set_title(
            f"What if: answer of {self._step}, frame {self._frame_number}"
        )
        self._editor.focus()

    @on(Choice.Pressed)
    def _answered(self, message: Choice.Pressed) -> None:
        message.stop()
        if message.name == "no":
            self.finish(None)
            return
        try:
            value = jsontext.parse(self._editor.text, "the answer")
        except jsontext.JsonRefused as error:
            self._problem.update(inert(str(error)))
            self._editor.focus()
        else:
            self.finish((value,))
