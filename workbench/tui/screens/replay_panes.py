"""The panes of the Replay screen and what stands in them: frames, source, what is in sight, one frame for reading.

They show an ``Opened`` run at a frame, and what was seen there once it is known. Where one goes next is the screen's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from textual.widget import Widget

from ... import words
from ...replaying import Opened
from ...travelling import Seen
from .. import keymap
from ..widgets.lines import LineList, TextRows
from ..widgets.pane import ListPane
from ..widgets.replay_rows import FrameRows, Sight, SightRows, SourceRows, frame_lines, sight_rows
from ..widgets.run_detail import copied_from
from ..widgets.run_rows import SourceText

#: Lines of the source that stay visible around the position.
AROUND: Final = 3
#: The row of Frames that stands for the place where a journal was cut off.
END: Final = "end"


class SourceList(LineList):
    """The source, where left and right go by statements."""

    BINDINGS = keymap.bindings("replay.source")

    def show_row(self, row_id: str) -> bool:
        """Put the cursor on a row, with lines around it; False where it is not shown."""
        found = self.go_to(row_id)
        height, top = self.scrollable_content_region.height, round(self.scroll_y)
        if found and not top + AROUND <= self.cursor < top + height - AROUND:
            self.scroll_to(y=self.cursor - height // 2, animate=False, force=True)
        return found


class SightList(LineList):
    """What is in sight, where a watch can be taken away."""

    BINDINGS = keymap.bindings("replay.sight")


class ReplayPanes:
    """The four panes over one run. ``frame`` is where one stands: one more than the last is where a journal ends.

    ``seen`` is what was in sight there, or None as long as that is not known; ``breakpoints`` are source lines.
    """

    def __init__(self, *, unicode: bool) -> None:
        self._unicode = unicode
        self.opened: Opened | None = None
        self.seen: Seen | None = None
        self.frame: int | None = None
        #: Whether this run can only be stepped by frames, as far as that is known.
        self.by_frames = False
        self.breakpoints: set[int] = set()
        self._source: SourceText | None = None
        self._position: tuple[int, int] | None = None
        self._unfolded: set[str] = set()
        self._lines = SourceList(opens=False)
        self.frames = ListPane("Frames", lines=LineList(), id="frames")
        self.code = ListPane("Source", lines=self._lines, counted=False, id="source")
        self.sight = ListPane("In sight", lines=SightList(), counted=False, id="sight")
        self.lower = ListPane("Frame", lines=LineList(opens=False), counted=False, id="frame")

    @property
    def columns(self) -> Iterable[Widget]:
        return (self.frames, self.code, self.sight)

    @property
    def beyond(self) -> bool:
        """Whether one stands behind the last frame, where a journal that was cut off ends."""
        return self.frame is None or self.opened is None or self.frame >= len(self.opened.frames)

    @property
    def passed(self) -> bool:
        """Whether one stands at a frame behind the one at which the replay stopped agreeing: nothing ran there."""
        seen, frame = self.seen, self.frame
        return (
            seen is not None
            and seen.moment.diverged is not None
            and frame is not None
            and frame > seen.moment.frame
        )

    @property
    def line(self) -> int | None:
        """The source line where one stands."""
        return None if self._position is None else self._position[0]

    @property
    def place(self) -> str:
        """Where one stands, in words."""
        where = "" if self._position is None else f", {words.place(*self._position)}"
        if self.seen is not None and self.seen.at_statement:
            return f"statement {self.seen.moment.statement:,}{where}"
        return f"the end{where}" if self.beyond else f"frame {self.frame}{where}"

    def show(self, opened: Opened) -> None:
        """Show another run; ``stand`` says where."""
        self.opened, self._source = opened, SourceText(opened.script)
        self.seen, self.frame, self._position = None, None, None
        self.by_frames = False
        self.breakpoints.clear()
        self._unfolded.clear()
        for pane in (self.frames, self.code, self.sight):
            pane.clear_filter()
        self.frames.set_rows(FrameRows(opened, unicode=self._unicode))

    def stand(self, number: int) -> None:
        """Stand at a frame: what is recorded of it is shown, what is in sight there is not known yet."""
        opened = self.opened
        assert opened is not None
        self.frame, self.seen = number, None
        self.frames.list.go_to(END if self.beyond else str(number))
        self.fill_frame()
        self.fill_source(None if self.beyond else opened.frame_place(number))
        self.fill_sight()

    def see(self, seen: Seen, *, stays: bool) -> None:
        """Show what is in sight; unless the frame ``stays``, it is the one that the moment belongs to."""
        self.seen = seen
        self.by_frames = seen.level == "frames"
        moment = seen.moment
        if not stays and moment.frame != self.frame:
            self.frame = moment.frame
            self.frames.list.go_to(str(moment.frame))
            self.fill_frame()
        if moment.line is not None and not self.passed:
            self.fill_source((moment.line, moment.column or 1))
        elif not stays:
            self.fill_source(None)
        self.fill_sight()

    # What stands in each

    def fill_frame(self) -> None:
        opened = self.opened
        if opened is None:
            return
        number = None if self.beyond else self.frame
        self.lower.rename("Where it ends" if number is None else f"Frame {number}")
        width = self.lower.list.scrollable_content_region.width or max(20, self.lower.app.size.width - 4)
        lines = frame_lines(opened, number, width, unicode=self._unicode)
        longest = max(sum(len(span.text) for span in line) for line in lines)
        self.lower.list.set_rows(TextRows(lines, longest))
        self.lower.list.action_edge(-1)

    def fill_source(self, where: tuple[int, int] | None) -> None:
        opened = self.opened
        if opened is None:
            return
        title = f"{opened.name}, edited" if opened.edited else opened.name
        if where is not None:
            title += f"  {words.place(*where)}"
        if self.seen is not None and self.seen.at_statement:
            title += f"  statement {self.seen.moment.statement:,} of {self.seen.statements:,}"
        self.code.rename(title)
        self._position = where
        self.mark_source()
        line = None if where is None else where[0]
        if line is not None and not self._lines.show_row(str(line)):
            self.code.clear_filter()
            self._lines.show_row(str(line))

    def mark_source(self, line: int | None = None) -> None:
        """Draw position and breakpoints anew; with ``line``, put the cursor there."""
        if self._source is None:
            return
        here = None if self._position is None else self._position[0]
        self.code.list.set_rows(SourceRows(self._source, here, self.breakpoints, unicode=self._unicode))
        if line is not None:
            self._lines.go_to(str(line))

    def fill_sight(self) -> None:
        opened, seen = self.opened, self.seen
        if opened is None:
            return
        self.sight.rename("In sight where it ends" if self.beyond else f"In sight at frame {self.frame}")
        if seen is None:
            self.sight.list.set_empty(opened.travels or "Looking around.")
            self.sight.set_rows(TextRows())
        elif self.passed:
            self.sight.list.set_empty(
                f"Not run: the replay differs at frame {seen.moment.frame}, and nothing after it is run."
            )
            self.sight.set_rows(TextRows())
        else:
            self.sight.list.set_empty("Nothing is in sight here.")
            width = self.sight.list.scrollable_content_region.width or 40
            rows = sight_rows(opened, seen, width, unicode=self._unicode)
            self.sight.set_rows(SightRows(rows, self._unfolded))

    def refit(self) -> None:
        """Lay out again for another width."""
        if self.opened is not None:
            self.fill_frame()
            self.fill_source(self._position)
            self.fill_sight()

    # What is under the cursor

    def frame_under_cursor(self) -> int | None:
        """The frame under the cursor of Frames, which may be a key ahead of the one that is shown."""
        row = self.frames.list.current_id
        return int(row) if row is not None and row.isdigit() else None

    def value_under_cursor(self) -> Sight | None:
        """What is under the cursor of what is in sight."""
        rows, index = self.sight.list.rows, self.sight.list.current_index
        return rows.rows[index][0] if isinstance(rows, SightRows) and index is not None else None

    def toggle(self, index: int) -> None:
        """Show the value of a row of what is in sight whole, or on one line again."""
        rows = self.sight.list.rows
        if isinstance(rows, SightRows):
            self._unfolded ^= {rows.rows[index][0].key}
            self.fill_sight()

    def copied(self) -> tuple[str, str] | None:
        """A name and a value whole: what is under the cursor of the focused pane, else the frame."""
        for pane in (self.sight, self.code):
            if pane.has_focus_within:
                return copied_from(pane.list)
        if self.opened is None or self.frame is None or self.beyond:
            return None
        return f"frame {self.frame}", self.opened.frames[self.frame].raw
