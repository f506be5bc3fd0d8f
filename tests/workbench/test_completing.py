"""What completion offers at a place of a script."""

from __future__ import annotations

import pytest

from workbench.completing import Word, offer
from workflows_core.script.check import api_completions

SCRIPT = "const evidence = await agent({stepId: 'evidence', agentRef: 'lead_agent', task: args});\n"
WORDS = [Word(it.label, it.kind, it.detail, it.insert) for it in api_completions(SCRIPT)]


def labels(before: str) -> list[str]:
    return [word.label for word in offer(WORDS, ["second", "lead_agent"], before).words]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("await pa", ["parallel", "pause"]),
        ("human", ["humanCheckpoint"]),
        ("evid", ["evidence"]),
        ("humanCheckpoint({sourceStepId: 'ev", ["evidence"]),
        ("agent({stepId: `", ["evidence"]),
        ("agent({agentRef: 'l", ["lead_agent"]),
        ('agent({agentRef: "', ["lead_agent", "second"]),
        ("evidence.out", ["output"]),
        ("x = nothing_is_called_this", []),
        ("agent({stepId: 'evidence'", []),
    ],
)
def test_what_is_offered_fits_the_place(before: str, expected: list[str]) -> None:
    assert labels(before)[: len(expected)] == expected
    assert bool(labels(before)) == bool(expected) or before.endswith("'")


def test_names_and_properties_are_not_mixed() -> None:
    assert "stepId" in labels("agent({step") and "output" not in labels("out")
    assert "args" not in labels("evidence.a") and "artifactVersion" in labels("evidence.a")


def test_await_is_not_typed_twice() -> None:
    (function,) = [word for word in offer(WORDS, [], "await age").words if word.kind == "function"]
    assert function.insert.startswith("agent({stepId: ")
    (function,) = [word for word in offer(WORDS, [], "x = age").words if word.kind == "function"]
    assert function.insert.startswith("await agent({stepId: ")


def test_the_prefix_is_what_the_word_replaces() -> None:
    assert offer(WORDS, [], "  humanCh").prefix == "humanCh"
    assert offer(WORDS, [], "pause({stepId: 'before-rep").prefix == "before-rep"
    assert offer(WORDS, [], "").prefix == ""
