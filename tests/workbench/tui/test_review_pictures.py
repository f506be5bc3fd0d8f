"""Images and documents on a terminal that draws pictures: what is drawn, and when it counts as shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.preview.files import animation, pdf, png
from tests.workbench.tui.fakes import FakeClient, flat, screen_text, settle, until
from tests.workbench.tui.review_support import (
    application,
    artifact,
    at_checkpoint,
    client_of,
    detail,
    output,
    shown,
)
from tests.workbench.tui.test_graphics import Kitty, unsixel
from workbench.review import Progress
from workbench.tui.app import WorkbenchApp
from workbench.tui.graphics import Graphics, Protocol
from workbench.tui.messages import Tick
from workbench.tui.widgets.bytes_view import BytesView
from workbench.tui.widgets.picture_list import PictureList

MakeApp = Callable[..., WorkbenchApp]
SIZE = (110, 34)
CELL = (10, 20)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BytesView, "STOOD", 0.03)
    monkeypatch.setenv("COLORTERM", "truecolor")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written to the terminal beside the cells."""
    sequences: list[str] = []
    monkeypatch.setattr(PictureList, "send", lambda self, text: sequences.append(text) if text else None)
    return sequences


def reviewing(
    make_app: MakeApp, exact: Any, protocol: Protocol | None = Protocol.KITTY, **changes: Any
) -> tuple[WorkbenchApp, FakeClient]:
    client = client_of((at_checkpoint(exact=exact, **changes), exact))
    app = application(make_app, client)
    app.context.graphics = Graphics(protocol, CELL) if protocol is not None else Graphics()
    return app, client


def progress(app: WorkbenchApp) -> Progress:
    subject = detail(app).subject
    assert subject is not None and subject.progress is not None
    return subject.progress


def may(app: WorkbenchApp, action: str) -> bool:
    return bool(app.base_screen.check_action(action, ()))


async def read_every_page(pilot: Pilot[Any], app: WorkbenchApp) -> None:
    """Go from unseen part to unseen part as a person does, with one key."""
    for _ in range(100):
        pictures = progress(app).pictures
        assert pictures is not None
        if pictures.complete:
            break
        before = pictures.ranges
        await pilot.press("u")
        await until(pilot, lambda before=before, of=pictures: of.ranges != before)  # type: ignore[misc]
    await settle(pilot)
    assert progress(app).in_full


async def test_an_image_counts_at_its_own_size(make_app: MakeApp, sent: list[str]) -> None:
    exact = artifact(png(300, 700), "image/png", path="label.png")
    app, client = reviewing(make_app, exact)
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot, "enter")
        assert "image, kitty graphics, full size" in screen_text(app)
        await until(pilot, lambda: progress(app).pictures is not None and bool(progress(app).pictures.ranges))
        assert not may(app, "approve")
        await read_every_page(pilot, app)
        assert may(app, "approve") and "in full" in screen_text(app)
        terminal = Kitty()
        assert terminal.feed("".join(sent)) == ""
        assert len(terminal.pictures) == 2
        await pilot.press("A")
        await until(pilot, lambda: app.screen is not app.base_screen)
        assert "shown in full" in flat(screen_text(app))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: bool(client.decided))
        assert client.decided[0].review == {
            "coverage": 1.0,
            "shown_bytes": 0,
            "bytes": len(exact.body),
            "shown_pages": 1,
            "pages": 1,
            "renderer": "kitty graphics, full size",
            "viewed_outside": None,
        }
    terminal.feed("".join(sent[1:]))


async def test_a_page_counts_at_a_hundred_dpi_with_what_the_document_carries(
    make_app: MakeApp, sent: list[str]
) -> None:
    exact = artifact(pdf(pages=3, script=True, note=True, box="0 0 612 792"), "application/pdf")
    app, _ = reviewing(make_app, exact)
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot, "enter")
        text = flat(screen_text(app))
        assert "script a: app.alert(1)" in text and "annotation Text on page 3: says psst" in text
        assert "page 1 of 3, kitty graphics, 100 dpi, wider than this pane" in text
        await read_every_page(pilot, app)
        pictures = progress(app).pictures
        assert pictures is not None and pictures.shown_pages == 3
        # 612 points at 100 dpi are 850 pixels, or 85 cells: wider than the pane.
        assert progress(app).renderers == {"kitty graphics, 100 dpi"}
        rows = output(app).pages
        assert rows is not None and rows.grids == [(85, 55)] * 3


async def test_what_is_off_at_the_side_does_not_count(make_app: MakeApp, sent: list[str]) -> None:
    app, _ = reviewing(make_app, artifact(png(1_200, 100), "image/png"))
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot, "enter")
        await until(pilot, lambda: progress(app).pictures is not None and bool(progress(app).pictures.ranges))
        await pilot.pause(0.2)
        assert not progress(app).in_full
        await pilot.press(*["shift+right"] * 12)
        await until(pilot, lambda: progress(app).in_full)


async def test_a_document_that_carries_more_than_is_listed_does_not_count(
    make_app: MakeApp, sent: list[str]
) -> None:
    exact = artifact(pdf(pages=1, notes=80, box="0 0 100 100"), "application/pdf")
    app, _ = reviewing(make_app, exact)
    async with app.run_test(size=(110, 100)) as pilot:
        await shown(pilot, "enter")
        await until(pilot, lambda: progress(app).pictures is not None and progress(app).pictures.shown(1))
        await until(pilot, lambda: progress(app).pictures is not None and progress(app).pictures.shown(0))
        assert "20 more are not listed" in screen_text(app)
        assert not progress(app).in_full and not may(app, "approve")


