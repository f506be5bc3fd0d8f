"""Looking at a run: going to a place, a console for expressions there, and the value of one over all frames."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from textual import on, work
from textual.widget import Widget
from textual.widgets import Input

from workflows_core.errors import UsageError

from ...replaying import Opened
from .. import keymap
from ..widgets.editor_form import TextBlock
from ..widgets.json_rows import json_line, pretty
from ..widgets.lines import Line, LineList, Span, TextRows
from ..widgets.pane import Field, Pane
from ..widgets.replay_rows import HistoryRows, shown
from .dialogs import Modal

#: Lines of one value in the console.
_LINES: Final = 200
_PLACES: Final = "6 is frame 6. #40 is the 40th statement of the run. :12 is the next time that line 12 runs, :12x3 the third. end is the end."
_TOLD: Final = (
    "Expressions run at this place in the worker that is thrown away, never in the run. What they change holds here "
    "until the console is closed."
)


class GoTo(Modal[None]):
    """Asks for a place and goes there. ``go`` raises UsageError where there is none: it is said, and asked again."""

    BINDINGS = keymap.bindings("dialog")
    DEFAULT_CSS = """
    GoTo Field { margin: 1 0; }
    """

    def __init__(self, go: Callable[[str], Awaitable[None]]) -> None:
        super().__init__(id="go-to")
        self._go = go

    def content(self) -> Iterable[Widget]:
        yield TextBlock(id="told")
        yield Field()
        yield TextBlock(id="problem")

    def on_mount(self) -> None:
        self.query_one("#told", TextBlock).show(Span(_PLACES))
        frame = self.query_one("#frame", Pane)
        frame.set_title("Go to")
        frame.styles.width, frame.styles.height = 60, "auto"
        for field in self.query(Field):  # there is none where the application ends meanwhile
            field.focus()

    @on(Input.Changed)
    def _typed(self, message: Input.Changed) -> None:
        message.stop()
        self.query_one("#problem", TextBlock).show()

    @on(Input.Submitted)
    def _accepted(self, message: Input.Submitted) -> None:
        message.stop()
        text = message.value.strip()
        if text:
            self._arrive(text)
        else:
            self.finish(None)

    @work(group="go to", exclusive=True, exit_on_error=False)
    async def _arrive(self, text: str) -> None:
        try:
            await self._go(text)
        except UsageError as error:
            self.query_one("#problem", TextBlock).show(Span(_sentence(str(error)), "bad"))
        else:
            self.finish(None)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


class Console(Modal[None]):
    """Expressions and their values at one place. ``evaluate`` gives a value, or raises UsageError in words."""

    BINDINGS = keymap.bindings("palette")
    DEFAULT_CSS = """
    Console LineList { margin: 1 0; }
    """

    def __init__(self, place: str, evaluate: Callable[[str], Awaitable[Any]]) -> None:
        super().__init__(id="console")
        self._place = place
        self._evaluate = evaluate
        self._rows: list[Line] = []
        self._list = LineList(
            empty="Nothing was asked yet. findings.length, or any other expression, then enter.",
            opens=False,
            filterable=False,
        )

    def content(self) -> Iterable[Widget]:
        yield TextBlock()
        yield self._list
        yield Field(placeholder="expression")

    def on_mount(self) -> None:
        self.query_one(TextBlock).show(Span(_TOLD, "quiet"))
        self.query_one("#frame", Pane).set_title(f"Console at {self._place}")
        for field in self.query(Field):  # there is none where the application ends meanwhile
            field.focus()

    def moved_list(self) -> LineList:
        return self._list

    @on(Input.Submitted)
    def _asked(self, message: Input.Submitted) -> None:
        message.stop()
        text = message.value.strip()
        if text:
            self.query_one(Field).value = ""
            self._answer(text)

    @work(group="console", exit_on_error=False)
    async def _answer(self, text: str) -> None:
        try:
            value = await self._evaluate(text)
        except UsageError as error:
            lines: list[Line] = [(Span(f"  {error}", "bad"),)]
        else:
            lines = _value_lines(value)
        self._rows += [(Span(f"> {text}", "accent"),), *lines]
        longest = max(sum(len(span.text) for span in line) for line in self._rows)
        self._list.set_rows(TextRows(tuple(self._rows), longest))
        self._list.action_edge(1)


def _value_lines(value: Any) -> list[Line]:
    if isinstance(value, dict) and isinstance(value.get("$type"), str) and "value" not in value:
        text, tone = shown(value, 400)
        return [(Span(f"  {text}", tone),)]
    lines = pretty(value)
    found: list[Line] = [(Span("  "), *json_line(line)) for line in lines[:_LINES]]
    if len(lines) > _LINES:
        found.append((Span(f"  {len(lines) - _LINES:,} more lines", "quiet"),))
    return found


class History(Modal[int | None]):
    """The value of an expression at every frame. The result is the frame to go to, or None."""

    BINDINGS = keymap.bindings("compare")

    def __init__(
        self,
        expression: str,
        opened: Opened,
        found: Sequence[tuple[int, Any]],
        here: int | None,
        *,
        unicode: bool = True,
    ) -> None:
        super().__init__(id="history")
        self._expression = expression
        self._here = here
        self._found = found
        self._list = LineList(HistoryRows(opened, found, unicode=unicode), filterable=False)

    def content(self) -> Iterable[Widget]:
        yield self._list

    def on_mount(self) -> None:
        changes = sum(
            index == 0 or value != self._found[index - 1][1] for index, (_, value) in enumerate(self._found)
        )
        frame = self.query_one("#frame", Pane)
        frame.set_title(f"{self._expression} at each frame", f"{changes} of {len(self._found)} differ")
        self._list.focus()
        if self._here is not None:
            self._list.go_to(str(self._here))

    @on(LineList.Selected)
    def _chosen(self, message: LineList.Selected) -> None:
        message.stop()
        self.finish(int(message.row_id))
