"""States, times and sizes in words."""

import re
from typing import Any

import msgspec
import pytest

from tests.workbench.views import AT, agent_step, run_view
from workbench import words
from workbench.inert import cells
from workflows_core.model import Attestation, Cause, Decision, RunState, StepKind, StepStatus, Wait

ASKED = agent_step("review", status=StepStatus.RUNNING, badge="manual", finished_at=None)
CHANGED = Cause("configuration_changed", "the configuration changed")
MIN = words.MINUTE
HOUR = words.HOUR


def test_every_state_has_one_glyph_of_one_cell_and_a_distinct_ascii_form() -> None:
    marks = [words.run_mark(state) for state in RunState]
    assert all(cells(mark.glyph) == 1 for mark in marks)
    assert len({mark.glyph for mark in marks}) == len(marks)
    assert len({mark.ascii for mark in marks}) == len(marks)
    assert all(mark.ascii.isascii() and len(mark.ascii) == 1 for mark in marks)
    assert all(set(StepStatus) == set(words.STEP_MARKS) for _ in marks)


def test_the_glyphs_are_those_of_the_page() -> None:
    shown = "  ".join(words.run_mark(state).text() for state in RunState)
    assert shown == (
        "○ queued  ● running  ✓ completed  ✗ failed  ⊘ cancelled  ‖ paused  ◆ waiting approval  "
        "? waiting input  ! needs reconciliation  ↻ recoverable  ∅ interrupted"
    )
    assert words.run_mark(RunState.COMPLETED).text(unicode=False) == "+ completed"


def test_a_waiting_checkpoint_looks_like_waiting_for_approval() -> None:
    step = agent_step("confirm", kind=StepKind.CHECKPOINT, status=StepStatus.WAITING)
    assert words.step_mark(step).glyph == "◆"
    pause = agent_step("hold", kind=StepKind.PAUSE, status=StepStatus.WAITING)
    assert words.step_mark(pause).glyph == "‖"


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0.0 s"),
        (-5, "0.0 s"),
        (450_000, "0.4 s"),
        (9_990_000, "9.9 s"),
        (12_900_000, "12 s"),
        (3 * MIN + 59_000_000, "3 min"),
        (HOUR, "1 h"),
        (23 * HOUR + 57 * MIN, "23 h 57 min"),
        (52 * HOUR, "2 d 4 h"),
        (48 * HOUR, "2 d"),
    ],
)
def test_duration(micros: int, text: str) -> None:
    assert words.duration(micros) == text


@pytest.mark.parametrize(
    ("micros", "shown"), [(0, "0 ms"), (12_000, "12 ms"), (2_400_000, "2.4 s"), (-5, "0 ms")]
)
def test_spans_inside_a_run(micros: int, shown: str) -> None:
    assert words.after(micros) == shown


def test_ago() -> None:
    assert words.ago(AT, AT + 500_000) == "just now"
    assert words.ago(AT, AT - MIN) == "just now"
    assert words.ago(AT, AT + 5_200_000) == "5 s ago"
    assert words.ago(AT, AT + 3 * MIN) == "3 min ago"


def test_the_sentence_of_a_wait() -> None:
    wait = Wait("checkpoint", "evidence", 1, AT + 24 * HOUR)
    view = run_view(state=RunState.WAITING_APPROVAL, waiting=wait)
    assert words.condition(view, AT + 3 * MIN) == (
        "waiting for approval of evidence for 3 min; expires in 23 h 57 min"
    )
    assert words.condition(view, AT + 25 * HOUR) == (
        "waiting for approval of evidence for 1 d 1 h; expired 1 h ago"
    )


def test_the_sentence_of_a_recoverable_run_keeps_its_wait() -> None:
    view = run_view(state=RunState.RECOVERABLE, waiting=Wait("pause", "hold", 1, AT + HOUR))
    assert words.condition(view, AT + MIN) == (
        "recoverable for 1 min; it waits for resume at hold; expires in 59 min"
    )


def test_a_recorded_cancel_is_said() -> None:
    view = run_view(state=RunState.NEEDS_RECONCILIATION, cancel_requested=True)
    assert words.condition(view, AT + MIN) == "needs reconciliation for 1 min; a cancel is recorded"
    ended = run_view(state=RunState.CANCELLED, cancel_requested=True)
    assert words.condition(ended, AT + MIN) == "cancelled 1 min ago"


def test_a_final_run_says_since_when() -> None:
    assert words.condition(run_view(), AT + 3 * MIN) == "completed 3 min ago"
    assert words.condition(run_view(state=RunState.RUNNING), AT + 3 * MIN) == "running for 3 min"


def test_i13_causes_and_step_ids_are_inert() -> None:
    view = run_view(cause=Cause("x", "bad \x1b[31m\n", line=3, column=7), waiting=None)
    assert words.because(view) == "bad ␛[31m␊ (line 3:7)"
    assert words.because(run_view()) == ""
    assert words.awaited(Wait("pause", "a\x1b", 1, None)) == "resume at a␛"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (312, "312 bytes"), (1536, "1.5 KiB"), (2 * 1024 * 1024, "2,048 KiB")],
)
def test_kib(size: int, text: str) -> None:
    assert words.kib(size) == text


def test_small_words() -> None:
    assert words.hash7("0123456789") == "0123456"
    assert words.count(1, "step") == "1 step"
    assert words.count(2, "entry", "entries") == "2 entries"
    assert words.place(3, None) == "3"
    assert words.place(None, None) == ""
    assert words.took(agent_step("a"), AT) == "0.4 s"
    assert words.took(agent_step("a", finished_at=None), AT + 2_000_000) == "2.0 s"
    assert words.took(agent_step("a", started_at=None, finished_at=None), AT) == ""
    assert re.fullmatch(r"2023-11-1\d \d\d:\d\d:\d\d [+-]\d{4}", words.absolute(AT))


