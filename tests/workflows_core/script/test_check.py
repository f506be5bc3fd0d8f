from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workflows_core.script.check import (
    RULES,
    Edit,
    Fix,
    Problem,
    api_completions,
    api_steps,
    apply_fix,
    calls_bound,
    check_script,
    check_static,
)

from .marked import expanded, problems_of

ASK = "await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});"


def rules(problems: list[Problem]) -> list[str]:
    return [problem.rule for problem in problems]


# -- sizes and arguments


def test_a_script_over_its_limit_is_one_problem_at_its_start() -> None:
    fits = "// " + "x" * (16_000 - 2 - 3)
    assert problems_of(fits) == []
    (problem,) = problems_of(fits + "x")
    assert (problem.rule, problem.severity, problem.line, problem.column) == (
        "script-too-large",
        "error",
        1,
        1,
    )
    assert "16,001 bytes" in problem.message


def test_the_limit_counts_the_bytes_of_the_json_encoding() -> None:
    assert rules(problems_of("// " + "é" * 7998)) == ["script-too-large"]
    assert rules(problems_of("//" + "\n" * 7998)) == []
    assert rules(problems_of("//" + "\n" * 7999)) == ["script-too-large"]


def test_text_far_over_the_limit_is_not_analysed() -> None:
    assert rules(problems_of("}" * 1_000_000)) == ["script-too-large"]


@pytest.mark.parametrize(
    ("args", "rule"),
    [
        ({}, None),
        ({"a": "x" * 3992}, None),
        ({"a": "x" * 3993}, "args-too-large"),
        ({"a": float("nan")}, "invalid-args"),
        ({"a": "\ud800"}, "invalid-args"),
        ([1], "invalid-args"),
        ("text", "invalid-args"),
        ({"a": object()}, "invalid-args"),
    ],
)
def test_arguments(args: object, rule: str | None) -> None:
    assert rules(problems_of(ASK, args=args)) == ([rule] if rule else [])


def test_a_refused_script_gets_no_other_rule() -> None:
    problems = problems_of("agent({});\n}); evil(); (async () => {")
    assert [(p.rule, p.line, p.column) for p in problems] == [("one-function-body", 2, 1)]
    assert not problems[0].message.startswith("line")
    assert rules(problems_of("agent({'\ud800': 1});")) == ["not-text"]


def test_problems_come_in_the_order_of_their_places() -> None:
    problems = problems_of("console.log(1);\nagent({});\nDate.now(); fetch();")
    places = [(p.line, p.column) for p in problems]
    assert len(places) == 5
    assert places == sorted(places)


def test_a_script_that_tree_sitter_reads_in_part_gets_only_the_rules_about_single_calls() -> None:
    script = (
        "String.raw`\\u{ }`; Date.now(); agent({stepId: 'a b', agentRef: 'x', task: 1}); return 1; log(2);"
    )
    assert rules(problems_of(script)) == ["invalid-step-id", "unknown-agent"]


EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.js")), ids=lambda path: path.name)
def test_the_examples_have_no_problems(path: Path) -> None:
    assert problems_of(path.read_text()) == []


# -- the table of rules


def test_every_rule_that_is_reported_is_in_the_table_and_the_other_way_round() -> None:
    package = Path(sys.modules["workflows_core.script.check"].__file__ or "").parent
    sources = "".join(path.read_text() for path in [*package.glob("*.py"), *package.glob("rules/*.py")])
    used = set(re.findall(r"""(?:report|Problem)\(\s*"([a-z-]+)",""", sources)) | {
        "not-text",
        "one-function-body",
    }
    assert used == set(RULES)


def test_every_rule_has_one_line_that_says_what_it_is_for() -> None:
    for info in RULES.values():
        assert info.summary.endswith(".")
        assert "\n" not in info.summary
        assert info.severity in ("error", "warning")


# -- fixes


def test_fixes_are_applied_by_character_and_in_any_order() -> None:
    fix = Fix("x", (Edit(1, 2, 1, 2, "<"), Edit(2, 1, 2, 3, "π"), Edit(1, 3, 1, 4, ">")))
    assert apply_fix("é😀x\nßß!", fix) == "é<😀>\nπ!"


