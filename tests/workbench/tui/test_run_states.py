"""Every state of a run is explained in the header: since when, why, last progress, what comes next."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workbench.tui.fakes import NOW, SECOND, make_run, make_step
from workbench.tui.widgets.run_header import header_lines
from workflows_core.model import Cause, RunState, RunView, StepStatus, Wait

S = RunState
SINCE, PROGRESS = NOW - 180 * SECOND, NOW - 240 * SECOND
RUNNING = make_step("claims", StepStatus.RUNNING, requested=240, started=240)
UNSETTLED = make_step("claims", StepStatus.UNCERTAIN, requested=240, started=240)


def in_state(state: RunState, **more: Any) -> RunView:
    return make_run(state=state, since=SINCE, last_progress=PROGRESS, **more)


def wait(kind: str) -> Wait:
    return Wait(kind, "evidence-review", 1, NOW + 3_600 * SECOND if kind != "input" else None)


#: A run, and every sentence that its header must hold.
TABLE: list[tuple[RunView, list[str]]] = [
    (
        in_state(S.QUEUED),
        [
            "queued for 3 min",
            "last progress 4 min ago",
            "It starts as soon as there is a place for it.",
            "[cancel] cancels it.",
        ],
    ),
    (
        in_state(S.RUNNING, steps=(RUNNING,)),
        ["running for 3 min", "last progress 4 min ago", "It waits for claims.", "[cancel] cancels it."],
    ),
    (in_state(S.COMPLETED), ["completed 3 min ago", "what it returned is the result."]),
    (
        in_state(S.FAILED, cause=Cause("agent_failed", "claims failed: no reply is left", 3, 9)),
        [
            "failed 3 min ago",
            "claims failed: no reply is left (line 3:9)",
            "It cannot go on; [fork] launches a new run from what is recorded.",
        ],
    ),
    (
        in_state(S.CANCELLED, cause=Cause("cancelled", "cancelled by ada")),
        ["cancelled 3 min ago", "cancelled by ada", "[fork] launches a new run"],
    ),
    (
        in_state(S.PAUSED, waiting=wait("pause")),
        [
            "waiting for resume at evidence-review for 3 min; expires in 1 h",
            "last progress 4 min ago",
            "[resume] resumes it.",
        ],
    ),
    (
        in_state(S.WAITING_APPROVAL, waiting=wait("checkpoint")),
        [
            "waiting for approval of evidence-review for 3 min; expires in 1 h",
            "last progress 4 min ago",
            "[review] shows its exact bytes in Review, where you approve or reject it.",
        ],
    ),
    (
        in_state(S.WAITING_INPUT, waiting=wait("input"), steps=(UNSETTLED,)),
        [
            "waiting for input for evidence-review for 3 min",
            "last progress 4 min ago",
            "A child run asks a person, who cannot answer it here.",
            "[reconcile] puts it on record, then the run is recoverable.",
        ],
    ),
    (
        in_state(
            S.NEEDS_RECONCILIATION,
            steps=(UNSETTLED,),
            cause=Cause("uncertain", "the outcome of claims is uncertain"),
        ),
        [
            "needs reconciliation for 3 min",
            "last progress 4 min ago",
            "the outcome of claims is uncertain",
            "Find out what became of claims; [reconcile] puts it on record",
        ],
    ),
    (
        in_state(S.RECOVERABLE, cause=Cause("owner_gone", "the process that owned it ended")),
        [
            "recoverable for 3 min",
            "last progress 4 min ago",
            "the process that owned it ended",
            "[recover] shows what recovering it would do, and asks.",
        ],
    ),
    (
        in_state(S.INTERRUPTED, cause=Cause("no_journal", "its first frame is missing")),
        [
            "interrupted 3 min ago",
            "last progress 4 min ago",
            "its first frame is missing",
            "[cancel] cancels it, [delete] deletes it.",
        ],
    ),
]


def test_the_table_has_every_state() -> None:
    assert {run.state for run, _ in TABLE} == set(RunState)


@pytest.mark.parametrize(("run", "sentences"), TABLE, ids=[run.state.value for run, _ in TABLE])
@pytest.mark.parametrize("width", [72, 116])
def test_a_state_says_since_when_why_and_what_comes_next(
    run: RunView, sentences: list[str], width: int
) -> None:
    lines = header_lines(run, NOW, width, key=lambda act: f"[{act}]")
    assert all(sum(len(span.text) for span in line) <= width for line in lines)
    text = " ".join("".join(span.text for span in line).strip() for line in lines)
    for sentence in sentences:
        assert sentence in text
