"""Calls of actions and model tools, and the settings they see."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ..hashing import canonical_json
from ..plugins import ActionContext, BackendAction, ModelTool, ToolContext
from ..settings import SettingValue, settings_snapshot
from .registry import FakeRegistry

N = TypeVar("N", BackendAction, ModelTool)


class PluginCalls:
    """The plugins of a registry with their settings."""

    def __init__(self, registry: FakeRegistry) -> None:
        self._registry = registry
        self._settings: dict[str, Mapping[str, SettingValue]] = {}
        self._disabled: set[str] = set()

    def configure(self, namespace: str, settings: Mapping[str, object], *, enabled: bool) -> None:
        """Replace the settings of a plugin. Raises InvalidContribution and leaves the old ones in place."""
        plugin = self._registry.plugin_named(namespace)
        self._settings[namespace] = settings_snapshot(plugin.contribution.fields, settings)
        (self._disabled.discard if enabled else self._disabled.add)(namespace)

    def settings(self, namespace: str) -> Mapping[str, SettingValue]:
        """The settings in force. Raises LookupError for a namespace that is not installed."""
        plugin = self._registry.plugin_named(namespace)
        return self._settings.get(namespace) or settings_snapshot(plugin.contribution.fields, {})

    async def call_action(
        self, namespace: str, name: str, payload: Mapping[str, Any], context: ActionContext
    ) -> Any:
        """Call an action. Raises LookupError, PermissionError, TypeError, or what the handler raises."""
        action = _named(self._registry.plugin_named(namespace).contribution.backend, namespace, name)
        self._require_enabled(namespace)
        return _detached(name, await action.handler(copy.deepcopy(dict(payload)), context))

    async def call_tool(
        self, namespace: str, name: str, arguments: Mapping[str, Any], context: ToolContext
    ) -> Any:
        """Call a tool. Raises LookupError, PermissionError, TypeError, or what the handler raises."""
        tool = _named(self._registry.plugin_named(namespace).contribution.tools, namespace, name)
        self._require_enabled(namespace)
        return _detached(name, await tool.handler(copy.deepcopy(dict(arguments)), context))

    def _require_enabled(self, namespace: str) -> None:
        if namespace in self._disabled:
            raise PermissionError(f"the plugin {namespace} is disabled")


def _named(members: Iterable[N], namespace: str, name: str) -> N:
    for member in members:
        if member.name == name:
            return member
    raise LookupError(f"{namespace} has nothing named {name!r}")


def _detached(name: str, answer: object) -> Any:
    try:
        return json.loads(canonical_json(answer))
    except TypeError as error:
        raise TypeError(f"{name} returned what is not JSON: {error}") from error
