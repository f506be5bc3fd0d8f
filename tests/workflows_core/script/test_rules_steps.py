from __future__ import annotations

import pytest

from workflows_core.script.check import apply_fix

from .marked import check_marked, expanded, problems_of

DUPLICATES = [
    "await ASK('a'); await ASK('b');",
    "await ASK('a');\nawait ASK(⟦duplicate-step⟧'a');",
    "await ASK('a'); await ASK(⟦duplicate-step⟧`a`); await ASK(⟦duplicate-step⟧\"a\");",
    "const id = 'a'; await ASK('a'); await ASK(⟦duplicate-step⟧id);",
    "await parallel([() => ASK('a'), () => ASK(⟦duplicate-step⟧'a')]);",
    "const d = await ASK('a'); await OK(⟦duplicate-step⟧'a', 'a', d.artifactVersion);",
    "await pause({stepId: 'a'}); await ASK(⟦duplicate-step⟧'a');",
    "const d = await ASK('a'); return await captureArtifact({stepId: ⟦duplicate-step⟧'a', sourceStepId: 'a', path: 'x'});",
    "const f = () => ASK('a'); await f(); await ASK(⟦duplicate-step⟧'a');",
    "await ASK(`a-${args.x}`); await ASK(`a-${args.x}`);",
    "function agent(x) { return x; } ASK('a'); ASK('a');",
    "if (args.x) { await ASK('a'); } await ASK(⟦duplicate-step⟧'a');",
]


@pytest.mark.parametrize("text", DUPLICATES)
def test_the_same_step_id_twice_is_an_error(text: str) -> None:
    assert {problem.severity for problem in check_marked(text)} <= {"error"}


EXCLUSIVE = [
    "if (args.x) { await ASK('a'); } else { await ASK(⟦duplicate-step⟧'a'); }",
    "if (args.x) { return await ASK('a'); }\nreturn await ASK(⟦duplicate-step⟧'a');",
    "return args.x ? await ASK('a') : await ASK(⟦duplicate-step⟧'a');",
    "switch (args.x) { case 1: await ASK('a'); break; default: await ASK(⟦duplicate-step⟧'a'); }",
]


@pytest.mark.parametrize("text", EXCLUSIVE)
def test_where_only_one_can_run_it_is_a_warning(text: str) -> None:
    (problem,) = check_marked(text)
    assert problem.severity == "warning"


def test_a_case_that_falls_through_is_not_exclusive() -> None:
    (problem,) = check_marked(
        "switch (args.x) { case 1: await ASK('a'); default: await ASK(⟦duplicate-step⟧'a'); }"
    )
    assert problem.severity == "error"


INVALID = [
    "await ASK('Az09_-');",
    f"await ASK('{'x' * 80}');",
    f"await ASK(⟦invalid-step-id⟧'{'x' * 81}');",
    "await ASK(⟦invalid-step-id⟧'');",
    "await ASK(⟦invalid-step-id⟧'a b');",
    "await ASK(⟦invalid-step-id⟧'é');",
    "await ASK(⟦invalid-step-id⟧'a\\n');",
    "await ASK(⟦invalid-step-id⟧7);",
    "await ASK(⟦invalid-step-id⟧null);",
    "await ASK(⟦invalid-step-id⟧`check ${args.x}`);",
    "await ASK(⟦invalid-step-id⟧'check ' + args.x);",
    "await ASK('check-' + args.x + `-${args.y}`);",
    "await ASK(args.map['a b']);",
    "await ASK(args.x === 'a b' ? 'a' : 'b');",
    "const id = 'a b'; await ASK(⟦invalid-step-id⟧id);",
    "await pause({stepId: ⟦invalid-step-id⟧'a/b'}); await ASK('a');",
    "await captureArtifact({stepId: 'c', sourceStepId: ⟦invalid-step-id⟧'a b', path: 'x'}); await ASK(args.x);",
]


@pytest.mark.parametrize("text", INVALID)
def test_invalid_step_ids(text: str) -> None:
    check_marked(text)


