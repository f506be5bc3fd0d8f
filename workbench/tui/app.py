"""The application: which screens there are, what is shared by them, and how it starts and ends.

It composes screens and routes messages; what is shown of a run is computed in the screens. The engine has a
thread of its own behind the client, so a slow disk never freezes a key.
"""

from __future__ import annotations

import difflib
import os
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

from rich.text import Text
from textual import events, work
from textual.app import App
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from workflows_core.errors import WorkflowError
from workflows_core.model import RunState, RunSummary

from .. import words
from ..inert import inert
from . import keymap, remap
from .arrivals import Arrivals
from .book import RunBook
from .collector import IdleCollector
from .context import AppContext
from .messages import RunsChanged, Tick
from .palette import Command, Palette
from .refresh import Refresher
from .screens.dialogs import Answer, Dialog, Modal
from .screens.help import HelpScreen
from .screens.notices import Notice, NoticesScreen
from .widgets.bars import Standing, TopLine

if TYPE_CHECKING:
    from workflows_core.journal.bundle import Bundle

    from ..client import Client
    from ..workspace import Workspace
    from .screens.base import WorkbenchScreen

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
#: States in which a run waits for a person.
WAITS: Final = (RunState.PAUSED, RunState.WAITING_APPROVAL, RunState.WAITING_INPUT)
#: Panes whose keys are no commands: they move, or edit text.
_NO_COMMANDS: Final = frozenset({"list", "field", "button", "author.editor", "screen"})


