"""What is known before a launch: how long runs like it took, and how many more may be active."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from workflows_core.errors import Deleted, NotFound, WorkflowError
from workflows_core.limits import Limits
from workflows_core.model import ACTIVE, RunState, RunSummary, RunView, StepKind

from ...scripts import script_name
from ..refresh import Refresher
from ..widgets.lines import Span
from .author_checks import engine_settings

if TYPE_CHECKING:
    from ...client import Client
    from .author_editors import EditorColumn
    from .author_launch import LaunchPane
    from .author_library import Library
    from .base import WorkbenchScreen

#: Runs whose recorded times are looked at, and how many summaries are searched for them.
RUNS: Final = 5
SEARCHED: Final = 2_000


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be launched: the run's name, its script, and whether on real Agents."""

    name: str
    script: str
    real: bool

    @property
    def script_hash(self) -> str:
        return hashlib.sha256(self.script.encode("utf-8", "replace")).hexdigest()


def candidates(runs: Iterable[RunSummary], subject: Subject) -> list[RunSummary]:
    """Completed runs of this name, newest first; those of the very same script come before the others."""
    digest = subject.script_hash
    named = [run for run in runs if run.name == subject.name and run.state is RunState.COMPLETED]
    return sorted(named, key=lambda run: run.script_hash != digest)


def worked(view: RunView) -> int:
    """How long a run's Agents and captures worked, in microseconds; waits for people are not counted."""
    intervals = sorted(
        (step.requested_at, step.finished_at)
        for step in view.steps
        if step.kind in (StepKind.AGENT, StepKind.CAPTURE)
        and step.requested_at is not None
        and step.finished_at is not None
    )
    total, end = 0, 0
    for start, finish in intervals:
        total += max(0, finish - max(start, end))
        end = max(end, finish)
    return total


async def expected(client: Client, runs: Sequence[RunSummary], subject: Subject) -> int | None:
    """The time that such a run took, in microseconds: the median of the newest few; None: none is recorded.

    Runs of the same script count alone where there are any. Runs on stubs say nothing of runs on real Agents.
    """
    kind, digest = "real" if subject.real else "stub", subject.script_hash
    found: list[tuple[bool, int]] = []
    for run in candidates(runs[:SEARCHED], subject)[: 2 * RUNS]:
        try:
            view = await client.view(run.run_id)
        except (NotFound, Deleted):
            continue
        if view.options.get("agents") == kind:
            found.append((run.script_hash == digest, worked(view)))
        if len(found) == RUNS:
            break
    same = [time for equal, time in found if equal] or [time for _, time in found]
    return sorted(same)[(len(same) - 1) // 2] if same else None


class Forecast:
    """Says in the launch pane what a launch of the shown script would be; ``request`` reads what is recorded."""

    def __init__(
        self, screen: WorkbenchScreen, column: EditorColumn, pane: LaunchPane, library: Library
    ) -> None:
        self._screen = screen
        self._column = column
        self._pane = pane
        self._library = library
        self._refresher = Refresher(screen, self._read, "forecast")
        #: Microseconds; None: not known.
        self.expected: int | None = None

    def request(self) -> None:
        """Something was completed, or something else is to be launched."""
        self._refresher.request()

    @property
    def _subject(self) -> Subject | None:
        """What a launch would be, as far as earlier runs of it can be told by that."""
        file = self._column.current
        if file is None:
            return None
        return Subject(script_name(file.draft.path), file.draft.text, self._pane.form.real)

    async def _read(self) -> None:
        subject = self._subject
        if subject is None:
            return
        screen = self._screen
        found = await expected(screen.context.client, screen.workbench.book.newest, subject)
        if subject == self._subject:
            self.expected = found
            self.show()

    def show(self) -> None:
        """Show what is known: version, bound on calls, expected time, quota."""
        file, context = self._column.current, self._screen.context
        if file is None:
            return
        try:
            limits = engine_settings(context.workspace).limits
        except WorkflowError:
            limits = None  # a check says what is wrong
        owners = own_names(context.workspace.config.auth.mode)
        active = self._screen.workbench.book.newest
        self._pane.show_facts(
            file.checked.bound if file.checked is not None and limits is not None else None,
            limits.max_calls if limits is not None else 0,
            version=self._library.standing(file),
            expected=self.expected,
            quota=quota(active, limits, owners) if limits is not None else None,
        )


def quota(runs: Iterable[RunSummary], limits: Limits, owners: Collection[str]) -> Span:
    """How many runs are active, against the limit that is reached first; ``owners``: who this person is.

    Only with accounts is it not known here who that is; then the workspace's limit is shown.
    """
    active = [run for run in runs if run.state in ACTIVE]
    mine = sum(run.owner in owners for run in active)
    used, most = len(active), limits.max_workflows
    if owners and limits.max_workflows_per_owner - mine < most - used:
        used, most = mine, limits.max_workflows_per_owner
        text = f"{used} of {most} runs of yours active"
    else:
        text = f"{used} of {most} runs active"
    return Span(text, "waiting" if used >= most else "quiet")


def own_names(mode: str) -> frozenset[str]:
    """The owner that launches of this process get, where the session is the terminal's."""
    return frozenset({f"os:{os.getuid()}"}) if mode == "terminal" else frozenset()
