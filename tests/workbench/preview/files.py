"""Images and PDF documents, good and hostile, made here."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image


def png(width: int = 40, height: int = 20, mode: str = "RGB", colour: object = (200, 30, 30)) -> bytes:
    out = io.BytesIO()
    Image.new(mode, (width, height), colour).save(out, "PNG")  # type: ignore[arg-type]
    return out.getvalue()


def picture(kind: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 20), (200, 30, 30)).save(out, kind)
    return out.getvalue()


def animation(frames: int) -> bytes:
    """A GIF whose frames are red, green and blue in turn."""
    colours = [(200, 0, 0), (0, 200, 0), (0, 0, 200)]
    images = [Image.new("RGB", (40, 20), colours[n % 3]) for n in range(frames)]
    out = io.BytesIO()
    images[0].save(out, "GIF", save_all=True, append_images=images[1:], duration=100)
    return out.getvalue()


def claiming_png(width: int, height: int) -> bytes:
    """A tiny file that says it is an enormous image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(3 * 1_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def pdf(
    *, pages: int = 2, script: bool = False, note: bool = False, notes: int = 0, box: str = "0 0 200 100"
) -> bytes:
    """A document whose pages have a red half; with a script and annotations where asked for."""
    content = b"1 0 0 rg 0 0 100 100 re f"
    kids = " ".join(f"{3 + 2 * n} 0 R" for n in range(pages))
    names = (
        "/Names << /JavaScript << /Names [(a) << /S /JavaScript /JS (app.alert\\(1\\)) >>] >> >>"
        if script
        else ""
    )
    objects = [f"<< /Type /Catalog /Pages 2 0 R {names} >>".encode()]
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>".encode())
    for n in range(pages):
        each = "<< /Type /Annot /Subtype /Text /Rect [1 1 9 9] /Contents (psst) >>"
        annotation = f"/Annots [{each * (notes or note)}]" if notes or note else ""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [{box}] /Contents {4 + 2 * n} 0 R {annotation} >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    return _document(objects)


def form_with_attachment() -> bytes:
    """A page with a text field that is filled in, in a document that carries a file."""
    name = "evil\u202e.txt".encode("utf-16-be").hex()
    return _document(
        [
            b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [4 0 R] >>"
            b" /Names << /EmbeddedFiles << /Names [<FEFF%s> 5 0 R] >> >> >>" % name.encode(),
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Annots [4 0 R] >>",
            b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (total) /V (100) /Rect [10 10 90 30] >>",
            b"<< /Type /Filespec /F (x) /UF <FEFF%s> /EF << /F 6 0 R >> >>" % name.encode(),
            b"<< /Type /EmbeddedFile /Params << /Size 5 >> /Length 5 >>\nstream\nhello\nendstream",
        ]
    )


def _document(objects: list[bytes]) -> bytes:
    """A file of numbered objects, of which the first is the catalogue."""
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, each in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)
