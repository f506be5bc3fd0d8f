"""How the Review screen looks. A changed picture is to be looked at before it is accepted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.preview.files import pdf
from tests.workbench.tui.fakes import FakeClient, make_run, settle, until
from tests.workbench.tui.review_support import (
    application,
    artifact,
    asking,
    at_checkpoint,
    client_of,
    detail,
    everything,
    output,
    read_in_full,
)
from workbench.tui.app import WorkbenchApp
from workbench.tui.widgets.bytes_view import BytesView

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="pictures are compared on one Python")

SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["small", "large"])
Look = Callable[..., bool]
#: Spoken by a supplier who wants more to be read than is shown.
TRICKY = "# Evidence\n\nThe soap is \u202egentle\u202c and\u00a0safe.  \n\n> quoted\n\n```\ncode\twith a tab\n```\n"


@pytest.fixture
def look(snap_compare: Look, make_app: Callable[..., WorkbenchApp], monkeypatch: pytest.MonkeyPatch) -> Look:
    """``look(size, keys…)``: whether the screen looks as it did. ``FULL`` reads the whole output first."""
    monkeypatch.setattr(BytesView, "STOOD", 0.1)

    def compare(size: tuple[int, int], *keys: str, client: FakeClient | None = None, **given: Any) -> bool:
        app = application(make_app, client or everything(), **given)

        async def before(pilot: Pilot[Any]) -> None:
            await settle(pilot)
            for key in keys:
                if key == "FULL":
                    await read_in_full(pilot, app)
                    await pilot.press("home")
                else:
                    await pilot.press(key)
                await settle(pilot)
            if "FULL" not in keys:
                _forget(app)
                await until(pilot, lambda: _all_in_view_counts(app))
            await settle(pilot)

        return snap_compare(app, terminal_size=size, run_before=before)

    return compare


def _forget(app: WorkbenchApp) -> None:
    """Count anew: what stood for a moment while the screen was laid out depends on how fast that was."""
    subject = detail(app).subject
    if subject is not None and subject.progress is not None:
        subject.progress.coverage.__init__(subject.progress.coverage.size)  # type: ignore[misc]
        detail(app).show_coverage()


def _all_in_view_counts(app: WorkbenchApp) -> bool:
    """Whether everything that stands in the viewport has been counted."""
    subject, rows = detail(app).subject, output(app).bytes_shown
    if app.screen is not app.base_screen or not output(app).size.height:
        return True
    if subject is None or subject.progress is None or rows is None:
        return True
    top = round(output(app).scroll_y)
    seen = subject.progress.coverage.ranges
    return all(
        any(start <= rows.span(index)[0] and rows.span(index)[1] <= end for start, end in seen)
        for index in output(app).shown[top : top + output(app).size.height]
    )


@SIZES
class TestBothSizes:
    def test_what_waits(self, look: Look, size: tuple[int, int]) -> None:
        assert look(size, "down")

    def test_nothing_waits(self, look: Look, size: tuple[int, int]) -> None:
        assert look(size, client=FakeClient(make_run()))

    def test_a_question(self, look: Look, size: tuple[int, int]) -> None:
        assert look(size, "down", "enter", client=FakeClient(asking("wording", "claims"), at_checkpoint()))

    def test_an_output_in_part(self, look: Look, size: tuple[int, int]) -> None:
        assert look(size, "down", "enter")

    def test_approving(self, look: Look, size: tuple[int, int]) -> None:
        assert look(size, "down", "enter", "FULL", "A")


def test_rejecting(look: Look) -> None:
    assert look((80, 24), "down", "enter", "FULL", "X")


def test_comparing(look: Look) -> None:
    assert look((120, 40), "down", "equals_sign")


def test_a_receipt(look: Look) -> None:
    assert look((120, 40), "s")


def test_a_pause(look: Look) -> None:
    assert look((80, 24), "end", "enter")


def test_a_folded_tree(look: Look) -> None:
    assert look((120, 40), "down", "enter", "down", "enter", "down", "down", "enter")


def test_tricky_markdown(look: Look) -> None:
    exact = artifact(TRICKY.encode(), "text/markdown", path="evidence.md")
    assert look((80, 24), "enter", client=client_of((at_checkpoint(exact=exact), exact)))


def test_hex_without_colour(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    exact = artifact(bytes(range(256)) * 3, "application/octet-stream")
    assert look((80, 24), "enter", client=client_of((at_checkpoint(exact=exact), exact)))


def test_a_document(look: Look) -> None:
    exact = artifact(pdf(pages=3, script=True), "application/pdf", path="label.pdf")
    assert look((120, 40), "enter", client=client_of((at_checkpoint(exact=exact), exact)))


def test_in_ascii(look: Look) -> None:
    assert look((120, 40), "down", ascii=True)
