"""The launch pane: arguments, stubs, real Agents, an unchanged launch, and the marks of the run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.tui.author_support import (
    WIDE,
    MakeApp,
    author,
    notices,
    painted,
    pane,
    ready,
    shown,
    standing,
    until,
)
from tests.workbench.tui.fakes import SCRIPT, FakeClient, completed_run, make_run, make_step, running_run
from workbench.settings import Session
from workbench.tui.widgets.choice import Choice
from workbench.tui.widgets.editor_form import Setting, TextBlock
from workbench.tui.widgets.editor_marks import Mark
from workbench.tui.widgets.pane import ListPane
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchOutcome, LaunchRequest
from workflows_core.errors import Deleted, UsageError
from workflows_core.model import RunState, StepStatus

pytestmark = pytest.mark.usefixtures("quick_checks")


async def test_an_error_in_the_arguments_stands_in_place_and_stops_the_launch(
    make_app: MakeApp, scripts: Path
) -> None:
    client = FakeClient()
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("alt+g", *'{"a": 1,}')
        sent = author(app).query_one("#sent", TextBlock)
        await until(pilot, lambda: "1:9" in sent.plain)
        assert "property name" in sent.plain
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "the arguments are not usable" in notices(app))
        assert client.launched == []
        assert pane(app).editor.has_focus
        await pilot.press("backspace", "backspace", "}")
        await until(pilot, lambda: "sends 7 of 4,000 bytes" in sent.plain)
        assert '{"a":1}' in sent.plain
        await pilot.press("ctrl+r")
        await until(pilot, lambda: client.launched)
        assert client.launched[0].args == {"a": 1}


async def test_another_stub_set_is_chosen_by_name(make_app: MakeApp, scripts: Path) -> None:
    client = FakeClient()
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        setting = author(app).query_one("#stubs", Setting)
        assert setting.value == "checks.stubs.yaml"
        setting.focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is not author(app))
        await pilot.press(*"other", "enter")
        await until(pilot, lambda: setting.value == "other.stubs.yaml")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: client.launched)
        assert client.launched[0].options["stubs"] == [{"reply": "other"}]
        assert client.launched[0].options["label"] == "other.stubs.yaml"


async def test_a_stub_set_that_cannot_be_read_stops_the_launch_in_words(
    make_app: MakeApp, scripts: Path
) -> None:
    (scripts / "checks.stubs.yaml").write_text("- stpe: evidence\n")
    client = FakeClient()
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "stpe" in notices(app))
        assert client.launched == []


async def test_real_agents_are_refused_in_words_where_there_are_none(
    make_app: MakeApp, scripts: Path
) -> None:
    client = FakeClient()
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        author(app).query_one("#agents", Setting).focus()
        await pilot.press("space", "ctrl+r")
        await until(pilot, lambda: "no agent can be called for real" in notices(app))
        assert client.launched == []


async def test_a_launch_on_real_agents_asks_with_the_bound_on_calls(
    make_app: MakeApp, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Workspace, "options", lambda self, **given: {"agents": "real", "label": "real"})
    client = FakeClient()
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        author(app).query_one("#agents", Setting).focus()
        await pilot.press("space", "ctrl+r")
        await until(pilot, lambda: app.screen is not author(app))
        assert "Up to 3 calls to real Agents:" in painted(app)
        assert "None of these is paid by the call." in painted(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is author(app))
        assert client.launched == []
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.screen is not author(app))
        await pilot.press("right", "enter")
        await until(pilot, lambda: client.launched)


async def test_the_pane_says_how_many_calls_a_run_can_make(make_app: MakeApp, scripts: Path) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        facts = author(app).query_one("#facts", TextBlock)
        assert facts.plain.splitlines()[:2] == ["Version  working copy", "up to 3 calls"]
        pane(app).show_facts((4, True), 16)
        assert facts.plain.endswith("up to 16 calls, which is the limit")
        pane(app).show_facts((0, False), 16)
        assert facts.plain.endswith("no Agent calls")


async def test_an_unchanged_launch_shows_its_run_and_offers_to_run_again(
    make_app: MakeApp, scripts: Path
) -> None:
    client = FakeClient()
    known: dict[str, str] = {}

    def launch(request: LaunchRequest) -> LaunchOutcome:
        existing = request.request_id in known
        run_id = known.setdefault(request.request_id, f"wr_{len(known) + 1:016x}")
        if not existing:
            client.put(completed_run(run_id, name=request.name, script=request.script))
        return LaunchOutcome(run_id=run_id, existing=existing)

    client.on_launch = launch
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        again = author(app).query_one("#again-button", Choice)
        assert not again.display
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "wr_0000000000000001" in standing(app))
        assert "Nothing has changed" not in standing(app)

        await pilot.press("ctrl+r")
        await until(pilot, lambda: "Nothing has changed since this run." in standing(app))
        assert [request.request_id for request in client.launched] == [client.launched[0].request_id] * 2
        assert again.display

        await pilot.press("alt+r")
        await until(pilot, lambda: "wr_0000000000000002" in standing(app))
        assert client.launched[2].request_id != client.launched[0].request_id
        assert "Nothing has changed" not in standing(app)

        await pilot.press("x")
        await until(pilot, lambda: not again.display)
        await pilot.press("alt+r")
        assert len(client.launched) == 3
        await pilot.press("ctrl+z", "ctrl+r")
        await until(pilot, lambda: len(client.launched) == 4)
        assert client.launched[3].request_id == client.launched[2].request_id


async def test_a_lost_answer_is_found_again_by_the_same_request(make_app: MakeApp, scripts: Path) -> None:
    client = FakeClient()
    session = Session()
    app = make_app(client, screen="author", session=session)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        client.failures["launch"] = UsageError("the owner has not answered")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "the owner has not answered" in notices(app))
        (remembered,) = session.get("author")["launches"].values()
    del client.failures["launch"]
    app = make_app(client, screen="author", session=session)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: client.launched)
        assert client.launched[0].request_id == remembered["request_id"]


async def test_after_its_run_was_deleted_a_launch_makes_a_new_one(make_app: MakeApp, scripts: Path) -> None:
    client = FakeClient()
    gone: set[str] = set()

    def launch(request: LaunchRequest) -> LaunchOutcome:
        if request.request_id in gone:
            raise Deleted("the run of this request was deleted")
        gone.add(request.request_id)
        return LaunchOutcome(run_id="wr_1", existing=False)

    client.on_launch = launch
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(client.launched) == 1)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(client.launched) == 3)
        assert len({request.request_id for request in client.launched}) == 2
        assert len(gone) == 2


async def test_the_run_is_one_press_away(make_app: MakeApp, scripts: Path) -> None:
    app = make_app(FakeClient(completed_run(), completed_run("wr_other", name="other")), screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await until(pilot, lambda: "wr_00000000000000a1" in standing(app))
        author(app).query_one("#show-button", Choice).focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.current_mode == "runs")
        await until(pilot, lambda: "wr_00000000000000a1" in painted(app))


async def test_runs_puts_its_cursor_on_the_launched_run_once(make_app: MakeApp, scripts: Path) -> None:
    older = ("wr_00000000000000a1", "wr_00000000000000a2")
    client = FakeClient(completed_run(older[0]), completed_run(older[1], created_at=1))
    app = make_app(client, screen="runs")
    async with app.run_test(size=WIDE) as pilot:

        def under_cursor() -> str | None:
            return app.base_screen.query_one("#runs", ListPane).list.current_id

        await until(pilot, lambda: under_cursor() == older[0])
        await pilot.press("down")
        await until(pilot, lambda: under_cursor() == older[1])
        await pilot.press("f2")
        await ready(pilot, app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: client.launched and app.launched)
        await pilot.press("f3", "enter")
        await until(pilot, lambda: under_cursor() == "wr_0000000000000001")
        await until(pilot, lambda: "wr_0000000000000001" in painted(app))
        await pilot.press("escape", "end")
        await until(pilot, lambda: under_cursor() == older[1])
        await pilot.press("f2", "f3")
        await until(pilot, lambda: app.current_mode == "runs")
        assert under_cursor() == older[1]


async def test_runs_is_not_yet_open_and_the_run_not_yet_listed(make_app: MakeApp, scripts: Path) -> None:
    client = FakeClient(completed_run())
    client.on_launch = lambda request: LaunchOutcome("wr_late", existing=False)
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.launched)
        await pilot.press("f3")
        await until(pilot, lambda: app.current_mode == "runs")
        runs = app.base_screen.query_one("#runs", ListPane).list
        await until(pilot, lambda: runs.current_id == "wr_00000000000000a1")
        client.put(completed_run("wr_late", created_at=1))
        await until(pilot, lambda: runs.current_id == "wr_late")


async def test_marks_follow_the_run_at_most_ten_times_a_second(make_app: MakeApp, scripts: Path) -> None:
    client = FakeClient(running_run())
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await until(pilot, lambda: shown(app).editor.marks)
        read = len(client.viewed)
        steps = list(running_run().steps)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(60):
            status = StepStatus.COMPLETED if number % 2 else StepStatus.RUNNING
            steps[1] = make_step("claims", status, line=3, column=9)
            client.change("wr_00000000000000b2", steps=tuple(steps))
            await pilot.pause(0.005)
        await until(pilot, lambda: shown(app).editor.marks.get(2) == Mark("✓", "good"))
        assert len(client.viewed) - read <= (loop.time() - began) * 10 + 2


async def test_marks_of_an_older_text_stand_on_the_lines_that_are_left(
    make_app: MakeApp, scripts: Path
) -> None:
    lines = SCRIPT.split("\n")
    lines[2] = "  // claims are not checked any more"
    (scripts / "checks.workflow.js").write_text("// a new first line\n" + "\n".join(lines))
    app = make_app(FakeClient(completed_run()), screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await until(pilot, lambda: shown(app).editor.marks)
        assert shown(app).editor.marks == {1: Mark("✓", "good"), 4: Mark("✓", "good")}


async def test_a_newer_run_of_the_same_name_is_shown(make_app: MakeApp, scripts: Path, clock: Any) -> None:
    client = FakeClient(completed_run())
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await until(pilot, lambda: "wr_00000000000000a1" in standing(app))
        client.put(make_run("wr_new", created_at=clock() + 1, state=RunState.FAILED))
        await until(pilot, lambda: "wr_new" in standing(app))
        client.put(make_run("wr_stranger", name="stranger", created_at=clock() + 2))
        await pilot.pause(0.2)
        assert "wr_new" in standing(app)
        client.remove("wr_new")
        await until(pilot, lambda: "wr_00000000000000a1" in standing(app))
