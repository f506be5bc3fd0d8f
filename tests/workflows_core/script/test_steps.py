from __future__ import annotations

import pytest

from workflows_core.script.check import StepSite, api_completions, api_steps, calls_bound

from .marked import expanded


@pytest.mark.parametrize(
    ("text", "calls", "is_open"),
    [
        ("", 0, False),
        ("log('x');", 0, False),
        ("await ASK('a'); await ASK('b');", 2, False),
        ("await parallel([() => ASK('a'), async () => { await ASK('b'); }]);", 2, False),
        ("if (args.x) { await ASK('a'); await ASK('b'); } else { await ASK('c'); }", 2, False),
        ("if (args.x) { return await ASK('a'); }\nawait ASK('b'); await ASK('c');", 2, False),
        ("return args.x ? ASK('a') : ASK('b');", 1, False),
        ("return 1; ASK('a');", 0, False),
        (
            "switch (args.x) { case 1: await ASK('a'); break; case 2: { return ASK('b'); } default: await ASK('c'); }",
            1,
            False,
        ),
        ("switch (args.x) { case 1: await ASK('a'); case 2: await ASK('b'); }", 2, False),
        ("try { await ASK('a'); } catch { await ASK('b'); } finally { await ASK('c'); }", 3, False),
        ("for (let i = 0; i < 3; i++) await ASK(`a-${i}`);", 3, False),
        ("for (let i = 0; i <= 6; i += 2) await ASK(`a-${i}`);", 4, False),
        ("for (let i = 3; i > 0; i--) await ASK(`a-${i}`);", 3, False),
        ("for (let i = 3; i < 3; i++) await ASK(`a-${i}`);", 0, False),
        ("const n = 2; for (let i = 0; i < n; i++) await ASK(`a-${i}`);", 2, False),
        ("for (let i = 0; i < 3; i++) { i--; await ASK(`a-${i}`); }", 1, True),
        ("for (let i = 0; i < args.n; i++) await ASK(`a-${i}`);", 1, True),
        ("for (const x of ['a', 'b']) await ASK(x);", 2, False),
        ("const l = ['a', 'b', 'c']; for (const x of l) await ASK(x);", 3, False),
        ("const l = ['a']; l.push('b'); for (const x of l) await ASK(x);", 1, True),
        ("for (const x of args.l) await ASK(x);", 1, True),
        ("for (const x of args.l) log(x);", 0, False),
        ("while (args.x) await ASK(args.y);", 1, True),
        ("for (const x of [1, 2]) for (const y of [1, 2, 3]) await ASK(`${x}-${y}`);", 6, False),
        ("await parallel([1, 2].map(x => () => ASK(`a-${x}`)));", 2, False),
        ("await parallel(args.l.map((x, i) => () => ASK(`a-${i}`)));", 1, True),
        ("const ask = id => ASK(id); await ask('a'); await ask('b');", 2, False),
        ("const ask = id => ASK(id); await Promise.all([ask('a'), ask('b'), ASK('c')]);", 3, False),
        ("async function ask(id) { await ASK(id); } for (const x of ['a', 'b']) await ask(x);", 2, False),
        ("const unused = id => ASK(id); await ASK('a');", 1, False),
        ("const ask = async n => { await ASK(`a-${n}`); if (n) await ask(n - 1); }; await ask(3);", 1, True),
        ("const ask = id => ASK(id); args.l.map(ask);", 1, False),
        ("function agent() {} agent(); agent();", 0, False),
        ("await (async () => { await ASK('a'); })();", 1, False),
    ],
)
def test_the_bound_on_calls(text: str, calls: int, is_open: bool) -> None:
    assert calls_bound(expanded(text)) == (calls, is_open)


def test_a_script_too_deep_to_follow_counts_its_calls() -> None:
    assert calls_bound("(" * 1500 + "agent({})" + ")" * 1500) == (1, True)


def test_steps_with_their_places() -> None:
    script = expanded(
        "const é = '😀', d = await ASK('a');\n"
        "await OK('h', 'a', d.artifactVersion);\n"
        "  await pause({stepId: `p`});\n"
        "const c = await captureArtifact({stepId: 'c', sourceStepId: 'a', path: 'x'}); await ASK(args.id); log('x');"
    )
    assert api_steps(script) == [
        StepSite("a", "agent", 1, 26),
        StepSite("h", "checkpoint", 2, 7),
        StepSite("p", "pause", 3, 9),
        StepSite("c", "capture", 4, 17),
    ]


def test_completions_hold_the_api_its_properties_and_what_the_script_names() -> None:
    found = {(c.kind, c.label): c for c in api_completions(expanded("const total = 1;\nawait ASK('first');"))}
    assert found["function", "agent"].insert == "await agent({stepId: , agentRef: , task: })"
    assert found["function", "log"].insert == "log()"
    assert found["property", "stepId"].insert == "stepId: "
    assert found["property", "artifactVersion"]
    assert found["step", "first"].detail == "agent at line 2"
    assert found["name", "total"].detail == "const at line 1"
    assert found["name", "args"]
