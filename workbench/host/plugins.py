"""Actions and model tools of the loaded plugins: found by name, called with a context of the caller's session."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from extension_api.agent_runs import AgentRuns
from extension_api.hashing import canonical_json
from extension_api.plugins import ActionContext, ModelTool, PluginContribution, ToolContext
from workflows_core.errors import NotFound, NotPermitted, Refused, WorkflowError

from .diagnostics import Diagnostics, name_of
from .registry import ExtensionSnapshot
from .settings import HostSettings

_NAME_LENGTH: Final = 64
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True)
class HostTool:
    """A model tool under the name that the host gives it: unique, and derived from the namespace."""

    name: str
    namespace: str
    source: str
    tool: ModelTool


class HostPlugins:
    """The plugins of the current snapshot. Use from the host's loop."""

    def __init__(self, snapshot: ExtensionSnapshot, settings: HostSettings, diagnostics: Diagnostics) -> None:
        self._settings = settings
        self._diagnostics = diagnostics
        self._plugins: dict[str, tuple[PluginContribution, str]] = {}
        self.replace(snapshot)

    def replace(self, snapshot: ExtensionSnapshot) -> None:
        """Offer the plugins of another snapshot from now on. A call that is under way goes on with its own."""
        self._plugins = {
            plugin.value.contribution.namespace: (plugin.value.contribution, plugin.source)
            for plugin in snapshot.plugins
        }

    def namespaces(self) -> frozenset[str]:
        return frozenset(self._plugins)

    def plugin(self, namespace: str) -> PluginContribution:
        """Raises NotFound."""
        try:
            return self._plugins[namespace][0]
        except KeyError:
            raise NotFound(f"there is no plugin {namespace!r}") from None

    async def call_action(
        self, namespace: str, name: str, payload: Mapping[str, Any], session: AgentRuns
    ) -> Any:
        """Call an action and return its JSON result.

        Raises NotFound, Refused where the plugin is not enabled, whatever error of the tree the handler raises,
        and WorkflowError in words for everything else that goes wrong in it.
        """
        plugin = self.plugin(namespace)
        action = next((action for action in plugin.backend if action.name == name), None)
        if action is None:
            raise NotFound(f"the plugin {namespace} has no action {name!r}")
        settings = self._enabled(plugin)
        context = ActionContext(session.principal, settings, agent_runs=session)
        return await self._call(namespace, f"action {name}", action.handler, payload, context)

    def tools(self) -> tuple[HostTool, ...]:
        """The model tools of the enabled plugins."""
        found: list[HostTool] = []
        for namespace, (plugin, source) in self._plugins.items():
            if plugin.tools and self._settings.get(plugin).enabled:
                found.extend(
                    HostTool(tool_name(namespace, tool.name), namespace, source, tool)
                    for tool in plugin.tools
                )
        return tuple(found)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], session: AgentRuns, thread_id: str | None
    ) -> Any:
        """Call a model tool by its host name. Raises as ``call_action`` does."""
        found = next((tool for tool in self.tools() if tool.name == name), None)
        if found is None:
            raise NotFound(f"there is no tool {name!r}")
        settings = self._enabled(self.plugin(found.namespace))
        context = ToolContext(session.principal, settings, thread_id, agent_runs=session)
        return await self._call(found.namespace, f"tool {name}", found.tool.handler, arguments, context)

    def _enabled(self, plugin: PluginContribution) -> Mapping[str, Any]:
        settings = self._settings.get(plugin)
        if not settings.enabled:
            raise Refused(f"the plugin {plugin.namespace} is not enabled", code="plugin_disabled")
        return settings.values

    async def _call(
        self, namespace: str, what: str, handler: Any, payload: Mapping[str, Any], context: Any
    ) -> Any:
        try:
            result = await handler(copy.deepcopy(dict(payload)), context)
            return json.loads(canonical_json(result))
        except WorkflowError:
            raise
        except PermissionError as error:
            raise NotPermitted(f"{namespace}: {error}") from error
        except BaseException as error:
            task = asyncio.current_task()
            ours = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
            if ours or isinstance(error, GeneratorExit):
                raise
            source = self._plugins[namespace][1] if namespace in self._plugins else namespace
            self._diagnostics.add("error", source, f"{what} raised {name_of(error)}", error)
            raise WorkflowError(
                f"{what} of {namespace} failed with {type(error).__name__}", code="action_failed"
            ) from error


def tool_name(namespace: str, tool: str) -> str:
    """The host's name of a tool: ``community_workflows__launch_workflow``, at most 64 characters."""
    name = f"{_FOREIGN.sub('_', namespace)}__{tool}"
    return name if len(name) <= _NAME_LENGTH else name[-_NAME_LENGTH:]
