"""What the Replay screen asks and shows in front: one line of text, a reply to edit, and a divergence."""

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

#: Cells of one value of a difference.
_DIFFERENCE: Final = 600


class DivergenceScreen(Modal[None]):
    """Where the replay stopped agreeing: the source line, each difference, then both requests whole."""

    BINDINGS = keymap.bindings("compare")

    def __init__(self, found: Divergence, source: str) -> None:
        super().__init__(id="divergence")
        self._found = found
        lines = source.split("\n")
        number = found.line
        self._source = lines[number - 1] if number is not None and 1 <= number <= len(lines) else None
        self._pairs = compare(*(_text(side) for side in (found.recorded, found.now)))
        self._list = LineList(opens=False)

    def content(self) -> Iterable[Widget]:
        yield self._list

    def on_mount(self) -> None:
        frame = self.query_one("#frame", Pane)
        frame.set_title("Recorded (-) and now (+)")
        frame.styles.width, frame.styles.max_width, frame.styles.height = "100%", "100%", "1fr"
        self._list.focus()

    def on_resize(self) -> None:
        width = self.size.width - 4
        wide = width >= SIDE_BY_SIDE
        lines = [
            *self._head(width),
            *(beside_each_other(self._pairs, width) if wide else below_each_other(self._pairs)),
        ]
        longest = max(sum(len(inert(span.text)) for span in line) for line in lines)
        self._list.set_rows(TextRows(lines, 0 if wide else longest))

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
        lines.append(())
        half = max(12, (width - 3) // 2)
        for one in found.differences:
            lines.append((Span(one.path or "the whole", "accent"),))
            for row in _beside(
                f"recorded  {shown(one.recorded, _DIFFERENCE)[0]}",
                f"now  {shown(one.now, _DIFFERENCE)[0]}",
                half,
            ):
                lines.append(row)
        return [*lines, ()]


def _beside(left: str, right: str, half: int) -> list[Line]:
    one, two = wrap(left, half), wrap(right, half)
    rows: list[Line] = []
    for at in range(max(len(one), len(two))):
        first, second = (side[at] if at < len(side) else "" for side in (one, two))
        rows.append((Span(fit(first, half), "bad"), Span(" │ ", "quiet"), Span(second, "good")))
    return rows


def _text(value: Any) -> str:
    return "nothing" if value is None or value == {"$type": "missing"} else "\n".join(pretty(value))


class ReplyDialog(Modal[tuple[Any] | None]):
    """Edits the recorded answer of one call, as JSON. The result is a tuple of the new answer, or None."""

    BINDINGS = keymap.bindings("dialog")
    DEFAULT_CSS = """
    ReplyDialog #reply { height: 1fr; margin: 1 0; }
    ReplyDialog #told { height: auto; }
    ReplyDialog #problem { height: 1; color: $text-error; }
    ReplyDialog #answers { height: 1; }
    """

    def __init__(self, step: str, frame: int, reply: Any, *, unicode: bool = True) -> None:
        super().__init__(id="reply-dialog")
        self._step = step
        text = (
            f"What if {inert(step)} had answered something else? Recorded answers are used again where the script "
            "asks the same; what it asks beyond is answered by the run's stub set. Nothing of the run changes."
        )
        self._told = Static(text, id="told", markup=False)
        self._editor = ArgumentsEditor(
            json.dumps(reply, ensure_ascii=False, indent=2), unicode=unicode, id="reply"
        )
        self._problem = Static("", id="problem", markup=False)
        self._frame_number = frame

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
