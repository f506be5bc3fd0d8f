"""The part of the Review screen that lets the exact bytes out: the system's viewer, an export, and the statement."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from textual import work

from ...review import Outside
from ...review_copies import Copy, PrivateCopies, export, open_outside, viewer
from ..widgets.review_detail import Subject
from .base import WorkbenchScreen
from .review_dialogs import export_dialog


class OutsideActs(WorkbenchScreen):
    """Base of the Review screen. The private copies live as long as the screen."""

    def __init__(self) -> None:
        super().__init__()
        self._copies = PrivateCopies()
        self._made: dict[str, Copy] = {}

    def on_unmount(self) -> None:
        self._copies.close()

    @property
    def subject(self) -> Subject | None:
        """What is under review."""
        raise NotImplementedError

    def may(self, action: str) -> bool:
        """Whether ``action`` can be done with what is under review now."""
        raise NotImplementedError

    def offer(self) -> None:
        """Bring buttons and keys up to date."""
        raise NotImplementedError

    def show_coverage(self) -> None:
        """Bring the bar up to date."""
        raise NotImplementedError

    def outside_keys(self) -> str:
        """The keys that let the exact copy out, in words: ``E or o``."""
        label = self.workbench.key_label
        return f"{label('review.export')} or {label('review.outside')}"

    def say_view_outside(self) -> None:
        """Tell how to go on with a picture or document that cannot be shown in full here."""
        label = self.workbench.key_label
        self.workbench.notice(
            "It counts as shown only where the terminal draws all of it legibly; its bytes do not count. "
            f"{label('review.export')} exports the exact copy, {label('review.outside')} opens it in the system's "
            f"viewer; then {label('review.viewed')} states that you have viewed it.",
            title="View it outside",
        )

    @work(group="act", exit_on_error=False)
    async def action_open_outside(self) -> None:
        """Show the exact bytes in the system's viewer, on a private copy."""
        subject = self.subject
        if subject is None or subject.artifact is None:
            return
        command = viewer()
        copy = await asyncio.to_thread(self._copies.make, subject.artifact)
        started = open_outside(command, copy.path)
        self.run_worker(asyncio.to_thread(started.wait), group="viewer", exit_on_error=False)
        self._left(subject, Outside.OPENED, copy, "Opened a private copy")

    @work(group="act", exit_on_error=False)
    async def action_export(self) -> None:
        subject = self.subject
        if subject is None or subject.artifact is None:
            return
        dialog = export_dialog(subject.artifact, self.context.workspace.root)
        name = await self.app.push_screen_wait(dialog)
        if name is None:
            return
        target = self.context.workspace.root / Path(os.path.expanduser(name))  # noqa: PTH111 - never raises
        copy = await asyncio.to_thread(export, subject.artifact, target)
        self._left(subject, Outside.EXPORTED, copy, "Exported")

    def _left(self, subject: Subject, how: Outside, copy: Copy, title: str) -> None:
        """The exact bytes are outside; where they were not shown in full here, it can be stated that they were seen."""
        message = f"{copy.path}\nSHA-256 {copy.sha256}"
        if subject.progress is not None and not subject.progress.in_full:
            subject.progress.outside, subject.progress.stated = how, False
            self._made[subject.id] = copy
            message += f"\nRead it, then {self.workbench.key_label('review.viewed')} states that you have."
        self.workbench.notice(message, title=title)
        self.offer()

    def action_viewed(self) -> None:
        """The reviewer states that the exact copy was viewed outside; the receipt says so."""
        subject = self.subject
        if subject is None or subject.progress is None or not self.may("viewed"):
            return
        copy = self._made.get(subject.id)
        if copy is None or copy.sha256 != subject.progress.sha256 or not copy.intact():
            subject.progress.outside = None
            self.workbench.notice(
                "The copy was changed or removed, so what you viewed is not known to be these bytes. "
                "Open or export it again.",
                title="Not recorded",
                severity="warning",
            )
        else:
            subject.progress.stated = True
        self.show_coverage()
        self.offer()
