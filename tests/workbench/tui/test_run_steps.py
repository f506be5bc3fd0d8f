"""What the steps of a run say of captures, waits, decisions and outcomes that nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workbench.tui.fakes import NOW, make_run, make_step
from tests.workbench.tui.review_support import artifact, receipt
from workbench import words
from workbench.tui.widgets.run_rows import ArtifactRows
from workbench.tui.widgets.step_rows import StepRows
from workflows_core.model import RunState, StepKind, StepStatus, StepView


def texts(rows: Any, width: int = 80) -> list[str]:
    return ["".join(span.text for span in rows.line(index, width)).rstrip() for index in range(len(rows))]


def captured(**changes: Any) -> StepView:
    version = "ab12cd34" * 8
    fields: dict[str, Any] = {
        "kind": StepKind.CAPTURE,
        "agent_ref": None,
        "badge": None,
        "input": {"sourceStepId": "evidence", "path": "out/report.md"},
        "output": {"artifactVersion": version, "sha256": version, "size": 1536, "mediaType": "text/markdown"},
        "artifact_version": version,
    }
    return make_step("report-file", **(fields | changes))


def test_a_captured_file_shows_type_size_and_hash_without_being_opened() -> None:
    lines = texts(StepRows(make_run(steps=(captured(),)), NOW), 80)
    assert lines[1].strip() == "file      out/report.md  text/markdown  1.5 KiB  ab12cd3"
    opened = "\n".join(texts(StepRows(make_run(steps=(captured(),)), NOW, {"report-file@1"}), 80))
    assert "of        evidence" in opened and "ab12cd34" * 8 in opened


def test_artifacts_line_up_and_copy_their_whole_hash() -> None:
    rows = ArtifactRows([captured(), captured(input={"path": "a.txt", "sourceStepId": "claims"})])
    first, second = texts(rows)
    assert first.split() == [
        "out/report.md",
        "text/markdown",
        "1.5",
        "KiB",
        "ab12cd3",
        "of",
        "evidence",
    ]
    assert first.index("ab12cd3") == second.index("ab12cd3")
    assert rows.copied(1) == ("the hash of report-file", "ab12cd34" * 8)


def test_a_capture_with_an_odd_record_is_still_listed() -> None:
    rows = ArtifactRows([captured(input=None, output={"size": True})])
    assert texts(rows)[0].split() == ["report-file", "ab12cd3", "of", "an", "unknown", "step"]


@pytest.mark.parametrize("status", [status for status in StepStatus if status is not StepStatus.COMPLETED])
def test_each_status_is_a_word_on_a_narrow_screen_too(status: StepStatus) -> None:
    step = make_step("evidence-review", status, kind=StepKind.CHECKPOINT, agent_ref=None)
    run = make_run(state=RunState.RUNNING, steps=(step,))
    assert words.step_mark(run.steps[0]).word in texts(StepRows(run, NOW), 74)[0]


@pytest.mark.parametrize("width", [50, 56, 60, 71, 76])
def test_a_badge_is_kept_however_narrow_the_line(width: int) -> None:
    steps = (make_step("evidence"), make_step("claims", StepStatus.UNCERTAIN))
    for line in texts(StepRows(make_run(steps=steps), NOW), width):
        assert "stub" in line
        assert len(line) <= width


def test_a_receipt_can_be_read_below_its_step() -> None:
    exact = artifact()
    step = make_step("evidence-review", StepStatus.REJECTED, kind=StepKind.CHECKPOINT, agent_ref=None)
    made = receipt("wr_1", exact, decision="reject", reason="the letter is missing")
    run = make_run("wr_1", steps=(step,), receipts=(made,))
    closed = texts(StepRows(run, NOW), 90)
    assert closed[1].strip() == "reason    the letter is missing"
    opened = "\n".join(line.strip() for line in texts(StepRows(run, NOW, {"evidence-review@1"}), 90))
    assert "decided   rejected 1 h 56 min ago, 2026-07-01 10:03:20 +0000" in opened
    assert "by        os:1000 (terminal, uid 1000, pts/3, not password-verified)" in opened
    assert f"bytes     {exact.version}" in opened
    assert "shown     shown in full, as JSON tree" in opened


def test_a_step_says_that_it_must_be_settled_only_while_that_can_be_done() -> None:
    step = make_step("claims", StepStatus.UNCERTAIN)
    waiting = make_run(state=RunState.NEEDS_RECONCILIATION, steps=(step,))
    assert "a person must say what became of it" in texts(StepRows(waiting, NOW), 80)[1]
    ended = make_run(state=RunState.CANCELLED, steps=(step,))
    assert len(texts(StepRows(ended, NOW), 80)) == 1


def test_a_step_without_an_end_in_a_run_that_nobody_runs_is_interrupted_and_ends_with_the_last_progress() -> (
    None
):
    second = 1_000_000
    began = NOW - 100 * second
    step = make_step(
        "ask", StepStatus.RUNNING, requested_at=began, started_at=began, finished_at=None, has_output=False
    )
    run = make_run(
        state=RunState.RECOVERABLE, steps=(step,), created_at=began, last_progress=began + 15 * second
    )
    line = texts(StepRows(run, NOW), 80)[0]
    assert "interrupted" in line and "running" not in line
    assert "15 s" in line
    assert " ━" in line and "·" not in line and "━  " in line
    bar = line[line.index("━") : line.rindex("━") + 1]
    assert len(bar) > 12
