"""The process that decodes. Reads one request from standard input, writes one answer, and ends.

Request: one line of JSON (``kind``, ``width``, ``height`` in pixels, ``scale`` or null, ``first``, ``pages``,
``memory``, ``cpu``), then the bytes. With a scale it is pixels of the drawing for one pixel of an image, or for
one point of a page; without one the drawing is made to fit. Answer: one line of JSON (``facts``, ``listed``,
``count``, ``sizes`` of the pages at scale one, ``pictures`` with width and height), then the pixels of each
picture, three bytes each. Where the bytes cannot be drawn: ``{"error": sentence}``.
"""

from __future__ import annotations

import ctypes
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


#: Lines in which a document says what it carries, and characters of each.
MOST_FACTS = 60
FACT_LENGTH = 280


def image(
    body: bytes, media_type: str, width: int, height: int, scale: float | None, first: int, pages: int
) -> dict[str, Any]:
    """Each frame of an image is a page."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # The limit is ours, checked before a pixel is decoded.
    wanted = FORMATS[media_type]
    pictures = []
    try:
        with Image.open(io.BytesIO(body), formats=[wanted]) as opened:
            size = opened.size
            if size[0] * size[1] > MOST_PIXELS:
                raise Undrawable(
                    f"the image has {size[0]:,} by {size[1]:,} pixels, which is too large to draw"
                )
            count = int(getattr(opened, "n_frames", 1))
            facts = [f"{wanted}, {size[0]:,} by {size[1]:,} pixels, {opened.mode}"]
            turned = opened.getexif().get(0x0112, 1) in range(5, 9)
            if count > 1:
                facts.append(f"{count:,} frames, each drawn as a page")
            kept = sorted(str(key) for key in opened.info if key not in ("dpi", "gamma"))
            if kept:
                facts.append(f"carries {', '.join(kept[:12])}")
            if extra := behind(body, wanted):
                facts.append(f"{extra:,} bytes stand behind the image")
            for number in range(first, min(count, first + pages)):
                if count > 1:
                    opened.seek(number)
                elif scale is None:
                    opened.draft("RGB", (width, height))
                full = ImageOps.exif_transpose(opened).convert("RGBA")
                if scale is None:
                    full.thumbnail((width, height))
                elif scale != 1:
                    full = full.resize(
                        (max(1, round(full.width * scale)), max(1, round(full.height * scale)))
                    )
                drawn = Image.alpha_composite(_ground(*full.size), full).convert("RGB")
                pictures.append((drawn.width, drawn.height, drawn.tobytes()))
    except UnidentifiedImageError:
        raise Undrawable(f"the bytes are no {wanted} image, whatever the media type says") from None
    natural = [size[1], size[0]] if turned else [size[0], size[1]]
    return {"facts": facts, "listed": True, "count": count, "sizes": [natural], "pictures": pictures}


def _ground(width: int, height: int) -> Any:
    """The pattern behind what is transparent, of a size."""
    from PIL import Image

    tile = Image.new("L", (8, 8), _PATTERN[0])
    tile.paste(_PATTERN[1], (4, 0, 8, 4))
    tile.paste(_PATTERN[1], (0, 4, 4, 8))
    row = Image.new("L", (width, 8))
    for x in range(0, width, 8):
        row.paste(tile, (x, 0))
    ground = Image.new("L", (width, height))
    for y in range(0, height, 8):
        ground.paste(row, (0, y))
    return ground.convert("RGBA")


def behind(body: bytes, kind: str) -> int:
    """Bytes that stand behind the end of an image, where the format tells its end."""
    if kind == "PNG":
        end = body.find(b"IEND\xaeB`\x82")
        return len(body) - end - 8 if end >= 0 else 0
    if kind == "WEBP":
        size = 8 + int.from_bytes(body[4:8], "little")
        return max(0, len(body) - size - size % 2)
    end = body.rfind(b"\xff\xd9") + 2 if kind == "JPEG" else body.rfind(b"\x3b") + 1
    return len(body) - end if end >= 2 else 0


def pdf(body: bytes, width: int, height: int, scale: float | None, first: int, pages: int) -> dict[str, Any]:
    import pypdfium2
    import pypdfium2.raw as raw

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        raise Undrawable(f"the bytes are no PDF document that can be opened ({error})") from None
    count = len(document)
    if count > 2_000:
        raise Undrawable(f"the document has {count:,} pages, which are too many to draw")
    forms = {0: "no form", 1: "a form", 2: "an XFA form", 3: "an XFA form"}.get(
        document.get_formtype() or 0, "a form"
    )
    attachments = max(0, raw.FPDFDoc_GetAttachmentCount(document))
    scripts = max(0, raw.FPDFDoc_GetJavaScriptActionCount(document))
    named = [_attachment(raw, document, number) for number in range(min(attachments, MOST_FACTS))]
    named += [_script(raw, document, number) for number in range(min(scripts, MOST_FACTS))]
    carried = attachments + scripts
    pictures, sizes, annotations = [], [], 0
    for number in range(count):
        page = document[number]
        across, down = page.get_size()
        sizes.append([across, down])
        found = max(0, raw.FPDFPage_GetAnnotCount(page))
        annotations += found
        named += [
            _annotation(raw, page, number, index) for index in range(min(found, MOST_FACTS - len(named)))
        ]
        if first <= number < first + pages:
            fits = scale or min(width / max(across, 1), height / max(down, 1), 8)
            if across * down * fits * fits > MOST_PIXELS:
                raise Undrawable("a page is too large to draw")
            drawn = page.render(scale=fits, may_draw_forms=False).to_pil().convert("RGB")
            pictures.append((drawn.width, drawn.height, drawn.tobytes()))
        page.close()
    facts = [
        f"PDF, {count:,} {'page' if count == 1 else 'pages'}",
        f"attachments: {attachments:,}, scripts: {scripts:,}, annotations: {annotations:,}, {forms}",
        *named[:MOST_FACTS],
    ]
    listed = carried + annotations <= MOST_FACTS
    if not listed:
        facts.append(f"{carried + annotations - MOST_FACTS:,} more are not listed")
    return {"facts": facts, "listed": listed, "count": count, "sizes": sizes, "pictures": pictures}


def _text(read: Any) -> str:
    """What a function of the library that fills a buffer with UTF-16 says."""
    size = read(None, 0)
    if size <= 2:
        return ""
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    read(buffer, size)
    return bytes(buffer)[: size - 2].decode("utf-16-le", "replace")[:FACT_LENGTH]


def _attachment(raw: Any, document: Any, number: int) -> str:
    attached = raw.FPDFDoc_GetAttachment(document, number)
    name = _text(lambda buffer, size: raw.FPDFAttachment_GetName(attached, buffer, size))
    length = ctypes.c_ulong()
    raw.FPDFAttachment_GetFile(attached, None, 0, length)
    return f"attachment {name or 'without a name'}, {length.value:,} bytes"


def _script(raw: Any, document: Any, number: int) -> str:
    action = raw.FPDFDoc_GetJavaScriptAction(document, number)
    if not action:
        return "script that cannot be read"
    name = _text(lambda buffer, size: raw.FPDFJavaScriptAction_GetName(action, buffer, size))
    code = _text(lambda buffer, size: raw.FPDFJavaScriptAction_GetScript(action, buffer, size))
    raw.FPDFDoc_CloseJavaScriptAction(action)
    return f"script {name or 'without a name'}: {code}"


#: Kinds of annotation by their number in the library, as the format names them.
_KINDS = {
    1: "Text", 2: "Link", 3: "FreeText", 4: "Line", 5: "Square", 6: "Circle", 9: "Highlight", 10: "Underline",
    12: "StrikeOut", 13: "Stamp", 15: "Ink", 16: "Popup", 17: "FileAttachment", 20: "Widget", 28: "Redact",
}  # fmt: skip


def _annotation(raw: Any, page: Any, number: int, index: int) -> str:
    annotation = raw.FPDFPage_GetAnnot(page, index)
    if not annotation:
        return f"annotation on page {number + 1} that cannot be read"
    kind = _KINDS.get(raw.FPDFAnnot_GetSubtype(annotation), "other")
    said = [
        f"{word} {value}"
        for word, key in (("says", b"Contents"), ("field", b"T"), ("value", b"V"), ("by", b"T"))
        if (word == "field" or word == "value") == (kind == "Widget")
        for value in [
            _text(lambda buffer, size, key=key: raw.FPDFAnnot_GetStringValue(annotation, key, buffer, size))
        ]
        if value
    ]
    raw.FPDFPage_CloseAnnot(annotation)
    what = "form field" if kind == "Widget" else f"annotation {kind}"
    return f"{what} on page {number + 1}{': ' if said else ''}{', '.join(said)}"[:FACT_LENGTH]


def answer(request: dict[str, Any], body: bytes) -> dict[str, Any]:
    size = int(request["width"]), int(request["height"])
    scale = None if request["scale"] is None else float(request["scale"])
    which = int(request["first"]), int(request["pages"])
    if request["kind"] == "application/pdf":
        return pdf(body, *size, scale, *which)
    return image(body, request["kind"], *size, scale, *which)


def main() -> None:
    line, _, body = sys.stdin.buffer.read().partition(b"\n")
    request = json.loads(line)
    limit(int(request["memory"]), int(request["cpu"]))
    try:
        made = answer(request, body)
        head = {
            "facts": made["facts"],
            "listed": made["listed"],
            "count": made["count"],
            "sizes": made["sizes"],
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
