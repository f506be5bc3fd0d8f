"""What a host accepts as a plugin (contract 0.2.2, browser assets 0.2.3)."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NoReturn

from .assets import AssetSnapshot, load_assets
from .hashing import canonical_json
from .identity import NAMESPACE_PATTERN
from .invalid import InvalidContribution, shown
from .plugins import BackendAction, BrowserAssets, BrowserModule, ModelTool, PluginContribution
from .settings import validate_fields

PLUGIN_API_VERSION: Final = 1
MAX_MODULE_BYTES: Final = 512 * 1024

_ACTION_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class PluginSnapshot:
    """A validated plugin, detached from what its author can still change, and its browser files."""

    contribution: PluginContribution
    assets: AssetSnapshot | None

    @property
    def transport(self) -> Literal["inline-v1", "assets-v1"] | None:
        """How discovery labels the browser part, or None where there is none."""
        if self.assets is not None:
            return "assets-v1"
        return None if self.contribution.frontend is None else "inline-v1"


def validate_plugin(contribution: PluginContribution) -> PluginSnapshot:
    """Check a contribution against every rule and read its files.

    Raises InvalidContribution, which names the rule. That namespaces are unique is for the registry to check.
    """
    if not isinstance(contribution, PluginContribution):
        _refuse("type", f"plugin() takes a PluginContribution, not {shown(contribution)}")
    version = contribution.api_version
    if type(version) is not int or version != PLUGIN_API_VERSION:
        _refuse("api_version", f"api_version must be 1, not {shown(version)}")
    namespace = contribution.namespace
    if not isinstance(namespace, str) or NAMESPACE_PATTERN.fullmatch(namespace) is None:
        _refuse("namespace", f"namespace must match [a-z][a-z0-9_.-]{{0,95}}, not {shown(namespace)}")
    if not isinstance(contribution.title, str) or not contribution.title.strip():
        _refuse("title", f"{namespace} needs a title")
    if not isinstance(contribution.description, str):
        _refuse("description", f"{namespace}: description must be a string")
    if not isinstance(contribution.enabled, bool):
        _refuse("enabled", f"{namespace}: enabled must be true or false, not {shown(contribution.enabled)}")
    validate_fields(contribution.fields)
    _validate_actions(contribution.backend)
    tools = _validated_tools(contribution.tools)
    assets = _validate_frontend(contribution)
    if contribution.frontend is None and not contribution.backend and not tools:
        _refuse("empty", f"{namespace} needs at least one of frontend, backend and tools")
    detached = replace(
        contribution, fields=tuple(contribution.fields), backend=tuple(contribution.backend), tools=tools
    )
    return PluginSnapshot(detached, assets)


def _validate_frontend(contribution: PluginContribution) -> AssetSnapshot | None:
    frontend = contribution.frontend
    if frontend is None:
        return None
    if not isinstance(frontend, (BrowserModule, BrowserAssets)):
        _refuse("frontend", f"frontend must be BrowserModule, BrowserAssets or None, not {shown(frontend)}")
    if not isinstance(frontend.module, str) or not frontend.module:
        _refuse("frontend.module", f"module must be a non-empty string, not {shown(frontend.module)}")
    declared = {field.key for field in contribution.fields}
    public = frontend.public_fields
    if not isinstance(public, (tuple, list)) or not all(isinstance(key, str) for key in public):
        _refuse("frontend.public_fields", f"public_fields must be a tuple of strings, not {shown(public)}")
    for key in public:
        if key not in declared:
            _refuse("frontend.public_fields", f"public_fields names {shown(key)}, which is not a setting")
    if isinstance(frontend, BrowserAssets):
        return load_assets(frontend)
    if not isinstance(frontend.code, str) or not frontend.code:
        _refuse("frontend.code", "code must be a non-empty string")
    try:
        size = len(frontend.code.encode("utf-8"))
    except UnicodeEncodeError:
        _refuse("frontend.code", "code holds a lone surrogate")
    if size > MAX_MODULE_BYTES:
        _refuse("frontend.code", f"code has at most {MAX_MODULE_BYTES} bytes, not {size}")
    return None


def _validate_actions(actions: object) -> None:
    if not isinstance(actions, (tuple, list)):
        _refuse("backend", f"backend must be a tuple, not {shown(actions)}")
    names: set[str] = set()
    for action in actions:
        if not isinstance(action, BackendAction):
            _refuse("backend", f"backend must hold BackendAction, not {shown(action)}")
        if not isinstance(action.name, str) or _ACTION_NAME.fullmatch(action.name) is None:
            _refuse(
                "backend.name",
                f"an action's name must match {_ACTION_NAME.pattern}, not {shown(action.name)}",
            )
        if action.name in names:
            _refuse("backend.unique", f"there are two actions named {action.name}")
        names.add(action.name)
        _require_async("backend.handler", f"action {action.name}", action.handler)


def _validated_tools(tools: object) -> tuple[ModelTool, ...]:
    if not isinstance(tools, (tuple, list)):
        _refuse("tools", f"tools must be a tuple, not {shown(tools)}")
    names: set[str] = set()
    validated: list[ModelTool] = []
    for tool in tools:
        if not isinstance(tool, ModelTool):
            _refuse("tools", f"tools must hold ModelTool, not {shown(tool)}")
        if not isinstance(tool.name, str) or _TOOL_NAME.fullmatch(tool.name) is None:
            _refuse("tools.name", f"a tool's name must match {_TOOL_NAME.pattern}, not {shown(tool.name)}")
        if tool.name in names:
            _refuse("tools.unique", f"there are two tools named {tool.name}")
        names.add(tool.name)
        if not isinstance(tool.description, str) or not tool.description.strip():
            _refuse("tools.description", f"tool {tool.name} needs a description")
        if not isinstance(tool.group, str) or not tool.group:
            _refuse("tools.group", f"tool {tool.name} needs a group")
        _require_async("tools.handler", f"tool {tool.name}", tool.handler)
        validated.append(replace(tool, input_schema=_validated_schema(tool)))
    return tuple(validated)


def _validated_schema(tool: ModelTool) -> Mapping[str, Any]:
    schema = tool.input_schema
    where = f"the input schema of tool {tool.name}"
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        _refuse("tools.input_schema", f"{where} must be an object schema")
    try:
        detached = copy.deepcopy(dict(schema))
        canonical_json(detached)
        foreign = _foreign_reference(detached)
    except Exception as error:
        raise InvalidContribution("tools.input_schema", f"{where} is not JSON") from error
    if foreign is not None:
        _refuse("tools.input_schema", f"{where} must be inline; it refers to {shown(foreign)}")
    return detached


def _foreign_reference(schema: object) -> object | None:
    """A ``$ref`` that leads out of the schema, or None."""
    if isinstance(schema, dict):
        target = schema.get("$ref")
        if isinstance(target, str) and not target.startswith("#"):
            return target
        members = list(schema.values())
    elif isinstance(schema, (list, tuple)):
        members = list(schema)
    else:
        return None
    return next((found for found in map(_foreign_reference, members) if found is not None), None)


def _require_async(rule: str, what: str, handler: object) -> None:
    call = getattr(handler, "__call__", None)  # noqa: B004 - an object with an async __call__ is a handler
    if not inspect.iscoroutinefunction(handler) and not inspect.iscoroutinefunction(call):
        _refuse(rule, f"the handler of {what} must be an async function")


def _refuse(rule: str, message: str) -> NoReturn:
    raise InvalidContribution(rule, message)
