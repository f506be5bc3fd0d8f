from __future__ import annotations

import hashlib

import _quickjs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workflows_core.errors import ScriptRefused
from workflows_core.script.source import (
    PREFIX,
    SUFFIX,
    Source,
    parse,
    prove_function_body,
    script_bytes,
    script_hash,
)


def test_the_hash_is_sha256_of_the_utf8_text() -> None:
    assert script_hash("return 'é';") == hashlib.sha256("return 'é';".encode()).hexdigest()


@pytest.mark.parametrize(
    ("script", "size"),
    [("", 2), ("abc", 5), ('"', 4), ("\n", 4), ("é", 4), ("😀", 6), ("\0", 8), ("\\", 4)],
)
def test_the_size_is_that_of_the_json_encoding(script: str, size: int) -> None:
    assert script_bytes(script) == size


def test_a_lone_surrogate_is_refused_with_its_place() -> None:
    for use in (script_hash, script_bytes, prove_function_body):
        with pytest.raises(ScriptRefused) as caught:
            use("let a;\n  '\udc00';")
        assert (caught.value.line, caught.value.column) == (2, 4)
        assert caught.value.code == "not_text"


def test_columns_count_characters_and_not_bytes() -> None:
    source = Source("é😀x\n  ß=1")
    assert source.position(len("é😀".encode())) == (1, 3)
    assert source.position(len("é😀x\n  ß".encode())) == (2, 4)
    assert source.position(10_000) == (2, 6)
    assert source.position(-5) == (1, 1)


@given(st.text(alphabet="aé😀\n\r ", max_size=30))
@settings(max_examples=100, deadline=None)
def test_offsets_and_positions_agree(script: str) -> None:
    source = Source(script)
    for index in range(len(script) + 1):
        offset = len(script[:index].encode())
        line, column = source.position(offset)
        assert source.character_position(index) == (line, column)
        assert source.offset(line, column) == offset


def test_an_offset_outside_is_moved_inside() -> None:
    source = Source("ab\ncd")
    assert source.offset(0, 0) == 0
    assert source.offset(1, 99) == 2
    assert source.offset(9, 9) == 5


# -- the proof

ONE_BODY = [
    "",
    "return 1;",
    "// only a comment",
    "return 1; // at the end",
    "/* a */ return 1 /* b */",
    "const a = {b: [1, {c: 2}]}; function f() { return () => ({}); }",
    "if (x) { while (y) { switch (z) { case 1: { break; } } } }",
    "return '}); evil(); (async () => {';",
    'return "}); evil(); (async () => {";',
    "return `}); evil(); (async () => {`;",
    "return `${`${'}'}`}`;",
    "return /[}]\\}/.test(x);",
    "// }); evil(); (async () => {",
    "/* }); evil(); (async () => { */",
    "<!-- }); evil(); (async () => {",
    "x <!-- }); evil(); (async () => {",
    "x\n--> }); evil(); (async () => {",
    "/* a */ --> }); evil(); (async () => {",
    "/*\n*/ --> }); evil(); (async () => {",
    "while (n --> 0) { n; }",
    "const a = b / c; const d = e / f; // }",
    "const a = (b) / 2; const c = x++ / 3; const d = y[0] / 4 /* } */;",
    "if (x) /}/.test(y);",
    "return typeof /}/;",
    "{}\n/}/.test(x);",
    "for await (const a of b) /}/.exec(a);",
    "a.return / 2; b.if / 3 /* } */;",
    "class A { static #x = 1; static { this.#x; } get y() { return /}/; } }",
    "return await\nagent({});",
    "let\nx = 1; return x;",
    "label: for (;;) { break label; }",
    "const {a, ...b} = c, [d = {}] = e;",
    "return a?.b?.[c] ?? d;",
    "return 0x1F + 1_000 + 1e+5 + .5 + 5. + 10n;",
    "return tag`a${{b: '}'}.b}c`;",
    "'a\\\n}b';",
    "return \u2028 1;",
    "const π = 1; const \\u{61}b = 2;",
]


@pytest.mark.parametrize("script", ONE_BODY)
def test_one_function_body_is_admitted(script: str) -> None:
    assert _engine_sees_one_function(script), "the example itself must be one function body for the engine"
    prove_function_body(script)


ESCAPES = [
    ("}); evil(); (async () => {", 1, 1),
    ("return 1;\n}); evil(); (async () => {", 2, 1),
    ("}, async () => {", 1, 1),
    ("  }, () => { evil(); }, async () => {", 1, 3),
    ("if (x) { y(); }\n  } }); evil(); (() => { {", 2, 3),
    ("return `${1}`; }); evil(); (() => {", 1, 16),
    ("return /[/]/; }); evil(); (() => {", 1, 15),
    ("return '\\''; }); evil(); (() => {", 1, 14),
    ("// }\n}); evil(); (() => {", 2, 1),
    ("/* } */ }); evil(); (() => {", 1, 9),
    ("<!-- }\n}); evil(); (() => {", 2, 1),
    ("é😀 }); evil(); (() => {", 1, 4),
    ("})", 1, 1),
    ("}", 1, 1),
    (")", 1, 1),
    ("]", 1, 1),
    ("evil(); } //", 1, 9),
    ("})(); (async () => { /*", 1, 1),
    ("});\n/*", 1, 1),
    ("return 1; /*", 1, 11),
    ("return 1; /* }); (", 1, 11),
    ("let a;\nreturn `abc", 2, 8),
    ("return `${a} b", 1, 8),
    ("x = `${`", 1, 8),
    ("return `${`inner` + 1} b", 1, 8),
]


