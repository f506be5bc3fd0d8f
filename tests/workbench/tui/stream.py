"""Judges what reached a terminal: every sequence in it must be one that the program writes.

The judge knows nothing of the program's own filter. It takes the stream apart as a terminal would, and whatever
it does not know, or Unicode calls a control, a format character, a surrogate or a separator of lines, is foreign.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_NUMBER: Final = r"\d{1,3}"
_COLOUR: Final = rf"[34]8;(?:2;{_NUMBER};{_NUMBER};{_NUMBER}|5;{_NUMBER})"
#: What the screens write. Positions and colours, modes at the start and the end, the title, copies and pictures.
_SCREENS: Final = re.compile(
    "|".join(
        (
            r"\x1b\[\d{1,4};\d{1,4}H",
            rf"\x1b\[(?:0|[1-579]|{_COLOUR})(?:;(?:[1-579]|{_COLOUR}))*m",
            r"\x1b\[\?(?:1000|1003|1015|1006|1016|1004|1049|2004|2026|2048|1002|25|7)[hl]",
            r"\x1b\[\?(?:2026|2048)\$p",
            r"\x1b\[>(?:1|25)u|\x1b\[<u",
            r"\x1b\[2[23];2t",
            r"\x1b\]2;(?:\d+ waiting - )?workbench\x07",
            r"\x1b\]52;c;[A-Za-z0-9+/=]*\x07",
            r"\x1b\]22;[a-z-]*\x07",
            r"\x1b_Gi=4211,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\|\x1b\[16t|\x1b\[c",
            r"\x1b_G(?:a=T,U=1,f=24,o=z,s=\d+,v=\d+,c=\d+,r=\d+,i=\d+,)?q=2,m=[01];[A-Za-z0-9+/=]*\x1b\\",
            r"\x1b_Ga=d,d=I,i=\d+,q=2\x1b\\",
            r'\x1bP0;0;0q"1;1;\d+;\d+[#-~$!-]*\x1b\\',
            r"\x1b[78]",
        )
    )
)
_SEQUENCE: Final = re.compile(
    r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_k][^\x1b]*(?:\x1b\\)?|\[[0-?]*[ -/]*[@-~]?|[ -/]*[0-~]?)"
)
#: Ignorable characters that Unicode counts as marks or letters.
_IGNORABLE: Final = re.compile(
    "[\ufe00-\ufe0f\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\U000e0100-\U000e01ef]"
)
_PLACEHOLDER: Final = "\U0010eeee"


def foreign(stream: bytes | str, *, screens: bool = True, bell: bool = False) -> list[str]:
    """Every sequence and character in ``stream`` that the program did not author; line breaks are its own.

    Without ``screens`` it is the output of a command that does not write to a terminal, which holds no sequence.
    With ``bell`` the terminal may be rung.
    """
    text = stream.decode("utf-8", "surrogateescape") if isinstance(stream, bytes) else stream
    text = text.replace("\r\n", "\n")
    found = [repr(each) for each in _SEQUENCE.findall(text) if not (screens and _SCREENS.fullmatch(each))]
    rest = _SEQUENCE.sub("", text)
    allowed = "\n" + (_PLACEHOLDER if screens else "") + ("\x07" if bell else "")
    found += [
        f"U+{ord(char):04X}"
        for char in rest
        if char not in allowed and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    ]
    return found + _IGNORABLE.findall(rest)
