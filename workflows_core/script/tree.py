"""The syntax of a script as light nodes: named children, fields and anonymous words, in source order.

One walk of the parser's tree makes them. Offsets are bytes of the script (the wrapper's are subtracted), so
that ``Source`` turns them into lines and columns. Nothing here recurses: a script may nest as it likes.
"""

from __future__ import annotations

from collections.abc import Iterator

from .source import PREFIX, Source

#: Kinds of nodes that begin a function of their own.
FUNCTIONS = frozenset(
    {
        "arrow_function",
        "function_declaration",
        "function_expression",
        "generator_function",
        "generator_function_declaration",
        "method_definition",
    }
)
LOOPS = frozenset({"for_statement", "for_in_statement", "while_statement", "do_statement"})
_COMMENTS = frozenset({"comment", "html_comment"})


class Node:
    """One named node. ``tokens`` are the anonymous words and signs directly inside it, at ``token_starts``."""

    __slots__ = ("children", "end", "fields", "in_error", "kind", "parent", "start", "token_starts", "tokens")

    def __init__(self, kind: str, start: int, end: int, parent: Node | None) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.parent = parent
        self.children: list[Node] = []
        self.fields: dict[str, Node] = {}
        self.tokens: list[str] = []
        self.token_starts: list[int] = []
        self.in_error: bool = kind == "ERROR" or (parent is not None and parent.in_error)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.start}:{self.end}>"

    def field(self, name: str) -> Node | None:
        return self.fields.get(name)

    def ancestors(self) -> Iterator[Node]:
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def element_index(self, child: Node) -> int:
        """The position of ``child`` in an array or array pattern, holes counted."""
        return sum(
            1
            for token, start in zip(self.tokens, self.token_starts, strict=True)
            if token == "," and start < child.start
        )

    def has_holes(self) -> bool:
        """Whether an array leaves elements out, as in [, 1]."""
        commas = [at for token, at in zip(self.tokens, self.token_starts, strict=True) if token == ","]
        return len(commas) > len(self.children) or any(
            comma < child.start for comma, child in zip(commas, self.children, strict=False)
        )

    def walk(self) -> Iterator[Node]:
        """This node and everything below it, in source order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def inside(self, other: Node) -> bool:
        """Whether this node is ``other`` or below it."""
        if self is other:
            return True
        return (
            other.start <= self.start and self.end <= other.end and any(n is other for n in self.ancestors())
        )


def build(source: Source) -> Node:
    """The script's own block: the body of its function, or the whole tree where it is not one function."""
    shift = len(PREFIX)
    top = source.body if source.body is not None else source.tree.root_node
    root = Node(top.type, 0, len(source.data), None)
    cursor = top.walk()
    parent = root
    if not cursor.goto_first_child():
        return root
    while True:
        raw = cursor.node
        assert raw is not None
        kind = raw.type
        if not raw.is_named:
            parent.tokens.append(kind)
            parent.token_starts.append(raw.start_byte - shift)
            field = cursor.field_name
            if field is not None and field not in parent.fields:
                parent.fields[field] = Node(kind, raw.start_byte - shift, raw.end_byte - shift, parent)
        elif kind not in _COMMENTS and not (raw.end_byte <= shift):
            if kind == "unary_expression" and raw.start_byte - shift in source.awaits:
                kind = "await_expression"
            node = Node(kind, raw.start_byte - shift, raw.end_byte - shift, parent)
            parent.children.append(node)
            field = cursor.field_name
            if field is not None and field not in parent.fields:
                parent.fields[field] = node
            if cursor.goto_first_child():
                parent = node
                continue
        while not cursor.goto_next_sibling():
            if parent is root or not cursor.goto_parent():
                return root
            assert parent.parent is not None
            parent = parent.parent


def unwrapped(node: Node | None) -> Node | None:
    """The expression inside any parentheses."""
    while node is not None and node.kind == "parenthesized_expression" and node.children:
        node = node.children[0]
    return node


def enclosing_function(node: Node) -> Node | None:
    """The nearest function around ``node`` (not ``node`` itself), or None for the script's own body."""
    for above in node.ancestors():
        if above.kind in FUNCTIONS:
            return above
    return None


def statement_of(node: Node) -> Node:
    """The statement that holds ``node``: the nearest ancestor (or itself) whose parent lists statements."""
    current = node
    while current.parent is not None:
        if current.parent.kind in ("statement_block", "program", "switch_case", "switch_default"):
            return current
        current = current.parent
    return current
