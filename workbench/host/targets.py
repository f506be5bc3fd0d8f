"""Which backend answers an Agent call under the launch options of its run.

``agents: stub`` means stubs for every Agent. ``agents: real`` means the backend that the configuration gives the
Agent; such options may hold pinned results besides (``stubs``, each entry with the hash of its request): a call
that asks exactly what was recorded gets the recorded result, and only what was not is asked for real.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from extension_api.agent_runs import AgentRunRefused

from ..agents.base import Backend, Backends, BackendUnavailable
from ..agents.names import STUB
from ..agents.stub import StubBackend
from .config import no_real_agent
from .revision import Configuration
from .store import ChildRow


class Target(NamedTuple):
    """A backend and the agent's own settings."""

    backend: Backend
    settings: Mapping[str, Any]


class Targets:
    """Finds the backend for calls and for recorded child runs."""

    def __init__(self, backends: Backends, configuration: Configuration) -> None:
        self._backends = backends
        self._configuration = configuration

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise AgentRunRefused in words where no launch with these options can run now."""
        mode = _mode(options)
        try:
            if mode == "stub":
                self._backends.get(STUB).describe("", {}, options)
                return
            if "stubs" in options and not self._stub().pins(options):
                raise BackendUnavailable(
                    "a launch on real Agents takes pinned results only: every entry needs the hash of its request"
                )
        except BackendUnavailable as error:
            raise AgentRunRefused("bad_request", str(error)) from None
        problem = no_real_agent(self._configuration.current, self._backends)
        if problem is not None:
            raise AgentRunRefused("backend_unavailable", problem)

    def of_call(
        self, agent_ref: str, options: Mapping[str, Any], step_id: str, child_input: Mapping[str, Any]
    ) -> Target:
        """Who answers this call. Raises AgentRunRefused in words."""
        agent = self._configuration.current.agents.get(agent_ref)
        if agent is None:
            raise AgentRunRefused("unknown_agent", f"there is no agent {agent_ref!r} in this workspace")
        try:
            if _mode(options) == "stub":
                return Target(self._backends.get(STUB), {})
            if "stubs" in options and self._stub().pinned(options, agent_ref, step_id, child_input):
                return Target(self._backends.get(STUB), {})
            if agent.backend == STUB:
                raise AgentRunRefused(
                    "backend_unavailable",
                    f"the agent {agent_ref} has only the stub backend, so it cannot be called for real",
                )
            return Target(self._backends.get(agent.backend), agent.settings)
        except BackendUnavailable as error:
            raise AgentRunRefused("backend_unavailable", f"{agent_ref}: {error}") from None

    def of_row(self, row: ChildRow) -> Target | None:
        """Who runs a recorded child run; None where the configuration has no such agent any more."""
        if row.backend not in self._backends:
            return None
        if row.backend == STUB:
            return Target(self._backends.get(STUB), {})
        agent = self._configuration.current.agents.get(row.agent_ref)
        if agent is None or agent.backend != row.backend:
            return None
        return Target(self._backends.get(row.backend), agent.settings)

    def _stub(self) -> StubBackend:
        backend = self._backends.get(STUB)
        assert isinstance(backend, StubBackend)
        return backend


def _mode(options: Mapping[str, Any]) -> str:
    mode = options.get("agents")
    if mode not in ("stub", "real"):
        raise AgentRunRefused("bad_request", "the launch options name neither stub nor real agents")
    return str(mode)
