"""Which acts a run offers, and the sentence that says why it stands where it does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workbench.views import AT, agent_step, run_view, summary_of
from workbench import acts
from workflows_core.model import Cause, RunState, RunView, StepStatus, Wait

S = RunState
LATER, EARLIER = AT + 60_000_000, AT - 1
PAUSE = Wait("pause", "before-report", 1, LATER)
CHECKPOINT = Wait("checkpoint", "evidence-review", 1, LATER)
INPUT = Wait("input", "claims", 1, None)


def key(act: str) -> str:
    return f"<{act}>"


def why(view: RunView) -> str:
    return acts.why(view, AT, key)


def unsettled_run(state: RunState = S.NEEDS_RECONCILIATION, **changes: Any) -> RunView:
    steps = (
        agent_step("evidence", response_frame=2),
        agent_step("claims", status=StepStatus.UNCERTAIN),
        agent_step("formula", status=StepStatus.INTERRUPTED),
    )
    return run_view(state=state, steps=steps, **changes)


def sample(state: RunState) -> RunView:
    """A run in this state with what belongs to it."""
    if state in (S.NEEDS_RECONCILIATION, S.WAITING_INPUT):
        return unsettled_run(state, waiting=INPUT if state is S.WAITING_INPUT else None)
    waits = {S.PAUSED: PAUSE, S.WAITING_APPROVAL: CHECKPOINT}
    cause = Cause("x", "because") if state in (S.FAILED, S.CANCELLED) else None
    return run_view(state=state, waiting=waits.get(state), cause=cause)


@pytest.mark.parametrize("state", list(RunState))
def test_every_state_says_why_the_run_is_there(state: RunState) -> None:
    said = why(sample(state))
    assert said.endswith(".")
    assert "<" in said or state is S.COMPLETED  # every other state names the key of what can be done


@pytest.mark.parametrize(
    ("view", "named"),
    [
        (sample(S.PAUSED), "<resume> resumes it"),
        (sample(S.WAITING_APPROVAL), "<review> shows its exact bytes"),
        (sample(S.NEEDS_RECONCILIATION), "what became of claims and formula"),
        (sample(S.NEEDS_RECONCILIATION), "<reconcile> puts it on record, then the run is recoverable."),
        (unsettled_run(cancel_requested=True), "then the run is cancelled."),
        (sample(S.WAITING_INPUT), "<reconcile>"),
        (run_view(state=S.RECOVERABLE), "<recover> shows what recovering it would do"),
        (run_view(state=S.RECOVERABLE, waiting=PAUSE), "<resume> recovers and resumes it"),
        (run_view(state=S.RECOVERABLE, waiting=CHECKPOINT), "deciding there recovers it first"),
        (run_view(state=S.RECOVERABLE, cancel_requested=True), "Only cancel can finish it: <cancel>"),
        (run_view(state=S.PAUSED, waiting=Wait("pause", "p", 1, EARLIER)), "Nobody answered in time"),
        (sample(S.INTERRUPTED), "<delete> deletes it"),
        (sample(S.QUEUED), "It starts as soon as there is a place for it. <cancel> cancels it."),
        (sample(S.RUNNING), "<cancel> cancels it."),
        (sample(S.FAILED), "It cannot go on; <fork> launches a new run from what is recorded."),
        (run_view(state=S.FAILED), "Nothing more is known of why it ended"),
        (sample(S.CANCELLED), "<fork> launches a new run"),
        (sample(S.COMPLETED), "what it returned is the result"),
        (run_view(state=S.RUNNING, cancel_requested=True), "then it is cancelled"),
    ],
)
def test_what_a_person_can_do_next_is_named_with_its_key(view: RunView, named: str) -> None:
    assert named in why(view)


def test_a_running_run_names_the_steps_that_it_waits_for() -> None:
    steps = (
        agent_step("a", status=StepStatus.RUNNING),
        agent_step("b", status=StepStatus.RUNNING),
        agent_step("c", status=StepStatus.QUEUED),
    )
    assert why(run_view(state=S.RUNNING, steps=steps)) == (
        "It waits for a and b; c waits for a place. <cancel> cancels it."
    )
    many = tuple(agent_step(f"s{n}", status=StepStatus.QUEUED) for n in range(5))
    assert why(run_view(state=S.RUNNING, steps=many)).startswith(
        "Its steps s0, s1, s2 and 2 more wait for a place."
    )
    assert why(run_view(state=S.RUNNING)).startswith("The script itself is at work; no step is open.")
    assert acts.why(summary_of(run_view(state=S.RUNNING)), AT, key) == ""


def test_i13_the_sentence_is_inert() -> None:
    steps = (agent_step("\x1b[31mred", status=StepStatus.RUNNING),)
    assert "\x1b" not in why(run_view(state=S.RUNNING, steps=steps))


@pytest.mark.parametrize("state", list(RunState))
def test_resume_and_review_need_an_open_wait_of_their_kind(state: RunState) -> None:
    kept = state in (S.PAUSED, S.WAITING_APPROVAL, S.RECOVERABLE)
    assert (acts.open_wait(run_view(state=state, waiting=PAUSE), "pause", AT) is not None) is kept
    assert acts.open_wait(run_view(state=state, waiting=PAUSE), "checkpoint", AT) is None
    gone = Wait("pause", "p", 1, AT)
    assert acts.open_wait(run_view(state=state, waiting=gone), "pause", AT) is None
    recorded = run_view(state=state, waiting=PAUSE, cancel_requested=True)
    assert acts.open_wait(recorded, "pause", AT) is None


@pytest.mark.parametrize("state", list(RunState))
def test_with_a_cancel_recorded_only_cancel_is_offered(state: RunState) -> None:
    assert acts.may_recover(run_view(state=state)) is (state is S.RECOVERABLE)
    assert not acts.may_recover(run_view(state=state, cancel_requested=True))
    assert acts.may_cancel(run_view(state=state)) is (not state.final)
    ownerless = state in (S.RECOVERABLE, S.INTERRUPTED)
    assert acts.may_cancel(run_view(state=state, cancel_requested=True)) is ownerless


@pytest.mark.parametrize("state", list(RunState))
def test_steps_are_settled_only_in_states_that_admit_it(state: RunState) -> None:
    found = [step.step_id for step in acts.unsettled(unsettled_run(state))]
    assert found == (["claims", "formula"] if state in acts.UNSETTLED_STATES else [])
