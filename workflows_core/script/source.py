"""A script as text: its hash and size, its tree, positions in it, and the proof that it is one function body.

Lines and columns start at 1. A line ends at a line feed; where the engine ends one at something else, worker/turns
counts its places anew. Columns count characters (code points), never bytes. tree-sitter counts bytes, so every
position leaves this module through ``Source``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from typing import Final

import tree_sitter_javascript
from tree_sitter import Language, Node, Parser, Tree

from .. import jsontext
from ..errors import ScriptRefused
from .lexing import Scan, blanked, scan

_LANGUAGE: Final = Language(tree_sitter_javascript.language())
#: The text that the worker puts around a script; the proof is about exactly this shape.
PREFIX: Final = b'(async () => {"use strict";\n'
SUFFIX: Final = b"\n})"
_AWAIT = re.compile(rb"\bawait\s*[(\[]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Source:
    """One script, parsed. ``tree`` is the wrapped script; ``body`` the block of its function, or None.

    ``awaits`` are the bytes at which the tree says ``void`` and the script says ``await``: tree-sitter reads
    ``await (f)(x)`` as a call of something named await, and ``void`` has the same place in the grammar.
    ``body`` is None where the script is not provably one function body: its tree has another shape. ``whole`` is
    True where tree-sitter understood every token. Offsets are bytes of the script's UTF-8 unless named otherwise.
    """

    def __init__(self, script: str) -> None:
        self.script = script
        # A lone surrogate has no UTF-8; the replacement character has as many bytes as its escape would take.
        text = _SURROGATE.sub("\ufffd", script)
        self.data: Final = text.encode("utf-8")
        self.ascii: Final = len(self.data) == len(text)
        self._starts = [0, *(match.end() for match in re.finditer(b"\n", self.data))]
        found = scan(text)
        if not found.certain:  # the tree of the text as it is knows which slashes begin an expression
            tree = Parser(_LANGUAGE).parse(PREFIX + self.data + SUFFIX)
            found = scan(text, self._regexes(tree))
        self.scan: Final[Scan] = found
        wrapped = PREFIX + blanked(text, found.comments, found.joins) + SUFFIX
        self.tree, self.awaits = _parsed(wrapped)
        agreed = found.certain or scan(text, self._regexes(self.tree)) == found
        self.whole: Final = agreed and not self.tree.root_node.has_error
        self.body: Final = self._only_function()

    def text(self, start: int, end: int) -> str:
        """The script's own text (comments included) between two byte offsets."""
        return self.data[start:end].decode("utf-8", "replace")

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a byte offset of the script; offsets outside are moved to its ends."""
        offset = min(max(offset, 0), len(self.data))
        line = bisect_right(self._starts, offset)
        start = self._starts[line - 1]
        column = offset - start if self.ascii else len(self.data[start:offset].decode("utf-8", "ignore"))
        return line, column + 1

    def character_position(self, index: int) -> tuple[int, int]:
        """Line and column of a character index of the script."""
        before = self.script[:index]
        return before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1

    def offset(self, line: int, column: int) -> int:
        """The byte offset of a position; positions outside the script are moved to the nearest one inside."""
        line = min(max(line, 1), len(self._starts))
        start = self._starts[line - 1]
        end = self._starts[line] - 1 if line < len(self._starts) else len(self.data)
        text = self.data[start:end].decode("utf-8", "ignore")
        return start + len(text[: max(column - 1, 0)].encode("utf-8"))

    def _regexes(self, tree: Tree) -> frozenset[int]:
        """Where the regular expressions of a tree begin, in characters of the script."""
        starts: list[int] = []
        stack = [tree.root_node]
        while stack:
            node = stack.pop()
            if node.type == "regex":
                starts.append(node.start_byte - len(PREFIX))
            else:
                stack.extend(node.children)
        found: list[int] = []
        at = character = 0
        for start in sorted(starts):
            character += len(self.data[at:start].decode("utf-8", "ignore"))
            at = start
            found.append(character)
        return frozenset(found)

    def _only_function(self) -> Node | None:
        root = self.tree.root_node
        node = root
        for kind in ("expression_statement", "parenthesized_expression", "arrow_function"):
            named = [child for child in node.named_children if child.type not in ("comment", "html_comment")]
            if len(named) != 1 or named[0].type != kind:
                return None
            node = named[0]
        body = node.child_by_field_name("body")
        if body is None or body.type != "statement_block":
            return None
        closed_by_suffix = body.end_byte == len(PREFIX) + len(self.data) + len(SUFFIX) - 1
        return body if closed_by_suffix and not body.children[-1].is_missing else None


def _parsed(wrapped: bytes) -> tuple[Tree, frozenset[int]]:
    tree = Parser(_LANGUAGE).parse(wrapped)
    if tree.root_node.has_error or _AWAIT.search(wrapped) is None:
        return tree, frozenset()
    names: list[int] = []
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        if node.type == "identifier" and node.text == b"await":
            names.append(node.start_byte)
        stack.extend(node.named_children)
    if not names:
        return tree, frozenset()
    changed = bytearray(wrapped)
    for at in names:
        changed[at : at + 5] = b"void "
    again = Parser(_LANGUAGE).parse(bytes(changed))
    if again.root_node.has_error:
        return tree, frozenset()
    return again, frozenset(at - len(PREFIX) for at in names)


@lru_cache(maxsize=8)
def parse(script: str) -> Source:
    """The parsed script; the latest few are kept, since the check, the proof and the gutter read the same text."""
    return Source(script)


def script_hash(script: str) -> str:
    """SHA-256 hex digest of the script's UTF-8; raises ScriptRefused where it holds a lone surrogate."""
    _refuse_surrogates(script)
    return jsontext.sha256(script.encode("utf-8"))


