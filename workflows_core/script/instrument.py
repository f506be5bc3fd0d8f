"""Probes in a script, so that a replay can stop at every statement and look at every variable in sight.

Before each statement stands ``P(n)&&P(P=>eval(P));`` where P is a name that the script does not contain: the
first call tells that statement n begins, and only where it answers true a closure is made, whose direct eval
sees every variable there. Bodies without braces get some, an arrow function's expression becomes ``(probe,
expression)``. Nothing else changes, no line is added, and a script keeps its meaning; that it keeps its
requests is compared with a plain replay all the same.

What is not probed: declarations of functions (hoisted), empty statements, directives (a probe before one would
end the directives), and the statement behind a label (``continue`` needs the loop right there).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from .scope import Scope, Scopes
from .source import PREFIX, SUFFIX, Source, parse
from .tree import FUNCTIONS, Node, build

_LISTS: Final = frozenset({"statement_block", "program", "switch_case", "switch_default"})
_NOT_PROBED: Final = frozenset(
    {"function_declaration", "generator_function_declaration", "empty_statement", "hash_bang_line"}
)
#: Statements whose ``body`` (or other field) may be one statement without braces.
_BODIES: Final = {
    "if_statement": ("consequence",),
    "for_statement": ("body",),
    "for_in_statement": ("body",),
    "while_statement": ("body",),
    "do_statement": ("body",),
    "with_statement": ("body",),
}
_SCOPES: Final = {
    "for_statement": "loop",
    "for_in_statement": "loop",
    "catch_clause": "catch",
    "switch_body": "switch",
    "class_static_block": "static block",
    "class_declaration": "class",
    "class": "class",
}


class InstrumentRefused(Exception):
    """The script cannot be instrumented; ``str()`` says why. Stepping by frames remains."""


class Name(msgspec.Struct, frozen=True):
    """A name in sight: ``kind`` is let, const, var, param, function, class or catch; ``scope`` is in words."""

    name: str
    kind: str
    scope: str


class Site(msgspec.Struct, frozen=True):
    """One probed statement. Places start at 1 and count characters; the end is exclusive.

    ``names`` are those in sight where it begins, innermost first. ``nested`` says whether it stands in a function
    of the script.
    """

    number: int
    line: int
    column: int
    end_line: int
    end_column: int
    names: tuple[Name, ...]
    nested: bool


class Instrumented:
    """A script with probes. ``probe`` is the name that its wrapper must bind."""

    def __init__(
        self, script: str, probe: str, sites: tuple[Site, ...], inserted: dict[int, list[tuple[int, int]]]
    ) -> None:
        self.script: Final = script
        self.probe: Final = probe
        self.sites: Final = sites
        self._inserted = inserted

    def original(self, line: int, column: int) -> tuple[int, int]:
        """The place in the script without probes for a place in the one with them."""
        shift = 0
        for at, length in self._inserted.get(line, ()):
            if column <= at + shift:
                break
            if column < at + shift + length:
                return line, at
            shift += length
        return line, column - shift

    def site_at(self, line: int, column: int) -> int | None:
        """The number of the innermost probed statement around a place, or None."""
        best: Site | None = None
        for site in self.sites:
            if (site.line, site.column) <= (line, column) < (site.end_line, site.end_column) and (
                best is None or (site.line, site.column) >= (best.line, best.column)
            ):
                best = site
        return None if best is None else best.number

    def sites_on(self, line: int) -> list[int]:
        """The probed statements that begin on a line, or else those on the next line that has any."""
        following = sorted({site.line for site in self.sites if site.line >= line})
        return [site.number for site in self.sites if following and site.line == following[0]]


@lru_cache(maxsize=8)
def instrument(script: str) -> Instrumented:
    """Put probes into ``script``; raises InstrumentRefused where its tree is not certain."""
    source = parse(script)
    if source.body is None or not source.whole:
        raise InstrumentRefused(
            "its syntax is not understood here in every place, although the engine compiles it"
        )
    root = build(source)
    return _Writer(source, root).write()


class _Writer:
    def __init__(self, source: Source, root: Node) -> None:
        self.source = source
        self.root = root
        self.scopes = Scopes(root, source.data)
        text = source.tree.root_node.text
        assert text is not None
        #: The script as the parser saw it: comments are spaces, so that a token's end can be found.
        self.seen = text[len(PREFIX) : len(text) - len(SUFFIX)]
        self.probe = _unused(source.script)
        #: (offset, order, text): at one place closing parts come before opening ones, inner before outer.
        self.parts: list[tuple[int, tuple[int, int], str]] = []
        self.sites: list[Site] = []
        self._visible: dict[int, tuple[Name, ...]] = {}
        #: The functions of the script and all that is inside one: a node comes after what it stands in.
        self._nested: set[Node] = set()
        for node in root.walk():
            if node.kind in FUNCTIONS or (node.parent is not None and node.parent in self._nested):
                self._nested.add(node)

    def write(self) -> Instrumented:
        for node in self.root.walk():
            if node.kind in _LISTS:
                value = node.field("value") if node.kind == "switch_case" else None
                for child in node.children:
                    if child is not value and self._is_probed(child):
                        self._open(child.start, self._call(child, node) + ";")
            elif node.kind == "arrow_function":
                body = node.field("body")
                if body is not None and body.kind != "statement_block":
                    self._wrap(body, "(" + self._call(body, node) + ",", ")")
            elif node.kind == "else_clause":
                self._body(node.children[0] if node.children else None, node)
            else:
                for field in _BODIES.get(node.kind, ()):
                    self._body(node.field(field), node)
        return self._result()

    def _is_probed(self, statement: Node) -> bool:
        if statement.kind in _NOT_PROBED:
            return False
        only = statement.children[0] if len(statement.children) == 1 else None
        return not (statement.kind == "expression_statement" and only is not None and only.kind == "string")

    def _body(self, body: Node | None, parent: Node) -> None:
        if body is not None and body.kind != "statement_block" and body.kind not in _NOT_PROBED:
            self._wrap(body, "{" + self._call(body, parent) + ";", "}")

    def _call(self, node: Node, parent: Node) -> str:
        number = len(self.sites)
        line, column = self.source.position(node.start)
        end_line, end_column = self.source.position(self._end(node))
        scope = self.scopes.scope_of(parent)
        nested = parent in self._nested
        self.sites.append(Site(number, line, column, end_line, end_column, self._names(scope), nested))
        name = self.probe
        return f"{name}({number})&&{name}({name}=>eval({name}))"

    def _open(self, offset: int, text: str) -> None:
        self.parts.append((offset, (1, len(self.parts)), text))

    def _wrap(self, node: Node, before: str, after: str) -> None:
        self._open(node.start, before)
        self.parts.append((self._end(node), (0, -node.start), after))

    def _end(self, node: Node) -> int:
        """Behind the last token of ``node``: its own end may lie behind comments that follow."""
        end = node.end
        while end > node.start and self.seen[end - 1 : end].isspace():
            end -= 1
        return end

    def _names(self, scope: Scope) -> tuple[Name, ...]:
        known = self._visible.get(id(scope))
        if known is None:
            chain: list[Scope] = []
            at: Scope | None = scope
            while at is not None and id(at) not in self._visible:
                chain.append(at)
                at = at.parent
            known = () if at is None else self._visible[id(at)]
            for inner in reversed(chain):
                if inner.names:  # a scope without names of its own shares the names around it
                    words = self._words(inner.node)
                    own = {one.name: Name(one.name, one.kind, words) for one in inner.names.values()}
                    known = (*own.values(), *(name for name in known if name.name not in own))
                self._visible[id(inner)] = known
        return known

    def _words(self, node: Node) -> str:
        if node is self.root:
            return "script"
        if node.kind in FUNCTIONS:
            name = node.field("name")
            if name is not None:
                return f"function {self.source.text(name.start, name.end)}"
            return "arrow function" if node.kind == "arrow_function" else "function"
        return _SCOPES.get(node.kind, "block")

    def _result(self) -> Instrumented:
        data = self.source.data
        pieces: list[bytes] = []
        inserted: dict[int, list[tuple[int, int]]] = {}
        at = 0
        for offset, _, text in sorted(self.parts):
            pieces += [data[at:offset], text.encode("ascii")]
            at = offset
            line, column = self.source.position(offset)
            inserted.setdefault(line, []).append((column, len(text)))
        pieces.append(data[at:])
        return Instrumented(b"".join(pieces).decode("utf-8"), self.probe, tuple(self.sites), inserted)


def _unused(script: str) -> str:
    """A short name that occurs nowhere in the script, not even inside another word or a text."""
    number = 0
    while (name := f"__p{number or ''}") in script:
        number += 1
    return name
