from __future__ import annotations

import pytest

from workflows_core.script.check import apply_fix

from .marked import check_marked, expanded, problems_of

DEAD = [
    "return 1;",
    "if (args.x) return 1; return 2;",
    "return f(); function f() { return 1; }",
    "return x; var x;",
    "switch (args.x) { case 1: return 1; break; default: return 2; }",
    "for (;;) { if (args.x) break; }\nreturn 1;",
    "a: for (;;) { for (;;) { break a; } }\nreturn 1;",
    "try { return 1; } catch { log('x'); }\nreturn 2;",
    "try { return 1; } finally { log('x'); }",
    "do { if (args.x) continue; return 1; } while (args.y);\nreturn 2;",
    "while (args.x) { continue; }\nreturn 1;",
    "const f = () => { throw new Error('x'); }; f();",
    "return 1;\n⟦unreachable-code⟧log('x');\nlog('y');",
    "throw new Error('x');\n⟦unreachable-code⟧log('x');",
    "if (args.x) { return 1; ⟦unreachable-code⟧log('x'); }\nreturn 2;",
    "if (args.x) { return 1; } else { return 2; }\n⟦unreachable-code⟧log('x');",
    "for (const x of args.l) { break; ⟦unreachable-code⟧log(x); }",
    "for (const x of args.l) { continue; ⟦unreachable-code⟧log(x); }",
    "for (;;) { log('x'); }\n⟦unreachable-code⟧return 1;",
    "while (true) log('x');\n⟦unreachable-code⟧return 1;",
    "do { log('x'); } while (1);\n⟦unreachable-code⟧return 1;",
    "if (false) { ⟦unreachable-code⟧log('x'); }",
    "if (true) { log('x'); } else { ⟦unreachable-code⟧log('y'); }",
    "while (0) ⟦unreachable-code⟧log('x');",
    "switch (args.x) { case 1: return 1; ⟦unreachable-code⟧log('x'); default: log('y'); }",
    "try { return 1; } finally { return 2; }\n⟦unreachable-code⟧log('x');",
    "try { throw 1; ⟦unreachable-code⟧log('x'); } catch { log('y'); }",
    "const f = () => { return 1; ⟦unreachable-code⟧log('x'); }; return f();",
    "return 1;\nfunction f() { return 2; }\n⟦unreachable-code⟧log('x');",
    "return 1; ⟦unreachable-code⟧if (args.x) { log('x'); } else { log('y'); }",
]


@pytest.mark.parametrize("text", DEAD)
def test_code_that_never_runs(text: str) -> None:
    check_marked(text)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("return 1;\nlog('x');", "this never runs: the return at line 1 comes before it"),
        ("for (;;) ;\nlog('x');", "this never runs: the loop at line 1 never ends"),
        ("if (false) log('x');", "this never runs: no path leads here"),
        ("if (args.x) return 1; else return 2;\nlog('x');", "this never runs: every path leaves at line 1"),
    ],
)
def test_dead_code_says_why(script: str, message: str) -> None:
    assert [problem.message for problem in problems_of(script)] == [message]


WAITS = [
    "if (args.x) { await pause({stepId: 'p'}); } await ASK('a');",
    "const ask = async () => { await pause({stepId: 'p'}); }; await ask(); await ASK('a');",
    "const o = {ask: async () => { await pause({stepId: 'p'}); }}; await o.ask(); await ASK('a');",
    "class A { async m() { await pause({stepId: 'p'}); } } await new A().m(); await ASK('a');",
    "return 1;\nawait ⟦unreachable-checkpoint⟧pause({stepId: 'p'});",
    "return 1;\n⟦unreachable-code⟧log('x');\nawait ⟦unreachable-checkpoint⟧pause({stepId: 'p'});",
    "let n = 0; while (true) { n++; await ASK(`a-${n}`); }\nawait ⟦unreachable-checkpoint⟧pause({stepId: 'p'});",
    "if (false) await ⟦unreachable-checkpoint⟧pause({stepId: 'p'});",
    "const ask = async () => { await ⟦unreachable-checkpoint⟧pause({stepId: 'p'}); };",
    "async function ask() { await ⟦unreachable-checkpoint⟧pause({stepId: 'p'}); }",
    "async function ask() { await ⟦unreachable-checkpoint⟧pause({stepId: 'p'}); await ask(); }",
]


