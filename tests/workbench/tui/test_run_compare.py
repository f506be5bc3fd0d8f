"""Comparing two runs on the Runs screen: choosing the other one, what is shown, folding, copying, following."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import (
    NOW,
    SECOND,
    FakeClient,
    completed_run,
    failed_run,
    make_run,
    make_step,
    screen_text,
    settle,
    summary_of,
    until,
)
from tests.workbench.tui.replay_support import BUNDLES, bundle
from tests.workbench.tui.run_support import FIRST, SECOND_RUN, forked
from workbench.comparing import MISSING, compare
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.author_compare import CompareScreen
from workbench.tui.screens.run_compare import RunCompareScreen, RunPicker, others
from workbench.tui.screens.runs import RunsScreen
from workbench.tui.widgets.pane import Field
from workbench.tui.widgets.run_compare_rows import EQUAL, SCRIPTS, CompareRows, path_of, whole_of
from workflows_core.errors import StoreFailed
from workflows_core.model import RunState

MakeApp = Callable[..., WorkbenchApp]
WIDE, NARROW = (120, 40), (80, 24)


def texts(rows: CompareRows, width: int = 116) -> list[str]:
    return ["".join(span.text for span in rows.line(n, width)).rstrip() for n in range(len(rows))]


def rows_of(first: Any = None, second: Any = None, *opened: str, **more: Any) -> CompareRows:
    return CompareRows(compare(first or completed_run(), second or forked()), opened, **more)


# Rows


def test_equal_steps_are_one_line_and_unfold_to_their_times() -> None:
    assert "▸ 1 equal step: evidence" in texts(rows_of())
    assert not any(line.startswith("= evidence") for line in texts(rows_of()))
    opened = texts(rows_of(None, None, EQUAL))
    assert "▾ 1 equal step: evidence" in opened
    line = next(line for line in opened if line.startswith("= evidence"))
    assert "✓ completed  1.9 s" in line and "✓ completed  2.9 s" in line


def test_a_difference_stands_with_its_path_and_both_values() -> None:
    lines = texts(rows_of())
    verdict = next(line for line in lines if "output.verdict" in line)
    assert verdict.index('"pass"') < verdict.index("│") < verdict.index('"fail"')
    claims = next(line for line in lines if line.startswith("≠ claims"))
    assert "2.4 s  stub" in claims and "4.4 s  recorded" in claims
    assert any("no such step" in line for line in lines if line.startswith("≠ second-opinion"))
    assert any("error" in line and "no reply left" in line for line in lines)
    assert any("product" in line and "unscented" in line for line in lines)


def test_where_there_is_little_room_a_difference_takes_three_lines() -> None:
    lines = texts(rows_of(beside=False), 72)
    at = lines.index("    output.verdict")
    assert lines[at + 1 : at + 3] == ['      first   "pass"', '      second  "fail"']
    assert all(len(line) <= 72 for line in lines if "│" in line)


def test_a_step_that_differs_can_be_folded_and_a_value_laid_out() -> None:
    step = "step\nclaims"
    assert not any("output.verdict" in line for line in texts(rows_of(None, None, step)))
    laid_out = texts(rows_of(None, None, "output\nclaims\nfindings"))
    assert any('"no source for claim 2",' in line for line in laid_out)


def test_equal_runs_say_so_and_show_nothing_else() -> None:
    lines = texts(rows_of(completed_run(), completed_run("wr_2")))
    assert "The runs are equal but for their times." in lines
    assert lines[-1] == "▸ 3 equal steps: evidence, claims, formula"


def test_in_ascii_nothing_is_beyond_it() -> None:
    rows = rows_of(None, None, EQUAL, unicode=False, beside=False)
    assert all(line.isascii() for line in texts(rows, 76))


def test_i13_values_and_names_are_inert() -> None:
    evil = "\x1b]52;c;x\x07\u202e"
    second = completed_run("wr_2", name=evil, steps=(make_step(evil, output={evil: evil}),))
    for beside in (True, False):
        shown = "".join(texts(rows_of(completed_run(), second, beside=beside)))
        assert "\x1b" not in shown and "\u202e" not in shown and "\x07" not in shown


def test_two_failures_with_other_words_are_no_equal_steps() -> None:
    first, second = failed_run("wr_1"), failed_run("wr_2")
    steps = list(second.steps)
    error = msgspec.structs.replace(steps[1].error, message="the model refused")  # type: ignore[type-var]
    steps[1] = msgspec.structs.replace(steps[1], error=error)
    found = compare(first, msgspec.structs.replace(second, steps=tuple(steps)))
    assert [pair.step_id for pair in found.differing] == ["claims"]


def test_paths_and_values_in_words() -> None:
    assert path_of("output", "") == "output"
    assert path_of("output", "[0].a") == "output[0].a"
    assert path_of("", "a.b") == "a.b" and path_of("", "") == "the whole"
    assert whole_of(MISSING) == "nothing" and whole_of({"ä": 1}) == '{"ä": 1}'


# Choosing


def test_the_parent_comes_first_then_what_was_chosen_last_then_forks_marked_and_namesakes() -> None:
    run = summary_of(forked())
    runs = [
        summary_of(make_run("wr_other", name="file-review")),
        summary_of(make_run("wr_namesake")),
        summary_of(make_run("wr_marked", name="z")),
        summary_of(make_run("wr_fork", parent_run_id=SECOND_RUN)),
        summary_of(make_run("wr_last", name="y")),
        run,
        summary_of(completed_run()),
    ]
    found = others(run, runs, "wr_last", {"wr_marked"})
    assert [(other.run_id, relation) for other, relation in found] == [
        (FIRST, "parent"),
        ("wr_last", "last chosen"),
        ("wr_fork", "fork"),
        ("wr_marked", "marked"),
        ("wr_namesake", "same name"),
        ("wr_other", ""),
    ]


# The screen


@pytest.fixture
def runs_app(make_app: MakeApp) -> MakeApp:
    def make(*views: Any, **more: Any) -> WorkbenchApp:
        return make_app(FakeClient(*views), screens={"runs": RunsScreen}, **more)

    return make


async def open_comparison(pilot: Pilot[Any], *typed: str) -> RunCompareScreen:
    app = pilot.app
    await settle(pilot)
    await pilot.press("equals_sign")
    await until(pilot, lambda: isinstance(app.screen, RunPicker))
    await pilot.press(*typed, "enter")
    await until(pilot, lambda: isinstance(app.screen, RunCompareScreen))
    screen = app.screen
    assert isinstance(screen, RunCompareScreen)
    await until(pilot, lambda: screen.found is not None or "Reading" not in screen_text(app))
    await settle(pilot)
    return screen


async def test_enter_twice_compares_with_the_parent_the_older_run_first(runs_app: MakeApp) -> None:
    app = runs_app(forked(), completed_run(), failed_run())
    async with app.run_test(size=WIDE) as pilot:
        screen = await open_comparison(pilot)
        assert screen.found is not None
        assert (screen.found.first.run_id, screen.found.second.run_id) == (FIRST, SECOND_RUN)
        text = screen_text(app)
        assert "1 of 4 steps are equal. The arguments, states and results differ." in text
        assert "output.verdict" in text
        await pilot.press("escape")
        await settle(pilot)
        assert app.screen is app.base_screen


async def test_the_run_that_was_chosen_is_offered_again(runs_app: MakeApp) -> None:
    app = runs_app(
        completed_run(), failed_run(), make_run("wr_x", name="far", created_at=NOW - 9_000 * SECOND)
    )
    async with app.run_test(size=NARROW) as pilot:
        await open_comparison(pilot, *"far")
        await pilot.press("escape", "equals_sign")
        await until(pilot, lambda: isinstance(app.screen, RunPicker))
        assert "last chosen" in screen_text(app)
        await pilot.press("escape")


async def test_a_run_in_a_file_is_typed_and_stays_as_it_is(runs_app: MakeApp) -> None:
    app = runs_app(forked(), completed_run())
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await pilot.press("equals_sign")
        await until(pilot, lambda: isinstance(app.screen, RunPicker))
        app.screen.query_one(Field).value = "no-such.wfrun"
        await settle(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.notices))
        assert "there is no file no-such.wfrun" in app.notices[-1].message
        screen = await open_comparison_with(pilot, str(BUNDLES / "crashed.wfrun"))
        assert screen.found is not None
        ids = {screen.found.first.run_id, screen.found.second.run_id}
        assert ids == {bundle("crashed").run_id, SECOND_RUN}
        assert screen.found.first.created_at <= screen.found.second.created_at


async def open_comparison_with(pilot: Pilot[Any], target: str) -> RunCompareScreen:
    await pilot.press("equals_sign")
    await until(pilot, lambda: isinstance(pilot.app.screen, RunPicker))
    pilot.app.screen.query_one(Field).value = target
    await settle(pilot)
    await pilot.press("enter")
    await until(pilot, lambda: getattr(pilot.app.screen, "found", None) is not None)
    screen = pilot.app.screen
    assert isinstance(screen, RunCompareScreen)
    return screen


async def test_rows_fold_copy_and_the_comparison_follows_a_live_run(runs_app: MakeApp) -> None:
    app = runs_app(forked(), completed_run())
    async with app.run_test(size=NARROW) as pilot:
        screen = await open_comparison(pilot)
        lines = screen.query_one("LineList")
        lines.go_to(EQUAL)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await settle(pilot)
        assert "= evidence" in screen_text(app)
        lines.go_to("output\nclaims\nverdict")  # type: ignore[attr-defined]
        await pilot.press("y")
        assert app.clipboard == 'output.verdict\nfirst: "pass"\nsecond: "fail"'
        client: Any = app.context.client
        client.change(SECOND_RUN, state=RunState.RUNNING)
        await until(pilot, lambda: screen.found is not None and screen.found.second.state is RunState.RUNNING)


async def test_scripts_that_differ_are_compared_as_texts(runs_app: MakeApp) -> None:
    second = forked(script="return 1;\n")
    app = runs_app(second, completed_run())
    async with app.run_test(size=WIDE) as pilot:
        screen = await open_comparison(pilot)
        screen.query_one("LineList").go_to(SCRIPTS)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
        assert "return 1;" in screen_text(app)


async def test_a_run_that_cannot_be_read_is_said_in_words(runs_app: MakeApp) -> None:
    app = runs_app(forked(), completed_run())
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        client: Any = app.context.client
        client.failures["view"] = StoreFailed("the disk does not answer")
        await open_comparison(pilot)
        assert "the disk does not answer" in screen_text(app)


async def test_any_screen_can_open_a_comparison_with_two_ids(runs_app: MakeApp) -> None:
    app = runs_app(forked(), completed_run())
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        screen = RunCompareScreen(SECOND_RUN, FIRST)
        app.push_screen(screen)
        await until(pilot, lambda: screen.found is not None)
        assert screen.found is not None and screen.found.first.run_id == SECOND_RUN


async def test_with_one_run_there_is_nothing_to_compare(runs_app: MakeApp) -> None:
    app = runs_app(completed_run())
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await pilot.press("equals_sign")
        await settle(pilot)
        assert app.screen is app.base_screen
