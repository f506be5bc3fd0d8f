"""The part of the Review screen that decides: approve, reject and resume, and what becomes of a question that is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual import work

from workflows_core.engine.waits import DecideRequest
from workflows_core.errors import WorkflowError

from ... import words
from ...inert import inert
from ...review import Waiting, consumers
from ..widgets.review_detail import Subject
from .dialogs import Answer
from .review_dialogs import DecisionDialog, TextDialog, approving, reason_problem, rejecting
from .review_outside import OutsideActs


class DecidingActs(OutsideActs):
    """Base of the Review screen. While it asks, it watches whether what it asks about still waits."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: tuple[DecisionDialog | TextDialog, Waiting] | None = None
        #: Reasons of rejections that were refused, by the id of what waits.
        self._reasons: dict[str, str] = {}

    @property
    def waiting(self) -> Sequence[Waiting]:
        """Everything that waits for a person now."""
        return self.workbench.book.waiting

    def go_home(self) -> None:
        """Put the focus on the list."""
        home = self.home()
        column = None if home is None else self.column_of(home)
        if home is not None and column is not None:
            self.reveal(column)
            home.focus()

    @work(group="act", exit_on_error=False)
    async def action_approve(self) -> None:
        subject = self.subject
        if subject is None or subject.progress is None or subject.item is None or not self.may("approve"):
            return
        next_steps = consumers(subject.view, subject.item.step_id, subject.item.attempt)
        answers = [Answer("wait", "Not yet"), Answer("approve", "Approve these bytes")]
        dialog = DecisionDialog(
            "Approve this output?", approving(subject, subject.progress, next_steps), answers
        )
        if await self._answer(dialog, subject.item) == "approve":
            await self._decide(subject, "approve", None)

    @work(group="act", exit_on_error=False)
    async def action_reject(self) -> None:
        subject = self.subject
        if subject is None or subject.progress is None or subject.item is None or not self.may("reject"):
            return
        dialog = TextDialog(
            "Reject this output?",
            rejecting(subject, subject.progress),
            [Answer("wait", "Not yet"), Answer("reject", "Reject this output", danger=True)],
            placeholder="reason, for the receipt and the run's cause",
            check=reason_problem,
            value=self._reasons.get(subject.item.id, ""),
        )
        reason = await self._answer(dialog, subject.item)
        if reason is not None:
            await self._decide(subject, "reject", reason)

    async def _answer(self, dialog: DecisionDialog | TextDialog, item: Waiting) -> str | None:
        self._asked = dialog, item
        try:
            return await self.app.push_screen_wait(dialog)
        finally:
            self._asked = None

    def check_asked(self) -> None:
        """Withdraw the question that is open once its object is decided, expired or gone."""
        if self._asked is None or self._asked[0].withdrawn:
            return
        dialog, item = self._asked
        known = next((each for each in self.waiting if each.id == item.id), None)
        if known is None or known.refused(self.context.clock()):
            self.run_worker(
                self._withdraw(dialog, item), group="withdraw", exclusive=True, exit_on_error=False
            )

    async def _withdraw(self, dialog: DecisionDialog | TextDialog, item: Waiting) -> None:
        why = await self._why_over(item)
        if why and dialog.is_attached:
            dialog.withdraw(why)

    async def _why_over(self, item: Waiting) -> str:
        """Why ``item`` cannot be decided any more, as inert sentences; empty where it still can."""
        now = self.context.clock()
        try:
            view = await self.context.client.view(item.run_id)
        except WorkflowError as error:
            return inert(f"{error.title}. {error}")
        place = item.step_id, item.attempt
        made = next((each for each in view.receipts if (each.step_id, each.attempt) == place), None)
        if made is not None:
            return f"{inert(item.step_id)} was decided in the meantime: {words.receipt(made, now)}."
        if refused := replace(item, cancel_requested=view.cancel_requested).refused(now):
            return refused
        wait = view.waiting
        if wait is not None and not view.state.final and (wait.step_id, wait.attempt) == place:
            return ""
        because = words.because(view)
        return f"{inert(item.step_id)} does not wait any more: the run {words.condition(view, now)}" + (
            f". {because}" if because else "."
        )

    async def _decide(self, subject: Subject, decision: str, reason: str | None) -> None:
        item, progress = subject.item, subject.progress
        assert item is not None and progress is not None
        request = DecideRequest(
            run_id=item.run_id,
            step_id=item.step_id,
            attempt=item.attempt,
            decision=decision,
            sha256=progress.sha256,
            reason=reason,
            review=progress.review(),
        )
        try:
            async with self.busy("recording the decision"):
                receipt = await self.context.client.decide(request)
        except WorkflowError as error:
            if reason is not None:
                self._reasons[item.id] = reason
            why = await self._why_over(item)
            if not why:
                raise
            self.go_home()
            lines = [why, str(error), *([f"Your reason: {reason}"] if reason is not None else [])]
            self.workbench.notice("\n".join(lines), title="Nothing was decided", severity="warning")
            return
        self._reasons.pop(item.id, None)
        self.action_back()
        past = "Approved" if receipt.decision == "approve" else "Rejected"
        self.workbench.notice(
            f"{item.step_id} of {item.name or item.run_id}, hash {words.hash7(progress.sha256)}. "
            f"{self.workbench.key_label('review.group')} shows the receipt.",
            title=past,
        )

    @work(group="act", exit_on_error=False)
    async def action_resume(self) -> None:
        subject = self.subject
        if subject is None or subject.item is None or not self.may("resume"):
            return
        item = subject.item
        async with self.busy("resuming"):
            outcome = await self.context.client.resume(item.run_id, item.step_id, item.attempt)
        self.action_back()
        self.workbench.notice(outcome.message, title="Resume")

    @work(group="act", exit_on_error=False)
    async def action_answer(self) -> None:
        """Ask for the answer of a manual agent's call, and give it."""
        from .run_answer import answer_question

        subject = self.subject
        step = subject.question if subject is not None else None
        if subject is None or step is None:
            return
        if await answer_question(self, subject.view, step):
            self.action_back()
