"""The extension contract: what an extension may import from its host. Standard library only.

``docs/extensions.md`` describes it, with the version that added each name. The names load at the first use of one
of them, so that ``import extension_api.hashing`` costs that module alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .agent_runs import (
        AgentRunRefused,
        AgentRunRequest,
        AgentRuns,
        AgentRunStatus,
        AgentRunUncertain,
        AgentRunView,
        SessionView,
    )
    from .assembly import AgentAssemblyDescriptor, AgentAssemblyObserver, MiddlewareDescriptor, ToolDescriptor
    from .compaction import CompactionEvent, ContextCompactionObserver
    from .entry_point import ExtensionInstall, extension
    from .execution_leases import ExecutionLease, ExecutionLeaseLost, ExecutionLeases
    from .hashing import canonical_hash, canonical_json
    from .identity import (
        EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY,
        EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY,
        EXTENSION_PRINCIPAL_RESOLVER_KEY,
        ExtensionPrincipal,
        arequire_plugin_management,
        require_admin,
        require_plugin_management,
        resolve_principal,
    )
    from .lifecycle import TaskInfo, TaskLifecycleContributor, TaskOutcome
    from .middleware import (
        AgentBuildContext,
        AgentScope,
        HostPolicySnapshot,
        MiddlewareContributor,
        MiddlewarePlacement,
        Placement,
    )
    from .observers import (
        SystemModelCallObserver,
        SystemModelRequest,
        SystemModelResult,
        SystemOperationKind,
    )
    from .plugins import (
        ActionContext,
        BackendAction,
        BrowserAssets,
        BrowserModule,
        ModelTool,
        PluginContribution,
        SettingsField,
        ToolContext,
    )
    from .provenance import (
        MESSAGE_CONTENT_KIND_KEY,
        MESSAGE_PRODUCER_ENTITY_ID_KEY,
        MESSAGE_PRODUCER_KIND_KEY,
        PROVENANCE_KEYS,
        ContentKind,
        MessageProvenance,
        provenance_kwargs,
        read_provenance,
    )
    from .registry import ExtensionRegistry
    from .release_policy import ReleasePolicyProvider, collect_release_policies
    from .run_evidence import (
        RUN_EVIDENCE_READER_RESOLVER_KEY,
        InvalidRunEvidenceCursor,
        RunEventPage,
        RunEventView,
        RunEvidenceReader,
        RunPage,
        RunStatusView,
        require_run_evidence_reader,
        resolve_run_evidence_reader,
    )
    from .services import ExtensionRuntimeDeps, ExtensionService
    from .state import EXTENSION_TASK_STORE_KEY, ExtensionData, task_store_from_runtime
    from .version import API_VERSION

__all__ = [
    "API_VERSION",
    "EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY",
    "EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY",
    "EXTENSION_PRINCIPAL_RESOLVER_KEY",
    "EXTENSION_TASK_STORE_KEY",
    "MESSAGE_CONTENT_KIND_KEY",
    "MESSAGE_PRODUCER_ENTITY_ID_KEY",
    "MESSAGE_PRODUCER_KIND_KEY",
    "PROVENANCE_KEYS",
    "RUN_EVIDENCE_READER_RESOLVER_KEY",
    "ActionContext",
    "AgentAssemblyDescriptor",
    "AgentAssemblyObserver",
    "AgentBuildContext",
    "AgentRunRefused",
    "AgentRunRequest",
    "AgentRunStatus",
    "AgentRunUncertain",
    "AgentRunView",
    "AgentRuns",
    "AgentScope",
    "BackendAction",
    "BrowserAssets",
    "BrowserModule",
    "CompactionEvent",
    "ContentKind",
    "ContextCompactionObserver",
    "ExecutionLease",
    "ExecutionLeaseLost",
    "ExecutionLeases",
    "ExtensionData",
    "ExtensionInstall",
    "ExtensionPrincipal",
    "ExtensionRegistry",
    "ExtensionRuntimeDeps",
    "ExtensionService",
    "HostPolicySnapshot",
    "InvalidRunEvidenceCursor",
    "MessageProvenance",
    "MiddlewareContributor",
    "MiddlewareDescriptor",
    "MiddlewarePlacement",
    "ModelTool",
    "Placement",
    "PluginContribution",
    "ReleasePolicyProvider",
    "RunEventPage",
    "RunEventView",
    "RunEvidenceReader",
    "RunPage",
    "RunStatusView",
    "SessionView",
    "SettingsField",
    "SystemModelCallObserver",
    "SystemModelRequest",
    "SystemModelResult",
    "SystemOperationKind",
    "TaskInfo",
    "TaskLifecycleContributor",
    "TaskOutcome",
    "ToolContext",
    "ToolDescriptor",
    "arequire_plugin_management",
    "canonical_hash",
    "canonical_json",
    "collect_release_policies",
    "extension",
    "provenance_kwargs",
    "read_provenance",
    "require_admin",
    "require_plugin_management",
    "require_run_evidence_reader",
    "resolve_principal",
    "resolve_run_evidence_reader",
    "task_store_from_runtime",
]

_MODULES: Final = (
    "agent_runs",
    "assembly",
    "compaction",
    "entry_point",
    "execution_leases",
    "hashing",
    "identity",
    "lifecycle",
    "middleware",
    "observers",
    "plugins",
    "provenance",
    "registry",
    "release_policy",
    "run_evidence",
    "services",
    "state",
    "version",
)


def _load(name: str) -> Any:
    """The module ``__getattr__``: a public name, after every public name has been bound here, or a submodule."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: dict[str, Any] = {}
    for module in _MODULES:
        found |= vars(import_module(f"{__name__}.{module}"))
    globals().update({public: found[public] for public in __all__})
    return found[name]


if not TYPE_CHECKING:  # A type checker must go on refusing names that do not exist.
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