@pytest.mark.parametrize(("script", "line", "column"), ESCAPES)
def test_what_closes_the_function_is_refused_with_its_place(script: str, line: int, column: int) -> None:
    with pytest.raises(ScriptRefused) as caught:
        prove_function_body(script)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.code == "one_function_body"
    assert f"line {line}, column {column}" in str(caught.value)


@pytest.mark.parametrize("script", ["return `${a", "foo(", "if (x) {", "'abc", "/[", "foo(}", "@@", "#!x"])
def test_what_closes_nothing_is_left_to_the_engine(script: str) -> None:
    prove_function_body(script)
    assert not _engine_sees_one_function(script)


@pytest.mark.parametrize("script", ["return String.raw`\\u{ }`; // }", "const a = () => {}\n/b}/.test(c);"])
def test_what_tree_sitter_cannot_parse_and_the_engine_can_is_admitted(script: str) -> None:
    assert not parse(script).whole
    assert _engine_sees_one_function(script)
    prove_function_body(script)


def test_a_doubtful_slash_after_a_brace_is_not_held_against_a_script() -> None:
    script = "const a = {valueOf() { return 4; }} / 2; return /}/.test(a) && @;"
    assert not parse(script).scan.certain
    prove_function_body(script)


def _engine_sees_one_function(script: str) -> bool:
    """Ask the engine: the function that the wrapper makes must reach from the wrapper's start to its end."""
    wrapped = PREFIX.decode() + script + SUFFIX.decode()
    try:
        text = _quickjs.Context().eval(wrapped + ".toString()")
    except Exception as error:  # noqa: BLE001 - the binding has one class for every failure of a script
        assert "Error" in repr(error)
        return False
    return bool(text == wrapped[1:-1])


PIECES = st.sampled_from(
    [
        "}",
        "{",
        "(",
        ")",
        "[",
        "]",
        "})",
        ";",
        "});",
        "evil()",
        "x",
        "y",
        "=",
        "=>",
        ",",
        "/*",
        "*/",
        "//",
        "<!--",
        "-->",
        "`",
        "${",
        "'",
        '"',
        "/",
        "/a/",
        "/[/]/",
        "\\",
        "1",
        "+",
        "?",
        ":",
        ".",
        "...",
        "if",
        "else",
        "return",
        "await",
        "let",
        "const",
        "class",
        "function",
        "async",
        "of",
        "in",
        "typeof",
        "case",
        "do",
        "try",
        "catch",
        "'a'",
        "`t`",
        "`${x}`",
        "++",
        "é",
        "😀",
        "\n",
        " ",
        "\r",
        "\u2028",
        "async () => {",
        "async m() {",
        "(async () => {",
    ]
)


@given(st.lists(PIECES, max_size=12), st.sampled_from(["", " "]))
@settings(max_examples=1500, deadline=None)
def test_the_proof_agrees_with_the_engine_on_any_soup(pieces: list[str], glue: str) -> None:
    script = glue.join(pieces)
    wrapped = PREFIX.decode() + script + SUFFIX.decode()
    try:
        text = _quickjs.Context().eval("throw 0;" + wrapped) or ""
    except Exception as error:  # noqa: BLE001 - the binding has one class for every failure of a script
        compiles = "SyntaxError" not in repr(error)
    else:
        raise AssertionError(text)
    if not compiles:
        return
    if _engine_sees_one_function(script):
        prove_function_body(script)
    else:
        with pytest.raises(ScriptRefused):
            prove_function_body(script)


STATEMENTS = st.recursive(
    st.sampled_from(
        [
            "x = 1;",
            "// note }\n",
            "/* note } */",
            "y = '}';",
            "z = `}${'}'}`;",
            "w = /[}/]/.test(x);",
            "log(a / b / c);",
            "const q = await f();",
            "return;",
            "<!-- }\n",
        ]
    ),
    lambda inner: st.one_of(
        inner.map(lambda s: "{" + s + "}\n"),
        inner.map(lambda s: "if (x) {" + s + "} else {" + s + "}"),
        inner.map(lambda s: "for (const a of b) {" + s + "}"),
        inner.map(lambda s: "f(async () => {" + s + "});"),
        inner.map(lambda s: "`${(() => {" + s + "})()}`;"),
        inner.map(lambda s: "({ m() {" + s + "} });"),
        st.tuples(inner, inner).map("\n".join),
    ),
    max_leaves=8,
)


@given(
    STATEMENTS,
    STATEMENTS,
    st.sampled_from(["}); {} ({", "}); (async () => {", "}, async () => {", "})(), (() => {"]),
)
@settings(max_examples=150, deadline=None)
def test_generated_bodies_pass_and_the_same_bodies_as_escapes_do_not(
    before: str, after: str, escape: str
) -> None:
    prove_function_body(before)
    prove_function_body(before + "\n" + after)
    with pytest.raises(ScriptRefused) as caught:
        prove_function_body(before + "\n" + escape + "\n" + after)
    line = caught.value.line
    assert line is not None
    assert line == before.count("\n") + 2


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_the_proof_is_total_and_places_are_inside(script: str) -> None:
    try:
        prove_function_body(script)
    except ScriptRefused as error:
        lines = script.split("\n")
        assert error.line is not None and error.column is not None
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
