"""The application: which screens there are, what is shared by them, and how it starts and ends.

It composes screens and routes messages; what is shown of a run is computed in the screens. The engine has a
thread of its own behind the client, so a slow disk never freezes a key.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from textual import events, work
from textual.driver import Driver
from textual.screen import Screen
from textual.widget import Widget

from workflows_core.errors import StoreError
from workflows_core.model import RunState

from ..review import Act
from . import keymap, remap, themes
from .arrivals import Arrivals
from .book import RunBook
from .collector import IdleCollector
from .commands import commands
from .context import AppContext
from .leaving import LeaveDialog, farewell
from .messages import RunsChanged, Tick
from .palette import Command, Palette
from .refresh import Refresher
from .reporting import Reporting
from .screens.base import WorkbenchScreen
from .screens.dialogs import Modal
from .screens.help import HelpScreen
from .screens.notices import NoticesScreen
from .widgets.bars import Standing, TopLine
from .widgets.lines import LineList

if TYPE_CHECKING:
    from ..client import Client
    from ..replaying import Given
    from ..workspace import Workspace

#: The screens that exist: name, title, and where the class is.
SCREENS: Final[Mapping[str, tuple[str, str]]] = {
    "author": ("Author", "workbench.tui.screens.author:AuthorScreen"),
    "runs": ("Runs", "workbench.tui.screens.runs:RunsScreen"),
    "review": ("Review", "workbench.tui.screens.review:ReviewScreen"),
    "replay": ("Replay", "workbench.tui.screens.replay:ReplayScreen"),
    "host": ("Host", "workbench.tui.screens.host:HostScreen"),
}

#: Seconds after the first paint at which the engine is hosted, and at which garbage is looked for.
HOSTING_SECONDS: Final = 0.05
COLLECTING_SECONDS: Final = 0.5


class WorkbenchApp(Reporting, inherit_bindings=False):
    """``screen`` names the screen that is shown first. ``screens`` gives other classes, for tests.

    ``painted`` is called once, after the first paint.
    """

    TITLE = "workbench"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    NOTIFICATION_TIMEOUT = 6
    BINDINGS = keymap.bindings("app")

    def __init__(
        self,
        context: AppContext,
        *,
        screen: str = "author",
        screens: Mapping[str, Callable[[], Screen[Any]]] | None = None,
        collector: IdleCollector | None = None,
        painted: Callable[[], None] | None = None,
        given: Given | None = None,
        driver_class: type[Driver] | None = None,
    ) -> None:
        # Without colour, what is drawn must not need any: attributes only, on the terminal's own colours.
        super().__init__(driver_class, ansi_color=True if "NO_COLOR" in os.environ else None)
        self.context = context
        self.keymap = remap.load(context.settings.keymap, letters=context.settings.hjkl)
        self.book = RunBook(context.client)
        self.standing = Standing(
            workspace=context.workspace.root.name or str(context.workspace.root),
            store=_store_word(context.client),
            who=context.client.identity(),
        )
        self._first = screen
        self._collector = collector
        self._painted = painted
        #: The run that Replay opens at first.
        self.given = given
        #: The run that was launched here last, until Runs has put its cursor on it.
        self.launched: str | None = None
        self._titles = [(name, SCREENS[name][0]) for name in (screens or SCREENS)]
        for name, (_title, where) in SCREENS.items():
            if screens is None:
                self.add_mode(name, partial(self._make_screen, where))
            elif name in screens:
                self.add_mode(name, screens[name])
        self._arrivals = Arrivals(self)
        self._changed: set[str] = set()
        self._reader = Refresher(self, self._read_changes, "runs")
        self._unsubscribe: Callable[[], None] | None = None

    def _make_screen(self, where: str) -> WorkbenchScreen:
        module, _, name = where.partition(":")
        made: WorkbenchScreen = getattr(import_module(module), name)()
        # The style sheet has the theme's variables already: a new screen is no reason to parse it all again.
        made._css_update_count = self._css_update_count
        return made

    @property
    def screen_titles(self) -> Sequence[tuple[str, str]]:
        """Name and title of each screen that exists, in the order of their keys."""
        return self._titles

    @property
    def ascii(self) -> bool:
        """Whether to draw without Unicode."""
        return self.context.settings.ascii

    def failure(self, error: BaseException) -> None:
        from ..login import NotLoggedIn

        if isinstance(error, NotLoggedIn):
            log_in, host = self.key_label("host.log_in"), self.key_label("app.host")
            error = NotLoggedIn(
                f"Nobody is logged in, so nothing was done. {log_in} on Host ({host}) logs in."
            )
        super().failure(error)

    def key_label(self, id: str) -> str:
        """The keys of a row of the keymap, as people write them."""
        return self.keymap.label(id, unicode=not self.ascii)

    # Start and end

    async def on_mount(self) -> None:
        self.set_keymap(self.keymap.overrides)
        self.set_class(self.ascii, "-ascii")
        themes.apply(self, self.context.settings.theme)
        await self.switch_mode(self._first if self._first in dict(self._titles) else self._titles[0][0])
        self.context.changes.listen(self._runs_changed)
        self._unsubscribe = self.context.client.subscribe(self.context.changes.note)
        self._reader.request()
        self.set_interval(1.0, self._second)
        self._read_notices()
        for problem in self.keymap.problems:
            self.notice(problem, title="A key binding is not used", severity="warning")

    def on_ready(self) -> None:
        # What was painted is on its way to the terminal through another thread, which work here would hold up.
        if self._painted is not None:
            self.set_timer(HOSTING_SECONDS, self._painted)
        if self._collector is not None:
            self.set_timer(COLLECTING_SECONDS, self._collector.start)

    def identity_changed(self) -> None:
        """Somebody has logged in or out: say so on every screen, and read the runs."""
        self.standing = replace(self.standing, who=self.context.client.identity())
        for line in self.base_screen.query(TopLine):
            line.show(self.standing)
        self._reader.request()

    def hosting_changed(self) -> None:
        """Another process hosts the engine now, or this one does: read the runs and say so."""
        self._reader.request()

    def on_unmount(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self.context.changes.close()
        self.context.settings.session.try_save()
        self.context.settings.notices.write()
        if self._collector is not None:
            self._collector.stop()

    def _second(self) -> None:
        if self._screen_stack:  # empty while the application ends
            self.base_screen.post_message(Tick(self.context.clock()))
        if self._collector is not None:
            self._collector.poll()

    async def on_event(self, event: events.Event) -> None:
        if self._collector is not None and isinstance(event, events.Key):
            self._collector.key()
        await super().on_event(event)

    # What is live

    @property
    def base_screen(self) -> Screen[Any]:
        """The screen under all dialogs."""
        return self.screen_stack[0]

    def _runs_changed(self, run_ids: frozenset[str]) -> None:
        self._changed |= run_ids
        self._reader.request()

    async def _read_changes(self) -> None:
        """Bring the book up to date, then the top line, then tell the screen."""
        changed, self._changed = frozenset(self._changed), set()
        await (self.book.update(changed) if self.book.loaded else self.book.load())
        self.standing = replace(
            self.standing,
            running=self.book.count(RunState.RUNNING, RunState.QUEUED),
            waiting=len(self.book.waiting),
            to_settle=sum(item.act is Act.RECONCILE for item in self.book.waiting),
            store=_store_word(self.context.client),
        )
        self._arrivals.update(self.book.waiting)
        for line in self.base_screen.query(TopLine):
            line.show(self.standing)
        self.base_screen.post_message(RunsChanged(changed))

    # Keys of every screen

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        modal = isinstance(self.screen, Modal)
        if action in ("show_screen", "palette", "notices"):
            return not modal and (action != "show_screen" or parameters[0] in dict(self._titles))
        if action == "help":
            return not isinstance(self.screen, HelpScreen)
        if action == "leave":
            return not any(worker.group == "leave" and not worker.is_finished for worker in self.workers)
        return True

    def action_show_screen(self, name: str) -> None:
        if name in dict(self._titles) and self.current_mode != name:
            self.switch_mode(name)

    def show_widget(self, widget: Widget) -> None:
        """Give the focus to a widget of the screen, out of a column that is folded away."""
        screen = self.base_screen
        if isinstance(screen, WorkbenchScreen) and (column := screen.column_of(widget)) is not None:
            screen.reveal(column)
        widget.focus()

    def show_run(self, run_id: str, *, on: str = "runs", step: tuple[str, int] | None = None) -> None:
        """Go to Runs, or to another screen that shows runs, and put the cursor on ``run_id``.

        ``step`` is the stepId and the attempt of a step to go to in Runs.
        """

        def select() -> None:
            show = getattr(self.base_screen, "show_run", None)
            if show is not None:
                show(run_id) if step is None else show(run_id, step)

        self.action_show_screen(on)
        self.call_after_refresh(select)

    @work(group="dialog", exit_on_error=False)
    async def action_palette(self) -> None:
        command = await self.push_screen_wait(Palette([*commands(self)]))
        if command is not None:
            result = command.run()
            if isinstance(result, Awaitable):
                await result

    def workbench_commands(self) -> Iterator[Command]:
        """Commands that no key has: those of the screen, and the application's."""
        commands = getattr(self.screen, "commands", None)
        if commands is not None:
            yield from commands()
        yield Command("theme", "Use other colours until the end of the session", self._ask_theme)

    @work(group="dialog", exit_on_error=False)
    async def _ask_theme(self) -> None:
        await themes.ask(self)

    def action_help(self) -> None:
        self.push_screen(HelpScreen(self._active_panes(), self.keymap, unicode=not self.ascii))

    def _active_panes(self) -> list[str]:
        """The panes of the keys that are active now, innermost first."""
        panes: dict[str, None] = {}
        for active in self.screen.active_bindings.values():
            row = keymap.BY_ID.get(active.binding.id or "")
            if row is not None:
                panes[row.pane] = None
        return sorted(panes, key=lambda pane: ("." not in pane, pane == "screen", pane == "app"))

    def action_notices(self) -> None:
        self.push_screen(NoticesScreen(self.notices, self.context.clock()))

    def action_copy_selection(self) -> None:
        text = self.screen.get_selected_text()
        if text:
            self.copy("the selected text", text)
        else:
            self.notice(f"{self.key_label('app.quit')} leaves the workbench.")

    @work(group="dialog", exit_on_error=False)
    async def action_copy_more(self) -> None:
        """Ask what of the focused list to copy, and to where."""
        from . import copy_menu

        if isinstance(self.focused, LineList):
            await copy_menu.ask(self, self.focused)

    def _busy(self, what: str) -> AbstractAsyncContextManager[None]:
        screen = self.base_screen
        return screen.busy(what) if isinstance(screen, WorkbenchScreen) else nullcontext()

    @work(group="leave", exit_on_error=False)
    async def action_leave(self) -> None:
        """Leave, after asking about unsaved work and saying what becomes of each live run."""
        for stack in self._screen_stacks.values():
            if stack and isinstance(stack[0], WorkbenchScreen):
                stack[0].keep()
            ask = getattr(stack[0], "may_leave", None) if stack else None
            if ask is not None and not await ask():
                return
        async with self._busy("looking at live runs"):
            live = [run for run in await self.context.client.live() if run.state.owned]
        if live:
            client, ending = self.context.client, {}
            with suppress(StoreError):  # Leaving works whatever the store says.
                ending = await client.calls_that_end() if client.owner else {}
            text = farewell(live, owner=client.owner, ending=ending, unicode=not self.ascii)
            if await self.push_screen_wait(LeaveDialog(text)) != "leave":
                return
        self.exit(0)


def _store_word(client: Client) -> str:
    """Who owns the store, in a word or two."""
    if client.owner:
        return "embedded"
    pid = client.owner_pid()
    return "without owner" if pid is None else f"of process {pid}"


def run_app(
    workspace: Workspace,
    client_factory: Callable[[], Awaitable[Client]],
    screen: str = "author",
    given: Given | None = None,
) -> int:
    """Open the workspace with ``client_factory``, run the application and return its exit code.

    ``given`` is a run that Replay opens at first.

    Raises WorkflowError where the workspace or the person's settings cannot be used. Whatever happens, the
    terminal is put back as it was and the client is closed.
    """
    from .start import run

    return run(workspace, client_factory, screen, given)
