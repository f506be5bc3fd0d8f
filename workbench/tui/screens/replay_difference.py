"""Where a what-if first differs from its parent, and how it is to go on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from textual import on
from textual.containers import Horizontal
from textual.widget import Widget

from ...continuing import WAYS, How
from ...forking import Fork
from .. import keymap
from ..widgets.choice import Choice
from ..widgets.editor_form import Setting, TextBlock
from ..widgets.lines import Line, LineList, Span, TextRows, wrap
from ..widgets.pane import Pane
from .dialogs import Modal
from .replay_dialogs import Sides

_WAYS: Final = {"recorded": "recorded answers", "stubs": "stubs", "real": "real Agents"}


class _Ways(Setting):
    NAME_WIDTH = 13


class FirstDifference(Modal[str | None]):
    """Where a what-if first differs, and how it is to go on. The result is edit, here, launch, or None; then see ``how``."""

    BINDINGS = keymap.bindings("dialog")
    DEFAULT_CSS = """
    FirstDifference #ways { margin: 1 0 0 0; }
    FirstDifference #effect { margin: 0 0 1 0; }
    FirstDifference #answers { height: 1; }
    """

    def __init__(
        self,
        fork: Fork,
        *,
        what: str,
        parent: str,
        refused: str | None,
        no_real: str | None,
        script: bool,
        unicode: bool,
    ) -> None:
        super().__init__(id="first-difference")
        self._fork = fork
        self._what = what
        self._parent_id = parent
        self._refused = refused
        self._no_real = no_real
        self._script = script
        self._setting = _Ways(
            "Continue on", [_WAYS[way] for way in WAYS], all_shown=True, unicode=unicode, id="ways"
        )
        self._list = LineList(opens=False, filterable=False, id="text")
        found = fork.verdict.divergence
        self._sides = None if found is None else Sides(found, fork.script)

    @property
    def how(self) -> How:
        """How the run is to go on behind the first difference."""
        return WAYS[self._setting.chosen]

    def content(self) -> Iterable[Widget]:
        yield self._list
        yield self._setting
        yield TextBlock(id="effect")
        answers = [Choice("Do not launch", name="no"), Choice("Edit again", name="edit")]
        if self._script:
            answers.append(Choice("Look around in it", name="here"))
        yield Horizontal(*answers, Choice("Launch", name="launch"), id="answers")

    def on_mount(self) -> None:
        frame = self.query_one("#frame", Pane)
        frame.set_title("What if: where it first differs")
        frame.styles.width, frame.styles.max_width, frame.styles.height = "100%", "100%", "1fr"
        self._list.show_cursor = False
        self._tell()
        self.query(Choice).first().focus()

    def on_resize(self) -> None:
        width = self.size.width - 4
        lines: list[Line] = [(Span(line),) for line in wrap(self._what, width)]
        if self._sides is not None:
            rows = self._sides.rows(width)
            self._list.set_rows(TextRows([*lines, (), *rows.lines], rows.width))
            return
        verdict = self._fork.verdict
        said = (
            "It asks what was recorded, as far as that goes."
            if verdict.holds
            else "It cannot be replayed on the record."
        )
        lines += [
            (),
            *((Span(line, "quiet"),) for text in (said, *verdict.notes) for line in wrap(text, width)),
        ]
        self._list.set_rows(TextRows(lines))

    def _tell(self) -> None:
        lines = [Span(_EFFECTS[self.how], "quiet")]
        refused = self._refused or (self._no_real if self.how == "real" else None)
        if refused is not None:
            lines = [Span(f"Not to be launched here: {refused}", "bad")]
        lines.append(
            Span(f"The new run names {self._parent_id} as its parent and inherits no approval.", "quiet")
        )
        lines += [Span(note, "waiting") for note in self._fork.notes]
        self.query_one("#effect", TextBlock).show(*lines)
        for choice in self.query(Choice):
            if choice.name == "launch":
                choice.disabled = refused is not None

    @on(Setting.Pressed)
    def _next_way(self, message: Setting.Pressed) -> None:
        message.stop()
        labels = [_WAYS[way] for way in WAYS]
        self._setting.show(labels, (self._setting.chosen + 1) % len(labels))
        self._tell()

    @on(Choice.Pressed)
    def _answered(self, message: Choice.Pressed) -> None:
        message.stop()
        self.finish(None if message.name == "no" else message.name)


_EFFECTS: Final = {
    "recorded": "A call that asks exactly what was recorded is answered as recorded, by step and request; the "
    "run's stub set answers the rest.",
    "stubs": "Recorded answers up to there, then the run's stub set for every call, also for one that asks the same.",
    "real": "A call that asks exactly what was recorded is answered as recorded; real Agents answer the rest.",
}
