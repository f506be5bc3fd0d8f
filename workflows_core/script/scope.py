"""Scopes, bindings and references of a script, by the rules of strict mode.

``var`` and parameters belong to the function, ``let``, ``const``, classes and functions to their block. A name
is resolved after everything has been declared, so hoisting needs no care. Names that resolve to nothing are
globals.
"""

from __future__ import annotations

from collections.abc import Iterator

from .tree import FUNCTIONS, Node, unwrapped

_BLOCKS = frozenset(
    {
        "statement_block",
        "for_statement",
        "for_in_statement",
        "switch_body",
        "catch_clause",
        "class_static_block",
    }
)
_CLASSES = frozenset({"class_declaration", "class"})
_FUNCTION_VALUES = frozenset({"arrow_function", "function_expression", "generator_function"})
_FUNCTION_DECLARATIONS = frozenset({"function_declaration", "generator_function_declaration"})
_NAMES = frozenset(
    {"identifier", "shorthand_property_identifier", "shorthand_property_identifier_pattern", "undefined"}
)


class Scope:
    """One region of names. ``function`` is the nearest scope that holds ``var``."""

    __slots__ = ("function", "names", "node", "parent")

    def __init__(self, node: Node, parent: Scope | None, *, holds_var: bool) -> None:
        self.node = node
        self.parent = parent
        self.names: dict[str, Binding] = {}
        self.function: Scope = self if holds_var or parent is None else parent.function

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None


class Binding:
    """One declared name.

    ``site`` is the node that declares it (a declarator, a loop head, a function, a class, a catch clause).
    ``reads`` and ``writes`` are the name's nodes elsewhere; ``x += 1`` is both.
    """

    __slots__ = ("kind", "name", "node", "reads", "scope", "site", "writes")

    def __init__(self, name: str, kind: str, node: Node, site: Node, scope: Scope) -> None:
        self.name = name
        self.kind = kind
        self.node = node
        self.site = site
        self.scope = scope
        self.reads: list[Node] = []
        self.writes: list[Node] = []

    @property
    def value(self) -> Node | None:
        """The one expression this name is ever bound to, where the name is bound whole and only once."""
        if self.site.kind != "variable_declarator" or self.site.field("name") is not self.node:
            return None
        initial = self.site.field("value")
        if initial is not None:
            return None if self.writes else unwrapped(initial)
        if len(self.writes) != 1:
            return None
        assignment = self.writes[0].parent
        if assignment is None or assignment.kind != "assignment_expression":
            return None
        return unwrapped(assignment.field("right"))

    @property
    def function(self) -> Node | None:
        """The function this name always means, where there is one."""
        if self.kind == "function":
            return None if self.writes else self.site
        value = self.value
        return value if value is not None and value.kind in _FUNCTION_VALUES else None


