"""The Replay screen as a person uses it: frames, source, what is in sight, going both ways, divergence, what if."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from tests.workbench.tui.fakes import FakeClient, flat, running_run, screen_text, until
from tests.workbench.tui.replay_support import (
    BUNDLES,
    MakeApp,
    bundle,
    enter,
    press,
    replay_of,
    sight,
)
from tests.workflows_core.journal.test_preview import cut
from workbench.replaying import Given, Opened, read_run
from workbench.travelling import Act, Seen, Traveller
from workbench.workspace import Workspace
from workflows_core.errors import UsageError
from workflows_core.journal.bundle import Bundle
from workflows_core.journal.redact import redact
from workflows_core.journal.verify import verdict_document, verify_bundle

WIDE, NARROW = (120, 40), (80, 24)


# Opening


async def test_a_crashed_run_says_where_it_ended_and_what_recovery_would_do(
    replay_app: MakeApp, workspace: Workspace
) -> None:
    app = replay_app("crashed")
    before = (BUNDLES / "crashed.wfrun").read_bytes()
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot)
        assert "checks  32:20" in text and "▶32" in text
        assert "7   ends here: recoverable" in text
        told = flat(text)
        assert "review-1 32:20 no answer" in sight(app) and "Where it ends" in told
        assert "process 23032 that ran it ended while it was running" in told
        assert "3 reused · 1 observed at 32:20 review-1. Unknown here: the configuration" in told
        assert "‖ ends early The journal ends after frame 6, with no answer recorded for review-1." in told
        assert 'product "Hand soap"' in told and "review not yet assigned" in told
    assert (BUNDLES / "crashed.wfrun").read_bytes() == before
    assert not workspace.state_dir.exists()


async def test_frames_are_gone_through_with_the_arrows_and_shown_with_their_values(
    replay_app: MakeApp,
) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot, "home")
        assert "Frame 0" in text and "the arguments" in text and '"claims": [' in text
        text = await press(pilot, *["down"] * 3)
        assert "Frame 3" in text and "checks  18:9" in text
        assert "check-formula → lead_agent  13:9" in text and "check-claims → lead_agent  18:9" in text
        text = await press(pilot, "down")
        assert "response  check-claims  ok" in text and '"findings": [' in text
        assert "In sight at frame 4" in text and "check-formula" in text
        text = await press(pilot, "end")
        assert "Frame 10" in text and "the result" in text and "✓ complete" in text
        assert "none needed: the run is completed" in text


async def test_the_run_under_the_cursor_of_runs_opens(
    replay_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def opened(workspace: Workspace, target: str) -> Bundle:
        asked.append(target)
        return bundle("complete")

    monkeypatch.setattr("workbench.tui.screens.replay.open_run", opened)
    run = running_run()
    app = replay_app(screen="runs", client=FakeClient(run))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "p")
        text = await press(pilot)
        assert app.current_mode == "replay" and asked == [run.run_id]
        assert "Frames 11" in text


async def test_a_file_is_opened_by_name_and_what_cannot_be_is_said(
    replay_app: MakeApp, tmp_path: Path
) -> None:
    app = replay_app()
    broken = tmp_path / "broken.wfrun"
    broken.write_bytes(b"not a bundle")
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot, "f3", "f5"))
        assert app.current_mode == "replay"
        assert "No run is open. p in Runs opens" in text and "O here a .wfrun file." in text
        await press(pilot, "O")
        await enter(pilot, str(tmp_path / "none.wfrun"))
        assert "there is no file" in app.notices[-1].message
        await press(pilot, "O")
        await enter(pilot, str(broken))
        assert len(app.notices) == 2
        await press(pilot, "O")
        await enter(pilot, os.path.relpath(BUNDLES / "crashed.wfrun"))
        assert "Frames 8" in screen_text(app) and len(app.notices) == 2


async def test_a_redacted_run_is_shown_but_not_run(replay_app: MakeApp) -> None:
    whole = bundle("crashed")
    secret = redact(whole, verdict_document(await verify_bundle(whole)))
    app = replay_app(secret)
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot, "full_stop", "b", "w"))
        assert "The bundle is redacted: its values are gone" in sight(app)
        assert "Hand soap" not in text and "review-1" in text
        traveller = replay_of(app)._mover.traveller
        assert traveller is not None and not traveller.running


async def test_what_is_no_journal_is_shown_with_the_reason(replay_app: MakeApp) -> None:
    whole = bundle("complete")
    frames = (whole.frames[0], *whole.frames[2:])
    app = replay_app(msgspec.structs.replace(whole, frames=frames))
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot, "up", "less_than_sign", "greater_than_sign"))
        assert "✗ incompatible" in text and "its script is not run" in sight(app)


def test_the_command_opens_the_screen_on_a_terminal_and_prints_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from workbench.cli.replay import replay

    shown: list[Any] = []

    def application(workspace: Workspace, screen: str, given: Given) -> int:
        shown.append((screen, given.bundle.run_id, given.script))
        return 0

    monkeypatch.setattr("workbench.cli.demo.open_application", application)
    monkeypatch.setattr("workbench.cli.replay.drawable", lambda: True)
    given = [str(BUNDLES / "complete.wfrun"), "--workspace", str(tmp_path)]
    CliRunner().invoke(replay, given, standalone_mode=False, catch_exceptions=False)
    edited = tmp_path / "edited.js"
    edited.write_text("return 1;")
    CliRunner().invoke(
        replay, [*given, "--script", str(edited)], standalone_mode=False, catch_exceptions=False
    )
    run = bundle("complete").run_id
    assert shown == [("replay", run, None), ("replay", run, "return 1;")]
    for options in (
        ["--headless"],
        ["--json"],
        ["--at", "3"],
        ["--watch", "product"],
        ["--frames"],
        ["--history", "product"],
    ):
        CliRunner().invoke(replay, [*given, *options], standalone_mode=False, catch_exceptions=False)
    assert len(shown) == 2


async def test_an_edited_script_is_replayed_on_the_record(replay_app: MakeApp) -> None:
    whole = bundle("complete")
    app = replay_app(Given(whole, whole.script.replace("reviews = 2;", "reviews = 3;")))
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot)
        assert "checks, edited" in text and "✗ diverged at frame 10" in text
        assert "reviews = 3;" in text and "reviews  3" in text
        text = await press(pilot, "home", *["down"] * 6)
        assert "checks, edited  32:" in text and 'product  "Hand soap"' in text


async def test_an_edited_script_that_does_not_compile_says_so(replay_app: MakeApp) -> None:
    app = replay_app(Given(bundle("complete"), "let x = ;"))
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot))
        assert "The script cannot run here: SyntaxError" in sight(app) and "diverged at frame 1, 1:9" in text
        assert "now the script cannot run" in flat(await press(pilot, "v"))
        assert not app.notices


# Time travel


async def test_statements_go_both_ways_from_anywhere(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "home")
        text = await press(pilot, "full_stop", "full_stop")
        assert "statement 3 of " in text and "▶ 6" in text
        text = await press(pilot, "comma")
        assert "statement 2 of " in text and "▶ 4" in text
        await press(pilot, "tab")
        text = await press(pilot, "right", "right", "left")
        assert "statement 3 of " in text
        text = await press(pilot, "greater_than_sign")
        assert "Frame 1 " in text and "checks  6:24" in text
        assert "Frame 0 " in await press(pilot, "less_than_sign")


async def test_a_breakpoint_stops_going_on_and_going_back(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "home", "right_square_bracket")
        assert app.notices[-1].title == "There is no breakpoint"
        await press(pilot, "g")
        await enter(pilot, ":29")
        await press(pilot, "tab", "down")
        text = await press(pilot, "b")
        assert "● 31" in text  # line 30 has no statement
        text = await press(pilot, "right_square_bracket")
        assert "●▶31" in text and "In sight at frame 5" in text and "reviews  not yet assigned" in text
        text = await press(pilot, "right_square_bracket")
        assert "●▶31" not in text
        assert "●▶31" in await press(pilot, "left_square_bracket")
        assert "●" not in "".join(line[30:34] for line in (await press(pilot, "b")).splitlines()[2:])


async def test_calls_in_flight_and_values_in_full(replay_app: MakeApp) -> None:
    app = replay_app("crashed")
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot, "end")
        assert "in flight" in text and "review-1  32:20  no answer" in text
        text = await press(pilot, "home", *["down"] * 4)
        assert "check-claims  18:9  ← frame 4" in text and "check-formula  13:9  ← frame 5" in text
        await press(pilot, "tab", "tab", *["down"] * 5)
        text = await press(pilot, "enter")
        assert '"documented": [' in text
        await press(pilot, "y")
        assert '"documented": [' in app.clipboard
        assert '"documented": [' not in (await press(pilot, "enter")).split("╭─ Frame 4")[0]


async def test_a_watch_follows_and_is_taken_away(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "end", "w")
        text = await enter(pilot, "findings.length")
        assert "findings.length  3" in text
        text = await press(pilot, "home", *["down"] * 6)
        assert "findings.length  2" in text
        await press(pilot, "w")
        text = await enter(pilot, "nope()")
        assert "ReferenceError" in text
        text = await press(pilot, "tab", "tab", "end", "delete")
        assert "ReferenceError" not in text and "findings.length  2" in text
        assert "findings.length  2" not in await press(pilot, "end", "delete")


async def test_go_to(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "home", "g")
        assert "▶25" in await enter(pilot, ":25")
        await press(pilot, "g")
        assert "statement 4 of " in await enter(pilot, "#4")
        await press(pilot, "g")
        assert "Frame 3 " in await enter(pilot, "3")
        assert not app.notices


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("99", "There is no frame 99; the journal has frames 0 to 10."),
        ("zz", "'zz' is no frame; write a number, '#STATEMENT', ':LINE', ':LINExTIMES' or 'end'."),
        (":24x9", "Line 24 runs 3 times after this place, not 9."),
        ("#0", "There is no statement 0; the run has statements 1 to 25."),
        ("#999", "There is no statement 999; the run has statements 1 to 25."),
        (":1", "Line 1 does not run in this run: no statement begins on it; the next one is on line 3."),
        (":999", "Line 999 does not run in this run: no statement begins on it."),
        (":3", "Line 3 does not run after this place."),
    ],
)
async def test_a_place_that_is_not_there_is_said_and_asked_for_again(
    replay_app: MakeApp, typed: str, told: str
) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "home", "g")
        assert "statement 4 of 25" in await enter(pilot, "#4")
        await press(pilot, "g")
        text = await enter(pilot, typed)
        assert app.screen.id == "go-to" and told in flat(text) and not app.notices
        assert "statement 4 of 25" in text
        assert "statement 5 of 25" in await enter(pilot, "#5")
        assert app.screen is app.base_screen
        assert "statement 6 of 25" in await press(pilot, "full_stop")


async def test_the_worker_ends_with_the_screen_and_the_place_is_kept(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "home", "full_stop", "full_stop")
        traveller = replay_of(app)._mover.traveller
        assert traveller is not None and traveller.running
        await press(pilot, "f1")
        assert traveller.running
        await press(pilot, "escape", "f3")
        await until(pilot, lambda: not traveller.running)
        await press(pilot, "f5")
        assert "statement 4 of " in await press(pilot, "full_stop")
    assert not traveller.running


async def test_another_run_is_shown_though_a_step_was_under_way(
    replay_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "home")
        screen, closing, close, step = replay_of(app), asyncio.Event(), asyncio.Event(), asyncio.Event()
        old = screen._mover.traveller
        assert old is not None
        plain_close, plain_move = Traveller.close, Traveller.move

        async def closed(self: Traveller, **options: Any) -> None:
            if self is old:
                closing.set()
                await close.wait()
            await plain_close(self, **options)

        async def moved(self: Traveller, act: Act) -> Seen:
            if self is old:
                await step.wait()
            return await plain_move(self, act)

        monkeypatch.setattr(Traveller, "close", closed)
        monkeypatch.setattr(Traveller, "move", moved)
        monkeypatch.setattr("workbench.tui.screens.replay_moves.STALE", 600)
        screen.open_target(str(BUNDLES / "crashed.wfrun"))
        await until(pilot, closing.is_set)
        screen.action_step(1)
        close.set()
        await until(pilot, lambda: screen.opened is not None and bool(screen.opened.ending))
        step.set()
        await until(pilot, lambda: screen.panes.seen is not None and not screen._mover.moving)
        await until(pilot, lambda: not old.running)
        with pytest.raises(UsageError, match="another run was opened"):
            await old.evaluate("1")


async def test_a_run_that_comes_after_one_has_left_starts_no_worker(
    replay_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        screen, read = replay_of(app), asyncio.Event()

        async def late(given: Bundle, script: str | None) -> Opened:
            await read.wait()
            return await read_run(given, script)

        monkeypatch.setattr("workbench.tui.screens.replay.read_run", late)
        screen.open_target(str(BUNDLES / "crashed.wfrun"))
        await pilot.press("f3")
        await until(pilot, lambda: app.screen is not screen)
        read.set()
        await until(pilot, lambda: screen.opened is not None and bool(screen.opened.ending))
        assert not screen._mover.moving
        await press(pilot, "f5")
        await until(pilot, lambda: "review" in sight(app))


async def test_a_move_that_lasts_shows_progress_and_is_given_up_for_another_place(
    replay_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Traveller.move
    slow: list[str] = []

    async def move(self: Traveller, act: Act) -> Seen:
        if not slow:
            return await plain(self, act)

        async def lasting(debugger: Any) -> None:
            slow.append("begun")
            await asyncio.sleep(600)

        slow_act: Act = lasting if slow == ["next"] else act
        return await plain(self, slow_act)

    monkeypatch.setattr(Traveller, "move", move)
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "home")
        slow.append("next")
        await pilot.press("full_stop")
        await until(pilot, lambda: "running to that place" in screen_text(app))
        slow.append("over")
        await pilot.press("down")
        await until(pilot, lambda: "evidence" in screen_text(app) and not replay_of(app)._mover.moving)
        text = await press(pilot)
        assert "checks  6:24" in text and "running to that place" not in text
        assert 'product  "Hand soap"' in text


# Search, divergence


async def test_a_search_finds_frames_by_what_they_hold(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "slash")
        text = await enter(pilot, "safety data sheet")
        assert "of 11" in text and "2 ← evidence" in text and "0 start" not in text
        assert "Frames 11" in await press(pilot, "escape")


async def test_a_divergence_is_shown_side_by_side_at_its_line(replay_app: MakeApp) -> None:
    app = replay_app("diverged")
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot)
        assert "✗ diverged at frame 6, 32:20" in text and "differs" in text
        assert "The replay stops agreeing here" in text
        text = await press(pilot, "v")
        assert "Differs at frame 6, 32:20; frame 5 agreed" in text
        assert "let review = await agent({ stepId: 'review-1'" in text
        assert "calls[1].task.ask" in text
        assert "recorded  asks log, review-1" in text and "now  asks log, review-1" in text
        assert '"Is this list' in text and '"Are these findings' in text
        await press(pilot, "escape")
        assert "Frame 8" in await press(pilot, "down", "down")
        assert "Not run: the replay differs at frame 6" in sight(app)


# Size


async def test_everything_is_reached_on_a_small_terminal(replay_app: MakeApp) -> None:
    app = replay_app("crashed")
    async with app.run_test(size=NARROW) as pilot:
        assert "Frames 8" in await press(pilot)
        seen = set()
        for _ in range(4):
            text = await press(pilot, "tab")
            seen |= {name for name in ("Frames 8", "checks  32", "In sight", "Where it ends") if name in text}
            assert max(map(len, text.splitlines())) <= 80
        assert seen == {"Frames 8", "checks  32", "In sight", "Where it ends"}


async def test_a_run_that_is_stepped_by_frames_says_so_and_offers_no_more(replay_app: MakeApp) -> None:
    script = "globalThis.eval = () => 'mine';\nlog(eval('1'));\nconst r = 1;\nreturn r;\n"
    app = replay_app(await cut(script, rounds=0))
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot)
        assert "With probes this script asks something else: stepping is by frames." in sight(app)
        assert "breakpoint" not in text and "watch" not in text
        before = screen_text(app)
        assert await press(pilot, "full_stop", "b", "w", "W") == before
        assert "In sight at frame 0" in await press(pilot, "home")
