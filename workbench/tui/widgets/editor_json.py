"""The editor of launch arguments: JSON in a few lines, with the place of an error underlined in it."""

from __future__ import annotations

from .editor import ScriptEditor
from .editor_marks import ProblemMark


class ArgumentsEditor(ScriptEditor):
    """A small JSON editor without a gutter. What is wrong with the text is decided by who uses it."""

    DEFAULT_CSS = """
    ArgumentsEditor { background: $foreground 4%; padding: 0 1; }
    ArgumentsEditor:focus { background: $foreground 7%; }
    ArgumentsEditor:nocolor { text-style: none; }
    """

    def __init__(self, text: str = "", *, unicode: bool = True, id: str | None = None) -> None:
        super().__init__(text, language="json", show_gutter=False, placeholder="{}", unicode=unicode, id=id)
        self.highlight_cursor_line = False

    def show_error(self, place: tuple[int, int] | None) -> None:
        """Underline the error at this line and column, counted from 1; None: there is none."""
        self.set_problems([] if place is None else [ProblemMark(*place, "error")])
