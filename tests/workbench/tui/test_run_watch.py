"""Several runs watched at once: marks, what is shown wide and narrow, live, and which run an act is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import (
    NOW,
    SECOND,
    FakeClient,
    FrozenClock,
    completed_run,
    failed_run,
    make_run,
    running_run,
    screen_text,
    settle,
    summary_of,
    until,
    waiting_run,
)
from workbench.tui.app import WorkbenchApp
from workbench.tui.messages import Tick
from workbench.tui.screens.dialogs import Dialog
from workbench.tui.screens.runs import RunsScreen
from workbench.tui.widgets.run_list import RunRows
from workbench.tui.widgets.run_watch import MOST_WATCHED, WatchPane, WatchRows, progress, watched
from workflows_core.model import RunState, StepStatus

MakeApp = Callable[..., WorkbenchApp]
WIDE, NARROW = (120, 40), (80, 24)
RUNNING, DONE, WAITS, FAILED = (
    "wr_00000000000000b2",
    "wr_00000000000000a1",
    "wr_00000000000000d4",
    "wr_00000000000000c3",
)


@pytest.fixture
def runs_app(make_app: MakeApp) -> MakeApp:
    def make(*views: Any, **more: Any) -> WorkbenchApp:
        return make_app(FakeClient(*views), screens={"runs": RunsScreen}, **more)

    return make


def four() -> tuple[Any, ...]:
    return running_run(), completed_run(), waiting_run(), failed_run()


async def press(pilot: Pilot[Any], *keys: str) -> str:
    await pilot.press(*keys)
    await settle(pilot)
    return screen_text(pilot.app)


def watch(app: WorkbenchApp) -> WatchPane:
    return app.base_screen.query_one(WatchPane)


def texts(rows: WatchRows, width: int = 70) -> list[str]:
    return ["".join(span.text for span in rows.line(n, width)).rstrip() for n in range(len(rows))]


# Rows


def test_marked_runs_have_a_sign_and_are_found_by_the_filter() -> None:
    runs = [summary_of(view) for view in four()]
    rows = RunRows(runs, NOW, marked={DONE})
    lines = ["".join(span.text for span in rows.line(n, 40)) for n in range(4)]
    assert [line[:2] for line in lines] == ["  ", "» ", "  ", "  "]
    assert all(len(line) == 40 for line in lines)
    assert "marked" in rows.text(1) and "marked" not in rows.text(0)
    assert (
        "".join(span.text for span in RunRows(runs, NOW, marked={DONE}, unicode=False).line(1, 40))[0] == ">"
    )


def test_marked_runs_are_watched_in_the_order_of_the_list_else_those_that_are_live() -> None:
    runs = [summary_of(view) for view in four()]
    assert [run.run_id for run in watched(runs, {FAILED, DONE})] == [DONE, FAILED]
    assert [run.run_id for run in watched(runs, ())] == [RUNNING, WAITS]


def test_wide_a_run_has_its_condition_and_a_bar_for_each_step() -> None:
    views = {view.run_id: view for view in four()}
    lines = texts(WatchRows([summary_of(view) for view in four()], views, NOW, 70))
    assert "● checks  running for 10 s · last progress 3 s ago" in lines
    assert any("● claims" in line and "━" in line for line in lines)
    assert any("○ formula" in line and "·" in line for line in lines)
    assert "  claims failed: the stub set has no reply left (line 3:9)" in lines
    # A condition that does not fit stands below the name, whole.
    assert "◆ checks" in lines
    assert any("waiting for approval of evidence-review for 3 min" in line for line in lines)


def test_narrow_a_run_has_a_line_with_state_progress_and_wait() -> None:
    views = {view.run_id: view for view in four()}
    lines = texts(WatchRows([summary_of(view) for view in four()], views, NOW), 76)
    assert len(lines) == 4
    assert "running" in lines[0] and "1 of 3 · last progress 3 s ago" in lines[0]
    assert lines[2].endswith("1 of 1 · approval of evidence-review, 23 h left")
    assert max(map(len, lines)) <= 76, lines


def test_what_was_not_read_yet_is_shown_as_the_list_knows_it() -> None:
    lines = texts(WatchRows([summary_of(running_run())], {}, NOW, 70))
    assert lines[0].startswith("● checks  running for 10 s")
    assert progress(summary_of(running_run()), NOW) == "last progress 3 s ago"


def test_more_runs_than_can_be_read_have_a_line_each() -> None:
    views = [running_run(f"wr_{n:03}") for n in range(MOST_WATCHED + 5)]
    rows = WatchRows([summary_of(view) for view in views], {view.run_id: view for view in views}, NOW, 70)
    assert sum(row.startswith("● running") for row in texts(rows)) == 5


def test_i13_names_and_causes_are_inert() -> None:
    evil = running_run(name="\x1b[31mred\u202e")
    for width in (70, 0):
        assert "\x1b" not in "".join(texts(WatchRows([summary_of(evil)], {evil.run_id: evil}, NOW, width)))


# The screen


async def test_space_marks_and_w_shows_the_marked_runs_live(runs_app: MakeApp) -> None:
    app = runs_app(*four())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "space", "end", "space")
        assert "2 marked" in screen_text(app)
        text = await press(pilot, "w")
        assert "Watch 2 marked runs" in text and "claims failed" in text
        client: Any = app.context.client
        steps = list(client.views[RUNNING].steps)
        client.change(RUNNING, state=RunState.COMPLETED, since=NOW, steps=tuple(steps[:1]))
        await until(pilot, lambda: "completed just now" in screen_text(app))
        assert "○ formula" not in screen_text(app)


async def test_without_marks_what_is_live_is_watched_and_the_mark_can_be_taken_back(
    runs_app: MakeApp,
) -> None:
    app = runs_app(*four())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "space", "space")
        assert "marked" not in screen_text(app)
        text = await press(pilot, "w")
        assert "Watch 2 live runs" in text and "approval of evidence-review" in text


async def test_with_nothing_live_it_says_what_to_do(runs_app: MakeApp) -> None:
    app = runs_app(completed_run())
    async with app.run_test(size=NARROW) as pilot:
        assert "Mark runs in the list to watch them" in " ".join((await press(pilot, "w")).split())


async def test_narrow_it_is_a_list_and_escape_leads_back(runs_app: MakeApp) -> None:
    app = runs_app(*four())
    async with app.run_test(size=NARROW) as pilot:
        text = await press(pilot, "w")
        assert "1 of 3 · last progress 3 s ago" in text and "━" not in text
        text = await press(pilot, "escape")
        assert "Runs 4" in text
        text = await press(pilot, "w")  # the same key gives the details back
        assert "Steps 3" in text


async def test_an_act_is_about_the_run_under_the_cursor_of_what_is_watched(runs_app: MakeApp) -> None:
    app = runs_app(*four())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "w")
        watch(app).list.go_to(WAITS)
        await press(pilot)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, Dialog))
        assert WAITS in screen_text(app) and RUNNING not in screen_text(app)
        await pilot.press("right", "enter")
        client: Any = app.context.client
        await until(pilot, lambda: client.cancelled == [WAITS])


async def test_enter_goes_to_the_details_of_the_watched_run(runs_app: MakeApp) -> None:
    app = runs_app(*four())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "w")
        watch(app).list.go_to(WAITS)
        text = await press(pilot, "enter")
        assert "Steps 1" in text and "where you approve or reject it" in " ".join(text.split())
        assert app.base_screen.query_one("#runs").list.current_id == WAITS  # type: ignore[attr-defined]


async def test_a_run_that_is_deleted_leaves_what_is_watched(runs_app: MakeApp) -> None:
    app = runs_app(*four())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "end", "space", "up", "space", "w")
        client: Any = app.context.client
        client.remove(FAILED)
        await until(pilot, lambda: "Watch 1 marked run" in screen_text(app))
        assert "1 marked" in screen_text(app)


async def test_the_cursor_stays_while_runs_move_on_and_times_tick(
    runs_app: MakeApp, clock: FrozenClock
) -> None:
    app = runs_app(*four())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "w", "down", "down")
        assert watch(app).list.current_id == f"{RUNNING}\nclaims@1"
        clock.advance(30)
        client: Any = app.context.client
        first = client.views[RUNNING].steps[0]
        assert first.status is StepStatus.COMPLETED
        client.change(RUNNING, name="renamed")
        app.base_screen.post_message(Tick(clock()))
        await until(pilot, lambda: "● renamed  running for 40 s" in screen_text(app))
        assert watch(app).list.current_id == f"{RUNNING}\nclaims@1"


async def test_only_runs_that_changed_are_read_again(runs_app: MakeApp) -> None:
    views = [make_run(f"wr_{n:03}", state=RunState.RUNNING, created_at=NOW - n * SECOND) for n in range(6)]
    app = runs_app(*views)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "w")
        client: Any = app.context.client
        client.viewed.clear()
        client.change("wr_004", name="changed")
        await until(pilot, lambda: "changed" in screen_text(app))
        await settle(pilot)
        assert set(client.viewed) == {"wr_004"}