@pytest.mark.parametrize("text", WAITS)
def test_checkpoints_that_no_path_reaches(text: str) -> None:
    check_marked(text)


PAUSES = [
    "await pause({stepId: 'p'}); await ASK('a');",
    "await ASK('a'); await pause({stepId: 'p'}); await ASK('b');",
    "for (const x of args.l) { await ASK(x); await pause({stepId: `p-${x}`}); }",
    "await ASK('a'); await pause({stepId: 'p'}); await f(); async function f() { await ASK('b'); }",
    "const d = await ASK('a'); await pause({stepId: 'p'}); await OK('h', 'a', d.artifactVersion);",
    "await ASK('a'); if (args.x) { await pause({stepId: 'p'}); } await ASK('b');",
    "await pause({stepId: 'p'}); return 1;",
    "await ASK('a');\n⟦last-pause⟧await pause({stepId: 'p'});",
    "await ASK('a');\n  ⟦last-pause⟧await pause({stepId: 'p'});\n  log('done');\n  return 1;",
    "await ASK('a'); if (args.x) { ⟦last-pause⟧await pause({stepId: 'p'}); return 1; } await ASK('b');",
    "await ASK('a'); return ⟦last-pause⟧pause({stepId: 'p'});",
]


@pytest.mark.parametrize("text", PAUSES)
def test_a_pause_after_the_last_call(text: str) -> None:
    check_marked(text)


def test_more_calls_than_a_run_admits() -> None:
    text = "await ASK('a'); await ASK('b');\nawait ⟦too-many-calls⟧ASK('c'); await ASK('d');"
    (problem,) = check_marked(text, max_calls=2)
    assert problem.message.startswith("this script can make 4 agent() calls and a run admits 2")
    check_marked("await ASK('a'); await ASK('b');", max_calls=2)
    check_marked("for (const x of ['a', 'b', 'c']) await ⟦too-many-calls⟧ASK(x);", max_calls=2)
    check_marked("for (const x of args.l) await ASK(x);", max_calls=2)
    check_marked("if (args.x) { await ASK('a'); await ASK('b'); } else { await ASK('c'); }", max_calls=2)


BESIDE = [
    "await parallel([() => ASK('a')]); await pause({stepId: 'p'}); await ASK('b');",
    "const f = async () => { await pause({stepId: 'p'}); }; await parallel([() => ASK('a')]); await f(); await ASK('b');",
    "await Promise.all([pause({stepId: 'p'})]); await ASK('a');",
    "await parallel([() => ASK('a'), async () => { await ⟦wait-in-parallel⟧pause({stepId: 'p'}); await ASK('b'); }]);",
    "await parallel([() => ⟦wait-in-parallel⟧pause({stepId: 'p'}), () => ASK('b')]);",
    "await parallel([async () => { const d = await ASK('a'); await ⟦wait-in-parallel⟧OK('h', 'a', d.artifactVersion); }]);",
    "await parallel([async () => { const g = async () => { await ⟦wait-in-parallel⟧pause({stepId: 'p'}); }; await g(); }]);",
    "const f = async () => { await ⟦wait-in-parallel⟧pause({stepId: 'p'}); };\nawait parallel([() => f(), () => ASK('a')]);",
    "async function g() { await f(); } async function f() { await ⟦wait-in-parallel⟧pause({stepId: 'p'}); }\nawait parallel([g, () => ASK('a')]);",
    "const work = [() => ASK('a')]; work.push(() => ⟦wait-in-parallel⟧pause({stepId: 'p'})); await parallel(work);",
    "await parallel(args.l.map((x, i) => async () => { await ASK(`a-${i}`); await ⟦wait-in-parallel⟧pause({stepId: `p-${i}`}); }));",
    "await Promise.all([ASK('a'), ⟦wait-in-parallel⟧pause({stepId: 'p'})]);",
]


