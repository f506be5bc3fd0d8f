"""Values cross into JavaScript and back exactly, or are refused in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workflows_core.jsontext import encode
from workflows_core.limits import Limits
from workflows_core.worker.process import Worker

from .support import response, result, run, start

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.one_of(
    st.integers(-(2**53), 2**53),
    st.integers(53, 200).map(lambda power: 2**power),
    st.integers(53, 200).map(lambda power: -(2**power) - 2 ** (power - 52)),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=5)),
    max_leaves=20,
)

RELAY = """
let value = null;
for (let i = 0; i < args.count; i++) value = (await agent({stepId: 's' + i, agentRef: 'x', task: value})).output;
return value;
"""


@settings(deadline=None, max_examples=12)
@given(st.lists(VALUES, min_size=1, max_size=25))
async def test_any_json_comes_back_as_it_went(values: list[Any]) -> None:
    """Each value goes in as an output, and comes out as the next task or as the result."""
    answers = iter(values)
    outcome = await run(
        RELAY,
        {"count": len(values)},
        answer=lambda call: {"output": next(answers)},
        rounds=100,
    )
    assert [call["task"] for call in outcome.calls] == [None, *values[:-1]]
    assert outcome.value == values[-1]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("\0", id="NUL"),
        pytest.param({"\0": "a\0b"}, id="NUL in a key"),
        pytest.param(
            {"__proto__": {"x": 1}, "constructor": 1, "toString": 2, "then": 3}, id="names of Object"
        ),
        pytest.param([{"__proto__": None}], id="proto null"),
        pytest.param(2**53, id="2^53"),
        pytest.param(-(2**53), id="-2^53"),
        pytest.param(2**53 + 2, id="2^53+2"),
        pytest.param(2**62, id="2^62"),
        pytest.param(10**20, id="10^20"),
        pytest.param(
            [2**62, "4611686018427387904", {"4611686018427387904": -(2**65)}], id="digits in strings"
        ),
        pytest.param(5e-324, id="smallest"),
        pytest.param(1.7976931348623157e308, id="largest"),
        pytest.param(1e-7, id="1e-7"),
        pytest.param(0.30000000000000004, id="seventeen digits"),
        pytest.param("\u2028\u2029\ufeff\uffff\U0001f600\U0010ffff", id="separators and astral"),
        pytest.param("\\ud800", id="an escape that is text"),
        pytest.param('"\\\\"', id="quotes and backslashes"),
        pytest.param("x" * 12_000, id="long text"),
        pytest.param({f"k{i}": i for i in range(1000)}, id="1000 keys"),
        pytest.param([[]] * 1000, id="1000 lists"),
        pytest.param({"": {"": [{"": ""}]}}, id="empty keys"),
    ],
)
async def test_edges_come_back(value: Any) -> None:
    outcome = await run(RELAY, {"count": 2}, answer=lambda call: {"output": value})
    assert outcome.calls[1]["task"] == value
    assert encode(outcome.value) == encode(value)


async def test_minus_zero_is_zero_as_in_all_json_of_javascript() -> None:
    outcome = await run(RELAY + "// ", {"count": 1}, answer=lambda call: {"output": -0.0})
    assert encode(outcome.value) == b"0"
    seen = await run(
        "const r = await agent({stepId: 'a', agentRef: 'x', task: 1}); return Object.is(r.output, -0)",
        answer=lambda call: {"output": -0.0},
    )
    assert seen.value is True


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


async def test_nesting_goes_to_its_limit_and_not_beyond() -> None:
    outcome = await run(RELAY, {"count": 2}, answer=lambda call: {"output": nested(190)})
    assert outcome.value == nested(190)
    outcome = await run(RELAY, {"count": 2}, answer=lambda call: {"output": nested(191)})
    assert outcome.code == "too_deep"
    assert "task of step 's1'" in outcome.error["message"]
    outcome = await run("let v = {}; for (let i = 0; i < 191; i++) v = {v}; return v")
    assert outcome.code == "result_not_json"
    outcome = await run("return '['.repeat(500) + '{'.repeat(500)")
    assert outcome.value == "[" * 500 + "{" * 500


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("'\\ud800'", "lone_surrogate"),
        ("['\\udfff']", "lone_surrogate"),
        ("{'\\ud83d': 1}", "lone_surrogate"),
        ("'\\ude00\\ud83d'", "lone_surrogate"),
        ("'\\\\\\ud800'", "lone_surrogate"),
        ("10n", "not_json"),
        ("{a: [1n]}", "not_json"),
        ("undefined", "not_json"),
        ("Symbol()", "not_json"),
        ("() => 1", "not_json"),
        ("(() => { const a = []; a.push(a); return a })()", "not_json"),
        ("{toJSON() { throw new Error('mine') }}", "not_json"),
        ("{get a() { throw new Error('mine') }}", "not_json"),
        ("new Proxy({}, {ownKeys() { throw new Error('mine') }})", "not_json"),
    ],
)
async def test_what_json_cannot_say_is_refused(value: str, code: str) -> None:
    outcome = await run(f"await agent({{stepId: 'a', agentRef: 'x', task: {value}}})")
    assert outcome.code == code
    assert outcome.calls == []
    if value not in ("undefined",):
        outcome = await run(f"return {value}")
        assert outcome.code == "result_not_json"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[NaN, Infinity, -Infinity, undefined, () => 1]", [None, None, None, None, None]),
        ("{a: undefined, b: NaN}", {"b": None}),
        ("new Map([[1, 2]])", {}),
        ("{toJSON() { return 'mine' }}", "mine"),
        ("[2 ** 53 + 1, 9007199254740993]", [2**53, 2**53]),
        ("new Proxy({a: 1}, {})", {"a": 1}),
        ("Object.create({inherited: 1}, {own: {value: 2, enumerable: true}})", {"own": 2}),
    ],
)
async def test_values_are_written_as_javascript_writes_them(value: str, expected: Any) -> None:
    assert (await run(f"return {value}")).value == expected


async def test_a_million_keys_are_refused_in_words() -> None:
    outcome = await run(
        "const big = {}; for (let i = 0; i < 1e6; i++) big['k' + i] = i; return big",
        limits=Limits(memory_bytes=33_554_432),
        replay=True,
    )
    assert outcome.code in ("frame_too_large", "memory_limit")


async def test_javascript_reads_exactly_the_bytes_it_is_given() -> None:
    """The order of keys is that of the journaled bytes, not of any object on the way."""
    worker: Worker = await start(
        "const r = await agent({stepId: 'a', agentRef: 'x', task: 1}); return Object.keys(r).join()"
    )
    try:
        await worker.first_turn()
        turn = await worker.give([b'{"results":[{"id":1,"ok":true,"value":{"z":1,"a":2,"m":3}}]}'])
        assert turn.end is not None and turn.end.value == "z,a,m"
    finally:
        await worker.close()


async def test_two_runs_of_one_script_send_the_same_bytes() -> None:
    script = "await agent({stepId: 'a', agentRef: 'x', task: {b: [1e-7, 2 ** 60], a: 'é', ['\\0']: null}}); return {z: 1, a: 2}"
    bodies = []
    for _ in range(2):
        worker = await start(script)
        try:
            first = await worker.first_turn()
            second = await worker.give([response(result(1, None))])
            assert second.end is not None
            bodies.append((first.requests[0].body, second.end.body))
        finally:
            await worker.close()
    assert bodies[0] == bodies[1]
    assert bodies[0][1] == b'{"by":"script","ok":true,"value":{"a":2,"z":1}}'
