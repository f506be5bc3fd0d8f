"""The Author screen: scripts, the editor with the last run on its lines, problems, and the launch pane."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on, work
from textual.binding import BindingType
from textual.widget import Widget

from ... import words
from ...drafts import LaunchForm, VersionDraft
from .. import keymap
from ..messages import RunsChanged, Tick
from ..palette import Command
from ..widgets.choice import Choice
from ..widgets.lines import LineList
from ..widgets.pane import ListPane
from .author_checks import Checked, Checker, engine_settings
from .author_dialogs import Picker
from .author_editors import EditorColumn, OpenFile
from .author_files import Files
from .author_forecast import Forecast
from .author_launch import LaunchPane, StubChoice
from .author_launcher import stub_choices
from .author_library import Library
from .author_outside import edit_outside
from .author_problems import ProblemList
from .author_runs import ScriptRuns
from .author_scripts import ScriptList, ScriptRows
from .base import Column, WorkbenchScreen

if TYPE_CHECKING:
    from ..widgets.editor import ScriptEditor


class AuthorScreen(WorkbenchScreen):
    """F2. Composes the panes and routes between them, the files, the checks and the client."""

    NAME = "author"
    COLUMNS = (Column("scripts", 20), Column("centre", 44), Column("launch", 36))
    MAIN = "centre"
    CSS_PATH = Path(__file__).with_name("author.tcss")
    BINDINGS: ClassVar[list[BindingType]] = keymap.bindings("author")

    def compose_columns(self) -> Iterable[Widget]:
        lines = ScriptList(empty="Looking for scripts.")
        self._scripts = ListPane("Scripts", lines=lines, counted=False, id="scripts")
        self._column = EditorColumn(unicode=self.unicode, id="centre")
        self._pane = LaunchPane(unicode=self.unicode, id="launch")
        self._files = Files(self, self._column, self._list_scripts)
        self._checker = Checker(self, self.context.workspace, self._check, self._subject, self._checked)
        self._library = Library(self, self._column, self._files)
        self._forecast = Forecast(self, self._column, self._pane, self._library)
        self._runs = ScriptRuns(
            self,
            self._column,
            self._pane,
            self._files,
            self._library,
            check=self._checked_now,
            go_to_arguments=self.action_go_arguments,
            facts_changed=self._forecast.show,
        )
        yield self._scripts
        yield self._column
        yield self._pane

    def home(self) -> Widget | None:
        return self._scripts.list

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        # What is said in passing must not lie over the problems while somebody reads them.
        self.set_class(self._column.problem_list.has_focus, "-problems")

    @property
    def current(self) -> OpenFile | None:
        """The script that is shown."""
        return self._column.current

    async def refresh_all(self) -> None:
        first = self.current is None
        await self._pane.fill()
        await self._files.restore()
        await self._files.find()
        await self._files.find_versions()
        await self._files.look_at_disk()
        await self._files.look_for_scripts()
        self._runs.request()
        if first and self.current is not None and self.focused is self.home():
            self.current.editor.focus()

    async def on_unmount(self) -> None:
        self._files.remember()
        await self._checker.close()

    async def may_leave(self) -> bool:
        """Ask about unsaved scripts before the application is left; True: leave."""
        return await self._files.may_leave()

    # Scripts

    def _list_scripts(self) -> None:
        found = self._files.found
        files = [file for file in self._column.files if not isinstance(file.draft, VersionDraft)]
        key = self.workbench.key_label
        self._scripts.list.set_empty(f"None yet. Press {key('author.new')} for a first one.")
        self._scripts.set_rows(
            ScriptRows(
                (*found.scripts, *(file.path for file in files if file.path not in found.scripts)),
                current=self.current.path if self.current is not None else None,
                dirty=[file.path for file in files if file.draft.dirty],
                versions=self._files.versions,
                unicode=self.unicode,
            )
        )
        self._column.offer(
            "There is no script in this workspace yet. A first one comes with a stub set that answers for Agents."
            if not found.scripts
            else f"No script is open. {key('list.open')} opens the one under the cursor of the list."
        )

    @on(LineList.Selected, "#scripts LineList")
    def _script_selected(self, message: LineList.Selected) -> None:
        message.stop()
        path = self._listed()
        if path is not None:
            self._go_to(path)

    @work(group="open", exit_on_error=False)
    async def _go_to(self, path: Path) -> None:
        file = await self._library.open(path)
        self.reveal("centre")
        file.editor.focus()

    def _listed(self) -> Path | None:
        """The script or version under the cursor of the list, where the list has the focus."""
        rows, index = self._scripts.list.rows, self._scripts.list.current_index
        if not self._scripts.list.has_focus or index is None or not isinstance(rows, ScriptRows):
            return None
        return rows.path(index)

    @on(EditorColumn.NewWanted)
    def _new_wanted(self, message: EditorColumn.NewWanted) -> None:
        message.stop()
        self.action_new()

    @work(group="ask", exclusive=True, exit_on_error=False)
    async def action_new(self) -> None:
        file = await self._files.new()
        if file is not None:
            self.reveal("centre")
            file.editor.focus()

    @work(group="ask", exclusive=True, exit_on_error=False)
    async def action_close_file(self) -> None:
        path = self._listed()
        file = self._column.file_of(path) if path is not None else self.current
        if file is not None:
            await self._files.close(file)

    @work(group="ask", exclusive=True, exit_on_error=False)
    async def action_edit_outside(self) -> None:
        path = self._listed()
        file = await self._library.open(path) if path is not None else self.current
        if file is not None and isinstance(file.draft, VersionDraft):
            self.workbench.notice(f"{file.label} has no file. Save the text as a script first.")
        elif file is not None and (not file.draft.dirty or await self._files.save(file)):
            edit_outside(self.app, file.draft.path)
            await self._files.look_at_disk()
        await self._files.look_for_scripts()

    def action_file(self, by: int) -> None:
        self._column.step(by)

    @work(group="save", exit_on_error=False)
    async def action_save(self) -> None:
        file = self.current
        if file is not None and await self._files.save(file):
            self.workbench.notice(f"{file.path} is saved.")

    @work(group="ask", exclusive=True, exit_on_error=False)
    async def action_save_version(self) -> None:
        """Save what stands there as a version of the library; errors of the check stop it."""
        file = self.current
        checked = await self._checked_now("saved") if file is not None else None
        if file is not None and checked is not None:
            await self._library.save(file, checked.text)
            self._forecast.show()

    @work(group="ask", exclusive=True, exit_on_error=False)
    async def action_compare(self) -> None:
        await self._library.compare(self._listed())

    # The shown script

    @on(EditorColumn.Shown)
    async def _file_shown(self, message: EditorColumn.Shown) -> None:
        message.stop()
        await self._pane.fill()
        self._list_scripts()
        file = self.current
        self._pane.offer(file is not None)
        self._forecast.expected = None
        if file is not None:
            form = self._files.session.forms.get(str(file.path), LaunchForm())
            self._pane.show_form(form, self._stub_choices(file))
            self._forecast.show()
            self._runs.show_standing()
            self._checker.start()
            self._runs.request()
            self._forecast.request()
        self._files.remember()
        self.refresh_bindings()

    def _stub_choices(self, file: OpenFile) -> list[StubChoice]:
        return stub_choices(self.context, file.draft.path, self._files.found)

    @on(EditorColumn.Edited)
    def _file_edited(self, message: EditorColumn.Edited) -> None:
        message.stop()
        if message.turned:
            self._list_scripts()
            draft = message.file.draft
            if isinstance(draft, VersionDraft):
                self._forecast.show()
                if draft.dirty and draft.saved is not None:
                    self.workbench.notice(
                        f"What stands here is a working copy now; {draft.label} stays as it is."
                    )
        self._changed(message.file)

    @on(LaunchPane.Changed)
    def _form_changed(self, message: LaunchPane.Changed) -> None:
        message.stop()
        if self.current is not None:
            self._files.session.forms[str(self.current.path)] = self._pane.form
            self._forecast.request()
            self._changed(self.current)

    @on(LaunchPane.Turned)
    def _launch_turned(self, message: LaunchPane.Turned) -> None:
        message.stop()
        self._runs.show_standing()

    def _changed(self, file: OpenFile) -> None:
        """Script or form changed: a check is due, and a launch would make a new run."""
        if file.repeatable:
            file.repeatable = file.repeated = False
            self._runs.show_standing()
            self.refresh_bindings()
        if file is self.current:
            self._checker.soon()

    def on_script_editor_paste_refused(self, message: ScriptEditor.PasteRefused) -> None:
        from ..widgets.editor import PASTE_CHARACTERS

        message.stop()
        self.workbench.notice(
            f"{message.length:,} characters were not pasted; at most {PASTE_CHARACTERS:,} are taken at once.",
            severity="warning",
        )

    @on(LaunchPane.StubsWanted)
    def _stubs_wanted(self, message: LaunchPane.StubsWanted) -> None:
        message.stop()
        self._choose_stubs()

    @work(group="ask", exclusive=True, exit_on_error=False)
    async def _choose_stubs(self) -> None:
        file = self.current
        if file is None:
            return
        await self._files.find()
        choices = self._stub_choices(file)
        named = [(choice.label, "the default" if choice.path is None else "") for choice in choices]
        index = await self.app.push_screen_wait(Picker("Stub set of the next launch", named))
        if index is not None:
            self._pane.choose_stubs(choices[index])

    # Checks

    @work(group="check", exclusive=True, exit_on_error=False)
    async def _check(self) -> None:
        await self._checker.now()

    def _subject(self) -> tuple[str, Any] | None:
        file = self.current
        return None if file is None else (file.editor.text, self._pane.arguments.value)

    def _checked(self, checked: Checked) -> None:
        file = self.current
        if file is not None:
            self._column.show_checked(file, checked)
            self._column.mark(file)
            self._forecast.show()
            self._forecast.request()
            self._list_scripts()
            self._files.remember()

    async def _checked_now(self, act: str) -> Checked | None:
        """Check; where there are errors, show them, say that it was not ``act`` and return None."""
        async with self.busy("checking"):
            checked = await self._checker.now()
        if checked is not None and checked.errors:
            self.reveal("centre")
            self._column.problem_list.focus()
            first = next(n for n, item in enumerate(checked.problems) if item.severity == "error")
            self._column.problem_list.go_to(str(first))
            count = words.count(checked.errors, "error")
            self._column.say_refused(f"Not {act}: {count}")
            self.workbench.notice(f"Not {act}: the script has {count}.", severity="warning", floats=False)
            return None
        return checked

    def action_check(self) -> None:
        self._checker.start()

    @work(group="complete", exclusive=True, exit_on_error=False)
    async def action_complete(self) -> None:
        if not await self._column.complete(engine_settings(self.context.workspace).agents):
            self.workbench.notice("Nothing that is known here continues this word.")

    def action_problem(self, by: int) -> None:
        self._column.next_problem(by)

    def action_fix(self) -> None:
        problem = self._column.chosen_problem()
        if problem is None:
            self.workbench.notice("There is no problem on this line.")
        elif not self._column.fix(problem):
            self.workbench.notice("This problem has no fix that is safe to apply.")

    def action_go_arguments(self) -> None:
        if self.current is None:
            return
        self.reveal("launch")
        self._pane.editor.focus()

    # Launching

    @on(Choice.Pressed, "#launch Choice")
    def _launch_pressed(self, message: Choice.Pressed) -> None:
        message.stop()
        acts: dict[str, Callable[[], object]] = {
            "launch": self.action_launch,
            "check": self.action_check,
            "again": self.action_run_again,
            "show": self.action_show_run,
        }
        acts[message.name]()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("check", "launch", "save", "save_version", "go_arguments", "show_step", "step"):
            return self.is_mounted and self.current is not None
        if action in ("edit_outside", "close_file"):
            return self.is_mounted and (self._listed() is not None or self.current is not None)
        if action == "run_again":
            return self.is_mounted and self.current is not None and self.current.repeatable
        if action == "compare":
            return self.is_mounted and self.current is not None
        if action == "fix" and self.is_mounted and isinstance(self.focused, ProblemList):
            problem = self._column.chosen_problem()
            return problem is not None and problem.fix is not None
        return super().check_action(action, parameters)

    @work(group="launch", exclusive=True, exit_on_error=False)
    async def action_launch(self) -> None:
        await self._runs.launch(again=False)

    @work(group="launch", exclusive=True, exit_on_error=False)
    async def action_run_again(self) -> None:
        await self._runs.launch(again=True)

    def action_show_run(self) -> None:
        """Go to the run in the Runs screen."""
        self._runs.show_run()

    def action_show_step(self) -> None:
        self._runs.show_step()

    def action_step(self, by: int) -> None:
        self._runs.go_to_step(by)

    def on_runs_changed(self, message: RunsChanged) -> None:
        self._runs.request()
        self._forecast.request()

    def on_tick(self, message: Tick) -> None:
        self._runs.show_standing()
        self._watch_disk()

    @work(group="disk", exclusive=True, exit_on_error=False)
    async def _watch_disk(self) -> None:
        await self._files.look_at_disk()
        await self._files.look_for_scripts()

    def commands(self) -> Iterator[Command]:
        acts: tuple[tuple[str, str, Callable[[], object], str], ...] = (
            ("new", "Write a first script and its stub set", self.action_new, "new"),
            ("close", "Close the script", self.action_close_file, "close"),
            ("edit in $EDITOR", "Open the script in $EDITOR", self.action_edit_outside, "outside"),
            ("stubs", "Choose the stub set of the next launch", self._choose_stubs, ""),
            ("show run", "Go to the script's last run", self.action_show_run, ""),
        )
        for name, tooltip, act, key in acts:
            id = f"author.{key}" if key else ""
            yield Command(name, tooltip, act, self.workbench.key_label(id) if id else "", id=id)
