"""Public submodule: every data type and protocol of the contract under one name."""

from __future__ import annotations

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
from .entry_point import ExtensionInstall
from .execution_leases import ExecutionLease, ExecutionLeaseLost, ExecutionLeases
from .identity import ExtensionPrincipal
from .lifecycle import TaskInfo, TaskLifecycleContributor, TaskOutcome
from .middleware import (
    AgentBuildContext,
    AgentScope,
    HostPolicySnapshot,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
)
from .observers import SystemModelCallObserver, SystemModelRequest, SystemModelResult, SystemOperationKind
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
from .provenance import ContentKind, MessageProvenance
from .registry import ExtensionRegistry
from .release_policy import ReleasePolicyProvider
from .run_evidence import (
    InvalidRunEvidenceCursor,
    RunEventPage,
    RunEventView,
    RunEvidenceReader,
    RunPage,
    RunStatusView,
)
from .services import ExtensionRuntimeDeps, ExtensionService
from .state import ExtensionData

__all__ = [
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
]
