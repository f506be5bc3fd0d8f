"""What the configuration says of the agents that can be called for real, without asking any of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from .command import program_problem
from .names import COMMAND, DEERFLOW, MANUAL, OPENAI, STUB
from .secrets import secret_problem
from .settings import secret_name

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Configured(Protocol):
    """One agent of the configuration."""

    @property
    def name(self) -> str: ...

    @property
    def backend(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...


def real_agents(
    agents: Iterable[Configured], root: Path | None = None
) -> Iterator[tuple[str, str, str | None]]:
    """``(name, where its answers come from, what stands in its way or None)`` of each agent that is no stub.

    ``root`` is the workspace, in which programs of command agents are looked for.
    """
    for agent in agents:
        if agent.backend == STUB:
            continue
        problems = [problem for each in _references(agent.settings) if (problem := secret_problem(each))]
        if agent.backend == COMMAND and root is not None:
            missing = program_problem(agent.settings, root)
            problems += [] if missing is None else [missing]
        if not problems and _unprotected(agent.settings):
            problems = ["Its secret would travel without encryption: use https."]
        yield agent.name, _where(agent), problems[0] if problems else None


def _where(agent: Configured) -> str:
    settings = agent.settings
    host = urlsplit(str(settings.get("base_url", ""))).netloc
    if agent.backend == OPENAI:
        return f"{agent.backend}: {settings.get('model')} at {host}"
    if agent.backend == DEERFLOW:
        user = f" as {settings['username']}" if "username" in settings else ""
        return f"{agent.backend}: {settings.get('assistant', 'lead_agent')} at {host}{user}"
    if agent.backend == COMMAND:
        return f"{agent.backend}: {(settings.get('argv') or [''])[0]}"
    return f"{agent.backend}: a person answers" if agent.backend == MANUAL else agent.backend


def _references(value: Any) -> Iterator[Any]:
    """Every reference to a secret in the settings of an agent."""
    if secret_name(value) is not None:
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _references(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _references(part)


def _unprotected(settings: Mapping[str, Any]) -> bool:
    parts = urlsplit(str(settings.get("base_url", "")))
    secret = "api_key" in settings or "password" in settings
    return secret and parts.scheme == "http" and parts.hostname not in _LOOPBACK
