"""A middleware around every tool call. It runs where a host builds agents of its own; here it is listed."""

from __future__ import annotations

from collections.abc import Sequence

from deerflow_extension_api import (
    AgentBuildContext,
    AgentScope,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
)

SLOW_SECONDS = 2.0


class ToolTimer:
    """``slow_seconds`` changes what it does, so it is declared: then the fingerprint of the agent shows it."""

    def __init__(self, slow_seconds: float) -> None:
        self.slow_seconds = slow_seconds

    def release_policy_parameters(self) -> dict[str, object]:
        return {"slow_seconds": self.slow_seconds}


class SlowTools(MiddlewareContributor):
    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return [MiddlewarePlacement(ToolTimer(SLOW_SECONDS), Placement.TOOL_VISIBLE, scope=AgentScope.BOTH)]