@pytest.mark.parametrize("text", BESIDE)
def test_waits_beside_other_calls(text: str) -> None:
    for problem in check_marked(text):
        assert problem.severity == "error"


def test_a_wait_reached_through_a_function_names_it() -> None:
    script = expanded(
        "const f = async () => { await pause({stepId: 'p'}); };\nawait parallel([() => f(), () => ASK('a')]);"
    )
    (problem,) = problems_of(script)
    assert "(line 2, through f())" in problem.message


USE = "agent({stepId: 'use', agentRef: 'lead_agent', task: 1, artifacts: [V]});"
DOC = "const d = await ASK('doc');\n"
APPROVE = "await OK('h', 'doc', d.artifactVersion);"
GOOD, BAD = (
    f"await {USE}".replace("V", "d.artifactVersion"),
    f"await {USE}".replace("V", "⟦unapproved-artifact⟧d.artifactVersion"),
)

APPROVED = [
    DOC + APPROVE + GOOD,
    DOC + "await OK('h', args.s, d.artifactVersion);" + GOOD,
    DOC + "await OK('h', 'doc', args.v);" + GOOD,
    DOC + "await OK('h', args.s, args.v);" + GOOD,
    DOC + "if (args.x) { " + APPROVE + " } else { " + APPROVE.replace("'h'", "'h2'") + " }" + GOOD,
    DOC + "if (!args.x) { return 1; } " + APPROVE + GOOD,
    DOC + "if (args.x) { " + APPROVE + GOOD + " }",
    DOC + "if (args.x) { throw 1; } else { " + APPROVE + " }" + GOOD,
    DOC + "if (args.x && await OK('h', 'doc', d.artifactVersion)) { " + GOOD + " }",
    DOC + "if (!await OK('h', 'doc', d.artifactVersion)) { log('x'); } " + GOOD,
    DOC + "try { " + APPROVE + GOOD + " } catch { log('x'); }",
    DOC + "try { " + APPROVE + " } finally { log('x'); }" + GOOD,
    DOC + "try { " + APPROVE + " } catch { return 1; }" + GOOD,
    DOC + "try { " + APPROVE + " } catch (e) { throw e; } finally { log('x'); }" + GOOD,
    DOC + "for (;;) { " + APPROVE + " break; }" + GOOD,
    DOC + "let n = 0; do { n++; await OK(`h-${n}`, 'doc', d.artifactVersion); } while (args.x);" + GOOD,
    DOC + "for (const x of ['a', 'b']) { await OK(x, 'doc', d.artifactVersion); }" + GOOD,
    DOC + "for (let i = 0; i < 2; i++) { await OK(`h-${i}`, 'doc', d.artifactVersion); }" + GOOD,
    DOC + "switch (args.x) { case 1: " + APPROVE + " break; default: return 1; }" + GOOD,
    DOC + "const ask = async () => { " + APPROVE + " }; await ask();" + GOOD,
    DOC + APPROVE + "const use = async () => { " + GOOD + " }; await use();",
    DOC + "const use = async () => { " + GOOD + " };" + APPROVE + "await use();",
    DOC + "async function use() { " + GOOD + " }" + APPROVE + "await use();",
    DOC + APPROVE + "await parallel([() => " + GOOD.removeprefix("await ").removesuffix(";") + "]);",
    DOC
    + "await OK('h', 'doc', d.artifactVersion).then(() => "
    + GOOD.removeprefix("await ").removesuffix(";")
    + ");",
    DOC
    + "const ok = await OK('h', 'doc', d.artifactVersion); await "
    + USE.replace("V", "ok.artifactVersion"),
    DOC + "await " + USE.replace("V", "args.version"),
    "let d = await ASK('doc'); if (args.x) { d = await ASK('doc2'); } await OK('h', args.s, d.artifactVersion);"
    + GOOD,
    "let d; d = await ASK('doc');" + APPROVE + GOOD,
    "const d = await ASK(args.id);" + GOOD,
    DOC + "return d; ⟦unreachable-code⟧" + GOOD,
]


