from __future__ import annotations

import _quickjs
import pytest

from workflows_core.limits import Limits
from workflows_core.script.api import API, GLOBALS, INSTEAD
from workflows_core.script.check import apply_fix
from workflows_core.worker.process import Worker

from .marked import check_marked, expanded, problems_of

NAMES = [
    "return Object.keys(args).map(String).concat([Math.max(1, NaN), undefined, Infinity]);",
    "return typeof Date === 'undefined' ? 1 : typeof process;",
    "const Date = args.date; return Date.now();",
    "function fetch() { return 1; } return fetch();",
    "return (console => console.log(1))(args.c);",
    "return {Date: 1, console: 2}.Date + args.process;",
    "return Math.floor(1.5) + Math['max'](1);",
    "try { log(1); } catch (error) { log(error.message); }",
    "function f() { return arguments.length; } return f();",
    "setTimeout: for (;;) break setTimeout;",
    "return new Map([[1, new Set()]]), new Uint8Array(2), JSON.stringify(1), globalThis.JSON;",
    "return ⟦unknown-name⟧Date.now();",
    "return new ⟦unknown-name⟧Date();",
    "return ⟦unknown-name⟧Math.random();",
    "return ⟦unknown-name⟧Math['random']();",
    "return ⟦unknown-name⟧globalThis.fetch('x');",
    "⟦unknown-name⟧console.log('x');",
    "⟦unknown-name⟧setTimeout(() => 1, 10);",
    "await ⟦unknown-name⟧fetch('x');",
    "return ⟦unknown-name⟧process.env.HOME;",
    "return {⟦unknown-name⟧Date};",
    "return [⟦unknown-name⟧arguments, () => ⟦unknown-name⟧arguments];",
    "const f = () => { const Date = 1; return Date; }; return ⟦unknown-name⟧Date;",
    "{ let x = 1; log(x); } return ⟦unknown-name⟧x;",
    "await ⟦unknown-name⟧agnet({});",
    "const total = 1; return ⟦unknown-name⟧totl;",
    "⟦unknown-name⟧x = 1;",
    "for (⟦unknown-name⟧x of [1]) log(1);",
    "const é = 1; /* 😀 */ return ⟦unknown-name⟧Buffer.from('x');",
]


@pytest.mark.parametrize("text", NAMES)
def test_names_a_script_does_not_have(text: str) -> None:
    assert all(problem.severity == "warning" for problem in check_marked(text))


@pytest.mark.parametrize("name", [name for name in INSTEAD if "." not in name and name != "arguments"])
def test_every_unavailable_name_says_what_to_use_instead(name: str) -> None:
    (problem,) = problems_of(f"return {name};")
    assert problem.rule == "unknown-name"
    assert problem.message == f"a script has no {name}: {INSTEAD[name]}"


def test_the_tables_of_names_do_not_overlap_and_match_the_engine() -> None:
    assert not GLOBALS & set(INSTEAD)
    assert not GLOBALS & set(API)
    has = set(_quickjs.Context().eval("Object.getOwnPropertyNames(globalThis).join(' ')").split())
    assert has >= GLOBALS


MODULES = [
    "const {require: r} = args; return r;",
    "const require = args.f; require('x');",
    "const module = {exports: 1}; return module.exports;",
    "return '// import x from y';",
    "⟦module-syntax⟧import x from 'y';",
    "⟦module-syntax⟧import 'y';",
    "⟦module-syntax⟧import {a, b as c} from 'y';",
    "const x = await ⟦module-syntax⟧import('y');",
    "return ⟦module-syntax⟧import.meta.url;",
    "⟦module-syntax⟧export const a = 1;",
    "⟦module-syntax⟧export default async function main() {}",
    "⟦module-syntax⟧export {};",
    "const fs = ⟦module-syntax⟧require('fs');",
    "⟦module-syntax⟧module.exports = 1;",
    "⟦module-syntax⟧exports.a = 1;",
]


@pytest.mark.parametrize("text", MODULES)
def test_module_syntax(text: str) -> None:
    assert {problem.severity for problem in check_marked(text)} <= {"error"}


ARGS = [
    "const x = {...args}; x.a = 1; return x;",
    "const {a = 1} = args; return a;",
    "const args = {}; args.a = 1;",
    "const o = {}; o[args.key] = 1; return o;",
    "return args.a === 1;",
    "⟦frozen-args⟧args.a = 1;",
    "⟦frozen-args⟧args.a.b[0] ??= 1;",
    "⟦frozen-args⟧args.n++;",
    "⟦frozen-args⟧args = {};",
    "delete ⟦frozen-args⟧args.a;",
    "[⟦frozen-args⟧args.a] = [1];",
]


@pytest.mark.parametrize("text", ARGS)
def test_frozen_arguments(text: str) -> None:
    check_marked(text)


REGEXES = [
    "return /^[a-z]+(-[a-z]+)*$/.test(args.x);",
    "const RegExp = args.r; return new RegExp('(a+)+$');",
    "return new RegExp(args.pattern);",
    "return '(a+)+$';",
    "return ⟦slow-regex⟧/^(a+)+$/.test(args.x);",
    "return args.x.replace(⟦slow-regex⟧/(\\w+\\s?)+$/giu, '');",
    "return ⟦slow-regex⟧new RegExp('^(a|a)*$');",
    "return ⟦slow-regex⟧RegExp('(a|A)+$', 'i');",
    "const p = '(\\\\d+)*$'; return ⟦slow-regex⟧new RegExp(p + 'x');",
    "const ß = '😀'; return ⟦slow-regex⟧/(x+x+)+y/;",
]


@pytest.mark.parametrize("text", REGEXES)
def test_regular_expressions(text: str) -> None:
    check_marked(text)


FIXES = [
    ("unknown-name", "console.log('x');", "log('x');"),
    ("unknown-name", "console.error(args.a + 1);", "log(args.a + 1);"),
    ("unknown-name", "return await agnt;", "return await agent;"),
    ("unknown-name", "const total = 1; return totl;", "const total = 1; return total;"),
    ("module-syntax", "export const a = 1; return a;", "const a = 1; return a;"),
    ("module-syntax", "export function f() {}", "function f() {}"),
    ("module-syntax", "const a = 1; export default a;", "const a = 1; return a;"),
]


@pytest.mark.parametrize(("rule", "text", "fixed"), FIXES)
def test_fixes(rule: str, text: str, fixed: str) -> None:
    script = expanded(text)
    (problem,) = problems_of(script)
    assert problem.rule == rule
    assert problem.fix is not None
    assert apply_fix(script, problem.fix) == fixed
    assert problems_of(fixed) == []


@pytest.mark.parametrize(
    "script",
    [
        "console.log(1, 2);",
        "console.log(...args.x);",
        "const log = 1; console.log(log);",
        "return console;",
        "x = 1;",
        "return Date;",
        "export default 1; return 2;",
    ],
)
def test_no_fix_is_offered_where_none_is_safe(script: str) -> None:
    assert [problem.fix for problem in problems_of(script)] == [None]


async def test_the_names_a_script_has_are_exactly_those_of_its_worker() -> None:
    script = "return Object.getOwnPropertyNames(globalThis).join(' ');"
    worker = await Worker.start(script=script, args=b"{}", limits=Limits())
    try:
        turn = await worker.first_turn()
    finally:
        await worker.close()
    assert turn.end is not None
    assert turn.end.ok
    assert set(turn.end.value.split()) == {*GLOBALS, *API, "args"}
