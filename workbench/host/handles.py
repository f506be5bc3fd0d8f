"""The handle that a session holds on the host's child runs.

Authority is checked on every operation: that the session was not revoked, and that its user still owns the
workspace (``terminal``), still has an account (``password``), or that nobody need be anybody (``disabled``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from extension_api.agent_runs import AgentRunRefused, AgentRunRequest, AgentRunView, SessionView
from extension_api.identity import ExtensionPrincipal

from .revision import Configuration
from .runs import ChildRuns

Authority = Callable[[], str | None]


class LocalAgentRuns:
    """``AgentRuns`` of one session. ``authority`` says in words why it may not go on, or None."""

    def __init__(
        self,
        runs: ChildRuns,
        configuration: Configuration,
        principal: ExtensionPrincipal,
        session: SessionView,
        authority: Authority,
    ) -> None:
        self._runs = runs
        self._configuration = configuration
        self._principal = principal
        self._session = session
        self._authority = authority
        self._owner = principal.user_id
        #: Whose executions it may look at and interrupt; None is anybody's: an administrator's, and that of the one
        #: caller there is without authentication.
        everybody = principal.is_admin or session.mode == "disabled"
        self._sees: str | None = None if everybody else principal.user_id
        self._revoked = False

    @property
    def principal(self) -> ExtensionPrincipal:
        return self._principal

    @property
    def session(self) -> SessionView:
        return self._session

    def revoke(self) -> None:
        """Refuse everything from now on."""
        self._revoked = True

    def authorize(self, agent_ref: str) -> None:
        self._check()
        if agent_ref not in self._configuration.current.agents:
            raise AgentRunRefused("unknown_agent", f"there is no agent {agent_ref!r} in this workspace")

    def check_options(self, options: Mapping[str, Any]) -> None:
        self._check()
        self._configuration.check_engine()
        self._runs.check_options(options)

    def configuration_revision(self, options: Mapping[str, Any]) -> str:
        self._check()
        return self._configuration.revision(options)

    def configuration_components(self, options: Mapping[str, Any]) -> dict[str, str]:
        """A keyed digest for each part that ``configuration_revision`` covers, by its path in the file."""
        self._check()
        return self._configuration.components(options)

    def admit_now(self, request: AgentRunRequest) -> AgentRunView:
        """``admit`` without a coroutine: recording a child run never waits here."""
        self._check()
        return self._runs.admit(request, self._owner)

    def delivered(self, workflow_run_id: str, step_ids: Sequence[str]) -> None:
        self._runs.delivered(workflow_run_id, step_ids)

    async def admit(self, request: AgentRunRequest) -> AgentRunView:
        self._check()
        return self._runs.admit(request, self._owner)

    async def find(self, idempotency_key: str) -> AgentRunView | None:
        self._check()
        return await self._runs.look_up(idempotency_key, self._sees)

    async def observe(self, run_id: str) -> AgentRunView:
        self._check()
        return await self._runs.observe(run_id, self._sees)

    async def interrupt(self, run_id: str) -> AgentRunView:
        self._check()
        return await self._runs.interrupt(run_id, self._sees)

    async def read_file(self, run_id: str, path: str, *, max_bytes: int) -> tuple[bytes, str]:
        self._check()
        return await self._runs.read_file(run_id, self._sees, path, max_bytes=max_bytes)

    async def delete_runs(self, workflow_run_id: str) -> int:
        """Delete the host's records of a workflow run's final child runs; how many there were."""
        self._check()
        return self._runs.delete_of(workflow_run_id, self._sees)

    def _check(self) -> None:
        if self._revoked:
            raise AgentRunRefused("revoked", "the session behind this handle has ended")
        problem = self._authority()
        if problem is not None:
            raise AgentRunRefused("not_permitted", problem)
