"""What is known before a launch: how many Agent calls, how long runs like it took, and how many more may be active."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from workflows_core.errors import Deleted, NotFound
from workflows_core.limits import Limits
from workflows_core.model import ACTIVE, RunState, RunSummary, RunView, StepKind

from . import words

if TYPE_CHECKING:
    from .client import Client

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


def foretold(bound: tuple[int, bool], ceiling: int, expected: int | None) -> str:
    """How many Agent calls a launch makes at most, and how long it is expected to take in microseconds, in words.

    ``bound`` is as ``calls_bound`` gives it, ``ceiling`` the workspace's limit.
    """
    calls, open_ended = bound
    if open_ended or calls > ceiling:
        text = f"up to {words.count(ceiling, 'call')}, which is the limit"
    else:
        text = f"up to {words.count(calls, 'call')}" if calls else "no Agent calls"
    return text if expected is None else f"{text} · ~{words.duration(expected)}"


def calls_at_most(bound: tuple[int, bool] | None, ceiling: int) -> int:
    """The most Agent calls of one run; ``bound`` and ``ceiling`` as for ``foretold``, None: it is not known."""
    return ceiling if bound is None or bound[1] else min(bound[0], ceiling)


def places(runs: Iterable[RunSummary], limits: Limits, owners: Collection[str]) -> tuple[int, int, bool]:
    """How many runs are active, the limit that is reached first, and whether it is this person's own.

    ``owners`` say who this person is. Only with accounts is that not known here; then the workspace's limit counts.
    """
    active = [run for run in runs if run.state in ACTIVE]
    mine = sum(run.owner in owners for run in active)
    if owners and limits.max_workflows_per_owner - mine < limits.max_workflows - len(active):
        return mine, limits.max_workflows_per_owner, True
    return len(active), limits.max_workflows, False


def quota(runs: Iterable[RunSummary], limits: Limits, owners: Collection[str]) -> tuple[str, str]:
    """What ``places`` says, in words, with a tone."""
    used, most, own = places(runs, limits, owners)
    text = f"{used} of {most} runs{' of yours' if own else ''} active"
    return text, "waiting" if used >= most else "quiet"


def own_names(mode: str) -> frozenset[str]:
    """The owner that launches of this process get, where the session is the terminal's."""
    return frozenset({f"os:{os.getuid()}"}) if mode == "terminal" else frozenset()
