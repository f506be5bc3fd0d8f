"""When an image or a document counts as shown in full."""

from __future__ import annotations

import pytest

from workbench.review import Progress, receipt_lines
from workbench.review_coverage import Coverage
from workbench.review_pictures import LEGIBLE_DPI, POINTS, PictureCoverage, legible_scale
from workflows_core.model import Decision


def read(coverage: PictureCoverage, section: int, grid: tuple[int, int]) -> None:
    for row in range(grid[1]):
        coverage.add(section, row, 0, grid[0])


@pytest.mark.parametrize(("room", "dpi"), [(100, 100), (850, 100), (1_000, 117), (5_000, 160)])
def test_a_page_is_drawn_at_a_hundred_dpi_or_more(room: int, dpi: int) -> None:
    assert legible_scale("application/pdf", 612, room) * POINTS == pytest.approx(dpi)
    assert dpi >= LEGIBLE_DPI


def test_an_image_is_drawn_at_its_own_size_whatever_room_there_is() -> None:
    assert legible_scale("image/png", 4_000, 600) == legible_scale("image/png", 10, 600) == 1.0


def test_every_page_and_what_the_document_carries_must_have_stood() -> None:
    coverage = PictureCoverage(2, listed=True)
    for section, grid in ((0, (1, 3)), (1, (40, 30)), (2, (40, 30))):
        coverage.lay_out(section, grid)
    read(coverage, 1, (40, 30))
    read(coverage, 2, (40, 30))
    assert not coverage.complete and coverage.percent == 66 and coverage.shown_pages == 2
    read(coverage, 0, (1, 3))
    assert coverage.complete and coverage.percent == 100


def test_what_is_not_listed_was_not_shown() -> None:
    coverage = PictureCoverage(1, listed=False)
    for section in (0, 1):
        coverage.lay_out(section, (1, 1))
        read(coverage, section, (1, 1))
    assert not coverage.complete and coverage.percent < 100


def test_a_document_without_pages_is_never_shown_in_full() -> None:
    coverage = PictureCoverage(0, listed=True)
    coverage.lay_out(0, (1, 1))
    read(coverage, 0, (1, 1))
    assert not coverage.complete


def test_what_was_scrolled_past_at_the_side_is_unseen() -> None:
    coverage = PictureCoverage(1, listed=True)
    coverage.lay_out(1, (100, 10))
    for row in range(10):
        coverage.add(1, row, 0, 60)
    assert not coverage.shown(1)
    assert coverage.next_unseen(1, 0) == (1, 0, 60)
    for row in range(10):
        coverage.add(1, row, 40, 100)
    assert coverage.shown(1)
    assert coverage.next_unseen(1, 0) == (0, 0, 0)


def test_a_page_in_part_starts_anew_when_its_letters_change_and_a_whole_one_stays() -> None:
    coverage = PictureCoverage(2, listed=True)
    for page in (1, 2):
        coverage.lay_out(page, (10, 4))
    read(coverage, 1, (10, 4))
    coverage.add(2, 0, 0, 10)
    for page in (1, 2):
        coverage.lay_out(page, (12, 5))
    assert coverage.shown(1)
    assert coverage.next_unseen(2, 0) == (2, 0, 0)


@pytest.mark.parametrize("part", [(1, 9, 0, 5), (1, -1, 0, 5), (1, 0, 5, 5), (3, 0, 0, 5), (1, 0, -4, 0)])
def test_what_is_not_there_cannot_stand(part: tuple[int, int, int, int]) -> None:
    coverage = PictureCoverage(2, listed=True)
    coverage.lay_out(1, (5, 2))
    assert not coverage.add(*part)
    assert coverage.ranges == []


def test_the_bar_shows_each_page_in_its_place() -> None:
    coverage = PictureCoverage(1, listed=True)
    for section in (0, 1):
        coverage.lay_out(section, (10, 2))
    coverage.add(1, 1, 0, 10)
    assert (coverage.size, coverage.ranges) == (2_000, [(1_500, 2_000)])


def test_a_picture_that_was_drawn_in_full_may_be_decided_and_the_receipt_says_how() -> None:
    progress = Progress("0" * 64, Coverage(5_000), pictures=PictureCoverage(1, listed=True), pictorial=True)
    pictures = progress.pictures
    assert pictures is not None and not progress.may_decide
    progress.renderers.add("kitty graphics, 100 dpi")
    for section in (0, 1):
        pictures.lay_out(section, (2, 2))
        read(pictures, section, (2, 2))
    assert progress.may_decide and progress.in_full and progress.percent == 100
    review = progress.review()
    assert review == {
        "coverage": 1.0,
        "shown_bytes": 0,
        "bytes": 5_000,
        "shown_pages": 1,
        "pages": 1,
        "renderer": "kitty graphics, 100 dpi",
        "viewed_outside": None,
    }
    decision = Decision(
        run_id="wr_1",
        step_id="a",
        attempt=1,
        decision="approve",
        sha256="0" * 64,
        reason=None,
        actor={},
        review=review,
        decided_at=0,
    )
    assert dict(receipt_lines(decision, 0))["shown"] == "all of 4.9 KiB, 1 of 1 page drawn legibly"
