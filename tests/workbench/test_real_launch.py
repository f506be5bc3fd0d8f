"""What is said before real Agents are called: how often, who answers, and what bounds the cost."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.host.config import AgentConfig, WorkbenchConfig
from workbench.real_launch import bound_in_words


def told(calls: int = 3, **agents: dict[str, Any]) -> str:
    made = {
        name: AgentConfig(name=name, backend=keys.pop("backend"), settings=keys)
        for name, keys in agents.items()
    }
    return bound_in_words(WorkbenchConfig(agents=made), [*agents, "gone"], calls)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"backend": "stub"}, "a: the stub backend, which costs nothing"),
        ({"backend": "manual"}, "a: a person, who is asked each time"),
        ({"backend": "command", "argv": ["/bin/x\x1b[2J", "y"]}, "a: the program /bin/x␛[2J on this machine"),
        ({"backend": "deerflow", "base_url": "http://h"}, "a: lead_agent at http://h"),
        (
            {"backend": "openai", "model": "m", "base_url": "http://h"},
            "a: m at http://h, answers of any length",
        ),
        ({"backend": "langchain"}, "a: the backend langchain"),
    ],
)
def test_who_answers(keys: dict[str, Any], words: str) -> None:
    text = told(a=keys)
    assert text.startswith("Up to 3 calls to real Agents:\n")
    assert words in text


def test_tokens_are_bounded_where_every_paid_agent_has_a_bound() -> None:
    one = {"backend": "openai", "model": "m", "base_url": "u", "max_tokens": 500}
    two = {"backend": "openai", "model": "n", "base_url": "u", "max_tokens": 2_000}
    text = told(5, a=dict(one), b=dict(two), c={"backend": "stub"})
    assert "at most 500 tokens an answer" in text
    assert "That is at most 10,000 tokens of answers." in text
    assert "no limit on money holds" in told(5, a=dict(one), b={"backend": "command", "argv": ["x"]})
