"""Probes: each statement form keeps its meaning, each statement has its place, and places lead back."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workflows_core.journal.recording import record
from workflows_core.errors import ScriptRefused
from workflows_core.journal.debugger import Debugger
from workflows_core.script.instrument import Instrumented, InstrumentRefused, instrument
from workflows_core.script.source import prove_function_body
from workflows_core.worker.process import compile_script

from .scripts import generated

P = "#"  # stands for a probe


def probed(script: str) -> str:
    """The script with its probes, each shortened to ``#``."""
    made = instrument(script)
    text = made.script
    for site in made.sites:
        text = text.replace(f"{made.probe}({site.number})&&{made.probe}({made.probe}=>eval({made.probe}))", P)
    return text


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("a;", "#;a;"),
        ("a\nb", "#;a\n#;b"),
        ("'use strict'\na", "'use strict'\n#;a"),
        ("'use strict'; 'more'; a", "'use strict'; 'more'; #;a"),
        ("function f() { 'use strict'; a }", "function f() { 'use strict'; #;a }"),
        (";;", ";;"),
        ("if (a) b", "#;if (a) {#;b}"),
        ("if (a) b // c\nelse d /* e */", "#;if (a) {#;b} // c\nelse {#;d} /* e */"),
        ("if (a) b; else if (c) d; else e", "#;if (a) {#;b;} else {#;if (c) {#;d;} else {#;e}}"),
        ("if (a) if (b) c; else d", "#;if (a) {#;if (b) {#;c;} else {#;d}}"),
        ("if (a) {} else {}", "#;if (a) {} else {}"),
        ("if (a);", "#;if (a);"),
        ("for (;;) a", "#;for (;;) {#;a}"),
        ("for (const x of y) a\nb", "#;for (const x of y) {#;a}\n#;b"),
        ("for (const x in y) { a }", "#;for (const x in y) { #;a }"),
        ("while (a) b++\nc", "#;while (a) {#;b++}\n#;c"),
        ("do a\nwhile (b)\nc", "#;do {#;a}\nwhile (b)\n#;c"),
        ("do a++; while (b) c", "#;do {#;a++;} while (b) #;c"),
        ("x: for (;;) { continue x }", "#;x: for (;;) { #;continue x }"),
        ("x: y: for (;;) break x", "#;x: y: for (;;) {#;break x}"),
        ("for (;;) x: for (;;) break x", "#;for (;;) {#;x: for (;;) {#;break x}}"),
        ("switch (a) { case 1: case 2: b; c; break; default: d }", "#;switch (a) { case 1: case 2: #;b; #;c; #;break; default: #;d }"),
        ("try { a } catch { b } finally { c }", "#;try { #;a } catch { #;b } finally { #;c }"),
        ("const f = x => y", "#;const f = x => (#,y)"),
        ("const f = x => ({})", "#;const f = x => (#,({}))"),
        ("const f = x => y => z", "#;const f = x => (#,y => (#,z))"),
        ("if (a) f = x => y\nb", "#;if (a) {#;f = x => (#,y)}\n#;b"),
        ("const f = async x => await y", "#;const f = async x => (#,await y)"),
        ("function* g() { yield a }", "function* g() { #;yield a }"),
        ("class A { static { a } m() { b } get g() { return c } f = () => d }", "#;class A { static { #;a } m() { #;b } get g() { #;return c } f = () => (#,d) }"),
        ("const t = `a${(() => { b })()}`", "#;const t = `a${(() => { #;b })()}`"),
        ("await\nagent()\nlet\nx = 1", "#;await\nagent()\n#;let\nx = 1"),
        ("a\n/* c */ b", "#;a\n/* c */ #;b"),
        ("{ function f() {} a }", "#;{ function f() {} #;a }"),
        ("throw a", "#;throw a"),
        ("async\na", "#;async\n#;a"),
        ("a = await\nb()\n{} /'/.test(c)", "#;a = await\nb()\n#;{} #;/'/.test(c)"),
        ("let\na = {} / 2 // '", "#;let\na = {} / 2 // '"),
        ("if (a) b <!-- c\n{} /`/.d; e", "#;if (a) {#;b} <!-- c\n#;{} #;/`/.d; #;e"),
    ],
)  # fmt: skip
def test_where_probes_stand(script: str, expected: str) -> None:
    assert probed(script) == expected


async def test_the_probe_has_a_name_that_the_script_does_not_hold() -> None:
    made = instrument("const __p = 1, __p1x = '__p2'; return __p")
    assert made.probe == "__p3"
    assert await compile_script(f"const {made.probe} = () => 0; {made.script}") is None