async def test_every_frame_of_an_animation_must_be_seen(make_app: MakeApp, sent: list[str]) -> None:
    app, _ = reviewing(make_app, artifact(animation(3), "image/gif"))
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot, "enter")
        await until(pilot, lambda: progress(app).in_full)
        assert "frame 3 of 3" in screen_text(app)
        assert progress(app).review()["shown_pages"] == 3


async def test_sixels_are_drawn_over_the_cells_and_not_under_a_dialog(
    make_app: MakeApp, sent: list[str]
) -> None:
    app, _ = reviewing(make_app, artifact(png(200, 100), "image/png"), Protocol.SIXEL)
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot, "enter")
        await until(pilot, lambda: progress(app).in_full)
        await until(pilot, lambda: bool(sent))
        place = output(app).scrollable_content_region
        drawn = {}
        for part in "".join(sent).split("\x1b7")[1:]:
            assert part.endswith("\x1b8")
            position, sixels = part.removesuffix("\x1b8").split("H", 1)
            drawn[position] = sixels
        # One line of facts, an empty one, and the line that names the image stand above it.
        assert list(drawn) == [f"\x1b[{place.y + row + 4};{place.x + 1}" for row in range(5)]
        for sixels in drawn.values():
            pixels = unsixel(sixels)
            assert (len(pixels[0]), len(pixels)) == (200, 20)
            assert set(pixels[0]) == {(78, 12, 12)}
        assert "sixel graphics" in progress(app).review()["renderer"]
        await pilot.press("f1")
        await settle(pilot)
        sent.clear()
        output(app).refresh()
        await pilot.pause(0.1)
        assert sent == []
        await pilot.press("escape")
        await until(pilot, lambda: bool(sent))


async def test_a_picture_is_not_drawn_again_while_nothing_changes(make_app: MakeApp, sent: list[str]) -> None:
    app, _ = reviewing(make_app, artifact(png(200, 100), "image/png"), Protocol.SIXEL)
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot, "enter")
        await until(pilot, lambda: progress(app).in_full)
        await settle(pilot)
        sent.clear()
        for _ in range(3):
            app.base_screen.post_message(Tick(app.context.clock()))
            await settle(pilot)
        assert sent == []


async def test_a_notice_over_a_picture_hides_it_and_what_it_hides_does_not_count(
    make_app: MakeApp, sent: list[str]
) -> None:
    app, _ = reviewing(make_app, artifact(png(200, 520), "image/png"))
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        app.notice("\n".join(f"line {n}" for n in range(12)), title="Something waits for you")
        await shown(pilot, "enter")
        await until(pilot, lambda: progress(app).pictures is not None and bool(progress(app).pictures.ranges))
        await pilot.pause(0.2)
        assert not progress(app).in_full
        app.clear_notifications()
        await read_every_page(pilot, app)


async def test_a_page_that_cannot_be_drawn_says_so_and_does_not_count(
    make_app: MakeApp, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.preview import PreviewFailed, render
    from workbench.tui.widgets import review_pictures

    async def failing(*given: Any, first: int = 0, **more: Any) -> Any:
        if more.get("scale") is not None and first == 1:
            raise PreviewFailed("its decoder ended by signal 11")
        return await render(*given, first=first, **more)

    monkeypatch.setattr(review_pictures, "render", failing)
    app, _ = reviewing(make_app, artifact(pdf(pages=3, box="0 0 72 36"), "application/pdf"))
    async with app.run_test(size=(110, 50)) as pilot:
        await shown(pilot, "enter")
        await until(pilot, lambda: "ended by signal 11" in screen_text(app))
        await until(pilot, lambda: progress(app).pictures is not None and progress(app).pictures.shown(3))
        await pilot.pause(0.1)
        assert not progress(app).in_full


@pytest.mark.parametrize("why", ["no graphics", "no true colour", "too large"])
async def test_where_it_cannot_be_drawn_a_sketch_says_why_and_never_counts(
    make_app: MakeApp, sent: list[str], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "no true colour":
        monkeypatch.delenv("COLORTERM")
    size = (5_000, 4_000) if why == "too large" else (300, 200)
    exact = artifact(png(*size), "image/png")
    app, _ = reviewing(make_app, exact, None if why == "no graphics" else Protocol.KITTY)
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot, "enter")
        await until(pilot, lambda: "▀▀▀" in screen_text(app))
        said = {
            "no graphics": "because this terminal draws no pictures",
            "no true colour": "because 24-bit colours are turned off",
            "too large": "because it is too large to be drawn at legible size by kitty graphics",
        }[why]
        assert said in flat(screen_text(app))
        await pilot.pause(0.1)
        assert progress(app).pictures is None and not may(app, "approve") and sent == []


async def test_pages_out_of_sight_leave_the_terminals_memory(
    make_app: MakeApp, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.tui.widgets.page_rows.MOST_KEPT", 1_000_000)
    app, _ = reviewing(make_app, artifact(pdf(pages=5, box="0 0 300 300"), "application/pdf"))
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot, "enter")
        await read_every_page(pilot, app)
        terminal = Kitty()
        assert terminal.feed("".join(sent)) == ""
        assert 0 < len(terminal.pictures) <= 4
        sent_before = len(sent)
        await shown(pilot, "2")
        terminal.feed("".join(sent[sent_before:]))
        assert terminal.pictures == {}
        await shown(pilot, "1")
        await until(pilot, lambda: output(app).pages is not None)
        assert progress(app).in_full
