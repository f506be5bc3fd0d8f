"""Text from outside, made unable to act on a terminal.

Scripts, Agents, files and bundles supply text that is shown to people. ``inert`` turns everything in it that
a terminal would obey, or that a person could not see, into a visible symbol: control characters (C0, DEL,
C1), bidirectional controls, zero-width and other invisible characters, tag characters, variation selectors,
line and paragraph separators, noncharacters and lone surrogates. What is printable stays as it is. The result
of ``inert`` can be written to a terminal; it is still not markup and must not be parsed as such.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

#: Inclusive ranges of code points that are shown as symbols. Beyond the categories Cc, Cf, Cs, Zl and Zp
#: these are the default-ignorable code points of Unicode, which also have no shape of their own.
RANGES: Final[tuple[tuple[int, int], ...]] = (
    (0x00, 0x1F),  # C0
    (0x7F, 0x9F),  # DEL and C1
    (0xAD, 0xAD),  # soft hyphen
    (0x34F, 0x34F),  # combining grapheme joiner
    (0x61C, 0x61C),  # Arabic letter mark
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian selectors and vowel separator
    (0x200B, 0x200F),  # zero-width space, joiners, direction marks
    (0x2028, 0x202E),  # line and paragraph separator, bidirectional embeddings and overrides
    (0x2060, 0x206F),  # word joiner, invisible operators, bidirectional isolates, deprecated controls
    (0x3164, 0x3164),  # Hangul filler
    (0xD800, 0xDFFF),  # lone surrogates
    (0xFDD0, 0xFDEF),  # noncharacters
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFEFF, 0xFEFF),  # zero-width no-break space
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFF0, 0xFFFB),  # reserved, interlinear annotation
    (0x1107F, 0x1107F),  # Brahmi number joiner
    (0x13430, 0x1343F),  # Egyptian hieroglyph joiners
    (0x1BCA0, 0x1BCA3),  # shorthand format controls
    (0x1D173, 0x1D17A),  # musical format controls
    (0xE0000, 0xE0FFF),  # tag characters, supplementary variation selectors
    *((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0, 0x110000, 0x10000)),  # noncharacters
)

_CLASS: Final = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in RANGES)
_ACTING: Final = re.compile(f"[{_CLASS}]")
_ACTING_BUT_NEWLINE: Final = re.compile(f"(?!\n)[{_CLASS}]")


def inert(text: str, *, newlines: bool = False) -> str:
    """``text`` with everything that acts on a terminal or cannot be seen replaced by ``symbol``.

    With ``newlines`` line feeds stay, for text that is laid out over several lines. Applying it twice changes
    nothing more.
    """
    if text.isascii() and text.isprintable():
        return text
    pattern = _ACTING_BUT_NEWLINE if newlines else _ACTING
    return pattern.sub(lambda match: symbol(match.group()), text)


def symbol(char: str) -> str:
    """The visible form of one character: ``␛`` for C0 and DEL, ``\\u{202E}`` for the rest that acts."""
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"\\u{{{code:04X}}}" if _ACTING.match(char) else char


def acts(text: str) -> bool:
    """Whether ``text`` holds anything that ``inert`` would change."""
    return not (text.isascii() and text.isprintable()) and _ACTING.search(text) is not None


def cells(text: str) -> int:
    """How many terminal cells the inert ``text`` takes: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def shorten(text: str, width: int, *, ellipsis: str = "…") -> str:
    """``text``, inert and on one line, in at most ``width`` cells; what is cut off becomes ``ellipsis``."""
    # A long text is not walked to its end: what lies past this bound cannot be visible any more. It is
    # generous because combining marks take no cell.
    bound = max(width, 0) * 16
    head = inert(text[:bound])
    if len(text) <= bound and cells(head) <= width:
        return head
    room = width - cells(ellipsis)
    if room < 0:
        return ""
    used = 0
    for index, char in enumerate(head):
        used += _width(char)
        if used > room:
            return head[:index] + ellipsis
    return head + ellipsis


def pad(text: str, width: int, *, right: bool = False) -> str:
    """``text``, filled with spaces to ``width`` cells; on its left with ``right``. Longer text stays."""
    space = " " * max(0, width - cells(text))
    return space + text if right else text + space


def _width(char: str) -> int:
    if char < "\u0300":
        return 1
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
