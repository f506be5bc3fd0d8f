from __future__ import annotations

import pytest

from workflows_core.script.check import apply_fix

from .marked import check_marked, expanded, problems_of

KEPT = [
    "await ASK('a');",
    "return ASK('a');",
    "const r = ASK('a'); return await r;",
    "const p = ASK('a'); const q = ASK('b'); return [await p, await q];",
    "return await Promise.all([ASK('a'), ASK('b')]);",
    "const l = [ASK('a'), ASK('b')]; return await Promise.all(l);",
    "const l = []; l.push(ASK('a')); await Promise.all(l);",
    "const l = []; l.push(ASK('a')); for (const p of l) await p;",
    "const l = []; l.push(ASK('a')); args.f(l);",
    "await ASK('a').then(r => r.output);",
    "await ASK('a').catch(() => null);",
    "const p = ASK('a').then(r => r.output).catch(() => null); return await p;",
    "await Promise.all(args.l.map((x, i) => ASK(`a-${i}`)));",
    "const l = args.l.map((x, i) => ASK(`a-${i}`)); return await Promise.all(l);",
    "const ask = id => ASK(id); return await ask('a');",
    "const ask = async id => { await ASK(id); }; await ask('a'); await Promise.all([ask('b')]);",
    "async function ask(id) { return ASK(id); } return ask('a');",
    "await (async () => { await ASK('a'); })();",
    "args.f(ASK('a'));",
    "const o = {p: ASK('a')}; return await o.p;",
    "let p; p = ASK('a'); await p;",
    "await (args.x ? ASK('a') : ASK('b'));",
    "args.x && await ASK('a');",
    "log('x');",
    "const quiet = async () => { log('x'); }; await quiet(); void quiet(); return quiet();",
    "const quiet = async () => { log('x'); }; quiet().catch(() => null); quiet().then(log, log);",
    "const quiet = async () => { log('x'); }; const p = quiet(); await ASK('a'); await p;",
    "const lines = async function* () { yield 1; }; lines(); function plain() { return 1; } plain();",
    "void Promise.all([1]); Promise.reject(1).catch(log); await Promise.race([1]); Promise.resolve(1);",
    "const Promise = {reject: log}; Promise.reject(1);",
    "await parallel([() => (async () => { log('x'); })()]);",
    "await parallel([() => ASK('a'), async () => { const r = await ASK('b'); return r.output; }]);",
    "for await (const r of [ASK('a')]) log(r);",
    "await args.l.reduce(async (before, x) => { await before; await ASK(x); }, null);",
]


@pytest.mark.parametrize("text", KEPT)
def test_promises_that_are_kept(text: str) -> None:
    check_marked(text)