class WorkbenchApp(App[int], inherit_bindings=False):
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
        given: Bundle | None = None,
    ) -> None:
        # Without colour, what is drawn must not need any: attributes only, on the terminal's own colours.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.context = context
        self.keymap = remap.load(context.settings.keymap)
        self.book = RunBook(context.client)
        self.standing = Standing(
            workspace=context.workspace.root.name or str(context.workspace.root),
            store=_store_word(context.client),
            who=context.client.identity(),
        )
        self.notices: deque[Notice] = deque(maxlen=200)
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

    def key_label(self, id: str) -> str:
        """The keys of a row of the keymap, as people write them."""
        return self.keymap.label(id, unicode=not self.ascii)

    # Start and end

    async def on_mount(self) -> None:
        self.set_keymap(self.keymap.overrides)
        self._apply_theme()
        await self.switch_mode(self._first if self._first in dict(self._titles) else self._titles[0][0])
        self.context.changes.listen(self._runs_changed)
        self._unsubscribe = self.context.client.subscribe(self.context.changes.note)
        self._reader.request()
        self.set_interval(1.0, self._second)
        for problem in self.keymap.problems:
            self.notice(problem, title="A key binding is not used", severity="warning")

    def on_ready(self) -> None:
        # What was painted is on its way to the terminal through another thread, which work here would hold up.
        if self._painted is not None:
            self.set_timer(HOSTING_SECONDS, self._painted)
        if self._collector is not None:
            self.set_timer(COLLECTING_SECONDS, self._collector.start)

    def hosting_changed(self) -> None:
        """Another process hosts the engine now, or this one does: read the runs and say so."""
        self._reader.request()

    def on_unmount(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self.context.changes.close()
        self._arrivals.close()
        if self._collector is not None:
            self._collector.stop()

    def _apply_theme(self) -> None:
        wanted = self.context.settings.theme
        if wanted in self.available_themes:
            self.theme = wanted
            return
        near = difflib.get_close_matches(wanted, self.available_themes, n=3) or sorted(self.available_themes)
        self.notice(
            f"There is no theme {wanted!r}; themes are {', '.join(near)} and others. The default is used.",
            title="The theme is not known",
            severity="warning",
        )

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
            waiting=self.book.count(*WAITS),
            broken=self.book.count(RunState.NEEDS_RECONCILIATION),
            store=_store_word(self.context.client),
        )
        self._arrivals.update(self.book.newest)
        for line in self.base_screen.query(TopLine):
            line.show(self.standing)
        self.base_screen.post_message(RunsChanged(changed))

    # Notices and failures

    def notice(
        self,
        message: str,
        *,
        title: str = "",
        severity: Literal["information", "warning", "error"] = "information",
    ) -> None:
        """Say something in passing. It is kept and can be read again; any text is inert."""
        message, title = inert(message, newlines=True), inert(title)
        self.notices.append(Notice(self.context.clock(), title, message, severity))
        self.notify(message, title=title, severity=severity, markup=False)

    def failure(self, error: BaseException) -> None:
        """Report an error that ended some work but not the application."""
        if isinstance(error, WorkflowError):
            self.notice(str(error), title=error.title, severity="error")
        else:
            self.notice(
                f"{type(error).__name__}: {error}", title="The workbench made a mistake", severity="error"
            )

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self.failure(event.worker.error)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy through the terminal (OSC 52); what is no text is replaced."""
        super().copy_to_clipboard(text.encode("utf-8", "replace").decode("utf-8"))

    def _fatal_error(self) -> None:
        """End after an error that nothing handled: words and a traceback without values.

        Values of variables could hold secrets or control characters of others, so none is shown.
        """
        lines = traceback.format_exc().splitlines()
        report = "\n".join(inert(line) for line in lines)
        self._exit_renderables.append(
            Text(
                f"The workbench stopped because of a mistake in itself. Runs are kept.\n{report}\n",
                no_wrap=True,
                overflow="ignore",
            )
        )
        self._close_messages_no_wait()

    # Keys of every screen

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        modal = isinstance(self.screen, Modal)
        if action in ("show_screen", "palette", "notices"):
            return not modal and (action != "show_screen" or parameters[0] in dict(self._titles))
        if action == "help":
            return not isinstance(self.screen, HelpScreen)
        if action == "leave":
            return not (isinstance(self.screen, LeaveDialog))
        return True

    def action_show_screen(self, name: str) -> None:
        if name in dict(self._titles) and self.current_mode != name:
            self.switch_mode(name)

    def show_run(self, run_id: str, *, on: str = "runs") -> None:
        """Go to Runs, or to another screen that shows runs, and put the cursor on ``run_id``."""

        def select() -> None:
            show = getattr(self.base_screen, "show_run", None)
            if show is not None:
                show(run_id)

        self.action_show_screen(on)
        self.call_after_refresh(select)

    @work(group="dialog", exit_on_error=False)
    async def action_palette(self) -> None:
        command = await self.push_screen_wait(Palette([*self._key_commands(), *self._other_commands()]))
        if command is not None:
            result = command.run()
            if isinstance(result, Awaitable):
                await result

    def _key_commands(self) -> Iterator[Command]:
        """What the keys that are active now would do."""
        seen: set[str] = set()
        for active in self.screen.active_bindings.values():
            row = keymap.BY_ID.get(active.binding.id or "")
            if row is None or row.pane in _NO_COMMANDS or row.id in seen or not active.enabled:
                continue
            if row.id in ("app.palette", "app.command", "app.keys") or "tab_" in row.id:
                continue
            seen.add(row.id)
            action, node = active.binding.action, active.node
            yield Command(
                row.verb.lower(),
                row.tooltip,
                partial(self.run_action, action, node),
                self.key_label(row.id),
            )

    def _other_commands(self) -> Iterator[Command]:
        commands = getattr(self.screen, "commands", None)
        if commands is not None:
            yield from commands()
        yield Command("theme", "Use other colours until the end of the session", self._ask_theme)

    @work(group="dialog", exit_on_error=False)
    async def _ask_theme(self) -> None:
        themes = [
            Command(name, "in use" if name == self.theme else "", partial(setattr, self, "theme", name))
            for name in sorted(self.available_themes)
        ]
        chosen = await self.push_screen_wait(Palette(themes, "Themes"))
        if chosen is not None:
            chosen.run()

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
        self.push_screen(NoticesScreen(tuple(self.notices), self.context.clock()))

    def action_copy_selection(self) -> None:
        text = self.screen.get_selected_text()
        if text:
            self.copy_to_clipboard(text)
            self.notice("The selected text is copied.")
        else:
            self.notice(f"{self.key_label('app.quit')} leaves the workbench.")

    @work(group="leave", exclusive=True, exit_on_error=False)
    async def action_leave(self) -> None:
        """Leave, after asking about unsaved work and saying what becomes of each live run."""
        for stack in self._screen_stacks.values():
            ask = getattr(stack[0], "may_leave", None) if stack else None
            if ask is not None and not await ask():
                return
        live = [run for run in await self.context.client.live() if run.state.owned]
        if live:
            text = farewell(live, owner=self.context.client.owner, unicode=not self.ascii)
            if await self.push_screen_wait(LeaveDialog(text)) != "leave":
                return
        self.exit(0)


def _store_word(client: Client) -> str:
    """Who owns the store, in a word or two."""
    if client.owner:
        return "embedded"
    pid = client.owner_pid()
    return "without owner" if pid is None else f"of process {pid}"


class LeaveDialog(Dialog):
    """Asks whether to leave although runs are live."""

    def __init__(self, text: str) -> None:
        super().__init__("Leave the workbench?", text, [Answer("stay", "Stay"), Answer("leave", "Leave")])


def farewell(live: Sequence[RunSummary], *, owner: bool, unicode: bool = True) -> str:
    """What becomes of each live run when this process ends. The text is inert."""
    lines = []
    for run in live:
        mark = words.run_mark(run.state)
        name = f"{mark.text(unicode=unicode)}  {inert(run.name or run.run_id)}"
        if not owner:
            fate = "goes on: another process owns this workspace"
        elif run.waiting is not None:
            fate = "becomes recoverable and keeps its wait: recover it, then answer"
        else:
            fate = "stops and becomes recoverable; recorded answers are kept"
        lines.append(f"{name}\n  {fate}")
    count = words.count(len(live), "run is", "runs are")
    return f"{count} live.\n\n" + "\n".join(lines)


def run_app(
    workspace: Workspace,
    client_factory: Callable[[], Awaitable[Client]],
    screen: str = "author",
    given: Bundle | None = None,
) -> int:
    """Open the workspace with ``client_factory``, run the application and return its exit code.

    ``given`` is a run that Replay opens at first.

    Raises WorkflowError where the workspace or the person's settings cannot be used. Whatever happens, the
    terminal is put back as it was and the client is closed.
    """
    from .start import run

    return run(workspace, client_factory, screen, given)
