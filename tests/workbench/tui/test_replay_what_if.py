"""What if, on the Replay screen: another answer or script, where it first differs, how it goes on, beside its parent."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from extension_api.hashing import canonical_hash
from tests.workbench.tui.fakes import FakeClient, completed_run, flat, running_run, screen_text, until
from tests.workbench.tui.replay_support import BUNDLES, MakeApp, bundle, enter, press, replay_of
from workbench.tui.app import WorkbenchApp
from workbench.tui.widgets.editor import ScriptEditor
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchOutcome, LaunchRequest
from workflows_core.model import RunView

WIDE, NARROW = (120, 40), (80, 24)
ANOTHER = '{"verdict": "complete", "findings": []}'
ASKED = "Are these findings complete?"


def editor(app: WorkbenchApp) -> ScriptEditor:
    return app.screen.query_one(ScriptEditor)


async def another_answer(pilot: Pilot[Any], text: str) -> str:
    """What if review-1 had answered ``text``? From any place to the first difference."""
    await press(pilot, "end", *["up"] * 3, "F")
    await press(pilot, "enter")
    editor(pilot.app).text = text  # type: ignore[arg-type]
    await press(pilot, "tab", "tab", "enter")
    return screen_text(pilot.app)


async def another_script(pilot: Pilot[Any], old: str, new: str) -> str:
    await press(pilot, "F")
    await enter(pilot, "the script")
    app = pilot.app
    assert old in editor(app).text  # type: ignore[arg-type]
    editor(app).text = editor(app).text.replace(old, new)  # type: ignore[arg-type]
    await press(pilot, "tab", "tab", "tab", "enter")
    await until(pilot, lambda: app.screen.id != "script-dialog" or bool(editor(app).problems))  # type: ignore[arg-type]
    return await press(pilot)


def launching(client: FakeClient) -> FakeClient:
    """A client that has a run of what it launches."""

    def launch(request: LaunchRequest) -> LaunchOutcome:
        made: RunView = completed_run("wr_00000000000000f0", parent_run_id=request.parent_run_id)
        client.put(made)
        return LaunchOutcome(run_id=made.run_id, existing=False)

    client.on_launch = launch
    return client


async def test_another_answer_is_launched_and_shown_beside_its_parent(replay_app: MakeApp) -> None:
    client = launching(FakeClient(running_run()))
    app = replay_app("complete", client=client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "end", *["up"] * 3, "F")
        text = await press(pilot, "enter")
        assert "What if: answer of review-1, frame 7" in text and '"verdict": "incomplete"' in text
        editor(app).text = "{"
        await press(pilot, "tab", "tab", "enter")
        assert app.screen.id == "reply-dialog" and client.launched == []
        editor(app).text = ANOTHER
        text = await press(pilot, "tab", "tab", "enter")
        assert "checks with another answer of review-1" in text and "Differs at frame 8, 35:3" in text
        assert "log('The first review asked for more');" in text
        assert "recorded  asks log, review-2" in text and "now  it ends with its result" in text
        assert "inherits no approval" in flat(text) and client.launched == []
        await press(pilot, "tab", "tab", "enter")
        await until(pilot, lambda: app.screen.id == "run-compare")
        assert app.current_mode == "runs"
        text = await press(pilot)
        assert "Compare checks with checks" in text and "review-2" in text
        (request,) = client.launched
        assert request.parent_run_id == bundle("complete").run_id
        answers = [one["reply"] for one in request.options["stubs"] if one.get("step") == "review-1"]
        assert {"verdict": "complete", "findings": []} in answers
        await press(pilot, "escape")
        assert app.current_mode == "runs" and len(app.screen_stack) == 1


async def test_the_script_is_edited_and_its_first_difference_is_seen_before_anything_runs(
    replay_app: MakeApp,
) -> None:
    client = launching(FakeClient(running_run()))
    app = replay_app("complete", client=client)
    async with app.run_test(size=WIDE) as pilot:
        text = await another_script(pilot, ASKED, "Is this all?")
        assert "checks with another script" in text and "Differs at frame 6, 32:20" in text
        assert "calls[1].task.ask" in text and '"Is this all?' in text
        assert client.launched == []
        await press(pilot, *["tab"] * 3, "enter")
        await until(pilot, lambda: bool(client.launched))
        (request,) = client.launched
        assert "Is this all?" in request.script and request.parent_run_id == bundle("complete").run_id
        steps = [one["step"] for one in request.options["stubs"] if "request" in one]
        assert (
            steps == ["evidence", "check-claims", "check-formula", "review-1", "review-2"] or len(steps) == 5
        )


async def test_on_stubs_only_answers_before_the_first_difference_are_recorded_ones(
    replay_app: MakeApp,
) -> None:
    client = launching(FakeClient(running_run()))
    app = replay_app("complete", client=client)
    async with app.run_test(size=WIDE) as pilot:
        await another_script(pilot, ASKED, "Is this all?")
        assert "◉ recorded answers" in screen_text(app)
        text = flat(await press(pilot, "shift+tab", "enter"))
        assert "◉ stubs" in text and "also for one that asks the same" in text
        await press(pilot, *["tab"] * 4, "enter")
        await until(pilot, lambda: bool(client.launched))
        (request,) = client.launched
        steps = {one["step"] for one in request.options["stubs"] if "request" in one}
        assert steps == {"evidence", "check-claims", "check-formula"}
        parents = bundle("complete").read_options()["stubs"]
        assert request.options["stubs"][-len(parents) :] == list(parents) and parents
        assert request.options["stubs_hash"] == canonical_hash(request.options["stubs"])


async def test_a_script_that_does_not_compile_stays_in_the_editor(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        text = await another_script(pilot, "let reviews = 1;", "let reviews = ;")
        assert app.screen.id == "script-dialog" and "31:" in text
        await press(pilot, "escape")
        await press(pilot, "F")
        await enter(pilot, "the script")
        assert "let reviews = ;" in editor(app).text  # what was typed is kept


async def test_what_asks_the_same_says_so(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=NARROW) as pilot:
        text = await another_script(pilot, "let reviews = 1;", "let  reviews = 1;")
        assert "It asks what was recorded" in flat(text)
        assert "Do not launch" in text and "Look around in it" in text


async def test_an_edited_script_is_looked_around_in_up_to_its_first_difference(replay_app: MakeApp) -> None:
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await another_script(pilot, ASKED, "Is this all?")
        await press(pilot, "tab", "tab", "enter")
        await until(pilot, lambda: replay_of(app).opened is not None and replay_of(app).opened.edited)  # type: ignore[union-attr]
        text = await press(pilot)
        assert "checks, edited  32:20" in text and "✗ diverged at frame 6, 32:20" in text
        assert "Is this all?" in await press(pilot, "v")
        text = await press(pilot, "escape", "home", "full_stop")
        assert "statement 2 of" in text


async def test_real_agents_are_refused_in_words_where_there_are_none(replay_app: MakeApp) -> None:
    client = FakeClient(running_run())
    app = replay_app("complete", client=client)
    async with app.run_test(size=WIDE) as pilot:
        await another_answer(pilot, ANOTHER)
        text = flat(await press(pilot, "shift+tab", "enter", "enter"))
        assert "◉ real Agents" in text and "Not to be launched here" in text
        await press(pilot, *["tab"] * 3, "enter", "enter")
        assert client.launched == [] and app.screen.id == "first-difference"


async def test_real_agents_are_asked_about_with_the_bound_on_calls(
    replay_app: MakeApp, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Workspace, "options", lambda self, **_: {"agents": "real", "label": "real"})
    client = launching(FakeClient(running_run()))
    app = replay_app("complete", client=client)
    async with app.run_test(size=WIDE) as pilot:
        await another_answer(pilot, ANOTHER)
        await press(pilot, "shift+tab", "enter", "enter", *["tab"] * 3, "enter")
        text = flat(screen_text(app))
        assert "Launch on real Agents?" in text and "Up to 5 calls to real Agents" in text
        await press(pilot, "enter")
        assert client.launched == []
        assert app.screen.id == "reply-dialog"  # to think again
        assert editor(app).text == ANOTHER
        await press(pilot, "tab", "tab", "enter", "shift+tab", "enter", "enter", *["tab"] * 3, "enter")
        await press(pilot, "tab", "enter")
        await until(pilot, lambda: bool(client.launched))
        (request,) = client.launched
        assert request.options["agents"] == "real"
        assert [one["reply"] for one in request.options["stubs"] if one["step"] == "review-1"] == [
            {"verdict": "complete", "findings": []}
        ]


async def test_nothing_is_launched_unless_it_is_asked_for(replay_app: MakeApp) -> None:
    client = FakeClient(running_run())
    app = replay_app("complete", client=client)
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot, "home", *["down"] * 3, "F")
        assert "the answer of check-formula" in text and "the answer of check-claims" in text
        await press(pilot, "enter")
        assert "What if: answer of check-formula" in screen_text(app)
        await press(pilot, "tab", "tab", "enter")
        assert "It asks what was recorded" in flat(screen_text(app))
        await press(pilot, "enter")
        assert client.launched == [] and len(app.screen_stack) == 1
        text = await press(pilot, "home", "F")
        assert text.index("the script") < text.index("the answer of evidence")
        await press(pilot, "down", "down", "enter")
        assert "What if: answer of check-formula, frame 5" in screen_text(app)
        await press(pilot, "escape")
        assert client.launched == [] and len(app.screen_stack) == 1


async def test_a_script_that_this_workspace_would_not_launch_says_why(replay_app: MakeApp) -> None:
    client = FakeClient(running_run())
    app = replay_app("complete", client=client)
    async with app.run_test(size=WIDE) as pilot:
        text = flat(
            await another_script(
                pilot, "stepId: 'review-2', agentRef: 'lead_agent'", "stepId: 'review-2', agentRef: 'judge'"
            )
        )
        assert "Not to be launched here: 37:" in text and "judge" in text
        await press(pilot, *["tab"] * 3, "enter")
        assert client.launched == []


async def test_the_script_is_edited_in_another_editor(
    replay_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []

    def outside(app: object, path: Path) -> None:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        seen.append(path)
        path.write_text(path.read_text().replace(ASKED, "Edited outside?"))

    monkeypatch.setattr("workbench.tui.screens.replay_edit.edit_outside", outside)
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "F")
        await enter(pilot, "the script")
        await press(pilot, "tab", "tab", "enter")
        assert "Edited outside?" in editor(app).text
        seen[0].write_text(seen[0].read_text().replace("Edited outside?", "Saved later?"))
        await press(pilot, "tab", "tab", "tab", "enter")
        await until(pilot, lambda: app.screen.id == "first-difference")
        assert "Saved later?" in screen_text(app)
        await press(pilot, "enter")
    assert not seen[0].exists()


async def test_a_fork_is_compared_with_its_parent(replay_app: MakeApp) -> None:
    whole = bundle("complete")
    record = msgspec.structs.replace(whole.record, parent_run_id="wr_00000000000000a1")
    client = FakeClient(running_run(), completed_run("wr_00000000000000a1"))
    app = replay_app(msgspec.structs.replace(whole, record=record), client=client)
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot, "equals_sign")
        assert app.screen.id == "run-compare" and "Compare checks with checks" in text
        await press(pilot, "escape")
        client.remove("wr_00000000000000a1")
        text = await press(pilot, "equals_sign")
        assert "no run is called" in flat(text) and "a .wfrun file" in flat(text)
        await enter(pilot, "no-such.wfrun")
        assert "there is no file no-such.wfrun" in app.notices[-1].message
        assert app.screen is app.base_screen
        await press(pilot, "equals_sign")
        await enter(pilot, str(BUNDLES / "crashed.wfrun"))
        assert app.screen.id == "run-compare"
        shown = app.screen.found  # type: ignore[attr-defined]
        assert (shown.first.run_id, shown.second.run_id) == (bundle("crashed").run_id, whole.run_id)
    app = replay_app("complete")
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "equals_sign")
        assert len(app.screen_stack) == 1