DROPPED = [
    "⟦dropped-promise⟧ASK('a');",
    "  ⟦dropped-promise⟧ASK('a')",
    "void ⟦dropped-promise⟧ASK('a');",
    "⟦dropped-promise⟧pause({stepId: 'p'}); await ASK('a');",
    "⟦dropped-promise⟧parallel([() => ASK('a')]);",
    "⟦dropped-promise⟧readArtifact({artifactVersion: args.v});",
    "⟦dropped-promise⟧ASK('a').then(r => log(r.output));",
    "⟦dropped-promise⟧ASK('a').catch(() => null).finally(() => log('x'));",
    "args.x && ⟦dropped-promise⟧ASK('a');",
    "args.x ? ⟦dropped-promise⟧ASK('a') : log('b');",
    "log('b'), ⟦dropped-promise⟧ASK('a');",
    "const r = (args.x ? ⟦dropped-promise⟧ASK('a') : null); return 1;",
    "args.x ?? (args.y || ⟦dropped-promise⟧ASK('a'));",
    "⟦dropped-promise⟧ASK('a'), log('b');",
    "const r = ⟦dropped-promise⟧ASK('a'); return 1;",
    "let r; r = ⟦dropped-promise⟧ASK('a');",
    "⟦dropped-promise⟧Promise.all([ASK('a'), ASK('b')]);",
    "⟦dropped-promise⟧[ASK('a'), ASK('b')];",
    "await ⟦dropped-promise⟧[ASK('a'), ASK('b')];",
    "const l = ⟦dropped-promise⟧[ASK('a'), ASK('b')]; return 1;",
    "const l = ⟦dropped-promise⟧[ASK('a'), ASK('b')]; await l;",
    "const l = []; l.push(⟦dropped-promise⟧ASK('a')); return l.length;",
    "const l = []; l.push(⟦dropped-promise⟧ASK('a')); await l;",
    "⟦dropped-promise⟧args.l.map((x, i) => ASK(`a-${i}`));",
    "await ⟦dropped-promise⟧args.l.map(async (x, i) => { await ASK(`a-${i}`); });",
    "⟦dropped-promise⟧args.l.forEach(async (x, i) => { await ASK(`a-${i}`); });",
    "⟦dropped-promise⟧args.l.forEach((x, i) => ASK(`a-${i}`));",
    "return ⟦dropped-promise⟧args.l.filter(async (x, i) => (await ASK(`a-${i}`)).output);",
    "args.l.forEach((x, i) => { ⟦dropped-promise⟧ASK(`a-${i}`); });",
    "const ask = async id => { await ASK(id); }; ⟦dropped-promise⟧ask('a');",
    "const ask = id => ASK(id); ⟦dropped-promise⟧ask('a');",
    "function ask(id) { return ASK(id); } ⟦dropped-promise⟧ask('a');",
    "⟦dropped-promise⟧(async () => { await ASK('a'); })();",
    "async function f() { ⟦dropped-promise⟧ASK('a'); } await f();",
    "const ß = '😀'; ⟦dropped-promise⟧ASK('a');",
    "const p = ⟦dropped-promise⟧ASK('a').then(r => log(r.output)); return 1;",
    "⟦dropped-promise⟧(async () => { throw new Error('x'); })();",
    "⟦dropped-promise⟧(async function () { log('x'); })().finally(() => log('y'));",
    "const quiet = async () => { log('x'); }; ⟦dropped-promise⟧quiet();",
    "const quiet = async function () { log('x'); }; ⟦dropped-promise⟧quiet().then(log);",
    "async function quiet() { log('x'); } ⟦dropped-promise⟧quiet(); args.x && ⟦dropped-promise⟧quiet();",
    "async function quiet() { log('x'); } const p = ⟦dropped-promise⟧quiet(); return 1;",
    "⟦dropped-promise⟧Promise.reject(new Error('x'));",
    "⟦dropped-promise⟧Promise.all(args.l); ⟦dropped-promise⟧Promise.race([1]);",
    "⟦dropped-promise⟧Promise.allSettled([1]); ⟦dropped-promise⟧Promise.any(args.l).then(log);",
]


@pytest.mark.parametrize("text", DROPPED)
def test_promises_that_are_dropped(text: str) -> None:
    assert {problem.severity for problem in check_marked(text)} == {"warning"}


MISREAD = [
    "return (await ASK('a')).output;",
    "const r = await ASK('a'); return r.output;",
    "const p = ASK('a'); const r = await p; return r.output;",
    "const p = ASK('a'); p.then(log); await p;",
    "const {output} = await ASK('a'); return output;",
    "return ⟦missing-await⟧ASK('a').output;",
    "const r = ⟦missing-await⟧ASK('a'); return r.output;",
    "const r = ⟦missing-await⟧ASK('a'); return [r.output, r.runId];",
    "const p = ASK('a'); const r = await p; return [r.output, ⟦missing-await⟧p.output];",
    "const {output} = ⟦missing-await⟧ASK('a'); return output;",
    "const [a, b] = ⟦missing-await⟧parallel([() => ASK('a'), () => ASK('b')]); return [a, b];",
    "const l = ⟦missing-await⟧parallel([() => ASK('a')]); return l[0].output;",
    "const l = ⟦missing-await⟧parallel([() => ASK('a')]); return l.map(r => r.output);",
    "for (const r of ⟦missing-await⟧parallel([() => ASK('a')])) log(r);",
    "const ask = id => ASK(id); return ⟦missing-await⟧ask('a').output;",
    "return (⟦missing-await⟧ASK('a')).output;",
]


