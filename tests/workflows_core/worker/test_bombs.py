"""CPU and memory bombs: each ends within its limit, and says which.

Time is CPU time of the worker, never the wall clock, so that a busy machine changes nothing.
"""

from __future__ import annotations

import resource

import pytest

from workflows_core.limits import TURN_CPU_SECONDS, Limits

from .support import Outcome, run

TIME, MEMORY, STACK, JOBS, CALLS, TURN, SCRIPT = (
    "time_limit",
    "memory_limit",
    "stack_limit",
    "job_limit",
    "call_limit",
    "turn_limit",
    "script_error",
)

BOMBS: dict[str, tuple[str, set[str]]] = {
    "a loop": ("for (;;);", {TIME}),
    "a loop after an await": ("await agent({stepId: 'a', agentRef: 'x', task: 1}); for (;;);", {TIME}),
    "a loop that catches": ("for (;;) { try { for (;;); } catch {} finally { continue } }", {TIME}),
    "a loop in a promise's executor": ("await new Promise(() => { for (;;); })", {TIME, TURN}),
    "executors one after another": (
        "for (;;) new Promise(() => { for (;;); }).catch(() => 0)",
        {TIME, TURN, MEMORY},
    ),
    "Promise.try": ("for (;;) Promise.try(() => { for (;;); })", {TIME, TURN}),
    "an async generator": ("async function* g() { for (;;); } for (;;) g().next()", {TIME, TURN}),
    "an iterable of Promise.all": (
        "for (;;) Promise.all({*[Symbol.iterator]() { for (;;); }})",
        {TIME, TURN},
    ),
    "an iterator's return": (
        "for (;;) try { for (const x of {[Symbol.iterator]: () => ({next: () => ({value: 1}), return() { for (;;); }})})"
        " throw 1 } catch {}",
        {TIME, TURN},
    ),
    "a disposer": (
        "for (;;) { try { using x = {[Symbol.dispose]() { for (;;); }}; } catch {} }",
        {TIME, TURN},
    ),
    "reactions that follow each other": (
        "const f = () => Promise.resolve().then(f, f); await f()",
        {JOBS, MEMORY},
    ),
    "awaits without end": ("for (;;) await 0", {JOBS}),
    "awaits that catch": ("for (;;) try { await 0 } catch {}", {JOBS}),
    "microtasks": ("const f = () => queueMicrotask(f); f(); await new Promise(() => {})", {JOBS}),
    "microtasks that fork": (
        "const f = () => { queueMicrotask(f); queueMicrotask(f) }; f(); await new Promise(() => {})",
        {MEMORY, JOBS, TURN},
    ),
    "a regular expression": ("/^(a+)+$/.test('a'.repeat(40) + 'b')", {TIME}),
    "a regular expression that catches": (
        "for (;;) try { /^(a+)+$/.test('a'.repeat(40) + 'b') } catch {}",
        {TIME},
    ),
    "a native join": ("Array(2 ** 32 - 1).join('ab')", {TURN, MEMORY, TIME}),
    "native case folding": ("for (;;) 'ß'.repeat(1e6).toUpperCase()", {TURN, TIME, MEMORY}),
    "growing integers": ("let x = 3n; for (;;) x = x * x", {TIME, TURN, MEMORY, SCRIPT}),
    "a comparison that never agrees": (
        "const a = [...Array(1e5).keys()]; for (;;) a.sort(() => 0.5)",
        {TIME, TURN},
    ),
    "source text": ("for (;;) eval('1+'.repeat(1e5) + '1')", {TIME, TURN, MEMORY}),
    "a toJSON of the result": ("return {toJSON() { for (;;); }}", {TIME}),
    "a getter of what is thrown": ("throw {get message() { for (;;); }}", {TIME}),
    "a then of everything": (
        "Object.prototype.__defineGetter__('then', () => { for (;;); });"
        "return await agent({stepId: 'a', agentRef: 'x', task: 1})",
        {TIME, TURN},
    ),
    "a thunk of parallel": ("await parallel([() => { for (;;); }])", {TIME, TURN}),
    "messages": ("for (;;) log('x')", {CALLS}),
    "messages that catch": ("for (;;) try { log('x') } catch {}", {TIME, CALLS}),
    "calls": ("for (let i = 0; ; i++) agent({stepId: 'a' + i, agentRef: 'x', task: i})", {CALLS, TIME, TURN}),
    "wrong calls": ("for (;;) agent()", {TIME, TURN, MEMORY}),
    "a string that doubles": ("let s = 'a'; for (;;) { s += s; s.charCodeAt(1) }", {MEMORY}),
    "a long string": ("'a'.repeat(2 ** 29)", {MEMORY}),
    "buffers": ("const a = []; for (;;) a.push(new Uint8Array(1e5))", {MEMORY}),
    "a filled array": ("new Array(2 ** 32 - 1).fill(0)", {MEMORY, TIME, TURN}),
    "a chain of objects": ("let o = {}; for (;;) o = {o}", {MEMORY}),
    "objects to the last byte": (
        "const a = []; for (;;) try { for (;;) a.push({}) } catch {}",
        {TURN, TIME, MEMORY},
    ),
    "a map": ("const m = new Map(); for (let i = 0; ; i++) m.set(i, {i})", {TIME, MEMORY}),
    "recursion": ("const f = () => f(); f()", {STACK}),
    "recursion that catches": ("const f = () => { try { f() } catch { f() } }; f()", {TIME, TURN}),
    "recursion through a proxy": ("new Proxy({}, {get(t, k, r) { return r[k] }}).x", {STACK}),
    "a deep parse": ("JSON.parse('['.repeat(1e6))", {STACK, MEMORY, SCRIPT}),
    "a deep result": ("let a = []; for (let i = 0; i < 1e6; i++) a = [a]; return a", {MEMORY, TIME}),
    "a wide result": ("const o = {}; for (let i = 0; i < 1e6; i++) o['k' + i] = i; return o", {TIME, MEMORY}),
}


