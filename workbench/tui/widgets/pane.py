"""Panes: a border and title that take the accent while the focus is inside, and a list with its filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import on
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.suggester import Suggester
from textual.validation import Validator
from textual.widget import Widget
from textual.widgets import Input

from ...inert import inert
from .. import keymap
from .lines import LineList, Rows


class Field(Input, inherit_bindings=False):
    """A one-line text field whose keys are in the keymap. Escape asks what is around it to take the focus."""

    BINDINGS = keymap.bindings("field")
    DEFAULT_CSS = """
    Field {
        height: 1;
        border: none;
        padding: 0 1;
        background: $foreground 6%;
        &:focus { border: none; background: $foreground 10%; }
        &:nocolor { text-style: underline; }
    }
    """

    class Left(Message):
        """Escape was pressed in the field."""

        def __init__(self, field: Field) -> None:
            super().__init__()
            self.field = field

        @property
        def control(self) -> Field:
            return self.field

    def __init__(
        self,
        value: str = "",
        *,
        placeholder: str = "",
        suggester: Suggester | None = None,
        validators: list[Validator] | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(
            value,
            placeholder=placeholder,
            suggester=suggester,
            validators=validators,
            id=id,
            classes=classes,
        )

    def validate_value(self, value: str) -> str:
        """What is pasted may hold anything; it becomes visible symbols before it is drawn."""
        return inert(value)

    def action_leave_field(self) -> None:
        self.post_message(self.Left(self))


class Pane(Vertical):
    """A titled, single-line border around its children."""

    DEFAULT_CSS = """
    Pane {
        border: round $foreground 30%;
        border-title-color: $foreground 70%;
        border-subtitle-color: $foreground 50%;
        border-title-align: left;
        border-subtitle-align: right;
        padding: 0 1;
        &:focus-within {
            border: round $primary;
            border-title-color: $foreground;
            border-title-style: bold;
        }
        &.-ascii { border: ascii $foreground 30%; }
        &.-ascii:focus-within { border: ascii $primary; }
        &:nocolor:focus-within { border: heavy $foreground; }
        &.-ascii:nocolor:focus-within { border: ascii $foreground; border-title-style: reverse; }
    }
    """

    def __init__(
        self, *children: Widget, title: str = "", id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(*children, id=id, classes=classes)
        self.set_title(title)

    def set_title(self, title: str, note: str | None = None) -> None:
        """Change the title; ``note``, if given, stands in the lower border. Both may hold any text."""
        self.border_title = Content(inert(title)) if title else None
        if note is not None:
            self.set_note(note)

    def set_note(self, note: str) -> None:
        """Change what stands in the lower border; any text."""
        self.border_subtitle = Content(inert(note)) if note else None


class ListPane(Pane):
    """A LineList in a pane, with the filter field that its filter key opens.

    The title is ``NAME COUNT``; while a filter is set it is ``NAME SHOWN of COUNT``. ``above`` stands over the
    list.
    """

    DEFAULT_CSS = """
    ListPane {
        & > Field { display: none; dock: bottom; }
        & > Field.-open { display: block; }
    }
    """

    def __init__(
        self,
        name: str,
        rows: Rows | None = None,
        *,
        lines: LineList | None = None,
        empty: str = "",
        counted: bool = True,
        above: Sequence[Widget] = (),
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        self.list = lines if lines is not None else LineList(rows, empty=empty)
        self._field = Field(placeholder="filter")
        super().__init__(*above, self.list, self._field, title=name, id=id, classes=classes)
        self._heading = name
        self._counted = counted
        self._retitle()

    def set_rows(self, rows: Rows) -> None:
        """Show other rows, keeping cursor and filter."""
        self.list.set_rows(rows)
        self._retitle()

    def kept(self) -> dict[str, str]:
        """What the next start finds again: the filter and the row under the cursor."""
        kept = {"filter": self.list.filter, "row": self.list.current_id or self.list.preferred or ""}
        return {key: value for key, value in kept.items() if value}

    def take_back(self, kept: Mapping[str, object]) -> None:
        """Filter again and go to the row, once there are rows. What is no text is left out."""
        text, row = kept.get("filter"), kept.get("row")
        if isinstance(text, str) and text:
            self._field.value = text
            self._field.add_class("-open")
            self.list.set_filter(text)
        if isinstance(row, str):
            self.list.prefer(row)
        self._retitle()

    def rename(self, name: str) -> None:
        """Change the name in the title."""
        self._heading = name
        self._retitle()

    def clear_filter(self) -> bool:
        """Take the filter away; False where there was none."""
        had = bool(self.list.filter) or self._field.has_class("-open")
        self._field.value = ""
        self.list.set_filter("")
        self._field.remove_class("-open")
        self._retitle()
        return had

    def _retitle(self) -> None:
        total, shown = len(self.list.rows), len(self.list.shown)
        if not self._counted:
            self.set_title(self._heading)
        elif self.list.filter:
            self.set_title(f"{self._heading} {shown:,} of {total:,}")
        else:
            self.set_title(f"{self._heading} {total:,}" if total else self._heading)

    @on(LineList.FilterWanted)
    def _open_filter(self, message: LineList.FilterWanted) -> None:
        message.stop()
        self._field.add_class("-open")
        self._field.focus()

    @on(Input.Changed)
    def _filter_typed(self, message: Input.Changed) -> None:
        message.stop()
        self.list.set_filter(message.value)
        self._retitle()

    @on(Input.Submitted)
    def _filter_accepted(self, message: Input.Submitted) -> None:
        message.stop()
        self._close_field()

    @on(Field.Left)
    def _filter_left(self, message: Field.Left) -> None:
        message.stop()
        self._close_field()

    def _close_field(self) -> None:
        """To the list; the field stays visible as long as it says something."""
        if not self._field.value:
            self._field.remove_class("-open")
        self.list.focus()


def list_pane_of(widget: Widget | None) -> ListPane | None:
    """The ListPane around ``widget``, if there is one."""
    while widget is not None and not isinstance(widget, ListPane):
        parent = widget.parent
        widget = parent if isinstance(parent, Widget) else None
    return widget
