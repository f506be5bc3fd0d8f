"""Starts the process that decodes, bounds what it may take and give, and reaps it on every path."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from workflows_core.errors import WorkflowError

from . import child
from .child import FORMATS

#: Run by its path, so that nothing of the workbench is imported there.
_CHILD: Final = str(Path(child.__file__))

MEMORY_BYTES: Final = 768 * 1024 * 1024
CPU_SECONDS: Final = 10
SECONDS: Final = 15.0
#: The most that an answer may hold: a large page of pixels, or some that are made to fit.
ANSWER_BYTES: Final = 48 * 1024 * 1024
PAGES: Final = 8
_SENTENCE: Final = 300
_FACTS: Final = 64
_MOST_PAGES: Final = 100_000


class PreviewFailed(WorkflowError):
    """The bytes cannot be drawn here. The message says why; the bytes themselves are as reviewable as before."""

    code = "preview_failed"
    title = "There is no preview"


@dataclass(frozen=True, slots=True)
class Picture:
    """``pixels`` holds three bytes (red, green, blue) for each of ``width`` by ``height`` pixels, row by row."""

    width: int
    height: int
    pixels: bytes


@dataclass(frozen=True, slots=True)
class Preview:
    """``facts`` are sentences about the whole document, which is ``count`` images or pages.

    ``listed`` says that they name everything that the document carries. ``sizes`` holds the width and height of
    each page in points, or of the image in pixels.
    """

    facts: tuple[str, ...]
    count: int
    pictures: tuple[Picture, ...]
    listed: bool = True
    sizes: tuple[tuple[float, float], ...] = ()

    def size(self, page: int) -> tuple[float, float]:
        """Width and height of a page at scale one. All frames of an image have one size."""
        return self.sizes[min(page, len(self.sizes) - 1)]


def can_preview(media_type: str) -> bool:
    return media_type in FORMATS or media_type == "application/pdf"


async def render(
    body: bytes,
    media_type: str,
    *,
    width: int,
    height: int,
    scale: float | None = None,
    first: int = 0,
    pages: int = PAGES,
    seconds: float = SECONDS,
) -> Preview:
    """Draw ``pages`` pages (of a PDF) or frames (of an image) from ``first`` on, which counts from 0.

    With ``scale`` a pixel of the image, or a point of a page, becomes so many pixels. Without it each page is
    made to fit into ``width`` by ``height`` pixels. Raises PreviewFailed.
    """
    if not can_preview(media_type):
        raise PreviewFailed(f"{media_type} is not drawn")
    request = {
        "kind": media_type,
        "width": max(1, min(width, 2_000)),
        "height": max(1, min(height, 2_000)),
        "scale": scale,
        "first": first,
        "pages": pages,
        "memory": MEMORY_BYTES,
        "cpu": CPU_SECONDS,
    }
    with tempfile.TemporaryDirectory(prefix="workbench-preview-") as folder:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-W",
            "ignore",
            _CHILD,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(seconds):
                answer = await _talk(process, json.dumps(request).encode() + b"\n" + body)
                await process.wait()
        except TimeoutError:
            raise PreviewFailed(f"drawing it took longer than {seconds:.0f} s") from None
        finally:
            await _end(process)
    return _read(answer, process.returncode)


async def _talk(process: asyncio.subprocess.Process, request: bytes) -> bytes:
    assert process.stdin is not None and process.stdout is not None
    answer = bytearray()
    sending = asyncio.create_task(_send(process.stdin, request))
    try:
        while piece := await process.stdout.read(256 * 1024):
            answer += piece
            if len(answer) > ANSWER_BYTES:
                raise PreviewFailed("the preview is larger than one may be")
    finally:
        sending.cancel()
        await asyncio.wait({sending})
    return bytes(answer)


async def _send(stdin: asyncio.StreamWriter, request: bytes) -> None:
    try:
        stdin.write(request)
        await stdin.drain()
        stdin.close()
        await stdin.wait_closed()
    except ConnectionError:
        pass  # The process has ended; how it ended says why.


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    # A pipe that is full and not read any more would never tell its end, for which asyncio's wait waits.
    transport: Any = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()
    # It was killed or has ended, so this is a matter of milliseconds: being cancelled meanwhile has to wait.
    cancelled = False
    while process.returncode is None:
        try:
            await process.wait()
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


def _read(answer: bytes, code: int | None) -> Preview:
    """The answer, believed only as far as it is consistent."""
    head, _, pixels = answer.partition(b"\n")
    if code != 0 or not head:
        why = "its decoder crashed" if code is None or code >= 0 else f"its decoder ended by signal {-code}"
        raise PreviewFailed(f"it cannot be drawn: {why}")
    try:
        made = json.loads(head)
        if "error" in made:
            raise PreviewFailed(str(made["error"])[:_SENTENCE])
        pictures, start = [], 0
        for width, height in made["pictures"]:
            size = int(width) * int(height) * 3
            if size <= 0 or start + size > len(pixels):
                raise ValueError("fewer pixels than announced")
            pictures.append(Picture(int(width), int(height), pixels[start : start + size]))
            start += size
        facts = tuple(str(fact)[:_SENTENCE] for fact in made["facts"][:_FACTS])
        sizes = tuple((float(width), float(height)) for width, height in made["sizes"])
        count = int(made["count"])
        if not (0 <= count <= _MOST_PAGES and len(sizes) <= _MOST_PAGES and (sizes or not count)):
            raise ValueError("no size for a page")
        if not all(0 < side < 1_000_000 for size in sizes for side in size):
            raise ValueError("a page without a size")
        return Preview(facts, count, tuple(pictures), made["listed"] is True, sizes)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PreviewFailed("it cannot be drawn: its decoder gave an answer that makes no sense") from None
