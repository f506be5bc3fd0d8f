"""Text that tries to act on the terminal, to hide, or to be read as markup: three hundred pieces and more.

Each is short enough to be drawn whole in a column of 24 cells, but for those that carry an address. No piece is
something that the program writes itself, so that one which gets through is told apart from what is ours.
"""

from __future__ import annotations

from typing import Final

_CSI: Final = (
    *(f"7{final}" for final in "@ABCDEFGHIJKLMPSTXZ`abdefg"),
    *(
        "2J",
        "3J",
        "H",
        "5;77777H",
        "31m",
        "4:3m",
        "58;5;1m",
        "6n",
        "?6n",
        "0c",
        ">c",
        "=c",
        ">0q",
        "21t",
        "19t",
    ),
    *("14t", "8;1;1t", "1;1r", "4i", "5i", "?5i", "!p", "?1$p", "1$q", '1"q', '62"p', "2$x", "1;1;9;9$r"),
    *(
        "?1049;7h",
        "?25;7l",
        "?2004;7h",
        "?1000;7h",
        "?1003;7h",
        "?1006;7h",
        "?2026;7h",
        "?5h",
        "?3h",
        "?47h",
        "4h",
        "20h",
    ),
    *("?7;7l", ">4;2m", ">1;7u", "?9u", "=9;1u", "1;31", "?", "0;0;0;0;0;0;0;0m", "1 q", "1;2s", "99999999A"),
)
_OSC: Final = (
    *(
        "0;title",
        "1;icon",
        "2;title",
        "L title",
        "4;1;?",
        "4;1;#f00",
        "5;0;?",
        "7;file://h/",
        "9;note",
        "9;4;1;50",
    ),
    *(
        "10;?",
        "11;#ffffff",
        "12;red",
        "17;#000",
        "19;?",
        "50;font",
        "51;eval",
        "52;q;ZXZpbA==",
        "52;p;?",
        "52;;!",
    ),
    *("104", "104;1", "110", "111", "112", "133;A", "133;D;0", "633;A", "777;notify;a;b", "1337;SetMark"),
    *(
        "1337;File=inline=1:AAAA",
        "1337;CopyToClipboard=",
        "8;;http://evil.example\x07link\x1b]8;;",
        "99;i=1;hi",
    ),
    *("3008;start=1", "176;app", "555;x", "697;x"),
)
_STRINGS: Final = (
    *("Pq#0~-", "P+q544e", "P$qm", "P1$r0m", "P=1s", "Ptmux;\x1b\x1b[31m", "P0;1|17/00", "P>|x", "P"),
    *("_Ga=d", "_Ga=q,i=1;AAAA", "_Ga=T,f=100;AAAA", "_x", "_", "^x", "^", "Xx", "X", "k name"),
)
_ESCAPES: Final = (
    *(
        "c",
        "D",
        "E",
        "M",
        "N",
        "O",
        "Z",
        "H",
        "=",
        ">",
        "6",
        "9",
        "n",
        "o",
        "|",
        "}",
        "~",
        "l",
        "m",
        "V",
        "W",
    ),
    *("(0", ")0", "(B", "*0", "#8", "#3", "#6", "%G", "%@", " F", " G", "\\", "[", "]", "P", "\x1b[31m"),
)
_C1: Final = (
    *(chr(code) for code in range(0x80, 0xA0)),
    *(
        "\x9b31m",
        "\x9b2J",
        "\x9b?1049h",
        "\x9b6n",
        "\x9d0;t\x9c",
        "\x9d52;c;QQ==\x9c",
        "\x9d8;;x\x9cx",
        "\x90q\x9c",
    ),
    *("\x98x\x9c", "\x9ex\x9c", "\x9fG\x9c", "\x9fGa=d\x1b\\", "\x9b\x9b", "a\x85b", "a\x8db", "\xc2\x9b1m"),
)
_C0: Final = (
    *(chr(code) for code in range(0x20)),
    *("\x7f", "\x08\x08\x08", "a\rb", "a\n\rb", "ab\x08\x7f", "\x0e0\x0f", "\x18\x1a"),
)
_BIDI: Final = (
    *("\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067"),
    *("\u2068", "\u2069", "\u202etxt.exe", "a\u202eb\u202cc", "\u2067x\u2069", "\u202d\u202e\u202c"),
)
_UNSEEN: Final = (
    *(
        "\u00ad",
        "\u034f",
        "\u115f",
        "\u180e",
        "\u200b",
        "\u200c",
        "\u200d",
        "\u2028",
        "\u2029",
        "\u2060",
        "\u2061",
    ),
    *(
        "\u2064",
        "\u206a",
        "\u206f",
        "\u3164",
        "\ufe00",
        "\ufe0f",
        "\ufeff",
        "\uffa0",
        "\ufff9a\ufffbb",
        "\ufdd0",
    ),
    *(
        "\ud800",
        "\udfff",
        "\uffff",
        "\U0001d173",
        "\U000e0001",
        "\U000e0041\U000e007f",
        "\U000e0100",
        "\U0010ffff",
    ),
    *("a\u200bb", "x\ufe0fy", "\U000e0020\U000e0068\U000e0069"),
)
_MARKUP: Final = (
    *(
        "[bold red]loud[/]",
        "[link=http://evil.example]x[/link]",
        "[/]",
        "[",
        "\\[b]",
        "[$error]x",
        "[reverse]x",
    ),
    *(
        "[@click=app.quit]q[/]",
        "[@click='app.bell']b[/]",
        "[u]x[/u]",
        "[#ff0000]x",
        "[not a tag",
        "]]]",
        "[]",
    ),
    *(
        "[/bold]",
        "[b][/b][/b]",
        "[on #fff]x[/]",
        "{0}",
        "{x.__class__}",
        "%s%n",
        "%(x)s",
        ":smile:",
        "[on red]x",
    ),
    *("[[b]]", "[@click=app.exit]go[/]"),
)

PAYLOADS: Final[tuple[str, ...]] = tuple(
    dict.fromkeys(
        (
            *(f"\x1b[{body}" for body in _CSI),
            *(f"\x1b]{body}\x07" for body in _OSC),
            *(f"\x1b]{body}\x1b\\" for body in _OSC[::4]),
            *(f"\x1b{body}\x1b\\" for body in _STRINGS),
            *(f"\x1b{body}" for body in _ESCAPES),
            *_C1,
            *_C0,
            *_BIDI,
            *_UNSEEN,
            *_MARKUP,
        )
    )
)
#: A few of each kind, for what is slow for each.
SAMPLE: Final = PAYLOADS[::7]
