"""Small parts of the launch pane: wrapped lines of plain text, and a setting that a key changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from ...inert import cells
from .. import keymap
from .bars import LineBar
from .lines import Span, drawn, fit, wrap


class TextBlock(LineBar):
    """Lines of plain text, each in one tone, broken at the width; as high as they need."""

    DEFAULT_CSS = """
    TextBlock { height: auto; width: 1fr; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._texts: Sequence[Span] = ()

    @property
    def plain(self) -> str:
        """What is shown, unbroken."""
        return "\n".join(span.text for span in self._texts)

    def show(self, *texts: Span) -> None:
        """Show these lines; an empty one leaves a line free."""
        if texts != self._texts:
            self._texts = texts
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._broken(width))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.rich_style
        lines = self._broken(width)
        if y >= len(lines):
            return Strip.blank(width, base)
        text, tone = lines[y]
        return Strip([Segment(drawn(text, self.app), base + self._tone(tone) if tone else base)]).crop_extend(
            0, width, base
        )

    def _broken(self, width: int) -> list[Span]:
        return [Span(line, tone) for text, tone in self._texts for line in wrap(text, max(1, width))]


class Setting(LineBar, can_focus=True, inherit_bindings=False):
    """``NAME  value``: one of a few values that enter or a click asks to change.

    With ``all_shown`` every value is drawn with the chosen one marked, else only the chosen one.
    """

    BINDINGS: ClassVar[list[BindingType]] = keymap.bindings("button")
    DEFAULT_CSS = """
    Setting {
        &:focus { background: $primary 35%; text-style: bold; }
        &:nocolor:focus { text-style: bold reverse; }
    }
    """
    NAME_WIDTH: ClassVar[int] = 9

    class Pressed(Message):
        """The value is to be changed; whoever listens decides how."""

        def __init__(self, setting: Setting) -> None:
            super().__init__()
            self.setting = setting

        @property
        def control(self) -> Setting:
            return self.setting

    def __init__(
        self, label: str, values: Sequence[str], *, all_shown: bool = False, unicode: bool = True, id: str
    ) -> None:
        super().__init__(id=id)
        self._label = label
        self._values = tuple(values)
        self._all_shown = all_shown
        self._on, self._off = ("◉", "○") if unicode else ("(o)", "( )")
        self.chosen = 0

    @property
    def value(self) -> str:
        return self._values[self.chosen]

    def show(self, values: Sequence[str], chosen: int) -> None:
        """Offer these values with this one chosen."""
        self._values = tuple(values)
        self.chosen = chosen
        self.refresh()

    def spans(self, width: int) -> Sequence[Span]:
        name = Span(fit(self._label, self.NAME_WIDTH), "quiet")
        if not self._all_shown:
            return [name, Span(fit(self.value, max(1, width - cells(name.text))))]
        parts = []
        for index, value in enumerate(self._values):
            on = index == self.chosen
            parts.append(Span(f"{self._on if on else self._off} {value}  ", "" if on else "quiet"))
        return [name, *parts]

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.action_press()

    def action_press(self) -> None:
        self.post_message(self.Pressed(self))
