"""What a launch on real Agents can come to, in words: calls, who answers them, and what bounds their cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any, Final

from workflows_core.limits import TASK_BYTES

from . import words
from .inert import inert

if TYPE_CHECKING:
    from .host.config import AgentConfig, WorkbenchConfig

#: Tokens that a server puts around the messages of one request.
FRAMING_TOKENS: Final = 64


def bound_in_words(config: WorkbenchConfig, agents: Sequence[str], calls: int) -> str:
    """Paragraphs that say how many calls are made at most, to whom, and what is known of their cost.

    ``agents`` are those that scripts may call, ``calls`` the bound on calls of one run. The text is inert.
    """
    found = _callable(config, agents)
    lines = [f"Up to {words.count(calls, 'call')} to real Agents:"]
    lines += [f"  {inert(agent.name)}: {_answers(agent)}" for agent in found]
    return "\n".join(lines) + f"\n\n{_cost(found, calls)}"


def _callable(config: WorkbenchConfig, agents: Sequence[str]) -> list[AgentConfig]:
    """Those of ``agents`` that are configured, in the order of the configuration."""
    return [agent for agent in config.agents.values() if agent.name in agents]


def real_bound(config: WorkbenchConfig, agents: Sequence[str], calls: int) -> dict[str, Any]:
    """As ``bound_in_words``, as a JSON document.

    ``tokens`` bounds those of all answers and ``costs`` what they cost, by currency, as decimal text; each is null
    where that is not known.
    """
    found = _callable(config, agents)
    costs = cost_at_most(found, calls)
    return {
        "called": [{"agent": agent.name, "backend": agent.backend} for agent in found],
        "tokens": _tokens_at_most(_paid(found), calls),
        "costs": None if costs is None else {currency: str(cost) for currency, cost in costs.items()},
    }


def _tokens_at_most(paid: Sequence[AgentConfig], calls: int) -> int | None:
    """The most tokens of all answers of Agents that are paid by the call; None where one has no limit."""
    limits = [_answer_tokens(agent) for agent in paid]
    known = [limit for limit in limits if limit is not None]
    return calls * max(known, default=0) if len(known) == len(limits) else None


def _answers(agent: AgentConfig) -> str:
    keys: Mapping[str, Any] = agent.settings
    if agent.backend == "stub":
        return "the stub backend, which costs nothing"
    if agent.backend == "manual":
        return "a person, who is asked each time"
    if agent.backend == "command":
        program = str(keys.get("argv", [""])[0])
        return f"the program {inert(program)} on this machine"
    if agent.backend == "deerflow":
        return f"{inert(str(keys.get('assistant', 'lead_agent')))} at {inert(str(keys.get('base_url', '')))}"
    if agent.backend == "openai":
        most = keys.get("max_tokens")
        told = f"at most {most:,} tokens an answer" if isinstance(most, int) else "answers of any length"
        return f"{inert(str(keys.get('model', '')))} at {inert(str(keys.get('base_url', '')))}, {told}"
    return f"the backend {inert(agent.backend)}"


def cost_at_most(agents: Sequence[AgentConfig], calls: int) -> dict[str, Decimal] | None:
    """What ``calls`` calls of these Agents cost at most, by currency, rounded up to hundredths.

    None where that is not known: each that is paid by the call needs a price and a limit on its answers. Any of the
    Agents may be the one that is called each time. A token that is read is at least one byte of what is sent, so
    the largest input that a step may have, with prompt and parameters, bounds what is read.
    """
    most: dict[str, Decimal] = {}
    for agent in _paid(agents):
        answer = _answer_tokens(agent)
        if agent.price is None or answer is None:
            return None
        read, told = Decimal(str(agent.price.input)), Decimal(str(agent.price.output))
        cost = calls * (_read_tokens(agent) * read + answer * told) / 1_000_000
        currency = agent.price.currency
        most[currency] = max(most.get(currency, cost), cost)
    return {currency: cost.quantize(Decimal("0.01"), ROUND_CEILING) for currency, cost in most.items()}


def _paid(agents: Sequence[AgentConfig]) -> list[AgentConfig]:
    return [agent for agent in agents if agent.backend not in ("stub", "manual")]


def _answer_tokens(agent: AgentConfig) -> int | None:
    """The limit on the tokens of one answer; None where there is none."""
    most = agent.settings.get("max_tokens") if agent.backend == "openai" else None
    return most if type(most) is int else None


def _read_tokens(agent: AgentConfig) -> int:
    """The most tokens that one call lets the server read."""
    prompt = str(agent.settings.get("system", "")).encode("utf-8", "replace")
    parameters = json.dumps(agent.settings.get("parameters", {})).encode()
    return TASK_BYTES + len(prompt) + len(parameters) + FRAMING_TOKENS


def _cost(agents: Sequence[AgentConfig], calls: int) -> str:
    """What bounds the cost, and what is missing where nothing does."""
    paid = _paid(agents)
    if not paid:
        return "None of these is paid by the call."
    tokens = _tokens_at_most(paid, calls)
    told = [] if tokens is None else [f"That is at most {tokens:,} tokens of answers."]
    cost = cost_at_most(agents, calls)
    if cost is not None:
        amounts = " and ".join(f"{amount:,.2f} {currency}" for currency, amount in cost.items())
        return " ".join([*told, f"By the prices in workbench.yaml it costs at most {amounts}."])
    own = [agent for agent in paid if agent.backend == "openai"]
    for names, sentence in (
        ([agent for agent in own if agent.price is None], "No price is set for {}."),
        ([agent for agent in own if _answer_tokens(agent) is None], "No max_tokens is set for {}."),
        ([agent for agent in paid if agent not in own], "What a call of {} costs is not known here."),
    ):
        if names:
            told.append(sentence.format(", ".join(inert(agent.name) for agent in names)))
    return " ".join([*told, "So no limit on money holds."])
