"""What all screens share: the top line, the tabs, the bottom line, columns that fold, and what takes time.

A screen's body is one row of columns. Where the terminal is too narrow for all of them, the column with the
focus stays, then the main one, then the others in their order, as far as they fit; the rest fold away and
come back when the focus goes there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import Worker

from .. import keymap
from ..context import AppContext
from ..messages import RunsChanged, Tick
from ..refresh import Refresher
from ..widgets.bars import KeyLine, ScreenTabs, TopLine
from ..widgets.pane import Field, list_pane_of

if TYPE_CHECKING:
    from ..app import WorkbenchApp
    from ..palette import Command

#: With fewer lines than this, screens leave out the empty ones.
SHORT = 30
#: Work that lasts longer than this shows that it is under way.
BUSY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the body: its widget's id and the cells below which it is of no use."""

    id: str
    width: int


class WorkbenchScreen(Screen[None], inherit_bindings=False):
    """Base of the screens that F2 to F6 show.

    A subclass sets ``NAME``, ``COLUMNS`` and ``MAIN``, gives its columns in ``compose_columns`` and answers
    ``RunsChanged`` and ``Tick`` with handlers of its own. ``refresh_all`` is called when the screen is shown.
    """

    NAME: ClassVar[str] = ""
    #: The columns, left to right.
    COLUMNS: ClassVar[tuple[Column, ...]] = ()
    #: The id of the column that stays longest when the terminal is narrow, and that escape leads to.
    MAIN: ClassVar[str] = ""
    #: Whether the next start finds filter and cursor of the screen's list again; not where it shows something else.
    KEEPS: ClassVar[bool] = True
    AUTO_FOCUS = ""
    BINDINGS = keymap.bindings("screen")
    DEFAULT_CSS = """
    WorkbenchScreen {
        layers: base;
        background: $background;
        & > #body { height: 1fr; }
        & .-folded { display: none; }
    }
    """

    @property
    def workbench(self) -> WorkbenchApp:
        """The application, by its own type."""
        return cast("WorkbenchApp", self.app)

    @property
    def context(self) -> AppContext:
        return self.workbench.context

    @property
    def unicode(self) -> bool:
        """Whether glyphs are drawn; else their ASCII forms."""
        return not self.context.settings.ascii

    def compose(self) -> ComposeResult:
        yield TopLine(unicode=self.unicode)
        yield ScreenTabs(self.workbench.screen_titles, self.NAME)
        with Horizontal(id="body"):
            yield from self.compose_columns()
        yield KeyLine(lambda id: self.workbench.keymap.label(id, unicode=self.unicode))

    def compose_columns(self) -> Iterable[Widget]:
        """The columns of the body; each id of ``COLUMNS`` once."""
        raise NotImplementedError

    def home(self) -> Widget | None:
        """What escape leads to in the end, and what has the focus at first: the screen's list."""
        return None

    def commands(self) -> Iterator[Command]:
        """Commands of this screen for the palette, besides those of its keys."""
        yield from ()

    async def may_leave(self) -> bool:
        """Asked before the application is left; False keeps it open. A screen with unsaved work overrides this."""
        return True

    async def refresh_all(self) -> None:
        """Read again whatever may have changed while the screen was not shown."""

    # Showing

    def __init__(self) -> None:
        super().__init__()
        self._refresher = Refresher(self, self.refresh_all, "refresh")
        self._painted = False
        self._kept: dict[str, Any] | None = None
        self._lasting: dict[object, str] = {}

    def on_mount(self) -> None:
        self.query_one(TopLine).show(self.workbench.standing)
        if not self.unicode:
            for widget in self.query("Pane"):
                widget.add_class("-ascii")
        self.fold()
        found = self.context.settings.session.get(f"screen.{self.NAME}")
        self._kept = found if isinstance(found, dict) else {}
        self.take_back(self._kept)
        if self.focused is None and (home := self.home()) is not None:
            home.focus()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        self.query_one(TopLine).show(self.workbench.standing)
        if self._painted:
            self._refresher.request()
        else:
            # What is composed now is styled as it is mounted; doing it again, or reading, delays the first paint.
            event.refresh_styles = False
            self.call_after_refresh(self._after_first_paint)

    def _after_first_paint(self) -> None:
        self._painted = True
        self._refresher.request()

    @on(ScreenTabs.Chosen)
    def _tab_chosen(self, message: ScreenTabs.Chosen) -> None:
        message.stop()
        self.workbench.action_show_screen(message.name)

    def on_runs_changed(self, message: RunsChanged) -> None:
        """Some runs changed. A screen that shows runs overrides this."""

    def on_tick(self, message: Tick) -> None:
        """A second has passed. Handlers of this name in subclasses are called besides this one."""
        self.keep()

    def on_screen_suspend(self) -> None:
        self.keep()

    # What the next start finds again

    def kept(self) -> dict[str, Any]:
        """JSON values of this screen that outlive the application. A subclass adds its own."""
        pane = list_pane_of(self.home()) if self.KEEPS else None
        return {} if pane is None else dict(pane.kept())

    def take_back(self, kept: Mapping[str, Any]) -> None:
        """Show again what ``kept`` gave, as far as it is still there. The values may be anything."""
        pane = list_pane_of(self.home()) if self.KEEPS else None
        if pane is not None:
            pane.take_back(kept)

    def keep(self) -> None:
        """Write down what changed. A disk that refuses is no reason to disturb anybody."""
        if self._kept is None or (now := self.kept()) == self._kept:
            return
        self._kept = now
        self.context.settings.session.set(f"screen.{self.NAME}", now)
        self._save()

    @work(group="keep", exit_on_error=False)
    async def _save(self) -> None:
        await asyncio.to_thread(self.context.settings.session.try_save)

    # Folding

    def on_resize(self, event: events.Resize) -> None:
        self.fold()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self.fold()

    def fold(self) -> None:
        """Show as many columns as fit; see the module's docstring for which."""
        width = self.size.width
        if width == 0:
            return
        focused = self.column_of(self.focused)
        order = sorted(self.COLUMNS, key=lambda column: (column.id != focused, column.id != self.MAIN))
        room, shown = width, set[str]()
        for column in order:
            if column.width <= room or not shown:
                shown.add(column.id)
                room -= column.width
        self.set_class(len(shown) == 1, "-narrow")
        self.set_class(self.size.height < SHORT, "-short")
        for column in self.COLUMNS:
            for widget in self.query(f"#{column.id}"):
                widget.set_class(column.id not in shown, "-folded")

    def column_of(self, widget: Widget | None) -> str | None:
        """The id of the column that holds ``widget``."""
        ids = {column.id for column in self.COLUMNS}
        while widget is not None:
            if widget.id in ids:
                return widget.id
            widget = widget.parent if isinstance(widget.parent, Widget) else None
        return None

    def reveal(self, column: str) -> None:
        """Unfold ``column`` so that something in it can take the focus."""
        for widget in self.query(f"#{column}"):
            widget.remove_class("-folded")

    # Moving

    def action_pane(self, by: int) -> None:
        """Go to the next or previous thing that takes the focus, in folded columns too."""
        folded = [widget for column in self.COLUMNS for widget in self.query(f"#{column.id}.-folded")]
        for widget in folded:
            widget.remove_class("-folded")
        # What was folded has no place on the screen yet, by which Textual would sort it.
        order = {widget: index for index, widget in enumerate(self.walk_children())}
        chain = [widget for widget in self.focus_chain if not _closed_field(widget)]
        chain.sort(key=lambda widget: order[widget])
        if chain:
            here = chain.index(self.focused) if self.focused in chain else -1 if by > 0 else 0
            chain[(here + by) % len(chain)].focus(scroll_visible=False)
        self.fold()

    def action_back(self) -> None:
        """One step back: clear the filter of the focused list, else go to the screen's list."""
        pane = list_pane_of(self.focused)
        if pane is not None and pane.clear_filter():
            pane.list.focus()
            return
        home = self.home()
        if home is not None and self.focused is not home:
            column = self.column_of(home)
            if column is not None:
                self.reveal(column)
            home.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "back":
            pane = list_pane_of(self.focused)
            return self.focused is not self.home() or (pane is not None and bool(pane.list.filter))
        return True

    @on(Field.Left)
    def _field_left(self, message: Field.Left) -> None:
        message.stop()
        self.action_back()

    # Work that takes time

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Report work of this screen that failed. Work is to run on the screen, not on its widgets."""
        self.workbench.on_worker_state_changed(event)

    @asynccontextmanager
    async def busy(self, what: str) -> AsyncIterator[None]:
        """Show ``what`` (``reading the run``) in the bottom line while the block lasts over half a second.

        Of several that last, the one that began last is shown. A dialog that lies in front has its own bottom line.
        """
        stack, mark = self.app.screen_stack, object()
        lines = {line for screen in (self, *stack[-1:]) for line in screen.query(KeyLine)}

        def say(text: str) -> None:
            for line in lines:
                line.show_busy(text)

        def show() -> None:
            self._lasting[mark] = what + ("…" if self.unicode else "...")
            say(self._lasting[mark])

        timer = asyncio.get_running_loop().call_later(BUSY_SECONDS, show)
        try:
            yield
        finally:
            timer.cancel()
            self._lasting.pop(mark, None)
            say(next(reversed(self._lasting.values()), ""))


def _closed_field(widget: Widget) -> bool:
    return isinstance(widget, Field) and not widget.display