def test_sites_know_their_place_and_the_names_in_sight() -> None:
    made = instrument(
        "const ä = 1;\nfor (const i of [ä]) {\n  const f = (p) => { return p + i };\n  f(i) }\n"
    )
    places = {(site.line, site.column, site.end_line, site.end_column) for site in made.sites}
    assert places == {(1, 1, 1, 13), (2, 1, 4, 9), (3, 3, 3, 37), (3, 22, 3, 34), (4, 3, 4, 7)}
    inner = next(site for site in made.sites if site.column == 22)
    assert [(name.name, name.kind, name.scope) for name in inner.names] == [
        ("p", "param", "arrow function"), ("f", "const", "block"), ("i", "const", "loop"), ("ä", "const", "script"),
    ]  # fmt: skip
    number = made.site_at(3, 30)
    assert number is not None and made.sites[number] == inner
    assert made.site_at(9, 1) is None
    assert {made.sites[number].line for number in made.sites_on(2)} == {2}
    assert made.sites_on(5) == []


def test_the_innermost_of_two_names_is_the_one_in_sight() -> None:
    made = instrument("let x = 1; function f(x) { { let x = 2; g() } } try {} catch (x) { h() }")
    first = {site.column: site.names[0] for site in made.sites}
    assert first[41].scope == "block"
    assert first[68].scope == "catch"


@pytest.mark.parametrize("script", ["a; b", "if (ä) bc; else de", "const f = x => y => z;\nab\nif (x) y"])
def test_every_place_leads_back(script: str) -> None:
    made = instrument(script)
    for line, (old, new) in enumerate(zip(script.split("\n"), made.script.split("\n"), strict=True), 1):
        left = 0
        for column in range(1, len(new) + 1):
            at_line, at = made.original(line, column)
            assert at_line == line and 1 <= at <= len(old) + 1
            assert at >= left
            left = at
            assert new[column - 1] == old[at - 1 : at] or new[column - 1] in "_p()&=>eval0123456789,;{}"
        assert left in (len(old), len(old) + 1)


@pytest.mark.parametrize("script", ["return (", "}); evil(); (async () => {", "a b", "a <!-- `\n{} /`/.b"])
def test_what_is_not_understood_is_refused(script: str) -> None:
    with pytest.raises(InstrumentRefused):
        instrument(script)


@pytest.mark.parametrize(
    "script",
    [
        "{" * 7_000 + "}" * 7_000,
        "x=>" * 5_000 + "1",
        "if (a) " * 2_200 + "b()",
        "".join(f"{{let v{n};" for n in range(1_200)) + "}" * 1_200,
    ],
    ids=["blocks", "arrows", "ifs", "names"],
)
def test_the_work_grows_with_the_script_and_not_with_its_depth(script: str) -> None:
    events = 0

    def count(*_: object) -> None:
        nonlocal events
        events += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        made = instrument.__wrapped__(script)
    finally:
        sys.setprofile(before)
    assert made.sites
    assert events < 200 * len(script)


async def agrees(script: str) -> bool:
    """Whether the probed script asks what the plain one asks, all variables captured; None-like False otherwise."""
    frames = await record(script)
    debugger = await Debugger.open(script, frames)
    try:
        return debugger.level == "statements" and debugger.diverged is None
    finally:
        await debugger.close()


@given(st.integers(0, 1 << 32))
@settings(max_examples=12, deadline=None)
async def test_generated_scripts_ask_the_same_with_probes(seed: int) -> None:
    try:
        assert await agrees(generated(seed)), seed
    except ScriptRefused:
        pass  # not every text that is generated is a script; most are


def test_most_generated_scripts_compile_and_keep_compiling() -> None:
    """The tree of the instrumented text is whole wherever that of the script is."""
    understood = 0
    for seed in range(150):
        script = generated(seed)
        try:
            prove_function_body(script)
            made = instrument(script)
        except (ScriptRefused, InstrumentRefused):
            continue
        understood += 1
        prove_function_body(made.script)
        assert isinstance(made, Instrumented)
    assert understood > 130


@pytest.mark.soak
async def test_two_thousand_generated_scripts_ask_the_same_with_probes() -> None:
    agreed = 0
    for seed in range(2_000):
        try:
            assert await agrees(generated(seed)), seed
        except ScriptRefused:
            continue
        agreed += 1
    assert agreed > 1_800
