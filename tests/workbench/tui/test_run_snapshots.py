"""How comparing, watching, evidence, receipts, child runs, exporting and forking look on the Runs screen."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import (
    FakeClient,
    completed_run,
    failed_run,
    make_run,
    running_run,
    settle,
    until,
    waiting_run,
)
from tests.workbench.tui.review_support import receipt
from tests.workbench.tui.run_support import ASSEMBLED, FIRST, assembled_run, attestation, child, forked
from tests.workbench.tui.test_run_acts_snapshots import REPORT, recoverable
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.dialogs import Modal
from workbench.tui.screens.runs import RunsScreen

BASELINE = (3, 11)
pytestmark = [
    pytest.mark.skipif(sys.version_info[:2] != BASELINE, reason="pictures are compared on one Python"),
    pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["small", "large"]),
]

Size = tuple[int, int]
Look = Callable[..., bool]


@pytest.fixture
def look(snap_compare: Callable[..., bool], make_app: Callable[..., WorkbenchApp], size: Size) -> Look:
    """``look(client, keys…)``: whether the application looks as it did. ``+KEY`` waits for a dialog after it."""

    def compare(client: FakeClient, *keys: str, **settings: Any) -> bool:
        app = make_app(client, screens={"runs": RunsScreen}, **settings)

        async def before(pilot: Pilot[Any]) -> None:
            await settle(pilot)
            for key in keys:
                screen = app.screen
                await pilot.press(key.removeprefix("+"))
                if key.startswith("+"):
                    await until(pilot, lambda screen=screen: app.screen is not screen)  # type: ignore[misc]
                    assert isinstance(app.screen, Modal)
                await settle(pilot)

        return snap_compare(app, terminal_size=size, run_before=before)

    return compare


def test_choosing_what_to_compare_with(look: Look) -> None:
    other = make_run("wr_00000000000000c9", name="file-review")
    assert look(FakeClient(forked(), completed_run(), failed_run(), other), "+equals_sign")


def test_two_runs_compared(look: Look) -> None:
    assert look(FakeClient(forked(), completed_run()), "+equals_sign", "+enter")


def test_a_comparison_unfolded(look: Look) -> None:
    keys = ("+equals_sign", "+enter", "end", *["up"] * 5)
    assert look(FakeClient(forked(), completed_run()), *keys, "enter")


def test_watching(look: Look) -> None:
    client = FakeClient(running_run(), completed_run(), waiting_run(), failed_run(), recoverable())
    assert look(client, "space", "down", "down", "space", "end", "space", "w")


def test_watching_in_ascii(look: Look) -> None:
    assert look(FakeClient(running_run(), completed_run(), waiting_run()), "w", ascii=True)


def test_evidence_with_what_changed(look: Look) -> None:
    client = FakeClient(assembled_run())
    client.assembled.update(ASSEMBLED)
    assert look(client, "enter", "5")


def test_receipts(look: Look) -> None:
    view = completed_run(receipts=(receipt(FIRST, REPORT),))
    client = FakeClient(view)
    client.attested[FIRST] = [attestation()]
    assert look(client, "enter", "5")


def test_a_child_run_with_its_events(look: Look) -> None:
    view = completed_run()
    client = FakeClient(view)
    run_id = view.steps[0].child_run_id
    assert run_id is not None
    client.children[run_id] = child(run_id)
    assert look(client, "enter", "home", "+H", "end", "up", "enter")


def test_exporting(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.tui.screens.run_export.where", lambda folder: "the workspace")
    assert look(FakeClient(completed_run()), "+E")
