"""Two reviewers of one uncertain step: what each has attested of the admission in question, and when they agree.

Attestations belong to the admission that they settle: what was attested before a step was settled says nothing of
its next try. Of each person the latest attestation counts. Two persons whose latest ones agree settle the step.
"""

from __future__ import annotations

from collections.abc import Sequence

from extension_api.agent_runs import AgentRuns

from ..errors import Conflict, NotPermitted
from ..model import Attestation, StepView

ONE_PERSON = (
    "two reviewers are configured (reviewers: 2), but auth.mode terminal knows one person only, so nothing can be "
    "settled here. In workbench.yaml set auth.mode to password and give two people accounts, or set reviewers: 1. "
    "Recovering the run needs the configuration of its launch again; a fork does not"
)


def check_reviewers(reviewers: int, runs: AgentRuns) -> None:
    """Raise NotPermitted where a second reviewer cannot exist."""
    if reviewers > 1 and runs.session.mode == "terminal":
        raise NotPermitted(ONE_PERSON)


def unconfirmed(earlier: Sequence[Attestation], step: StepView) -> list[Attestation]:
    """The latest attestation of each person since the step was last settled, in their order."""
    latest: dict[str, Attestation] = {}
    for item in earlier:
        if (item.step_id, item.attempt) != (step.step_id, step.attempt):
            continue
        if item.settles:
            latest.clear()
            continue
        who = person(item)
        latest.pop(who, None)
        latest[who] = item
    return list(latest.values())


def person(attestation: Attestation) -> str:
    return str(attestation.actor.get("user_id", "somebody"))


def agrees(
    pending: Sequence[Attestation], step: StepView, statement_hash: str, runs: AgentRuns, reviewers: int
) -> bool:
    """Whether a statement settles the step: at once, or because another person's latest one is the same.

    Raises Conflict where its author has stated it already.
    """
    if reviewers < 2:
        return True
    me = runs.principal.user_id
    same = {person(item) for item in pending if item.statement_hash == statement_hash}
    if same - {me}:
        return True
    if me in same:
        raise Conflict(f"you attested that of {step.step_id} already; another person must review it")
    return False


def disagreement(pending: Sequence[Attestation], step: StepView) -> str:
    """What was attested of a step that is not settled by it, in one sentence without its end."""
    said = ", ".join(f"{person(item)} attested {item.outcome}" for item in pending)
    if len(pending) == 1:
        return f"of {step.step_id} {said}; a second reviewer must attest the same"
    return f"of {step.step_id} {said}; two reviewers must attest the same, and each may attest anew"
