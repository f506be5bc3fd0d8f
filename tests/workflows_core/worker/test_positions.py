"""Line and column of every call and of every error, counted in the script."""

from __future__ import annotations

import pytest

from workflows_core.worker.process import compile_script

from .support import run, start

A = "{stepId: 'a', agentRef: 'x', task: 1}"


@pytest.mark.parametrize(
    ("script", "positions"),
    [
        (f"await agent({A})", [(1, 7)]),
        (f"\n\n  await agent({A})", [(3, 9)]),
        (
            "await agent({\n  stepId: 'a',\n  agentRef: 'x',\n  task: args.deep?.er ?? [1].map((v) => v)[0],\n})",
            [(1, 7)],
        ),
        (f"/* a\n b */ await agent({A})", [(2, 13)]),
        (f"`\n${{1}}\n`; await agent({A})", [(3, 10)]),
        (f"'é中😀'; await agent({A})", [(1, 14)]),
        (f"const s = '\u2028'; await agent({A})", [(1, 22)]),
        (f"log('x');\r\n  await agent({A})", [(1, 1), (2, 9)]),
        (f"await agent\n  ({A})", [(1, 7)]),
        (f"await agent?.({A})", [(1, 7)]),
        (f"const ask = () =>\n  agent({A});\nawait ask()", [(2, 3)]),
        (f"const ask = agent;\nawait 0;\nawait ask({A})", [(3, 7)]),
        (f"await Promise.all([{A}].map(agent))", [(1, 63)]),
        (f"await eval(`\n\n\nagent({A})`)", [(1, 1)]),
        ('await new Function(\'return agent({stepId: "a", agentRef: "x", task: 1})\')()', [(1, 11)]),
        (
            f"await parallel([\n  () => agent({A}),\n  () => pause({{stepId: 'p'}}).catch(() => 1),\n])",
            [(2, 9)],
        ),
        (
            "await agent({stepId: 'o', agentRef: 'x',\n task: (await agent({stepId: 'i', agentRef: 'x', task: args.x ?? 1})).output})",
            [(2, 15), (1, 7)],
        ),
        ("await pause({stepId: 'p'}); await readArtifact({artifactVersion: 'v'})", [(1, 7), (1, 35)]),
    ],
)
async def test_a_call_is_placed_where_the_script_makes_it(
    script: str, positions: list[tuple[int, int]]
) -> None:
    outcome = await run(script)
    assert outcome.positions == positions, outcome


@pytest.mark.parametrize(
    ("before", "place"),
    [
        ("let a;\rlet b;", (1, 14)), ("\r\r\n", (2, 1)), ("\u2028\u2029\n\u2028", (2, 2)), ("// a\r", (1, 6)),
        ("// a\u2028", (1, 6)), ("<!-- a\u2029", (1, 8)), ("<!-- a\r", (1, 8)), ("/* a\r\u2028 */", (1, 10)),
        ("/* a\r\n\r */\u2028\r", (2, 7)), ("`\r\u2028`;\r", (1, 7)), ("`${1\u2028}`;", (1, 9)),
        ("'\u2028' + '\\\r' + '\\\u2028';", (1, 19)), ("/[\\]/]/;\u2028\r\r\n", (2, 1)),
    ],
)  # fmt: skip
async def test_what_ends_a_line_for_the_engine_alone_shifts_no_place(
    before: str, place: tuple[int, int]
) -> None:
    outcome = await run(f"{before}log('x');\nlog('y');")
    assert outcome.positions == [place, (place[0] + 1, 1)], outcome


async def test_code_that_only_claims_to_be_a_line_of_the_script_is_not_believed() -> None:
    outcome = await run(
        f"const f = eval('\\n'.repeat(24_000) + '() => agent({A.replace(chr(39), chr(34))})');\n\nawait f()"
    )
    assert outcome.positions == [(3, 7)]


