"""Public JavaScript, as a development dependency ships it, asks the same with probes and without.

Each function in those files becomes a script of its own: one Agent call before it, then the function is called with
several arguments, then a second Agent call that carries everything that came of it.
"""

from __future__ import annotations

import json
import random
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
import tree_sitter_javascript
from tree_sitter import Language, Parser

from tests.workflows_core.journal.recording import record
from workflows_core import limits
from workflows_core.errors import ScriptRefused
from workflows_core.journal.debugger import Debugger
from workflows_core.journal.replay import limit_code
from workflows_core.script.instrument import InstrumentRefused, instrument
from workflows_core.script.source import script_bytes

#: Angular and its parts, as written and minified; and an application beside a large minified library.
DISTRIBUTIONS = ("XStatic-Angular", "import-linter")
FUNCTIONS = {
    "function_declaration",
    "function_expression",
    "arrow_function",
    "generator_function",
    "generator_function_declaration",
}
SCRIPT = """\
const before = await agent({stepId: 'before', agentRef: 'lead_agent', task: 0});
const seen = [];
const tell = (value) => { try { return String(JSON.stringify(value)).slice(0, 200); } catch (e) { return e.name; } };
const subject = (%s
);
for (const given of [[], [1], ['text', 2], [[3, 1, 2], (x) => x], [{a: 1, length: 2}, 0, true]]) {
  try {
    const made = subject(...given);
    seen.push(typeof made, tell(made), typeof made?.next === 'function' ? tell(made.next()) : '');
  } catch (error) {
    seen.push(tell(error?.name));
  }
}
await agent({stepId: 'after', agentRef: 'lead_agent', task: {name: subject.name, length: subject.length, seen}});
return before.output;
"""


@cache
def functions() -> list[str]:
    """The sources of the functions in the files, each once, small enough for a script."""
    parser = Parser(Language(tree_sitter_javascript.language()))
    found: dict[str, None] = {}
    shipped = [file for name in DISTRIBUTIONS for file in metadata.files(name) or ()]
    for file in shipped:
        if file.suffix != ".js":
            continue
        data = Path(str(file.locate())).read_bytes()
        stack = [parser.parse(data).root_node]
        while stack:
            node = stack.pop()
            if (
                node.type in FUNCTIONS
                and 30 <= node.end_byte - node.start_byte <= 6_000
                and not node.has_error
            ):
                found[data[node.start_byte : node.end_byte].decode("utf-8", "replace")] = None
            stack.extend(node.children)
    return sorted(found)


async def outcome(source: str) -> str:
    """Whether a function agrees: ``agreed``, or why that cannot be asked."""
    script = SCRIPT % source
    if script_bytes(script) > limits.SCRIPT_BYTES:
        return "too large"
    try:
        instrument(script)
        frames = await record(script, rounds=4)
    except (ScriptRefused, InstrumentRefused):
        return "refused"
    if limit_code(frames[-1].body) is not None:
        return "limit"
    debugger = await Debugger.open(script, frames)
    try:
        return (
            "agreed"
            if debugger.level == "statements" and debugger.diverged is None
            else json.dumps(debugger.notes)
        )
    finally:
        await debugger.close()


async def counted(sources: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for source in sources:
        word = await outcome(source)
        assert word in ("agreed", "refused", "limit", "too large"), (word, source)
        found[word] = found.get(word, 0) + 1
    return found


async def test_a_sample_of_public_functions_asks_the_same_with_probes() -> None:
    every = functions()
    assert len(every) > 500
    found = await counted(random.Random(1).sample(every, 10))
    assert found.get("agreed", 0) >= 6, found


@pytest.mark.soak
async def test_public_functions_ask_the_same_with_probes() -> None:
    every = functions()
    found = await counted(random.Random(2).sample(every, min(len(every), 1_500)))
    assert found["agreed"] > 0.8 * sum(found.values()), found
