"""What a launch on real Agents can come to, in words: calls, who answers them, and what bounds their cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import words
from .inert import inert

if TYPE_CHECKING:
    from .host.config import AgentConfig, WorkbenchConfig


def bound_in_words(config: WorkbenchConfig, agents: Sequence[str], calls: int) -> str:
    """Paragraphs that say how many calls are made at most, to whom, and what is known of their cost.

    ``agents`` are those that scripts may call, ``calls`` the bound on calls of one run. The text is inert.
    """
    found = [config.agents[name] for name in agents if name in config.agents]
    lines = [f"Up to {words.count(calls, 'call')} to real Agents:"]
    lines += [f"  {inert(agent.name)}: {_answers(agent)}" for agent in found]
    return "\n".join(lines) + f"\n\n{_cost(found, calls)}"


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


def _cost(agents: Sequence[AgentConfig], calls: int) -> str:
    """What bounds the cost. Only the length of answers can be bounded from here; nobody tells prices."""
    paid = [agent for agent in agents if agent.backend not in ("stub", "manual")]
    limits = [most for agent in paid if type(most := agent.settings.get("max_tokens")) is int]
    if paid and len(limits) == len(paid) and all(agent.backend == "openai" for agent in paid):
        return (
            f"That is at most {calls * max(limits):,} tokens of answers. "
            "Prices are not known here, nor what the tasks cost to read."
        )
    return "What a call costs is not known here: no limit on money holds."
