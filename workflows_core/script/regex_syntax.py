"""Regular expressions of JavaScript as trees: enough of the syntax to reason about backtracking.

Character sets are lists of ranges of code points. What consumes nothing (assertions) is an empty sequence; a
back reference is a set that overlaps with nothing but itself.
"""

from __future__ import annotations

import sys
from typing import Final, Literal

import msgspec

Ranges = tuple[tuple[int, int], ...]
_TOP: Final = sys.maxunicode
_ANY: Final[Ranges] = ((0, _TOP),)
_DIGITS: Final[Ranges] = ((48, 57),)
_WORD: Final[Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Final[Ranges] = (
    (9, 13),
    (32, 32),
    (160, 160),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0xFEFF, 0xFEFF),
)
_LINE_ENDS: Final[Ranges] = ((10, 10), (13, 13), (0x2028, 0x2029))
_LETTERS: Final[Ranges] = ((65, 90), (97, 122), (0xAA, 0x167F), (0x1681, 0x1FFF), (0x2C00, 0xFEFE))
_CONTROLS: Final = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}


class Unreadable(Exception):
    """The pattern is not a regular expression that this reader knows."""


class Chars(msgspec.Struct, eq=False):
    """One character out of ``ranges``; ``unique`` for a back reference."""

    ranges: Ranges
    unique: bool = False


class Sequence(msgspec.Struct, eq=False):
    parts: list[Part]


class Choice(msgspec.Struct, eq=False):
    options: list[Part]


class Repeat(msgspec.Struct, eq=False):
    """``body`` from ``least`` to ``most`` times (None: without bound), written at start:end of the pattern."""

    body: Part
    least: int
    most: int | None
    start: int
    end: int


class Look(msgspec.Struct, eq=False):
    """A lookahead or lookbehind: it consumes nothing, and its body is an expression of its own."""

    body: Part


Part = Chars | Sequence | Choice | Repeat | Look


def parse_pattern(pattern: str, flags: str) -> Part:
    """The tree of ``pattern``; raises Unreadable."""
    reader = _Reader(pattern, flags)
    part = reader.choice(0)
    if reader.at != len(pattern):
        raise Unreadable
    return part


