"""Text that tries to act on the terminal, to hide, or to be read as markup."""

from __future__ import annotations

from typing import Final

_CSI = (
    "2J",
    "H",
    "31m",
    "?1049h",
    "?25l",
    "6n",
    "c",
    ">0q",
    "21t",
    "5;5H",
    "!p",
    "?2004h",
    "4i",
    "3J",
    "1;1r",
)
_OSC = (
    "0;title", "2;title", "8;;http://evil.example\x07link\x1b]8;;", "52;c;ZXZpbA==", "52;c;?", "4;1;?", "10;?",
    "11;#ffffff", "9;note", "777;notify;a;b", "1337;File=inline=1:AAAA", "133;A", "7;file://host/", "104",
)  # fmt: skip
_C1 = (
    "\x84",
    "\x85",
    "\x88",
    "\x8d",
    "\x90q\x9c",
    "\x98x\x9c",
    "\x9b31m",
    "\x9d0;t\x9c",
    "\x9ex\x9c",
    "\x9fG\x9c",
)
_C0 = (
    "\x00",
    "\x05",
    "\x07",
    "\x08\x08\x08",
    "\t",
    "\n",
    "\x0b",
    "\x0c",
    "\r",
    "\x0e",
    "\x0f",
    "\x1a",
    "\x7f",
)
_BIDI = ("\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2069")
_UNSEEN = (
    "\u00ad", "\u200b", "\u200c", "\u200d", "\u2028", "\u2029", "\u2060", "\u3164", "\ufe0f", "\ufeff",
    "\U000e0041\U000e007f", "\ufff9a\ufffbb", "\ud800", "\uffff",
)  # fmt: skip
_MARKUP = (
    "[bold red]loud[/]", "[@click=app.exit]go[/]", "[link=http://evil.example]x[/link]", "[/]", "[", "\\[b]",
    "[$error]x", ":smile:", "{0}", "%s%n", "[on red]x", "[[b]]",
)  # fmt: skip

#: Each is short enough to be drawn whole in a column of 24 cells.
PAYLOADS: Final[tuple[str, ...]] = (
    *(f"\x1b[{body}" for body in _CSI),
    *(f"\x1b]{body}\x07" for body in _OSC),
    *(f"\x1b{kind}x\x1b\\" for kind in "P_^X"),
    "\x1bc",
    "\x1b(0",
    "\x1b#8",
    *_C1,
    *_C0,
    *_BIDI,
    *_UNSEEN,
    *_MARKUP,
)
