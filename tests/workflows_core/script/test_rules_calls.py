from __future__ import annotations

import pytest

from workflows_core.script.check import apply_fix

from .marked import check_marked, expanded, problems_of

SHAPES = [
    "await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});",
    "await agent({stepId: 'a', agentRef: 'lead_agent', task: 1, artifacts: args.versions});",
    "await agent({...args.call, stepId: 'a'});",
    "await agent({[args.name]: 1, stepId: 'a'});",
    "const call = args.call; await agent(call);",
    "await agent(...args.calls);",
    "const stepId = 'a', task = 1; await agent({stepId, agentRef: 'lead_agent', task});",
    "await agent({'stepId': 'a', 'agentRef': 'lead_agent', [`task`]: 1});",
    "const r = await pause({stepId: 'p'}); await ASK('a'); return r;",
    "return await readArtifact({artifactVersion: args.version});",
    "return await readArtifact({artifactVersion: args.version, offset: 16384});",
    "function agent() {} agent('anything');",
    "const agent = args.f; agent();",
    "return [x => x].map(agent => agent());",
    "await ⟦call-shape⟧agent();",
    "await agent(⟦call-shape⟧'lead_agent');",
    "await agent(⟦call-shape⟧[1]);",
    "await agent(⟦call-shape⟧null);",
    "await agent(⟦call-shape⟧() => 1);",
    "await ⟦call-shape⟧agent({});",
    "await ⟦call-shape⟧agent({stepId: 'a', agentRef: 'lead_agent'});",
    "await ⟦call-shape⟧agent({stepId: 'a', task: 1});",
    "await agent({⟦call-shape⟧stepID: 'a', agentRef: 'lead_agent', task: 1});",
    "await agent({stepId: 'a', ⟦call-shape⟧agent: 'lead_agent', task: 1});",
    "await agent({stepId: 'a', agentRef: 'lead_agent', task: 1, ⟦call-shape⟧timeout: 3});",
    "await agent({stepId: 'a', agentRef: 'lead_agent', task: 1, ⟦call-shape⟧artifact: []});",
    "await ⟦call-shape⟧pause({}); await ASK('a');",
    "await pause({⟦call-shape⟧id: 'p', stepId: 'p'}); await ASK('a');",
    "await ⟦call-shape⟧humanCheckpoint({stepId: 'h', sourceStepId: args.s});",
    "await ⟦call-shape⟧captureArtifact({stepId: 'c', sourceStepId: args.s});",
    "await ⟦call-shape⟧readArtifact({offset: 0});",
    "const a = await ASK('a'); await agent({stepId: 'b', agentRef: 'lead_agent', task: 1, artifacts: ⟦call-shape⟧args.v.artifactVersion}); return a;",
    "await agent({stepId: 'b', agentRef: 'lead_agent', task: 1, artifacts: ⟦call-shape⟧'v'});",
    "await agent({stepId: 'b', agentRef: 'lead_agent', task: ⟦call-shape⟧undefined});",
    "const ß = '😀'; await agent({stepId: ß + 1 || 'é😀', ⟦call-shape⟧agentref: 'x', task: 1});",
]


@pytest.mark.parametrize("text", SHAPES)
def test_the_shape_of_a_call(text: str) -> None:
    check_marked(text)


AGENTS = [
    ("await ASK('a');", ["lead_agent"]),
    ("await agent({stepId: 'a', agentRef: args.who, task: 1});", ["lead_agent"]),
    ("const who = 'lead_agent'; await agent({stepId: 'a', agentRef: who, task: 1});", ["lead_agent"]),
    ("await agent({stepId: 'a', agentRef: ⟦unknown-agent⟧'leed_agent', task: 1});", ["lead_agent"]),
    ("await agent({stepId: 'a', agentRef: ⟦unknown-agent⟧'Lead_Agent', task: 1});", ["lead_agent"]),
    ("await agent({stepId: 'a', agentRef: ⟦unknown-agent⟧`writer`, task: 1});", ["lead_agent", "reader"]),
    ("await agent({stepId: 'a', agentRef: ⟦unknown-agent⟧'', task: 1});", ["lead_agent"]),
    ("await agent({stepId: 'a', agentRef: ⟦unknown-agent⟧7, task: 1});", ["lead_agent"]),
    (
        "const who = 'x'; await agent({stepId: 'a', agentRef: ⟦unknown-agent⟧who, task: 1});",
        ["lead_agent", "b"],
    ),
    ("await agent({stepId: 'a', agentRef: 'whoever', task: 1});", None),
    ("await agent({stepId: 'a', agentRef: ⟦unknown-agent⟧'whoever', task: 1});", []),
]


@pytest.mark.parametrize(("text", "agents"), AGENTS)
def test_agents_must_exist(text: str, agents: list[str] | None) -> None:
    check_marked(text, agents=agents)


def test_an_agent_named_by_the_arguments_is_checked_when_they_are_known() -> None:
    text = "await agent({stepId: 'a', agentRef: ⟦unknown-agent⟧args.who, task: 1});"
    check_marked(text, args={"who": "stranger"})
    check_marked(text.replace("⟦unknown-agent⟧", ""), args={"who": "lead_agent"})


