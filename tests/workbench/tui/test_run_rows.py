"""What the tabs of a run say: steps and their timeline, marks, log, frames, JSON, header, list."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workbench.tui.fakes import (
    NOW,
    SCRIPT,
    SECOND,
    completed_run,
    failed_run,
    make_frames,
    make_run,
    make_step,
    running_run,
    summary_of,
    waiting_run,
)
from workbench.inert import cells
from workbench.tui.widgets.json_rows import JsonRows, json_line, pretty
from workbench.tui.widgets.run_header import Tab, TabBar, header_lines
from workbench.tui.widgets.run_list import GROUPS, RunRows, age
from workbench.tui.widgets.run_rows import (
    JournalRows,
    LogRows,
    SourceRows,
    SourceText,
    captures_of,
    loudest,
)
from workbench.tui.widgets.spans import Line
from workbench.tui.widgets.step_rows import StepRows
from workflows_core.model import Cause, LogLine, RunState, StepKind, StepStatus


def text(line: Line) -> str:
    return "".join(span.text for span in line)


def texts(rows: Any, width: int = 80) -> list[str]:
    return [text(rows.line(index, width)).rstrip() for index in range(len(rows))]


# The list


def test_a_run_is_a_glyph_a_word_a_name_and_an_age() -> None:
    runs = [summary_of(view) for view in (running_run(), completed_run(), waiting_run(), failed_run())]
    assert texts(RunRows(runs, NOW), 40) == [
        "● running           checks          10 s",
        "✓ completed         checks         1 min",
        "◆ waiting approval  checks         3 min",
        "✗ failed            checks           1 h",
    ]


def test_the_list_has_an_ascii_form() -> None:
    rows = RunRows([summary_of(running_run())], NOW, unicode=False)
    assert texts(rows, 40) == ["* running  checks                   10 s"]


def test_a_long_name_is_cut_off_and_a_missing_one_is_the_id() -> None:
    runs = [summary_of(make_run("wr_1", name="n" * 50)), summary_of(make_run("wr_2", name=""))]
    lines = texts(RunRows(runs, NOW), 40)
    assert lines[0] == "✓ completed  " + "n" * 19 + "…  1 min"
    assert "wr_2" in lines[1]


def test_the_filter_finds_state_name_id_and_cause() -> None:
    rows = RunRows([summary_of(failed_run())], NOW)
    for word in ("failed", "checks", "wr_00000000000000c3", "no reply left"):
        assert word in rows.text(0)


def test_every_state_is_in_exactly_one_group_besides_all_and_live() -> None:
    special = [states for name, states in GROUPS if name in ("Waiting runs", "Stopped runs")]
    ended = [states for name, states in GROUPS if name in ("Failed runs", "Completed runs")]
    for state in RunState:
        held = [states for states in special + ended if states is not None and state in states]
        assert len(held) == (0 if state in (RunState.QUEUED, RunState.RUNNING) else 1), state


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0 s"), (59, "59 s"), (61, "1 min"), (7_300, "2 h"), (90_000, "1 d")]
)
def test_an_age_has_one_unit(seconds: int, shown: str) -> None:
    assert age(seconds * SECOND) == shown


# Steps


def test_steps_have_agent_badge_time_and_place_and_those_of_a_round_are_bracketed() -> None:
    lines = texts(StepRows(completed_run(), NOW), 74)
    shape = [" ".join(line.replace("·", "").replace("━", "").split()) for line in lines]
    assert shape == [
        "✓ evidence lead_agent stub 1.9 s 1:24",
        "┌ ✓ claims lead_agent stub 2.4 s 3:9",
        "└ ✓ formula lead_agent stub 2.6 s 4:9",
    ]


def test_queued_steps_are_shown_with_their_word_and_no_time() -> None:
    line = texts(StepRows(running_run(), NOW), 90)[2]
    assert "○ formula" in line and "queued" in line and line.endswith("4:9")
    assert " s " not in line


def test_the_timeline_has_one_scale_for_all_steps() -> None:
    steps = (
        make_step("a", requested=100, started=100, finished=50, request_frame=1),
        make_step("b", requested=50, started=50, finished=0, request_frame=3),
    )
    run = make_run(steps=steps)
    bars = [line[line.index("stub") + 6 : line.index("50 s") - 2] for line in texts(StepRows(run, NOW), 80)]
    first, second = (bar.count("━") for bar in bars)
    assert abs(first - second) <= 1
    assert bars[1].index("━") == pytest.approx(bars[0].rindex("━") + 1, abs=1)


def test_waiting_for_a_place_is_told_apart_from_running() -> None:
    step = make_step("a", requested=10, started=5, finished=0)
    bar = texts(StepRows(make_run(steps=(step,)), NOW), 80)[0]
    assert abs(bar.count("·") - bar.count("━")) <= 1


def test_a_step_that_took_no_time_is_still_seen() -> None:
    step = make_step("a", requested=10, started=10, finished=10)
    other = make_step("b", requested=10, started=10, finished=0)
    assert texts(StepRows(make_run(steps=(step, other)), NOW), 80)[0].count("━") == 1


def test_a_running_step_grows_with_the_clock_and_stops_with_its_run() -> None:
    run = running_run()
    now = texts(StepRows(run, NOW), 80)[1]
    later = texts(StepRows(run, NOW + 5 * SECOND), 80)[1]
    assert "6.5 s" in now and "11 s" in later
    gone = msgspec.structs.replace(run, state=RunState.RECOVERABLE)
    assert texts(StepRows(gone, NOW), 80)[1] == texts(StepRows(gone, NOW + 60 * SECOND), 80)[1]


def test_a_failed_step_says_why_without_being_opened() -> None:
    rows = StepRows(failed_run(), NOW)
    assert "error" in texts(rows)[2] and "the stub set has no reply left (agent_failed)" in texts(rows)[2]


def test_an_opened_step_shows_child_run_thread_task_and_output() -> None:
    rows = StepRows(completed_run(), NOW, {"evidence@1"})
    lines = texts(rows)
    labels = [line.split()[0] for line in lines[1:5]]
    assert labels == ["agent", "child", "thread", "task"]
    assert any('"product": "Synthetic soap"' in line for line in lines)
    assert any('"verdict": "pass"' in line for line in lines)


def test_copying_gives_whole_values() -> None:
    rows = StepRows(completed_run(), NOW, {"evidence@1"})
    assert rows.copied(0) == ("the output of evidence", '{\n  "verdict": "pass"\n}')
    task = next(index for index in range(len(rows)) if "product" in text(rows.line(index, 80)))
    assert rows.copied(task) == ("the task of evidence", '{\n  "product": "Synthetic soap"\n}')
    queued = StepRows(running_run(), NOW)
    assert queued.copied(2) == ("the stepId", "formula")


def test_row_ids_are_unique_with_everything_opened() -> None:
    run = failed_run()
    rows = StepRows(run, NOW, {f"{step.step_id}@1" for step in run.steps})
    ids = [rows.row_id(index) for index in range(len(rows))]
    assert len(set(ids)) == len(ids)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(StepStatus)),
            st.integers(0, 10**9),
            st.none() | st.integers(0, 10**9),
            st.none() | st.integers(0, 10**9),
        ),
        max_size=8,
    ),
    st.integers(20, 160),
)
def test_every_step_line_fits_its_width_whatever_the_times(steps: list[Any], width: int) -> None:
    made = tuple(
        make_step(f"s{n}", status, requested_at=asked, started_at=started, finished_at=finished)
        for n, (status, asked, started, finished) in enumerate(steps)
    )
    rows = StepRows(make_run(steps=made, state=RunState.RUNNING), NOW)
    used = {cells(text(rows.line(index, width))) for index in range(len(rows))}
    assert len(used) <= 1
    assert all(size <= max(width, 50) for size in used)


# Source


def test_source_lines_carry_the_marks_of_their_steps() -> None:
    rows = SourceRows(SourceText(SCRIPT), running_run().steps)
    lines = texts(rows, 100)
    assert lines[0].startswith("✓ 1  const evidence = await agent(")
    assert [line[0] for line in lines] == ["✓", " ", "●", "○", " ", " ", " ", " "]


def test_of_several_steps_on_a_line_the_loudest_is_shown_with_their_number() -> None:
    steps = [make_step(f"s{n}", status, line=2) for n, status in enumerate(StepStatus)]
    assert loudest(steps).status is StepStatus.UNCERTAIN
    rows = SourceRows(SourceText("a\nb\n"), steps)
    assert text(rows.line(1, 80)) == f"! 2  b  ×{len(steps)}"


def test_the_line_on_which_a_run_failed_is_marked_whatever_was_called_there() -> None:
    steps = [make_step("a", StepStatus.COMPLETED, line=1)]
    lines = texts(SourceRows(SourceText("a\nb\n"), steps, fault=2), 80)
    assert [line[0] for line in lines[:2]] == ["✓", "✗"]
    rows = SourceRows(SourceText("a\nb\n"), steps, fault=1, unicode=False)
    assert texts(rows, 80)[0].startswith("x 1  a")


def test_source_is_highlighted_and_its_text_is_whole() -> None:
    source = SourceText("const a = 'x'; // n\n\tif (ä日) {}\n")
    spans = source.spans(0)
    assert "".join(span.text for span in spans) == "const a = 'x'; // n"
    assert {"code:keyword", "code:string", "code:comment"} <= {span.tone for span in spans}
    assert "".join(span.text for span in source.spans(1)) == "    if (ä日) {}"


@given(st.text(max_size=80))
def test_any_source_is_shown_whole(script: str) -> None:
    source = SourceText(script)
    for row in range(len(source.lines)):
        source.spans(row)
    assert all(cells(text(source.spans(row))) <= source.width + 8 for row in range(len(source.lines)))


# Log, journal, sections


def test_the_log_says_when_and_where() -> None:
    rows = LogRows((LogLine(NOW + 2_400_000, "checked\x1b[0m", 6, 1, 3),), NOW)
    assert texts(rows) == ["    2.4 s  6:1     checked␛[0m"]
    assert rows.copied(0) == ("the message", "checked\x1b[0m")
    assert rows.source_line(0) == 6


def test_frames_have_number_direction_summary_size_hash_and_time() -> None:
    rows = JournalRows(make_frames(12), ())
    lines = texts(rows, 80)
    assert lines[0].startswith(" 0 · start")
    assert lines[3].startswith(" 3 → claims-3") and lines[3].endswith("100 ms")
    assert lines[4].startswith(" 4 ← claims-4")
    assert "76 bytes" in lines[4] and make_frames(12)[4].hash[:7] in lines[4]


def test_an_opened_frame_shows_its_body_below_it() -> None:
    rows = JournalRows(make_frames(5), {1, 3})
    body = len(pretty(json.loads(make_frames(5)[1].body)))
    assert len(rows) == 5 + 2 * body
    assert rows.locate(1) == (1, -1)
    assert rows.locate(2) == (1, 0)
    assert rows.locate(1 + body) == (1, body - 1)
    assert rows.locate(2 + body) == (2, -1)
    assert rows.locate(3 + body) == (3, -1)
    assert rows.locate(4 + 2 * body) == (4, -1)
    assert rows.copied(2) == ("frame 1", make_frames(5)[1].body)
    ids = [rows.row_id(index) for index in range(len(rows))]
    assert len(set(ids)) == len(ids)


def test_a_body_that_is_no_json_is_shown_as_text() -> None:
    frame = msgspec.structs.replace(make_frames(1)[0], body="not\njson")
    assert texts(JournalRows((frame,), {0}))[1:] == ["     not", "     json"]


def test_a_frame_that_is_not_there_cannot_be_opened() -> None:
    assert len(JournalRows(make_frames(2), {7})) == 2


def test_artifacts_exist_only_with_content() -> None:
    assert captures_of(completed_run()) == []
    run = make_run(steps=(make_step("b", kind=StepKind.CAPTURE, artifact_version="v1"),))
    assert [step.step_id for step in captures_of(run)] == ["b"]


# JSON


def test_json_is_laid_out_with_its_keys_told_apart() -> None:
    rows = JsonRows.of({"a": [1, "x: y"]}, "the result")
    assert texts(rows) == ["{", '  "a": [', "    1,", '    "x: y"', "  ]", "}"]
    assert [span.tone for span in json_line('  "a": [')] == ["", "accent", "quiet", ""]
    assert rows.copied(3) == ("the result", '{\n  "a": [\n    1,\n    "x: y"\n  ]\n}')


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(json_values)
def test_copied_json_is_the_value(value: Any) -> None:
    assert json.loads(JsonRows.of(value, "x").copied(0)[1]) == value


# Header and tabs


def test_the_header_says_state_since_when_last_progress_and_identity() -> None:
    lines = [text(line) for line in header_lines(running_run(), NOW, 76)]
    assert lines[0] == "● running for 10 s · last progress 3 s ago"
    assert lines[1] == "  It waits for claims; formula waits for a place. cancel cancels it."
    assert lines[2].startswith("  wr_00000000000000b2 · script ")
    assert lines[3] == "  started 2026-07-01 11:59:50 +0000"


def test_the_header_says_why_a_run_failed_and_where() -> None:
    lines = [text(line) for line in header_lines(failed_run(), NOW, 76)]
    assert lines[:2] == ["✗ failed 59 min ago", "  claims failed: the stub set has no reply left (line 3:9)"]


def test_the_header_says_what_a_run_waits_for_and_until_when() -> None:
    line = text(header_lines(waiting_run(), NOW, 100)[0])
    assert line.startswith("◆ waiting for approval of evidence-review for 3 min; expires in 23 h 57 min")


def test_a_long_cause_takes_three_lines_at_most() -> None:
    run = make_run(state=RunState.FAILED, cause=Cause("script_error", "word " * 200))
    lines = header_lines(run, NOW, 60)
    assert sum("word" in text(line) for line in lines) == 3
    assert all(cells(text(line)) <= 60 for line in lines)


def test_a_fork_names_its_parent() -> None:
    lines = header_lines(make_run(parent_run_id="wr_parent"), NOW, 200)
    assert any("fork of wr_parent" in text(line) for line in lines)


def test_tabs_that_do_not_fit_lose_their_counts_then_their_titles_but_never_the_current_one() -> None:
    bar = TabBar()
    tabs = [Tab("steps", "Steps", 3), Tab("source", "Source"), Tab("journal", "Journal", 1_000)]
    bar._tabs, bar._current = tabs, "journal"
    assert [span.text for span in bar.spans(60)] == [" Steps 3 ", " Source ", " Journal 1,000 "]
    assert [span.text for span in bar.spans(30)] == [" Steps ", " Source ", " Journal 1,000 "]
    assert [span.text for span in bar.spans(29)] == [" 1 ", " 2 ", " 3 Journal 1,000 "]
