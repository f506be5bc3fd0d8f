"""Images and PDF pages are drawn by a limited process; whatever they are, the workbench goes on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.workbench.preview.files import animation, claiming_png, form_with_attachment, pdf, picture, png
from workbench.preview import PreviewFailed, can_preview, process, render

KINDS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}


def children() -> set[str]:
    """The processes whose parent this one is."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "stat").read_text().rsplit(")", 1)[1].split()[1] == str(
                os.getpid()
            ):
                found.add(entry.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(("media_type", "kind"), KINDS.items())
async def test_an_image_is_drawn_to_fit(media_type: str, kind: str) -> None:
    preview = await render(picture(kind), media_type, width=20, height=20)
    (drawn,) = preview.pictures
    assert (drawn.width, drawn.height, len(drawn.pixels)) == (20, 10, 600)
    red, green, blue = drawn.pixels[300:303]
    assert red > 150 and green < 80 and blue < 80
    assert preview.facts[0].startswith(f"{kind}, 40 by 20 pixels")


async def test_what_is_transparent_lies_on_a_pattern() -> None:
    preview = await render(png(mode="RGBA", colour=(0, 0, 0, 0)), "image/png", width=40, height=40)
    assert len(set(preview.pictures[0].pixels)) == 2


async def test_pages_of_a_document_with_what_it_carries() -> None:
    preview = await render(
        pdf(pages=3, script=True, note=True), "application/pdf", width=100, height=100, pages=2
    )
    assert preview.count == 3
    assert [(page.width, page.height) for page in preview.pictures] == [(100, 50), (100, 50)]
    first = preview.pictures[0].pixels
    assert tuple(first[:3]) == (255, 0, 0) and tuple(first[297:300]) == (255, 255, 255)
    assert preview.facts == (
        "PDF, 3 pages",
        "attachments: 0, scripts: 1, annotations: 3, no form",
        "script a: app.alert(1)",
        "annotation Text on page 1: says psst",
        "annotation Text on page 2: says psst",
        "annotation Text on page 3: says psst",
    )
    assert preview.listed
    assert preview.sizes == ((200, 100), (200, 100), (200, 100))


async def test_one_page_at_a_resolution() -> None:
    preview = await render(
        pdf(pages=3), "application/pdf", width=10, height=10, scale=100 / 72, first=2, pages=1
    )
    (page,) = preview.pictures
    assert (page.width, page.height) == (278, 139)
    assert preview.size(2) == (200, 100)


async def test_an_image_at_full_size_and_its_frames() -> None:
    preview = await render(animation(3), "image/gif", width=5, height=5, scale=1.0, first=1, pages=1)
    (frame,) = preview.pictures
    assert (frame.width, frame.height) == (40, 20)
    assert tuple(frame.pixels[:3]) == (0, 200, 0)
    assert preview.count == 3
    assert "3 frames, each drawn as a page" in preview.facts


async def test_what_stands_behind_an_image_is_told() -> None:
    for kind, media_type in (("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp")):
        preview = await render(picture(kind) + b"hidden text", media_type, width=20, height=20)
        assert "11 bytes stand behind the image" in preview.facts, kind
        preview = await render(picture(kind), media_type, width=20, height=20)
        assert not any("behind" in fact for fact in preview.facts), kind


async def test_what_is_too_much_to_list_is_counted_and_said_not_to_be_listed() -> None:
    preview = await render(pdf(pages=70, note=True), "application/pdf", width=10, height=10, pages=1)
    assert not preview.listed
    assert preview.facts[-1] == "10 more are not listed"


async def test_attachments_and_fields_of_a_form_are_named() -> None:
    preview = await render(form_with_attachment(), "application/pdf", width=50, height=50)
    assert "attachment evil\u202e.txt, 5 bytes" in preview.facts
    assert "form field on page 1: field total, value 100" in preview.facts
    assert "a form" in preview.facts[1]


HOSTILE = [
    ("image/png", b"", "no PNG image"),
    ("image/png", b"GIF89a" + b"x" * 40, "no PNG image"),
    ("image/jpeg", png(), "no JPEG image"),
    ("image/png", png()[:60], "cannot be decoded"),
    ("image/png", claiming_png(60_000, 60_000), "too large to draw"),
    ("image/png", claiming_png(5_000, 5_000), "cannot be decoded"),
    ("application/pdf", b"%PDF-1.7\n" + b"[" * 100_000, "no PDF document"),
    ("application/pdf", pdf()[:-200], None),
    ("application/pdf", pdf(box="0 0 1000000000 1"), None),
    ("text/html", b"<script>", "is not drawn"),
]


@pytest.mark.parametrize(("media_type", "body", "words"), HOSTILE, ids=range(len(HOSTILE)))
async def test_what_cannot_be_drawn_is_refused_in_words(
    media_type: str, body: bytes, words: str | None
) -> None:
    try:
        preview = await render(body, media_type, width=100, height=100)
    except PreviewFailed as error:
        assert words is None or words in str(error)
    else:
        assert words is None and preview.count >= 0


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os; os.abort()", "ended by signal 6"),
        ("import sys; sys.exit(3)", "crashed"),
        ("import sys; sys.stdin.buffer.read(); print('not json')", "makes no sense"),
        ("import sys; sys.stdin.buffer.read(); print('[1]')", "makes no sense"),
        (
            'import sys; sys.stdin.buffer.read(); print(\'{"facts": [], "count": 1, "pictures": [[9, 9]]}\')',
            "makes no sense",
        ),
        *(
            (
                "import sys; sys.stdin.buffer.read(); "
                f'print(\'{{"facts": [], "listed": true, "count": 1, "sizes": {sizes}, "pictures": []}}\')',
                "makes no sense",
            )
            for sizes in ("[]", "[[0, 1]]", "[[1e9, 1]]", "[[1]]", "[[NaN, 1]]")
        ),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "larger than one may be"),
        ("import time; time.sleep(60)", "took longer than 1 s"),
        ("pass", "crashed"),
    ],
)
async def test_a_decoder_that_misbehaves_ends_and_is_reaped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, words: str
) -> None:
    script = tmp_path / "decoder.py"
    script.write_text(program)
    monkeypatch.setattr(process, "_CHILD", str(script))
    before = children()
    seconds = 1 if "longer" in words else 60
    with pytest.raises(PreviewFailed, match=words):
        await render(png(), "image/png", width=10, height=10, seconds=seconds)
    assert children() - before == set()


