"""The reference page, name by name: fields, defaults, enum values, signatures, protocol defaults."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import extension_api as api

REQUIRED = dataclasses.MISSING

FIELDS: dict[str, dict[str, Any]] = {
    "MiddlewarePlacement": {
        "middleware": REQUIRED, "placement": REQUIRED, "scope": api.AgentScope.BOTH, "order": 0,
    },
    "AgentBuildContext": {
        "scope": REQUIRED, "agent_name": None, "model_name": None, "policy": api.HostPolicySnapshot(),
    },
    "HostPolicySnapshot": {
        "token_budget_enabled": False, "max_input_tokens": None, "max_output_tokens": None,
        "max_total_tokens": None, "budget_warn_fraction": None, "budget_hard_fraction": None,
        "max_subagents_per_run": None,
    },
    "TaskInfo": {
        "task_id": REQUIRED, "run_id": REQUIRED, "thread_id": REQUIRED, "kind": REQUIRED,
        "parent_task_id": None, "agent_name": None, "resumed": False,
    },
    "SystemModelRequest": {"messages": (), "model_name": None, "invoke_config": None},
    "SystemModelResult": {"response": None, "error": None, "duration_ms": None},
    "AgentAssemblyDescriptor": {
        "namespace": REQUIRED, "agent_name": REQUIRED, "requested_model": REQUIRED, "effective_model": REQUIRED,
        "model_parameters": REQUIRED, "thinking_enabled": REQUIRED, "reasoning_effort": REQUIRED,
        "base_prompt_hash": REQUIRED, "tools": REQUIRED, "middlewares": REQUIRED,
        "deferred_tool_names": REQUIRED, "enabled_skills": REQUIRED, "effective_policies": REQUIRED, "build": {},
    },
    "ToolDescriptor": {
        "name": REQUIRED, "description_hash": REQUIRED, "schema_hash": REQUIRED, "source": REQUIRED,
        "mcp_server": None, "mcp_transport": None,
    },
    "MiddlewareDescriptor": {
        "name": REQUIRED, "module": REQUIRED, "policy_parameters": {}, "extension": None,
    },
    "CompactionEvent": {
        "transform_kind": REQUIRED, "transform_version": REQUIRED, "source_content_hashes": REQUIRED,
        "output_content_hash": REQUIRED, "compacted_message_count": REQUIRED, "kept_message_count": REQUIRED,
    },
    "ExtensionRuntimeDeps": {
        "app_store": None, "policy": api.HostPolicySnapshot(), "session_factory": None,
        "run_evidence_reader": None, "workspace_root": None, "execution_leases": None, "agent_runs_for": None,
    },
    "RunStatusView": {
        "thread_id": "", "run_id": "", "status": "", "created_at": "", "updated_at": "", "error": None,
        "stop_reason": None,
    },
    "RunEventView": {
        "thread_id": "", "run_id": "", "seq": 0, "event_type": "", "category": "", "content": None,
        "metadata": {}, "created_at": "",
    },
    "RunPage": {"items": (), "next_cursor": None, "has_more": False},
    "RunEventPage": {"items": (), "next_after_seq": None, "has_more": False},
    "ExtensionPrincipal": {"user_id": REQUIRED, "is_admin": False, "is_internal": False, "roles": ()},
    "MessageProvenance": {"content_kind": REQUIRED, "producer_kind": REQUIRED, "producer_entity_id": None},
    "PluginContribution": {
        "namespace": REQUIRED, "title": REQUIRED, "description": "", "enabled": False, "fields": (),
        "frontend": None, "backend": (), "api_version": 1, "tools": (),
    },
    "BrowserModule": {"module": REQUIRED, "code": REQUIRED, "public_fields": ()},
    "BrowserAssets": {
        "module": REQUIRED, "root": REQUIRED, "manifest": "ui_manifest.json", "public_fields": (),
    },
    "BackendAction": {"name": REQUIRED, "handler": REQUIRED},
    "ModelTool": {
        "name": REQUIRED, "description": REQUIRED, "input_schema": REQUIRED, "handler": REQUIRED,
        "group": "extensions",
    },
    "ActionContext": {"principal": REQUIRED, "settings": REQUIRED, "agent_runs": None},
    "ToolContext": {"principal": REQUIRED, "settings": REQUIRED, "agent_runs": None, "thread_id": REQUIRED},
    "SettingsField": {
        "key": REQUIRED, "title": REQUIRED, "kind": REQUIRED, "default": REQUIRED, "description": "",
        "minimum": None, "maximum": None, "max_length": 256,
    },
    "SessionView": {
        "session_id": REQUIRED, "mode": REQUIRED, "interactive": REQUIRED, "description": REQUIRED,
    },
    "AgentRunRequest": {
        "agent_ref": REQUIRED, "thread_id": REQUIRED, "idempotency_key": REQUIRED, "input": REQUIRED,
        "metadata": {}, "options": {}, "lease": None,
    },
    "AgentRunView": {
        "run_id": REQUIRED, "thread_id": REQUIRED, "agent_ref": REQUIRED, "status": REQUIRED, "output": None,
        "error_code": None, "error_message": None, "badge": "live", "evidence": None, "started_at": None,
        "finished_at": None,
    },
    "ExecutionLease": {
        "execution_id": REQUIRED, "owner_id": REQUIRED, "epoch": REQUIRED, "acquired_at": REQUIRED,
        "expires_at": REQUIRED,
    },
}  # fmt: skip

ENUMS: dict[str, dict[str, str]] = {
    "Placement": {
        "MODEL_LOGICAL": "model_logical", "MODEL_PHYSICAL": "model_physical", "TOOL_VISIBLE": "tool_visible",
        "TOOL_RAW": "tool_raw", "STANDARD": "standard",
    },
    "TaskOutcome": {"COMPLETED": "completed", "ABORTED": "aborted", "FAILED": "failed"},
    "SystemOperationKind": {
        "GOAL": "goal", "MEMORY": "memory", "TITLE": "title", "SUMMARIZATION": "summarization",
    },
    "ContentKind": {
        "MIDDLEWARE_INJECTION": "middleware_injection", "MEMORY": "memory", "DURABLE_CONTEXT": "durable_context",
        "SKILL_BODY": "skill_body", "IMAGE_PAYLOAD": "image_payload",
    },
    "AgentRunStatus": {
        "PENDING": "pending", "RUNNING": "running", "SUCCESS": "success", "ERROR": "error",
        "TIMEOUT": "timeout", "INTERRUPTED": "interrupted", "WAITING_INPUT": "waiting_input",
        "UNKNOWN": "unknown",
    },
}  # fmt: skip

CONSTANTS = {
    "API_VERSION": "0.2.9",
    "EXTENSION_TASK_STORE_KEY": "__deerflow_extension_task_store",
    "EXTENSION_PRINCIPAL_RESOLVER_KEY": "deerflow_extension_principal_resolver",
    "EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY": "deerflow_extension_plugin_authz_resolver",
    "EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY": "deerflow_extension_plugin_authz_resolver_async",
    "RUN_EVIDENCE_READER_RESOLVER_KEY": "deerflow_extension_run_evidence_reader_resolver",
    "MESSAGE_CONTENT_KIND_KEY": "deerflow_content_kind",
    "MESSAGE_PRODUCER_KIND_KEY": "deerflow_producer_kind",
    "MESSAGE_PRODUCER_ENTITY_ID_KEY": "deerflow_producer_entity_id",
    "PROVENANCE_KEYS": frozenset(
        {"deerflow_content_kind", "deerflow_producer_kind", "deerflow_producer_entity_id"}
    ),
}

# "async" for a coroutine function, then the parameters after self with "*" before keyword-only ones.
SIGNATURES: dict[str, str] = {
    "extension": "* api name=None",
    "task_store_from_runtime": "runtime",
    "resolve_principal": "request",
    "require_admin": "request",
    "require_plugin_management": "request namespace * scope='read'",
    "arequire_plugin_management": "async request namespace * scope='read'",
    "resolve_run_evidence_reader": "request",
    "require_run_evidence_reader": "request",
    "provenance_kwargs": "content_kind producer_kind * producer_entity_id=None",
    "read_provenance": "message",
    "collect_release_policies": "middlewares",
    "canonical_json": "value",
    "canonical_hash": "value",
    "ExtensionData.get": "typ",
    "ExtensionData.get_or_init": "typ init",
    "ExtensionData.set": "value",
    "ExtensionData.remove": "typ",
    "ExtensionRegistry.middlewares": "contributor",
    "ExtensionRegistry.task_lifecycle": "contributor",
    "ExtensionRegistry.system_model_observer": "observer",
    "ExtensionRegistry.agent_assembly_observer": "observer",
    "ExtensionRegistry.context_compaction_observer": "observer",
    "ExtensionRegistry.service": "service",
    "ExtensionRegistry.routers": "routers",
    "ExtensionRegistry.plugin": "contribution",
    "MiddlewareContributor.contribute_middlewares": "app_store ctx",
    "TaskLifecycleContributor.on_task_start": "async app_store task_store info",
    "TaskLifecycleContributor.on_task_stop": "async app_store task_store info outcome",
    "SystemModelCallObserver.on_system_model_call": "async app_store task_store kind request result",
    "AgentAssemblyObserver.on_agent_assembled": "app_store descriptor",
    "ContextCompactionObserver.on_context_compacted": "async app_store task_store event",
    "ExtensionService.start": "async deps",
    "ExtensionService.stop": "async",
    "RunEvidenceReader.list_changed_runs": "async * cursor limit",
    "RunEvidenceReader.list_run_events": "async * thread_id run_id after_seq limit",
    "RunEvidenceReader.get_run_status": "async * thread_id run_id",
    "ReleasePolicyProvider.release_policy_parameters": "",
    "AgentRuns.authorize": "agent_ref",
    "AgentRuns.check_options": "options",
    "AgentRuns.configuration_revision": "options",
    "AgentRuns.configuration_components": "options",
    "AgentRuns.delete_runs": "async workflow_run_id",
    "AgentRuns.admit": "async request",
    "AgentRuns.find": "async idempotency_key",
    "AgentRuns.observe": "async run_id",
    "AgentRuns.interrupt": "async run_id",
    "AgentRuns.read_file": "async run_id path * max_bytes",
    "ExecutionLeases.acquire": "async execution_id * owner_id seconds",
    "ExecutionLeases.renew": "async lease * seconds",
    "ExecutionLeases.release": "async lease",
    "ExecutionLeases.holder": "async execution_id",
}


def defaults(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
        else:
            found[field.name] = field.default
    return found


def described(function: Callable[..., Any]) -> str:
    words = ["async"] if inspect.iscoroutinefunction(function) else []
    starred = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            words.append("*")
        default = "" if parameter.default is inspect.Parameter.empty else f"={parameter.default!r}"
        words.append(parameter.name + default)
    return " ".join(words)


@pytest.mark.parametrize("name", FIELDS)
def test_fields_and_defaults(name: str) -> None:
    cls = getattr(api, name)
    assert defaults(cls) == FIELDS[name]
    assert cls.__dataclass_params__.frozen


def test_every_public_dataclass_is_in_the_table() -> None:
    dataclass_names = {name for name in api.__all__ if dataclasses.is_dataclass(getattr(api, name))}
    assert dataclass_names == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_annotations_resolve(name: str) -> None:
    hints = typing.get_type_hints(getattr(api, name))
    assert set(FIELDS[name]) <= set(hints)


@pytest.mark.parametrize("name", FIELDS)
def test_no_field_can_be_assigned(name: str) -> None:
    cls = getattr(api, name)
    values = {field: None for field, default in FIELDS[name].items() if default is REQUIRED}
    instance = cls(**values)
    for field in FIELDS[name]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(instance, field, None)


@pytest.mark.parametrize("name", ["AgentAssemblyDescriptor", "MiddlewareDescriptor", "RunEventView"])
def test_mutable_defaults_are_not_shared(name: str) -> None:
    cls = getattr(api, name)
    values = {field: "x" for field, default in FIELDS[name].items() if default is REQUIRED}
    one, other = cls(**values), cls(**values)
    for field, default in FIELDS[name].items():
        if default == {}:
            assert getattr(one, field) is not getattr(other, field)


@pytest.mark.parametrize("name", ENUMS)
def test_enum_values(name: str) -> None:
    cls = getattr(api, name)
    assert issubclass(cls, enum.StrEnum)
    assert {member.name: member.value for member in cls} == ENUMS[name]


def test_agent_scope_is_a_flag_of_two() -> None:
    assert issubclass(api.AgentScope, enum.Flag)
    assert api.AgentScope.BOTH == api.AgentScope.LEAD | api.AgentScope.SUBAGENT
    assert not api.AgentScope.LEAD & api.AgentScope.SUBAGENT
    assert [member.name for member in api.AgentScope] == ["LEAD", "SUBAGENT"]


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    assert getattr(api, name) == CONSTANTS[name]


@pytest.mark.parametrize("path", SIGNATURES)
def test_signatures(path: str) -> None:
    target: Any = api
    for part in path.split("."):
        target = getattr(target, part)
    assert described(target) == SIGNATURES[path]


def test_every_public_function_is_in_the_table() -> None:
    functions = {name for name in api.__all__ if inspect.isfunction(getattr(api, name))}
    assert functions <= set(SIGNATURES)


def test_extension_data_takes_a_scope_id() -> None:
    store = api.ExtensionData("task-1")
    assert store.scope_id == "task-1"
    assert described(api.ExtensionData) == "scope_id"


def test_extension_install_takes_a_registry_and_a_mapping() -> None:
    (arguments, result) = typing.get_args(api.ExtensionInstall)
    assert arguments == [api.ExtensionRegistry, Mapping[str, Any]]
    assert result is None


def test_invalid_cursor_is_a_value_error() -> None:
    assert issubclass(api.InvalidRunEvidenceCursor, ValueError)


def test_tool_context_extends_action_context_and_keeps_its_positions() -> None:
    principal = api.ExtensionPrincipal("ada")
    context = api.ToolContext(principal, {"n": 1}, "thread-1")
    assert isinstance(context, api.ActionContext)
    assert (context.principal, context.settings, context.thread_id) == (principal, {"n": 1}, "thread-1")
    assert context.agent_runs is None
    with pytest.raises(TypeError):
        api.ActionContext(principal, {}, None)  # type: ignore[call-arg]


class TestSystemModelRequest:
    def test_a_prompt_is_one_message_and_not_its_characters(self) -> None:
        assert api.SystemModelRequest("abc").messages == ("abc",)
        assert api.SystemModelRequest("").messages == ("",)

    def test_any_sequence_becomes_a_tuple(self) -> None:
        messages = ["a", {"role": "user"}]
        request = api.SystemModelRequest(messages)
        messages.append("late")
        assert request.messages == ("a", {"role": "user"})
        assert api.SystemModelRequest().messages == ()


def test_only_pending_and_running_are_active() -> None:
    assert [status for status in api.AgentRunStatus if status.active] == ["pending", "running"]


def test_a_refusal_carries_its_code() -> None:
    refused = api.AgentRunRefused("revoked", "the session has ended")
    assert isinstance(refused, PermissionError)
    assert (refused.code, refused.message, str(refused)) == ("revoked",) + ("the session has ended",) * 2
    assert issubclass(api.AgentRunUncertain, RuntimeError)
    assert issubclass(api.ExecutionLeaseLost, RuntimeError)