TASKS = [
    "await agent({stepId: 'a', agentRef: 'lead_agent', task: 'x'.repeat(15998)});",
    "await agent({stepId: 'a', agentRef: 'lead_agent', task: ⟦task-too-large⟧'x'.repeat(15999)});",
    "await agent({stepId: 'a', agentRef: 'lead_agent', task: ⟦task-too-large⟧'é'.repeat(8000)});",
    "await agent({stepId: 'a', agentRef: 'lead_agent', task: ⟦task-too-large⟧'\\0'.repeat(3000)});",
    "const s = 'x'.repeat(6000); await agent({stepId: 'a', agentRef: 'lead_agent', task: ⟦task-too-large⟧{a: [s, s], b: {s}}});",
    "const s = 'x'.repeat(6000); await agent({stepId: 'a', agentRef: 'lead_agent', task: {a: s, b: args.x}});",
    "await agent({stepId: 'a', agentRef: 'lead_agent', task: ⟦task-too-large⟧'x'.repeat(1e9)});",
    "await agent({stepId: 'a', agentRef: 'lead_agent', task: ⟦call-shape⟧'\\ud800'});",
    "await agent({stepId: 'a', agentRef: 'lead_agent', task: args.text});",
]


@pytest.mark.parametrize("text", TASKS)
def test_a_task_written_in_the_script_has_a_limit(text: str) -> None:
    check_marked(text)


def test_a_task_made_of_known_arguments_has_the_same_limit() -> None:
    text = "await agent({stepId: 'a', agentRef: 'lead_agent', task: ⟦task-too-large⟧[args.t, args.t, args.t, args.t, args.t]});"
    (problem,) = check_marked(text, args={"t": "x" * 3500})
    assert "17,516 bytes" in problem.message


PARALLEL = [
    "await parallel([() => ASK('a'), async () => (await ASK('b')).output]);",
    "await parallel(args.items.map((item, i) => () => ASK(`a-${i}`)));",
    "const work = [() => ASK('a')]; await parallel(work);",
    "const ask = () => ASK('a'); await parallel([ask]);",
    "await parallel(args.functions);",
    "await ⟦parallel-functions⟧parallel();",
    "await parallel(⟦parallel-functions⟧'a');",
    "await parallel(⟦parallel-functions⟧{});",
    "await parallel(⟦parallel-functions⟧() => ASK('a'), () => ASK('b'));",
    "await parallel([⟦parallel-functions⟧ASK('a'), () => ASK('b')]);",
    "await parallel([⟦parallel-functions⟧await ASK('a')]);",
    "await parallel([⟦parallel-functions⟧'a', ⟦parallel-functions⟧{}]);",
    "await parallel(args.items.map((item, i) => ⟦parallel-functions⟧ASK(`a-${i}`)));",
    "await parallel(args.items.map(⟦parallel-functions⟧async (item, i) => { await ASK(`a-${i}`); }));",
    "const work = [⟦parallel-functions⟧ASK('a')]; await parallel(work);",
]


@pytest.mark.parametrize("text", PARALLEL)
def test_parallel_takes_functions(text: str) -> None:
    check_marked(text)


FIXES = [
    ("call-shape", "await agent({stepID: 'a', agentRef: 'lead_agent', task: 1});", "await ASK('a');"),
    ("call-shape", "await agent({'stepid': 'a', agentRef: 'lead_agent', task: 1});", "await ASK('a');"),
    (
        "call-shape",
        "const stepid = args.s; await agent({stepid, agentRef: 'lead_agent', task: 1});",
        "const stepid = args.s; await agent({stepId: stepid, agentRef: 'lead_agent', task: 1});",
    ),
    (
        "call-shape",
        "await agent({stepId: 'a', task: 1,});",
        "await agent({stepId: 'a', task: 1, agentRef: 'lead_agent',});",
    ),
    (
        "call-shape",
        "await agent({stepId: 'a', agentRef: 'lead_agent', task: 1, artifacts: args.v.artifactVersion});",
        "await agent({stepId: 'a', agentRef: 'lead_agent', task: 1, artifacts: [args.v.artifactVersion]});",
    ),
    ("unknown-agent", "await agent({stepId: 'a', agentRef: 'lead', task: 1});", "await ASK('a');"),
    ("parallel-functions", "await parallel([ASK('a')]);", "await parallel([() => ASK('a')]);"),
    ("parallel-functions", "await parallel([await ASK('a')]);", "await parallel([() => ASK('a')]);"),
    ("parallel-functions", "await parallel([(ASK('a'))]);", "await parallel([() => ASK('a')]);"),
    (
        "parallel-functions",
        "await parallel(() => ASK('a'), () => ASK('b'));",
        "await parallel([() => ASK('a'), () => ASK('b')]);",
    ),
    (
        "parallel-functions",
        "await parallel(args.l.map((x, i) => ASK(`a-${i}`)));",
        "await parallel(args.l.map((x, i) => () => ASK(`a-${i}`)));",
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


def test_messages_say_what_to_do() -> None:
    messages = [
        p.message
        for p in problems_of(
            "await agent({stepId: 'a', agentRef: 'writter', tsk: 1});", agents=["writer", "reader"]
        )
    ]
    assert messages == [
        "there is no Agent 'writter'; did you mean 'writer'?",
        "agent() does not take 'tsk'; did you mean task?",
    ]
    (problem,) = problems_of("await agent({});")
    assert problem.message == "agent() needs stepId, agentRef and task here"
