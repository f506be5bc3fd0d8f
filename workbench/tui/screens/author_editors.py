"""The middle column of the Author screen: open scripts, the editor of the one that is shown, its problems."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer

from workflows_core.model import RunView
from workflows_core.script.problem import Problem, apply_fix

from ... import words
from ...completing import Word
from ...drafts import Draft, OnDisk, VersionDraft
from ..widgets.bars import LineBar
from ..widgets.choice import Choice
from ..widgets.editor_form import TextBlock
from ..widgets.editor_marks import ProblemMark
from ..widgets.editor_pane import EditorPane
from ..widgets.lines import LineList, Span
from ..widgets.pane import ListPane
from .author_checks import Checked
from .author_marks import MarkedRun
from .author_problems import ProblemList, ProblemRows

if TYPE_CHECKING:
    from textual.widgets import TextArea

    from ..widgets.editor import ScriptEditor
    from ..widgets.editor_completion import Completions

#: The place of the cursor is written once it has stood still this long, so that keys do not wait for it.
PLACE_SECONDS = 0.12
#: Lines of the problem list, on a high and on a low terminal.
HIGH, LOW = 6, 3


@dataclass(eq=False)
class OpenFile:
    """One open script: its draft, its editor, and what is known of it. ``path`` is relative where it can be."""

    path: Path
    draft: Draft
    editor: ScriptEditor
    checked: Checked | None = None
    run: MarkedRun = field(default_factory=MarkedRun)
    #: The run launched here last, and when: runs made later elsewhere are newer.
    pinned: tuple[str, int] | None = None
    #: Whether script and form are still what was launched last, and whether that launch found an older run.
    repeatable: bool = False
    repeated: bool = False
    #: The state of the file on disk that the person has been told.
    told: OnDisk = OnDisk.SAME

    @property
    def label(self) -> str:
        """What the tabs and titles call it."""
        return self.draft.label if isinstance(self.draft, VersionDraft) else self.path.name

    @property
    def problems(self) -> Sequence[Problem]:
        return self.checked.problems if self.checked is not None else ()


class FileTabs(LineBar):
    """The open scripts, shown where there are several. A click goes to one."""

    DEFAULT_CSS = """
    FileTabs { display: none; padding: 0 1; }
    FileTabs.-several { display: block; }
    """

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self) -> None:
        super().__init__()
        self._labels: Sequence[str] = ()
        self._current = 0

    def show(self, labels: Sequence[str], current: int) -> None:
        self._labels, self._current = labels, current
        self.set_class(len(labels) > 1, "-several")
        self.refresh()

    def spans(self, width: int) -> Sequence[Span]:
        return [
            Span(f" {label} ", "current" if index == self._current else "quiet")
            for index, label in enumerate(self._labels)
        ]

    def on_click(self, event: events.Click) -> None:
        left = 1
        for index, (text, _tone) in enumerate(self.spans(self.size.width)):
            if left <= event.x < left + len(text):
                self.post_message(self.Chosen(index))
            left += len(text)


class EditorColumn(Vertical):
    """Keeps the open scripts, each with an editor of its own, so that undo belongs to one text."""

    class Shown(Message):
        """Another script is shown, or none."""

        def __init__(self, file: OpenFile | None) -> None:
            super().__init__()
            self.file = file

    class Edited(Message):
        """The text of an open script changed; ``turned``: it came to differ from its file, or to equal it."""

        def __init__(self, file: OpenFile, turned: bool) -> None:
            super().__init__()
            self.file = file
            self.turned = turned

    class NewWanted(Message):
        """The empty workspace's offer was taken."""

    def __init__(self, *, unicode: bool = True, id: str) -> None:
        super().__init__(id=id)
        self._unicode = unicode
        self.files: list[OpenFile] = []
        self.current: OpenFile | None = None
        self._place_timer: Timer | None = None
        self._list = ProblemList(empty="No script is open.")
        self._completions: Completions | None = None
        self._agents: Collection[str] = ()

    def compose(self) -> ComposeResult:
        yield FileTabs()
        with EditorPane(unicode=self._unicode, id="editor-pane"), Vertical(id="no-script"):
            yield TextBlock(id="offer")
            yield Choice("New script", name="new", id="new-button")
        self._problems = ListPane("Problems", lines=self._list, id="problems")
        self._sentence = TextBlock(id="sentence")
        yield self._problems

    async def complete(self, agents: Collection[str]) -> bool:
        """Offer what may stand at the cursor of the shown script; False where nothing may."""
        file = self.current
        if file is None or not file.editor.has_focus:
            return False
        if self._completions is None:
            from ..widgets.editor_completion import Completions

            self._completions = Completions(self._words)
            await self.mount(self._completions)
        self._agents = agents
        return self._completions.open(file.editor)

    def _words(self) -> tuple[Sequence[Word], Collection[str]]:
        file = self.current
        return (file.checked.words if file is not None and file.checked is not None else ()), self._agents

    async def on_mount(self) -> None:
        await self._problems.mount(self._sentence)
        self.offer(None)
        self.retitle()
        self._show_problems()

    def on_resize(self) -> None:
        self._size_problems()

    # Open scripts

    def file_of(self, path: Path) -> OpenFile | None:
        """The open script with this path."""
        return next((file for file in self.files if file.path == path), None)

    async def open(self, path: Path, draft: Draft, *, unsaved: str | None = None) -> OpenFile:
        """Open a draft in an editor of its own and show it; ``unsaved`` is its working copy where it differs."""
        from ..widgets.editor import ScriptEditor

        editor = ScriptEditor(draft.text, unicode=self._unicode)
        editor.display = False
        file = OpenFile(path, draft, editor)
        self.files.append(file)
        await self.query_one(EditorPane).mount(editor)
        if unsaved is not None and unsaved != draft.text:
            editor.become(unsaved)
            draft.text = editor.text
        self.show(file)
        return file

    async def close(self, file: OpenFile) -> None:
        """Close a script and show the one beside it."""
        index = self.files.index(file)
        self.files.remove(file)
        if file is self.current:
            self.show(self.files[min(index, len(self.files) - 1)] if self.files else None)
        await file.editor.remove()
        self.retitle()

    def show(self, file: OpenFile | None) -> None:
        """Show an open script."""
        focused = self.current is not None and self.current.editor.has_focus
        for other in self.files:
            other.editor.display = other is file
        self.query_one("#no-script").display = file is None
        self.current = file
        if file is not None and focused:
            file.editor.focus()
        self.retitle()
        self._write_place()
        self._show_problems()
        self.post_message(self.Shown(file))

    def step(self, by: int) -> None:
        """Show the next or previous open script."""
        if self.current is not None:
            self.show(self.files[(self.files.index(self.current) + by) % len(self.files)])

    @on(FileTabs.Chosen)
    def _tab_chosen(self, message: FileTabs.Chosen) -> None:
        message.stop()
        self.show(self.files[message.index])

    def offer(self, text: str | None) -> None:
        """What is said while no script is open; with None nothing is, because it is not known yet."""
        self.query_one("#offer", TextBlock).show(*([Span(text)] if text else []))
        self.query_one("#new-button").display = bool(text)

    @on(Choice.Pressed, "#new-button")
    def _new_pressed(self, message: Choice.Pressed) -> None:
        message.stop()
        self.post_message(self.NewWanted())

    # Titles

    def retitle(self) -> None:
        """Name, unsaved changes and the state of the file in the pane's title and in the tabs."""
        dot = " ●" if self._unicode else " *"
        pane = self.query_one(EditorPane)
        labels = [file.label + (dot if file.draft.dirty else "") for file in self.files]
        if self.current is None:
            pane.set_title("Editor", "")
            self.query_one(FileTabs).show((), 0)
            return
        index = self.files.index(self.current)
        notes = {OnDisk.CHANGED: "  changed on disk", OnDisk.GONE: "  not on disk", OnDisk.SAME: ""}
        note = notes[self.current.told]
        if isinstance(self.current.draft, VersionDraft) and self.current.draft.attached:
            note = "  read-only until edited"
        pane.set_title(labels[index] + note)
        self.query_one(FileTabs).show(labels, index)

    def on_text_area_selection_changed(self, message: TextArea.SelectionChanged) -> None:
        message.stop()
        if self._completions is not None and self.current is not None:
            self._completions.follow(self.current.editor)
        if self._place_timer is None:
            self._place_timer = self.set_timer(PLACE_SECONDS, self._write_place)
        else:
            self._place_timer.reset()

    def _write_place(self) -> None:
        if self._place_timer is not None:
            self._place_timer.stop()
            self._place_timer = None
        if self.current is not None:
            row, column = self.current.editor.cursor_location
            self.query_one(EditorPane).show_place(words.place(row + 1, column + 1))

    def say(self, standing: str) -> None:
        """Show ``standing``, one line about the last run, in the editor's lower border; empty takes it away."""
        self.query_one(EditorPane).say(standing)

    # Text

    def on_text_area_changed(self, message: TextArea.Changed) -> None:
        message.stop()
        file = next((file for file in self.files if file.editor is message.text_area), None)
        if file is None:
            return
        was_dirty = file.draft.dirty
        file.draft.text = file.editor.text
        turned = file.draft.dirty != was_dirty
        if turned:
            self.retitle()
        self.post_message(self.Edited(file, turned))

    # Problems

    def show_checked(self, file: OpenFile, checked: Checked) -> None:
        """Take the answer of a check of this script."""
        file.checked = checked
        file.editor.set_problems(
            [ProblemMark(problem.line, problem.column, problem.severity) for problem in checked.problems]
        )
        if file is self.current:
            self._show_problems()

    def _show_problems(self) -> None:
        file = self.current
        if file is None:
            text = "No script is open."
        elif file.checked is None:
            text = "Not checked yet."
        else:
            text = "No problems."
        self._list.set_empty(text)
        self.say_refused("")
        self._problems.set_rows(ProblemRows(file.problems if file is not None else ()))
        self._say_problem()
        self._size_problems()

    def say_refused(self, text: str) -> None:
        """Show ``text``, what the problems stopped, in their pane's lower border until they are others."""
        self._problems.set_note(text)

    def _size_problems(self) -> None:
        most = HIGH if self.size.height >= 26 else LOW
        sentence = self._sentence.get_content_height(self.size, self.size, max(1, self.size.width - 4))
        room = max(1, min(len(self._list.rows), most)) + (sentence + 1 if self._sentence.display else 0)
        self._problems.styles.height = 2 + room

    def _say_problem(self) -> None:
        """The problem under the cursor in full, while the list has the focus."""
        index = self._list.current_index
        problems = self.current.problems if self.current is not None else ()
        self._sentence.display = self._list.has_focus and index is not None
        if index is not None and index < len(problems):
            problem = problems[index]
            fix = [Span(f"{problem.fix.title}", "quiet")] if problem.fix is not None else []
            self._sentence.show(Span(problem.message), *fix)

    @on(LineList.Highlighted)
    def _problem_highlighted(self, message: LineList.Highlighted) -> None:
        message.stop()
        self._say_problem()
        self._size_problems()
        self.screen.refresh_bindings()  # not every problem has a fix

    def on_descendant_focus(self) -> None:
        self._say_problem()
        self._size_problems()

    def on_descendant_blur(self) -> None:
        if self._completions is not None:
            self._completions.close()
        self._say_problem()
        self._size_problems()

    @property
    def problem_list(self) -> ProblemList:
        return self._list

    @on(LineList.Selected)
    def _problem_selected(self, message: LineList.Selected) -> None:
        message.stop()
        self.go_to_problem(message.index)

    def go_to_problem(self, index: int) -> None:
        """Put the cursor where problem ``index`` stands now and the focus into the editor."""
        file = self.current
        if file is not None and 0 <= index < len(file.editor.problems):
            mark = file.editor.problems[index]
            file.editor.go_to(mark.line, mark.column)
            file.editor.focus()

    def next_problem(self, by: int) -> None:
        """Go to the next or previous problem, seen from the cursor."""
        file = self.current
        if file is None or not file.editor.problems:
            return
        row, column = file.editor.cursor_location
        places = [(mark.line - 1, mark.column - 1) for mark in file.editor.problems]
        ahead = [
            i
            for i, place in enumerate(places)
            if (place > (row, column) if by > 0 else place < (row, column))
        ]
        if by > 0:
            self.go_to_problem(ahead[0] if ahead else 0)
        else:
            self.go_to_problem(ahead[-1] if ahead else len(places) - 1)

    def chosen_problem(self) -> Problem | None:
        """The problem under the list's cursor where the list has the focus, else the one the cursor is at."""
        file = self.current
        if file is None or not file.problems:
            return None
        if self._list.has_focus:
            index = self._list.current_index
            return file.problems[index] if index is not None else None
        row, _ = file.editor.cursor_location
        here = [problem for problem in file.problems if problem.line == row + 1]
        return next((problem for problem in here if problem.fix is not None), here[0] if here else None)

    def fix(self, problem: Problem) -> bool:
        """Apply a problem's fix, as one step of undo; False where it has none or the text moved on."""
        file = self.current
        if (
            file is None
            or problem.fix is None
            or file.checked is None
            or file.checked.text != file.editor.text
        ):
            return False
        file.editor.become(apply_fix(file.editor.text, problem.fix))
        return True

    # The last run

    def show_run(self, file: OpenFile, view: RunView | None) -> None:
        """Mark the steps of the script's last run on its lines."""
        file.run.view = view
        self.mark(file)

    def mark(self, file: OpenFile) -> None:
        """Put the marks of the script's last run where its lines are now."""
        file.editor.set_marks(file.run.marks(file.editor.text, unicode=self._unicode))
