"""One thing under review: what it is, its exact bytes, how much of them was shown, and what can be done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from textual import on
from textual.containers import Horizontal
from textual.message import Message

from workflows_core.model import Artifact, Decision, RunView, StepView

from ... import words
from ...preview import can_preview
from ...review import Approved, Progress, Waiting, is_pictorial, receipt_lines
from ...review_coverage import Coverage
from ...review_pictures import PictureCoverage
from ..refresh import Refresher
from .bytes_view import BytesView, CoverageBar
from .choice import Choice
from .json_bytes import JsonTokens, NotJson
from .lines import Line, TextRows
from .pane import ListPane
from .picture_list import PictureList
from .review_header import ReviewHeader
from .review_pictures import Pictures
from .review_rows import compared_rows, coverage_label, lines_of, named_rows, side_by_side, text_rows
from .run_header import Tab, TabBar

#: The tabs in which exact bytes stand.
BYTE_TABS: Final = ("tree", "markdown", "text", "hex")
_TITLES: Final = {
    "picture": "Picture",
    "tree": "JSON tree",
    "markdown": "Markdown",
    "text": "Text",
    "hex": "Hex",
    "compare": "Compare",
    "receipt": "Receipt",
    "about": "About",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What the detail shows. ``item`` waits, or ``receipt`` was given; ``about`` explains where no bytes are.

    ``header`` gives the lines above the tabs for a width.
    """

    id: str
    title: str
    view: RunView
    header: Callable[[int], list[Line]]
    item: Waiting | None = None
    receipt: Decision | None = None
    artifact: Artifact | None = None
    tokens: JsonTokens | None = None
    progress: Progress | None = None
    about: str = ""

    @property
    def question(self) -> StepView | None:
        """The call of a manual agent that ``item`` is, where its run still waits for the answer."""
        child = self.item.child_run_id if self.item is not None else None
        asked = words.awaiting_answer(self.view) if child is not None else []
        return next((step for step in asked if step.child_run_id == child), None)


def tokens_of(artifact: Artifact) -> JsonTokens | None:
    """The document's lines where the bytes are JSON. May take long for megabytes."""
    try:
        return JsonTokens(artifact.body) if artifact.body else None
    except NotJson:
        return None


def first_tab(subject: Subject) -> str:
    """The rendering that suits the bytes."""
    artifact = subject.artifact
    if subject.receipt is not None:
        return "receipt"
    if artifact is None:
        return "about"
    return "picture" if can_preview(artifact.media_type) else byte_tab(subject)


def byte_tab(subject: Subject) -> str:
    """The rendering in which the exact bytes are best read."""
    artifact = subject.artifact
    assert artifact is not None
    if subject.tokens is not None:
        return "tree"
    if not is_pictorial(artifact.media_type) and (
        artifact.media_type == "text/markdown" or (artifact.path or "").endswith(".md")
    ):
        return "markdown"
    try:
        text = artifact.body.decode("utf-8")
    except UnicodeDecodeError:
        return "hex"
    return "hex" if "\0" in text else "text"


