"""The Runs screen as a person uses it: list, filter, tabs, what is live, cancel, delete, copy."""

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
    flat,
    make_frames,
    make_run,
    make_step,
    running_run,
    screen_text,
    settle,
    until,
    waiting_run,
)
from workbench.tui.app import WorkbenchApp
from workbench.tui.messages import Tick
from workbench.tui.screens.dialogs import Dialog
from workbench.tui.screens.runs import RunsScreen
from workbench.tui.widgets.choice import Choice
from workbench.tui.widgets.run_detail import RunDetail
from workflows_core.errors import Conflict, StoreFailed
from workflows_core.model import LogLine, RunState, StepKind, StepStatus

MakeApp = Callable[..., WorkbenchApp]
WIDE = (120, 40)


@pytest.fixture
def runs_app(make_app: MakeApp) -> MakeApp:
    def make(*views: Any, client: FakeClient | None = None, **more: Any) -> WorkbenchApp:
        return make_app(client or FakeClient(*views), screens={"runs": RunsScreen}, **more)

    return make


def four() -> tuple[Any, ...]:
    return running_run(), completed_run(), waiting_run(), failed_run()


async def press(pilot: Pilot[Any], *keys: str) -> str:
    """Press ``keys``, wait until what they set off is done, and return what is seen."""
    await pilot.press(*keys)
    await settle(pilot)
    return screen_text(pilot.app)


def detail(app: WorkbenchApp) -> RunDetail:
    return app.screen.query_one(RunDetail)


async def test_runs_are_listed_newest_first_and_the_first_is_shown(runs_app: MakeApp) -> None:
    app = runs_app(*four())
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot)
        places = [text.index(word) for word in ("│ ● running", "│ ✓ completed", "│ ◆ waiting", "│ ✗ failed")]
        assert places == sorted(places)
        assert "running for 10 s · last progress 3 s ago" in text
        assert "● claims" in text and "○ formula" in text


async def test_without_runs_the_screen_says_what_to_do(runs_app: MakeApp) -> None:
    app = runs_app()
    async with app.run_test(size=(80, 24)) as pilot:
        text = await press(pilot, "enter", "down", "c", "d", "y", "s", "1")
        assert "No runs yet." in text
        assert "f2 opens Author: write a script there and launch it with ctrl+r." in text


async def test_what_the_empty_screen_says_follows_the_persons_keys(runs_app: MakeApp) -> None:
    app = runs_app(keymap={"author.launch": "f9"})
    async with app.run_test(size=(80, 24)) as pilot:
        assert "launch it with f9" in await press(pilot)


async def test_moving_the_cursor_shows_the_run_it_rests_on(runs_app: MakeApp) -> None:
    app = runs_app(*four())
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot, "end")
        assert "claims failed: the stub set has no reply left (line 3:9)" in text
        assert detail(app).run_id == "wr_00000000000000c3"


