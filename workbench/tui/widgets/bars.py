"""The single lines that frame every screen: the top line, the screens' tabs, and the keys at the bottom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from workflows_core.model import RunState

from ... import words
from ...inert import cells, inert, shorten
from .. import keymap
from .lines import LineList, Span, drawn


class LineBar(Widget):
    """One line of spans, drawn without layout."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"bar--{tone}" for tone in (*LineList.TONES, "key", "current")}
    ALLOW_SELECT = False
    DEFAULT_CSS = """
    LineBar {
        height: 1;
        width: 1fr;
        & > .bar--quiet { text-style: dim; }
        & > .bar--strong { text-style: bold; }
        & > .bar--accent { color: $text-primary; }
        & > .bar--running { color: $text-warning; }
        & > .bar--waiting { color: $text-warning; text-style: bold; }
        & > .bar--good { color: $text-success; }
        & > .bar--bad { color: $text-error; }
        & > .bar--key { color: $text-primary; text-style: bold; }
        & > .bar--current { background: $foreground 85%; color: $background; text-style: bold; }
        &:nocolor > .bar--current { text-style: bold reverse; }
        &:ansi > .bar--current { text-style: bold reverse; }
    }
    """

    def spans(self, width: int) -> Sequence[Span]:
        """What stands in the line of ``width`` cells."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        width = self.size.width
        segments = []
        for text, tone in self.spans(width):
            style = base + self._tone(tone) if tone else base
            segments.append(Segment(drawn(text, self.app), style))
        return Strip(segments).crop_extend(0, width, base)

    def _tone(self, tone: str) -> Style:
        return self.get_component_rich_style(f"bar--{tone}", partial=True)


def total(spans: Sequence[Span]) -> int:
    """How many cells ``spans`` take."""
    return sum(cells(inert(span.text)) for span in spans)


@dataclass(frozen=True, slots=True)
class Standing:
    """What the top line says: how many runs go on, how many things wait for a person, and how many of those are steps
    whose outcome somebody must say (``to_settle``)."""

    workspace: str = ""
    store: str = ""
    who: str = ""
    running: int = 0
    waiting: int = 0
    to_settle: int = 0


class TopLine(LineBar):
    """Workspace, store, what runs, what waits for you, who you are.

    When narrow it drops the store, then the workspace; never the session or the waiting count.
    """

    DEFAULT_CSS = """
    TopLine { background: $foreground 4%; padding: 0 1; }
    """

    def __init__(self, *, unicode: bool = True) -> None:
        super().__init__()
        self._unicode = unicode
        self._standing = Standing()

    def show(self, standing: Standing) -> None:
        if standing != self._standing:
            self._standing = standing
            self.refresh()

    def spans(self, width: int) -> Sequence[Span]:
        now = self._standing
        name = [Span("workbench", "strong")]
        place = [Span("  "), Span(shorten(now.workspace, 32), "")] if now.workspace else []
        dot = " · " if self._unicode else " - "
        store = (
            [Span(dot, "quiet"), Span("store ", "quiet"), Span(shorten(now.store, 24))] if now.store else []
        )
        counts = self._counts()
        who = [Span(shorten(now.who, max(8, width - total(counts) - 2)), "quiet")]
        for left in (
            [*name, *place, *store, Span("   ")],
            [*name, *place, Span("   ")],
            [*name, Span("  ")],
            [],
        ):
            room = width - total(left) - total(counts) - total(who)
            if room >= 2 or not left:
                return [*left, *counts, Span(" " * max(1, room)), *who]
        raise AssertionError("the last choice always fits")

    def _counts(self) -> list[Span]:
        now = self._standing
        marks = (
            (now.running, words.run_mark(RunState.RUNNING), "running", "running"),
            (now.waiting, words.run_mark(RunState.WAITING_APPROVAL), "waiting for you", "waiting"),
        )
        spans: list[Span] = []
        for count, mark, word, tone in marks:
            if count or word == "waiting for you":
                glyph = mark.glyph if self._unicode else mark.ascii
                spans += [
                    Span("  " if spans else ""),
                    Span(f"{glyph} {count:,} {word}", tone if count else "quiet"),
                ]
        return [*spans, Span(f", {now.to_settle:,} to settle", "bad")] if now.to_settle else spans


class ScreenTabs(LineBar):
    """The screens that exist, the current one marked. A click goes there."""

    DEFAULT_CSS = """
    ScreenTabs { background: $foreground 4%; padding: 0 1; }
    """

    class Chosen(Message):
        """A tab was clicked; ``name`` is the screen's."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, tabs: Sequence[tuple[str, str]], current: str) -> None:
        super().__init__()
        self._tabs = tabs
        self._current = current

    def spans(self, width: int) -> Sequence[Span]:
        return [
            Span(f" {title} ", "current" if name == self._current else "quiet") for name, title in self._tabs
        ]

    def on_click(self, event: events.Click) -> None:
        left = 1
        for name, title in self._tabs:
            if left <= event.x < left + len(title) + 2:
                self.post_message(self.Chosen(name))
            left += len(title) + 2


class KeyLine(LineBar):
    """The keys of the focused pane, innermost first, as the keymap has them; at the right what is busy."""

    DEFAULT_CSS = """
    KeyLine { background: $foreground 4%; padding: 0 1; dock: bottom; }
    """

    def __init__(self, label: Callable[[str], str]) -> None:
        super().__init__()
        self._label = label
        self._busy = ""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def on_unmount(self) -> None:
        self.screen.bindings_updated_signal.unsubscribe(self)

    def _bindings_changed(self, _screen: Screen[object]) -> None:
        self.refresh()

    def show_busy(self, text: str) -> None:
        """What takes time just now; empty where nothing does."""
        if text != self._busy:
            self._busy = text
            self.refresh()

    def spans(self, width: int) -> Sequence[Span]:
        busy = [Span("  "), Span(shorten(self._busy, width // 2), "running")] if self._busy else []
        room = width - total(busy)
        spans: list[Span] = []
        seen: set[str] = set()
        items: list[list[Span]] = []
        for active in self.screen.active_bindings.values():
            binding = active.binding
            row = keymap.BY_ID.get(binding.id or "")
            if row is None or not row.shown or not active.enabled or row.id in seen:
                continue
            seen.add(row.id)
            items.append(
                [Span(self._label(row.id).split(" ")[0], "key"), Span(f" {row.verb}", "quiet"), Span("   ")]
            )
        # The last of them leads to all the others, so it is never the one that does not fit.
        last = items.pop() if "app.keys" in seen else self._all_keys()
        for item in items:
            if total(spans) + total(item) + total(last) <= room + 3:
                spans += item
        spans += last
        return [*spans, Span(" " * max(0, room - total(spans))), *busy]

    def _all_keys(self) -> list[Span]:
        """Where the short key for help is typed, as in a text field, the one that is not."""
        active = self.screen.active_bindings.values()
        if any(each.binding.id == "app.help" and each.enabled for each in active):
            return [Span(self._label("app.help"), "key"), Span(" all keys", "quiet"), Span("   ")]
        return []