class _Reader:
    def __init__(self, pattern: str, flags: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.fold = "i" in flags
        self.dot_all = "s" in flags
        self.sets = "v" in flags

    def peek(self, size: int = 1) -> str:
        return self.pattern[self.at : self.at + size]

    def take(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def choice(self, depth: int) -> Part:
        if depth > 60:
            raise Unreadable
        options = [self.sequence(depth)]
        while self.take("|"):
            options.append(self.sequence(depth))
        return options[0] if len(options) == 1 else Choice(options)

    def sequence(self, depth: int) -> Part:
        parts: list[Part] = []
        while self.at < len(self.pattern) and self.peek() not in "|)":
            start = self.at
            part = self.atom(depth)
            bounds = self.quantifier()
            if bounds is not None:
                part = Repeat(part, bounds[0], bounds[1], start, self.at)
            parts.append(part)
        return parts[0] if len(parts) == 1 else Sequence(parts)

    def quantifier(self) -> tuple[int, int | None] | None:
        bounds: tuple[int, int | None]
        if self.take("*"):
            bounds = (0, None)
        elif self.take("+"):
            bounds = (1, None)
        elif self.take("?"):
            bounds = (0, 1)
        elif self.peek() == "{":
            end = self.pattern.find("}", self.at)
            body = self.pattern[self.at + 1 : end] if end > 0 else ""
            least, comma, most = body.partition(",")
            if not least.isdigit() or (most and not most.isdigit()) or len(body) > 12:
                return None
            self.at = end + 1
            bounds = (int(least), int(most) if most else (None if comma else int(least)))
        else:
            return None
        self.take("?")
        return bounds

    def atom(self, depth: int) -> Part:
        char = self.peek()
        if char == "(":
            return self.group(depth)
        if char == "[":
            return self.folded(self.char_class())
        self.at += 1
        if char in "^$":
            return Sequence([])
        if char == ".":
            return Chars(_ANY if self.dot_all else complement(_LINE_ENDS))
        if char == "\\":
            return self.escape()
        if char in "*+?":
            raise Unreadable
        return self.folded(((ord(char), ord(char)),))

    def group(self, depth: int) -> Part:
        self.at += 1
        look = False
        if self.take("?"):
            if self.take("<") and self.peek() not in ("=", "!"):
                end = self.pattern.find(">", self.at)
                if end < 0:
                    raise Unreadable
                self.at = end + 1
            elif self.peek() in ("=", "!"):
                self.at += 1
                look = True
            else:
                end = self.pattern.find(":", self.at)
                if end < 0:
                    raise Unreadable
                self.at = end + 1
        body = self.choice(depth + 1)
        if not self.take(")"):
            raise Unreadable
        return Look(body) if look else body

    def escape(self) -> Part:
        char = self.peek()
        if char in ("b", "B"):
            self.at += 1
            return Sequence([])
        if char.isdigit() and char != "0":
            while self.peek().isdigit():
                self.at += 1
            return Chars((), unique=True)
        if char == "k" and self.peek(2) == "k<":
            self.at = self.pattern.find(">", self.at) + 1
            if self.at == 0:
                raise Unreadable
            return Chars((), unique=True)
        return self.folded(self.escaped_set())

    def escaped_set(self) -> Ranges:
        """The set that an escape means, the backslash already taken."""
        char = self.peek()
        if not char:
            raise Unreadable
        self.at += 1
        named = {"d": _DIGITS, "w": _WORD, "s": _SPACE}.get(char.lower())
        if named is not None and char in "dwsDWS":
            return named if char.islower() else complement(named)
        if char in "pP" and self.peek() == "{":
            end = self.pattern.find("}", self.at)
            if end < 0:
                raise Unreadable
            name = self.pattern[self.at + 1 : end]
            self.at = end + 1
            ranges = _property(name)
            return ranges if char == "p" else complement(ranges)
        if char in _CONTROLS:
            return ((_CONTROLS[char], _CONTROLS[char]),)
        code = None
        if char == "c" and self.peek().isalpha():
            code = ord(self.peek()) % 32
            self.at += 1
        elif char == "x":
            code = self.hexadecimal(2)
        elif char == "u":
            if self.take("{"):
                end = self.pattern.find("}", self.at)
                code = _hex(self.pattern[self.at : max(end, self.at)])
                self.at = end + 1 if code is not None else self.at
            else:
                code = self.hexadecimal(4)
        value = ord(char) if code is None else min(code, _TOP)
        return ((value, value),)

    def hexadecimal(self, size: int) -> int | None:
        code = _hex(self.peek(size)) if len(self.peek(size)) == size else None
        if code is not None:
            self.at += size
        return code

    def char_class(self) -> Ranges:
        self.at += 1
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        while self.peek() != "]":
            if not self.peek():
                raise Unreadable
            if self.sets and (self.peek() == "[" or self.peek(2) in ("&&", "--")):
                raise Unreadable
            low = self.class_item()
            if self.peek() == "-" and self.peek(2) not in ("-]", "-"):
                mark = self.at
                self.at += 1
                high = self.class_item()
                if _single(low) and _single(high) and low[0][0] <= high[0][0]:
                    ranges.append((low[0][0], high[0][0]))
                    continue
                self.at = mark + 1
                ranges.append((45, 45))
            ranges.extend(low)
        self.at += 1
        merged = normal(ranges)
        return complement(merged) if negated else merged

    def class_item(self) -> Ranges:
        char = self.peek()
        self.at += 1
        if char != "\\":
            return ((ord(char), ord(char)),)
        if self.take("b"):
            return ((8, 8),)
        return self.escaped_set()

    def folded(self, ranges: Ranges) -> Chars:
        if not self.fold:
            return Chars(ranges)
        extra = list(ranges)
        for low, high in ranges:
            for first, shift in ((97, -32), (65, 32)):
                start, end = max(low, first), min(high, first + 25)
                if start <= end:
                    extra.append((start + shift, end + shift))
        return Chars(normal(extra))


def _hex(text: str) -> int | None:
    digits = "0123456789abcdefABCDEF"
    return int(text, 16) if 0 < len(text) <= 6 and all(char in digits for char in text) else None


def _single(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def _property(name: str) -> Ranges:
    """A rough set for a Unicode property: letters, digits and white space are kept apart."""
    short: Literal["L", "N", "Z"] | str = name.rpartition("=")[2][:1].upper()
    if short in ("L", "A"):
        return _LETTERS
    if short == "N":
        return _DIGITS
    return _SPACE if short in ("Z", "W") else ((33, 47), (58, 64), (91, 96), (123, 126), (0x2010, 0x2027))


def normal(ranges: list[tuple[int, int]]) -> Ranges:
    """Sorted, disjoint ranges."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    rest: list[tuple[int, int]] = []
    at = 0
    for low, high in ranges:
        if low > at:
            rest.append((at, low - 1))
        at = high + 1
    if at <= _TOP:
        rest.append((at, _TOP))
    return tuple(rest)
