"""Whether looking at an expression can change a replayed run: only then must it start afresh afterwards.

``is_plain``: does the expression itself change nothing (no assignment, call, ``new``, ``delete``)? Even such a one may
run the script's own code: an operator calls ``valueOf``, a spread asks an iterator, a member may have a getter.
``is_pure``: can it not even do that? A worker that has shown such a one is as it was.
"""

from __future__ import annotations

import re
from typing import Final

import tree_sitter_javascript
from tree_sitter import Language, Node, Parser, Tree

_LANGUAGE = Language(tree_sitter_javascript.language())
_INERT: Final = frozenset(
    """program expression_statement parenthesized_expression identifier property_identifier string string_fragment
    escape_sequence number template_string true false null undefined this ternary_expression array object pair
    shorthand_property_identifier optional_chain regex regex_pattern regex_flags sequence_expression""".split()  # noqa: SIM905 - a table of names reads better as text
)
#: These may run code of the script: ``binary_expression`` and the next two by their operator or operand, members where
#: the script has accessors.
_CALLING: Final = frozenset(
    """binary_expression unary_expression subscript_expression member_expression template_substitution
    spread_element computed_property_name""".split()  # noqa: SIM905
)
#: Operators that look at their operands without converting them (ECMAScript 2024, 13.11.1 IsStrictlyEqual, 13.13).
_COMPARING: Final = frozenset({"===", "!==", "&&", "||", "??"})
_TESTING: Final = frozenset({"typeof", "!", "void"})
_LITERALS: Final = frozenset({"number", "string"})
#: What a script must write to have a getter or a proxy, also by another name for the function that makes one.
_ACCESSORS: Final = re.compile(
    r"\bget\b|Proxy|defin|__proto__|create|Function|constructor|Reflect|Object\s*\[|\\[ux]"
)


def _parsed(expression: str) -> Tree:
    return Parser(_LANGUAGE).parse(b"(" + expression.encode("utf-8", "replace") + b"\n)")


def _nodes(tree: Tree) -> list[Node]:
    found, stack = [], [tree.root_node]
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(node.children)
    return found


def can_be_read(text: str) -> bool:
    """Whether ``text`` is JavaScript to evaluate: an expression, or else statements."""
    if not text.strip():
        return False
    statements = Parser(_LANGUAGE).parse(text.encode("utf-8", "replace"))
    return not _parsed(text).root_node.has_error or not statements.root_node.has_error


def is_plain(expression: str) -> bool:
    """Whether ``expression`` consists of names, members, literals and operators alone, ``delete`` excepted."""
    tree = _parsed(expression)
    if not expression.strip() or tree.root_node.has_error:
        return False
    return all(
        node.type in _INERT or node.type in _CALLING if node.is_named else node.type != "delete"
        for node in _nodes(tree)
    )


def is_pure(expression: str, script: str = "") -> bool:
    """Whether looking at ``expression`` cannot run code of ``script``: it may then be looked at without a trace.

    A member counts as harmless where nothing in the script could make a getter or a proxy.
    """
    if not is_plain(expression):
        return False
    accessors = _ACCESSORS.search(script) is not None
    return all(_is_still(node, accessors) for node in _nodes(_parsed(expression)) if node.type in _CALLING)


def _is_still(node: Node, accessors: bool) -> bool:
    if not node.is_named:
        return True
    if node.type == "member_expression":
        return not accessors
    if node.type == "subscript_expression":
        index = node.child_by_field_name("index")
        return not accessors and index is not None and index.type in _LITERALS
    operator = node.child_by_field_name("operator")
    word = "" if operator is None else operator.type
    if node.type == "binary_expression":
        return word in _COMPARING
    if node.type == "unary_expression":
        operand = node.child_by_field_name("argument")
        return word in _TESTING or (operand is not None and operand.type == "number")
    return False
