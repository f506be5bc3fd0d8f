"""Whether an expression can change anything: only then must a replay start afresh after it was looked at."""

from __future__ import annotations

import tree_sitter_javascript
from tree_sitter import Language, Parser

_LANGUAGE = Language(tree_sitter_javascript.language())
_HARMLESS = frozenset(
    """program expression_statement parenthesized_expression identifier property_identifier member_expression
    subscript_expression string string_fragment escape_sequence number template_string template_substitution true false
    null undefined this binary_expression unary_expression ternary_expression array object pair spread_element
    shorthand_property_identifier optional_chain regex regex_pattern regex_flags sequence_expression
    computed_property_name""".split()  # noqa: SIM905 - a table of names reads better as text
)


def is_pure(expression: str) -> bool:
    """Whether ``expression`` consists of names, members, literals and operators alone, ``delete`` excepted.

    A getter of the script can still run code; that is taken for harmless, as it is when a debugger shows it.
    """
    tree = Parser(_LANGUAGE).parse(b"(" + expression.encode("utf-8", "replace") + b"\n)")
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        if node.is_named and node.type not in _HARMLESS:
            return False
        if node.type == "delete":
            return False
        stack.extend(node.children)
    return not tree.root_node.has_error
