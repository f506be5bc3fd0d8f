"""What a person has to decide, without a screen: what waits, what was shown of it, and the receipt.

*Shown in full* means that every byte stood, unfolded, in a viewport: ``Coverage`` merges the byte ranges that
did. The bytes are those whose SHA-256 the decision names.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from workflows_core.errors import WorkflowError
from workflows_core.model import Artifact, Decision, RunState, RunSummary, RunView, StepView

from . import words
from .inert import inert

if TYPE_CHECKING:
    from workflows_core.script.steps import StepSite

    from .client import Client

#: Earlier runs that are looked through for receipts.
EARLIER_RUNS: Final = 200


class Act(StrEnum):
    """What a person does about a wait."""

    DECIDE = "approve"
    RESUME = "resume"
    ANSWER = "answer"
    RECONCILE = "reconcile"


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that waits for a person. ``expires_at`` is None where it waits without end."""

    run_id: str
    name: str
    act: Act
    step_id: str
    attempt: int
    since: int
    expires_at: int | None
    state: RunState
    cancel_requested: bool

    @property
    def id(self) -> str:
        return f"{self.run_id}\n{self.step_id}\n{self.attempt}"

    @property
    def retained(self) -> bool:
        """Whether the run's owner is gone, so that answering recovers it first."""
        return self.state is RunState.RECOVERABLE

    def left(self, now: int) -> str:
        """The deadline in a few words: ``in 23 h``, ``expired``; nothing where there is none."""
        if self.expires_at is None:
            return ""
        return f"in {brief(self.expires_at - now)}" if self.expires_at > now else "expired"

    def refused(self, now: int) -> str:
        """Why a decision or a resume would be refused now, as a sentence; empty where it would not."""
        if self.cancel_requested:
            return "A cancel is recorded for this run, so it does not go on any more."
        if self.expires_at is not None and self.expires_at <= now:
            return f"This wait expired {words.ago(self.expires_at, now)}; nothing can be decided any more."
        return ""


_ACTS: Final = {"checkpoint": Act.DECIDE, "pause": Act.RESUME, "input": Act.ANSWER}


def waiting_of(run: RunSummary) -> Waiting | None:
    """What ``run`` waits for, if it waits for a person."""
    if run.state.final:
        return None
    wait = run.waiting
    if wait is not None and run.state is not RunState.NEEDS_RECONCILIATION:
        act, step, attempt = _ACTS.get(wait.kind, Act.ANSWER), wait.step_id, wait.attempt
    elif run.state is RunState.NEEDS_RECONCILIATION:
        act, step, attempt, wait = Act.RECONCILE, "", 1, None
    else:
        return None
    return Waiting(
        run.run_id,
        run.name,
        act,
        step,
        attempt,
        run.since,
        None if wait is None else wait.expires_at,
        run.state,
        run.cancel_requested,
    )


def inbox(runs: Iterable[RunSummary]) -> list[Waiting]:
    """Everything that waits for a person, the oldest first."""
    found = [item for item in map(waiting_of, runs) if item is not None]
    return sorted(found, key=lambda item: (item.since, item.run_id))


def brief(micros: int) -> str:
    """A span in one unit: ``12 s``, ``3 min``, ``23 h``, ``4 d``."""
    return " ".join(words.span(micros).split()[:2])


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that was made, with the name of its run."""

    name: str
    receipt: Decision

    @property
    def id(self) -> str:
        return f"{self.receipt.run_id}\n{self.receipt.step_id}\n{self.receipt.attempt}"


def decided(views: Iterable[RunView]) -> list[Decided]:
    """The receipts of ``views``, the newest first."""
    found = [Decided(view.name, receipt) for view in views for receipt in view.receipts]
    return sorted(found, key=lambda item: (-item.receipt.decided_at, item.receipt.run_id))


# What was shown.


class Coverage:
    """The merged ranges, half open, of the ``size`` bytes that were shown."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.seen = 0
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return list(zip(self._starts, self._ends, strict=True))

    @property
    def complete(self) -> bool:
        return self.seen == self.size

    @property
    def fraction(self) -> float:
        """1.0 only where every byte was shown."""
        return 1.0 if self.complete else self.seen / self.size

    @property
    def percent(self) -> int:
        """Rounded down, so that 100 means all."""
        return 100 if self.complete else self.seen * 100 // self.size

    def add(self, start: int, end: int) -> bool:
        """The bytes from ``start`` to ``end`` were shown; whether that is news."""
        start, end = max(0, start), min(end, self.size)
        if start >= end:
            return False
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        before = sum(self._ends[n] - self._starts[n] for n in range(first, last))
        self._starts[first:last], self._ends[first:last] = [start], [end]
        self.seen += end - start - before
        return end - start > before

    def gaps(self) -> list[tuple[int, int]]:
        """The ranges that were not shown, in order."""
        edges = [0, *(edge for pair in self.ranges for edge in pair), self.size]
        return [(edges[n], edges[n + 1]) for n in range(0, len(edges), 2) if edges[n] < edges[n + 1]]

    def next_unseen(self, after: int = 0) -> tuple[int, int] | None:
        """The first range not shown that starts at ``after`` or behind it, else the first of all."""
        gaps = self.gaps()
        return next((gap for gap in gaps if gap[0] >= after), gaps[0] if gaps else None)


