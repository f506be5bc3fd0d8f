"""What the launch pane foretells: time from recorded runs, and the runs that may still be active."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.workbench.tui.author_support import WIDE, MakeApp, author, ready, until
from tests.workbench.tui.fakes import (
    NOW,
    SCRIPT,
    SECOND,
    FakeClient,
    completed_run,
    make_run,
    make_step,
    running_run,
    summary_of,
    waiting_run,
)
from workbench.forecast import Subject, expected, quota, worked
from workbench.tui.app import WorkbenchApp
from workbench.tui.widgets.editor_form import Setting, TextBlock
from workflows_core.limits import Limits
from workflows_core.model import RunState, RunView, StepKind, StepStatus

pytestmark = pytest.mark.usefixtures("quick_checks")


def facts(app: WorkbenchApp) -> str:
    return author(app).query_one("#facts", TextBlock).plain


def run_of(seconds: float, number: int, script: str = SCRIPT, agents: str = "stub") -> RunView:
    steps = (make_step("evidence", requested=100 + seconds, started=100 + seconds, finished=100),)
    return completed_run(
        f"wr_{number:016x}",
        created_at=NOW - number * SECOND,
        steps=steps,
        script=script,
        options={"agents": agents},
    )


async def forecast(*views: RunView, real: bool = False) -> int | None:
    client = FakeClient(*views)
    return await expected(client, await client.runs(None), Subject("checks", SCRIPT, real))  # type: ignore[arg-type]


def test_parallel_steps_count_once_and_waits_for_people_not() -> None:
    pause = make_step(
        "go-on", StepStatus.COMPLETED, kind=StepKind.PAUSE, requested=50, started=50, finished=20
    )
    run = completed_run(
        steps=(
            make_step("a", requested=60, started=60, finished=55),
            make_step("b", requested=59, started=59, finished=50),
            pause,
            make_step("c", requested=20, started=20, finished=18),
        )
    )
    assert worked(run) == 12 * SECOND
    assert worked(make_run()) == 0


async def test_the_median_of_the_same_script_is_expected() -> None:
    assert await forecast() is None
    assert await forecast(run_of(1, 1), run_of(3, 2), run_of(90, 3)) == 3 * SECOND
    assert await forecast(run_of(1, 1, script="return 1;"), run_of(3, 2)) == 3 * SECOND
    assert await forecast(run_of(7, 1, script="return 1;")) == 7 * SECOND


async def test_runs_that_did_not_complete_or_ran_on_others_foretell_nothing() -> None:
    failed = make_run("wr_f", state=RunState.FAILED)
    stranger = make_run("wr_g", name="other")
    assert await forecast(failed, stranger, run_of(2, 1, agents="real")) is None
    assert await forecast(run_of(2, 1, agents="real"), run_of(9, 2), real=True) == 2 * SECOND


def test_the_limit_that_is_reached_first_is_shown() -> None:
    limits = Limits(max_workflows=4, max_workflows_per_owner=2)
    mine = [summary_of(running_run("wr_1")), summary_of(waiting_run("wr_2", owner="os:7"))]
    assert quota(mine, limits, ()) == ("2 of 4 runs active", "quiet")
    assert quota(mine, limits, {"os:1000"}) == ("1 of 2 runs of yours active", "quiet")
    assert quota(mine * 2, limits, {"os:9"}) == ("4 of 4 runs active", "waiting")
    assert quota([summary_of(completed_run())], limits, ()) == ("0 of 4 runs active", "quiet")


async def test_the_pane_shows_what_is_known(make_app: MakeApp, scripts: Path) -> None:
    own = f"os:{os.getuid()}"
    client = FakeClient(completed_run(owner=own), running_run(owner=own))
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await until(pilot, lambda: "up to 3 calls · ~5.8 s" in facts(app))
        assert "1 of 2 runs of yours active" in facts(app)
        author(app).query_one("#agents", Setting).focus()
        await pilot.press("space")
        await until(pilot, lambda: "~" not in facts(app))
        await pilot.press("space")
        await until(pilot, lambda: "~5.8 s" in facts(app))
        client.change("wr_00000000000000b2", state=RunState.CANCELLED)
        await until(pilot, lambda: "0 of 2 runs of yours active" in facts(app))
