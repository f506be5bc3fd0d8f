"""What a script cannot reach, and what it cannot make the bridge do."""

from __future__ import annotations

from random import Random

import _quickjs
import pytest

from workflows_core.errors import ScriptRefused
from workflows_core.worker.launch import prelude

from .support import echo, run, start

GLOBALS = """
Object Function Error EvalError RangeError ReferenceError SyntaxError TypeError URIError InternalError
AggregateError Iterator Array parseInt parseFloat isNaN isFinite queueMicrotask decodeURI decodeURIComponent
encodeURI encodeURIComponent escape unescape Infinity NaN undefined eval Number Boolean String Math Reflect Symbol
globalThis BigInt RegExp JSON Proxy Map Set WeakMap WeakSet ArrayBuffer Uint8ClampedArray Int8Array Uint8Array
Int16Array Uint16Array Int32Array Uint32Array BigInt64Array BigUint64Array Float16Array Float32Array Float64Array
DataView Promise btoa atob
agent parallel log pause humanCheckpoint captureArtifact readArtifact args
"""


async def test_the_globals_are_exactly_these() -> None:
    outcome = await run(
        "return [Reflect.ownKeys(globalThis).map(String), Reflect.ownKeys(Math).map(String),"
        " Reflect.ownKeys(Error).map(String), Reflect.ownKeys(Function.prototype).map(String)]"
    )
    names, math, error, function = outcome.value
    assert sorted(names) == sorted(GLOBALS.split())
    assert "random" not in math
    assert sorted(error) == ["isError", "length", "name", "prototype"]
    assert sorted(function) == sorted(
        ["Symbol(Symbol.hasInstance)", "apply", "bind", "call", "constructor", "length", "name", "toString"]
    )


#: Walks everything that can be reached from the global object and from values of every kind.
WALK = """
const found = new Set(), names = new Set(), queue = [];
const visit = (v) => {
  if ((typeof v === 'object' && v !== null) || typeof v === 'function') if (!found.has(v)) { found.add(v); queue.push(v) }
};
visit(globalThis);
for (const make of [
  () => function* () {}, () => async function () {}, () => async function* () {}, () => (function* () {})(),
  () => (async function* () {})(), () => [][Symbol.iterator](), () => new Map().entries(), () => new Set().values(),
  () => 'a'[Symbol.iterator](), () => 'a'.matchAll(/a/g), () => /a/.exec('a'), () => new Error('x'), () => Iterator.from({next() {}}),
  () => [].values().map((v) => v), () => new Proxy({}, {}), () => Object(1n), () => Object(Symbol()), () => atob('!'),
  () => null.x, () => eval('('), () => Promise.any([]), () => arguments, () => (() => { 'use strict'; return arguments })(),
  () => agent(), () => import('x'), () => new Array(-1), () => decodeURI('%'), () => 1n / 0n, () => Array.fromAsync([]),
]) {
  try { visit(make()) } catch (error) { visit(error) }
}
for (let i = 0; i < queue.length; i++) {
  const v = queue[i];
  visit(Object.getPrototypeOf(v));
  for (const key of Reflect.ownKeys(v)) {
    const d = Object.getOwnPropertyDescriptor(v, key);
    names.add(String(key));
    if (typeof d.value === 'function') names.add(String(d.value.name));
    visit(d.value); visit(d.get); visit(d.set);
    if (d.get) { try { visit(v[key]) } catch (error) { visit(error) } }
  }
}
await agent({stepId: 'keep', agentRef: 'x', task: 1});
return [found.size, [...names]];
"""