async def test_scrolling_through_many_runs_reads_only_a_few(runs_app: MakeApp) -> None:
    client = FakeClient(*(make_run(f"wr_{n:04}", created_at=NOW - n * SECOND) for n in range(500)))
    client.delays["view"] = 0.02
    app = runs_app(client=client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        client.viewed.clear()
        runs = app.screen.query_one("#runs").list  # type: ignore[attr-defined]
        for _ in range(100):
            runs.action_cursor(1)
        await settle(pilot)
        assert client.viewed[-1] == "wr_0100"
        assert len(client.viewed) <= 3


async def test_a_run_that_is_slow_to_read_never_shows_under_another_header(runs_app: MakeApp) -> None:
    client = FakeClient(*four())
    app = runs_app(client=client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        client.delays["view"] = 0.5
        await pilot.press("end")
        await until(pilot, lambda: "failed 59 min ago" in screen_text(app))
        text = screen_text(app)
        assert "Steps" not in text and "formula" not in text
        await pilot.press("home")
        text = await press(pilot)
        assert "running for 10 s" in text and "○ formula" in text


async def test_a_run_that_cannot_be_read_says_why(runs_app: MakeApp) -> None:
    client = FakeClient(completed_run())
    client.failures["view"] = StoreFailed("the disk refused a read of page 7")
    app = runs_app(client=client)
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot)
        assert "The disk refused." in text and "the disk refused a read of page 7" in text


async def test_live_runs_are_painted_as_they_change(runs_app: MakeApp) -> None:
    client = FakeClient(running_run(), completed_run())
    app = runs_app(client=client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        client.change("wr_00000000000000b2", state=RunState.COMPLETED, result={"passed": 2}, has_result=True)
        text = await press(pilot)
        assert "● running" not in text
        client.put(running_run("wr_new", name="brand-new", created_at=NOW))
        text = await press(pilot)
        assert "brand-new" in text and "Runs 3" in text
        assert app.screen.query_one("#runs").list.current_id == "wr_00000000000000b2"  # type: ignore[attr-defined]


async def test_a_flood_of_changes_is_painted_at_most_ten_times_a_second(runs_app: MakeApp) -> None:
    client = FakeClient(running_run())
    app = runs_app(client=client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        client.viewed.clear()
        loop_time = app._loop.time  # type: ignore[union-attr]
        start = loop_time()
        while loop_time() - start < 0.5:
            client.changed("wr_00000000000000b2")
            await pilot.pause(0.002)
        assert len(client.viewed) <= (loop_time() - start) / 0.1 + 2


async def test_relative_times_follow_the_clock(runs_app: MakeApp, clock: FrozenClock) -> None:
    app = runs_app(running_run())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        clock.advance(120)
        app.screen.post_message(Tick(clock()))
        text = await press(pilot)
        assert "running for 2 min · last progress 2 min ago" in text
        assert "2 min ││" in text


async def test_enter_goes_to_the_details_and_escape_comes_back(runs_app: MakeApp) -> None:
    app = runs_app(*four())
    async with app.run_test(size=(80, 24)) as pilot:
        text = await press(pilot)
        assert "Steps" not in text
        text = await press(pilot, "enter")
        assert "Steps 3" in text and "Runs 4" not in text
        assert "esc back" in text.splitlines()[-1]
        text = await press(pilot, "escape")
        assert "Runs 4" in text and "Steps 3" not in text


async def test_digits_and_arrows_go_through_the_tabs(runs_app: MakeApp) -> None:
    app = runs_app(completed_run())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "enter")
        seen = []
        for _ in range(6):
            seen.append(detail(app).tab)
            await press(pilot, "right")
        assert seen == ["steps", "source", "log", "journal", "result", "steps"]
        await press(pilot, "left", "left")
        assert detail(app).tab == "result"
        text = await press(pilot, "4")
        assert detail(app).tab == "journal" and "→ claims-1" in text
        await press(pilot, "7")
        assert detail(app).tab == "journal"


async def test_a_tab_is_reached_with_a_click(runs_app: MakeApp) -> None:
    app = runs_app(completed_run())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        await pilot.click("TabBar", offset=(12, 0))
        await settle(pilot)
        assert detail(app).tab == "source"


async def test_artifacts_and_evidence_appear_only_with_content(runs_app: MakeApp) -> None:
    steps = (
        make_step("a", evidence={"tokens": 3}),
        make_step("b", kind=StepKind.CAPTURE, artifact_version="abcdefghi", input={"path": "report.md"}),
    )
    app = runs_app(completed_run("wr_1"), make_run("wr_2", steps=steps, created_at=NOW))
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot)
        assert "Artifacts 1  Evidence 1  Result" in text
        text = await press(pilot, "5")
        assert "report.md" in text and "abcdefg " in text
        text = await press(pilot, "6")
        assert '"tokens": 3' in text
        text = await press(pilot, "down")
        assert "Artifacts" not in text and "Evidence" not in text


async def test_the_source_opens_at_the_step_under_the_cursor(runs_app: MakeApp) -> None:
    app = runs_app(completed_run())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "enter", "down", "down", "2")
        assert detail(app).list.current_id == "4"
        await press(pilot, "1")
        assert detail(app).list.current_id == "formula@1"


