"""How the application looks. A changed picture is to be looked at before it is accepted.

``pytest --snapshot-update`` takes new ones. One Python draws the baseline, so that there is one to look at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import (
    NOW,
    SECOND,
    FakeClient,
    completed_run,
    failed_run,
    make_run,
    running_run,
    settle,
    until,
    waiting_run,
)
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.runs import RunsScreen
from workflows_core.model import RunState

BASELINE = (3, 11)
pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != BASELINE, reason="pictures are compared on one Python"
)

SMALL, LARGE = (80, 24), (120, 40)
Look = Callable[..., bool]


def every_state() -> list[Any]:
    """Runs that show every state, and enough of them to scroll."""
    rest = [
        state
        for state in RunState
        if state.value not in ("running", "completed", "failed", "waiting_approval")
    ]
    others = [
        make_run(
            f"wr_{n:016x}", state=state, name=f"file-review-{n}", created_at=NOW - (n + 2) * 5_000 * SECOND
        )
        for n, state in enumerate(rest)
    ]
    many = [
        make_run(f"wr_1{n:015x}", name=f"nightly-{n}", created_at=NOW - (n + 1) * 90_000 * SECOND)
        for n in range(40)
    ]
    return [running_run(), completed_run(), failed_run(), waiting_run(), *others, *many]


def _detail_is_of_the_cursor(app: WorkbenchApp) -> bool:
    """Whether the run that is shown in full is the one under the list's cursor."""
    screen = app.base_screen
    return not isinstance(screen, RunsScreen) or screen._detail.run_id == screen._runs.list.current_id


@pytest.fixture
def look(snap_compare: Callable[..., bool], make_app: Callable[..., WorkbenchApp]) -> Look:
    """``look(size, keys…)``: whether the application looks as it did, after these keys."""

    def compare(size: tuple[int, int], *keys: str, runs: list[Any] | None = None, **settings: Any) -> bool:
        client = FakeClient(*(every_state() if runs is None else runs))
        app = make_app(client, screens={"author": RunsScreen, "runs": RunsScreen}, **settings)

        async def before(pilot: Pilot[Any]) -> None:
            await settle(pilot)
            for key in keys:
                await pilot.press(key)
                await settle(pilot)
            await until(pilot, lambda: _detail_is_of_the_cursor(app))
            await settle(pilot)

        return snap_compare(app, terminal_size=size, run_before=before)

    return compare


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
class TestBothSizes:
    def test_runs(self, look: Look, size: tuple[int, int]) -> None:
        assert look(size)

    def test_no_runs(self, look: Look, size: tuple[int, int]) -> None:
        assert look(size, runs=[])

    def test_a_failed_run(self, look: Look, size: tuple[int, int]) -> None:
        assert look(size, "slash", *"reply", "enter", "enter")

    def test_without_colour(self, look: Look, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        assert look(size, "down")

    def test_help(self, look: Look, size: tuple[int, int]) -> None:
        assert look(size, "question_mark", *"runs.")


def test_details_on_a_narrow_screen(look: Look) -> None:
    assert look(SMALL, "enter", "down")


def test_a_step_opened(look: Look) -> None:
    assert look(LARGE, "down", "enter", "enter")


def test_the_source_with_marks(look: Look) -> None:
    assert look(SMALL, "enter", "2")


def test_the_journal_with_a_frame_opened(look: Look) -> None:
    assert look(LARGE, "down", "enter", "4", "home", "down", "enter")


def test_the_result(look: Look) -> None:
    assert look(SMALL, "down", "enter", "5")


def test_in_ascii(look: Look) -> None:
    assert look(LARGE, ascii=True)


def test_in_a_light_theme(look: Look) -> None:
    assert look(LARGE, theme="textual-light")


def test_the_palette(look: Look) -> None:
    assert look(SMALL, "ctrl+p")


def test_leaving_with_live_runs(look: Look) -> None:
    assert look(SMALL, "ctrl+q")


def test_deleting(look: Look) -> None:
    assert look(LARGE, "down", "d")
