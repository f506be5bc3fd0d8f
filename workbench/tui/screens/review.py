"""The Review screen: everything that waits for a person on the left, the exact bytes and the decision on the right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from textual import on
from textual.widget import Widget

from workflows_core.errors import WorkflowError
from workflows_core.model import RunView

from ...review import Act, Decided, Waiting, decided, last_approved
from .. import keymap
from ..messages import RunsChanged, Tick
from ..refresh import Refresher
from ..widgets.choice import Choice
from ..widgets.lines import LineList
from ..widgets.pane import ListPane
from ..widgets.review_detail import ReviewDetail, Subject
from ..widgets.review_rows import DecidedRows, InboxRows, look
from ..widgets.run_detail import copied_from
from .base import Column
from .review_deciding import DecidingActs
from .review_subjects import Subjects

#: Runs whose receipts the list of decisions shows, the newest.
RECEIPT_RUNS: Final = 100
#: Seconds for which another thing may stand in the detail while the selected one is read.
PATIENCE: Final = 0.1


class InboxList(LineList):
    """The list of what waits, or of decisions, with its own keys."""

    BINDINGS = keymap.bindings("review.list")


class ReviewScreen(DecidingActs):
    """F4. The cursor of the list says what is under review; nothing is decided that was not shown in full."""

    NAME = "review"
    COLUMNS = (Column("inbox", 40), Column("output", 60))
    MAIN = "inbox"
    CSS_PATH = Path(__file__).with_name("review.tcss")
    BINDINGS: ClassVar = [*keymap.bindings("review")]

    def __init__(self) -> None:
        super().__init__()
        self._past = False
        self._selected: str | None = None
        self._read: str | None = None
        self._waiting: Sequence[Waiting] = []
        self._decided: list[Decided] = []
        self._look: tuple[object, ...] = ()
        self._views: dict[str, tuple[int, RunView]] = {}
        self._reader = Refresher(self, self._read_selected, "run")
        self._receipts = Refresher(self, self._read_decided, "runs")
        self._answers = Refresher(self, self._mount_answers, "refresh")
        self._earlier = Refresher(self, self._look_for_approved, "run")

    def compose_columns(self) -> Iterable[Widget]:
        self._subjects = Subjects(
            self.context.client, self.context.workspace, self.context.clock, unicode=self.unicode
        )
        self._inbox = ListPane("Waiting", lines=InboxList(), id="inbox")
        self._detail = ReviewDetail(
            self.context.clock,
            unseen_key=self.workbench.key_label("review.unseen"),
            outside_keys=self.outside_keys(),
            unicode=self.unicode,
            id="output",
        )
        yield self._inbox
        yield self._detail

    def home(self) -> Widget | None:
        return self._inbox.list

    async def refresh_all(self) -> None:
        self._fill()
        self._reader.request()

    # The list

    def on_runs_changed(self, message: RunsChanged) -> None:
        self._fill()
        run_id = (self._selected or "").partition("\n")[0]
        if not message.run_ids or run_id in message.run_ids:
            self._reader.request()
        if self._past:
            self._receipts.request()
        self.check_asked()

    def on_tick(self, message: Tick) -> None:
        self.check_asked()
        if self.is_current:
            self._fill()
            self._detail.tick()

    def _fill(self) -> None:
        now = self.context.clock()
        self._waiting = self.workbench.book.waiting
        self._inbox.list.set_empty(self._empty())
        rows = (
            DecidedRows(self._decided, now, self.unicode)
            if self._past
            else InboxRows(self._waiting, now, self.unicode)
        )
        if look(rows) != self._look:
            self._look = look(rows)
            self._inbox.rename("Decided" if self._past else "Waiting")
            self._inbox.set_rows(rows)
        if self._inbox.list.current_id != self._selected:
            self._select(self._inbox.list.current_id)
        self.offer()

    def _empty(self) -> str:
        key = self.workbench.key_label
        if not self.workbench.book.loaded:
            return "Reading the runs."
        if self._past:
            return "Nobody has decided anything in the newest runs. Receipts are kept here."
        return (
            "Nothing waits for you.\n\n"
            "A run appears here when its script reaches pause() or humanCheckpoint(), when it asks a manual "
            "agent, or when somebody must say what became of a step.\n\n"
            f"{key('review.group')} shows what was decided."
        )

    @on(LineList.Highlighted, "#inbox LineList")
    def _highlighted(self, message: LineList.Highlighted) -> None:
        message.stop()
        self._select(self._inbox.list.current_id)  # the row of now: the cursor may have gone on since

    @on(LineList.Selected, "#inbox LineList")
    def _opened(self, message: LineList.Selected) -> None:
        message.stop()
        self.reveal("output")
        self._detail.output.focus()

    def show_run(self, run_id: str) -> None:
        """Put the cursor on what ``run_id`` waits for, out of any filter."""
        self._past = False
        self._inbox.clear_filter()
        self._fill()
        found = next((item for item in self._waiting if item.run_id == run_id), None)
        if found is not None:
            self._inbox.list.go_to(found.id)

    def action_next_group(self) -> None:
        self._past = not self._past
        self._inbox.list.focus()
        self._inbox.clear_filter()
        self._selected = None
        self._fill()
        if self._past:
            self._receipts.request()

    async def _read_decided(self) -> None:
        """Read the receipts of the newest runs; a run that has not changed is not read again."""
        views: dict[str, tuple[int, RunView]] = {}
        async with self.busy("reading the receipts"):
            for run in self.workbench.book.newest[:RECEIPT_RUNS]:
                known = self._views.get(run.run_id)
                if known is None or known[0] != run.revision:
                    try:
                        known = run.revision, await self.context.client.view(run.run_id)
                    except WorkflowError:
                        continue
                views[run.run_id] = known
        self._views = views
        self._decided = decided(view for _, view in views.values())
        if self._past:
            self._fill()

    # What is under review

    def _select(self, id: str | None) -> None:
        self._selected, self._read = id, None
        if id is None:
            self._detail.announce("Review", "" if self._inbox.list.filter else "Nothing is selected.")
            if self._detail.has_focus_within:
                self.go_home()
        else:
            self._reader.request()
            self.set_timer(PATIENCE, self._announce)
        self.offer()

    def _announce(self) -> None:
        """Take away what belongs to another thing than the one under the cursor."""
        if self._selected is not None and self._read != self._selected:
            self._detail.announce("Review", "Reading.")
            self.offer()

    async def _read_selected(self) -> None:
        id = self._selected
        waiting = next((item for item in self._waiting if item.id == id), None)
        past = next((item for item in self._decided if item.id == id), None)
        try:
            async with self.busy("reading the output"):
                if self._past and past is not None:
                    subject = await self._subjects.decided(past)
                elif not self._past and waiting is not None:
                    subject = await self._subjects.waiting(waiting)
                else:
                    return
        except WorkflowError as error:
            if id == self._selected:
                self._read = id
                self._detail.announce("Review", f"{error.title}.\n{error}")
                self.offer()
            return
        if id == self._selected:
            self._read = id
            self._detail.show(subject)
            self.offer()

    @property
    def subject(self) -> Subject | None:
        """What is under review, once it is shown and still is the thing under the cursor."""
        subject = self._detail.subject
        return subject if subject is not None and subject.id == self._selected else None

    @on(ReviewDetail.Changed)
    def _more_shown(self, message: ReviewDetail.Changed) -> None:
        message.stop()
        self.offer()

    def show_coverage(self) -> None:
        self._detail.show_coverage()

    # What can be done

    def offer(self) -> None:
        """Bring buttons and keys up to date."""
        self.refresh_bindings()
        self._answers.request()

    async def _mount_answers(self) -> None:
        subject = self.subject
        item = subject.item if subject is not None else None
        if item is None or subject is None:
            await self._detail.offer(())
        elif item.act is Act.DECIDE:
            may = self.may("approve")
            outside = self.may("viewed")
            await self._detail.offer(
                (
                    ("approve", "Approve", False, may),
                    ("reject", "Reject", True, may),
                    *((("viewed", "I viewed it outside", False, True),) if outside else ()),
                )
            )
        elif item.act is Act.RESUME:
            await self._detail.offer((("resume", "Resume", False, self.may("resume")),))
        elif item.child_run_id is not None:
            await self._detail.offer((("answer", "Answer", False, self.may("answer")),))
        else:
            await self._detail.offer((("show_run", "Show in Runs", False, True),))

    def may(self, action: str) -> bool:
        """Whether ``action`` can be done with what is under review now."""
        subject = self.subject
        if subject is None:
            return False
        item, progress = subject.item, subject.progress
        refused = item is None or item.refused(self.context.clock()) != ""
        if action in ("approve", "reject"):
            return progress is not None and not refused and progress.may_decide
        if action == "viewed":
            return (
                progress is not None
                and progress.outside is not None
                and not progress.stated
                and not progress.in_full
            )
        if action == "resume":
            return item is not None and item.act is Act.RESUME and not refused
        if action == "answer":
            return subject.question is not None
        if action == "unseen":
            return progress is not None and not progress.in_full
        return True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("approve", "reject", "viewed", "resume", "answer", "unseen", "show_run"):
            return self.is_mounted and self.may(action)
        if action in ("open_outside", "export", "compare"):
            return self.is_mounted and self.subject is not None and self.subject.artifact is not None
        if action == "copy_value":
            return self.is_mounted and self._selected is not None
        return super().check_action(action, parameters)

    @on(Choice.Pressed, "#acts Choice")
    async def _pressed(self, message: Choice.Pressed) -> None:
        message.stop()
        if self.check_action(message.name, ()):
            await self.run_action(f"screen.{message.name}")

    def action_unseen(self) -> None:
        progress = self.subject.progress if self.subject is not None else None
        if not self._detail.next_unseen() and progress is not None and progress.pictorial:
            self.say_view_outside()

    def action_tab_at(self, number: int) -> None:
        self._detail.go_to_tab_at(number)

    def action_show_run(self) -> None:
        if self.subject is not None:
            self.workbench.show_run(self.subject.view.run_id)

    def action_copy_value(self) -> None:
        """Copy the whole value under the cursor: a run's id, or the output."""
        copied = copied_from(self._detail.output if self._detail.has_focus_within else self._inbox.list)
        if copied is not None:
            self.workbench.copy(*copied)

    # Comparing

    def action_compare(self) -> None:
        if self._detail.tab == "compare" and self.subject is not None:
            self._detail.go_to_tab_at(1)
        else:
            self._detail.go_to_tab("compare")

    @on(ReviewDetail.CompareWanted)
    def _compare(self, message: ReviewDetail.CompareWanted) -> None:
        message.stop()
        self._earlier.request()

    async def _look_for_approved(self) -> None:
        subject = self.subject
        if subject is None:
            return
        step_id = subject.item.step_id if subject.item is not None else subject.id.split("\n")[1]
        async with self.busy("looking for the last approved version"):
            found = await last_approved(
                self.context.client, self.workbench.book.newest, subject.view.run_id, step_id
            )
        if self.subject is not None and self.subject.id == subject.id:
            self._detail.compare_with(found)