class Scopes:
    """Every scope, binding and reference below ``root``."""

    def __init__(self, root: Node, text: bytes) -> None:
        self._text = text
        self.root = Scope(root, None, holds_var=True)
        self.bindings: list[Binding] = []
        self.globals: list[Node] = []
        self._found: dict[Node, Binding | None] = {}
        self._scope_of: dict[Node, Scope] = {root: self.root}
        self._declared: set[Node] = set()
        self._only_written: set[Node] = set()
        self._uses: list[tuple[Node, Scope]] = []
        for node in root.walk():
            if node is not root:
                self._enter(node)
        for use, scope in self._uses:
            if use not in self._declared:
                self._resolve(use, scope)

    def name(self, node: Node) -> str:
        return self._text[max(node.start, 0) : max(node.end, 0)].decode("utf-8", "replace")

    def binding(self, node: Node) -> Binding | None:
        """The binding that a name's node declares or refers to; None for a global and for any other node."""
        return self._found.get(node)

    def scope_of(self, node: Node) -> Scope:
        """The scope that the children of ``node`` are in."""
        return self._scope_of[node]

    def read(self, node: Node) -> Binding | None:
        """The binding whose value a name's node reads; None where it declares, only assigns, or is a global."""
        if node in self._declared or node in self._only_written:
            return None
        return self._found.get(node)

    def is_global(self, node: Node | None, name: str) -> bool:
        """Whether ``node`` is the free name ``name``."""
        return (
            node is not None
            and node.kind == "identifier"
            and self._found.get(node, _MISSING) is None
            and self.name(node) == name
        )

    # -- declarations, parents before children

    def _enter(self, node: Node) -> None:
        parent = node.parent
        assert parent is not None
        scope = self._scope_of[parent]
        kind = node.kind
        if kind in FUNCTIONS:
            outer, scope = scope, Scope(node, scope, holds_var=True)
            self._function(node, outer, scope)
        elif kind in _CLASSES:
            outer, scope = scope, Scope(node, scope, holds_var=False)
            name = node.field("name")
            if name is not None:
                self._declare(name, "class", node, outer if kind == "class_declaration" else scope)
        elif kind in _BLOCKS and not (kind == "statement_block" and parent.kind in FUNCTIONS):
            scope = Scope(node, scope, holds_var=kind == "class_static_block")
            if kind == "catch_clause":
                self._declare_pattern(node.field("parameter"), "catch", node, scope)
            elif kind == "for_in_statement" and node.field("kind") is not None:
                word = node.fields["kind"].kind
                self._declare_pattern(
                    node.field("left"), word, node, scope.function if word == "var" else scope
                )
        elif kind == "variable_declarator":
            word = parent.tokens[0] if parent.tokens else "let"
            if parent.kind == "using_declaration":
                word = "const"
            holder = scope.function if word == "var" else scope
            self._declare_pattern(node.field("name"), word, node, holder)
        elif kind in ("import_clause", "namespace_import", "import_specifier"):
            # A script cannot import, and says so once: the names themselves are not unknown as well.
            for child in node.children[-1:] if kind == "import_specifier" else node.children:
                if child.kind == "identifier":
                    self._declare(child, "const", node, scope)
            if kind == "import_specifier":
                self._declared.update(node.children)
        elif kind in _NAMES:
            self._uses.append((node, scope))
        self._scope_of[node] = scope

    def _function(self, node: Node, outer: Scope, inner: Scope) -> None:
        name = node.field("name")
        if name is not None and name.kind == "identifier":
            if node.kind in _FUNCTION_DECLARATIONS:
                self._declare(name, "function", node, outer)
            else:
                self._declare(name, "function", node, inner)
        parameters = node.field("parameters")
        for parameter in parameters.children if parameters is not None else ():
            self._declare_pattern(parameter, "param", node, inner)
        self._declare_pattern(node.field("parameter"), "param", node, inner)

    def _declare(self, name: Node, kind: str, site: Node, scope: Scope) -> None:
        text = self.name(name)
        self._declared.add(name)
        known = scope.names.get(text)
        if known is not None:
            # `var x` twice, or a parameter declared again, is one name that is bound again.
            known.writes.append(name)
            self._found[name] = known
            return
        binding = Binding(text, kind, name, site, scope)
        scope.names[text] = binding
        self.bindings.append(binding)
        self._found[name] = binding

    def _declare_pattern(self, pattern: Node | None, kind: str, site: Node, scope: Scope) -> None:
        for name in pattern_names(pattern):
            self._declare(name, kind, site, scope)

    # -- references

    def _resolve(self, use: Node, scope: Scope) -> None:
        binding = scope.find(self.name(use))
        self._found[use] = binding
        if binding is None:
            self.globals.append(use)
            return
        access = access_of(use)
        if access == "write":
            self._only_written.add(use)
        else:
            binding.reads.append(use)
        if access != "read":
            binding.writes.append(use)


_MISSING = Binding(
    "", "", Node("", 0, 0, None), Node("", 0, 0, None), Scope(Node("", 0, 0, None), None, holds_var=True)
)


def pattern_names(pattern: Node | None) -> Iterator[Node]:
    """The names that a binding pattern declares, in order; default values are not entered."""
    stack = [pattern] if pattern is not None else []
    while stack:
        node = stack.pop()
        kind = node.kind
        if kind in ("identifier", "shorthand_property_identifier_pattern"):
            yield node
        elif kind in ("array_pattern", "object_pattern", "rest_pattern"):
            stack.extend(reversed(node.children))
        elif kind == "pair_pattern":
            stack.extend(child for child in (node.field("value"),) if child is not None)
        elif kind in ("assignment_pattern", "object_assignment_pattern"):
            stack.extend(child for child in (node.field("left"),) if child is not None)


def access_of(use: Node) -> str:
    """How a name's node uses the name: "read", "write" or "both"."""
    node = use
    parent = node.parent
    while parent is not None:
        kind = parent.kind
        if (
            kind in ("array_pattern", "object_pattern", "rest_pattern")
            or (kind == "pair_pattern" and parent.field("value") is node)
            or (kind in ("assignment_pattern", "object_assignment_pattern") and parent.field("left") is node)
            or (kind == "parenthesized_expression" and node is use)
        ):
            node, parent = parent, parent.parent
        else:
            break
    if parent is None:
        return "read"
    if parent.kind == "assignment_expression" and parent.field("left") is node:
        return "write"
    if parent.kind == "augmented_assignment_expression" and parent.field("left") is node:
        return "both"
    if parent.kind == "update_expression":
        return "both"
    if parent.kind == "for_in_statement" and parent.field("left") is node and parent.field("kind") is None:
        return "write"
    return "read"