def cause(outcome: Outcome) -> str:
    return outcome.died.reason if outcome.died is not None else outcome.code


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=list(BOMBS))
async def test_a_bomb_ends_within_its_limit(bomb: tuple[str, set[str]]) -> None:
    script, causes = bomb
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = await run(script)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert cause(outcome) in causes, outcome
    assert used < 2 * TURN_CPU_SECONDS + 1  # two turns at most, and a second to start and to end


async def test_the_cpu_time_of_all_turns_together_is_bounded() -> None:
    """Each turn stays below its own limit; the sum does not."""
    outcome = await run(
        """
        for (let i = 0; ; i++) {
          for (let k = 0; k < 6; k++) { for (let n = 0; n < 3e5; n++); await 0 }
          await agent({stepId: 's' + i, agentRef: 'x', task: i});
        }
        """,
        limits=Limits(cpu_seconds=1),
        rounds=500,
    )
    assert outcome.died is not None and outcome.died.reason == "cpu_limit", outcome
    assert "cpu_seconds" in outcome.died.message


async def test_a_worker_that_replays_is_held_laxer() -> None:
    script = "let n = 0; const f = () => { for (let i = 0; i < 1e6; i++) n++ }; for (let i = 0; i < 8; i++) f(); return n"
    assert (await run(script, replay=True)).value == 8_000_000
    assert (
        (await run("for (;;);", replay=True))
        .error["message"]
        .startswith("The script computed for more than 500 ms")
    )


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("throw new InternalError('out of memory')", MEMORY),
        ("throw new RangeError('Maximum call stack size exceeded')", STACK),
        ("throw null", SCRIPT),
        ("throw new RangeError('other')", SCRIPT),
        ("throw {message: 'out of memory', name: 'InternalError'}", SCRIPT),
    ],
)
async def test_a_limit_that_ends_the_script_is_told_from_an_error_of_the_script(
    script: str, code: str
) -> None:
    assert (await run(script)).code == code


async def test_a_limit_that_the_script_survives_is_only_an_error() -> None:
    outcome = await run(
        """
        const caught = [];
        try { 'a'.repeat(2 ** 29) } catch (error) { caught.push(error.message) }
        const f = () => f();
        try { f() } catch (error) { caught.push(error.message) }
        return caught;
        """
    )
    assert outcome.value == ["out of memory", "Maximum call stack size exceeded"]


async def test_memory_is_bounded_by_the_limit_of_the_run() -> None:
    script = "const a = []; for (let i = 0; i < args.n; i++) a.push(new Uint8Array(1e6)); return a.length"
    assert (await run(script, {"n": 12})).value == 12
    assert (await run(script, {"n": 12}, limits=Limits(memory_bytes=8_388_608))).code == MEMORY
    assert (await run(script, {"n": 28}, limits=Limits(memory_bytes=33_554_432))).value == 28