async def test_nothing_that_can_be_reached_is_a_clock_a_die_or_an_eye_on_memory() -> None:
    outcome = await run(WALK, replay=True)
    assert outcome.end is not None and outcome.end.ok, outcome.end
    size, names = outcome.value
    assert size > 400
    forbidden = {
        "Date", "now", "random", "performance", "WeakRef", "FinalizationRegistry", "deref", "register", "Atomics",
        "SharedArrayBuffer", "__date_clock", "gc", "captureStackTrace", "prepareStackTrace", "stackTraceLimit",
        "getFileName", "getLineNumber", "getFunction", "fileName", "lineNumber", "columnNumber", "caller",
        "setTimeout", "print", "console", "require", "process", "std", "os", "timeOrigin", "waitAsync",
    }  # fmt: skip
    assert not forbidden & set(names)


@pytest.mark.parametrize(
    "expression",
    [
        "typeof Date",
        "typeof performance",
        "typeof WeakRef",
        "typeof FinalizationRegistry",
        "typeof Atomics",
        "typeof SharedArrayBuffer",
        "typeof DOMException",
        "typeof DisposableStack",
        "typeof AsyncDisposableStack",
        "typeof SuppressedError",
        "typeof __date_clock",
        "typeof Intl",
        "typeof WebAssembly",
        "typeof setTimeout",
        "typeof console",
        "typeof print",
        "typeof require",
        "typeof process",
        "typeof module",
        "typeof exports",
        "typeof std",
        "typeof os",
        "typeof scriptArgs",
        "typeof structuredClone",
        "typeof fetch",
        "typeof gc",
        "typeof Temporal",
        "typeof Math.random",
        "typeof Error.captureStackTrace",
        "typeof eval('Date' + '')",
        "typeof (0, eval)('typeof WeakRef === \"undefined\" ? undefined : 1')",
        "typeof Function('return this')().Date",
        "typeof (async () => {}).constructor('return Date')().value",
        "typeof ''.constructor.constructor('return globalThis')().performance",
        "typeof Object.getOwnPropertyDescriptor(globalThis, 'Date')",
        "typeof new Error('x').fileName",
        "typeof (() => {}).caller",
        "typeof (function () {}).arguments",
        "typeof new Error('x').lineNumber",
        "typeof agent.prototype",
        "typeof [].constructor.constructor('return import.meta')",
    ],
)
async def test_it_is_not_there(expression: str) -> None:
    outcome = await run(f"try {{ return {expression} }} catch (error) {{ return 'undefined' }}")
    assert outcome.value == "undefined"


@pytest.mark.parametrize(
    "expression",
    [
        "await import('fs')",
        "await import('./x.js')",
        "await import('data:text/javascript,1')",
        "await import('<input>')",
        "new agent({})",
        "agent = 1",
        "log = () => 1",
        "args = {}",
        "delete globalThis.agent",
        "delete globalThis.args",
        "Object.defineProperty(globalThis, 'agent', {value: 1})",
        "Object.defineProperty(globalThis, 'parallel', {get() { return 1 }})",
        "Object.defineProperty(globalThis, 'args', {value: 1})",
        "agent.x = 1",
        "Object.setPrototypeOf(log, null)",
        "Object.defineProperty(Error.prototype, 'stack', {value: 1})",
        "delete Error.prototype.stack",
        "arguments.callee",
        "(function () { return arguments.callee })()",
        "(function f() { return f.caller })().x",
        "eval('with ({}) {}')",
        "eval('undeclared = 1')",
    ],
)
async def test_it_throws(expression: str) -> None:
    outcome = await run(f"try {{ {expression} }} catch (error) {{ return 'refused' }} return 'allowed'")
    assert outcome.value == "refused"


@pytest.mark.parametrize(
    "expression",
    [
        "new Error('x').stack",
        "(() => { try { null.x } catch (e) { return e.stack } })()",
        "(() => { const e = new Error('x'); e.stack = 'mine'; return e.stack })()",
        "(() => { try { atob('!') } catch (e) { return String(e.stack ?? '') } })()",
        "(() => { try { eval('(') } catch (e) { return e.stack } })()",
        "(() => { class E extends Error {} return new E('x').stack })()",
        "new AggregateError([], 'x').stack",
    ],
)
async def test_a_stack_tells_nothing(expression: str) -> None:
    assert (await run(f"return {expression}")).value == ""


