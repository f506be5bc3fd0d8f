"""The Host screen's panes: its sections with a summary each, and the section under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from rich.segment import Segment
from textual.message import Message
from textual.strip import Strip

from ... import words
from ...hostview import HostView
from ...inert import inert
from .. import keymap
from .bars import LineBar
from .host_blocks import Block, BlockRows, indented
from .host_figures import agent_blocks, limit_blocks
from .host_rows import event_blocks, extension_blocks, session_blocks, store_blocks
from .lines import Line, LineList, Span, drawn, fit, wrap
from .pane import ListPane

#: Name and title of each section, in the order of their numbers.
SECTIONS: Final = (
    ("extensions", "Extensions"),
    ("agents", "Agents"),
    ("sessions", "Sessions"),
    ("limits", "Limits"),
    ("stores", "Stores"),
    ("events", "Events"),
    ("notices", "Notices"),
)
_TITLE: Final = 11
#: What only somebody who is logged in is told, where accounts are used.
_AFTER_LOG_IN: Final = ("extensions", "sessions")
_EMPTY: Final = {
    "extensions": "No extension is configured. Add one under plugins: in workbench.yaml.",
    "agents": "No agent is configured. Add one under agents: in workbench.yaml.",
    "sessions": "No session holds a handle. Sessions are those of the process that owns the workspace.",
    "events": "No event yet. Events are what child runs record: launch a script, and they appear here.",
    "notices": "Nothing was reported yet.",
}


class Told(NamedTuple):
    """A notice, as the screen has it."""

    at: int
    title: str
    message: str
    tone: str


class SectionRows:
    """A line a section: title, and what matters most of it."""

    def __init__(self, view: HostView | None, notices: int) -> None:
        self._notices = notices
        self._view = view

    def __len__(self) -> int:
        return len(SECTIONS)

    def row_id(self, index: int) -> str:
        return SECTIONS[index][0]

    def text(self, index: int) -> str:
        return SECTIONS[index][1] + " ".join(span.text for span in self._summary(index))

    def line(self, index: int, width: int) -> Line:
        return (Span(fit(SECTIONS[index][1], _TITLE)), *self._summary(index))

    def _summary(self, index: int) -> Line:
        name, view = SECTIONS[index][0], self._view
        if name == "notices":
            return (Span(f"{self._notices:,}"),) if self._notices else ()
        if view is None:
            return ()
        if name in view.problems:
            return (Span("problem", "bad"),)
        if view.logged_out and name in _AFTER_LOG_IN:
            return (Span("no log-in", "quiet"),)
        if name == "stores":
            return (Span(words.kib(sum(each.size or 0 for each in view.stores))),)
        if name == "limits":
            full = sum(each.used is not None and each.used >= each.value for each in view.limits)
            return (Span(f"{full} used up", "bad"),) if full else (Span("within", "quiet"),)
        remark = next(((n, word, tone) for n, word, tone in self._remarks(name, view) if n), None)
        if remark is not None:
            return (Span(f"{remark[0]} {remark[1]}", remark[2]),)
        return (Span(f"{len(getattr(view, name)):,}"),)

    def _remarks(self, name: str, view: HostView) -> Sequence[tuple[int, str, str]]:
        if name == "extensions":
            failed = sum(each.outcome == "failed" for each in view.extensions)
            said = sum(
                any(entry.level != "info" for entry in each.diagnostics)
                for each in view.extensions
                if each.outcome != "failed"
            )
            return (failed, "failed", "bad"), (0 if failed else said, "warned", "waiting")
        if name == "agents":
            return ((sum(bool(each.changes) for each in view.agents), "changed", "waiting"),)
        return ()


class HostHeader(LineBar):
    """Who owns the workspace and what that means, over at most three lines."""

    DEFAULT_CSS = """
    HostHeader { height: 2; margin-bottom: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._text = ""
        self._quiet = ""
        self._lines: list[Line] = []

    def show(self, view: HostView | None) -> None:
        self._text = "" if view is None else view.ownership()
        self._quiet = ""
        if view is not None and not view.own and view.asked_at is not None:
            self._quiet = f"It answered {words.ago(view.asked_at, view.at)}."
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width = max(10, self.size.width)
        self._lines = [(Span(line),) for line in wrap(self._text, width)]
        if self._quiet:
            self._lines.append((Span(self._quiet, "quiet"),))
        self.styles.height = max(1, min(4, len(self._lines)))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        base, width = self.rich_style, self.size.width
        line = self._lines[y] if y < len(self._lines) else ()
        return Strip(
            [Segment(drawn(text, self.app), base + self._tone(tone) if tone else base) for text, tone in line]
        ).crop_extend(0, width, base)


class BlockList(LineList):
    """The list of a section, with its keys."""

    BINDINGS = keymap.bindings("host.detail")

    class Widened(Message):
        """The list has another width: what is laid out for it is to be laid out again."""

    def on_resize(self) -> None:
        super().on_resize()
        self.post_message(self.Widened())


class HostDetail(ListPane):
    """The section under the cursor. Each section keeps its place and what is opened in it.

    ``key`` gives the keys of a row of the keymap, as people write them.
    """

    def __init__(
        self, *, key: Callable[[str], str] = str, unicode: bool = True, id: str | None = None
    ) -> None:
        self._key = key
        self._header = HostHeader()
        super().__init__("Host", lines=BlockList(), counted=False, above=(self._header,), id=id)
        self._unicode = unicode
        self._section = SECTIONS[0][0]
        self._view: HostView | None = None
        self._notices: Sequence[Told] = ()
        self._opened: dict[str, set[str]] = {}
        self._places: dict[str, str | None] = {}

    @property
    def section(self) -> str:
        return self._section

    def current(self) -> Block | None:
        """The block under the cursor."""
        rows, index = self.list.rows, self.list.current_index
        return rows.block(index) if index is not None and isinstance(rows, BlockRows) else None

    def show(self, view: HostView | None, notices: Sequence[Told]) -> None:
        """Show what is new in the section in front."""
        self._view, self._notices = view, notices
        self._header.show(view)
        self.fill()

    def go_to(self, section: str) -> None:
        """Bring a section to the front, where it was left."""
        if section != self._section:
            self._places[self._section] = self.list.current_id
            self._section = section
            self.clear_filter()
            self.fill()
            place = self._places.get(section)
            if place is None or not self.list.go_to(place):
                self.list.action_edge(-1)

    def fill(self) -> None:
        """Lay the section out again for the width that there is."""
        count = self._count()
        self.rename(dict(SECTIONS)[self._section] + (f" {count:,}" if count else ""))
        self.list.set_empty(self._empty())
        self.list.opens = self._section in ("extensions", "agents", "limits", "events")
        width = self.list.scrollable_content_region.width or 80
        opened = self._opened.get(self._section, set())
        self.set_rows(BlockRows(self._blocks(width), opened, apart=self._section not in ("events", "limits")))

    def open_current(self) -> None:
        """Open or close the block under the cursor."""
        block = self.current()
        if block is not None and block.more:
            self._opened.setdefault(self._section, set()).symmetric_difference_update({block.id})
            self.fill()
            self.list.go_to(block.id)

    def _empty(self) -> str:
        if self._view is None and self._section != "notices":
            return "Reading the host."
        view = self._view
        problem = None if view is None else view.problems.get(self._section)
        if problem is not None:
            return problem
        if view is not None and view.logged_out and self._section in _AFTER_LOG_IN:
            return self._logged_out()
        if view is not None and view.mode == "password" and self._section == "sessions":
            return self._logged_out()
        return _EMPTY.get(self._section, "")

    def _logged_out(self) -> str:
        """That nobody is logged in, what that hides, and what to do."""
        key = self._key("host.log_in")
        if self._section == "extensions":
            return f"Nobody is logged in, so the extensions are not told. {key} logs in."
        return f"Nobody is logged in. {key} logs in."

    def _count(self) -> int:
        """How many things the section holds."""
        if self._section == "notices":
            return len(self._notices)
        return 0 if self._view is None else len(getattr(self._view, self._section))

    def _blocks(self, width: int) -> list[Block]:
        if self._section == "notices":
            return [self._notice(number, told, width) for number, told in enumerate(self._notices)]
        if self._view is None:
            return []
        blocks = self._of(self._view, width)
        problem = self._view.problems.get(self._section)
        if problem is not None and blocks:
            body = tuple(indented(problem, width, "bad"))
            blocks.insert(
                0, Block("problem", (Span("Not all of this is up to date", "bad"),), body, (), "why", problem)
            )
        elif self._view.logged_out and self._section == "sessions" and blocks:
            head = (Span(self._logged_out(), "strong"),)
            body = tuple(indented("These are log-ins of accounts elsewhere.", width, "quiet"))
            blocks.insert(0, Block("logged out", head, body, (), "why", self._logged_out()))
        return blocks

    def _of(self, view: HostView, width: int) -> list[Block]:
        if self._section == "extensions":
            return extension_blocks(view, width, unicode=self._unicode)
        if self._section == "agents":
            return agent_blocks(view, width, unicode=self._unicode)
        if self._section == "sessions":
            return session_blocks(view, width, unicode=self._unicode)
        if self._section == "limits":
            return limit_blocks(view, width, unicode=self._unicode)
        if self._section == "stores":
            return store_blocks(view, width)
        return event_blocks(view, width, unicode=self._unicode)

    def _notice(self, number: int, told: Told, width: int) -> Block:
        at = self._view.at if self._view is not None else told.at
        head = (Span(inert(told.title) or "Notice", told.tone), Span(f"  {words.ago(told.at, at)}", "quiet"))
        body = indented(told.message, width)
        value = f"{told.title}: {told.message}" if told.title else told.message
        # Counted from the oldest, so that the cursor stays on its notice when another comes.
        return Block(str(len(self._notices) - number), head, body, (), "the notice", value)