def test_a_fix_that_lies_outside_is_moved_inside() -> None:
    assert apply_fix("ab", Fix("x", (Edit(9, 9, 9, 9, "!"),))) == "ab!"
    assert apply_fix("", Fix("x", (Edit(1, 1, 1, 5, "!"),))) == "!"


SNIPPETS = st.sampled_from(
    [
        expanded(text)
        for text in """
        ASK('a');
        await ASK('b c');
        const r = ASK('r'); log(r.output);
        if (args.x) { ASK('d'); }
        for (let i = 0; i < 2; i++) { await ASK('e'); }
        for (const x of args.l) { await ASK(`f ${x}`); }
        await parallel([ASK('g'), () => ASK('h')]);
        await parallel(args.l.map((x, i) => ASK(`i-${i}`)));
        console.log('é😀');
        await agent({stepID: 'j', agentRef: 'lead', task: 1});
        await agent({stepId: 'k', task: 1});
        const d = await ASK('doc'); await agent({stepId: 'l', agentRef: 'lead_agent', task: 1, artifacts: [d.artifactVersion]});
        await pause({stepId: 'm'});
        const f = async () => { ASK('n'); }; await f();
        [ASK('o'), ASK('p')];
        export const q = 1;
        throw new Error('x');
        try { await ASK('s'); } catch (error) { log(error.message); } finally { log('t'); }
        switch (args.x) { case 1: ASK('u'); break; default: await ASK('v'); }
        const l = []; l.push(ASK('w')); log(l.length);
        """.strip().splitlines()
        for text in [text.strip()]
    ]
)


@given(st.lists(SNIPPETS, min_size=1, max_size=5))
@settings(max_examples=150, deadline=None)
def test_a_fix_removes_its_problem_and_adds_no_error(parts: list[str]) -> None:
    script = "\n".join("{ " + part + " }" if "export" not in part else part for part in parts)
    before = problems_of(script)
    for problem in before:
        if problem.fix is None:
            continue
        after = problems_of(apply_fix(script, problem.fix))
        assert rules(after).count(problem.rule) < rules(before).count(problem.rule), (script, problem)
        new = {p.rule for p in after if p.severity == "error"} - {p.rule for p in before}
        # A step whose id becomes valid can turn out to be used in a loop or twice, which is a problem of its own.
        assert new <= {"duplicate-step", "unapproved-artifact"}, (script, problem, after)


# -- any text


WORDS = st.sampled_from(
    [
        "}",
        "{",
        "(",
        ")",
        "[",
        "]",
        ";",
        ",",
        "`",
        "${",
        "'",
        '"',
        "/",
        "/(a+)+$/",
        "x",
        "y",
        "=",
        "=>",
        "if(x)",
        "else",
        "return",
        "await",
        "let",
        "const",
        "class",
        "A",
        "a:",
        "for(const_of_z)",
        "while(1)",
        "x++",
        "\\",
        "'a'",
        "`t`",
        "`${x}`",
        "1",
        "+",
        "&&",
        "??",
        "?",
        ":",
        "case",
        "of",
        "in",
        "typeof",
        "é",
        "😀",
        ".",
        "?.",
        "...",
        "throw",
        "try",
        "catch(e)",
        "finally",
        "switch(x)",
        "new",
        "async",
        "function",
        "f(a)",
        "f()",
        "parallel([",
        "()=>",
        "artifacts:",
        "args.q",
        "break",
        "continue",
        ".map(",
        ".forEach(",
        "Promise.all(",
        "void",
        "import",
        "export",
        "require('x')",
        "Date",
        "agent(",
        "pause({stepId:'p'})",
        "agent({stepId:'a',agentRef:'lead_agent',task:1})",
        "�",
        "humanCheckpoint({stepId:'h',sourceStepId:'a',artifactVersion:x.artifactVersion})",
        "/*",
        "*/",
        "//",
        "<!--",
        "-->",
        "await(",
    ]
)


def assert_total(script: str) -> None:
    lines = script.split("\n")
    for problem in problems_of(script, args={"q": 1}):
        assert problem.rule in RULES
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
        assert problem.message
        if problem.fix is not None:
            assert isinstance(apply_fix(script, problem.fix), str)
    calls, is_open = calls_bound(script)
    assert calls >= 0
    assert is_open in (True, False)
    for site in api_steps(script):
        assert 1 <= site.line <= len(lines)
    assert api_completions(script)


