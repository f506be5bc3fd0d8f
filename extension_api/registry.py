"""What an install function registers with (contract 0.1.0 to 0.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from .assembly import AgentAssemblyObserver
from .compaction import ContextCompactionObserver
from .lifecycle import TaskLifecycleContributor
from .middleware import MiddlewareContributor
from .observers import SystemModelCallObserver
from .plugins import PluginContribution
from .services import ExtensionService


@runtime_checkable
class ExtensionRegistry(Protocol):
    """Write-only. A host's registry derives from it and inherits "registers nothing" for what it predates."""

    def middlewares(self, contributor: MiddlewareContributor) -> None:
        """Register a contributor of middleware (0.1.0)."""
        return

    def task_lifecycle(self, contributor: TaskLifecycleContributor) -> None:
        """Register hooks around lead runs and subagents (0.1.1)."""
        return

    def system_model_observer(self, observer: SystemModelCallObserver) -> None:
        """Register an observer of the host's own model calls (0.1.1)."""
        return

    def service(self, service: ExtensionService) -> None:
        """Register a service that lives as long as the host (0.1.2)."""
        return

    def routers(self, routers: Sequence[Any]) -> None:
        """Register FastAPI routers, built while the extension installs (0.1.2)."""
        return

    def agent_assembly_observer(self, observer: AgentAssemblyObserver) -> None:
        """Register an observer of assembled agents (0.2.0)."""
        return

    def context_compaction_observer(self, observer: ContextCompactionObserver) -> None:
        """Register an observer of summarization (0.2.0)."""
        return

    def plugin(self, contribution: PluginContribution) -> bool:
        """Register a plugin (0.2.2, experimental). True when accepted, False on a host without plugins.

        Raises ValueError where the contribution breaks a rule.
        """
        return False
