"""What is said before real Agents are called: how often, who answers, and what bounds the cost."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.agents.settings import Price
from workbench.host.config import AgentConfig, WorkbenchConfig
from workbench.real_launch import FRAMING_TOKENS, bound_in_words, real_bound
from workflows_core.limits import TASK_BYTES


def told(calls: int = 3, **agents: dict[str, Any]) -> str:
    return bound_in_words(WorkbenchConfig(agents=made(**agents)), [*agents, "gone"], calls)


def made(**agents: dict[str, Any]) -> dict[str, AgentConfig]:
    found = {}
    for name, given in agents.items():
        settings = {key: value for key, value in given.items() if key not in ("backend", "price")}
        found[name] = AgentConfig(
            name=name, backend=given["backend"], settings=settings, price=given.get("price")
        )
    return found


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
    text = told(5, a=one, b=two, c={"backend": "stub"})
    assert "at most 500 tokens an answer" in text
    assert "That is at most 10,000 tokens of answers." in text
    assert "no limit on money holds" in told(5, a=one, b={"backend": "command", "argv": ["x"]})


OPENAI: dict[str, Any] = {
    "backend": "openai",
    "model": "m",
    "base_url": "u",
    "max_tokens": 1_000,
    "price": Price(0, 10, "USD"),
}


def test_cost_is_bounded_where_every_agent_that_is_paid_has_a_price() -> None:
    others: dict[str, Any] = {"c": {"backend": "stub"}, "d": {"backend": "manual"}}
    # 5 calls x 1,000 tokens x 10 a million.
    text = told(5, a=OPENAI, **others)
    assert "By the prices in workbench.yaml it costs at most 0.05 USD." in text
    assert "no limit on money holds" not in text
    dearer = {**OPENAI, "price": Price(0, 2_000, "USD")}
    assert "at most 10.00 USD." in told(5, a=OPENAI, b=dearer, **others), "either may be called each time"
    assert "at most 10.00 USD." in told(5, a=dearer, b=OPENAI, **others)
    elsewhere = {**OPENAI, "price": Price(0, 3, "EUR")}
    assert "at most 0.05 USD and 0.02 EUR." in told(5, a=OPENAI, b=elsewhere)
    assert "at most 0.01 USD." in told(1, a={**OPENAI, "price": Price(0, 0.001, "USD")}), "rounded up"
    assert "None of these is paid by the call." in told(5, **others)


def test_what_is_read_is_bounded_by_the_largest_task_with_prompt_and_parameters() -> None:
    price = {"price": Price(1_000_000, 0, "USD")}
    each = TASK_BYTES + FRAMING_TOKENS + len("{}")
    assert f"at most {each:,}.00 USD." in told(1, a=OPENAI | price)
    longer = OPENAI | price | {"system": "\u00e9" * 500, "parameters": {"x": "y" * 991}}
    assert f"at most {each + 1_000 + 998:,}.00 USD." in told(1, a=longer)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"price": None}, "No price is set for b."),
        ({"max_tokens": None}, "No max_tokens is set for b."),
        ({"backend": "command", "argv": ["x"]}, "What a call of b costs is not known here."),
        ({"backend": "langchain"}, "What a call of b costs is not known here."),
    ],
)
def test_what_is_missing_for_a_bound_is_named(keys: dict[str, Any], words: str) -> None:
    text = told(5, a=OPENAI, b=OPENAI | keys)
    assert f"{words} So no limit on money holds." in text
    assert "USD" not in text


def test_the_bound_as_a_document() -> None:
    agents = made(a={**OPENAI, "price": Price(1.0, 2.0, "EUR")}, b={"backend": "manual"})
    found = real_bound(WorkbenchConfig(agents=agents), ["a", "b", "gone"], 3)
    assert found["called"] == [{"agent": "a", "backend": "openai"}, {"agent": "b", "backend": "manual"}]
    assert found["tokens"] == 3 * OPENAI["max_tokens"]
    assert f"at most {found['costs']['EUR']} EUR" in bound_in_words(
        WorkbenchConfig(agents=agents), ["a", "b"], 3
    )
    unknown = real_bound(WorkbenchConfig(agents=made(a={"backend": "command", "argv": ["x"]})), ["a"], 3)
    assert (unknown["tokens"], unknown["costs"]) == (None, None)
