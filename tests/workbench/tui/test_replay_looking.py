"""Looking at a run on the Replay screen: the console, and the value of an expression over all frames."""

from __future__ import annotations

from tests.workbench.tui.fakes import flat, screen_text, until
from tests.workbench.tui.replay_support import MakeApp, enter, press, replay_of, sight
from tests.workflows_core.journal.test_preview import cut
from workbench.travelling import Traveller

WIDE = (120, 40)


async def test_the_console_evaluates_at_the_place_and_changes_only_its_worker(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "home", *["down"] * 7, "w")
        await enter(pilot, "findings.length")
        assert "findings.length 2" in sight(app)
        text = await press(pilot, "C")
        assert "Console at frame 7, 32:20" in text
        text = await enter(pilot, "findings.push({about: 'x'})")
        assert "> findings.push({about: 'x'})" in text and "\n" in text
        text = await enter(pilot, "findings.map(one => one.about)")
        assert '"formula"' in text and '"x"' in text
        assert "not yet assigned" in await enter(pilot, "review")
        assert "ReferenceError" in await enter(pilot, "nope")
        text = flat(await enter(pilot, "agent({stepId: 'z', agentRef: 'lead_agent', task: 1})"))
        assert "task: 1}) promise" in text  # refused by its rejection: nothing is asked
        await press(pilot, "escape")
        assert (
            "findings.length 2" in sight(app)
            and "x" not in sight(app).split("watch")[1].split("in flight")[0]
        )


async def test_the_history_of_a_watch_is_a_list_that_leads_to_a_frame(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "end", "w")
        await enter(pilot, "findings.length")
        await press(pilot, "tab", "tab", "end")
        text = await press(pilot, "W")
        rows = [line for line in text.splitlines() if "│" in line]
        assert "findings.length at each frame" in text and "3 of 11 differ" in text
        seen = [next(line for line in rows if f"│ {number:>2} " in line) for number in range(11)]
        assert all("not yet assigned" in line for line in seen[:6])
        assert "log  review-1" in seen[6] and " 2 " in seen[6].split("review-1")[1]
        assert " 3 " in seen[8].split("review-2")[1]
        text = await press(pilot, "home", *["down"] * 8, "enter")
        assert "Frame 8 " in text and "In sight at frame 8" in text and "findings.length 3" in sight(app)


async def test_the_history_of_a_variable_and_of_what_is_typed(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "home", *["down"] * 3, "tab", "tab", "down")
        text = await press(pilot, "W")
        assert "product at each frame" in text and "2 of 11 differ" in text
        assert "Frame 3 " in await press(pilot, "escape")
        await press(pilot, "escape", "W")
        text = await enter(pilot, "claims.length + formula.length")
        assert "claims.length + formula.length at each frame" in text
        await press(pilot, "escape", "W")
        await enter(pilot, "reviews = 9")
        assert "might change something" in app.notices[-1].message
        assert len(app.screen_stack) == 1


async def test_a_name_of_an_inner_scope_is_not_in_sight_elsewhere(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "W")
        text = await enter(pilot, "nowhere")
        assert text.count("not in sight") == 11


async def test_the_console_keeps_the_place_where_a_run_was_cut(replay_app: MakeApp) -> None:
    script = """\
let y = 0;
const p = agent({stepId: 'a', agentRef: 'lead_agent', task: 1});
y = 1;
y = 2;
return await p;
"""
    app = replay_app(await cut(script, rounds=0))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        before = sight(app)
        assert "where it ends" in screen_text(app) and "in flight" in before
        await press(pilot, "C")
        assert "2" in await enter(pilot, "y + 0")
        await press(pilot, "escape")
        assert sight(app) == before


async def test_a_console_that_does_not_end_says_so_and_the_screen_goes_on(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "home", *["down"] * 3, "C")
        await enter(pilot, "(() => { for (;;); })()")
        await until(pilot, lambda: "did not end" in screen_text(app))
        await press(pilot, "escape")
        assert "product" in sight(app)
        traveller = replay_of(app)._mover.traveller
        assert isinstance(traveller, Traveller) and traveller.running
