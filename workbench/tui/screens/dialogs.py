"""Modal screens: their common frame, and the dialog that asks before something happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Size
from textual.layout import ArrangeResult, Layout
from textual.layouts.vertical import VerticalLayout
from textual.screen import ModalScreen
from textual.widget import Widget

from .. import keymap
from ..widgets.bars import KeyLine
from ..widgets.choice import Choice
from ..widgets.lines import Line, LineList, Span, TextRows, wrap
from ..widgets.pane import Field, Pane

Result = TypeVar("Result")


class _TextYields(VerticalLayout):
    """From top to bottom; where the room does not do for all, ``#text`` alone gets less of it."""

    name = "text-yields"

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        placed = list(super().arrange(parent, children, size, greedy))
        end = max((each.region.bottom + each.margin.bottom for each in placed), default=0)
        # Without a height the question is how much all of it would take.
        excess = end - size.height if size.height else 0
        at = next((index for index, each in enumerate(placed) if each.widget.id == "text"), None)
        if excess <= 0 or at is None:
            return placed
        text = placed[at].region
        given = min(excess, max(0, text.height - 1))
        placed[at] = placed[at]._replace(region=text.shrink((0, 0, given, 0)))
        return [
            *placed[: at + 1],
            *(each._replace(region=each.region.translate((0, -given))) for each in placed[at + 1 :]),
        ]


class Frame(Pane):
    """The box of a dialog."""

    LAYOUT: ClassVar[Layout] = _TextYields()

    @property
    def layout(self) -> Layout:
        return self.LAYOUT


class DialogText(LineList):
    """What a dialog says: as high as it is, but no higher than the dialog has room for; then it scrolls."""

    def __init__(self) -> None:
        super().__init__(opens=False, filterable=False, id="text")
        self.can_focus = False
        self.show_cursor = False
        self._said: Callable[[int], list[Line]] = lambda _: []
        self._cells = 1

    def say(self, lines: Callable[[int], list[Line]], width: int) -> None:
        """Show what ``lines`` makes for a width, in ``width`` cells."""
        self._said, self._cells = lines, width
        self.styles.height = len(lines(width))
        self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        lines = self._said(self._cells)
        self.can_focus = 0 < self.outer_size.height < len(lines)
        if self.can_focus:
            lines = self._said(self._cells - 1)  # the scroll bar takes a cell
        self.set_rows(TextRows(lines))


class Modal(ModalScreen[Result], Generic[Result], inherit_bindings=False):
    """A framed box in the middle of the screen, with the keys at the bottom line.

    A subclass gives its ``content``; ``list_of`` the list that up and down move while a field has the focus.
    """

    CSS_PATH = Path(__file__).with_name("dialogs.tcss")
    AUTO_FOCUS: ClassVar[str] = ""
    #: What it is closed with as soon as nothing lies above it any more.
    _result: tuple[Result | None] | None = None

    def compose(self) -> ComposeResult:
        ascii = getattr(self.app, "ascii", False)
        label = getattr(self.app, "key_label", lambda id: id)
        yield Frame(*self.content(), title=self.title or "", id="frame", classes="-ascii" if ascii else None)
        yield KeyLine(label)

    def content(self) -> Iterable[Widget]:
        raise NotImplementedError

    def moved_list(self) -> LineList | None:
        """The list that up and down move while the focus is in a field."""
        return None

    def action_pane(self, by: int) -> None:
        chain = self.focus_chain
        if chain:
            here = chain.index(self.focused) if self.focused in chain else 0
            chain[(here + by) % len(chain)].focus()

    def fit_frame(self, rows: int) -> None:
        """Make the frame no higher than a field above ``rows`` lines of a list needs."""
        frame = self.query_one("#frame", Pane)
        if rows + 3 < self.size.height * 88 // 100:
            frame.styles.height = rows + 3

    def finish(self, result: Result | None) -> None:
        """Close with ``result``, where something lies above it once that is gone.

        A key that comes while the dialog is already closing does nothing.
        """
        if self.app.screen is self:
            self.dismiss(result)
        elif any(self in stack for stack in self.app._screen_stacks.values()):
            self._result = (result,)

    def on_screen_resume(self) -> None:
        if self._result is not None:
            self.finish(self._result[0])

    def action_dismiss_dialog(self) -> None:
        self.finish(None)

    def action_scroll_text(self, by: int) -> None:
        """Scroll the dialog's text, where it is longer than the screen, while a choice has the focus."""
        for lines in self.query("#text").results(LineList):
            lines.scroll_to(y=lines.scroll_y + by, animate=False, force=True, immediate=True)

    def action_list_cursor(self, by: int) -> None:
        moved = self.moved_list()
        if moved is not None:
            moved.action_cursor(by)

    @on(Field.Left)
    def _field_left(self, message: Field.Left) -> None:
        message.stop()
        self.action_dismiss_dialog()


@dataclass(frozen=True, slots=True)
class Answer:
    """One way to answer a dialog. ``danger`` marks what cannot be undone."""

    name: str
    label: str
    danger: bool = False


class Dialog(Modal[str | None]):
    """Says what an act concerns, what it does and what cannot be undone, and asks.

    The result is the name of the answer, or None where the person went back. The focus starts on the first
    answer, which is the safe one. ``text`` is plain text from anywhere: every control in it is made visible.
    """

    BINDINGS = keymap.bindings("dialog")
    #: The frame's width in cells where the terminal has that many.
    WIDTH: ClassVar[int] = 72

    def __init__(self, title: str, text: str, answers: Sequence[Answer]) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._answers = answers
        self._lines = DialogText()

    def content(self) -> Iterable[Widget]:
        yield self._lines
        yield Horizontal(
            *(Choice(answer.label, name=answer.name, danger=answer.danger) for answer in self._answers),
            id="answers",
        )

    def on_mount(self) -> None:
        frame = self.query_one("#frame", Pane)
        frame.set_title(self._title)
        frame.styles.width = self.WIDTH
        self._lay_out()
        self.query(Choice).first().focus()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """Break the text for the width there is."""
        self._lines.say(self.text_lines, self.inner_width())

    def inner_width(self) -> int:
        """The cells that a line of the text has."""
        return max(20, min(self.WIDTH, self.size.width * 94 // 100) - 4)

    def text_lines(self, width: int) -> list[Line]:
        """The text, broken for ``width`` cells."""
        return [(Span(line),) for line in wrap(self._text, width)]

    @on(Choice.Pressed)
    def _answered(self, message: Choice.Pressed) -> None:
        message.stop()
        self.finish(message.name)
