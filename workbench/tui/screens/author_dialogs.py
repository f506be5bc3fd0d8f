"""What the Author screen asks: a name for a new script, and what to do about unsaved changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from textual import on, work
from textual.widget import Widget
from textual.widgets import Input

from workflows_core.errors import WorkflowError

from .. import keymap
from ..widgets.editor_form import TextBlock
from ..widgets.lines import LineList, Span, TextRows, wrap
from ..widgets.pane import Field, Pane
from .dialogs import Answer, Dialog, DialogText, Modal


class NameDialog(Modal[str | None]):
    """Asks for a name, by default that of a new script. The result is what was typed, or None.

    ``act`` does with the name what it is asked for; where it raises WorkflowError, the dialog says so and stays.
    """

    BINDINGS = keymap.bindings("dialog")
    DEFAULT_CSS = """
    NameDialog Field { margin: 1 0; }
    NameDialog #problem { color: $text-error; }
    """

    def __init__(
        self,
        suggestion: str,
        *,
        title: str = "New script",
        text: str = "Writes NAME.workflow.js and NAME.stubs.yaml into the workspace. No file is replaced.",
        act: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(id="name-dialog")
        self._lines = DialogText()
        self._act = act
        self._suggestion = suggestion
        self._title = title
        self._text = text

    def content(self) -> Iterable[Widget]:
        yield self._lines
        yield Field(self._suggestion)
        yield TextBlock(id="problem")

    def on_mount(self) -> None:
        frame = self.query_one("#frame", Pane)
        frame.set_title(self._title)
        frame.styles.width, frame.styles.height = 60, "auto"
        self._lay_out()
        self.query_one(Field).focus()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        self._lines.say(
            lambda width: [(Span(line),) for line in wrap(self._text, width)], min(60, self.size.width) - 4
        )

    @on(Input.Changed)
    def _typed(self, message: Input.Changed) -> None:
        message.stop()
        self.query_one("#problem", TextBlock).show()

    @on(Input.Submitted)
    def _accepted(self, message: Input.Submitted) -> None:
        message.stop()
        name = message.value.strip()
        if not name or self._act is None:
            self.finish(name or None)
        else:
            self._try(name)

    @work(group="act", exit_on_error=False)
    async def _try(self, name: str) -> None:
        field = self.query_one(Field)
        if self._act is None or field.disabled:
            return  # one attempt at a time
        field.disabled = True
        try:
            await self._act(name)
        except WorkflowError as error:
            said = str(error).rstrip(".")
            self.query_one("#problem", TextBlock).show(Span(f"{said[:1].upper()}{said[1:]}."))
        else:
            self.finish(name)
            return
        finally:
            field.disabled = False
        # What is to be put right must not be selected, and so endangered.
        field.select_on_focus = False
        field.cursor_position = len(field.value)
        field.focus()


class Picker(Modal[int | None]):
    """Type, choose, enter: one of ``choices``, each a name and a remark. The result is its place, or None."""

    BINDINGS = keymap.bindings("palette")

    def __init__(self, title: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__(id="picker")
        self._title = title
        rows = [(Span(f" {name}"), Span(f"  {remark}", "quiet")) for name, remark in choices]
        self._list = LineList(
            TextRows(rows), empty="Nothing is called that. Escape closes.", filterable=False
        )

    def content(self) -> Iterable[Widget]:
        yield Field(placeholder="type to search")
        yield self._list

    def on_mount(self) -> None:
        self.query_one("#frame", Pane).set_title(self._title)
        self.fit_frame(len(self._list.rows))
        for field in self.query(Field):  # there is none where the application ends meanwhile
            field.focus()

    def moved_list(self) -> LineList:
        return self._list

    @on(Input.Changed)
    def _typed(self, message: Input.Changed) -> None:
        message.stop()
        self._list.set_filter(message.value)

    @on(Input.Submitted)
    def _accepted(self, message: Input.Submitted) -> None:
        message.stop()
        self._list.action_select()

    @on(LineList.Selected)
    def _chosen(self, message: LineList.Selected) -> None:
        message.stop()
        self.finish(message.index)


def changed_on_disk(name: str) -> Dialog:
    """The file was changed by another program since it was read."""
    return Dialog(
        "The file was changed elsewhere",
        f"{name} was changed by another program since it was read here. Replacing it loses that change; "
        "reloading it replaces the text here, which undo brings back.",
        [
            Answer("keep", "Keep editing"),
            Answer("reload", "Reload"),
            Answer("replace", "Replace", danger=True),
        ],
    )


def close_unsaved(name: str) -> Dialog:
    """A script with unsaved changes is to be closed."""
    return Dialog(
        "Close without saving?",
        f"{name} has changes that are not in its file. Discarding them cannot be undone.",
        [
            Answer("keep", "Keep it open"),
            Answer("save", "Save and close"),
            Answer("discard", "Discard", danger=True),
        ],
    )


def leave_unsaved(names: Sequence[str]) -> Dialog:
    """The application is to be left with unsaved scripts."""
    listed = "\n".join(names)
    return Dialog(
        "Leave with unsaved changes?",
        f"{listed}\n\nThe changes are not in the files. They are kept and open again at the next start.",
        [Answer("stay", "Stay"), Answer("save", "Save and leave"), Answer("leave", "Leave unsaved")],
    )
