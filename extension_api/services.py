"""Services that live as long as the host (contract 0.1.2; run evidence 0.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .agent_runs import AgentRuns
from .execution_leases import ExecutionLeases
from .middleware import HostPolicySnapshot
from .run_evidence import RunEvidenceReader
from .state import ExtensionData


@dataclass(frozen=True)
class ExtensionRuntimeDeps:
    """What a host offers to a service. A field is None on a host that does not have it.

    ``run_evidence_reader`` sees the runs of all users.
    ``workspace_root`` (0.2.7): absolute folder against which relative paths of the configuration are read.
    ``execution_leases`` (0.2.8): leases in the database that several hosts share.
    ``agent_runs_for`` (0.2.9): a handle for the session that a control record of another process of the same
    OS user describes (``uid``, ``pid``, ``description``, ``interactive``, and ``session_id`` where the host
    has accounts). The host checks the record; it raises AgentRunRefused where the session is not one of its own.
    """

    app_store: ExtensionData | None = None
    policy: HostPolicySnapshot = field(default_factory=HostPolicySnapshot)
    session_factory: Any | None = None
    run_evidence_reader: RunEvidenceReader | None = None
    workspace_root: str | None = None
    execution_leases: ExecutionLeases | None = None
    agent_runs_for: Callable[[Mapping[str, Any]], AgentRuns] | None = None


class ExtensionService(Protocol):
    """Started in registration order once the host's store is up, stopped in reverse with 30 seconds each."""

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        """Called once. A service whose start was attempted is stopped, also when the start failed."""
        return

    async def stop(self) -> None:
        """Called once, while the host shuts down."""
        return