async def test_the_source_of_a_function_is_not_shown() -> None:
    outcome = await run(
        "const f = (secret) => secret; class C { m() { return 'secret' } }"
        "return [String(f), f + '', Function.prototype.toString.call(C), String(agent), String(Math.max)]"
    )
    assert outcome.value == ["function () { [source not shown] }"] * 5
    assert (
        await run("try { Function.prototype.toString.call({}) } catch (e) { return e.name }")
    ).value == "TypeError"


# ---- one function body -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        "}); log('out'); (async () => {",
        "})(); log('out'); (async () => {",
        "}), log('out'), (async () => {",
        "}, async () => {",
        "}, log('out'), async () => {",
        "}, log('out'), {",
        "}, x = log('out'), {",
        "}, ...{",
        "}, ...[log('out')], {",
        "}, async y() {",
        "}, get y() {",
        "}, [log('out')]: 1, y() {",
        "}, y: log('out'), z() {",
        "} }); log('out'); ({ async script() {",
        "} }, log('out'), { async script() {",
        "} }; log('out'); { {",
        "}\n});\nlog('out');\n(async () => {",
        "} + {",
        "} ? {} : {",
        "}; {",
        "}\n{",
        "} async function x() {",
        "}); //",
        "}); /*",
        "*/ }); /*",
        "`",
        "'",
        "/*",
        "${",
        "<!--\n}); log('out'); (async () => {",
        "return 1 }); (() => {",
        "}).constructor('return this')(); (async () => {",
        "\u2028}); log('out'); (async () => {",
    ],
)
async def test_text_that_is_more_than_one_function_body_never_runs(script: str) -> None:
    with pytest.raises(ScriptRefused):
        await start(script)


@pytest.mark.parametrize(
    "script",
    [
        "// a comment at the end",
        "/* } */ return '}); (async () => {'",
        "return `}); ${'}'}`",
        "return /\\}\\)/.source",
        "function f() { return 1 } return f()",
        "{ } return 1",
        "label: for (;;) { break label }",
        "return ((a, b) => a)(1)",
        "class A { #p = 1; static { } get x() { return this.#p } } return new A().x",
        "return await (async () => 1)()",
        "for await (const x of [1]) return x",
        "return 1 // }); (async () => {",
        "const async = 1, of = 2, get = 3; return async + of + get",
        "return 5\n\n\n",
    ],
)
async def test_a_function_body_is_accepted_whatever_it_holds(script: str) -> None:
    outcome = await run(script)
    assert outcome.end is not None and outcome.end.ok


# ---- the bridge ------------------------------------------------------------------------------------------

