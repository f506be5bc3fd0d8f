"""The configuration revision: a keyed digest of everything declarative that shapes Agents.

Covered are the agents with their prompts and parameters, the plugin records with their configuration (every
limit included), the mode of authentication, and the run's own choice of stub set or real Agents. Not covered
are key bindings, theme, the paths of default stub sets, the label of a launch and the prices of agents.

``workbench.yaml`` is looked at again whenever a revision is asked for, so that a live run notices a change.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from extension_api.agent_runs import AgentRunRefused
from extension_api.hashing import canonical_json
from workflows_core.errors import ConfigurationError

from ..agents.base import Backends, BackendUnavailable
from ..agents.names import STUB
from ..workspace import CONFIG_NAME
from .config import WORKFLOWS_USE, WorkbenchConfig, load_config
from .secret import Secret

PURPOSE: Final = "configuration-revision"

_Stamp = tuple[int, int, int, int] | None


class Configuration:
    """The configuration as it stands on disk, and the revisions made from it.

    ``current`` reads the file only after it changed. Use from the host's loop.
    """

    def __init__(self, root: Path, config: WorkbenchConfig, secret: Secret, backends: Backends) -> None:
        self._path = root / CONFIG_NAME
        self._watched = str(self._path)
        self._config = config
        self._stamp = _stamp(self._watched)
        self._problem: str | None = None
        self._secret = secret
        self._backends = backends
        self._revisions: dict[tuple[str, str], str] = {}
        self._engine = _engine_records(config)

    def check_engine(self) -> None:
        """Raise AgentRunRefused where the engine's own settings were edited since it was loaded.

        The engine keeps its limits and its list of agents for its life: a launch under the edited file would
        be recorded with a configuration that it does not run under.
        """
        if _engine_records(self.current) != self._engine:
            raise AgentRunRefused(
                "configuration_changed",
                f"the workflow plugin's settings in {self._path.name} changed since this workbench was started. "
                "Restart it, or restore them",
            )

    @property
    def current(self) -> WorkbenchConfig:
        """The configuration now. Raises AgentRunRefused where the file has become unreadable."""
        stamp = _stamp(self._watched)
        if stamp != self._stamp:
            self._revisions.clear()
            self._stamp = stamp
            self._problem = None
            try:
                self._config = load_config(self._path) if stamp is not None else WorkbenchConfig()
            except ConfigurationError as error:
                self._problem = error.message
        if self._problem is not None:
            raise AgentRunRefused(
                "configuration_unreadable", f"the configuration cannot be read any more: {self._problem}"
            )
        return self._config

    def revision(self, options: Mapping[str, Any]) -> str:
        """The digest for a run with these launch options. Raises AgentRunRefused."""
        config = self.current
        key = (str(options.get("agents")), str(options.get("stubs_hash", "")))
        known = self._revisions.get(key)
        if known is None:
            known = self._secret.sign(PURPOSE, canonical_json(self._material(config, options)).encode())
            self._revisions[key] = known
        return known

    def components(self, options: Mapping[str, Any]) -> dict[str, str]:
        """A keyed digest for each part of the revision, by its path, so that a change can be named."""
        parts = _flatten(self._material(self.current, options), "")
        return {
            path: self._secret.sign(f"{PURPOSE}/{path}", canonical_json(value).encode())[:16]
            for path, value in sorted(parts.items())
        }

    def _material(self, config: WorkbenchConfig, options: Mapping[str, Any]) -> dict[str, Any]:
        mode = options.get("agents")
        return {
            "format": 1,
            "agents": {
                name: self._agent(name, agent.backend, agent.settings, options)
                for name, agent in config.agents.items()
            },
            "plugins": {
                f"{index}:{record.name}": {
                    "use": record.use,
                    "enabled": record.enabled,
                    "config": dict(record.config),
                    "package": record.package,
                }
                for index, record in enumerate(config.plugins)
            },
            "auth": config.auth.mode,
            "launch": {"agents": mode, "stubs": options.get("stubs_hash")},
        }

    def _agent(
        self, name: str, backend: str, settings: Mapping[str, Any], options: Mapping[str, Any]
    ) -> dict[str, Any]:
        material: dict[str, Any] = {"backend": backend, "settings": dict(settings)}
        if options.get("agents") != "stub" and backend != STUB and backend in self._backends:
            try:
                described = self._backends.get(backend).describe(name, settings, options)
            except BackendUnavailable:
                return material
            material["prompt"] = described.prompt
            material["parameters"] = dict(described.model_parameters)
        return material


def _engine_records(config: WorkbenchConfig) -> list[tuple[bool, dict[str, Any]]]:
    return [(record.enabled, dict(record.config)) for record in config.plugins if record.use == WORKFLOWS_USE]


def _stamp(path: str) -> _Stamp:
    """What changes when the file does; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - before each child; a Path takes twice as long
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns)


def _flatten(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        return {path: value}
    parts: dict[str, Any] = {}
    for key, part in value.items():
        parts |= _flatten(part, f"{path}.{key}" if path else str(key))
    return parts
