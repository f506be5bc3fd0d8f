from __future__ import annotations

import pytest

from workflows_core.script.analysis import Analysis


def free_names(script: str) -> list[str]:
    analysis = Analysis(script)
    return sorted({analysis.text(node) for node in analysis.scopes.globals})


@pytest.mark.parametrize(
    ("script", "free"),
    [
        ("a; let b; b;", ["a"]),
        ("f(); function f() {}", ["f"][1:]),
        ("{ let a; } a;", ["a"]),
        ("{ var a; } a;", []),
        ("{ function g() {} } g();", ["g"]),
        ("const {a, b: c, d: {e = z}, ...r} = q; [a, b, c, d, e, r];", ["b", "d", "q", "z"]),
        ("const [a, , b = a, ...c] = q; [a, b, c];", ["q"]),
        ("for (const x of y) x; x;", ["x", "y"]),
        ("for (let i = 0; i < n; i++) i; i;", ["i", "n"]),
        ("for (var v in o) ; v;", ["o"]),
        ("for (w of y) ;", ["w", "y"]),
        ("try { a } catch ({message}) { message } message;", ["a", "message"]),
        ("try { a } catch { e }", ["a", "e"]),
        ("const f = (a, {b}, [c], ...d) => [a, b, c, d]; a;", ["a"]),
        ("const f = x => x; (async y => y)(x);", ["x"]),
        ("const f = function g() { g; }; g;", ["g"]),
        ("class A { m() { A; } } A; const B = class C { m() { C; } }; C;", ["C"]),
        ("switch (a) { case b: let c; default: c; } c;", ["a", "b", "c"]),
        ("label: for (;;) break label;", []),
        ("({a, b: c, [d]: e, m(f) { f; }, ...g});", ["a", "c", "d", "e", "g"]),
        ("a.b.c[d];", ["a", "d"]),
        ("({x, y: z} = o); [p, q.r] = o;", ["o", "p", "q", "x", "z"]),
        ("class A { static { var v = 1; v; } } v;", ["v"]),
        ("function f(a, b = a) { return arguments; }", ["arguments"]),
    ],
)
def test_free_names(script: str, free: list[str]) -> None:
    assert free_names(script) == free


def test_reads_and_writes_are_told_apart() -> None:
    analysis = Analysis("let a = 1; a = 2; a += 3; a++; [a] = b; for (a of c) ; f(a); ({a}); ({k: a} = d);")
    binding = next(b for b in analysis.scopes.bindings if b.name == "a")
    assert len(binding.writes) == 6
    assert len(binding.reads) == 4


@pytest.mark.parametrize(
    ("script", "known"),
    [
        ("const f = () => 1; f;", True),
        ("let f; f = () => 1; f;", True),
        ("let f = () => 1; f = 2; f;", False),
        ("function f() {} f;", True),
        ("function f() {} f = 1; f;", False),
        ("function f() {} function f() {} f;", False),
        ("const {f} = g; f;", False),
    ],
)
def test_a_name_that_always_means_one_function(script: str, known: bool) -> None:
    analysis = Analysis(script)
    binding = next(b for b in analysis.scopes.bindings if b.name == "f")
    assert (binding.function is not None) is known