async def test_the_decoder_has_limits_and_nothing_of_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the process finds around it, reported as its facts."""
    script = tmp_path / "decoder.py"
    child = Path(process._CHILD).read_text("utf-8")
    script.write_text(
        child.replace(
            "def answer(request: dict[str, Any], body: bytes) -> dict[str, Any]:",
            "def answer(request, body):\n"
            "    import os\n"
            "    limits = [resource.getrlimit(getattr(resource, n))[1] for n in ('RLIMIT_AS', 'RLIMIT_CPU', 'RLIMIT_FSIZE')]\n"
            "    facts = [str(limits), ','.join(sorted(os.environ)), str(sorted(m for m in sys.modules if m.startswith('workbench')))]\n"
            "    return {'facts': facts, 'listed': True, 'count': 1, 'sizes': [[1, 1]], 'pictures': []}\n\n\n"
            "def unused(request: dict[str, Any], body: bytes) -> dict[str, Any]:",
        )
    )
    monkeypatch.setenv("SECRET", "hush")
    monkeypatch.setattr(process, "_CHILD", str(script))
    preview = await render(png(), "image/png", width=10, height=10)
    limits, names, ours = preview.facts
    assert limits == str([process.MEMORY_BYTES, process.CPU_SECONDS, 0])
    assert set(names.split(",")) <= {"PATH", "LANG", "LC_CTYPE"}
    assert ours == "[]"


def test_only_known_types_are_drawn() -> None:
    assert can_preview("image/png") and can_preview("application/pdf")
    assert not can_preview("image/svg+xml") and not can_preview("text/html")


async def test_a_drawing_that_is_cancelled_again_and_again_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "decoder.py"
    reading = tmp_path / "reading"
    script.write_text(
        f"import sys, time; sys.stdin.buffer.read(); open({str(reading)!r}, 'w'); time.sleep(60)"
    )
    monkeypatch.setattr(process, "_CHILD", str(script))
    before = children()
    task = asyncio.create_task(render(png(), "image/png", width=10, height=10))
    while not reading.exists():
        await asyncio.sleep(0.01)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()
    assert children() - before == set()
