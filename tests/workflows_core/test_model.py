"""The state table: what each event admits, and that nothing else changes a state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows_core.errors import Conflict
from workflows_core.model import (
    DELETABLE,
    FINAL,
    TRANSITIONS,
    Event,
    RunState,
    iso,
    transition,
)

S = RunState

#: The table of the design, row by row: event, from, to.
ROWS = [
    (Event.START, {S.QUEUED}, S.RUNNING),
    (Event.PAUSE_REACHED, {S.RUNNING}, S.PAUSED),
    (Event.CHECKPOINT_REACHED, {S.RUNNING}, S.WAITING_APPROVAL),
    (Event.RESUME, {S.PAUSED}, S.RUNNING),
    (Event.APPROVE, {S.WAITING_APPROVAL}, S.RUNNING),
    (Event.REJECT, {S.WAITING_APPROVAL, S.RECOVERABLE}, S.FAILED),
    (Event.WAIT_EXPIRED, {S.PAUSED, S.WAITING_APPROVAL, S.RECOVERABLE}, S.FAILED),
    (Event.CHILD_NEEDS_INPUT, {S.RUNNING}, S.WAITING_INPUT),
    (Event.UNCERTAIN, {S.RUNNING, S.RECOVERABLE, S.WAITING_INPUT, S.INTERRUPTED}, S.NEEDS_RECONCILIATION),
    (Event.COMPLETE, {S.RUNNING}, S.COMPLETED),
    (Event.FAIL, {S.RUNNING}, S.FAILED),
    (
        Event.CANCEL,
        {
            S.QUEUED,
            S.RUNNING,
            S.PAUSED,
            S.WAITING_APPROVAL,
            S.WAITING_INPUT,
            S.RECOVERABLE,
            S.INTERRUPTED,
        },
        S.CANCELLED,
    ),
    (Event.OWNER_GONE, {S.QUEUED, S.RUNNING, S.PAUSED, S.WAITING_APPROVAL}, S.RECOVERABLE),
    (Event.OWNER_GONE_UNUSABLE, {S.QUEUED, S.RUNNING, S.PAUSED, S.WAITING_APPROVAL}, S.INTERRUPTED),
    (Event.OWNER_GONE_DECIDED, {S.PAUSED, S.WAITING_APPROVAL}, S.FAILED),
    (Event.RECOVER, {S.RECOVERABLE}, S.RUNNING),
    (Event.SETTLED, {S.NEEDS_RECONCILIATION, S.WAITING_INPUT}, S.RECOVERABLE),
    (Event.SETTLED_CANCELLED, {S.NEEDS_RECONCILIATION, S.WAITING_INPUT}, S.CANCELLED),
]


@pytest.mark.parametrize(("event", "sources", "target"), ROWS, ids=[row[0].name for row in ROWS])
def test_i06_each_event_changes_exactly_the_states_of_its_row(
    event: Event, sources: set[RunState], target: RunState
) -> None:
    for state in RunState:
        if state in sources:
            assert transition(state, event) is target
        else:
            with pytest.raises(Conflict, match=event.value):
                transition(state, event)


def test_i06_every_event_stands_in_the_table() -> None:
    assert set(TRANSITIONS) == set(Event)
    assert {row[0] for row in ROWS} | {Event.RECORD_CANCEL} == set(Event)


@given(st.sampled_from(sorted(FINAL)), st.sampled_from(sorted(Event)))
def test_i06_no_event_leaves_a_final_state(state: RunState, event: Event) -> None:
    with pytest.raises(Conflict):
        transition(state, event)


def test_i12_cancel_is_admitted_in_every_state_that_is_not_final() -> None:
    for state in RunState:
        if not state.final:
            assert transition(state, Event.RECORD_CANCEL) is state


def test_only_runs_that_nothing_can_touch_any_more_are_deletable() -> None:
    assert {S.COMPLETED, S.FAILED, S.CANCELLED, S.INTERRUPTED} == DELETABLE


def test_times_are_printed_in_utc_with_microseconds() -> None:
    assert iso(1_700_000_000_000_001) == "2023-11-14T22:13:20.000001Z"
    assert iso(None) is None
