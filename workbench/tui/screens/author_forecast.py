"""What is known before a launch: how long runs like it took, and how many more may be active."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workflows_core.errors import WorkflowError

from ...forecast import Subject, expected, own_names, quota
from ...scripts import script_name
from ..refresh import Refresher
from ..widgets.lines import Span
from .author_checks import engine_settings

if TYPE_CHECKING:
    from .author_editors import EditorColumn
    from .author_launch import LaunchPane
    from .author_library import Library
    from .base import WorkbenchScreen


class Forecast:
    """Says in the launch pane what a launch of the shown script would be; ``request`` reads what is recorded."""

    def __init__(
        self, screen: WorkbenchScreen, column: EditorColumn, pane: LaunchPane, library: Library
    ) -> None:
        self._screen = screen
        self._column = column
        self._pane = pane
        self._library = library
        self._refresher = Refresher(screen, self._read, "forecast")
        #: Microseconds; None: not known.
        self.expected: int | None = None

    def request(self) -> None:
        """Something was completed, or something else is to be launched."""
        self._refresher.request()

    @property
    def _subject(self) -> Subject | None:
        """What a launch would be, as far as earlier runs of it can be told by that."""
        file = self._column.current
        if file is None:
            return None
        return Subject(script_name(file.draft.path), file.draft.text, self._pane.form.real)

    async def _read(self) -> None:
        subject = self._subject
        if subject is None:
            return
        screen = self._screen
        found = await expected(screen.context.client, screen.workbench.book.newest, subject)
        if subject == self._subject:
            self.expected = found
            self.show()

    def show(self) -> None:
        """Show what is known: version, bound on calls, expected time, quota."""
        file, context = self._column.current, self._screen.context
        if file is None:
            return
        try:
            limits = engine_settings(context.workspace).limits
        except WorkflowError:
            limits = None  # a check says what is wrong
        owners = own_names(context.workspace.config.auth.mode)
        active = self._screen.workbench.book.newest
        self._pane.show_facts(
            file.checked.bound if file.checked is not None and limits is not None else None,
            limits.max_calls if limits is not None else 0,
            version=self._library.standing(file),
            expected=self.expected,
            quota=Span(*quota(active, limits, owners)) if limits is not None else None,
        )
