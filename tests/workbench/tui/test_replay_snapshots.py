"""How the Replay screen looks. A changed picture is to be looked at before it is accepted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import FakeClient, running_run
from tests.workbench.tui.replay_support import bundle, press
from workbench.replaying import Given
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.replay import ReplayScreen
from workbench.tui.screens.runs import RunsScreen

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="pictures are compared on one Python")

SMALL, LARGE = (80, 24), (120, 40)


@pytest.fixture
def look(snap_compare: Callable[..., bool], make_app: Callable[..., WorkbenchApp]) -> Callable[..., bool]:
    """``look(name, size, keys…)``: whether that bundle looks as it did, after these keys."""

    def compare(name: str, size: tuple[int, int], *keys: str, **settings: Any) -> bool:
        screens = {"runs": RunsScreen, "replay": ReplayScreen}
        app = make_app(FakeClient(running_run()), screens=screens, screen="replay", **settings)
        app.given = Given(bundle(name))

        async def before(pilot: Pilot[Any]) -> None:
            await press(pilot)
            for key in keys:  # a dialog takes the next key only once it is there
                await press(pilot, key)

        return snap_compare(app, terminal_size=size, run_before=before)

    return compare


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
class TestBothSizes:
    def test_a_crash(self, look: Callable[..., bool], size: tuple[int, int]) -> None:
        assert look("crashed", size, "end")

    def test_what_is_in_sight(self, look: Callable[..., bool], size: tuple[int, int]) -> None:
        assert look("crashed", size, "home", *["down"] * 4, "tab", "b", "full_stop", "tab")

    def test_a_divergence(self, look: Callable[..., bool], size: tuple[int, int]) -> None:
        assert look("diverged", size, "v")


def test_a_frame_on_a_small_terminal(look: Callable[..., bool]) -> None:
    assert look("complete", SMALL, "home", *["down"] * 3, "tab", "tab", "tab")


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
class TestWhatIf:
    def test_which(self, look: Callable[..., bool], size: tuple[int, int]) -> None:
        assert look("complete", size, "end", *["up"] * 3, "F")

    def test_another_answer(self, look: Callable[..., bool], size: tuple[int, int]) -> None:
        assert look("complete", size, "end", *["up"] * 3, "F", "enter")

    def test_another_script(self, look: Callable[..., bool], size: tuple[int, int]) -> None:
        assert look("complete", size, "end", *["up"] * 3, "F", "down", "enter")

    def test_the_first_difference(self, look: Callable[..., bool], size: tuple[int, int]) -> None:
        # In the answer of the first review, "incomplete" becomes "in": line 4, after its word.
        keys = ["end", *["up"] * 3, "F", "enter", "ctrl+end", "up", "end", *["backspace"] * 9, '"']
        assert look("complete", size, *keys, "tab", "tab", "enter", "shift+tab", "enter")


def test_the_history_of_an_expression(look: Callable[..., bool]) -> None:
    assert look("complete", SMALL, "end", "W", *"findings.length", "enter")


def test_the_console(look: Callable[..., bool]) -> None:
    assert look("complete", SMALL, "end", "up", "C", *"findings", "enter", *"nope", "enter")


def test_without_colour_in_ascii(look: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert look("diverged", LARGE, ascii=True)
