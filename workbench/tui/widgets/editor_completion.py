"""Completion in the script editor: what may stand at the cursor, and the list under it from which one takes it.

The list never takes the focus: the editor asks it first about each key while it is open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from textual import events
from textual.geometry import Offset
from textual.widget import Widget

from ...completing import Offer, Word, offer
from ...inert import cells
from .editor import ScriptEditor
from .lines import Line, LineList, Span, fit

#: Rows of the list, and the most cells it takes.
ROWS: Final = 8
WIDEST: Final = 60


class WordRows:
    """Words as rows: name and what it is."""

    def __init__(self, words: Sequence[Word]) -> None:
        self.words = words
        self.name_width = max((cells(word.label) for word in words), default=0)

    def __len__(self) -> int:
        return len(self.words)

    def row_id(self, index: int) -> str:
        return f"{self.words[index].kind} {self.words[index].label}"

    def line(self, index: int, width: int) -> Line:
        word = self.words[index]
        name = min(self.name_width, width)
        return (Span(fit(word.label, name)), Span(f"  {word.detail}", "quiet"))

    def text(self, index: int) -> str:
        return self.words[index].label


class Completions(LineList):
    """The open list. ``source`` gives the words and Agents that are known now."""

    DEFAULT_CSS = """
    Completions {
        position: absolute;
        overlay: screen;
        constrain: inside inflect;
        display: none;
        background: $panel;
        & .linelist--cursor-blurred { background: $primary; color: $foreground; text-style: bold; }
        &:nocolor .linelist--cursor-blurred { text-style: bold reverse; }
    }
    """

    def __init__(self, source: Callable[[], tuple[Sequence[Word], Collection[str]]]) -> None:
        super().__init__(empty="", filterable=False, id="completions")
        self.can_focus = False
        self._source = source
        self._editor: ScriptEditor | None = None
        self._row = 0

    @property
    def opened(self) -> bool:
        return self._editor is not None

    def open(self, editor: ScriptEditor) -> bool:
        """Offer what may stand at the cursor of ``editor``; False where nothing may. One match is typed at once."""
        found = self._look(editor)
        if not found.words:
            return False
        self._editor, self._row = editor, editor.cursor_location[0]
        editor.ask_first = self._key
        if len(found.words) == 1 and found.prefix:
            self._take(found.words[0])
            return True
        self._show(found)
        return True

    def close(self) -> None:
        if self._editor is not None:
            self._editor.ask_first = None
            self._editor = None
        self.display = False

    def follow(self, editor: ScriptEditor) -> None:
        """Text or cursor of ``editor`` changed: offer what fits now, or close."""
        if self._editor is None:
            return
        if editor is not self._editor or editor.cursor_location[0] != self._row:
            self.close()
            return
        found = self._look(editor)
        if found.words:
            self._show(found)
        else:
            self.close()

    def _look(self, editor: ScriptEditor) -> Offer:
        row, column = editor.cursor_location
        words, agents = self._source()
        return offer(words, agents, editor.document[row][:column])

    def _show(self, found: Offer) -> None:
        assert self._editor is not None
        rows = WordRows(found.words)
        self.set_rows(rows)
        widest = max(rows.name_width + 3 + cells(word.detail) for word in found.words)
        self.styles.width = min(WIDEST, widest)
        self.styles.height = min(ROWS, len(found.words))
        place = self._editor.cursor_screen_offset
        origin = self.parent.region.offset if isinstance(self.parent, Widget) else Offset()
        self.styles.offset = (place.x - cells(found.prefix) - origin.x, place.y + 1 - origin.y)
        self.display = True

    def _key(self, event: events.Key) -> bool:
        """A key of the editor while the list is open; True where it was meant for the list."""
        if event.key in ("up", "down"):
            self.action_cursor(1 if event.key == "down" else -1)
        elif event.key in ("pageup", "pagedown"):
            self.action_page(1 if event.key == "pagedown" else -1)
        elif event.key in ("enter", "tab"):
            index = self.current_index
            rows = self.rows
            if index is None or not isinstance(rows, WordRows):
                return False
            self._take(rows.words[index])
        elif event.key == "escape":
            self.close()
        else:
            return False
        return True

    def _take(self, word: Word) -> None:
        editor = self._editor
        assert editor is not None
        row, column = editor.cursor_location
        prefix = self._look(editor).prefix
        self.close()
        start = (row, column - len(prefix))
        editor.replace(word.insert, start, (row, column))
        stop = _inside(word.insert)
        editor.move_cursor((row, start[1] + stop))

    def on_line_list_selected(self, message: LineList.Selected) -> None:
        """A double click takes a word."""
        message.stop()
        if self._editor is not None and isinstance(self.rows, WordRows):
            self._take(self.rows.words[message.index])


def _inside(text: str) -> int:
    """Where to go on typing in an inserted text: behind its first ``name: ``, else inside its parentheses."""
    at = text.find(": ")
    if at >= 0:
        return at + 2
    return len(text) - 1 if text.endswith("()") else len(text)