LOOPS = [
    "for (let i = 0; i < 3; i++) await ASK(`a-${i}`);",
    "for (let i = 0; i < 3; i++) await ASK('a-' + i);",
    "for (const x of args.items) await ASK(x.id);",
    "for (const x of args.items) { const id = `a-${x.id}`; await ASK(id); }",
    "for (const {id} of args.items) await ASK(id);",
    "for (const k in args.items) await ASK(k);",
    "let n = 0; while (n < 3) { n++; await ASK(`a-${n}`); }",
    "let n = 0; while (n < 3) await ASK(`a-${n++}`);",
    "let n = 0; const next = () => `a-${n++}`; while (n < 3) await ASK(next());",
    "let n = 0; const step = () => { n++; }; while (n < 3) { step(); await ASK(`a-${n}`); }",
    "const s = {n: 0}; while (s.n < 3) { s.n++; await ASK(`a-${s.n}`); }",
    "args.items.map((x, i) => () => ASK(`a-${i}`));",
    "for (const x of args.a) for (const y of args.b) await ASK(`a-${x}-${y}`);",
    "for (const x of args.a) for (const y of x.list) await ASK(`a-${y}`);",
    "for (;;) { await ASK('a'); break; }",
    "while (args.x) { return await ASK('a'); }",
    "for (const x of args.a) { if (x) { await ASK('a'); break; } }",
    "for (const x of ['only']) await ASK('a');",
    "for (let i = 0; i < 1; i++) await ASK('a');",
    "for (const x of [await ASK('a')]) log(x);",
    "for (let x = await ASK('a'); args.y; ) log(x);",
    "['x'].map(() => () => ASK('a'));",
    "for (const x of args.a) await ASK(⟦loop-step⟧'a');",
    "for (let i = 0; i < 3; i++) { await ASK(⟦loop-step⟧'a'); }",
    "for (let i = 0; i < 3; i++) { await ASK(⟦loop-step⟧`a-${args.id}`); }",
    "const id = args.x; while (args.y) await ASK(⟦loop-step⟧id);",
    "const id = args.x; while (args.y) await ASK(⟦loop-step⟧String(id).trim());",
    "do { await ASK(⟦loop-step⟧'a'); } while (args.x);",
    "for (const x of args.a) for (const y of args.b) await ASK(⟦loop-step⟧`a-${y}`);",
    "for (const x of args.a) for (let j = 0; j < 2; j++) await ASK(⟦loop-step⟧`a-${j}`);",
    "for (const x of args.a) { const id = `a-${args.n}`; await ASK(⟦loop-step⟧id); }",
    "await parallel(args.items.map(() => () => ASK(⟦loop-step⟧'a')));",
    "await parallel(Array.from({length: 3}, () => () => ASK(⟦loop-step⟧'a')));",
    "const work = []; for (const x of args.a) work.push(() => ASK(⟦loop-step⟧'a')); await parallel(work);",
    "for (const x of args.a) { await pause({stepId: ⟦loop-step⟧'p'}); await ASK(x); }",
    "while (args.x) { try { await ASK(⟦loop-step⟧'a'); break; } catch { log('again'); } }",
]


@pytest.mark.parametrize("text", LOOPS)
def test_step_ids_in_loops(text: str) -> None:
    check_marked(text)


SOURCES = [
    "const d = await ASK('d'); await OK('h', 'd', d.artifactVersion); await ASK('e');",
    "const d = await ASK(args.id); await OK('h', 'anything', d.artifactVersion); await ASK('e');",
    "const d = await ASK('doc'); await OK('h', ⟦unknown-step⟧'dok', d.artifactVersion); await ASK('e');",
    "const d = await ASK('d'), e = await ASK('e'); await OK('h', 'd', ⟦unknown-step⟧e.artifactVersion); await ASK('f'); return d;",
    "const d = await ASK('d'); const c = await captureArtifact({stepId: 'c', sourceStepId: 'd', path: 'r.md'}); await OK('h', 'c', c.artifactVersion); await ASK('e');",
    "await ASK('d'); return await captureArtifact({stepId: 'c', sourceStepId: ⟦unknown-step⟧'x', path: 'r.md'});",
]


