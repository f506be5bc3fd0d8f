"""A button of one line, with its keys in the keymap."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ...inert import cells, inert
from .. import keymap


class Choice(Widget, can_focus=True, inherit_bindings=False):
    """``[ label ]``. ``danger`` marks what cannot be undone, in words elsewhere and by colour here."""

    BINDINGS = keymap.bindings("button")
    ALLOW_SELECT = False
    DEFAULT_CSS = """
    Choice {
        width: auto;
        height: 1;
        margin-right: 2;
        color: $foreground;
        background: $foreground 8%;
        &:focus { background: $primary; color: $foreground; text-style: bold; }
        &.-danger { color: $text-error; }
        &.-danger:focus { background: $error; color: $foreground; }
        &:disabled { text-style: dim; }
        &:nocolor:focus { text-style: bold reverse; }
    }
    """

    class Pressed(Message):
        """The choice was made. ``name`` is the choice's name."""

        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice
            self.name = choice.name or ""

        @property
        def control(self) -> Choice:
            return self.choice

    def __init__(self, label: str, *, name: str, danger: bool = False, id: str | None = None) -> None:
        super().__init__(name=name, id=id, classes="-danger" if danger else None)
        self._label = inert(label)

    def rename(self, label: str) -> None:
        self._label = inert(label)
        self.refresh(layout=True)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return cells(self._label) + 4

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 1

    def render_line(self, y: int) -> Strip:
        text = f"[ {self._label} ]"
        return Strip([Segment(text, self.rich_style)]).crop_extend(0, self.size.width, self.rich_style)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.action_press()

    def action_press(self) -> None:
        if not self.disabled:
            self.post_message(self.Pressed(self))
