"""A token scan of a script: comments, unmatched brackets, and line ends that tree-sitter misreads.

The scan follows the engine's lexical grammar (quickjs-ng: ``<!--`` anywhere and ``-->`` first on a line are
comments to the end of the line). It exists because tree-sitter decides two things differently: it ends
statements early beside comments and after ``await`` or ``let`` at a line's end, and it does not see a ``<!--``
behind an operand. ``blanked`` gives it a copy of the same length in UTF-8 without these.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection
from typing import Final

import msgspec

_LINE_END = "\n\r\u2028\u2029"
_LONE_RETURN = re.compile("\r(?!\n)")
_SEPARATOR = re.compile("[\u2028\u2029]")
_LINE_COMMENT = re.compile(rf"[^{_LINE_END}]*")
_TOKEN = re.compile(
    r"[ \t]*(?:(?P<newline>[\n\r\u2028\u2029])|(?P<space>(?:\s|\ufeff))|(?P<comment>//|/\*|<!--)"
    r"|(?P<word>(?:[\w$#]|\\u)(?:[\w$\u200c\u200d]|\\u(?:\{[0-9A-Fa-f]*\}|[0-9A-Fa-f]{0,4}))*)"
    r"|(?P<string>'(?:[^'\\\n\r]|\\(?:\r\n|[\s\S]))*'|\"(?:[^\"\\\n\r]|\\(?:\r\n|[\s\S]))*\")"
    r"|(?P<broken>['\"][^\n\r]*)"
    r"|(?P<number>\.\d(?:[eE][+-]\d|[\w.])*)"
    r"|(?P<punct>=>|\+\+|--|\?\.|[\s\S])|(?P<end>\Z))"
)
_NUMBER_REST = re.compile(r"(?:(?<=[eE])[+-]\d|[\w.])*")
_TEMPLATE_CHUNK = re.compile(r"(?:[^`\\$]|\\[\s\S]|\$(?!\{))*")
_REGEX = re.compile(
    rf"/(?:[^/\\\[{_LINE_END}]|\\[^{_LINE_END}]|\[(?:[^\]\\{_LINE_END}]|\\[^{_LINE_END}])*\])+/[\w$]*"
)
#: Words after which an operand follows, so that a slash begins a regular expression.
_OPERAND_FOLLOWS: Final = frozenset(
    [
        "return",
        "typeof",
        "case",
        "in",
        "of",
        "delete",
        "void",
        "throw",
        "new",
        "instanceof",
        "do",
        "else",
        "yield",
        "await",
        "extends",
    ]
)
_HEADS: Final = frozenset({"if", "while", "for", "with"})
_PAIRS: Final = {")": "(", "]": "[", "}": "{"}


class Scan(msgspec.Struct):
    """What the scan found. Offsets count characters of the script from 0.

    ``closer`` is a closing bracket that closes nothing inside the script: it would close the function around
    it. ``mismatch`` is a closing bracket of the wrong kind; the scan ends there. ``unclosed`` is the innermost
    bracket still open at the end. ``unterminated`` is the start of a comment or template that never ends.
    ``slashes`` are those after a ``}``, of which tokens alone do not say whether they divide or begin a regular
    expression; without any the scan is ``certain``. ``separators`` are the U+2028 and U+2029 that the engine counts
    as line ends: between tokens, but not at the end of a comment.
    """

    comments: list[tuple[int, int]] = msgspec.field(default_factory=list)
    joins: list[int] = msgspec.field(default_factory=list)
    closer: int | None = None
    mismatch: int | None = None
    unclosed: int | None = None
    unterminated: int | None = None
    unterminated_kind: str = ""
    slashes: list[int] = msgspec.field(default_factory=list)
    separators: list[int] = msgspec.field(default_factory=list)

    @property
    def certain(self) -> bool:
        return not self.slashes


def scan(script: str, regexes: Collection[int] | None = None) -> Scan:
    """Scan ``script`` once; linear in its length, and total: any text is admitted.

    ``regexes`` are offsets of slashes that begin a regular expression: with them no other one after a ``}`` does.
    """
    return _Scanner(script, regexes).run()


def line_starts(script: str) -> list[int]:
    """Where the lines begin, in characters from 0, as the engine counts them in the places that it names.

    A carriage return without a line feed ends one as well, outside block comments, and so does a separator.
    """
    ends = [match.end() for match in re.finditer("\n", script)]
    returns = [match.end() for match in _LONE_RETURN.finditer(script)]
    if returns or _SEPARATOR.search(script):
        found = scan(script)
        blocks = [span for span in found.comments if script.startswith("/*", span[0])]
        starts = [start for start, _ in blocks]
        for end in returns:
            block = bisect_right(starts, end - 1)
            if not block or end > blocks[block - 1][1]:
                ends.append(end)
        ends = sorted([*ends, *(at + 1 for at in found.separators)])
    return [0, *ends]


def blanked(script: str, comments: list[tuple[int, int]], joins: list[int]) -> bytes:
    """UTF-8 of ``script`` with comments and the line ends at ``joins`` as spaces, byte positions unchanged."""
    if not comments and not joins:
        return script.encode("utf-8")
    ends = set(joins)
    pieces: list[str] = []
    at = 0
    for start, end in sorted([*comments, *((join, join + 1) for join in joins)]):
        if start < at:  # a line end inside a comment that was blanked with it
            continue
        pieces.append(script[at:start])
        for index in range(start, end):
            char = script[index]
            kept = char == "\n" and index not in ends
            pieces.append(char if kept else " " * len(char.encode("utf-8")))
        at = end
    pieces.append(script[at:])
    return "".join(pieces).encode("utf-8")


class _Open(msgspec.Struct):
    kind: str
    at: int
    head: bool = False


class _Scanner:
    def __init__(self, script: str, regexes: Collection[int] | None) -> None:
        self.script = script
        self.regexes = regexes
        self.found = Scan()
        self.stack: list[_Open] = []
        self.at = 0
        self.fresh_line = True
        self.previous = ""
        self.before_previous = ""
        self.operand = False
        self.after_brace = False
        self.pending: list[int] = []
        self.joining = False

    def run(self) -> Scan:
        script, found, size = self.script, self.found, len(self.script)
        while self.at < size:
            match = _TOKEN.match(script, self.at)
            assert match is not None  # the last alternatives take any character, and the end
            kind = match.lastgroup or "end"
            self.at = match.start(kind)
            text = match[kind]
            if kind == "newline":
                self.fresh_line = True
                if self.joining:
                    self.pending.append(self.at)
                if _SEPARATOR.match(text) and not self._ends_line_comment():
                    found.separators.append(self.at)
                self.at += 1
                continue
            if kind == "comment" or (text == "--" and self.fresh_line and script.startswith("-->", self.at)):
                self._skip_comment(text)
                continue
            if kind in ("space", "end"):
                self.at = match.end()
                continue
            self._end_join(kind, text)
            self.fresh_line = False
            if kind == "word":
                self._word(text)
            elif kind == "punct":
                if not self._punct(text):
                    return found
            else:
                self._operand(text)
                self.at = match.end()
        if self.stack:
            found.unclosed = self.stack[-1].at
        return found

    def _skip_comment(self, text: str) -> None:
        script, at = self.script, self.at
        if text != "/*":
            match = _LINE_COMMENT.match(script, at)
            assert match is not None
            self._comment(match.end())
            return
        end = script.find("*/", at + 2)
        if end < 0:
            self.found.unterminated, self.found.unterminated_kind = at, "comment"
            self.at = len(script)
            return
        if any(char in _LINE_END for char in script[at:end]):
            self.fresh_line = True
            if self.joining:
                self.pending.extend(i for i in range(at, end) if script[i] == "\n")
        self._comment(end + 2)

    def _ends_line_comment(self) -> bool:
        start, end = self.found.comments[-1] if self.found.comments else (0, 0)
        return end == self.at > start and not self.script.startswith("/*", start)

    def _comment(self, end: int) -> None:
        self.found.comments.append((self.at, end))
        self.at = end

    # -- tokens

    def _note(self, text: str, operand: bool) -> None:
        self.before_previous, self.previous = self.previous, text
        self.operand, self.after_brace = operand, False

    def _operand(self, text: str) -> None:
        self._note(text, True)

    def _word(self, text: str) -> None:
        end = self.at + len(text)
        if text[0].isdigit():
            match = _NUMBER_REST.match(self.script, end)
            assert match is not None
            self.at = match.end()
            self._operand(text)
            return
        self.at = end
        member = self.previous in (".", "?.")
        if not member and text in ("await", "let"):
            self.joining = True
        self._note(text if not member else ".member", member or text not in _OPERAND_FOLLOWS)

    def _end_join(self, kind: str, text: str) -> None:
        if not self.joining:
            return
        if self.pending:
            starts_operand = kind in ("word", "string", "number") or text in "([{`!~+-/"
            if self.previous == "let":
                starts_operand = kind == "word" or text in "[{"
            if starts_operand:
                self.found.joins.extend(self.pending)
        self.joining = False
        self.pending = []

    def _punct(self, text: str) -> bool:
        at = self.at
        if text == "`":
            self._note("`", True)
            self.at = at + 1
            return self._template(at)
        if text == "/":
            return self._slash()
        self.at = at + len(text)
        if text in "([{":
            head = text == "(" and (
                self.previous in _HEADS or (self.previous == "await" and self.before_previous == "for")
            )
            self.stack.append(_Open(text, at, head))
            self._note(text, False)
        elif text in ")]}":
            return self._close(text, at)
        else:
            self._note(text, text in ("++", "--"))
        return True

    def _slash(self) -> bool:
        if self.after_brace:
            self.found.slashes.append(self.at)
            self.operand = self.regexes is not None and self.at not in self.regexes
        if not self.operand:
            match = _REGEX.match(self.script, self.at)
            if match is not None:
                self.at = match.end()
                self._operand("/")
                return True
        self.at += 1
        self._note("/", False)
        return True

    def _close(self, text: str, at: int) -> bool:
        if not self.stack:
            self.found.closer = at
            return False
        top = self.stack.pop()
        if text == "}" and top.kind == "${":
            return self._template(top.at)
        if top.kind != _PAIRS[text]:
            self.found.mismatch = at
            self.found.unclosed = top.at
            return False
        self._note(text, text != "}" and not top.head)
        self.after_brace = text == "}"
        return True

    def _template(self, opened: int) -> bool:
        """Go on inside a template literal that opened at ``opened``, up to its end or its next substitution."""
        match = _TEMPLATE_CHUNK.match(self.script, self.at)
        assert match is not None
        self.at = match.end()
        if self.script.startswith("${", self.at):
            self.stack.append(_Open("${", opened))
            self._note("${", False)
            self.at += 2
            return True
        if self.script.startswith("`", self.at):
            self.at += 1
            self._note("`", True)
            return True
        self.found.unterminated, self.found.unterminated_kind = opened, "template"
        return False
