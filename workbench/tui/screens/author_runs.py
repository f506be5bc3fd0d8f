"""Launching the shown script, and its last run: how it stands, and the way to it and to its steps in Runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ... import words
from ..refresh import Refresher
from .author_checks import Checked, engine_settings
from .author_editors import EditorColumn, OpenFile
from .author_files import Files
from .author_launch import LaunchPane
from .author_launcher import confirm_real, last_run, prepare, send
from .author_library import Library
from .base import WorkbenchScreen


class ScriptRuns:
    """Launches and follows the shown script of an Author screen.

    ``check`` checks what stands there and gives None where errors stop ``act``; ``go_to_arguments`` brings the
    person to arguments that cannot be sent.
    """

    def __init__(
        self,
        screen: WorkbenchScreen,
        column: EditorColumn,
        pane: LaunchPane,
        files: Files,
        library: Library,
        *,
        check: Callable[[str], Awaitable[Checked | None]],
        go_to_arguments: Callable[[], None],
        facts_changed: Callable[[], None],
    ) -> None:
        self._screen = screen
        self._column = column
        self._pane = pane
        self._files = files
        self._library = library
        self._check = check
        self._go_to_arguments = go_to_arguments
        self._facts_changed = facts_changed
        self._reader = Refresher(screen, self._read, "run")

    @property
    def _file(self) -> OpenFile | None:
        return self._column.current

    def request(self) -> None:
        """The last run is to be read again."""
        self._reader.request()

    async def _read(self) -> None:
        file = self._file
        if file is None:
            return
        view = await last_run(self._screen.context.client, self._screen.workbench.book.newest, file)
        self._column.show_run(file, view)
        if file is self._file:
            self.show_standing()

    def show_standing(self) -> None:
        """Say in the launch pane, or below the editor while that is folded, how the shown script's last run stands."""
        file = self._file
        if file is None:
            self._column.say("")
            return
        view, now = file.run.view, self._screen.context.clock()
        self._pane.show_run(view, now, repeatable=file.repeatable, repeated=file.repeated)
        folded = self._pane.has_class("-folded")
        brief = words.in_brief(view, now, unicode=self._screen.unicode) if view is not None else ""
        self._column.say(brief if folded else "")

    async def launch(self, *, again: bool) -> None:
        """Check, and where nothing stops it, launch; see author_launcher for the request id."""
        file, read, screen = self._file, self._pane.arguments, self._screen
        if file is None:
            return
        if read.value is None:
            self._go_to_arguments()
            self._pane.set_note("Not launched")
            screen.workbench.notice(
                f"Not launched: the arguments are not usable, {read.error}", severity="warning", floats=False
            )
            return
        if not await self._library.loaded(file):
            self._facts_changed()
            return
        checked = await self._check("launched")
        if checked is None:
            return
        context = screen.context
        form = self._pane.form
        settings = engine_settings(context.workspace)
        async with screen.busy("reading the stub set"):
            launch = await prepare(context, file.draft, form, checked.text, read.value, settings)
        ask = screen.app.push_screen_wait
        if form.real and not await confirm_real(ask, launch, checked.bound, context.workspace.config):
            return
        async with screen.busy("launching"):
            outcome = await send(
                context, self._files.session, launch, again=again, remember=self._files.remember
            )
        screen.workbench.launched = outcome.run_id
        file.pinned = (outcome.run_id, context.clock())
        file.repeatable = checked.text == file.editor.text and form == self._pane.form
        file.repeated = outcome.existing and not again
        if file.repeated:
            key = screen.workbench.key_label("author.again")
            screen.workbench.notice(f"Nothing has changed since {outcome.run_id}. {key} runs it again.")
        self.request()
        screen.refresh_bindings()

    def show_run(self) -> None:
        """Go to the last run in Runs."""
        file = self._file
        if file is not None and file.run.view is not None:
            self._screen.workbench.show_run(file.run.view.run_id)

    def show_step(self) -> None:
        """Go to the step of the last run that is called at the cursor, or at the nearest line above it."""
        file = self._file
        if file is None:
            return
        steps = file.run.steps_at(file.editor.cursor_location[0], file.editor.text)
        if file.run.view is None or not steps:
            self._screen.workbench.notice("The last run has no step at this line or above it.")
            return
        self._screen.workbench.show_run(file.run.view.run_id, step=(steps[0].step_id, steps[0].attempt))

    def go_to_step(self, by: int) -> None:
        """Put the cursor on the next or previous line with a step of the last run."""
        file = self._file
        if file is None or not file.editor.marks:
            self._screen.workbench.notice("There is no step of a run to go to.")
            return
        row = file.editor.cursor_location[0]
        rows = sorted(file.editor.marks)
        ahead = [each for each in rows if (each > row if by > 0 else each < row)]
        wanted = (ahead or rows)[0 if by > 0 else -1]
        file.editor.go_to(wanted + 1, 1)
        file.editor.focus()
