"""The plugin ``community.workflows``: actions and model tools over the service.

Both need a session-bound handle in their context. No tool recovers, resumes, decides, reconciles, deletes or
delegates. A response is at most 60 KiB of canonical JSON; a larger one is refused in words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from extension_api import ActionContext, BackendAction, ModelTool, PluginContribution, ToolContext
from extension_api.agent_runs import AgentRuns

from . import document, jsontext, limits
from .engine.requests import LaunchRequest
from .engine.service import WorkflowService
from .errors import LimitExceeded, NotFound, NotPermitted, UsageError

NAMESPACE: Final = "community.workflows"

Handler = Callable[[Mapping[str, Any], AgentRuns], Awaitable[dict[str, Any]]]


class WorkflowActions:
    """The handlers, each ``(payload, handle) -> JSON object``."""

    def __init__(self, service: WorkflowService) -> None:
        self._service = service

    async def launch(self, payload: Mapping[str, Any], runs: AgentRuns) -> dict[str, Any]:
        """``{script | definition: {name, version}, args, request_id, name?, options?}`` → ``{run_id, existing}``."""
        known = {"script", "definition", "args", "request_id", "name", "options"}
        _only(payload, known)
        definition = _definition(payload)
        request = LaunchRequest(
            script="" if definition is not None else _text(payload, "script"),
            definition=definition,
            args=payload.get("args", {}),
            name=_text(payload, "name") if "name" in payload else "workflow",
            request_id=_text(payload, "request_id"),
            options=_options(payload),
        )
        outcome = await self._service.launch(request, runs)
        return {"run_id": outcome.run_id, "existing": outcome.existing}

    async def launch_by_tool(self, payload: Mapping[str, Any], runs: AgentRuns) -> dict[str, Any]:
        """As ``launch``, without ``options``: how calls are answered is not for a model to choose."""
        _only(payload, {"script", "definition", "args", "request_id", "name"})
        return await self.launch(payload, runs)

    async def inspect(self, payload: Mapping[str, Any], runs: AgentRuns) -> dict[str, Any]:
        """``{run_id}`` → the run document: bounded metadata, without inputs and outputs."""
        _only(payload, {"run_id"})
        return document.run_document(await self._service.inspect(_text(payload, "run_id"), runs))

    async def list_runs(self, payload: Mapping[str, Any], runs: AgentRuns) -> dict[str, Any]:
        """``{}`` → the caller's 20 latest runs, newest first, each with ``left_out``: what is too long for a list."""
        _only(payload, set())
        return {"runs": [document.run_in_list(run) for run in await self._service.list_runs(runs)]}

    async def get_step(self, payload: Mapping[str, Any], runs: AgentRuns) -> dict[str, Any]:
        """``{run_id, step_id}`` → one step with its input and its retained output."""
        _only(payload, {"run_id", "step_id"})
        view = await self._service.inspect(_text(payload, "run_id"), runs)
        wanted = _text(payload, "step_id")
        for step in view.steps:
            if step.step_id == wanted:
                return document.step_document(step)
        raise NotFound(f"run {view.run_id} has no step {wanted[:80]}")

    async def log(self, payload: Mapping[str, Any], runs: AgentRuns) -> dict[str, Any]:
        """``{run_id}`` → the run's log lines."""
        _only(payload, {"run_id"})
        return document.log_document(await self._service.inspect(_text(payload, "run_id"), runs))

    async def cancel(self, payload: Mapping[str, Any], runs: AgentRuns) -> dict[str, Any]:
        """``{run_id}`` → what was recorded. Effects of Agents are not undone."""
        _only(payload, {"run_id"})
        return msgspec.structs.asdict(await self._service.cancel(_text(payload, "run_id"), runs))

    async def save(self, payload: Mapping[str, Any], runs: AgentRuns) -> dict[str, Any]:
        """``{name, script}`` → ``{name, version}``: an immutable saved version, idempotent."""
        _only(payload, {"name", "script"})
        saved = await self._service.save(_text(payload, "name"), _text(payload, "script"), runs)
        return {"name": saved.name, "version": saved.version}

    async def list_definitions(self, payload: Mapping[str, Any], runs: AgentRuns) -> dict[str, Any]:
        """``{}`` → the caller's saved versions, at most 100."""
        _only(payload, set())
        saved = await self._service.library(runs)
        return {"definitions": [{"name": item.name, "version": item.version} for item in saved]}

    async def read_artifact(
        self, payload: Mapping[str, Any], runs: AgentRuns, thread_id: str | None
    ) -> dict[str, Any]:
        """``{artifact_version, offset?}`` → ``{data, next_offset}``: base64 of at most 16 KiB.

        Only from the thread of a child run, and only versions that its step was given.
        """
        _only(payload, {"artifact_version", "offset"})
        offset = payload.get("offset", 0)
        if isinstance(offset, bool) or not isinstance(offset, int):
            raise UsageError("offset must be a whole number")
        if thread_id is None:
            raise NotPermitted("captured files are read from the thread of a workflow's own child run")
        version = _text(payload, "artifact_version")
        return await self._service.read_admitted(thread_id, version, offset, runs)

    async def delete(self, payload: Mapping[str, Any], runs: AgentRuns) -> dict[str, Any]:
        """``{run_id}`` → deletes a final run, leaving a tombstone."""
        _only(payload, {"run_id"})
        return msgspec.structs.asdict(await self._service.delete(_text(payload, "run_id"), runs))