def decision(**changes: Any) -> Decision:
    fields: dict[str, Any] = {
        "run_id": "wr_1",
        "step_id": "good",
        "attempt": 1,
        "decision": "approve",
        "sha256": "a1b2c3d" + "0" * 57,
        "reason": None,
        "actor": {"user_id": "os:1000", "description": "terminal, uid 1000, pts/3"},
        "review": {"coverage": 1.0},
        "decided_at": AT,
    }
    return Decision(**(fields | changes))


def test_a_receipt_says_who_when_which_bytes_and_how_they_were_shown() -> None:
    assert words.receipt(decision(), AT + 3 * MIN) == (
        "approved 3 min ago by os:1000 (terminal, uid 1000, pts/3); version a1b2c3d, shown in full"
    )
    rejected = decision(decision="reject", reason="no\x1b date", review={"coverage": 0.257})
    assert words.receipt(rejected, AT).endswith("version a1b2c3d, shown to 25 %; reason: no␛ date")
    outside = decision(review={"coverage": 0.1, "viewed_outside": "exported to a file"})
    assert words.receipt(outside, AT).endswith("version a1b2c3d, viewed outside")
    assert words.receipt(decision(decision="resume", sha256=None, review={}), AT) == (
        "resumed just now by os:1000 (terminal, uid 1000, pts/3)"
    )


def test_what_a_person_is_asked_to_type_is_said_while_the_run_is_running() -> None:
    other = agent_step("work", status=StepStatus.RUNNING, badge="live", finished_at=None)
    hostile = msgspec.structs.replace(ASKED, step_id="b\x1b")
    view = run_view(state=RunState.RUNNING, steps=(other, ASKED, hostile))
    assert words.condition(view, AT + 4 * MIN) == "running for 4 min; it waits for your answer to review, b␛"
    left = run_view(state=RunState.RECOVERABLE, steps=(ASKED,))
    assert words.awaiting_answer(left) == []


def test_an_attestation_says_what_who_why_and_whether_it_counts() -> None:
    made = Attestation(
        run_id="wr_1",
        step_id="a",
        attempt=1,
        outcome="did_not_run",
        reason="no\x1b trace",
        statement_hash="",
        evidence_hash="",
        actor={"user_id": "ada", "description": "password, account ada, pts/3"},
        settles=False,
        attested_at=AT,
    )
    said = (
        "did not run, attested 3 min ago by ada (password, account ada, pts/3); reason: no␛ trace; "
        "a second reviewer must attest the same"
    )
    assert words.attested(made, AT + 3 * MIN) == said
    settled = msgspec.structs.replace(made, settles=True)
    assert words.attested(settled, AT + 3 * MIN) == said.rpartition(";")[0]


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({}, None),
        ({"state": RunState.PAUSED, "waiting": Wait("pause", "p", 1, None)}, "resume RUN p"),
        ({"state": RunState.RECOVERABLE, "waiting": Wait("pause", "p", 1, None)}, "resume RUN p"),
        (
            {"state": RunState.WAITING_APPROVAL, "waiting": Wait("checkpoint", "c", 1, None)},
            "decide RUN c approve",
        ),
        ({"state": RunState.RECOVERABLE}, "recover RUN --preview"),
        ({"state": RunState.RECOVERABLE, "cancel_requested": True}, None),
        (
            {
                "state": RunState.NEEDS_RECONCILIATION,
                "steps": (agent_step("a"), agent_step("u", status=StepStatus.UNCERTAIN)),
            },
            "reconcile RUN u --outcome …",
        ),
        ({"state": RunState.RUNNING, "steps": (agent_step("a"), ASKED)}, "answer RUN review"),
        ({"state": RunState.RUNNING, "steps": (ASKED,), "cancel_requested": True}, None),
        ({"state": RunState.RECOVERABLE, "steps": (ASKED,)}, "recover RUN --preview"),
        ({"state": RunState.FAILED, "cause": CHANGED}, "fork RUN"),
        (
            {"state": RunState.FAILED, "cause": CHANGED, "options": {"agents": "real"}},
            "fork RUN --agents real",
        ),
        ({"state": RunState.FAILED, "cause": Cause("deadline", "late")}, None),
    ],
)
def test_the_command_that_comes_next(changes: dict[str, Any], command: str | None) -> None:
    view = run_view(**changes)
    expected = None if command is None else f"workbench {command}".replace("RUN", view.run_id)
    assert words.next_command(view) == expected


def test_a_run_in_brief_says_why_it_cannot_go_on() -> None:
    failed = run_view(state=RunState.FAILED, cause=Cause("script", "bad \x1b[31m\n", 3, 7))
    assert words.in_brief(failed, AT + 3 * MIN) == "✗ failed · bad ␛[31m␊ (line 3:7)"
    assert words.in_brief(failed, AT + 3 * MIN, unicode=False) == "x failed - bad ␛[31m␊ (line 3:7)"
    assert words.in_brief(run_view(), AT + 3 * MIN) == "✓ completed 3 min ago"


def test_the_fault_line_is_that_of_a_failed_run_only() -> None:
    cause = Cause("script", "bad", 3, 7)
    assert words.fault_line(run_view(state=RunState.FAILED, cause=cause)) == 3
    assert words.fault_line(run_view(state=RunState.FAILED, cause=Cause("deadline", "late"))) is None
    assert words.fault_line(run_view(state=RunState.RECOVERABLE, cause=cause)) is None
