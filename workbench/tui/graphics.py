"""Whether this terminal can draw pictures, and the sequences that make it draw them.

Two protocols are known: kitty graphics with Unicode placeholders, where a picture is sent once and then stands in
ordinary cells of text, and sixel graphics, where each line of a picture is drawn over blank cells. Every sequence
is made here, of numbers and pixels; nothing that a file says is in any of them.
"""

from __future__ import annotations

import base64
import fcntl
import os
import re
import select
import struct
import sys
import termios
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.util import find_spec
from typing import Final

#: Seconds that a terminal is given to answer. One that tells its size in pixels answers within a few milliseconds
#: on this machine, and within its round trip elsewhere.
PATIENCE: Final = 1.0
#: Asks whether a kitty picture of one pixel would be accepted, how large a cell is, and what the terminal is; every
#: terminal answers the last question, and answers in this order.
QUERY: Final = "\x1b_Gi=4211,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[16t\x1b[c"
_ATTRIBUTES: Final = re.compile(rb"\x1b\[\?([0-9;]*)c")
_CELL: Final = re.compile(rb"\x1b\[6;(\d{1,4});(\d{1,4})t")
_ACCEPTED: Final = re.compile(rb"\x1b_Gi=4211;OK\x1b\\")
_SIXEL_ATTRIBUTE: Final = b"4"
#: Bytes of an answer; what is longer is no answer.
_MOST: Final = 4_096
_CHUNK: Final = 4_096


class Protocol(StrEnum):
    """How pictures are drawn, in the words of receipts."""

    KITTY = "kitty graphics"
    SIXEL = "sixel graphics"


@dataclass(frozen=True, slots=True)
class Graphics:
    """``protocol`` is None where no pictures can be drawn, and ``why`` is then a clause that says so.

    ``cell`` holds the width and height of a cell in pixels. With ``measured`` they are the terminal's own and are
    read anew, since a person may change the size of its letters.
    """

    protocol: Protocol | None = None
    cell: tuple[int, int] = (0, 0)
    why: str = "this terminal draws no pictures"
    measured: bool = False

    def now(self) -> Graphics:
        """With the size that a cell has now."""
        cell = _cell_by_size() if self.measured else None
        return replace(self, cell=cell) if cell is not None and self.protocol is not None else self


def detect(environment: Mapping[str, str] | None = None, *, patience: float = PATIENCE) -> Graphics:
    """Ask the terminal on standard input and output. To be called before the application reads keys.

    Nothing is asked where standard input and output are not one terminal, or where it does not tell its size in
    pixels, as every terminal with graphics does. What a person types meanwhile is lost.
    """
    environment = os.environ if environment is None else environment
    if environment.get("NO_COLOR") is not None:
        return Graphics(why="colours are turned off")
    if environment.get("TERM", "") in ("", "dumb", "linux"):
        return Graphics()
    cell = _cell_by_size()
    if cell is None:
        return Graphics()
    answer = _ask(patience)
    attributes = _ATTRIBUTES.search(answer)
    if found := _CELL.search(answer):
        cell = int(found.group(2)) or cell[0], int(found.group(1)) or cell[1]
    # Some terminals accept kitty pictures but draw no placeholders for them; those draw sixels.
    if attributes is not None and _SIXEL_ATTRIBUTE in attributes.group(1).split(b";")[1:]:
        if find_spec("textual_image") is None:
            return Graphics(why="textual-image, which makes sixel graphics, is not installed")
        return Graphics(Protocol.SIXEL, cell, measured=found is None)
    if _ACCEPTED.search(answer):
        if environment.get("COLORTERM", "").lower() not in ("truecolor", "24bit"):
            return Graphics(why="this terminal is not known to draw 24-bit colours (COLORTERM)")
        return Graphics(Protocol.KITTY, cell, measured=found is None)
    return Graphics()


