"""What one extension is and has contributed, as JSON for commands and screens."""

from __future__ import annotations

from typing import Any, Final

from .loader import LoadedRecord
from .registry import ExtensionSnapshot

#: The registry's method for each kind of contribution.
METHODS: Final = {
    "middlewares": "middlewares",
    "lifecycle": "task_lifecycle",
    "system_observers": "system_model_observer",
    "assembly_observers": "agent_assembly_observer",
    "compaction_observers": "context_compaction_observer",
    "services": "service",
    "routers": "routers",
    "plugins": "plugin",
}


def describe_record(loaded: LoadedRecord, snapshot: ExtensionSnapshot) -> dict[str, Any]:
    """``{name, use, outcome, message, api, declared_name, contributions, plugins}`` of one record.

    ``contributions`` counts by registry method; ``plugins`` lists namespaces with their actions and tools.
    """
    return {
        "name": loaded.record.name,
        "use": loaded.record.use,
        "outcome": loaded.outcome,
        "message": loaded.message or None,
        "api": loaded.marker,
        "declared_name": loaded.declared_name,
        "contributions": {METHODS[bucket]: count for bucket, count in snapshot.counts(loaded.index).items()},
        "plugins": [
            {
                "namespace": plugin.value.contribution.namespace,
                "title": plugin.value.contribution.title,
                "actions": [action.name for action in plugin.value.contribution.backend],
                "tools": [tool.name for tool in plugin.value.contribution.tools],
                "assets_revision": None if plugin.value.assets is None else plugin.value.assets.revision,
            }
            for plugin in snapshot.plugins
            if plugin.record == loaded.index
        ],
    }