async def test_opening_a_step_stays_while_the_run_goes_on(runs_app: MakeApp) -> None:
    client = FakeClient(running_run())
    app = runs_app(client=client)
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot, "enter", "enter")
        assert '"product": "Synthetic soap"' in text
        client.change("wr_00000000000000b2", last_progress=NOW)
        assert '"product": "Synthetic soap"' in await press(pilot)
        assert '"product"' not in await press(pilot, "enter")


async def test_closing_from_inside_a_step_leaves_the_cursor_on_it(runs_app: MakeApp) -> None:
    app = runs_app(completed_run())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "enter", "enter", "down", "down", "down", "enter")
        assert detail(app).list.current_id == "evidence@1"


async def test_the_log_of_a_live_run_follows_its_end(runs_app: MakeApp) -> None:
    def lines(count: int) -> tuple[LogLine, ...]:
        return tuple(LogLine(NOW, f"line {n}", 1, 1, n) for n in range(count))

    client = FakeClient(running_run(log=lines(3)))
    app = runs_app(client=client)
    async with app.run_test(size=(120, 20)) as pilot:
        await press(pilot, "enter", "3")
        client.change("wr_00000000000000b2", log=lines(20))
        assert "line 19" in await press(pilot)


async def test_no_result_says_why(runs_app: MakeApp) -> None:
    app = runs_app(running_run(), failed_run())
    async with app.run_test(size=WIDE) as pilot:
        assert "No result yet. It is what the script returns." in await press(pilot, "5")
        text = await press(pilot, "end")
        assert "There is no result: the run is failed." in text


async def test_the_result_null_is_a_result(runs_app: MakeApp) -> None:
    app = runs_app(completed_run(result=None, has_result=True))
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot, "5")
        assert "null" in text and "No result" not in text


async def test_the_filter_narrows_by_text(runs_app: MakeApp) -> None:
    app = runs_app(*four())
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot, "slash", *"reply")
        assert "Runs 1 of 4" in text and "✗ failed" in text and "● running " not in text.split("╭")[1][:40]
        text = await press(pilot, "escape", "escape")
        assert "Runs 4" in text


async def test_the_state_key_goes_through_groups_of_states(runs_app: MakeApp) -> None:
    app = runs_app(*four())
    async with app.run_test(size=WIDE) as pilot:
        seen = []
        for _ in range(6):
            text = await press(pilot, "s")
            seen.append(text.splitlines()[2].split("╮")[0].strip("╭─ "))
        assert seen == [
            "Live runs 2",
            "Waiting runs 1",
            "Stopped runs",
            "Failed runs 1",
            "Completed runs 1",
            "Runs 4",
        ]


async def test_an_empty_group_says_how_to_leave_it(runs_app: MakeApp) -> None:
    app = runs_app(completed_run())
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot, "s"))
        assert "No run is in this group. s shows the next one." in text


async def test_a_run_that_leaves_the_group_stays_while_the_cursor_is_on_it(runs_app: MakeApp) -> None:
    client = FakeClient(running_run(), completed_run())
    app = runs_app(client=client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "s")
        client.change("wr_00000000000000b2", state=RunState.COMPLETED)
        text = await press(pilot)
        assert "Live runs 1" in text and "✓ completed" in text


async def test_cancel_asks_with_the_safe_answer_first_and_then_cancels(runs_app: MakeApp) -> None:
    client = FakeClient(*four())
    app = runs_app(client=client)
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot, "c")
        assert isinstance(app.screen, Dialog)
        assert "Cancel this run?" in text and "checks, running" in text and "wr_00000000000000b2" in text
        assert "What they have done so far is not undone. A cancelled run cannot go on." in flat(text)
        assert isinstance(app.focused, Choice) and app.focused.name == "keep"
        await press(pilot, "enter")
        assert client.cancelled == []
        await press(pilot, "c", "tab", "enter")
        text = await press(pilot)
        assert client.cancelled == ["wr_00000000000000b2"]
        assert "⊘ cancelled" in text
        assert app.notices[-1].title == "Cancel"