@pytest.mark.parametrize("text", MISREAD)
def test_results_read_before_they_are_there(text: str) -> None:
    check_marked(text.replace("(⟦missing-await⟧ASK", "⟦missing-await⟧(ASK"))


FIXES = [
    ("dropped-promise", "ASK('a');", "await ASK('a');"),
    ("dropped-promise", "void ASK('a');", "void await ASK('a');"),
    ("dropped-promise", "ASK('a').then(log);", "await ASK('a').then(log);"),
    ("dropped-promise", "args.x && ASK('a');", "args.x && await ASK('a');"),
    ("dropped-promise", "args.x ? ASK('a') : 1;", "args.x ? await ASK('a') : 1;"),
    ("dropped-promise", "log('b'), ASK('a');", "log('b'), await ASK('a');"),
    ("dropped-promise", "(async () => { await ASK('a'); })();", "await (async () => { await ASK('a'); })();"),
    ("dropped-promise", "const r = ASK('a');", "const r = await ASK('a');"),
    ("dropped-promise", "Promise.all([ASK('a')]);", "await Promise.all([ASK('a')]);"),
    ("dropped-promise", "await [ASK('a')];", "await Promise.all([ASK('a')]);"),
    ("dropped-promise", "const l = [ASK('a')];", "const l = await Promise.all([ASK('a')]);"),
    (
        "dropped-promise",
        "args.l.map((x, i) => ASK(`a-${i}`));",
        "await Promise.all(args.l.map((x, i) => ASK(`a-${i}`)));",
    ),
    (
        "dropped-promise",
        "async function f() { ASK('a'); } await f();",
        "async function f() { await ASK('a'); } await f();",
    ),
    ("dropped-promise", "(async () => { log('x'); })();", "await (async () => { log('x'); })();"),
    ("dropped-promise", "Promise.reject(1).finally(log);", "await Promise.reject(1).finally(log);"),
    ("dropped-promise", "Promise.all(args.l);", "await Promise.all(args.l);"),
    (
        "dropped-promise",
        "async function f() { log('x'); } args.l.forEach(async () => { f(); });",
        "async function f() { log('x'); } args.l.forEach(async () => { await f(); });",
    ),
    ("missing-await", "return ASK('a').output;", "return (await ASK('a')).output;"),
    ("missing-await", "const r = ASK('a'); return r.output;", "const r = await ASK('a'); return r.output;"),
    (
        "missing-await",
        "const {output: o} = ASK('a'); return o;",
        "const {output: o} = await ASK('a'); return o;",
    ),
    (
        "missing-await",
        "const p = ASK('a'); await p; return p.output;",
        "const p = ASK('a'); await p; return (await p).output;",
    ),
    (
        "missing-await",
        "for (const r of parallel([() => ASK('a')])) log(r);",
        "for (const r of await parallel([() => ASK('a')])) log(r);",
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


@pytest.mark.parametrize(
    "text",
    [
        "function f() { ASK('a'); } f();",
        "function f() { Promise.reject(1); } f();",
        "args.l.forEach((x, i) => { ASK(`a-${i}`); });",
        "args.l.forEach(async (x, i) => { await ASK(`a-${i}`); });",
        "const l = []; l.push(ASK('a')); return l.length;",
    ],
)
def test_no_fix_is_offered_where_none_is_safe(text: str) -> None:
    assert [problem.fix for problem in problems_of(expanded(text))] == [None]