def _descriptors() -> tuple[int, int] | None:
    """Standard input and output, where both are one terminal."""
    try:
        ends = sys.__stdin__.fileno(), sys.__stdout__.fileno()  # type: ignore[union-attr]
        same = os.ttyname(ends[0]) == os.ttyname(ends[1])
    except (AttributeError, OSError, ValueError):
        return None
    return ends if same else None


def _cell_by_size() -> tuple[int, int] | None:
    """Width and height of a cell, where the terminal tells its size in pixels."""
    ends = _descriptors()
    if ends is None:
        return None
    try:
        raw = fcntl.ioctl(ends[1], termios.TIOCGWINSZ, bytes(8))
    except OSError:
        return None
    rows, columns, width, height = struct.unpack("HHHH", raw)
    return (
        (width // columns, height // rows)
        if rows and columns and width >= columns and height >= rows
        else None
    )


def _ask(patience: float) -> bytes:
    """What the terminal answers to QUERY; nothing where it does not."""
    ends = _descriptors()
    if ends is None:
        return b""
    given, taken = ends
    try:
        saved = termios.tcgetattr(given)
    except termios.error:
        return b""
    quiet = termios.tcgetattr(given)
    quiet[3] &= ~(termios.ICANON | termios.ECHO)
    quiet[6][termios.VMIN], quiet[6][termios.VTIME] = 0, 0
    answer = bytearray()
    try:
        termios.tcsetattr(given, termios.TCSANOW, quiet)
        os.write(taken, QUERY.encode())
        end = time.monotonic() + patience
        while not _ATTRIBUTES.search(answer) and len(answer) < _MOST:
            left = end - time.monotonic()
            if left <= 0 or not select.select([given], [], [], left)[0]:
                break
            answer += os.read(given, 1_024)
    except (OSError, termios.error):
        return b""
    finally:
        termios.tcsetattr(given, termios.TCSANOW, saved)
    return bytes(answer)


# Kitty graphics


#: Marks that number the rows and columns of a placeholder, in the order of the protocol's table; its first ones.
_MARKS: Final = tuple(
    map(
        chr,
        (
            *(
                0x305,
                0x30D,
                0x30E,
                0x310,
                0x312,
                0x33D,
                0x33E,
                0x33F,
                0x346,
                0x34A,
                0x34B,
                0x34C,
                0x350,
                0x351,
            ),
            *(0x352, 0x357, 0x35B, *range(0x363, 0x370), *range(0x483, 0x488), *range(0x592, 0x596)),
            *(*range(0x597, 0x59A), *range(0x59C, 0x5A2)),
        ),
    )
)
#: A larger picture is sent in tiles of so many cells.
TILE: Final = (48, 32)
_PLACEHOLDER: Final = "\U0010eeee"


def placeholder(row: int, column: int) -> str:
    """The text of the cell in which a part of a kitty picture stands; its colour names the picture."""
    return f"{_PLACEHOLDER}{_MARKS[row]}{_MARKS[column]}"


def send(number: int, pixels: bytes, size: tuple[int, int], cells: tuple[int, int]) -> Iterator[str]:
    """The sequences that give a kitty terminal a picture of ``size`` pixels, to stand in ``cells``."""
    data = base64.b64encode(zlib.compress(pixels, 1)).decode("ascii")
    head = f"a=T,U=1,f=24,o=z,s={size[0]},v={size[1]},c={cells[0]},r={cells[1]},i={number},q=2,"
    for start in range(0, len(data), _CHUNK):
        more = int(start + _CHUNK < len(data))
        yield f"\x1b_G{head if start == 0 else 'q=2,'}m={more};{data[start : start + _CHUNK]}\x1b\\"


def forget(number: int) -> str:
    """The sequence that takes a picture out of a kitty terminal's memory."""
    return f"\x1b_Ga=d,d=I,i={number},q=2\x1b\\"


# Sixel graphics


def at(x: int, y: int, sixels: str) -> str:
    """Sixels drawn at a cell, counted from 0, with the cursor back where it was."""
    return f"\x1b7\x1b[{y + 1};{x + 1}H{sixels}\x1b8"
