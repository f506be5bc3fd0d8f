from __future__ import annotations

from typing import Any

import pytest

from workflows_core.script.analysis import Analysis
from workflows_core.script.constant import UNKNOWN


def value(expression: str, before: str = "", args: Any = UNKNOWN) -> Any:
    analysis = Analysis(f"{before}\nreturn ({expression});", args)
    statement = analysis.root.children[-1]
    return analysis.constants.value(statement.children[0])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'a\\n\\x41\\u0042\\u{1F600}\\'b'", "a\nAB😀'b"),
        ("'\\ud83d\\ude00'", "😀"),
        ("'a\\\nb'", "ab"),
        ('"\\q"', "q"),
        ("`a\r\nb`", "a\nb"),
        ("`${1}-${'b'}-${true}-${null}`", "1-b-true-null"),
        ("1_000", 1000),
        ("0x1f", 31),
        ("0b101 + 0o17", 20),
        ("1.5e3", 1500),
        ("-2.5", -2.5),
        ("'a' + 1 + 'b'", "a1b"),
        ("2 * 3 - 1", 5),
        ("{a: 1, 'b c': [true, null], 2: 'x', ['d']: 4}", {"a": 1, "b c": [True, None], "2": "x", "d": 4}),
        ("[1, ...[2, 3], 4]", [1, 2, 3, 4]),
        ("{...{a: 1}, b: 2}", {"a": 1, "b": 2}),
        ("'ab'.repeat(3)", "ababab"),
        ("['a', 1].join('-')", "a-1"),
        ("[1, 2, 3].length", 3),
        ("'😀'.length", 2),
        ("{a: {b: 1}}.a.b", 1),
        ("[5, 6][1]", 6),
        ("!true", False),
    ],
)
def test_what_javascript_computes_is_computed(expression: str, expected: Any) -> None:
    found = value(expression)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "expression",
    [
        "f()",
        "x",
        "10n",
        "0x1n",
        "undefined",
        "[,1]",
        "{m() {}}",
        "{__proto__: 1}",
        "() => 1",
        "/a/",
        "`${f()}`",
        "1 / 3",
        "'a'.repeat(-1)",
        "[1][2]",
        "{}.a",
        "1e400 + 1",
        "12345678901234567890",
        "new A",
        "await f()",
        "{get a() {}}",
    ],
)
def test_what_is_not_certain_is_unknown(expression: str) -> None:
    assert value(expression) is UNKNOWN


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("const a = 'x';", "x"),
        ("let a = 'x';", "x"),
        ("let a = 'x'; a = 'y';", UNKNOWN),
        ("const b = 'x', a = b + b;", "xx"),
        ("const a = [1];", [1]),
        ("const a = [1]; a.push(2);", UNKNOWN),
        ("const a = {b: 1}; a.b = 2;", UNKNOWN),
        ("const a = {b: {c: 1}}; a.b.c++;", UNKNOWN),
        ("const a = [1]; f(a);", UNKNOWN),
        ("const a = [1]; const b = a[0];", [1]),
        ("const a = a;", UNKNOWN),
    ],
)
def test_names_are_followed_where_they_never_change(before: str, expected: Any) -> None:
    assert value("a", before) == expected


def test_arguments_are_used_where_they_are_known() -> None:
    assert value("args.a[0].b", args={"a": [{"b": 7}]}) == 7
    assert value("args.missing", args={}) is UNKNOWN
    assert value("args.a") is UNKNOWN
    assert value("args.a", "const args = {a: 1};", args={"a": 2}) == 1


def test_text_past_every_limit_is_cut_and_not_built() -> None:
    found = value("'abc'.repeat(1000000000)")
    assert 1 << 20 < len(found) < 1 << 22
    nested = "'" + "a" * 100 + "'" + ".repeat(1000)" * 12
    assert value(nested) is UNKNOWN or len(value(nested)) < 1 << 25


def test_a_very_deep_expression_is_unknown_and_no_error() -> None:
    assert value("1" + " + 1" * 3000) is UNKNOWN
