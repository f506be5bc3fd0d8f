"""The Replay screen: one run opened read-only, its frames, its source, and what was in sight at any position."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, Final

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from workflows_core.errors import WorkflowError
from workflows_core.journal.bundle import Bundle

from ... import words
from ...opening import open_run
from ...replaying import Act, Opened, Seen, read_run
from .. import keymap
from ..widgets.bars import KeyLine, ScreenTabs, TopLine
from ..widgets.lines import LineList, TextRows
from ..widgets.pane import ListPane
from ..widgets.replay_rows import FrameRows, SightRows, SourceRows, frame_lines, sight_rows
from ..widgets.run_detail import copied_from
from ..widgets.run_rows import SourceText
from .base import Column, WorkbenchScreen
from .replay_moves import Mover, stay, to_the_end

#: Lines of the source that stay visible around the position.
AROUND: Final = 3


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


class ReplayScreen(WorkbenchScreen):
    """F5. Shows a run as it was when it was opened; nothing here changes it.

    A frame is shown at once; what was in sight there follows from a worker, which is ended when the screen is left.
    """

    NAME = "replay"
    COLUMNS = (Column("frames", 30), Column("source", 44), Column("sight", 36))
    MAIN = "source"
    CSS_PATH = Path(__file__).with_name("replay.tcss")
    BINDINGS: ClassVar = [*keymap.bindings("replay")]

    def __init__(self) -> None:
        super().__init__()
        self._opened: Opened | None = None
        self._source: SourceText | None = None
        self._seen: Seen | None = None
        self._frame: int | None = None
        self._position: tuple[int, int] | None = None
        self._breakpoints: set[int] = set()
        self._unfolded: set[str] = set()
        self._mover = Mover(self, self._arrived)
        self._loading = 0

    def compose(self) -> ComposeResult:
        yield TopLine(unicode=self.unicode)
        yield ScreenTabs(self.workbench.screen_titles, self.NAME)
        with Vertical(id="main"):
            with Horizontal(id="body"):
                yield from self.compose_columns()
            self._lower = ListPane("Frame", lines=LineList(opens=False), counted=False, id="frame")
            yield self._lower
        yield KeyLine(lambda id: self.workbench.keymap.label(id, unicode=self.unicode))

    def compose_columns(self) -> Iterable[Widget]:
        self._frames = ListPane("Frames", lines=LineList(), id="frames")
        self._lines = SourceList(opens=False)
        self._code = ListPane("Source", lines=self._lines, counted=False, id="source")
        self._sight = ListPane("In sight", lines=SightList(), counted=False, id="sight")
        yield self._frames
        yield self._code
        yield self._sight

    def home(self) -> Widget | None:
        return self._frames.list

    def on_mount(self) -> None:
        super().on_mount()
        key = self.workbench.key_label
        self._frames.list.set_empty(
            f"No run is open. {key('runs.replay')} in Runs opens the run under the cursor, "
            f"{key('replay.open')} here a .wfrun file."
        )
        given: Bundle | None = self.workbench.given
        if given is not None:
            self.open(lambda: given)

    # Opening

    def show_run(self, run_id: str) -> None:
        """Open a run of the workspace."""
        self.open_target(run_id)

    def open_target(self, target: str) -> None:
        """Open what ``target`` names: a run, a bundle or a store file."""
        workspace = self.context.workspace
        self.open(lambda: open_run(workspace, target))

    def open(self, read: Callable[[], Bundle]) -> None:
        """Read a bundle off this thread and show it; what was shown before stays until then."""
        self._loading += 1
        self.run_worker(
            self._open(read, self._loading), group="refresh", exclusive=False, exit_on_error=False
        )

    async def _open(self, read: Callable[[], Bundle], number: int) -> None:
        try:
            async with self.busy("opening the run"):
                opened = await read_run(await asyncio.to_thread(read))
        except WorkflowError as error:
            self.workbench.failure(error)
            return
        if number != self._loading:
            return
        await self._mover.begin(opened)
        self._opened = opened
        self._source = SourceText(opened.bundle.script)
        self._seen, self._frame = None, None
        self._breakpoints.clear()
        self._unfolded.clear()
        for pane in (self._frames, self._code, self._sight):
            pane.clear_filter()
        self._frames.set_rows(FrameRows(opened, unicode=self.unicode))
        found = opened.verdict.divergence
        last = max(len(opened.frames) - 1, 0)
        self._show_frame(min(found.frame, last) if found is not None else last)

    @work(group="dialog", exit_on_error=False)
    async def action_open_file(self) -> None:
        from .author_dialogs import NameDialog

        target = await self.app.push_screen_wait(
            NameDialog(
                "",
                title="Open",
                text="A .wfrun file, a store file with one run, or the id of a run of this workspace. It is only read.",
            )
        )
        if target:
            self.open_target(target)

    # Where one stands

    @on(LineList.Highlighted, "#frames LineList")
    def _frame_chosen(self, message: LineList.Highlighted) -> None:
        message.stop()
        if self._opened is None or message.row_id is None:
            return
        number = len(self._opened.frames) if message.row_id == "end" else int(message.row_id)
        if number != self._frame:
            self._show_frame(number)

    def _show_frame(self, number: int) -> None:
        """Stand at frame ``number``: what is recorded is shown now, what was in sight once it is known.

        One more than the last frame is where a journal that was cut off ends.
        """
        opened = self._opened
        if opened is None or not opened.frames:
            self._fill_frame(None)
            self._fill_sight()
            return
        self._frame = number
        self._seen = None
        beyond = number >= len(opened.frames)
        self._frames.list.go_to("end" if beyond else str(number))
        self._fill_frame(None if beyond else number)
        self._fill_source(None if beyond else opened.frame_place(number))
        self._fill_sight()
        if not opened.travels:
            act: Act = to_the_end if beyond else lambda debugger: debugger.go_to_frame(number)
            self._mover.move(act, fresh=True)
        self.refresh_bindings()

    def _arrived(self, seen: Seen, stays: bool) -> None:
        self._seen = seen
        moment = seen.moment
        if not stays and moment.frame != self._frame:
            self._frame = moment.frame
            self._frames.list.go_to(str(moment.frame))
            self._fill_frame(moment.frame)
        passed = moment.diverged is not None and self._frame is not None and self._frame > moment.frame
        if moment.line is not None and not passed:
            self._fill_source((moment.line, moment.column or 1))
        elif not stays:
            self._fill_source(None)
        self._fill_sight()
        self.refresh_bindings()

    # Panes

    def _fill_frame(self, number: int | None) -> None:
        if self._opened is None:
            return
        self._lower.rename(
            "Where it ends" if number is None or number >= len(self._opened.frames) else f"Frame {number}"
        )
        width = self._lower.list.scrollable_content_region.width or max(20, self.size.width - 4)
        lines = frame_lines(self._opened, number, width, unicode=self.unicode)
        longest = max(sum(len(span.text) for span in line) for line in lines)
        self._lower.list.set_rows(TextRows(lines, longest))
        self._lower.list.action_edge(-1)

    def _fill_source(self, where: tuple[int, int] | None) -> None:
        opened, source = self._opened, self._source
        if opened is None or source is None:
            return
        title = opened.name
        if where is not None:
            title += f"  {words.place(*where)}"
        if self._seen is not None and self._seen.at_statement:
            title += f"  statement {self._seen.moment.statement:,} of {self._seen.statements:,}"
        self._code.rename(title)
        line = None if where is None else where[0]
        self._code.list.set_rows(SourceRows(source, line, self._breakpoints, unicode=self.unicode))
        self._position = where
        if line is not None and not self._lines.show_row(str(line)):
            self._code.clear_filter()
            self._lines.show_row(str(line))

    def _fill_sight(self) -> None:
        opened, seen = self._opened, self._seen
        if opened is None:
            return
        beyond = self._frame is None or self._frame >= len(opened.frames)
        self._sight.rename("In sight where it ends" if beyond else f"In sight at frame {self._frame}")
        if seen is None:
            self._sight.list.set_empty(opened.travels or "Looking around.")
            self._sight.set_rows(TextRows())
            return
        passed = (
            seen.moment.diverged is not None and self._frame is not None and self._frame > seen.moment.frame
        )
        if passed:
            self._sight.list.set_empty(
                f"Not run: the replay differs at frame {seen.moment.frame}, and nothing after it is run."
            )
            self._sight.set_rows(TextRows())
            return
        self._sight.list.set_empty("Nothing is in sight here.")
        self._sight.set_rows(SightRows(sight_rows(opened, seen), self._unfolded))

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._refit)

    def _refit(self) -> None:
        if self._opened is not None:
            self._fill_frame(self._frame)
            self._fill_source(self._position)

    @on(LineList.Selected, "#frames LineList")
    def _frame_opened(self, message: LineList.Selected) -> None:
        message.stop()
        self._lower.list.focus()

    @on(LineList.Selected, "#sight LineList")
    def _value_opened(self, message: LineList.Selected) -> None:
        """Show the value under the cursor whole, or on one line again."""
        message.stop()
        rows = self._sight.list.rows
        if isinstance(rows, SightRows):
            self._unfolded ^= {rows.rows[message.index][0].key}
            self._fill_sight()

    # Going through the run

    def on_screen_suspend(self) -> None:
        """The worker goes with the screen; a dialog in front of it keeps it."""
        if self not in self.app.screen_stack:
            self.run_worker(self._mover.close(), group="refresh", exit_on_error=False)

    async def on_unmount(self) -> None:
        await self._mover.close()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        opened = self._opened
        if action in ("frame", "go_to", "copy_value"):
            return opened is not None and len(opened.frames) > 0
        if action in ("step", "run_to", "breakpoint", "watch"):
            return opened is not None and not opened.travels
        if action == "divergence":
            return opened is not None and opened.verdict.divergence is not None
        if action == "what_if":
            return opened is not None and self._answered(opened)
        if action == "unwatch":
            return self._watch_here() is not None
        return super().check_action(action, parameters)

    def _answered(self, opened: Opened) -> bool:
        """Whether the frame has an answer that can be replaced."""
        from .replay_what_if import answers_at

        number = self._under_cursor()
        return not opened.travels and number is not None and bool(answers_at(opened, number))

    def _under_cursor(self) -> int | None:
        """The frame under the cursor, which may be a key ahead of the one that is shown."""
        row = self._frames.list.current_id
        return int(row) if row is not None and row.isdigit() else None

    def action_frame(self, by: int) -> None:
        opened, seen = self._opened, self._seen
        if opened is None or not opened.frames:
            return
        here = 0 if self._frame is None else self._frame
        at_statement = seen is not None and seen.at_statement
        target = here if by < 0 and at_statement else here + by
        self._show_frame(max(0, min(target, len(opened.frames) - (0 if opened.ending else 1))))

    def action_step(self, by: int) -> None:
        self._mover.move(lambda debugger: debugger.step() if by > 0 else debugger.step_back())

    def action_run_to(self, by: int) -> None:
        lines = sorted(self._breakpoints)
        if not lines:
            self.workbench.notice(
                f"{self.workbench.key_label('replay.breakpoint')} sets one on the line under the cursor of the source.",
                title="There is no breakpoint",
            )
            return
        self._mover.move(lambda debugger: debugger.run_to(lines) if by > 0 else debugger.run_back_to(lines))

    @work(group="run", exit_on_error=False)
    async def action_breakpoint(self) -> None:
        """Set a breakpoint on the line under the source's cursor, or where the next statement is; or clear it."""
        traveller, at = self._mover.traveller, self._code.list.current_id
        if traveller is None or at is None:
            return
        line = await traveller.breakable(int(at))
        if line is None:
            self.workbench.notice("No statement follows this line.", title="No breakpoint here")
            return
        self._breakpoints ^= {line}
        source = self._source
        if source is not None:
            number = None if self._position is None else self._position[0]
            self._code.list.set_rows(SourceRows(source, number, self._breakpoints, unicode=self.unicode))
            self._lines.go_to(str(line))

    @work(group="dialog", exit_on_error=False)
    async def action_watch(self) -> None:
        from .author_dialogs import NameDialog

        traveller = self._mover.traveller
        text = await self.app.push_screen_wait(
            NameDialog(
                "",
                title="Watch an expression",
                text="Its value is shown at every position. It runs in the worker that is thrown away, never in the run.",
            )
        )
        if text and traveller is not None and text not in traveller.watches:
            traveller.watches.append(text)
            self._mover.move(stay, stays=True)

    def _watch_here(self) -> str | None:
        rows, index = self._sight.list.rows, self._sight.list.current_index
        return rows.rows[index][0].watch if isinstance(rows, SightRows) and index is not None else None

    def action_unwatch(self) -> None:
        """Take the watch under the cursor away."""
        text, traveller = self._watch_here(), self._mover.traveller
        if text is not None and traveller is not None:
            traveller.watches.remove(text)
            self._mover.move(stay, stays=True)

    @work(group="dialog", exit_on_error=False)
    async def action_go_to(self) -> None:
        from .author_dialogs import NameDialog

        text = await self.app.push_screen_wait(
            NameDialog(
                "",
                title="Go to",
                text="6 is frame 6. #40 is the 40th statement of the run. :12 is the next time that line 12 runs.",
            )
        )
        if text and self._opened is not None:
            self._go_to(text, self._opened)

    def _go_to(self, text: str, opened: Opened) -> None:
        sign, digits = (text[0], text[1:].strip()) if text[0] in "#:" else ("", text)
        if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
            self.workbench.notice(
                f"{text} is no frame; write a number, #STATEMENT or :LINE.", title="Go to", severity="warning"
            )
            return
        number = int(digits)
        if sign == "":
            if number >= len(opened.frames):
                last = len(opened.frames) - 1
                self.workbench.notice(
                    f"There is no frame {number}; the last one is {last}.", title="Go to", severity="warning"
                )
                return
            self._show_frame(number)
        elif sign == "#":
            self._mover.move(lambda debugger: debugger.go_to_statement(number))
        else:
            self._mover.move(lambda debugger: debugger.run_to([number]))

    # Reading and asking what if

    def action_copy_value(self) -> None:
        """Copy a value whole: what is under the cursor of what is in sight, the source, or the frame."""
        for pane in (self._sight, self._code):
            if pane.has_focus_within:
                copied = copied_from(pane.list)
                break
        else:
            number = self._frame
            if self._opened is None or number is None or number >= len(self._opened.frames):
                return
            copied = (f"frame {number}", self._opened.frames[number].raw)
        if copied is not None:
            self.app.copy_to_clipboard(copied[1])
            size = words.kib(len(copied[1].encode("utf-8", "replace")))
            self.workbench.notice(f"{copied[0]} ({size})", title="Copied")

    def action_divergence(self) -> None:
        """Recorded and now, side by side, with the source at that line."""
        from .replay_dialogs import DivergenceScreen

        opened = self._opened
        if opened is not None and opened.verdict.divergence is not None:
            found = opened.verdict.divergence
            self._show_frame(min(found.frame, len(opened.frames) - 1))
            self.app.push_screen(DivergenceScreen(found, opened.bundle.script))

    @work(group="act", exit_on_error=False)
    async def action_what_if(self) -> None:
        """Edit a recorded answer, say where the run would first differ, and launch it as a new run."""
        from .replay_what_if import what_if

        number = self._under_cursor()
        if self._opened is not None and number is not None:
            await what_if(self, self._opened, number)
