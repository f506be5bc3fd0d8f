"""What can be done with a run on the Runs screen, each act with the keys and words of its command.

What loses something asks first, and says what is lost.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from pathlib import Path

from textual import work

from workflows_core.model import DELETABLE, RunState, RunSummary, RunView, StepView

from ... import acts, words
from ...inert import inert
from .base import WorkbenchScreen
from .dialogs import Answer, Dialog


class RunActs(WorkbenchScreen):
    """The acts of a screen that shows runs. A subclass says which run, and which of its steps, is meant."""

    def __init__(self) -> None:
        super().__init__()
        self._previewing = False
        #: The run that another was compared with last.
        self._compared: str | None = None

    @property
    def marked(self) -> Collection[str]:
        """The ids of the marked runs."""
        return ()

    def acting_run(self) -> RunSummary | None:
        """The run that an act is about."""
        raise NotImplementedError

    def acting_view(self) -> RunView | None:
        """That run with its steps, once it was read."""
        raise NotImplementedError

    def acting_step(self) -> StepView | None:
        """The step under the cursor, where the focus is among steps."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        run = self.acting_run() if self.is_mounted else None
        now = self.context.clock()
        if action == "resume":
            return run is not None and acts.open_wait(run, "pause", now) is not None
        if action == "review":
            there = "review" in dict(self.workbench.screen_titles)
            return there and run is not None and acts.open_wait(run, "checkpoint", now) is not None
        if action == "replay":
            return run is not None and "replay" in dict(self.workbench.screen_titles)
        if action == "recover":
            return run is not None and acts.may_recover(run)
        if action == "reconcile":
            return run is not None and self._unsettled() is not None
        if action == "answer":
            return run is not None and self._asked() is not None
        if action in ("export", "fork"):
            return run is not None
        if action == "compare":
            return run is not None and len(self.workbench.book.newest) > 1
        if action == "child":
            step = self.acting_step() if run is not None else None
            return step is not None and step.child_run_id is not None
        if action == "cancel":
            return run is not None and acts.may_cancel(run)
        if action == "delete":
            return run is not None and run.state in DELETABLE
        return super().check_action(action, parameters)

    @work(group="act", exit_on_error=False)
    async def action_resume(self) -> None:
        run = self.acting_run()
        wait = None if run is None else acts.open_wait(run, "pause", self.context.clock())
        if run is None or wait is None:
            return
        async with self.busy("resuming"):
            outcome = await self.context.client.resume(run.run_id, wait.step_id, wait.attempt)
        self.workbench.notice(outcome.message, title="Resume")

    def action_replay(self) -> None:
        if (run := self.acting_run()) is not None:
            self.workbench.show_run(run.run_id, on="replay")

    def action_review(self) -> None:
        if (run := self.acting_run()) is not None:
            self.workbench.show_run(run.run_id, on="review")

    @work(group="act", exit_on_error=False)
    async def action_compare(self) -> None:
        """Ask for the other run, and show both step by step; the older one stands first."""
        from .run_compare import RunCompareScreen, RunPicker, others, view_of_file

        run = self.acting_run()
        if run is None:
            return
        choices = others(run, self.workbench.book.newest, self._compared, self.marked)
        picker = RunPicker(run, choices, self.context.clock(), unicode=self.unicode)
        chosen = await self.app.push_screen_wait(picker)
        if chosen is None:
            return
        other: RunSummary | RunView | None = self.workbench.book.get(chosen)
        side: RunView | str = chosen
        if other is None:
            other = side = await view_of_file(self, chosen)
        else:
            self._compared = chosen
        sides = (side, run.run_id) if other.created_at < run.created_at else (run.run_id, side)
        self.app.push_screen(RunCompareScreen(*sides))

    @work(group="act", exit_on_error=False)
    async def action_fork(self) -> None:
        from .run_fork import answered, fork

        run, step = self.acting_run(), self.acting_step()
        if run is not None:
            await fork(self, run, step if answered(step) else None)

    def action_child(self) -> None:
        """Show the events of the child run of the step under the cursor."""
        from .run_child import ChildRunScreen

        run, step = self.acting_run(), self.acting_step()
        if run is not None and step is not None and step.child_run_id is not None:
            self.app.push_screen(ChildRunScreen(run.run_id, step))

    @work(group="act", exit_on_error=False)
    async def action_recover(self) -> None:
        """Say what recovering would do, ask, and do it."""
        from .run_dialogs import RecoverDialog

        run = self.acting_run()
        if run is None or self._previewing:
            return
        self._previewing = True
        try:
            async with self.busy("looking at what recovering would do"):
                preview = await self.context.client.preview(run.run_id)
                view = await self.context.client.view(run.run_id)
        finally:
            self._previewing = False
        answer = await self.app.push_screen_wait(RecoverDialog(view, preview, self.context.clock()))
        if answer == "cancel":
            await self._cancel(run)
        if answer != "recover":
            return
        async with self.busy("recovering"):
            outcome = await self.context.client.recover(run.run_id)
        self.workbench.notice(outcome.message, title="Recover")

    def _unsettled(self) -> StepView | None:
        """The unsettled step under the cursor of the details, else the first one of the run."""
        view = self.acting_view()
        steps = acts.unsettled(view) if view is not None else []
        return next((step for step in steps if step == self.acting_step()), steps[0] if steps else None)

    @work(group="act", exit_on_error=False)
    async def action_reconcile(self) -> None:
        """Ask what became of the step, and put the answer on record."""
        from .run_dialogs import ReconcileDialog

        view, step = self.acting_view(), self._unsettled()
        if view is None or step is None:
            return
        client = self.context.client
        async with self.busy("looking at its child run"):
            known = await client.evidence(view.run_id, step.step_id)
        dialog = ReconcileDialog(
            view,
            step,
            known,
            who=client.identity(),
            now=self.context.clock(),
            folder=self.context.workspace.root,
            unicode=self.unicode,
        )
        request = await self.app.push_screen_wait(dialog)
        if request is None:
            return
        async with self.busy("putting it on record"):
            outcome = await client.reconcile(request)
        self.workbench.notice(outcome.message, title="Reconcile")

    def _asked(self) -> StepView | None:
        """The call under the cursor of the details that a person must answer, else the first one of the run."""
        view = self.acting_view()
        steps = words.awaiting_answer(view) if view is not None else []
        return next((step for step in steps if step == self.acting_step()), steps[0] if steps else None)

    @work(group="act", exit_on_error=False)
    async def action_answer(self) -> None:
        """Ask for the answer of a manual agent's call, and give it."""
        from .run_answer import answer_question

        view, step = self.acting_view(), self._asked()
        if view is not None and step is not None:
            await answer_question(self, view, step)

    def _exportable(self) -> StepView | None:
        """The step under the cursor of the details, where it has bytes."""
        step = self.acting_step() if self.acting_view() is not None else None
        return step if step is not None and step.artifact_version is not None else None

    @work(group="act", exit_on_error=False)
    async def action_export(self) -> None:
        """Write to a new file what the cursor is on: the exact bytes of a step, else the whole run."""
        from ...review_copies import export
        from .review_dialogs import export_dialog
        from .run_export import export_bundle

        run, view, step = self.acting_run(), self.acting_view(), self._exportable()
        if run is not None and step is None:
            await export_bundle(self, run)
        if view is None or step is None:
            return
        root = self.context.workspace.root
        async with self.busy("reading the bytes"):
            artifact = await self.context.client.artifact(view.run_id, step.step_id)
        name = await self.app.push_screen_wait(export_dialog(artifact, root))
        if name is not None:
            target = root / Path(os.path.expanduser(name))  # noqa: PTH111 - never raises
            copy = await asyncio.to_thread(export, artifact, target)
            self.workbench.notice(f"{copy.path}\nSHA-256 {copy.sha256}", title="Exported")

    @work(group="act", exit_on_error=False)
    async def action_cancel(self) -> None:
        run = self.acting_run()
        if run is not None:
            await self._cancel(run)

    async def _cancel(self, run: RunSummary) -> None:
        unsettled = run.state is RunState.NEEDS_RECONCILIATION
        text = (
            f"{named(run)}\n\n"
            + (
                "The cancel is recorded; the run ends once its uncertain steps are settled. "
                if unsettled
                else ""
            )
            + "Its children are interrupted and observed until they end. What they have done "
            "so far is not undone. A cancelled run cannot go on."
        )
        answers = [Answer("keep", "Let it run"), Answer("cancel", "Cancel the run", danger=True)]
        if await self.app.push_screen_wait(Dialog("Cancel this run?", text, answers)) != "cancel":
            return
        async with self.busy("cancelling"):
            outcome = await self.context.client.cancel(run.run_id)
        self.workbench.notice(outcome.message, title="Cancel")

    @work(group="act", exit_on_error=False)
    async def action_delete(self) -> None:
        run = self.acting_run()
        if run is None:
            return
        text = (
            f"{named(run)}\n\nThe run, its journal and its result are deleted. That cannot be undone. "
            "Its request id stays reserved, so that a late retry is refused."
        )
        answers = [Answer("keep", "Keep it"), Answer("delete", "Delete the run", danger=True)]
        if await self.app.push_screen_wait(Dialog("Delete this run?", text, answers)) != "delete":
            return
        async with self.busy("deleting"):
            outcome = await self.context.client.delete(run.run_id)
        self.workbench.notice(outcome.message, title="Delete")


def named(run: RunSummary) -> str:
    """A run in a dialog: name, state, id. The text is inert."""
    return f"{inert(run.name) or 'unnamed'}, {words.run_mark(run.state).word}\n{run.run_id}"
