"""Who may manage a plugin: the answer behind ``require_plugin_management``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from extension_api.agent_runs import AgentRunRefused
from extension_api.identity import ExtensionPrincipal

from .revision import Configuration


class PluginAuthorization:
    """Absent or disabled in the configuration: everybody. Enabled: administrators of the workspace.

    Fails closed for an unknown namespace and an anonymous caller; for a configuration that cannot be read any
    more it follows the last known ``fail_closed``.
    """

    def __init__(self, configuration: Configuration, namespaces: Callable[[], Collection[str]]) -> None:
        self._configuration = configuration
        self._namespaces = namespaces
        self._last = configuration.current.authorization

    def allowed(
        self, principal: ExtensionPrincipal | None, namespace: str, scope: Literal["read", "write"]
    ) -> bool:
        if principal is None or namespace not in self._namespaces() or scope not in ("read", "write"):
            return False
        try:
            self._last = self._configuration.current.authorization
        except AgentRunRefused:
            return not self._last.fail_closed
        return not self._last.enabled or principal.is_admin
