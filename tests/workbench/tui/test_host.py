"""The Host screen as a person uses it: sections, what changed, reload, other owners, hostile text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import (
    NOW,
    FrozenClock,
    completed_run,
    flat,
    running_run,
    screen_text,
    settle,
    until,
)
from tests.workbench.tui.host_support import (
    HostClient,
    a_failure,
    affected,
    child,
    configure,
    evidence,
    record,
)
from workbench.access import OwnerSilent
from workbench.host.reloading import ReloadPlan, ReloadResult
from workbench.tui.app import WorkbenchApp
from workbench.tui.messages import Tick
from workbench.tui.screens.dialogs import Dialog
from workbench.tui.screens.host import HostScreen
from workbench.tui.screens.runs import RunsScreen
from workbench.tui.widgets.choice import Choice
from workbench.tui.widgets.lines import LineList
from workbench.workspace import Workspace
from workflows_core.errors import Refused

MakeApp = Callable[..., WorkbenchApp]
WIDE, SMALL = (120, 40), (80, 24)
SECTIONS = ("Extensions", "Agents", "Sessions", "Limits", "Stores", "Events", "Notices")


@pytest.fixture
def host_app(make_app: MakeApp, workspace: Workspace) -> MakeApp:
    def make(client: HostClient | None = None, **more: Any) -> WorkbenchApp:
        configure(workspace)
        screens = {"runs": RunsScreen, "host": HostScreen}
        return make_app(
            client or HostClient(running_run(), completed_run()), screens=screens, screen="host", **more
        )

    return make


async def press(pilot: Pilot[Any], *keys: str) -> str:
    """Press ``keys``, wait until what they set off is done, and return what is seen."""
    await pilot.press(*keys)
    await settle(pilot)
    return screen_text(pilot.app)


async def test_f6_shows_the_host_from_anywhere(host_app: MakeApp) -> None:
    app = host_app()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "f3")
        assert app.current_mode == "runs"
        text = await press(pilot, "f6")
        assert app.current_mode == "host"
        assert all(name in text for name in SECTIONS)


async def test_a_section_that_the_cursor_has_left_is_not_shown(host_app: MakeApp) -> None:
    app = host_app()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        screen = app.base_screen
        assert isinstance(screen, HostScreen)
        sections = screen._sections.list
        late = sections.current_id
        await press(pilot, "down")
        sections.post_message(LineList.Highlighted(sections, 0, late))
        await settle(pilot)
        assert screen._detail.section == sections.current_id != late


async def test_extensions_show_contributions_budgets_and_diagnostics(host_app: MakeApp) -> None:
    app = host_app()
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot))
        assert "This process (4711) owns the workspace" in text
        assert "✓ workflows loaded contract 0.2.9" in text
        assert "plugin workflows; actions launch, cancel; tools run_workflow" in text
        assert "1.62 s of 3 s" in text
        assert "✗ broken failed" in text and "there is no module broken; is it installed?" in text
        assert "○ old disabled" in text
        assert "Extensions 1 failed" in text


async def test_enter_shows_the_earlier_diagnostics_and_hides_them_again(host_app: MakeApp) -> None:
    app = host_app()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        text = await press(pilot, "enter", *["down"] * 6)
        assert "on_task_start was slow (3)" in text and "on_task_start was slow (0)" not in text
        assert "on_task_start was slow (0)" in await press(pilot, "enter")
        assert "on_task_start was slow (0)" not in await press(pilot, "enter")


async def test_an_agent_says_what_changed_since_the_last_assembly(
    host_app: MakeApp, workspace: Workspace
) -> None:
    record(
        workspace,
        child(1, made_of=evidence("m1", ("search",), temperature=0.2), ago=300),
        child(2, made_of=evidence("m2", ("files",), temperature=0.7), ago=120),
        child(3, made_of=evidence("m2", ("files",), temperature=0.7), ago=60),
    )
    app = host_app()
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot, "2"))
        assert "✓ lead_agent stub" in text and "1fm2012, 60 s ago (stub)" in text.replace("1 min", "60 s")
        assert "changed 2 min ago, was another until 5 min ago" in text
        assert "~ model changed" in text and "~ parameter:temperature changed 0.2 → 0.7" in text
        assert "+ tool:files added" in text and "- tool:search removed" in text
        assert "✗ writer langchain this backend is not part of this workbench yet" in text
        assert "Agents 1 changed" in text and "Agents 2 " in text


async def test_assemblies_of_two_lifetimes_are_not_comparable(
    host_app: MakeApp, workspace: Workspace
) -> None:
    record(workspace, child(1, lifetime="host_1", ago=300), child(2, lifetime="host_2", ago=60))
    app = host_app()
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot, "2"))
        assert "not comparable with that of 5 min ago: another lifetime of the host" in text


async def test_sessions_limits_and_stores(host_app: MakeApp, workspace: Workspace) -> None:
    record(workspace, child(1), finish=False)
    app = host_app()
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot, "3"))
        assert "os:1000 terminal may decide" in text and "pts/3, not password-verified" in text
        text = flat(await press(pilot, "4"))
        assert "1 of 4 runs" in text and "active runs · by checks" in text
        assert "2 of 100 runs" in text and "by step-1 of checks" in text
        assert "0 bytes of 65,536 KiB" in text
        text = flat(await press(pilot, "5"))
        assert (
            "host.sqlite" in text and "KiB" in text and "workflows.sqlite" in text and "not made yet" in text
        )


async def test_a_limit_that_is_used_up_says_so(host_app: MakeApp) -> None:
    runs = [running_run(f"wr_{n:016x}", owner=f"os:{n}") for n in range(4)]
    app = host_app(HostClient(*runs))
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot, "4"))
        assert "4 of 4 runs all used" in text and "Limits 1 used up" in text
        assert "by checks, checks, checks and 1 more" in text


async def test_events_come_newest_first_and_open(host_app: MakeApp, workspace: Workspace) -> None:
    record(workspace, child(1, ago=300), child(2, ago=60))
    app = host_app()
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot, "6", "tab")
        places = [text.index(f"step-{n}") for n in (2, 1)]
        assert places == sorted(places)
        assert "run_end" in text and "success" in text
        text = await press(pilot, "down", "enter")
        assert '"content":' in text and '"verdict": "pass"' in text and '"thread": "wf_0002"' in text


async def test_an_event_leads_to_its_run_and_is_copied_whole(host_app: MakeApp, workspace: Workspace) -> None:
    record(workspace, child(1))
    app = host_app()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "6", "tab", "y")
        assert '"child_run": "cr_0001"' in app.clipboard
        await press(pilot, "t")
        assert app.current_mode == "runs"
        await until(pilot, lambda: "wr_00000000000000b2" in screen_text(app))


async def test_notices_can_be_read_again_and_copied(host_app: MakeApp) -> None:
    app = host_app()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        app.notice("The stub set has no reply left.", title="Something failed", severity="error")
        app.base_screen.post_message(Tick(NOW))
        await pilot.pause()
        app.screen.query("Toast").remove()
        await press(pilot, "f3", "f6")
        text = await press(pilot, "7", "tab")
        assert "Something failed" in text and "The stub set has no reply left." in text
        await press(pilot, "y")
        assert app.clipboard == "Something failed: The stub set has no reply left."


async def test_reload_names_live_runs_first_and_starts_on_the_safe_answer(host_app: MakeApp) -> None:
    client = HostClient(running_run())
    client.plan = ReloadPlan(
        ("claims.plugin:install",), affected("its next Agent call is refused"), ("the record x is new",)
    )
    app = host_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        await press(pilot, "enter", *["down"] * 6, "L")
        await until(pilot, lambda: isinstance(app.screen, Dialog))
        text = screen_text(app)
        assert client.planned == ["claims.plugin:install"]
        assert text.index("1 live run keeps the version") < text.index("Loaded anew")
        assert "its next Agent call is refused" in text and "the record x is new" in text
        assert isinstance(app.focused, Choice) and app.focused.name == "keep"
        await press(pilot, "enter")
        assert client.reloads == []


async def test_reload_of_all_is_done_and_reported(host_app: MakeApp) -> None:
    client = HostClient()
    app = host_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        await press(pilot, "L")
        await until(pilot, lambda: isinstance(app.screen, Dialog))
        assert "No run is live." in screen_text(app)
        asked = client.asked
        await pilot.press("tab", "enter")
        await until(pilot, lambda: client.reloads == [None] and client.asked > asked)
        assert app.notices[-1].text == "Reload: reloaded claims.plugin:install"


async def test_a_reload_that_fails_says_what_stays(host_app: MakeApp) -> None:
    client = HostClient()
    client.result = a_failure()
    app = host_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        await press(pilot, "L")
        await until(pilot, lambda: isinstance(app.screen, Dialog))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: len(app.notices) > 0)
        assert app.notices[-1].severity == "warning"
        assert "not reloaded: claims.plugin:install: importing" in app.notices[-1].message


async def test_what_cannot_be_reloaded_is_said(host_app: MakeApp) -> None:
    client = HostClient()
    client.failures["plan_reload"] = Refused("workflows_core is part of the workbench", code="not_reloadable")
    app = host_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        await pilot.press("L")
        await until(pilot, lambda: len(app.notices) > 0)
        assert "is part of the workbench" in app.notices[-1].message
        client.failures.clear()
        client.plan, client.result = ReloadPlan(()), ReloadResult((), ())
        await pilot.press("L")
        await until(pilot, lambda: len(app.notices) > 1)
        assert "nothing to load anew" in app.notices[-1].message
        assert client.reloads == []


async def test_another_owner_is_named_and_asked_only_when_the_screen_is_shown(
    host_app: MakeApp, clock: FrozenClock
) -> None:
    client = HostClient(running_run(), owner=False)
    app = host_app(client)
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot))
        assert "Process 4711 owns the workspace." in text and "It answered just now." in text
        assert "✓ workflows loaded" in text
        asked = client.asked
        clock.advance(30)
        for _ in range(12):
            app.base_screen.post_message(Tick(clock()))
            await settle(pilot)
        assert client.asked == asked
        assert "It answered 30 s ago." in screen_text(app)
        await press(pilot, "f3", "f6")
        assert client.asked == asked + 1


async def test_an_owner_that_does_not_answer_hides_nothing_else(host_app: MakeApp) -> None:
    client = HostClient(running_run(), owner=False)
    client.failures["extensions"] = OwnerSilent("process 4711 has not answered for 10 s")
    app = host_app(client)
    async with app.run_test(size=WIDE) as pilot:
        text = flat(await press(pilot))
        assert "The owner does not answer. process 4711 has not answered for 10 s" in text
        assert "Extensions problem" in text and "Sessions problem" in text
        assert "1 of 4 runs" in flat(await press(pilot, "4"))


async def test_without_an_owner_the_configuration_is_shown_and_nothing_is_asked(host_app: MakeApp) -> None:
    client = HostClient(owner=False, pid=None)
    app = host_app(client)
    async with app.run_test(size=SMALL) as pilot:
        text = flat(await press(pilot))
        assert "Nobody owns the workspace, so no" in text
        assert "○ claims not loaded" in text
        await press(pilot)
        await press(pilot, "L")
        assert client.asked == 0 and client.planned == []


async def test_a_broken_configuration_is_said_and_the_last_one_is_shown(
    host_app: MakeApp, workspace: Workspace
) -> None:
    app = host_app()
    assert workspace.config.agents
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        configure(workspace, "agents: [nonsense")
        text = flat(await press(pilot, "f3", "f6", "2"))
        assert "Not all of this is up to date" in text and "workbench.yaml" in text
        assert "writer langchain" in text


async def test_the_sections_keep_their_place_and_their_filter_clears(
    host_app: MakeApp, workspace: Workspace
) -> None:
    record(workspace, *(child(n, ago=60 - n) for n in range(30)))
    app = host_app()
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "6", "tab", *["down"] * 5)
        detail = app.screen.query_one("#section").list  # type: ignore[attr-defined]
        place = detail.current_id
        await press(pilot, "4", "6")
        assert detail.current_id == place
        text = await press(pilot, "slash", *"step-29", "enter")
        assert "step-29" in text and "step-28" not in text
        text = await press(pilot, "escape")
        assert "step-28" in text
