"""The process that decodes. Reads one request from standard input, writes one answer, and ends.

Request: one line of JSON (``kind``, ``width``, ``height`` in pixels, ``pages``, ``memory``, ``cpu``), then the
bytes. Answer: one line of JSON (``facts``, ``count``, ``pictures`` with width and height), then the pixels of
each picture, three bytes each. Where the bytes cannot be drawn: ``{"error": sentence}``.
"""

from __future__ import annotations

import io
import json
import resource
import sys
from typing import Any

#: Images with more pixels than this are not decoded.
MOST_PIXELS = 40_000_000
FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
#: Light and dark of the pattern behind what is transparent.
_PATTERN = (204, 255)


class Undrawable(Exception):
    """The bytes cannot be drawn; the message says why."""


def limit(memory: int, cpu: int) -> None:
    """Take away what decoding does not need, before anything is decoded."""
    for name, value in (
        ("RLIMIT_AS", memory),
        ("RLIMIT_CPU", cpu),
        ("RLIMIT_FSIZE", 0),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_NOFILE", 32),
    ):
        try:
            resource.setrlimit(getattr(resource, name), (value, value))
        except (ValueError, OSError):
            continue


def image(body: bytes, media_type: str, width: int, height: int) -> dict[str, Any]:
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # The limit is ours, checked before a pixel is decoded.
    wanted = FORMATS[media_type]
    try:
        with Image.open(io.BytesIO(body), formats=[wanted]) as opened:
            size = opened.size
            if size[0] * size[1] > MOST_PIXELS:
                raise Undrawable(
                    f"the image has {size[0]:,} by {size[1]:,} pixels, which is too large to draw"
                )
            frames = int(getattr(opened, "n_frames", 1))
            facts = [f"{wanted}, {size[0]:,} by {size[1]:,} pixels, {opened.mode}"]
            if frames > 1:
                facts.append(f"{frames:,} frames; only the first is drawn")
            kept = sorted(str(key) for key in opened.info if key not in ("dpi", "gamma"))
            if kept:
                facts.append(f"carries {', '.join(kept[:12])}")
            opened.draft("RGB", (width, height))
            full = opened.convert("RGBA")
    except UnidentifiedImageError:
        raise Undrawable(f"the bytes are no {wanted} image, whatever the media type says") from None
    full.thumbnail((width, height))
    ground = Image.new("RGBA", full.size)
    ground.putdata(
        [
            (shade, shade, shade, 255)
            for y in range(full.height)
            for x in range(full.width)
            for shade in (_PATTERN[(x // 4 + y // 4) % 2],)
        ]
    )
    drawn = Image.alpha_composite(ground, full).convert("RGB")
    return {"facts": facts, "count": 1, "pictures": [(drawn.width, drawn.height, drawn.tobytes())]}


def pdf(body: bytes, width: int, height: int, pages: int) -> dict[str, Any]:
    import pypdfium2
    import pypdfium2.raw as raw

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        raise Undrawable(f"the bytes are no PDF document that can be opened ({error})") from None
    count = len(document)
    forms = {0: "no form", 1: "a form", 2: "an XFA form", 3: "an XFA form"}.get(
        document.get_formtype() or 0, "a form"
    )
    attachments = raw.FPDFDoc_GetAttachmentCount(document)
    scripts = raw.FPDFDoc_GetJavaScriptActionCount(document)
    pictures, annotations = [], 0
    for number in range(count):
        page = document[number]
        if number < 1_000:
            annotations += max(0, raw.FPDFPage_GetAnnotCount(page))
        if number < pages:
            across, down = page.get_size()
            scale = min(width / max(across, 1), height / max(down, 1), 8)
            if across * down * scale * scale > MOST_PIXELS:
                raise Undrawable("a page is too large to draw")
            drawn = page.render(scale=scale, may_draw_forms=False).to_pil().convert("RGB")
            pictures.append((drawn.width, drawn.height, drawn.tobytes()))
        page.close()
    facts = [
        f"PDF, {count:,} {'page' if count == 1 else 'pages'}",
        f"attachments: {max(0, attachments):,}, scripts: {max(0, scripts):,}, annotations: {annotations:,}, {forms}",
    ]
    return {"facts": facts, "count": count, "pictures": pictures}


def answer(request: dict[str, Any], body: bytes) -> dict[str, Any]:
    width, height = int(request["width"]), int(request["height"])
    if request["kind"] == "application/pdf":
        return pdf(body, width, height, int(request["pages"]))
    return image(body, request["kind"], width, height)


def main() -> None:
    line, _, body = sys.stdin.buffer.read().partition(b"\n")
    request = json.loads(line)
    limit(int(request["memory"]), int(request["cpu"]))
    try:
        made = answer(request, body)
        head = {
            "facts": made["facts"],
            "count": made["count"],
            "pictures": [[wide, high] for wide, high, _ in made["pictures"]],
        }
        pixels = b"".join(data for _, _, data in made["pictures"])
    except Undrawable as error:
        head, pixels = {"error": str(error)}, b""
    except MemoryError:
        head, pixels = {"error": "drawing it takes more memory than a preview may have"}, b""
    except Exception as error:  # noqa: BLE001 - whatever a decoder raises ends here, in words
        head, pixels = {"error": f"it cannot be decoded ({type(error).__name__})"}, b""
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + pixels)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