async def test_delete_says_what_is_lost_and_escape_keeps_everything(runs_app: MakeApp) -> None:
    client = FakeClient(completed_run(), failed_run())
    app = runs_app(client=client)
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot, "d"))
        assert "Delete this run?" in text and "That cannot be undone." in text
        await press(pilot, "escape")
        assert client.deleted == []
        await press(pilot, "d", "right", "enter")
        text = await press(pilot)
        assert client.deleted == ["wr_00000000000000a1"]
        assert "Runs 1" in text and "claims failed" in text


@pytest.mark.parametrize("state", list(RunState))
async def test_only_what_is_possible_is_offered(runs_app: MakeApp, state: RunState) -> None:
    client = FakeClient(make_run(state=state))
    app = runs_app(client=client)
    async with app.run_test(size=WIDE) as pilot:
        last = (await press(pilot)).splitlines()[-1]
        assert ("c cancel" in last) is (not state.final)
        assert ("d delete" in last) is (state.final or state is RunState.INTERRUPTED)
        if state.final:
            await press(pilot, "c")
            assert not isinstance(app.screen, Dialog)


async def test_a_recorded_cancel_is_not_offered_again(runs_app: MakeApp) -> None:
    app = runs_app(running_run(cancel_requested=True))
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot)
        assert "a cancel is recorded" in text and "c cancel" not in text


async def test_an_act_that_is_refused_says_so_and_changes_nothing(runs_app: MakeApp) -> None:
    client = FakeClient(completed_run())
    client.failures["delete"] = Conflict("the run has an unsettled step")
    app = runs_app(client=client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "d", "tab", "enter")
        await settle(pilot)
        assert [(notice.title, notice.message) for notice in app.notices] == [
            ("It contradicts a record", "the run has an unsettled step")
        ]
        assert "wr_00000000000000a1" in client.views


async def test_copying_takes_the_whole_value(runs_app: MakeApp) -> None:
    app = runs_app(completed_run(frames=make_frames(3)))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "y")
        assert app.clipboard == "wr_00000000000000a1"
        await press(pilot, "enter", "y")
        assert app.clipboard == '{\n  "verdict": "pass"\n}'
        await until(pilot, lambda: app.notices[-1].message.startswith("the output of evidence (23 bytes)"))
        await press(pilot, "4", "home", "y")
        assert app.clipboard == make_frames(3)[0].body
        await press(pilot, "5", "y")
        assert app.clipboard == '{\n  "passed": 2\n}'


async def test_going_to_a_run_from_another_screen_shows_it_out_of_any_filter(runs_app: MakeApp) -> None:
    app = runs_app(*four())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "slash", *"reply", "enter")
        app.show_run("wr_00000000000000d4")
        text = await press(pilot)
        assert "waiting for approval of evidence-review" in text
        assert app.screen.query_one("#runs").list.current_id == "wr_00000000000000d4"  # type: ignore[attr-defined]


async def test_a_deleted_run_disappears_and_its_neighbour_is_shown(runs_app: MakeApp) -> None:
    client = FakeClient(*four())
    app = runs_app(client=client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "down")
        client.remove("wr_00000000000000a1")
        text = await press(pilot)
        assert "Runs 3" in text and "waiting for approval" in text


async def test_steps_with_every_status_are_drawn(runs_app: MakeApp) -> None:
    steps = tuple(
        make_step(f"step-{status.value}", status, line=n + 1) for n, status in enumerate(StepStatus)
    )
    app = runs_app(running_run(steps=steps))
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot)
        for status in StepStatus:
            assert f"step-{status.value}" in text


async def test_ten_thousand_runs_and_a_thousand_frames_stay_quick(runs_app: MakeApp) -> None:
    """Not a time: what counts is that a key computes a screenful, whatever the number of rows."""
    runs = [make_run(f"wr_{n:05}", created_at=NOW - n * SECOND, name=f"run {n}") for n in range(10_000)]
    runs[0] = running_run("wr_00000", frames=make_frames(1_000), created_at=NOW)
    app = runs_app(*runs)
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot, "4")
        assert "Runs 10,000" in text and "Journal 1,000" in text
        text = await press(pilot, "end")
        assert "run 9999" in text
