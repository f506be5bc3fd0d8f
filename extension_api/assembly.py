"""What an agent was assembled from, and a fingerprint of what changes its behaviour (contract 0.2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from .hashing import canonical_hash, canonical_json
from .state import ExtensionData


@dataclass(frozen=True)
class ToolDescriptor:
    """One tool. The hashes are ``canonical_hash`` of the description and of the argument schema."""

    name: str
    description_hash: str
    schema_hash: str
    source: str
    mcp_server: str | None = None
    mcp_transport: str | None = None


@dataclass(frozen=True)
class MiddlewareDescriptor:
    """One middleware. ``extension`` is the ``use`` string of its contributor, None for the host's own."""

    name: str
    module: str
    policy_parameters: dict[str, Any] = field(default_factory=dict)
    extension: str | None = None


@dataclass(frozen=True)
class AgentAssemblyDescriptor:
    """One agent as it was built: model, prompt, tools, middleware and policies."""

    namespace: str
    agent_name: str
    requested_model: str | None
    effective_model: str
    model_parameters: dict[str, Any]
    thinking_enabled: bool
    reasoning_effort: Any
    base_prompt_hash: str
    tools: tuple[ToolDescriptor, ...]
    middlewares: tuple[MiddlewareDescriptor, ...]
    deferred_tool_names: tuple[str, ...]
    enabled_skills: tuple[str, ...]
    effective_policies: dict[str, Any]
    build: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def fingerprint(self) -> str:
        """``canonical_hash`` of everything above except ``build`` and ``requested_model``.

        Tools, deferred tool names and skills are sorted, because the order in which they were collected
        means nothing; middleware keeps its order, which decides what wraps what. Computed once. Raises
        TypeError where a parameter or a policy is not JSON.
        """
        return canonical_hash(
            {
                "namespace": self.namespace,
                "agent_name": self.agent_name,
                "effective_model": self.effective_model,
                "model_parameters": self.model_parameters,
                "thinking_enabled": self.thinking_enabled,
                "reasoning_effort": self.reasoning_effort,
                "base_prompt_hash": self.base_prompt_hash,
                "tools": sorted((_tool(tool) for tool in self.tools), key=canonical_json),
                "middlewares": [_middleware(middleware) for middleware in self.middlewares],
                "deferred_tool_names": sorted(self.deferred_tool_names),
                "enabled_skills": sorted(self.enabled_skills),
                "effective_policies": self.effective_policies,
            }
        )


def _tool(tool: ToolDescriptor) -> Mapping[str, Any]:
    return {
        "name": tool.name,
        "description_hash": tool.description_hash,
        "schema_hash": tool.schema_hash,
        "source": tool.source,
        "mcp_server": tool.mcp_server,
        "mcp_transport": tool.mcp_transport,
    }


def _middleware(middleware: MiddlewareDescriptor) -> Mapping[str, Any]:
    return {
        "name": middleware.name,
        "module": middleware.module,
        "policy_parameters": middleware.policy_parameters,
        "extension": middleware.extension,
    }


class AgentAssemblyObserver(Protocol):
    """Told of each agent that was built. Synchronous: it must be cheap and must not raise."""

    def on_agent_assembled(self, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        """Called at the end of the construction; nothing it does changes the agent."""
        return