@given(st.lists(WORDS, max_size=30), st.sampled_from(["", " ", "\n"]))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_soup_of_words_gives_problems_inside_and_no_exception(words: list[str], glue: str) -> None:
    assert_total(glue.join(words))


@given(st.text(max_size=80))
@settings(max_examples=200, deadline=None)
def test_any_text_gives_problems_inside_and_no_exception(script: str) -> None:
    assert_total(script)


def nested(opened: str, middle: str, closed: str, times: int) -> str:
    return opened * times + middle + closed * times


@pytest.mark.parametrize(
    "script",
    [
        nested("(", "x", ")", 2000),
        nested("[", "", "]", 2000),
        nested("{", "", "}", 2000),
        nested("if(x){", "y;", "}", 1000),
        nested("f(()=>", "1", ")", 1000),
        nested("try{return;", "x", "}finally{y}", 400),
        nested("`${", "x", "}`", 1500),
        nested("const f=async()=>{await agent({});", "f()", "};f();", 200),
        "!" * 4000 + "x",
        "a?b:" * 1500 + "c",
        "a+" * 3000 + "a",
        "if(x){}else " * 800 + "{}",
        "for(;;)" * 1200 + ";",
        "const [" + "[" * 800 + "x" + "]" * 800 + "] = y;",
        "".join(f"async function f{i}(){{await f{i + 1}()}};" for i in range(300)) + "f0();",
        "let a0 = 1;" + "".join(f"let a{i} = a{i - 1};" for i in range(1, 600)),
        "const l=[];" + "l.push(agent({}));" * 200,
        "".join(f"b{i};" for i in range(800)),
        "await agent({});await pause({stepId:'p'});" * 100,
    ],
    ids=lambda script: script[:12],
)
def test_deep_and_wide_scripts_are_survived(script: str) -> None:
    assert_total(script)


# -- with the engine


async def engine_problems(script: str) -> list[Problem]:
    return await check_script(script, agents=["lead_agent"], max_calls=16)


async def test_a_good_script_passes_the_engine_too() -> None:
    assert await engine_problems(ASK + "\nreturn {π: 1};") == []


@pytest.mark.parametrize(
    ("script", "line", "column"),
    [
        ("const a = ;\nreturn 1;", 1, 11),
        ("return 1;\n  let a = 1, a = 2;", 2, 16),
        ("/* é😀 */ return x y;", 1, 19),
        ("return @;", 1, 8),
        ("return 'x", 1, 8),
    ],
)
async def test_the_engine_reports_syntax_at_its_place(script: str, line: int, column: int) -> None:
    found = [problem for problem in await engine_problems(script) if problem.rule == "syntax"]
    assert [(problem.severity, problem.line, problem.column) for problem in found] == [
        ("error", line, column)
    ]
    assert found[0].message.startswith("SyntaxError: ")


async def test_a_bracket_that_is_not_closed_is_named() -> None:
    (problem,) = await engine_problems("log(1);\nif (args.x) {\n  log(2);\n")
    assert problem.rule == "syntax"
    assert problem.message.endswith("; '{' was opened at line 2, column 13")


async def test_the_engine_is_not_asked_about_a_refused_script() -> None:
    assert rules(await engine_problems("}); evil(); (async () => {")) == ["one-function-body"]
    assert rules(await engine_problems("\ud800")) == ["not-text"]
    assert rules(await engine_problems("//" + "x" * 20_000)) == ["script-too-large"]


async def test_static_problems_and_syntax_come_together_in_order() -> None:
    problems = await engine_problems(
        "await agent({stepId: 'a b', agentRef: 'lead_agent', task: 1});\nlet a, a;"
    )
    assert rules(problems) == ["invalid-step-id", "syntax"]


def test_a_check_by_reading_loads_neither_the_worker_nor_asyncio_servers() -> None:
    code = (
        "import sys; from workflows_core.script.check import check_static;"
        "check_static('return 1', agents=None, max_calls=1);"
        "assert 'workflows_core.worker' not in sys.modules, 'worker'; assert 'asyncio' not in sys.modules, 'asyncio'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_agents_none_admits_any_name() -> None:
    script = ASK.replace("lead_agent", "anyone")
    assert check_static(script, agents=None, max_calls=16) == []
    assert rules(check_static(script, agents=set(), max_calls=16)) == ["unknown-agent"]