@pytest.mark.parametrize("text", SOURCES)
def test_source_steps(text: str) -> None:
    check_marked(text)


FIXES = [
    ("duplicate-step", "await ASK('a'); await ASK('a');", "await ASK('a'); await ASK('a-2');"),
    (
        "duplicate-step",
        "await ASK('a'); await ASK('a-2'); await ASK('a');",
        "await ASK('a'); await ASK('a-2'); await ASK('a-3');",
    ),
    ("invalid-step-id", "await ASK('a b/c');", "await ASK('a-b-c');"),
    ("invalid-step-id", "await ASK('');", "await ASK('step');"),
    ("invalid-step-id", "await ASK('é');", "await ASK('step');"),
    ("invalid-step-id", f"await ASK('{'x' * 90}');", f"await ASK('{'x' * 80}');"),
    ("invalid-step-id", "await ASK('a-b'); await ASK('a b');", "await ASK('a-b'); await ASK('a-b-2');"),
    ("invalid-step-id", "await ASK(`a b ${args.x}/c`);", "await ASK(`a-b-${args.x}-c`);"),
    ("invalid-step-id", "await ASK('a b' + args.x);", "await ASK('a-b' + args.x);"),
    (
        "loop-step",
        "for (let i = 0; i < 3; i++) await ASK('a');",
        "for (let i = 0; i < 3; i++) await ASK(`a-${i}`);",
    ),
    (
        "loop-step",
        "for (const x of ['p', 'q']) await ASK('a');",
        "for (const x of ['p', 'q']) await ASK(`a-${x}`);",
    ),
    (
        "loop-step",
        "await parallel(args.l.map((x, i) => () => ASK('a')));",
        "await parallel(args.l.map((x, i) => () => ASK(`a-${i}`)));",
    ),
    (
        "unknown-step",
        "const d = await ASK('doc'); await OK('h', 'dok', d.artifactVersion); await ASK('e');",
        "const d = await ASK('doc'); await OK('h', 'doc', d.artifactVersion); await ASK('e');",
    ),
    (
        "unknown-step",
        "const d = await ASK('d'), e = await ASK('e'); await OK('h', 'd', e.artifactVersion); await ASK('f'); return d;",
        "const d = await ASK('d'), e = await ASK('e'); await OK('h', 'e', e.artifactVersion); await ASK('f'); return d;",
    ),
]


@pytest.mark.parametrize(("rule", "text", "fixed"), FIXES)
def test_fixes(rule: str, text: str, fixed: str) -> None:
    script = expanded(text)
    (problem,) = problems_of(script)
    assert problem.rule == rule
    assert problem.fix is not None
    assert apply_fix(script, problem.fix) == expanded(fixed)
    assert problems_of(expanded(fixed)) == []


def test_a_fixed_step_id_takes_its_references_along() -> None:
    script = expanded(
        "const d = await ASK('my doc'); await OK('h', 'my doc', d.artifactVersion); await ASK('e');"
    )
    problem = next(p for p in problems_of(script) if p.rule == "invalid-step-id")
    assert problem.fix is not None
    fixed = apply_fix(script, problem.fix)
    assert fixed.count("'my-doc'") == 2
    assert problems_of(fixed) == []


@pytest.mark.parametrize(
    "text",
    [
        "for (const x of args.items) await ASK('a');",
        "while (args.x) await ASK('a');",
        "const id = 'a'; for (let i = 0; i < 3; i++) await ASK(id);",
        "await parallel(args.l.map(x => () => ASK('a')));",
        "const d = await ASK('a'); await OK('h', 'a', d.artifactVersion); await ASK('a');",
        "const id = 'a b'; await ASK(id);",
    ],
)
def test_no_fix_is_offered_where_none_is_safe(text: str) -> None:
    assert all(problem.fix is None for problem in problems_of(expanded(text)))
