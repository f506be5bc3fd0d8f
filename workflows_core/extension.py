"""The entry point that a host loads: ``workflows_core.extension:install``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from extension_api import ExtensionRegistry, extension

from .engine.service import WorkflowService
from .errors import ConfigurationError
from .limits import engine_config
from .plugin import contribution


@extension(api="0.2.9", name="workflows")
def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    """Register the service and the plugin ``community.workflows``.

    Raises ConfigurationError for a setting that is wrong, and on a system without POSIX process limits.
    """
    settings = engine_config(config)
    if not settings.enabled:
        return
    if os.name != "posix":
        raise ConfigurationError(
            "workflows run on Linux and macOS only: the worker's limits need POSIX. On Windows use WSL"
        )
    service = WorkflowService(settings)
    registry.service(service)
    if not registry.plugin(contribution(service)):
        raise ConfigurationError("this host does not support plugins, which the workflow engine needs")