ATTACKS = {
    "JSON.stringify": "JSON.stringify = () => '{\"evil\":1}';",
    "JSON.parse": "JSON.parse = () => ({results: []});",
    "no JSON": "delete globalThis.JSON;",
    "toJSON of strings": "String.prototype.toJSON = () => 'evil';",
    "Promise.prototype.then": "Promise.prototype.then = () => { throw new Error('evil') };",
    "Promise.prototype.constructor": "Promise.prototype.constructor = class Evil {};",
    "Promise.prototype.constructor getter": (
        "Object.defineProperty(Promise.prototype, 'constructor', {get() { throw new Error('evil') }});"
    ),
    "Promise species": "Object.defineProperty(Promise, Symbol.species, {get() { return class Evil {} }});",
    "Promise.resolve": "Promise.resolve = () => { throw new Error('evil') };",
    "Promise": "globalThis.Promise = class Evil { constructor() { throw 1 } };",
    "Array.prototype.join": "Array.prototype.join = () => 'evil';",
    "Array.prototype.map": "Array.prototype.map = () => ['evil'];",
    "Array.prototype.push": "Array.prototype.push = () => { throw 1 };",
    "array indices": (
        "for (let i = 0; i < 9; i++) Object.defineProperty(Array.prototype, i, {set() { throw new Error('evil') }, get() { return 'evil' }});"
    ),
    "object indices": (
        "for (let i = 0; i < 9; i++) Object.defineProperty(Object.prototype, i, {set() { throw new Error('evil') }, get() { return 'evil' }});"
    ),
    "names of records": (
        "for (const k of ['label', 'place', 'used', 'settled', 'error', 'promise', 'resolve', 'reject', 'op', 'keys', 'list',"
        " 'alone', 'example', 'code', 'message', 'thrown', 'index', 'results', 'id', 'ok', 'stepIds', 'more'])"
        " Object.defineProperty(Object.prototype, k, {get() { return 'evil' }, set() { throw new Error('evil') }});"
    ),
    "descriptors": (
        "for (const k of ['get', 'set', 'writable', 'enumerable', 'configurable'])"
        " Object.defineProperty(Object.prototype, k, {__proto__: null, get() { throw new Error('evil') }});"
    ),
    "descriptor value": "Object.prototype.value = 'evil';",
    "length": "Object.prototype.length = 3;",
    "String.prototype.slice": "String.prototype.slice = () => 'evil';",
    "String.prototype.includes": "String.prototype.includes = () => true;",
    "String.prototype.repeat": "String.prototype.repeat = () => 'evil';",
    "String iterator": "String.prototype[Symbol.iterator] = function* () { yield 'evil' };",
    "RegExp.prototype.exec": "RegExp.prototype.exec = () => null;",
    "RegExp flags": "Object.defineProperty(RegExp.prototype, 'flags', {get() { throw 1 }});",
    "RegExp symbols": "for (const s of ['match', 'replace', 'split', 'search']) RegExp.prototype[Symbol[s]] = () => { throw 1 };",
    "Object functions": "Object.create = Object.freeze = Object.hasOwn = Object.defineProperty = () => ({evil: 1});",
    "Reflect functions": "Reflect.apply = Reflect.ownKeys = Reflect.defineProperty = Reflect.getPrototypeOf = () => 'evil';",
    "no Reflect": "delete globalThis.Reflect; delete globalThis.Object;",
    "WeakMap": "WeakMap.prototype.get = () => ({name: 'evil', code: 'evil', message: 'evil'}); WeakMap.prototype.set = () => {};",
    "array iterator": "Array.prototype[Symbol.iterator] = function* () { yield 'evil' };",
    "array iterator next": "Object.getPrototypeOf([][Symbol.iterator]()).next = () => ({done: true});",
    "Function call": "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => 'evil';",
    "Error": "globalThis.Error = class Evil { get message() { return 'evil' } };",
    "Error.prototype": "Error.prototype.name = 'Evil'; Error.prototype.message = 'evil'; Error.prototype.toString = () => 'evil';",
    "WorkflowError name": "Object.defineProperty(Error.prototype, 'code', {get() { return 'evil' }, set() { throw 1 }});",
    "prepareStackTrace": "Error.prepareStackTrace = () => { throw 1 };",
    "queueMicrotask": "globalThis.queueMicrotask = () => { throw 1 };",
    "eval": "globalThis.eval = () => 'evil';",
    "String": "globalThis.String = () => 'evil'; globalThis.BigInt = () => 1n; globalThis.Number = () => 1;",
    "Array.isArray": "Array.isArray = () => true;",
    "Symbol.hasInstance": "for (const c of [Promise, Error, Array]) Object.defineProperty(c, Symbol.hasInstance, {value: () => false});",
    "prototype of prototypes": "Object.setPrototypeOf(Array.prototype, new Proxy({}, {get() { return 'evil' }, set() { return true }, has() { return true }}));",
    "prototype of functions": "Object.setPrototypeOf(Function.prototype, new Proxy({}, {get() { return () => 'evil' }}));",
    "__proto__": "Object.defineProperty(Object.prototype, '__proto__', {get() { return 'evil' }, set() { throw 1 }});",
    "Symbol.toPrimitive": "Object.prototype[Symbol.toPrimitive] = () => 'evil'; Object.prototype.valueOf = () => 'evil';",
    "numbers": "Number.prototype.toString = () => 'evil'; Number.prototype.toJSON = () => 'evil'; BigInt.prototype.toString = () => 'evil';",
    "concat": "String.prototype.concat = () => 'evil'; String.prototype.valueOf = String.prototype.toString = () => 'evil';",
    "async prototypes": ("const A = (async () => {}).constructor; Object.setPrototypeOf(A.prototype, null);"),
    "generator prototypes": "Object.getPrototypeOf(function* () {}).prototype.next = () => { throw 1 };",
    "frozen prototypes": "for (const o of [Object, Array, Promise, Function, String, RegExp, Error]) Object.freeze(o.prototype);",
    "getter on args": "try { Object.defineProperty(args, 'x', {get() { return 1 }}) } catch {}",
    "getters of options": (
        "await agent(Object.defineProperties({}, {stepId: {enumerable: true, get() { log('got'); return 'first' }},"
        " agentRef: {enumerable: true, value: 'x'}, task: {enumerable: true, value: 1}}));"
    ),
    "a proxy of options": (
        "const seen = {}; await agent(new Proxy({stepId: 'first', agentRef: 'x', task: 1},"
        " {get(t, k) { seen[k] = (seen[k] ?? 0) + 1; return seen[k] > 1 ? 'ev/il' : t[k] }}));"
    ),
    "calls inside calls": (
        "let inner; await agent({stepId: 'outer', agentRef: 'x', task: {toJSON() { inner = agent({stepId: 'inner', agentRef: 'x', task: 1}); return 1 }}}); await inner;"
    ),
    "a thunk's this": "await parallel([function () { if (this !== undefined) throw 1 }]);",
    "own then": "const q = agent({stepId: 'own', agentRef: 'x', task: 1}); q.then = () => { throw 1 }; await q;",
    "prototype of a call": (
        "const q = agent({stepId: 'own', agentRef: 'x', task: 1}); Object.setPrototypeOf(q, null); await q;"
    ),
    "errors that look ours": "try { throw Object.assign(new Error('x'), {name: 'WorkflowError', code: 'memory_limit'}) } catch {}",
    "constructor of a call": (
        "const q = agent({stepId: 'own', agentRef: 'x', task: 1});"
        " try { Object.defineProperty(q, 'constructor', {value: class Evil {}}); throw 1 } catch (e) { if (e === 1) throw e } await q;"
    ),
    "a step's name in text": 'log(\'"},{"id":1,"op":"agent"}]}\');',
}

