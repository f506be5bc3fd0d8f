"""What a person has to decide, without a screen: what waits, what was shown of it, and the receipt.

*Shown in full* means that every byte stood, unfolded, in a viewport: ``Coverage`` merges the byte ranges that
did. Of an image or a document it means that each page was drawn legibly: ``PictureCoverage``. The bytes are
those whose SHA-256 the decision names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from workflows_core.errors import WorkflowError
from workflows_core.model import Artifact, Decision, RunState, RunSummary, RunView, StepView

from . import words
from .checkpoints import NextStep, next_steps
from .inert import inert
from .review_coverage import Coverage
from .review_pictures import PictureCoverage

if TYPE_CHECKING:
    from .client import Client
    from .review_questions import Question

#: Earlier runs that are looked through for receipts.
EARLIER_RUNS: Final = 200
#: Later steps that are named; more are counted.
NAMED_STEPS: Final = 5


class Act(StrEnum):
    """What a person does about a wait."""

    DECIDE = "approve"
    RESUME = "resume"
    ANSWER = "answer"
    RECONCILE = "reconcile"


_MARKS: Final = {
    Act.DECIDE: words.Mark("◆", "#", "approve", "waiting"),
    Act.RESUME: words.Mark("‖", "=", "resume", "waiting"),
    Act.ANSWER: words.Mark("?", "?", "answer", "waiting"),
    Act.RECONCILE: words.Mark("!", "!", "reconcile", "bad"),
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that waits for a person. ``expires_at`` is None where it waits without end.

    ``child_run_id`` is that of a call of a manual ``agent``, which a person answers here.
    """

    run_id: str
    name: str
    act: Act
    step_id: str
    attempt: int
    since: int
    expires_at: int | None
    state: RunState
    cancel_requested: bool
    agent: str = ""
    child_run_id: str | None = None

    @property
    def id(self) -> str:
        return f"{self.run_id}\n{self.step_id}\n{self.attempt}"

    @property
    def mark(self) -> words.Mark:
        """What to do about it, as it is drawn."""
        return _MARKS[self.act]

    @property
    def retained(self) -> bool:
        """Whether the run's owner is gone, so that answering recovers it first."""
        return self.state is RunState.RECOVERABLE

    def left(self, now: int) -> str:
        """The deadline in a few words: ``in 23 h``, ``expired``; nothing where there is none."""
        if self.expires_at is None:
            return ""
        return f"in {brief(self.expires_at - now)}" if self.expires_at > now else "expired"

    def time(self, now: int) -> str:
        """The deadline, or how long it waits where there is none: ``in 23 h``, ``2 min ago``."""
        return self.left(now) or f"{brief(now - self.since)} ago"

    def refused(self, now: int) -> str:
        """Why a decision or a resume would be refused now, as a sentence; empty where it would not."""
        if self.cancel_requested:
            return "A cancel is recorded for this run, so it does not go on any more."
        if self.expires_at is not None and self.expires_at <= now:
            return f"This wait expired {words.ago(self.expires_at, now)}; nothing can be decided any more."
        return ""


_ACTS: Final = {"checkpoint": Act.DECIDE, "pause": Act.RESUME, "input": Act.ANSWER}


def waits_of(run: RunSummary, to_settle: Sequence[StepView] = ()) -> list[Waiting]:
    """What ``run`` waits for a person to do, its questions excepted.

    ``to_settle`` are its steps whose outcome somebody must say, each of which is one thing; where they are not known
    the run is.
    """
    if run.state.final:
        return []
    wait = run.waiting
    if run.state is RunState.NEEDS_RECONCILIATION:
        places = [(step.step_id, step.attempt) for step in to_settle] or [("", 1)]
        return [_waiting(run, Act.RECONCILE, step_id, attempt) for step_id, attempt in places]
    if wait is None:
        return []
    return [_waiting(run, _ACTS.get(wait.kind, Act.ANSWER), wait.step_id, wait.attempt, wait.expires_at)]


def _waiting(run: RunSummary, act: Act, step_id: str, attempt: int, expires_at: int | None = None) -> Waiting:
    return Waiting(
        run.run_id, run.name, act, step_id, attempt, run.since, expires_at, run.state, run.cancel_requested
    )


def asked_of(run: RunSummary, question: Question) -> Waiting | None:
    """A question of ``run`` as one thing that waits; None where it cannot be answered.

    An answer reaches the call in the process that works on the run. Where that is gone, so is the question, and the
    step needs reconciliation; where a cancel is recorded, it is being taken back.
    """
    if run.state is not RunState.RUNNING or run.cancel_requested:
        return None
    return Waiting(
        run.run_id,
        run.name,
        Act.ANSWER,
        question.step_id,
        question.attempt,
        question.since,
        None,
        run.state,
        run.cancel_requested,
        question.agent,
        question.child_run_id,
    )


