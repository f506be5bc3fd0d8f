"""What stands above a run's tabs: its state in words, the cause, why it stands there, its identity; and the tabs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from workflows_core.model import RunSummary, RunView

from ... import acts, words
from ...inert import cells, shorten
from .bars import LineBar
from .lines import Line, Span, drawn, wrap

#: More lines of a cause than this are cut off; the whole of it can be copied from the result's tab.
_CAUSE_LINES = 3
#: The header's usual height; keeping it spares a layout with every run that the cursor passes.
_LINES = 3


class RunHeader(LineBar):
    """The state in a sentence with its cause, since when, and the last progress; why; then the run's identity.

    ``key`` gives the key of an act, for the sentence that says what a person can do.
    """

    DEFAULT_CSS = """
    RunHeader { height: 3; margin-bottom: 1; }
    """

    def __init__(self, *, key: Callable[[str], str] = str, unicode: bool = True) -> None:
        super().__init__()
        self._unicode = unicode
        self._key = key
        self._run: RunView | RunSummary | None = None
        self._now = 0
        self._lines: list[Line] = []

    def show(self, run: RunView | RunSummary | None, now: int) -> None:
        """Show ``run`` as it stands at ``now`` (microseconds since the epoch); None shows nothing."""
        self._run, self._now = run, now
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        self._lines = header_lines(
            self._run, self._now, self.size.width, key=self._key, unicode=self._unicode
        )
        self.styles.height = max(_LINES, len(self._lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        base, width = self.rich_style, self.size.width
        line = self._lines[y] if y < len(self._lines) else ()
        return Strip(
            [Segment(drawn(text, self.app), base + self._tone(tone) if tone else base) for text, tone in line]
        ).crop_extend(0, width, base)


def header_lines(
    run: RunView | RunSummary | None,
    now: int,
    width: int,
    *,
    key: Callable[[str], str] = str,
    unicode: bool = True,
) -> list[Line]:
    """The header of ``run`` for ``width`` cells."""
    if run is None or width < 1:
        return []
    mark = words.run_mark(run.state)
    dot = " · " if unicode else " - "
    glyph = f"{mark.glyph if unicode else mark.ascii} "
    said = words.condition(run, now)
    progress = "" if run.state.final else f"last progress {words.ago(run.last_progress, now)}"
    lines: list[Line] = []
    if cells(glyph + said + dot + progress) <= width:
        after = [Span(f"{dot}{progress}", "quiet")] if progress else []
        lines.append([Span(glyph, mark.tone), Span(said, mark.tone), *after])
    else:
        for number, text in enumerate(wrap(said, max(10, width - 2))):
            lines.append((Span(glyph if not number else "  ", mark.tone), Span(text, mark.tone)))
        if progress:
            lines.append((Span(f"  {progress}", "quiet"),))
    cause = wrap(words.because(run), max(10, width - 2)) if run.cause is not None else []
    if len(cause) > _CAUSE_LINES:
        cause = cause[:_CAUSE_LINES]
        cause[-1] = cause[-1][: width - 5] + ("…" if unicode else "...")
    lines += [(Span(f"  {line}"),) for line in cause]
    why = acts.why(run, now, key)
    lines += [(Span(f"  {line}", "accent"),) for line in (wrap(why, max(10, width - 2)) if why else ())]
    parts = [run.run_id, f"script {words.hash7(run.script_hash)}"]
    if isinstance(run, RunView):
        parts.append(f"agents {shorten(str(run.options.get('label', 'stub')), 24)}")
    if run.parent_run_id is not None:
        parts.append(f"fork of {run.parent_run_id}")
    parts.append(f"started {words.absolute(run.created_at)}")
    lines += [(Span(f"  {line}", "quiet"),) for line in _filled(parts, dot, width - 2)]
    return lines


def _filled(parts: Sequence[str], dot: str, width: int) -> list[str]:
    """``parts`` joined by ``dot`` into as few lines of ``width`` cells as hold them."""
    lines: list[str] = []
    for part in parts:
        part = shorten(part, max(1, width))
        if lines and cells(lines[-1]) + len(dot) + cells(part) <= width:
            lines[-1] += dot + part
        else:
            lines.append(part)
    return lines


@dataclass(frozen=True, slots=True)
class Tab:
    """``name`` is the tab's, ``title`` is shown, ``count`` behind it where it says something."""

    name: str
    title: str
    count: int | None = None

    @property
    def label(self) -> str:
        return self.title if self.count is None else f"{self.title} {self.count:,}"


def _counted(tab: Tab, number: int, current: bool) -> str:
    return tab.label


def _titled(tab: Tab, number: int, current: bool) -> str:
    return tab.label if current else tab.title


def _numbered(tab: Tab, number: int, current: bool) -> str:
    return f"{number} {tab.label}" if current else str(number)


class TabBar(LineBar):
    """The tabs of a pane, the current one marked. Their numbers are the keys that lead to them."""

    DEFAULT_CSS = """
    TabBar { margin-bottom: 1; }
    """

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self) -> None:
        super().__init__()
        self._tabs: Sequence[Tab] = ()
        self._current = ""

    @property
    def tabs(self) -> Sequence[Tab]:
        return self._tabs

    @property
    def current(self) -> str:
        return self._current

    def show(self, tabs: Sequence[Tab], current: str) -> None:
        if (tabs, current) != (self._tabs, self._current):
            self._tabs, self._current = tabs, current
            self.refresh()

    def spans(self, width: int) -> Sequence[Span]:
        """All tabs as full as they fit: with counts, without them, or as numbers around the current one's title."""
        labels: list[str] = []
        for form in (_counted, _titled, _numbered):
            labels = [
                f" {form(tab, number, tab.name == self._current)} "
                for number, tab in enumerate(self._tabs, start=1)
            ]
            if sum(map(len, labels)) <= width:
                break
        return [
            Span(label, "current" if tab.name == self._current else "quiet")
            for tab, label in zip(self._tabs, labels, strict=True)
        ]

    def on_click(self, event: events.Click) -> None:
        left = 0
        for tab, span in zip(self._tabs, self.spans(self.size.width), strict=True):
            if left <= event.x < left + len(span.text):
                self.post_message(self.Chosen(tab.name))
            left += len(span.text)