def script_bytes(script: str) -> int:
    """Bytes of the script's JSON encoding (limit: SCRIPT_BYTES); raises ScriptRefused for a lone surrogate."""
    _refuse_surrogates(script)
    return jsontext.size(script)


def prove_function_body(script: str) -> None:
    """Prove that ``script`` is the body of one function and nothing more; raise ScriptRefused with the place.

    A script that tree-sitter cannot parse is refused only where a bracket closes the surrounding function or a
    comment or template swallows its end; everything else is left to the engine, which compiles it in two
    different wrappers and so proves it again.
    """
    _refuse_surrogates(script)
    source = parse(script)
    if source.whole and source.body is not None:
        return
    found = source.scan
    if found.closer is not None and (found.certain or source.whole):
        _refuse(source, found.closer, _closes(script[found.closer]))
    if found.unterminated is not None and found.certain:
        kind = found.unterminated_kind
        _refuse(
            source, found.unterminated, f"this {kind} never ends, so it would swallow the end of the function"
        )
    if source.whole:
        offset = _end_of_first_function(source)
        line, column = source.position(offset)
        raise ScriptRefused(
            f"line {line}, column {column}: {_closes(source.text(offset, offset + 1) or '}')}",
            code="one_function_body",
            line=line,
            column=column,
        )


def _closes(text: str) -> str:
    return f"this '{text}' closes the function that the script runs in; remove it or add what it should close"


def _refuse(source: Source, index: int, sentence: str) -> None:
    line, column = source.character_position(index)
    raise ScriptRefused(
        f"line {line}, column {column}: {sentence}", code="one_function_body", line=line, column=column
    )


def _end_of_first_function(source: Source) -> int:
    """Where the tree of an escaped script ends the function that the wrapper began."""
    stack = [source.tree.root_node]
    while stack:
        node = stack.pop()
        if node.type == "arrow_function" and node.start_byte == 1:
            return max(node.end_byte - 1 - len(PREFIX), 0)
        if node.start_byte <= 1:
            stack.extend(reversed(node.children))
    return 0


def _refuse_surrogates(script: str) -> None:
    match = _SURROGATE.search(script)
    if match is None:
        return
    index = match.start()
    before = script[:index]
    line, column = before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1
    raise ScriptRefused(
        f"line {line}, column {column}: half of a surrogate pair is not text; replace this character",
        code="not_text",
        line=line,
        column=column,
    )
