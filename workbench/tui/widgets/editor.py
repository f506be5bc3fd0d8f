"""The script editor: a TextArea that highlights while it is typed in, with a run's marks on its source lines.

What keeps it quick: the syntax tree is asked only for painted rows (``editor_highlight``), a painted line is
kept by its content and not by its place, and lines never wrap. What keeps it safe: every line passes through
``editor_document.layout``, which shows what would act on the terminal as symbols and leaves the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, cast

from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.document._document import EditResult, Location, Selection
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.reactive import Reactive, reactive
from textual.strip import Strip
from textual.widgets import TextArea

from .editor_document import EditorDocument, FlatDocument, FlatNavigator, Replaced
from .editor_highlight import Highlights, editor_theme, grammar, theme_name
from .editor_keys import EDITOR_BINDINGS
from .editor_marks import TONES, LineMarks, Mark, ProblemMark
from .editor_paint import Line, Styles, paint
from .lines import plain_bars

#: A paste longer than this is refused: four times what a script may hold.
PASTE_CHARACTERS: Final = 64_000
INDENT: Final = 2
_BRACKETS: Final = re.compile(r"[()\[\]{}]")
_OPENING: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSING: Final = {closing: opening for opening, closing in _OPENING.items()}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class ScriptEditor(TextArea, inherit_bindings=False):
    """An editor of one text with gutter marks and problems. Rows of ``set_marks`` start at 0."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"editor--{tone}" for tone in TONES}
    BINDINGS: ClassVar[list[BindingType]] = EDITOR_BINDINGS
    DEFAULT_CSS = """
    ScriptEditor {
        border: none;
        padding: 0;
        background: $background;
        scrollbar-size: 0 1;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
        scrollbar-color: $foreground 25%;
        scrollbar-color-hover: $foreground 40%;
        scrollbar-color-active: $foreground 40%;
        & .editor--quiet { color: $foreground 50%; }
        & .editor--running { color: $text-warning; }
        & .editor--waiting { color: $text-warning; text-style: bold; }
        & .editor--good { color: $text-success; }
        & .editor--bad { color: $text-error; text-style: bold; }
    }
    ScriptEditor:focus { border: none; }
    """

    #: TextArea paints everything when the cursor moves; here ``_look_again`` finds the lines that changed.
    selection: Reactive[Selection] = reactive(Selection(), init=False, always_update=True, repaint=False)

    @dataclass
    class PasteRefused(Message):
        """A paste was over PASTE_CHARACTERS; nothing was inserted."""

        editor: ScriptEditor
        length: int

        @property
        def control(self) -> ScriptEditor:
            return self.editor

    def __init__(
        self,
        text: str = "",
        *,
        language: str | None = "javascript",
        show_gutter: bool = True,
        read_only: bool = False,
        placeholder: str = "",
        unicode: bool = True,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        self._beside = LineMarks()
        self._strips: LRUCache[Line, Strip] = LRUCache(2048)
        self._style_set: Styles | None = None
        self._cut = "…" if unicode else ">"
        self._painted: dict[int, Line | None] = {}
        self._look_due = False
        self._sight_due = False
        #: Asked about each key before the editor acts on it; True: it was meant for somebody else.
        self.ask_first: Callable[[events.Key], bool] | None = None
        super().__init__(
            text,
            language=language,
            soft_wrap=False,
            tab_behavior="focus",
            read_only=read_only,
            show_line_numbers=show_gutter,
            max_checkpoints=500,
            placeholder=placeholder,
            name=name,
            id=id,
            classes=classes,
        )
        self.indent_width = INDENT
        for dark, ansi in ((True, False), (False, False), (True, True)):
            self.register_theme(editor_theme(dark, ansi))
        self.theme = "workbench-dark"

    # --- the document

    @property
    def lines(self) -> EditorDocument:
        """The document, which is always exact: see editor_document."""
        return cast(EditorDocument, self.document)

    @property
    def _view(self) -> FlatDocument:
        return cast(FlatDocument, self.wrapped_document)

    def _set_document(self, text: str, language: str | None) -> None:
        of = grammar(language) if language else None
        document = EditorDocument(text, of.language if of is not None else None)
        document.on_replaced = self._follow_edit
        self.document = document
        self.wrapped_document = FlatDocument(document, tab_width=self.indent_width)
        self.navigator = FlatNavigator(self.wrapped_document)
        self._highlights = Highlights(document, of)  # type: ignore[assignment]
        self._beside = LineMarks()
        self.move_cursor((0, 0))
        self._refresh_size()

    @property
    def _spans(self) -> Highlights:
        return cast(Highlights, self._highlights)

    def _build_highlight_map(self) -> None:
        self._look_again()

    def _watch_selection(self, previous_selection: Selection, selection: Selection) -> None:
        super()._watch_selection(previous_selection, selection)
        self._look_again()

    def _watch_language(self, language: str | None) -> None:
        if not (language is None and self.lines.tree is None):
            self._set_document(self.document.text, language)

    def _rewrap_and_refresh_virtual_size(self) -> None:
        self._view.wrap(0, self.indent_width)
        self._refresh_size()

    def _refresh_size(self) -> None:
        width, height = self.lines.get_size(self.indent_width)
        self.virtual_size = Size(width + self.gutter_width + 1, height)
        self._refresh_scrollbars()

    def get_column_width(self, row: int, column: int) -> int:
        return self._view.layout(row).cell(column)

    def find_matching_bracket(self, bracket: str, search_from: Location) -> Location | None:
        """The bracket that pairs with the one at ``search_from``, by nesting alone."""
        row, column = search_from
        lines = self.lines.lines
        own, other = (_OPENING, _CLOSING) if bracket in _OPENING else (_CLOSING, _OPENING)
        if bracket not in own:
            return None
        forwards = own is _OPENING
        stack: list[str] = []
        for at in range(row, len(lines)) if forwards else range(row, -1, -1):
            found = list(_BRACKETS.finditer(lines[at]))
            for match in found if forwards else reversed(found):
                if at == row and (match.start() < column if forwards else match.start() > column):
                    continue
                char = match.group()
                if char in own:
                    stack.append(char)
                elif stack[-1] == other[char]:
                    stack.pop()
                    if not stack:
                        return at, match.start()
        return None

    # --- marks and problems

    @property
    def marks(self) -> Mapping[int, Mark]:
        """The gutter marks as they stand, by row from 0."""
        return self._beside.marks

    def set_marks(self, marks: Mapping[int, Mark]) -> None:
        """Show these gutter marks; only rows that differ are painted again."""
        self._repaint(self._beside.set_marks(marks))

    @property
    def problems(self) -> tuple[ProblemMark, ...]:
        """The problems where they stand now: edits move them until they are set again."""
        return self._beside.problems

    def set_problems(self, problems: Sequence[ProblemMark]) -> None:
        """Underline these places and mark their lines; only rows that differ are painted again."""
        self._repaint(self._beside.set_problems(problems, self.lines.lines))

    def _repaint(self, rows: set[int]) -> None:
        if self.is_mounted:
            for row in rows:
                self.refresh_lines(row)

    def _follow_edit(self, edit: Replaced) -> None:
        self._beside.follow(edit, self.lines.lines)
        self._spans.follow(edit.start[0], edit.end[0], edit.new_end[0], edit.changed)

    def go_to(self, line: int, column: int = 1) -> None:
        """Put the cursor at this place, counted from 1, and its line in the middle of the view."""
        self.move_cursor((max(0, line - 1), max(0, column - 1)), center=True)

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        # Before the first layout no width is known: where to scroll is decided then.
        if not self.size:
            self._sight_due = self._sight_due or center
            return Offset()
        if not center:
            return super().scroll_cursor_visible(False, animate)
        x, y = self.wrapped_document.location_to_offset(self.cursor_location)
        width, height = self.scrollable_content_region.size
        before = self.scroll_offset
        # Sideways only as far as it must be: lines are read from their start.
        left = max(0, x + 3 - (width - self.gutter_width))
        self.scroll_to(left, y - height // 2, animate=animate, force=True, immediate=True)
        return self.scroll_offset - before

    def on_resize(self) -> None:
        if self._sight_due and self.size:
            self._sight_due = False
            self.call_after_refresh(self.scroll_cursor_visible, center=True)

    def become(self, text: str) -> None:
        """Make the text equal to ``text`` by one edit that undo takes back; the cursor keeps its place.

        A text with other line ends is loaded anew, which undo does not take back.
        """
        if EditorDocument(text).newline != self.lines.newline:
            self.load_text(text)
            return
        old, new = self.lines.lines, text.split(self.lines.newline)
        if old == new:
            return
        shorter = min(len(old), len(new))
        top = next((row for row in range(shorter) if old[row] != new[row]), shorter)
        below = next((row for row in range(shorter - top) if old[-1 - row] != new[-1 - row]), shorter - top)
        if top + below == shorter:
            # One of the two has no lines of its own between the equal parts: take one more line into both.
            top, below = (top - 1, below) if top else (top, below - 1)
        last = len(old) - below - 1
        self.history.checkpoint()
        self.replace("\n".join(new[top : len(new) - below]), (top, 0), (last, len(old[last])))
        self.history.checkpoint()

    # --- keys

    async def _on_key(self, event: events.Key) -> None:
        # Textual calls the handler of TextArea after this one unless the default is prevented.
        if self.ask_first is not None and self.ask_first(event):
            event.stop()
            event.prevent_default()
        elif event.key.startswith("alt+"):
            event.prevent_default()  # a binding's, even where the terminal sends a character with it
        elif event.key == "enter" and not self.read_only:
            event.stop()
            event.prevent_default()
            self._restart_blink()
            self._replace_via_keyboard("\n" + self._indentation(), *self.selection)

    def _indentation(self) -> str:
        """What a new line at the cursor starts with."""
        row, column = min(self.selection)
        before = self.document[row][:column]
        indent = before[: len(before) - len(before.lstrip(" \t"))]
        return indent + " " * INDENT if before.rstrip().endswith(("{", "[", "(")) else indent

    def _replace_via_keyboard(self, insert: str, start: Location, end: Location) -> EditResult | None:
        if self.read_only:
            return None
        if len(insert) > PASTE_CHARACTERS:
            self.post_message(self.PasteRefused(self, len(insert)))
            return None
        text = insert.replace("\r\n", "\n").replace("\r", "\n")
        return super()._replace_via_keyboard(_SURROGATE.sub("\ufffd", text), start, end)

    def action_document_start(self) -> None:
        self.move_cursor((0, 0))

    def action_document_end(self) -> None:
        self.move_cursor(self.document.end)

    def action_indent(self) -> None:
        self._each_line(lambda line: " " * INDENT + line if line else line)

    def action_dedent(self) -> None:
        def dedent(line: str) -> str:
            gone = 1 if line.startswith("\t") else min(INDENT, len(line) - len(line.lstrip(" ")))
            return line[gone:]

        self._each_line(dedent)

    def _each_line(self, change: Callable[[str], str]) -> None:
        """Replace the lines of the selection by ``change`` of each, as one step of undo."""
        if self.read_only:
            return
        (top, _), (bottom, column) = sorted(self.selection)
        if bottom > top and column == 0:
            bottom -= 1
        old = self.lines.lines[top : bottom + 1]
        new = [change(line) for line in old]
        if new == old:
            return
        start, end = self.selection
        self.replace("\n".join(new), (top, 0), (bottom, len(old[-1])))

        def kept(location: Location) -> Location:
            row, column = location
            shift = len(new[row - top]) - len(old[row - top]) if top <= row <= bottom and column else 0
            return row, max(0, column + shift)

        self.selection = Selection(kept(start), kept(end))

    # --- painting

    @property
    def gutter_width(self) -> int:
        """Cells of mark, problem letter and number; 0 without a gutter."""
        return self._number_width + 4 if self.show_line_numbers else 0

    @property
    def _number_width(self) -> int:
        return max(2, len(str(self.document.line_count)))

    def _app_theme_changed(self) -> None:
        self.theme = theme_name(self.app.current_theme.dark, self.app.native_ansi_color)

    def _set_theme(self, theme: str) -> None:
        super()._set_theme(theme)
        self._style_set = None

    def notify_style_update(self) -> None:
        self._style_set = None
        super().notify_style_update()

    def on_mount(self) -> None:
        self._app_theme_changed()
        plain_bars(self)

    @property
    def _styles(self) -> Styles:
        if self._style_set is None:
            self._theme.apply_css(self)
            self._strips.clear()
            components: dict[str, Style] = {
                name: self.get_component_rich_style(name, partial=True)
                for name in ScriptEditor.COMPONENT_CLASSES
            }
            self._style_set = Styles(self._theme, components, self._cut)
        return self._style_set

    def render_lines(self, crop: Region) -> list[Strip]:
        # TextArea works its styles out at every call; here they are kept until a style changes.
        return super(TextArea, self).render_lines(crop)

    def render_line(self, y: int) -> Strip:
        styles = self._styles
        line = self._painted[y] = self._line_at(y)
        if line is None:
            return Strip.blank(self.size.width, styles.theme.base_style)
        if self.placeholder and not line.text and self.document.line_count == 1:
            return super().render_line(y)
        strip = self._strips.get(line)
        if strip is None:
            strip = self._strips[line] = paint(line, styles, self.indent_width, self.app.console)
        return strip

    def _line_at(self, y: int) -> Line | None:
        """All that decides how line ``y`` of the view looks; None below the end of the text."""
        scroll_x, scroll_y = self.scroll_offset
        row = y + scroll_y
        lines = self.lines.lines
        if row >= len(lines):
            return None
        text = lines[row]
        start, end = self.selection
        here = end[0] == row and self._has_cursor
        selected: tuple[int, int] | None = None
        brackets: tuple[int, ...] = ()
        if start != end:
            top, bottom = (start, end) if start < end else (end, start)
            if top[0] <= row <= bottom[0]:
                selected = (
                    top[1] if row == top[0] else 0,
                    bottom[1] if row == bottom[0] else len(text) + 1,
                )
        elif (partner := self._matching_bracket_location) is not None and self._has_cursor:
            brackets = (*((partner[1],) if partner[0] == row else ()), *((end[1],) if here else ()))
        return Line(
            text,
            self._spans[row],
            row,
            self.gutter_width,
            self.scrollable_content_region.width,
            scroll_x,
            here and self.highlight_cursor_line,
            end[1] if here and self._draw_cursor else None,
            selected,
            brackets,
            self._beside.marks.get(row),
            self._beside.underlines.get(row, ()),
        )

    def _look_again(self) -> None:
        """Text or cursor changed: once this message is done, paint the lines that look different now."""
        if not self._look_due and self.is_mounted:
            self._look_due = True
            self.call_next(self._repaint_changed)

    def _repaint_changed(self) -> None:
        self._look_due = False
        top = self.scroll_offset.y
        for y in range(self.size.height):
            if y not in self._painted or self._painted[y] != self._line_at(y):
                self.refresh_lines(top + y)
