"""Contributed middleware: where it goes, for which agents, and under which limits (contract 0.1.0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto
from typing import Any, Protocol

from .state import ExtensionData


class Placement(StrEnum):
    """Which call a middleware wraps."""

    MODEL_LOGICAL = "model_logical"
    """The logical model call, with its retries inside."""
    MODEL_PHYSICAL = "model_physical"
    """Each single call that reaches the provider."""
    TOOL_VISIBLE = "tool_visible"
    """Outermost around a tool call: what the model sees."""
    TOOL_RAW = "tool_raw"
    """Innermost around a tool call: the tool itself."""
    STANDARD = "standard"
    """No guarantee besides the order."""


class AgentScope(Flag):
    """Which agents a middleware joins."""

    LEAD = auto()
    SUBAGENT = auto()
    BOTH = LEAD | SUBAGENT


@dataclass(frozen=True)
class HostPolicySnapshot:
    """The limits that the host enforces; None is no limit. Tokens are counts, fractions lie in 0 to 1."""

    token_budget_enabled: bool = False
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_total_tokens: int | None = None
    budget_warn_fraction: float | None = None
    budget_hard_fraction: float | None = None
    max_subagents_per_run: int | None = None


@dataclass(frozen=True)
class AgentBuildContext:
    """What is known of an agent while it is assembled."""

    scope: AgentScope
    agent_name: str | None = None
    model_name: str | None = None
    policy: HostPolicySnapshot = field(default_factory=HostPolicySnapshot)


@dataclass(frozen=True)
class MiddlewarePlacement:
    """One middleware and its place. A lower ``order`` is further out, an equal one by registration."""

    middleware: Any
    placement: Placement
    scope: AgentScope = AgentScope.BOTH
    order: int = 0


class MiddlewareContributor(Protocol):
    """Contributes middleware to every agent that the host assembles."""

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        """The middleware for the agent that ``ctx`` describes; none by default."""
        return ()
