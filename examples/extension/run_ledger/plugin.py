"""The plugin: settings, an action for people, a tool for models, and files for a browser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deerflow_extension_api import (
    ActionContext,
    BackendAction,
    BrowserAssets,
    ModelTool,
    PluginContribution,
    SettingsField,
    ToolContext,
)

from .writer import current

NAMESPACE = "samples.run_ledger"


async def summary(payload: Mapping[str, Any], context: ActionContext) -> dict[str, Any]:
    """The ledger, with the title of the settings and who asks for it."""
    return {
        "title": context.settings["title"],
        "for": context.principal.user_id,
        **current().summary(),
    }


async def count(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """How often one thing was counted."""
    return {"number": current().summary()["counts"].get(arguments["what"], 0)}


def contribution() -> PluginContribution:
    return PluginContribution(
        namespace=NAMESPACE,
        title="Run ledger",
        description="What Agents were asked, and how it ended",
        enabled=True,
        fields=(
            SettingsField("title", "Title", "string", "Run ledger", max_length=80),
            SettingsField("rows", "Rows", "integer", 20, minimum=1, maximum=200),
            SettingsField("compact", "Compact view", "boolean", False),
        ),
        frontend=BrowserAssets("run-ledger", Path(__file__).parent, public_fields=("title", "rows")),
        backend=(BackendAction("summary", summary),),
        tools=(
            ModelTool(
                "count",
                "How often the ledger has counted something, for example 'lead completed'.",
                {
                    "type": "object",
                    "properties": {"what": {"type": "string"}},
                    "required": ["what"],
                    "additionalProperties": False,
                },
                count,
            ),
        ),
    )
