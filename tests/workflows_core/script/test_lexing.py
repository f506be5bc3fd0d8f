from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workflows_core.script.lexing import blanked, scan
from workflows_core.script.source import Source
from workflows_core.script.tree import build


def kinds(script: str) -> list[str]:
    """The kinds of the script's statements; of an expression statement, the kind of the expression."""
    statements = build(Source(script)).children
    return [s.children[0].kind if s.kind == "expression_statement" else s.kind for s in statements]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("await\nf()", ["await_expression"]),
        ("await // why\nf()", ["await_expression"]),
        ("await /* a\nb */ f()", ["await_expression"]),
        ("let\nx = 1", ["lexical_declaration"]),
        ("let // x\n[a] = b", ["lexical_declaration"]),
        ("await (f)(x)", ["await_expression"]),
        ("await (async () => 1)()", ["await_expression"]),
        ("await (f).g[0]", ["await_expression"]),
        ("await [f][0]()", ["await_expression"]),
        ("void (f)(x)", ["unary_expression"]),
        ("o.let\nf()", ["member_expression", "call_expression"]),
        ("a // c\n(b)", ["call_expression"]),
        ("a /* c */\n(b)", ["call_expression"]),
        ("return /*\n*/ 1", ["return_statement", "number"]),
        ("return // c\n1", ["return_statement", "number"]),
        ("a\n/* c */ ++b", ["identifier", "update_expression"]),
        ("a\n// c\n`t`", ["call_expression"]),
        ("x <!-- y\nz", ["identifier", "identifier"]),
        ("x\n--> y\nz", ["identifier", "identifier"]),
        ("x --> y", ["binary_expression"]),
    ],
)
def test_statements_end_where_the_engine_ends_them(script: str, expected: list[str]) -> None:
    assert kinds(script) == expected


@pytest.mark.parametrize(
    ("script", "comments"),
    [
        ("a // b\nc", [(2, 6)]),
        ("/* a */ b /* c */", [(0, 7), (10, 17)]),
        ("'// a' + `/* b */` + /[/*]/", []),
        ("`${a /* b */}`", [(5, 12)]),
        ("a / b // c", [(6, 10)]),
        ("if (a) /b\\/\\/c/.d // e", [(18, 22)]),
        ("a <!-- b", [(2, 8)]),
        ("a\n --> b", [(3, 8)]),
        ("a --> b", []),
    ],
)
def test_comments_are_found_where_they_are(script: str, comments: list[tuple[int, int]]) -> None:
    assert scan(script).comments == comments


@pytest.mark.parametrize(
    ("script", "field", "index"),
    [
        ("a }", "closer", 2),
        ("(a }", "mismatch", 3),
        ("f({a: [1]", "unclosed", 2),
        ("a /* b", "unterminated", 2),
        ("a + `b${c", "unclosed", 4),
        ("a + `b", "unterminated", 4),
    ],
)
def test_brackets_that_do_not_match_are_located(script: str, field: str, index: int) -> None:
    assert getattr(scan(script), field) == index


@given(st.text(alphabet="a/*<!->`${}'\"\\\n\r\u2028 é😀()await let", max_size=60))
@settings(max_examples=400, deadline=None)
def test_blanking_keeps_every_byte_position(script: str) -> None:
    found = scan(script)
    copy = blanked(script, found.comments, found.joins)
    assert len(copy) == len(script.encode())
    inside = {i for start, end in found.comments for i in range(start, end)} | set(found.joins)
    offset = 0
    for index, char in enumerate(script):
        size = len(char.encode())
        piece = copy[offset : offset + size]
        if index not in inside:
            assert piece == char.encode()
        else:
            assert piece in (b"\n", b" " * size)
        offset += size