def contribution(service: WorkflowService) -> PluginContribution:
    """What the plugin registers."""
    actions = WorkflowActions(service)
    run_id = {"run_id": {"type": "string", "description": "The workflow run id"}}
    launch = {
        "script": {"type": "string", "description": "The body of an async JavaScript function"},
        "definition": {
            "type": "object",
            "description": "A saved version instead of a script",
            "properties": {"name": {"type": "string"}, "version": {"type": "string"}},
            "required": ["name", "version"],
        },
        "args": {"type": "object", "description": "Frozen JSON arguments of the script"},
        "request_id": {"type": "string", "description": "A stable id: a repeat returns the same run"},
        "name": {"type": "string", "description": "A name for people"},
    }
    return PluginContribution(
        namespace=NAMESPACE,
        title="Script workflows",
        description="Durable, inspectable JavaScript workflows that call Agents",
        enabled=True,
        backend=tuple(
            BackendAction(name, _action(handler))
            for name, handler in (
                ("launch", actions.launch),
                ("inspect", actions.inspect),
                ("list", actions.list_runs),
                ("get_step", actions.get_step),
                ("log", actions.log),
                ("cancel", actions.cancel),
                ("delete", actions.delete),
                ("save", actions.save),
                ("list_definitions", actions.list_definitions),
            )
        ),
        tools=(
            ModelTool(
                "launch_workflow",
                "Launch a workflow script in the background and return its run id.",
                _schema(launch, ["args", "request_id"]),
                _tool(actions.launch_by_tool),
                "workflows",
            ),
            ModelTool(
                "inspect_workflow",
                "Show where a workflow run stands. Call it on demand; do not poll.",
                _schema(run_id, ["run_id"]),
                _tool(actions.inspect),
                "workflows",
            ),
            ModelTool(
                "cancel_workflow",
                "Ask for a workflow run to be cancelled. Effects are not undone.",
                _schema(run_id, ["run_id"]),
                _tool(actions.cancel),
                "workflows",
            ),
            ModelTool(
                "save_workflow",
                "Save a workflow script as an immutable version and return its hash.",
                _schema({"name": {"type": "string"}, "script": {"type": "string"}}, ["name", "script"]),
                _tool(actions.save),
                "workflows",
            ),
            ModelTool(
                "list_workflows",
                "List the saved workflow versions of this user.",
                _schema({}, []),
                _tool(actions.list_definitions),
                "workflows",
            ),
            ModelTool(
                "read_workflow_artifact",
                "Read a part of a captured file that this task was given, as base64 with the next offset.",
                _schema(
                    {"artifact_version": {"type": "string"}, "offset": {"type": "integer", "minimum": 0}},
                    ["artifact_version"],
                ),
                _thread_tool(actions.read_artifact),
                "workflows",
            ),
        ),
    )


def _action(handler: Handler) -> Callable[[Mapping[str, Any], ActionContext], Awaitable[Any]]:
    async def call(payload: Mapping[str, Any], context: ActionContext) -> Any:
        return _bounded(await handler(payload, _handle(context)))

    return call


def _tool(handler: Handler) -> Callable[[Mapping[str, Any], ToolContext], Awaitable[Any]]:
    async def call(payload: Mapping[str, Any], context: ToolContext) -> Any:
        return _bounded(await handler(payload, _handle(context)))

    return call


def _thread_tool(
    handler: Callable[[Mapping[str, Any], AgentRuns, str | None], Awaitable[dict[str, Any]]],
) -> Callable[[Mapping[str, Any], ToolContext], Awaitable[Any]]:
    async def call(payload: Mapping[str, Any], context: ToolContext) -> Any:
        return _bounded(await handler(payload, _handle(context), context.thread_id))

    return call


def _definition(payload: Mapping[str, Any]) -> str | None:
    """``NAME@VERSION`` of a payload that names a saved version. Raises UsageError for a malformed one."""
    given = payload.get("definition")
    if given is None:
        return None
    if "script" in payload:
        raise UsageError("give a script or a definition, not both")
    if not isinstance(given, Mapping) or set(given) != {"name", "version"}:
        raise UsageError("definition is an object with exactly name and version")
    return f"{_text(given, 'name')}@{_text(given, 'version')}"


def _handle(context: ActionContext) -> AgentRuns:
    if context.agent_runs is None:
        raise NotPermitted("this session holds no handle for Agent runs, so it cannot use workflows")
    return context.agent_runs


def _bounded(result: dict[str, Any]) -> dict[str, Any]:
    size = jsontext.size(result, "the response")
    if size > limits.RESPONSE_BYTES:
        raise LimitExceeded(
            f"the response takes {size:,} bytes; admitted are {limits.RESPONSE_BYTES:,}. Ask for single steps"
        )
    return result


def _schema(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }


def _only(payload: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(payload) - known)
    if unknown:
        admitted = ", ".join(sorted(known)) or "nothing"
        raise UsageError(f"unknown key {unknown[0][:40]}; admitted: {admitted}")


def _text(payload: Mapping[str, Any], key: str) -> str:
    value = payload.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{key} must be a non-empty string")
    return value


def _options(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    options = payload.get("options", {"agents": "real", "label": "real"})
    if not isinstance(options, Mapping):
        raise UsageError("options must be an object")
    return options
