"""Exact bytes as lines: nothing missing, nothing added but layout, nothing that acts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workbench.views import agent_step, run_view
from workbench.checkpoints import check_bytes, checkpoint, next_steps, renderer, rows
from workbench.inert import acts, cells
from workflows_core import jsontext
from workflows_core.errors import Conflict, NotFound
from workflows_core.model import Artifact, StepKind, StepStatus, StepView

SCRIPT = """\
const a = await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});
const f = await captureArtifact({stepId: 'f', sourceStepId: 'a', path: 'x'});
await humanCheckpoint({stepId: 'ok', sourceStepId: 'f', artifactVersion: f.artifactVersion});
for (const n of args.names) {
  await agent({stepId: `b-${n}`, agentRef: 'lead_agent', task: n});
}
await pause({stepId: 'stop'});
return await agent({stepId: 'c', agentRef: 'lead_agent', task: 1, artifacts: [f.artifactVersion]});
"""


def artifact(body: bytes, media_type: str = "text/plain") -> Artifact:
    return Artifact("f", jsontext.sha256(body), media_type, body, None)


def checkpoint_step(**changes: Any) -> StepView:
    return agent_step(
        "ok",
        kind=StepKind.CHECKPOINT,
        status=StepStatus.WAITING,
        input={"sourceStepId": "f"},
        line=3,
        column=7,
        **changes,
    )


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=120).map(lambda text: text.encode("utf-8", "ignore")))
def test_every_byte_stands_in_exactly_one_line_that_fits_and_is_inert(body: bytes) -> None:
    shown = list(rows(artifact(body), 80))
    ends = [row.end for row in shown]
    assert ends == sorted(ends)
    assert (ends[-1] if ends else 0) == len(body)
    for row in shown:
        assert not acts(row.text)
        assert cells(row.text) <= 80


@settings(max_examples=150, deadline=None)
@given(JSON_VALUES, st.sampled_from([(",", ":"), (", ", ": "), (",  ", ":")]))
def test_json_gets_line_breaks_and_indents_and_nothing_else(
    value: object, separators: tuple[str, str]
) -> None:
    body = json.dumps(value, separators=separators).encode()
    found = artifact(body, "application/json")
    assert renderer(found) == "json"
    shown = list(rows(found, 400))
    assert "".join(row.text[len(row.text) - len(row.text.lstrip(" ")) :] for row in shown).encode() == body
    assert (shown[-1].end, [row.end for row in shown]) == (len(body), sorted(row.end for row in shown))


def test_json_is_laid_out_as_people_write_it() -> None:
    body = b'{"a":[1,{"b":[]}],"c":"x,[y]\\"{","d":{}}'
    assert [row.text for row in rows(artifact(body, "application/json"), 80)] == [
        "{",
        '  "a":[',
        "    1,",
        "    {",
        '      "b":[]',
        "    }",
        "  ],",
        '  "c":"x,[y]\\"{",',
        '  "d":{}',
        "}",
    ]


def test_a_blank_after_a_comma_makes_no_indent_crooked() -> None:
    body = b'{ "i": 0, "name": [1, 2], "c": "x, y" }'
    assert [row.text.rstrip() for row in rows(artifact(body, "application/json"), 80)] == [
        "{",
        '  "i": 0,',
        '  "name": [',
        "    1,",
        "    2",
        "  ],",
        '  "c": "x, y"',
        "}",
    ]


@pytest.mark.parametrize(
    ("body", "media_type", "how"),
    [
        (b"plain", "text/plain", "text"),
        (b'{\n "a": 1}', "application/json", "text"),
        (b"a\0b", "text/plain", "hex"),
        (b"\xff\xfe", "image/png", "hex"),
    ],
)
def test_what_is_no_text_is_shown_as_hexadecimal(body: bytes, media_type: str, how: str) -> None:
    assert renderer(artifact(body, media_type)) == how


def test_hexadecimal_shows_offset_bytes_and_what_is_printable() -> None:
    first, second = rows(artifact(b"\x00" + bytes(range(0x41, 0x51))), 80)
    assert first.text.startswith("00000000  00 41 42")
    assert first.text.endswith(" .ABCDEFGHIJKLMNO")
    assert (second.text.split()[:2], second.end) == (["00000010", "50"], 17)


def test_the_steps_after_a_checkpoint_and_which_of_them_gets_the_bytes() -> None:
    found = next_steps(SCRIPT, checkpoint_step())
    assert [(step.step_id, step.kind, step.line, step.given) for step in found] == [
        ("a step", "agent", 5, False),
        ("stop", "pause", 7, False),
        ("c", "agent", 8, True),
    ]
    assert next_steps("return (;", checkpoint_step()) == []


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("task: e.output", True),
        ("task: {all: [e]}", True),
        ("task: {e}", True),
        ("task: args", False),
        ("task: e.artifactVersion", False),
        ("task: {output: 1}", False),
    ],
)
def test_an_output_that_stands_in_a_task_is_given_to_its_agent(call: str, given: bool) -> None:
    script = (
        "const e = await agent({stepId: 'e', agentRef: 'a', task: 1});\n"
        "await humanCheckpoint({stepId: 'ok', sourceStepId: 'e', artifactVersion: e.artifactVersion});\n"
        f"return await agent({{stepId: 'next', agentRef: 'a', {call}}});\n"
    )
    step = agent_step("ok", kind=StepKind.CHECKPOINT, input={"sourceStepId": "e"}, line=2, column=7)
    (found,) = next_steps(script, step)
    assert (found.step_id, found.given) == ("next", given)


def test_only_a_checkpoint_with_its_own_bytes_is_decided() -> None:
    body = b"bytes"
    step = checkpoint_step(artifact_version=jsontext.sha256(body))
    view = run_view(steps=(agent_step("f"), step))
    assert checkpoint(view, "ok") is step
    check_bytes(checkpoint(view, "ok"), artifact(body))
    with pytest.raises(Conflict, match="Nothing can be decided"):
        check_bytes(checkpoint(view, "ok"), artifact(b"other"))
    with pytest.raises(Conflict, match="is no checkpoint"):
        checkpoint(view, "f")
    with pytest.raises(NotFound, match="its checkpoints: ok"):
        checkpoint(view, "missing")