PROBE = """
const r = await agent({stepId: 'probe', agentRef: 'lead_agent', task: 'the task'});
log('the log');
try { await agent({stepId: 'probe', agentRef: 'x', task: 1}) } catch (error) { log(error.code + '|' + error.message) }
return r.output;
"""


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
async def test_no_attack_forges_or_breaks_a_frame(attack: str) -> None:
    outcome = await run(attack + PROBE, answer=echo)
    assert outcome.died is None
    assert outcome.value == "the task"
    probes = [call for call in outcome.calls if call.get("step_id") == "probe"]
    assert len(probes) == 1
    assert {**probes[0], "id": 0} == {
        "id": 0,
        "op": "agent",
        "step_id": "probe",
        "agent_ref": "lead_agent",
        "task": "the task",
    }
    assert outcome.logged[-2:] == [
        "the log",
        "duplicate_step_id|The stepId 'probe' is used twice; each names one step of the run.",
    ]


@pytest.mark.parametrize(
    "attack",
    [
        "Object.prototype.toJSON = () => 'evil';",
        "Array.prototype.toJSON = () => 'evil';",
        "Object.prototype.then = function (resolve) { resolve('evil') };",
        "Object.defineProperty(Object.prototype, 'then', {get() { throw new Error('evil') }});",
    ],
)
async def test_pollution_changes_what_the_script_sees_and_not_the_frames(attack: str) -> None:
    """Plain JavaScript: these change values of the script itself, but no call, name or count."""
    outcome = await run(attack + "\nawait agent({stepId: 'a', agentRef: 'x', task: {n: 1}}); return [1]")
    assert outcome.died is None
    assert [call["op"] for call in outcome.calls] == ["agent"]
    assert outcome.calls[0]["step_id"] == "a" and outcome.calls[0]["agent_ref"] == "x"
    assert outcome.turns[-1].outstanding == 0


