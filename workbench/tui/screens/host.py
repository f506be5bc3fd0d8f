"""The Host screen: what runs in the process that owns the workspace, and what that uses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on, work
from textual.widget import Widget

from workflows_core.errors import WorkflowError

from ... import words
from ...hostview import HostReader, HostView
from ...inert import inert
from ...login import own_name
from .. import keymap
from ..messages import RunsChanged, Tick
from ..refresh import Refresher
from ..widgets.host_detail import SECTIONS, BlockList, HostDetail, SectionRows, Told
from ..widgets.lines import LineList
from ..widgets.pane import ListPane
from ..widgets.run_detail import copied_from
from .base import Column, WorkbenchScreen
from .dialogs import Answer, Dialog

if TYPE_CHECKING:
    from ...host.reloading import ReloadPlan, ReloadResult

#: Seconds between two readings while nothing is known to have changed.
READ_SECONDS: Final = 5
_TONES: Final = {"error": "bad", "warning": "waiting", "information": "strong"}


class HostScreen(WorkbenchScreen):
    """F6. Read when it is shown, when runs changed, and every few seconds; another owner is asked when it is shown."""

    NAME = "host"
    COLUMNS = (Column("sections", 26), Column("section", 50))
    MAIN = "sections"
    CSS_PATH = Path(__file__).with_name("host.tcss")
    BINDINGS: ClassVar = [*keymap.bindings("host")]

    def __init__(self) -> None:
        super().__init__()
        self._view: HostView | None = None
        #: The account that this person is logged in with.
        self._account: str | None = None
        self._ask = False
        self._stale = False
        self._seconds = 0
        self._reading = Refresher(self, self._read, "run")

    def compose_columns(self) -> Iterable[Widget]:
        self._reader = HostReader(self.context.client, self.context.workspace, self.context.clock)
        self._sections = ListPane("Host", lines=LineList(filterable=False), counted=False, id="sections")
        self._detail = HostDetail(key=self.workbench.key_label, unicode=self.unicode, id="section")
        yield self._sections
        yield self._detail

    def home(self) -> Widget | None:
        return self._sections.list

    async def refresh_all(self) -> None:
        self._fill()
        self._ask = True
        self._reading.request()

    # What is shown

    def on_runs_changed(self, message: RunsChanged) -> None:
        self._stale = True
        if self._view is None:
            self._reading.request()

    def on_tick(self, message: Tick) -> None:
        if not self.is_current:
            return
        self._seconds += 1
        if self._stale or self._seconds >= READ_SECONDS:
            self._reading.request()

    async def _read(self) -> None:
        ask, self._ask = self._ask, False
        self._stale, self._seconds = False, 0
        async with self.busy(
            "asking the owner" if ask and not self.context.client.owner else "reading the host"
        ):
            self._view = await self._reader.read(self.workbench.book.newest, ask=ask)
            self._account = await asyncio.to_thread(self.context.client.account)
        self._fill()

    def _fill(self) -> None:
        notices = [
            Told(each.at, each.title, each.message, _TONES[each.severity])
            for each in reversed(self.workbench.notices)
        ]
        self._sections.set_rows(SectionRows(self._view, len(notices)))
        self._detail.show(self._view, notices)
        self.refresh_bindings()

    @on(LineList.Highlighted, "#sections LineList")
    def _highlighted(self, message: LineList.Highlighted) -> None:
        message.stop()
        section = self._sections.list.current_id  # the row of now: the cursor may have gone on since
        if section is not None:
            self._detail.go_to(section)
            self.refresh_bindings()

    @on(LineList.Selected, "#sections LineList")
    def _section_opened(self, message: LineList.Selected) -> None:
        message.stop()
        self.reveal("section")
        self._detail.list.focus()

    @on(LineList.Selected, "#section LineList")
    def _block_opened(self, message: LineList.Selected) -> None:
        message.stop()
        self._detail.open_current()

    @on(LineList.Highlighted, "#section LineList")
    def _block_highlighted(self, message: LineList.Highlighted) -> None:
        message.stop()
        self.refresh_bindings()

    @on(BlockList.Widened)
    def _widened(self, message: BlockList.Widened) -> None:
        message.stop()
        self._detail.fill()

    # Acts

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "reload":
            return self.is_mounted and self._detail.section == "extensions" and self._owned()
        if action in ("log_in", "log_out"):
            return self.is_mounted and self._accounts() and (action == "log_in" or self._logged_in())
        if action == "end_session":
            return self.is_mounted and self._session() is not None
        if action in ("copy_value", "show_run"):
            block = self._detail.current() if self.is_mounted and self._detail.has_focus_within else None
            return block is not None and bool(block.value if action == "copy_value" else block.run_id)
        return super().check_action(action, parameters)

    def _owned(self) -> bool:
        return self._view is not None and self._view.owner_pid is not None

    def _accounts(self) -> bool:
        return self.context.workspace.config.auth.mode == "password"

    def _logged_in(self) -> bool:
        return self._account is not None

    def _session(self) -> str | None:
        """The log-in under the cursor, where it can be ended."""
        block = self._detail.current() if self._detail.has_focus_within else None
        if block is None or self._detail.section != "sessions" or not self._accounts():
            return None
        return block.id if block.id.startswith("password:") else None

    def action_section_at(self, number: int) -> None:
        """Go to the section with this number, from 1."""
        if 1 <= number <= len(SECTIONS):
            self._sections.list.go_to(SECTIONS[number - 1][0])

    def action_copy_value(self) -> None:
        """Copy the whole value of the block under the cursor."""
        copied = copied_from(self._detail.list)
        if copied is not None:
            self.workbench.copy(*copied)

    def action_show_run(self) -> None:
        """Show the workflow run of the event or of the assembly under the cursor."""
        block = self._detail.current()
        if block is not None and block.run_id is not None:
            self.workbench.show_run(block.run_id)

    @work(group="account", exclusive=True, exit_on_error=False)
    async def action_log_in(self) -> None:
        """Ask for account and password until they are right, or the person goes back."""
        from .host_log_in import LogInDialog

        dialog = LogInDialog(own_name(), self.context.client.log_in, unicode=self.unicode)
        name = await self.app.push_screen_wait(dialog)
        if name is not None:
            self.workbench.notice(f"{name} is logged in.", title="Log in")
            self._identity_changed()

    @work(group="account", exclusive=True, exit_on_error=False)
    async def action_log_out(self) -> None:
        text = (
            f"{inert(self._account or '')}\n\nThe session ends here and in every terminal. "
            "Live runs that it launched start no further Agent."
        )
        answers = [Answer("stay", "Stay logged in"), Answer("leave", "Log out")]
        if await self.app.push_screen_wait(Dialog("Log out?", text, answers)) != "leave":
            return
        async with self.busy("logging out"):
            name = await self.context.client.log_out()
        self.workbench.notice(f"{name} is logged out." if name else "Nobody was logged in.", title="Log out")
        self._identity_changed()

    @work(group="account", exclusive=True, exit_on_error=False)
    async def action_end_session(self) -> None:
        session_id = self._session()
        if session_id is None:
            return
        found = (
            next(each for each in self._view.sessions if each.session_id == session_id)
            if self._view
            else None
        )
        who = "" if found is None else f"{inert(found.user_id)}, {inert(found.description)}\n"
        text = f"{who}{inert(session_id)}\n\nIt cannot act again. Live runs that it launched start no further Agent."
        answers = [Answer("keep", "Leave it"), Answer("end", "End the session", danger=True)]
        if await self.app.push_screen_wait(Dialog("End this session?", text, answers)) != "end":
            return
        async with self.busy("ending the session"):
            await self.context.client.end_session(session_id)
        self.workbench.notice(f"{session_id} has ended.", title="Sessions")
        self._identity_changed()

    def _identity_changed(self) -> None:
        self.workbench.identity_changed()
        self._ask = True
        self._reading.request()

    @work(group="act", exit_on_error=False)
    async def action_reload(self) -> None:
        """Load the extension under the cursor anew, or all from the list of sections; live runs are named first."""
        block = self._detail.current() if self._detail.has_focus_within else None
        use = None if block is None else block.use
        client = self.context.client
        async with self.busy("looking at what it concerns"):
            plan = await client.plan_reload(use)
        if not plan.uses:
            why = " ".join(plan.notes) or "Those that are part of the workbench stay while it runs."
            self.workbench.notice(f"There is nothing to load anew. {why}", title="Reload")
            return
        answers = [Answer("keep", "Leave them"), Answer("reload", "Reload")]
        title = "Reload this extension?" if len(plan.uses) == 1 else "Reload these extensions?"
        if await self.app.push_screen_wait(Dialog(title, planned(plan), answers)) != "reload":
            return
        try:
            async with self.busy("reloading"):
                result = await client.reload(use)
        except WorkflowError as error:
            self.workbench.failure(error)
        else:
            self.workbench.notice(
                reloaded(result), title="Reload", severity="warning" if result.failed else "information"
            )
        self._ask = True
        self._reading.request()


def planned(plan: ReloadPlan) -> str:
    """What a reload would do, the live runs that it affects first. The text is inert."""
    parts: list[str] = []
    if plan.runs:
        count = words.count(len(plan.runs), "live run keeps", "live runs keep")
        lines = [
            f"{count} the version that it began with:"
            if len(plan.runs) == 1
            else f"{count} what they began with:"
        ]
        for run in plan.runs:
            lines.append(f"  {inert(run.name) or run.run_id}, {inert(run.state)}")
            if run.note:
                lines.append(f"    {inert(run.note)}")
        parts.append("\n".join(lines))
    else:
        parts.append("No run is live.")
    parts.append("\n".join(["Loaded anew:", *(f"  {inert(use)}" for use in plan.uses)]))
    if plan.notes:
        parts.append("\n".join(inert(note) for note in plan.notes))
    parts.append("What cannot be loaded stays as it is. What an extension keeps in memory begins anew.")
    return "\n\n".join(parts)


def reloaded(result: ReloadResult) -> str:
    """What became of a reload, in words."""
    lines = [f"reloaded {use}" for use in result.reloaded]
    lines += [f"not reloaded: {failure.use}: {failure.message}" for failure in result.failed]
    return "\n".join(lines) or "nothing was reloaded"