class ReviewDetail(ListPane):
    """The right column. The screen gives it a subject; it shows, and tells what was shown in full."""

    class Changed(Message):
        """More was shown than before."""

    class CompareWanted(Message):
        """The tab that compares was chosen before there was anything to compare with."""

    def __init__(
        self,
        clock: Callable[[], int],
        *,
        unseen_key: str,
        outside_keys: str,
        unicode: bool = True,
        id: str | None = None,
    ) -> None:
        """``outside_keys`` are those that let the exact copy out, in words: ``E or o``."""
        self.output = BytesView()
        super().__init__("Review", lines=self.output, counted=False, id=id)
        self._clock = clock
        self._unicode = unicode
        self._unseen_key = unseen_key
        self._outside_keys = outside_keys
        self._header = ReviewHeader()
        self._bar = TabBar()
        self.coverage = CoverageBar(unicode=unicode)
        self.acts = Horizontal(id="acts")
        self._subject: Subject | None = None
        self._tab = ""
        self._approved: Approved | None = None
        self._compared: tuple[str, bool] = ("", False)
        self._offered: tuple[tuple[str, str, bool, bool], ...] = ()

    def on_mount(self) -> None:
        self._filler = Refresher(self.screen, self._fill, "refresh")
        self._pictures = Pictures(self, self.output, unicode=self._unicode)
        self.mount(self._header, self._bar, before=0)
        self.mount(self.coverage, self.acts)
        self.coverage.display = False

    @property
    def subject(self) -> Subject | None:
        return self._subject

    @property
    def tab(self) -> str:
        return self._tab

    # What is shown

    def announce(self, title: str, message: str) -> None:
        """Show a sentence in place of a subject."""
        self._subject = None
        self._tab = ""
        self.rename(title)
        self._header.show(None)
        self._header.display = False
        self._bar.show((), "")
        self._bar.display = False
        self.coverage.display = False
        self.output.set_empty(message)
        self.output.show_rows(TextRows())

    def show(self, subject: Subject) -> None:
        """Show ``subject``; the same one as before keeps its tab and place."""
        before, self._subject = self._subject, subject
        self.rename(subject.title)
        self._header.display = self._bar.display = True
        self._header.show(subject.header)
        if before is None or before.id != subject.id or self._version(before) != self._version(subject):
            self.clear_filter()
            self._approved, self._compared = None, ("", False)
            self._pictures.forget()
            self._tab = first_tab(subject)
        self._show_tabs()
        self._filler.request()
        self.show_coverage()

    @staticmethod
    def _version(subject: Subject) -> tuple[str, bool]:
        return (subject.artifact.version if subject.artifact else "", subject.receipt is None)

    def tick(self) -> None:
        """A second has passed."""
        if self._subject is not None:
            self._header.show(self._subject.header)

    def tabs(self) -> list[str]:
        subject = self._subject
        if subject is None:
            return []
        names: list[str] = []
        if subject.receipt is not None:
            names.append("receipt")
        if subject.artifact is not None:
            if can_preview(subject.artifact.media_type):
                names.append("picture")
            left_out = set() if subject.tokens is not None else {"tree"}
            if is_pictorial(subject.artifact.media_type) or byte_tab(subject) not in ("markdown", "text"):
                left_out.add("markdown")
            names += [name for name in BYTE_TABS if name not in left_out]
        if subject.about:
            names.append("about")
        if subject.artifact is not None:
            names.append("compare")
        return names

    def _show_tabs(self) -> None:
        names = self.tabs()
        if self._tab not in names and names:
            self._tab = names[0]
        self._bar.show([Tab(name, _TITLES[name]) for name in names], self._tab)

    async def _fill(self) -> None:
        subject = self._subject
        if subject is None:
            return
        width = max(12, self.output.text_width)
        artifact = subject.artifact
        if self._tab in BYTE_TABS and artifact is not None:
            self.output.set_empty("The output is empty: it has 0 bytes.")
            await self.output.show_bytes(artifact.body, self._tab, subject.tokens)
        elif self._tab == "receipt" and subject.receipt is not None:
            self.output.show_rows(named_rows(receipt_lines(subject.receipt, self._clock()), width))
        elif self._tab == "compare":
            self._show_comparison(width)
        elif self._tab == "picture" and artifact is not None:
            if await self._pictures.show(artifact, subject.progress, width):
                self.show_coverage()
        else:
            self.output.show_rows(text_rows(subject.about, width))

    def compare_with(self, approved: Approved | None) -> None:
        """What the last approved version is; None where there is none."""
        self._approved, self._compared = approved, ("", True)
        self.go_to_tab("compare")
        self._filler.request()

    @property
    def compared(self) -> bool:
        """Whether an approved version was looked for."""
        return self._compared[1]

    def _show_comparison(self, width: int) -> None:
        subject, approved = self._subject, self._approved
        if subject is None or subject.artifact is None:
            return
        if not self.compared:
            self.output.set_empty("Looking for the last approved version.")
            self.output.show_rows(TextRows())
        elif approved is None:
            self.output.set_empty(
                "No earlier run has an approved version of this step.\n\n"
                "There is nothing to compare with; read the whole output."
            )
            self.output.show_rows(TextRows())
        else:
            pairs = side_by_side(lines_of(approved.artifact), lines_of(subject.artifact))
            changed = sum(not pair.same for pair in pairs)
            then = words.ago(approved.receipt.decided_at, self._clock())
            heads = f"approved {then}, {approved.receipt.run_id}", "this output"
            self.output.show_rows(compared_rows(pairs, width, heads))
            differs = words.count(changed, "line differs", "lines differ") if changed else "no difference"
            self.set_title(f"{subject.title}: {differs}")

    def on_resize(self) -> None:
        if self._tab not in BYTE_TABS:
            self._filler.request()

    # Tabs

    def go_to_tab(self, name: str) -> None:
        if name not in self.tabs() or name == self._tab:
            return
        self._tab = name
        if self._subject is not None:
            self.rename(self._subject.title)
        self._show_tabs()
        self._filler.request()
        if name == "compare" and not self.compared:
            self.post_message(self.CompareWanted())

    def go_to_tab_at(self, number: int) -> None:
        names = self.tabs()
        if 1 <= number <= len(names):
            self.go_to_tab(names[number - 1])

    @on(BytesView.TabWanted)
    def _neighbour(self, message: BytesView.TabWanted) -> None:
        message.stop()
        names = self.tabs()
        if self._tab in names:
            self.go_to_tab(names[(names.index(self._tab) + message.by) % len(names)])

    @on(TabBar.Chosen)
    def _tab_clicked(self, message: TabBar.Chosen) -> None:
        message.stop()
        self.go_to_tab(message.name)
        self.output.focus()

    # What was shown

    @on(BytesView.Stood)
    def _stood(self, message: BytesView.Stood) -> None:
        message.stop()
        subject = self._subject
        if subject is None or subject.progress is None or subject.artifact is None:
            return
        if message.data is not subject.artifact.body:
            return
        news = [subject.progress.coverage.add(start, end) for start, end in message.spans]
        if any(news):
            subject.progress.renderers.add(message.renderer)
            self.show_coverage()
            self.post_message(self.Changed())

    @on(PictureList.PagesWanted)
    def _pages_wanted(self, message: PictureList.PagesWanted) -> None:
        message.stop()
        self._pictures.want(message)

    @on(PictureList.PictureStood)
    def _picture_stood(self, message: PictureList.PictureStood) -> None:
        message.stop()
        subject = self._subject
        progress = subject.progress if subject is not None else None
        if progress is None or progress.pictures is None or message.rows is not self.output.pages:
            return
        news = [progress.pictures.add(*part) for part in message.parts]
        if any(news):
            progress.renderers.add(message.rows.name)
            self.show_coverage()
            self.post_message(self.Changed())

    def show_coverage(self) -> None:
        progress = self._subject.progress if self._subject is not None else None
        self.coverage.display = progress is not None
        if progress is None:
            return
        shown: Coverage | PictureCoverage = progress.coverage
        if self._tab == "picture" and progress.pictures is not None:
            shown = progress.pictures
        label = coverage_label(
            progress, shown, self._unseen_key, self._outside_keys, in_bytes=self._tab in BYTE_TABS
        )
        self.coverage.show(shown.size, shown.ranges, label, complete=progress.in_full)

    def next_unseen(self) -> bool:
        """Go to the next part that was not shown, unfolding it; False where there is none to go to.

        Of an image or a document those are parts of its pages, where the terminal draws them.
        """
        subject = self._subject
        if subject is None or subject.progress is None:
            return False
        progress, pages = subject.progress, self.output.pages
        if self._tab == "picture" and pages is not None and progress.pictures is not None:
            top = min(round(self.output.scroll_y), len(pages) - 1)
            part = progress.pictures.next_unseen(*(pages.place(top) or (0, 0)))
            if part is not None:
                self.clear_filter()
                self.output.go_to_part(*part)
                self.output.focus()
            return part is not None
        if progress.pictorial:
            self.go_to_tab("picture")
            return progress.pictures is not None
        if self._tab not in BYTE_TABS:
            self.go_to_tab(byte_tab(subject))
            return True
        shown, index = self.output.bytes_shown, self.output.current_index
        here = shown.span(index)[0] if shown is not None and index is not None else 0
        gap = progress.coverage.next_unseen(here)
        if gap is None:
            return False
        self.clear_filter()
        self.output.unfold(gap[0])
        self.output.go_to_byte(gap[0])
        self.output.focus()
        return True

    # What can be done

    async def offer(self, answers: Sequence[tuple[str, str, bool, bool]]) -> None:
        """The buttons: name, label, whether it cannot be undone, whether it can be pressed now."""
        wanted = tuple(answers)
        if wanted == self._offered:
            return
        if [answer[:3] for answer in wanted] != [answer[:3] for answer in self._offered]:
            await self.acts.remove_children()
            await self.acts.mount(
                *(Choice(label, name=name, danger=danger) for name, label, danger, _ in wanted)
            )
        self._offered = wanted
        for choice, answer in zip(self.acts.query(Choice), wanted, strict=True):
            choice.disabled = not answer[3]
        self.acts.display = bool(wanted)
