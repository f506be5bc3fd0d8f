"""The Replay screen: one run opened read-only, its frames, its source, and what was in sight at any position."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from workflows_core.errors import UsageError, WorkflowError

from ...opening import open_run
from ...replaying import Given, Opened, read_run
from ...travelling import Act, Seen, go_to_place, read_place
from .. import keymap
from ..widgets.bars import KeyLine, ScreenTabs, TopLine
from ..widgets.lines import LineList
from .base import Column, WorkbenchScreen
from .replay_moves import Mover, afresh, stay, to_the_end
from .replay_panes import END, ReplayPanes


class ReplayScreen(WorkbenchScreen):
    """F5. Shows a run as it was when it was opened; nothing here changes it.

    A frame is shown at once; what was in sight there follows from a worker, which is ended when the screen is left.
    """

    NAME = "replay"
    KEEPS = False
    COLUMNS = (Column("frames", 30), Column("source", 44), Column("sight", 36))
    MAIN = "source"
    CSS_PATH = Path(__file__).with_name("replay.tcss")
    BINDINGS: ClassVar = [*keymap.bindings("replay")]

    def __init__(self) -> None:
        super().__init__()
        self._mover = Mover(self, self._arrived)
        #: What was typed for a what-if and not launched yet: by step, and None for the script.
        self.what_if_texts: dict[str | None, str] = {}
        self._loading = 0

    def compose(self) -> ComposeResult:
        yield TopLine(unicode=self.unicode)
        yield ScreenTabs(self.workbench.screen_titles, self.NAME)
        with Vertical(id="main"):
            with Horizontal(id="body"):
                yield from self.compose_columns()
            yield self.panes.lower
        yield KeyLine(lambda id: self.workbench.keymap.label(id, unicode=self.unicode))

    def compose_columns(self) -> Iterable[Widget]:
        self.panes = ReplayPanes(unicode=self.unicode)
        yield from self.panes.columns

    def home(self) -> Widget | None:
        return self.panes.frames.list

    @property
    def opened(self) -> Opened | None:
        """The run that is shown."""
        return self.panes.opened

    def on_mount(self) -> None:
        super().on_mount()
        key = self.workbench.key_label
        self.panes.frames.list.set_empty(
            f"No run is open. {key('runs.replay')} in Runs opens the run under the cursor, "
            f"{key('replay.open')} here a .wfrun file."
        )
        given: Given | None = self.workbench.given
        if given is not None:
            self.open(lambda: given)

    # Opening

    def show_run(self, run_id: str) -> None:
        """Open a run of the workspace."""
        self.open_target(run_id)

    def open_target(self, target: str) -> None:
        """Open what ``target`` names: a run, a bundle or a store file."""
        workspace = self.context.workspace
        self.open(lambda: Given(open_run(workspace, target)))

    def open(self, read: Callable[[], Given]) -> None:
        """Read a run off this thread and show it; what was shown before stays until then."""
        self._loading += 1
        self.run_worker(
            self._open(read, self._loading), group="refresh", exclusive=False, exit_on_error=False
        )

    async def _open(self, read: Callable[[], Given], number: int) -> None:
        try:
            async with self.busy("opening the run"):
                given = await asyncio.to_thread(read)
                opened = await read_run(given.bundle, given.script)
        except WorkflowError as error:
            self.workbench.failure(error)
            return
        if number != self._loading:
            return
        before = self._mover.begin(opened)
        self.panes.show(opened)
        self.what_if_texts.clear()
        self._show_frame(_first_shown(opened))
        if before is not None:
            await before.close(last=True)

    @work(group="dialog", exit_on_error=False)
    async def action_open_file(self) -> None:
        target = await self._ask(
            "Open",
            "A .wfrun file, a store file with one run, or the id of a run of this workspace. It is only read.",
        )
        if target:
            self.open_target(target)

    async def _ask(self, title: str, text: str, suggestion: str = "") -> str | None:
        """One line of text, or None."""
        from .author_dialogs import NameDialog

        return await self.app.push_screen_wait(NameDialog(suggestion, title=title, text=text))

    # Where one stands

    @on(LineList.Highlighted, "#frames LineList")
    def _frame_chosen(self, message: LineList.Highlighted) -> None:
        message.stop()
        if self.opened is None or message.row_id is None:
            return
        number = len(self.opened.frames) if message.row_id == END else int(message.row_id)
        if number != self.panes.frame:
            self._show_frame(number)

    def _show_frame(self, number: int) -> None:
        """Stand at frame ``number``: what is recorded is shown now, what was in sight once it is known.

        One more than the last frame is where a journal that was cut off ends. While another screen is in front, no
        worker is started: what is in sight is looked up when this one comes back.
        """
        opened = self.opened
        if opened is None or not opened.frames:
            self.panes.fill_frame()
            self.panes.fill_sight()
            return
        self.panes.stand(number)
        if not opened.travels and self in self.app.screen_stack:
            act: Act = to_the_end if self.panes.beyond else lambda debugger: debugger.go_to_frame(number)
            self._mover.move(act, fresh=True)
        self.refresh_bindings()

    def _arrived(self, seen: Seen, stays: bool) -> None:
        self.panes.see(seen, stays=stays)
        self.refresh_bindings()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self.panes.refit)

    @on(LineList.Selected, "#frames LineList")
    def _frame_opened(self, message: LineList.Selected) -> None:
        message.stop()
        self.panes.lower.list.focus()

    @on(LineList.Selected, "#sight LineList")
    def _value_opened(self, message: LineList.Selected) -> None:
        message.stop()
        self.panes.toggle(message.index)

    # Going through the run

    def on_screen_suspend(self) -> None:
        """The worker goes with the screen; a dialog in front of it keeps it."""
        if self not in self.app.screen_stack:
            self.run_worker(self._mover.close(), group="refresh", exit_on_error=False)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        opened, frame = self.opened, self.panes.frame
        if opened is None or frame is None or opened.travels or self._mover.moving:
            return
        if self.panes.seen is None:
            self._show_frame(frame)

    async def on_unmount(self) -> None:
        await self._mover.close()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        opened = self.opened
        if action in ("frame", "go_to", "copy_value"):
            return opened is not None and len(opened.frames) > 0
        if action in ("step", "run_to", "breakpoint", "watch", "history"):
            return opened is not None and not opened.travels and not self.panes.by_frames
        if action in ("console", "what_if"):
            return opened is not None and not opened.travels
        if action == "divergence":
            return opened is not None and opened.verdict.divergence is not None
        if action == "compare":
            return opened is not None and opened.bundle.record.parent_run_id is not None
        if action == "unwatch":
            value = self.panes.value_under_cursor()
            return value is not None and value.watch is not None
        return super().check_action(action, parameters)

    def action_frame(self, by: int) -> None:
        opened, seen = self.opened, self.panes.seen
        if opened is None or not opened.frames:
            return
        here = 0 if self.panes.frame is None else self.panes.frame
        at_statement = seen is not None and seen.at_statement
        target = here if by < 0 and at_statement else here + by
        self._show_frame(max(0, min(target, len(opened.frames) - (0 if opened.ending else 1))))

    def action_step(self, by: int) -> None:
        self._mover.move(lambda debugger: debugger.step() if by > 0 else debugger.step_back())

    def action_run_to(self, by: int) -> None:
        lines = sorted(self.panes.breakpoints)
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
        traveller, at = self._mover.traveller, self.panes.code.list.current_id
        if traveller is None or at is None:
            return
        line = await traveller.breakable(int(at))
        if line is None:
            self.workbench.notice("No statement follows this line.", title="No breakpoint here")
            return
        self.panes.breakpoints ^= {line}
        self.panes.mark_source(line)

    @work(group="dialog", exit_on_error=False)
    async def action_go_to(self) -> None:
        from .replay_looking import GoTo

        await self.app.push_screen_wait(GoTo(self._go_to))

    async def _go_to(self, text: str) -> None:
        """Stand at the place that ``text`` names. Raises UsageError where there is none; one stays then."""
        at, opened = read_place(text), self.opened
        if opened is None:
            return
        if at.kind == "end":
            self._show_frame(len(opened.frames) - (0 if opened.ending else 1))
        elif at.kind != "frame":
            await self._mover.moved(partial(go_to_place, at=at, first=False))
        elif at.number >= len(opened.frames):
            last = len(opened.frames) - 1
            raise UsageError(f"there is no frame {at.number}; the journal has frames 0 to {last}")
        else:
            self._show_frame(at.number)

    # Looking

    @work(group="dialog", exit_on_error=False)
    async def action_watch(self) -> None:
        traveller = self._mover.traveller
        text = await self._ask(
            "Watch an expression",
            "Its value is shown at every position. It runs in the worker that is thrown away, never in the run.",
        )
        if text and traveller is not None and text not in traveller.watches:
            traveller.watches.append(text)
            self._mover.move(stay, stays=True)

    def action_unwatch(self) -> None:
        """Take the watch under the cursor away."""
        value, traveller = self.panes.value_under_cursor(), self._mover.traveller
        if value is not None and value.watch is not None and traveller is not None:
            traveller.watches.remove(value.watch)
            self._mover.move(stay, stays=True)

    @work(group="dialog", exit_on_error=False)
    async def action_history(self) -> None:
        """The value of an expression at every frame: of the one under the cursor, else of one that is asked for."""
        from .replay_looking import History

        opened, traveller = self.opened, self._mover.traveller
        value = self.panes.value_under_cursor() if self.panes.sight.has_focus_within else None
        text = value.expression if value is not None else None
        if text is None:
            text = await self._ask(
                "History of an expression",
                "Its value at every frame of the run. Names, members and operators: nothing that could change something.",
            )
        if not text or opened is None or traveller is None:
            return
        try:
            async with self.busy("running through all frames"):
                found = await traveller.history(text)
        except UsageError as error:
            self.workbench.failure(error)
            return
        chosen = await self.app.push_screen_wait(
            History(text, opened, found, self.panes.frame, unicode=self.unicode)
        )
        if chosen is not None:
            self._show_frame(chosen)

    @work(group="dialog", exit_on_error=False)
    async def action_console(self) -> None:
        """Expressions at this place, one after another."""
        from .replay_looking import Console

        traveller = self._mover.traveller
        if traveller is None:
            return
        await self.app.push_screen_wait(Console(self.panes.place, traveller.evaluate))
        self._mover.move(afresh, stays=True)

    def action_copy_value(self) -> None:
        """Copy a value whole: what is under the cursor of what is in sight, the source, or the frame."""
        copied = self.panes.copied()
        if copied is not None:
            self.workbench.copy(*copied)

    def action_divergence(self) -> None:
        """Recorded and now, side by side, with the source at that line."""
        from .replay_dialogs import DivergenceScreen

        opened = self.opened
        if opened is not None and opened.verdict.divergence is not None:
            found = opened.verdict.divergence
            self._show_frame(min(found.frame, len(opened.frames) - 1))
            self.app.push_screen(DivergenceScreen(found, opened.script))

    # Asking what if

    @work(group="act", exit_on_error=False)
    async def action_what_if(self) -> None:
        """Edit a recorded answer or the script, see where it would first differ, and launch it as a new run."""
        from .replay_what_if import WhatIf

        if self.opened is not None:
            await WhatIf(self, self.opened, self.panes.frame_under_cursor()).ask()

    @work(group="act", exit_on_error=False)
    async def action_compare(self) -> None:
        """This run beside the one that it was made from."""
        from .replay_what_if import compare_with_parent

        if self.opened is not None:
            await compare_with_parent(self, self.opened)


def _first_shown(opened: Opened) -> int:
    """Where to stand in a run that was just opened: where it differs, where it was cut off, else at its last frame."""
    found = opened.verdict.divergence
    last = max(len(opened.frames) - 1, 0)
    if found is not None:
        return min(found.frame, last)
    return last + 1 if opened.ending and not opened.travels else last