class Outside(StrEnum):
    """How the exact copy left the workbench."""

    OPENED = "opened in the system's viewer"
    EXPORTED = "exported to a file"


@dataclass(slots=True)
class Progress:
    """How far the review of one output has come. It belongs to one version; another one starts anew."""

    sha256: str
    coverage: Coverage
    renderers: set[str] = field(default_factory=set)
    outside: Outside | None = None
    #: Whether the reviewer has stated that the copy was viewed.
    stated: bool = False

    @classmethod
    def of(cls, artifact: Artifact) -> Progress:
        return cls(digest(artifact), Coverage(len(artifact.body)))

    @property
    def may_decide(self) -> bool:
        return self.coverage.complete or (self.outside is not None and self.stated)

    def review(self) -> dict[str, Any]:
        """What the receipt records of how the bytes were shown."""
        return {
            "coverage": round(self.coverage.fraction, 6),
            "shown_bytes": self.coverage.seen,
            "bytes": self.coverage.size,
            "renderer": ", ".join(sorted(self.renderers)) or "none",
            "viewed_outside": self.outside.value if self.outside is not None and self.stated else None,
        }


def digest(artifact: Artifact) -> str:
    """SHA-256 of the bytes as they are here, whatever the record says."""
    return hashlib.sha256(artifact.body).hexdigest()


def receipt_lines(decision: Decision, now: int) -> list[tuple[str, str]]:
    """A receipt as names and values. The text is inert."""
    review, actor = decision.review, decision.actor
    lines = [
        ("decision", decision.decision),
        ("step", f"{decision.step_id}, attempt {decision.attempt}"),
        ("run", decision.run_id),
        ("when", f"{words.absolute(decision.decided_at)}, {words.ago(decision.decided_at, now)}"),
        ("who", str(actor.get("user_id", "unknown"))),
        ("session", str(actor.get("description") or actor.get("session_id") or "unknown")),
        ("mode", str(actor.get("mode", "unknown"))),
    ]
    if decision.sha256 is not None:
        lines.append(("version", decision.sha256))
    if review:
        lines += [
            ("shown", _shown(review)),
            ("renderer", str(review.get("renderer", "unknown"))),
            ("viewed outside", str(review.get("viewed_outside") or "no")),
        ]
    if decision.reason is not None:
        lines.append(("reason", decision.reason))
    return [(name, inert(value)) for name, value in lines]


def _shown(review: Any) -> str:
    coverage = review.get("coverage")
    if not isinstance(coverage, int | float) or isinstance(coverage, bool):
        return "unknown"
    size = review.get("bytes")
    of = f" of {words.kib(size)}" if isinstance(size, int) else ""
    return f"{'all' if coverage >= 1 else f'{int(coverage * 100)} %'}{of}"


# Around the output.


def step_of(view: RunView, step_id: str, attempt: int) -> StepView | None:
    """The step of a wait or a receipt."""
    return next((step for step in view.steps if (step.step_id, step.attempt) == (step_id, attempt)), None)


def consumers(view: RunView, step_id: str, attempt: int) -> list[StepSite]:
    """The steps that the script names behind this one: what the output reaches next, as far as it is written."""
    from workflows_core.script.steps import api_steps

    step = step_of(view, step_id, attempt)
    if step is None or step.line is None:
        return []
    here = (step.line, step.column or 0)
    return [
        site for site in api_steps(view.script) if (site.line, site.column) > here and site.step_id != step_id
    ]


@dataclass(frozen=True, slots=True)
class Approved:
    """An earlier approval of the same step, with its bytes."""

    name: str
    receipt: Decision
    artifact: Artifact


async def last_approved(
    client: Client, runs: Sequence[RunSummary], run_id: str, step_id: str
) -> Approved | None:
    """The newest approval of ``step_id`` in a run that is older than ``run_id``; ``runs`` are newest first.

    At most EARLIER_RUNS runs are looked through. A run that cannot be read is passed over.
    """
    ids = [run.run_id for run in runs]
    older = runs[ids.index(run_id) + 1 :] if run_id in ids else runs
    for run in older[:EARLIER_RUNS]:
        try:
            view = await client.view(run.run_id)
            for receipt in reversed(view.receipts):
                if receipt.step_id == step_id and receipt.decision == "approve":
                    artifact = await client.artifact(run.run_id, step_id)
                    if digest(artifact) == receipt.sha256:
                        return Approved(run.name, receipt, artifact)
        except WorkflowError:
            continue
    return None
