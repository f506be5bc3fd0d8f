"""The settings of plugins: values and ``enabled``, kept per namespace with a revision and an author."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extension_api.invalid import InvalidContribution
from extension_api.plugins import PluginContribution
from extension_api.settings import SettingValue, settings_snapshot
from workflows_core.errors import Conflict, UsageError
from workflows_core.model import now

from .store import HostStore, to_json


@dataclass(frozen=True)
class PluginSettings:
    """One plugin's settings: every declared field has a value. ``revision`` is 0 until the first change."""

    enabled: bool
    values: Mapping[str, SettingValue]
    revision: int
    author: str | None


class HostSettings:
    """Reads and changes settings in the host's store."""

    def __init__(self, store: HostStore) -> None:
        self._store = store

    def get(self, plugin: PluginContribution) -> PluginSettings:
        """The settings as they stand. A stored value that the declaration no longer admits is dropped."""
        rows = self._store.read(
            "SELECT enabled, field_values, revision, author FROM settings WHERE namespace = ?",
            plugin.namespace,
        )
        if not rows:
            return PluginSettings(plugin.enabled, settings_snapshot(plugin.fields, {}), 0, None)
        enabled, text, revision, author = rows[0]
        values = _admitted(plugin, json.loads(text))
        return PluginSettings(
            plugin.enabled if enabled is None else bool(enabled),
            settings_snapshot(plugin.fields, values),
            revision,
            author,
        )

    def change(
        self,
        plugin: PluginContribution,
        author: str,
        *,
        values: Mapping[str, Any] | None = None,
        enabled: bool | None = None,
        expected_revision: int | None = None,
    ) -> PluginSettings:
        """Store some values or ``enabled``. Raises UsageError for a value that the plugin does not admit,
        Conflict where ``expected_revision`` is not the stored one."""
        if enabled is not None and not isinstance(enabled, bool):
            raise UsageError(f"{plugin.namespace}: enabled must be true or false")
        before = self.get(plugin)
        if expected_revision is not None and expected_revision != before.revision:
            raise Conflict(
                f"the settings of {plugin.namespace} are at revision {before.revision}, "
                f"not {expected_revision}; look at them again"
            )
        try:
            merged = settings_snapshot(plugin.fields, {**before.values, **(values or {})})
        except InvalidContribution as error:
            raise UsageError(f"{plugin.namespace}: {error.message}") from None
        stored = before.enabled if enabled is None else enabled
        changed = self._store.write(
            "INSERT INTO settings VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (namespace) DO UPDATE SET "
            "enabled = excluded.enabled, field_values = excluded.field_values, revision = excluded.revision, "
            "author = excluded.author, updated_at = excluded.updated_at WHERE settings.revision = ?",
            plugin.namespace,
            int(stored),
            to_json(dict(merged)),
            before.revision + 1,
            author,
            now(),
            before.revision,
        )
        if not changed:
            raise Conflict(f"the settings of {plugin.namespace} were changed by somebody else meanwhile")
        return self.get(plugin)


def public_fields(plugin: PluginContribution, values: Mapping[str, SettingValue]) -> dict[str, SettingValue]:
    """What discovery may show: the fields that the browser part declares public."""
    shown: Sequence[str] = () if plugin.frontend is None else plugin.frontend.public_fields
    return {key: values[key] for key in shown if key in values}


def _admitted(plugin: PluginContribution, stored: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in plugin.fields:
        if field.key in stored:
            try:
                settings_snapshot((field,), {field.key: stored[field.key]})
            except InvalidContribution:
                continue
            values[field.key] = stored[field.key]
    return values