@pytest.mark.parametrize("text", APPROVED)
def test_versions_that_are_approved_on_every_path(text: str) -> None:
    script, expected = expanded(text), "⟦" in text
    found = [p.rule for p in problems_of(script.replace("⟦unreachable-code⟧", ""))]
    assert "unapproved-artifact" not in found
    assert found == (["unreachable-code"] if expected else [])


UNAPPROVED = [
    DOC + BAD,
    DOC + BAD + APPROVE,
    DOC + "if (args.x) { " + APPROVE + " } " + BAD,
    DOC + "if (args.x) { " + APPROVE + " } else { " + BAD + " }",
    DOC + "if (args.x || await OK('h', 'doc', d.artifactVersion)) { " + BAD + " }",
    DOC + "args.x && await OK('h', 'doc', d.artifactVersion); " + BAD,
    DOC + "for (const x of args.l) { await OK(x, 'doc', d.artifactVersion); } " + BAD,
    DOC + "let n = 0; while (n < args.n) { n++; await OK(`h-${n}`, 'doc', d.artifactVersion); } " + BAD,
    DOC + "try { " + APPROVE + " } catch { log('x'); } " + BAD,
    DOC + "switch (args.x) { case 1: " + APPROVE + " break; case 2: log('x'); } " + BAD,
    DOC + "const e = await ASK('other'); await OK('h', 'other', e.artifactVersion); " + BAD,
    DOC + "const use = async () => { " + BAD + " }; await use(); " + APPROVE + "await use();",
    DOC + "const ask = async () => { if (args.x) { " + APPROVE + " } }; await ask(); " + BAD,
    DOC + "await parallel([() => " + BAD.removeprefix("await ").removesuffix(";") + "]);",
    "const {artifactVersion} = await ASK('doc'); await "
    + USE.replace("V", "⟦unapproved-artifact⟧artifactVersion"),
    "const {artifactVersion: v} = await ASK('doc'); await " + USE.replace("V", "⟦unapproved-artifact⟧v"),
    "const v = (await ASK('doc')).artifactVersion; await " + USE.replace("V", "⟦unapproved-artifact⟧v"),
    DOC
    + "const v = d.artifactVersion; const list = [v]; await "
    + USE.replace("[V]", "list").replace("list}", "list}"),
    "const [d, e] = await parallel([() => ASK('doc'), () => ASK('e')]); " + BAD,
    "const l = await parallel([() => ASK('doc'), async () => { return await ASK('e'); }]); await "
    + USE.replace("V", "⟦unapproved-artifact⟧l[1].artifactVersion"),
    "const l = await Promise.all([ASK('doc')]); await "
    + USE.replace("V", "⟦unapproved-artifact⟧l[0].artifactVersion"),
    "await ASK('src'); const d = await captureArtifact({stepId: 'file', sourceStepId: 'src', path: 'r.md'}); "
    + BAD,
]


@pytest.mark.parametrize("text", UNAPPROVED)
def test_versions_that_are_not(text: str) -> None:
    if "const list = [v]" in text:
        text = text.replace("[v];", "[⟦unapproved-artifact⟧v];")
    assert {problem.severity for problem in check_marked(text)} == {"error"}


def test_the_fix_asks_for_approval_right_before_the_use() -> None:
    script = expanded(DOC + "  return " + GOOD)
    (problem,) = problems_of(script)
    assert problem.fix is not None
    fixed = apply_fix(script, problem.fix)
    assert fixed.split("\n")[1] == (
        "  await humanCheckpoint({stepId: 'approve-doc', sourceStepId: 'doc', artifactVersion: d.artifactVersion});"
    )
    assert problems_of(fixed) == []


@pytest.mark.parametrize(
    "text",
    [
        DOC + "const use = async () => { " + GOOD + " }; await use();",
        DOC + "for (const x of args.l) { " + GOOD.replace("'use'", "x") + " }",
        "await " + USE.replace("V", "(await ASK('doc')).artifactVersion"),
    ],
)
def test_no_fix_is_offered_where_a_checkpoint_could_not_stand(text: str) -> None:
    assert [problem.fix for problem in problems_of(expanded(text))] == [None]
