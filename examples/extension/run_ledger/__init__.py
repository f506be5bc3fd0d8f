"""A sample extension: one contribution of every kind that the contract knows.

It keeps a ledger: how many tasks ended how, how long they took, which model calls the host made by itself, how
each agent was built, and what was compacted. A service writes the ledger to a file when the host stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deerflow_extension_api import ExtensionRegistry, extension

from .middleware import SlowTools
from .observers import AssemblyWatcher, CompactionCounter, SystemCallCounter, TaskTimer
from .plugin import contribution
from .routes import routers
from .writer import LedgerWriter


@extension(api="0.2.4", name="run-ledger")
def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    """``config``: ``{"file": path relative to the workspace}``, ``ledger.json`` without it."""
    registry.task_lifecycle(TaskTimer())
    registry.system_model_observer(SystemCallCounter())
    registry.agent_assembly_observer(AssemblyWatcher())
    registry.context_compaction_observer(CompactionCounter())
    registry.middlewares(SlowTools())
    registry.service(LedgerWriter(str(config.get("file", "ledger.json"))))
    registry.routers(routers())
    registry.plugin(contribution())
