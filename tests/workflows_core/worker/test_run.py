"""Scripts in a real worker: what they may call, what comes back, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from workflows_core.errors import ScriptRefused
from workflows_core.jsontext import encode
from workflows_core.worker import protocol
from workflows_core.worker.process import WorkerDied

from .support import Failed, echo, response, result, run, start

AGENT = "agent({stepId: 'a', agentRef: 'lead_agent', task: 'x'})"


async def test_a_script_calls_agents_and_returns() -> None:
    outcome = await run(
        """
        const first = await agent({stepId: 'first', agentRef: 'lead_agent', task: args.topic});
        const checks = await parallel([
          () => agent({stepId: 'a', agentRef: 'lead_agent', task: {evidence: first.output}}),
          () => agent({stepId: 'b', agentRef: 'lead_agent', task: {evidence: first.output}, artifacts: ['v1']}),
        ]);
        log('Two checks finished');
        return checks.map((check) => check.output);
        """,
        {"topic": "bees"},
    )
    assert outcome.calls == [
        {"id": 1, "op": "agent", "step_id": "first", "agent_ref": "lead_agent", "task": "bees"},
        {"id": 2, "op": "agent", "step_id": "a", "agent_ref": "lead_agent", "task": {"evidence": "bees"}},
        {
            "id": 3,
            "op": "agent",
            "step_id": "b",
            "agent_ref": "lead_agent",
            "task": {"evidence": "bees"},
            "artifacts": ["v1"],
        },
        {"op": "log", "message": "Two checks finished"},
    ]
    assert [turn.outstanding for turn in outcome.turns] == [1, 2, 0]
    assert outcome.value == [{"evidence": "bees"}, {"evidence": "bees"}]
    assert outcome.end is not None
    assert outcome.end.body == encode({"by": "script", "ok": True, "value": outcome.value})


async def test_every_operation_has_its_own_call() -> None:
    outcome = await run(
        """
        await pause({stepId: 'p'});
        await humanCheckpoint({stepId: 'h', sourceStepId: 'p', artifactVersion: 'v'});
        await captureArtifact({stepId: 'c', sourceStepId: 'p', path: 'out/report.md'});
        await readArtifact({artifactVersion: 'v'});
        return readArtifact({artifactVersion: 'v', offset: 16384});
        """,
        answer=lambda call: call["op"],
    )
    assert outcome.calls == [
        {"id": 1, "op": "pause", "step_id": "p"},
        {"id": 2, "op": "checkpoint", "step_id": "h", "source_step_id": "p", "artifact_version": "v"},
        {"id": 3, "op": "capture", "step_id": "c", "source_step_id": "p", "path": "out/report.md"},
        {"id": 4, "op": "read", "artifact_version": "v", "offset": 0},
        {"id": 5, "op": "read", "artifact_version": "v", "offset": 16384},
    ]
    assert outcome.value == "read"


async def test_nothing_runs_before_the_first_turn() -> None:
    worker = await start("log('now'); return 1")
    try:
        turn = await worker.first_turn()
        assert turn.requests[0].calls == ({"op": "log", "message": "now"},)
        assert turn.end is not None
    finally:
        await worker.close()


async def test_a_batch_is_one_entry_and_settles_in_its_order() -> None:
    worker = await start(
        """
        const order = [];
        const ask = (stepId) => agent({stepId, agentRef: 'x', task: 0}).then((r) => order.push(r));
        await Promise.all([ask('a'), ask('b'), ask('c')]);
        return order;
        """
    )
    try:
        turn = await worker.first_turn()
        assert turn.outstanding == 3
        turn = await worker.give([response(result(3, "third"), more=True), response(result(1, "first"))])
        assert (turn.outstanding, turn.end, turn.requests) == (1, None, ())
        turn = await worker.give([response(result(2, "second"))])
        assert turn.end is not None and turn.end.value == ["third", "first", "second"]
    finally:
        await worker.close()


async def test_a_rejected_call_is_an_error_that_the_script_may_catch() -> None:
    outcome = await run(
        f"""
        try {{ await {AGENT}; }} catch (error) {{
          return [error instanceof Error, error.name, error.code, error.message, error.stack, Object.keys(error)];
        }}
        """,
        answer=lambda call: Failed("AgentError", "agent_failed", "The Agent failed."),
    )
    assert outcome.value == [True, "AgentError", "agent_failed", "The Agent failed.", "", ["code"]]


async def test_an_uncaught_rejection_ends_the_script_with_its_own_code() -> None:
    outcome = await run(f"\n  await {AGENT};", answer=lambda call: Failed(message="No answer."))
    assert outcome.error == {
        "name": "AgentError",
        "code": "agent_failed",
        "message": "AgentError: No answer.",
    }
    assert outcome.end is not None and outcome.end.position == (2, 9)


@pytest.mark.parametrize(
    ("thrown", "name", "message"),
    [
        ("new TypeError('bad')", "TypeError", "TypeError: bad"),
        ("new (class Mine extends Error {})('x')", "Error", "Error: x"),
        ("Object.assign(new Error('x'), {name: 'Mine', code: 'time_limit'})", "Mine", "Mine: x"),
        ("new Error()", "Error", "Error"),
        ("'text'", "Error", 'Thrown: "text"'),
        ("5", "Error", "Thrown: 5"),
        ("null", "Error", "Thrown: null"),
        ("undefined", "Error", "Thrown: undefined"),
        ("Symbol('s')", "Error", "Thrown: Symbol(s)"),
        ("10n", "Error", "Thrown: 10"),
        ("{a: 1}", "Error", 'Thrown: {"a":1}'),
        ("() => 1", "Error", "Thrown: a function"),
        ("{get message() { throw 1 }}", "Error", "Thrown: a value that cannot be described"),
        ("new Proxy({}, {get() { throw 1 }})", "Error", "Thrown: a value that cannot be described"),
        ("{name: 5, message: 'm'}", "Error", "Error: m"),
        ("new Error('\\ud800|\\0')", "Error", "Error: \ufffd|\0"),
    ],
)
async def test_whatever_is_thrown_ends_the_script_in_words(thrown: str, name: str, message: str) -> None:
    outcome = await run(f"throw {thrown}")
    assert outcome.error == {"name": name, "code": "script_error", "message": message}


async def test_a_long_message_says_how_much_is_missing() -> None:
    outcome = await run("throw new Error('x'.repeat(5000))")
    assert outcome.error["message"] == "Error: " + "x" * 1993 + "… (3007 more characters)"


async def test_the_error_of_the_script_has_no_stack_and_no_path() -> None:
    outcome = await run("const f = () => null.x; f()")
    assert set(outcome.error) == {"name", "code", "message"}
    assert "<input>" not in outcome.error["message"] and "/" not in outcome.error["message"]


async def test_no_return_value_is_null() -> None:
    assert (await run("")).value is None
    assert (await run("return")).value is None


# ---- calls that nobody awaits ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "names"),
    [
        (f"{AGENT}; return 1", "step 'a'"),
        (f"{AGENT}", "step 'a'"),
        (f"{AGENT}.then(() => 1); return 1", "step 'a'"),
        (f"const p = {AGENT}; await agent({{stepId: 'b', agentRef: 'x', task: 1}}); return 1", "step 'a'"),
        (f"parallel([() => {AGENT}]); return 1", "parallel(), step 'a'"),
        ("readArtifact({artifactVersion: 'v'}); return 1", "readArtifact()"),
        (f"{AGENT}; agent({{stepId: 'b', agentRef: 'x', task: 1}}); return 1", "step 'a', step 'b'"),
    ],
)
async def test_a_call_that_nothing_awaited_fails_the_script(script: str, names: str) -> None:
    outcome = await run(script)
    assert outcome.code == "unawaited_call"
    assert f"awaited {names}." in outcome.error["message"]
    assert outcome.end is not None and outcome.end.position is not None


@pytest.mark.parametrize(
    "use",
    [
        "await p; return 1",
        "return p",
        "return await Promise.all([p])",
        "return await Promise.allSettled([p])",
        "return await Promise.race([p])",
        "return await Promise.any([p])",
        "return await p.then((r) => r)",
        "return await p.finally(() => 1)",
        "for await (const r of [p]) return r",
        "async function* g() { yield p } for await (const r of g()) return 1",
        "return await parallel([() => p])",
        "return await Promise.resolve(p)",
        "return await (async () => p)()",
        "return await new Promise((resolve) => resolve(p))",
        "const {then} = Promise.prototype; return await new Promise((r) => then.call(p, r))",
    ],
)
async def test_every_way_to_await_counts(use: str) -> None:
    outcome = await run(f"const p = {AGENT}; {use}")
    assert outcome.end is not None and outcome.end.ok, outcome.error


async def test_it_is_judged_at_the_return_and_not_at_the_answer() -> None:
    outcome = await run(
        f"const p = {AGENT}; await agent({{stepId: 'b', agentRef: 'x', task: 1}}); return (await p).output"
    )
    assert outcome.value == "x"


async def test_an_unhandled_rejection_of_a_call_fails_the_script() -> None:
    outcome = await run(
        f"const p = {AGENT}; await agent({{stepId: 'b', agentRef: 'x', task: 1}}); return 1",
        answer=lambda call: Failed(message="No.") if call["step_id"] == "a" else echo(call),
    )
    assert outcome.code == "unhandled_rejection"
    assert outcome.error["message"] == "Nothing awaited step 'a', which was rejected: AgentError: No."
    outcome = await run("agent(); return 1")
    assert outcome.code == "unhandled_rejection"


async def test_any_other_rejection_that_nobody_handles_is_lost() -> None:
    outcome = await run(
        f"(async () => {{ throw 1 }})(); Promise.reject(2); Promise.all([Promise.reject(3)]);"
        f"const p = {AGENT}.then((r) => r); await agent({{stepId: 'b', agentRef: 'x', task: 1}}); return 1",
        answer=lambda call: Failed(message="No.") if call["step_id"] == "a" else echo(call),
    )
    assert outcome.value == 1


async def test_an_error_in_a_microtask_fails_the_script() -> None:
    outcome = await run(f"queueMicrotask(() => {{ throw new Error('late') }}); await {AGENT}; return 1")
    assert outcome.error == {"name": "Error", "code": "script_error", "message": "Error: late"}
    assert (await run("let n = 0; queueMicrotask(() => { n++ }); await 0; await 0; return n")).value == 1


async def test_a_script_that_can_never_go_on_is_stalled() -> None:
    outcome = await run("await new Promise(() => {})")
    assert (outcome.turns[-1].end, outcome.turns[-1].outstanding) == (None, 0)


async def test_nothing_of_a_script_counts_after_it_has_returned() -> None:
    outcome = await run(
        """
        const again = () => Promise.resolve().then(() => { log('late'); return again(); });
        again();
        return 1;
        """
    )
    assert outcome.value == 1
    assert outcome.turns[-1].jobs < 20


async def test_calls_made_while_the_result_is_read_are_refused() -> None:
    outcome = await run(f"return {{toJSON() {{ {AGENT}; log('x'); return 1 }}}}")
    assert outcome.code == "result_not_json"
    assert outcome.calls == []


# ---- refusals of the prelude -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("agent()", "invalid_argument"),
        ("agent(null)", "invalid_argument"),
        ("agent([])", "invalid_argument"),
        ("agent('a')", "invalid_argument"),
        ("agent({stepId: 'a', agentRef: 'x', task: 1, timeout: 5})", "invalid_argument"),
        ("agent({stepId: 'a', agentRef: 'x', task: 1, [Symbol('s')]: 5})", "invalid_argument"),
        ("agent({agentRef: 'x', task: 1})", "invalid_step_id"),
        ("agent({stepId: 7, agentRef: 'x', task: 1})", "invalid_step_id"),
        ("agent({stepId: '', agentRef: 'x', task: 1})", "invalid_step_id"),
        ("agent({stepId: 'a b', agentRef: 'x', task: 1})", "invalid_step_id"),
        ("agent({stepId: 'a\\n', agentRef: 'x', task: 1})", "invalid_step_id"),
        ("agent({stepId: 'é', agentRef: 'x', task: 1})", "invalid_step_id"),
        ("agent({stepId: 'x'.repeat(81), agentRef: 'x', task: 1})", "invalid_step_id"),
        ("agent({stepId: {toString() { return 'a' }}, agentRef: 'x', task: 1})", "invalid_step_id"),
        ("agent({stepId: 'a', task: 1})", "invalid_argument"),
        ("agent({stepId: 'a', agentRef: '', task: 1})", "invalid_argument"),
        ("agent({stepId: 'a', agentRef: 'x'.repeat(257), task: 1})", "invalid_argument"),
        ("agent({stepId: 'a', agentRef: '\\ud800', task: 1})", "lone_surrogate"),
        ("agent({stepId: 'a', agentRef: 'x'})", "not_json"),
        ("agent({stepId: 'a', agentRef: 'x', task: () => 1})", "not_json"),
        ("agent({stepId: 'a', agentRef: 'x', task: 1n})", "not_json"),
        ("agent({stepId: 'a', agentRef: 'x', task: '\\udfff'})", "lone_surrogate"),
        ("agent({stepId: 'a', agentRef: 'x', task: 1, artifacts: 'v'})", "invalid_argument"),
        ("agent({stepId: 'a', agentRef: 'x', task: 1, artifacts: [1]})", "invalid_argument"),
        ("pause()", "invalid_argument"),
        ("pause({stepId: 'a', task: 1})", "invalid_argument"),
        ("humanCheckpoint({stepId: 'a', sourceStepId: 'b'})", "invalid_argument"),
        ("humanCheckpoint({stepId: 'a', artifactVersion: 'b'})", "invalid_step_id"),
        ("captureArtifact({stepId: 'a', sourceStepId: 'b'})", "invalid_argument"),
        ("captureArtifact({stepId: 'a', sourceStepId: 'b', path: 'x'.repeat(1025)})", "invalid_argument"),
        ("readArtifact({})", "invalid_argument"),
        ("readArtifact({artifactVersion: 'v', offset: -1})", "invalid_argument"),
        ("readArtifact({artifactVersion: 'v', offset: 1.5})", "invalid_argument"),
        ("readArtifact({artifactVersion: 'v', offset: NaN})", "invalid_argument"),
        ("readArtifact({artifactVersion: 'v', offset: '1'})", "invalid_argument"),
        ("readArtifact({artifactVersion: 'v', offset: 2 ** 53})", "invalid_argument"),
        ("parallel()", "invalid_argument"),
        ("parallel('ab')", "invalid_argument"),
        ("parallel([1])", "invalid_argument"),
        ("parallel([() => 1, , () => 2])", "invalid_argument"),
        ("(async () => log('\\ud800'))()", "lone_surrogate"),
        ("(async () => log(undefined))()", "not_json"),
    ],
)
async def test_a_wrong_call_is_rejected_in_words(call: str, code: str) -> None:
    outcome = await run(
        f"try {{ await {call} }} catch (e) {{ return [e.name, e.code, e.message, e instanceof Error] }}"
    )
    name, found, message, is_error = outcome.value
    assert (name, found, is_error) == ("WorkflowError", code, True)
    assert message
    assert outcome.calls == []


async def test_a_refused_call_does_not_use_its_step_id_up() -> None:
    outcome = await run(
        "try { await agent({stepId: 'a', agentRef: 'x'}) } catch {}"
        "return (await agent({stepId: 'a', agentRef: 'x', task: 1})).output"
    )
    assert outcome.value == 1


async def test_a_step_id_names_one_thing_whatever_kind_it_is() -> None:
    outcome = await run(
        f"""
        await {AGENT};
        const codes = [];
        for (const again of [
          () => agent({{stepId: 'a', agentRef: 'x', task: 1}}),
          () => pause({{stepId: 'a'}}),
          () => humanCheckpoint({{stepId: 'a', sourceStepId: 'a', artifactVersion: 'v'}}),
          () => captureArtifact({{stepId: 'a', sourceStepId: 'a', path: 'p'}}),
        ]) try {{ await again() }} catch (error) {{ codes.push(error.code) }}
        await agent({{stepId: '__proto__', agentRef: 'x', task: 1}});
        await agent({{stepId: 'constructor', agentRef: 'x', task: 1}});
        try {{ await agent({{stepId: '__proto__', agentRef: 'x', task: 1}}) }} catch (error) {{ codes.push(error.code) }}
        return codes;
        """
    )
    assert outcome.value == ["duplicate_step_id"] * 5


async def test_a_wait_for_a_person_stands_alone() -> None:
    checkpoint = "humanCheckpoint({stepId: 'h', sourceStepId: 'a', artifactVersion: 'v'})"
    outcome = await run(
        f"""
        const codes = [];
        const first = {AGENT};
        for (const wait of [() => pause({{stepId: 'p'}}), () => {checkpoint}])
          try {{ await wait() }} catch (error) {{ codes.push(error.code) }}
        await first;
        const waiting = pause({{stepId: 'p'}});
        for (const other of [
          () => agent({{stepId: 'b', agentRef: 'x', task: 1}}),
          () => {checkpoint},
          () => readArtifact({{artifactVersion: 'v'}}),
        ]) try {{ await other() }} catch (error) {{ codes.push(error.code) }}
        log('logging is allowed');
        await waiting;
        await {checkpoint};
        return codes;
        """
    )
    assert outcome.value == ["not_alone"] * 5
    assert [call["op"] for call in outcome.calls] == ["agent", "log", "pause", "checkpoint"] or [
        call["op"] for call in outcome.calls
    ] == ["agent", "pause", "log", "checkpoint"]


# ---- parallel --------------------------------------------------------------------------------------------


async def test_parallel_waits_for_all_and_keeps_the_order() -> None:
    worker = await start(
        """
        const called = [];
        const ask = (stepId) => () => (called.push(stepId), agent({stepId, agentRef: 'x', task: 1}));
        try { await parallel([ask('a'), ask('b'), () => { called.push('c'); throw new Error('third') }]) }
        catch (error) { return [error.message, called] }
        """
    )
    try:
        turn = await worker.first_turn()
        assert turn.outstanding == 2
        turn = await worker.give([response(result(2, Failed(message="second")))])
        assert (turn.end, turn.outstanding) == (None, 1)
        turn = await worker.give([response(result(1, echo({"task": 1})))])
        assert turn.end is not None and turn.end.value == ["second", ["a", "b", "c"]]
    finally:
        await worker.close()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("return await parallel([])", []),
        ("return await parallel([() => 1, async () => 2, () => ({then(r) { r(3) }})])", [1, 2, 3]),
        (
            "const r = await parallel([() => undefined]); return [r.length, r[0] === undefined, Array.isArray(r)]",
            None,
        ),
        (
            "return await parallel([() => parallel([() => 1]), () => parallel([() => 2, () => 3])])",
            [[1], [2, 3]],
        ),
        ("'use strict'; return await parallel([function () { return this === undefined }])", [True]),
    ],
)
async def test_parallel_takes_any_thunk(script: str, expected: Any) -> None:
    assert (await run(script)).value == (expected if expected is not None else [1, True, True])


# ---- args ------------------------------------------------------------------------------------------------


async def test_args_are_frozen_all_the_way_down() -> None:
    outcome = await run(
        """
        const refused = [];
        for (const attempt of [
          () => { args.x = 1 }, () => { args.list[0] = 1 }, () => { args.list.push(1) },
          () => { delete args.deep }, () => { args.deep.er.est = 2 }, () => { args = {} },
          () => { Object.setPrototypeOf(args, null) }, () => { Object.defineProperty(args, 'y', {value: 1}) },
        ]) try { attempt(); refused.push(false) } catch (error) { refused.push(error.name) }
        return [refused, args];
        """,
        {"list": [1], "deep": {"er": {"est": 1}}, "__proto__": 5},
    )
    refused, args = outcome.value
    assert refused == ["TypeError"] * 8
    assert args == {"list": [1], "deep": {"er": {"est": 1}}, "__proto__": 5}


# ---- frames and limits of a turn ---------------------------------------------------------------------------


async def test_a_round_spans_several_frames_in_order() -> None:
    outcome = await run(
        """
        const task = 'x'.repeat(16000);
        return (await parallel(['a', 'b', 'c', 'd', 'e'].map((stepId) => () => agent({stepId, agentRef: 'x', task})))).length;
        """
    )
    requests = outcome.turns[0].requests
    assert [[call["step_id"] for call in request.calls] for request in requests] == [
        ["a", "b"],
        ["c", "d"],
        ["e"],
    ]
    assert [b'"more":true' in request.body[-12:] for request in requests] == [True, True, False]
    assert all(len(request.body) <= protocol.FRAME_BYTES for request in requests)
    assert outcome.value == 5


@pytest.mark.parametrize(
    "script",
    [
        "await agent({stepId: 'a', agentRef: 'x', task: 'x'.repeat(60000)})",
        "log('x'.repeat(60000))",
        "log('€'.repeat(17000))",
        "return 'x'.repeat(60000)",
    ],
)
async def test_what_no_frame_can_hold_ends_the_script(script: str) -> None:
    outcome = await run(script)
    assert outcome.code == "frame_too_large"
    assert outcome.calls == []


async def test_a_large_call_that_fits_goes_in_a_frame_of_its_own() -> None:
    outcome = await run("return (await agent({stepId: 'a', agentRef: 'x', task: '€'.repeat(16000)})).status")
    assert outcome.value == "success"


@pytest.mark.parametrize(
    "script",
    [
        "for (let i = 0; i < 300; i++) log('x')",
        "try { for (let i = 0; i < 300; i++) log('x') } catch {} return 1",
        "for (let i = 0; i < 40; i++) try { log('x'.repeat(40000)) } catch {}",
    ],
)
async def test_one_turn_makes_a_bounded_number_of_calls(script: str) -> None:
    outcome = await run(script)
    assert outcome.code == "call_limit"
    assert outcome.calls == []


# ---- compiling -------------------------------------------------------------------------------------------


async def test_a_syntax_error_is_refused_with_its_place() -> None:
    with pytest.raises(ScriptRefused, match="SyntaxError") as refused:
        await start("const a = 1;\n  let 5x;")
    assert (refused.value.line, refused.value.column, refused.value.code) == (2, 7, "script_error")


async def test_a_script_may_be_long_when_it_was_instrumented() -> None:
    filler = "\n// " + "x" * 200_000
    assert (await run("return 5" + filler)).value == 5
    with pytest.raises(ScriptRefused, match="Shorten"):
        await start("return 5" + filler * 6)


async def test_text_that_is_no_text_is_refused() -> None:
    with pytest.raises(ScriptRefused, match="lone surrogate") as refused:
        await start("return 1;\n'\ud800'")
    assert (refused.value.line, refused.value.column) == (2, 2)


async def test_a_script_runs_strict_and_as_the_body_of_an_async_function() -> None:
    assert (await run("undeclared = 1")).error["name"] == "ReferenceError"
    assert (await run("return await 7")).value == 7
    assert (await run("const f = function () { return this }; return f() === undefined")).value is True
    with pytest.raises(ScriptRefused):
        await start("with ({}) {}")


async def test_a_death_is_told_to_whoever_waits() -> None:
    worker = await start("for (;;) Promise.try(() => { for (;;); })")
    try:
        with pytest.raises(WorkerDied) as died:
            await worker.first_turn()
        assert died.value.reason == "turn_limit"
        with pytest.raises(WorkerDied):
            await worker.give([response(result(1, 1))])
    finally:
        await worker.close()