def unsettled(view: RunView) -> list[StepView]:
    """The steps of ``view`` whose outcome somebody must say."""
    return [step for step in view.steps if step.unsettled]


def inbox(
    runs: Iterable[RunSummary],
    questions: Iterable[Question] = (),
    to_settle: Mapping[str, Sequence[StepView]] = MappingProxyType({}),
) -> list[Waiting]:
    """Everything that waits for a person, the oldest first.

    ``questions`` are what manual agents are asked, ``to_settle`` the steps by run whose outcome somebody must say.
    """
    asked: dict[str, list[Question]] = {}
    for question in questions:
        asked.setdefault(question.run_id, []).append(question)
    found: list[Waiting] = []
    for run in runs:
        each = [asked_of(run, question) for question in asked.get(run.run_id, ())]
        found += waits_of(run, to_settle.get(run.run_id, ()))
        found += [item for item in each if item is not None]
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
    #: How much was drawn legibly, where that was ever possible.
    pictures: PictureCoverage | None = None
    #: Whether it is an image or a document, whose bytes tell a reader nothing.
    pictorial: bool = False

    @classmethod
    def of(cls, artifact: Artifact) -> Progress:
        return cls(
            digest(artifact),
            Coverage(len(artifact.body)),
            pictorial=bool(artifact.body) and is_pictorial(artifact.media_type),
        )

    @property
    def in_full(self) -> bool:
        """Whether all of it was shown here: every byte, or every page of an image or a document legibly."""
        if self.pictorial:
            return self.pictures is not None and self.pictures.complete
        return self.coverage.complete

    @property
    def percent(self) -> int:
        """How much was shown here, in the measure that counts. 100 means all."""
        if self.pictorial:
            return self.pictures.percent if self.pictures is not None else 0
        return self.coverage.percent

    @property
    def may_decide(self) -> bool:
        return self.in_full or (self.outside is not None and self.stated)

    def _fraction(self) -> float:
        if self.in_full:
            return 1.0
        return self.percent / 100 if self.pictorial else round(self.coverage.fraction, 6)

    def review(self) -> dict[str, Any]:
        """What the receipt records of how the bytes were shown."""
        drawn = self.pictures
        pages = {} if drawn is None else {"shown_pages": drawn.shown_pages, "pages": drawn.pages}
        return {
            "coverage": self._fraction(),
            "shown_bytes": self.coverage.seen,
            "bytes": self.coverage.size,
            **pages,
            "renderer": ", ".join(sorted(self.renderers)) or "none",
            "viewed_outside": self.outside.value if self.outside is not None and self.stated else None,
        }


def is_pictorial(media_type: str) -> bool:
    """Whether outputs of this media type are images or documents, which count as shown only where they are drawn.

    SVG is text that people read.
    """
    kind = media_type.partition(";")[0].strip().lower()
    return kind == "application/pdf" or (kind.startswith("image/") and kind != "image/svg+xml")


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
    size, shown, pages = review.get("bytes"), review.get("shown_pages"), review.get("pages")
    of = f" of {words.kib(size)}" if isinstance(size, int) else ""
    drawn = ""
    if isinstance(shown, int) and isinstance(pages, int):
        drawn = f", {shown:,} of {words.count(pages, 'page', 'pages')} drawn legibly"
    return f"{'all' if coverage >= 1 else f'{int(coverage * 100)} %'}{of}{drawn}"


# Around the output.


def step_of(view: RunView, step_id: str, attempt: int) -> StepView | None:
    """The step of a wait or a receipt."""
    return next((step for step in view.steps if (step.step_id, step.attempt) == (step_id, attempt)), None)


def consumers(view: RunView, step_id: str, attempt: int) -> list[NextStep]:
    """The steps that the script reaches behind this one, and which of them are given its bytes."""
    step = step_of(view, step_id, attempt)
    return next_steps(view.script, step) if step is not None else []


def told(steps: Sequence[NextStep], what: str = "These bytes go") -> str:
    """What consumes the output next, and what else comes, as a sentence that begins with ``what``. Inert."""
    given = [step for step in steps if step.given]
    others = [step for step in steps if not step.given]
    if not steps:
        return "The script names no later step."
    if not given:
        return f"Next in the script: {_named(others)}."
    return f"{what} to {_named(given)}{f'; then {_named(others)}' if others else ''}."


def _named(steps: Sequence[NextStep]) -> str:
    named = ", ".join(
        f"{inert(step.step_id)} ({'' if step.kind == 'agent' else f'{step.kind}, '}line {step.line})"
        for step in steps[:NAMED_STEPS]
    )
    return named + (f" and {len(steps) - NAMED_STEPS} more" if len(steps) > NAMED_STEPS else "")


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