@pytest.mark.parametrize(
    "attempt",
    [
        "Error.stackTraceLimit = 0;",
        "Error.prepareStackTrace = () => 'x';",
        "Object.defineProperty(Error, 'stackTraceLimit', {value: 0});",
        "Object.defineProperty(Error, 'prepareStackTrace', {get() { return () => 'x' }});",
        "globalThis.Error = class {};",
        "Error.prototype.constructor = null;",
        "WeakMap.prototype.set = () => {};",
        "WeakMap.prototype.get = () => {};",
        "try { Object.defineProperty(Error.prototype, 'stack', {get() { return 'x' }}) } catch {}",
        "Number.prototype.toString = () => '9';",
    ],
)
async def test_positions_cannot_be_blanked_or_forged(attempt: str) -> None:
    outcome = await run(f"{attempt}\n  await agent({A});\n throw new TypeError('x')")
    assert outcome.positions == [(2, 9)]
    assert outcome.end is not None and outcome.end.position == (3, 12)


@pytest.mark.parametrize(
    ("script", "position"),
    [
        ("\n null.x", (2, 2)),
        ("const f = () => {\n  throw new Error('x') };\nf()", (2, 13)),
        ("const e = new Error('x');\nawait 0;\nthrow e", (1, 15)),
        ("\n\nconst f = () => f();\nf()", None),  # too deep even to ask where
        ("throw 'text'", None),
        ("await Promise.reject(new Error('x'))", (1, 26)),
        (f"await agent({A});\nawait agent({A})", (2, 7)),
        (f"await 0;\nagent({A}); return 1", (2, 1)),
        ("for (const x of 5);", (1, 1)),
    ],
)
async def test_an_error_is_placed_where_it_was_made(script: str, position: tuple[int, int] | None) -> None:
    outcome = await run(script)
    assert outcome.end is not None and not outcome.end.ok
    assert outcome.end.position == position


@pytest.mark.parametrize(
    ("script", "line", "column"),
    [
        ("let 5x", 1, 5),
        ("return 1;\n  const é = 'é'; let 5x", 2, 22),
        ("if (true) {\n  log('x');\n", 3, 1),
        ("break", 1, 6),
        ("}); log('x'); (async () => {", 1, 2),
    ],
)
async def test_a_syntax_error_is_placed(script: str, line: int, column: int) -> None:
    problem = await compile_script(script)
    assert problem is not None
    assert (problem.line, problem.column) == (line, column), problem
    assert problem.message.startswith("SyntaxError: ")


async def test_a_script_that_compiles_has_no_problem_and_does_not_run() -> None:
    assert await compile_script("for (;;);") is None
    assert await compile_script("") is None


async def test_positions_are_not_part_of_the_body() -> None:
    worker = await start(f"await agent({A})")
    moved = await start(f"\n\n   await agent({A})")
    try:
        first, second = await worker.first_turn(), await moved.first_turn()
        assert first.requests[0].body == second.requests[0].body
        assert first.requests[0].positions != second.requests[0].positions
    finally:
        await worker.close()
        await moved.close()


@pytest.mark.parametrize(
    ("script", "position"),
    [
        ("const n = 1;\nconst spin = () => {\n  for (;;);\n};\nspin();", (2, 1)),
        ("log('a');\nlog('b');\nfor (;;);", (2, 1)),
        (f"await agent({A});\nlog('after');\nfor (;;);", (2, 1)),
        ("try {\n  [1].forEach(() => {\n    for (;;);\n  });\n} catch (e) {}\nreturn 1;", (2, 1)),
        ("await 0;\nlog('x');\ntry { for (;;); } catch (e) {}\nreturn 1;", (2, 1)),
        ("for (;;);", None),
    ],
)
async def test_a_script_that_computes_too_long_is_placed_as_well_as_the_engine_can(
    script: str, position: tuple[int, int] | None
) -> None:
    """The place of the latest call in the function that computes, or the line on which that function begins."""
    outcome = await run(script)
    assert outcome.code == "time_limit"
    assert outcome.end is not None
    assert outcome.end.position == position