@pytest.mark.parametrize(
    "script",
    [
        "const f = () => { try { f() } catch { agent({stepId: 's' + Math.floor(n++), agentRef: 'x', task: 1}).catch(() => 0) } }; let n = 0; f(); await 0;",
        "let n = 0; const f = () => { log('x'); f() }; try { f() } catch {}",
        "let n = 0; const f = () => { n++; f() }; try { f() } catch {} const g = (k) => k ? g(k - 1) : log('deep'); for (let k = n; k > n - 60; k--) try { g(k) } catch {}",
        "let n = 0; const f = () => { n++; f() }; try { f() } catch {} const g = (k) => k ? g(k - 1) : agent({stepId: 'd' + n++, agentRef: 'x', task: {}}).catch(() => 0); for (let k = n; k > n - 60; k--) try { g(k) } catch {} await 0",
        "const fill = []; try { for (;;) fill.push({}) } catch {} for (let i = 0; i < 9; i++) try { log('x'); agent({stepId: 'm' + i, agentRef: 'x', task: 1}) } catch {}",
    ],
)
async def test_calls_at_the_edge_of_stack_or_memory_keep_the_books_right(script: str) -> None:
    """Whatever becomes of the script, the worker never says something that does not add up."""
    outcome = await run(script)
    assert outcome.died is None or outcome.died.reason == "turn_limit"


async def test_how_far_a_swallowed_interruption_came_never_leaves_the_worker() -> None:
    """The count depends on the machine's speed: a script must not be able to use it as a clock."""
    outcome = await run(
        """
        log('before');
        let n = 0;
        await Promise.try(() => { for (;;) n++ }).catch(() => 0);
        log('after ' + n);
        await agent({stepId: 'a', agentRef: 'x', task: n});
        """
    )
    assert outcome.code == "time_limit"
    assert outcome.logged == ["before"]
    assert len(outcome.calls) == 1
    outcome = await run("log(1); const e = new InternalError('interrupted'); log(2); return e.message")
    assert outcome.value == "interrupted"
    assert outcome.logged == ["1", "2"]


def test_random_text_that_closes_the_function_is_never_accepted() -> None:
    words = [
        "}",
        "{",
        "(",
        ")",
        ",",
        ";",
        "=>",
        "async",
        "()",
        "x",
        "[",
        "]",
        ":",
        "=",
        "...",
        "get",
        "set",
        "y",
        "1",
        "class",
        "function",
        "static",
        "await",
        "return",
        "?",
        "`${",
        "*",
        "+",
        "-",
        "function*",
        "new",
        ".",
        "?.",
        "#p",
        "in",
        "of",
        "let",
        "const",
        "if",
        "else",
        "for",
        "while",
        "do",
        "try",
        "catch",
        "finally",
        "/*",
        "*/",
        "//",
        "`",
        "'",
        '"',
        "/",
        "-",
        "}",
        ",",
        "{",
        "}",
        ")",
    ]
    openers = [
        "",
        "{",
        "({",
        "=> {",
        "() => {",
        "x() {",
        "async () => {",
        "[{",
        "async x() {",
        "static {",
        "; {",
    ]
    random = Random(7)
    bridge = _quickjs.Context().eval(prelude().decode())
    assert bridge("compile", "return 1", 10, 1) is None
    for _ in range(4000):
        inner = random.choices(words, k=random.randint(0, 6))
        script = " ".join(["}", *inner, random.choice(openers)])
        assert bridge("compile", script, 10, 1) is not None, script
