"""``workbench.yaml``: what it may hold, its defaults, and the errors that name file, line and path.

Without the file the workflow plugin runs with its defaults and one stub agent, ``lead_agent``. Nothing here
imports an extension or reads a secret: a secret stays the reference that the file holds.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from workflows_core.errors import ConfigurationError
from workflows_core.limits import engine_config

from ..agents.names import BACKEND_NAMES, OPENAI, STUB
from ..agents.settings import CHECKS, Price, price_of
from ..inert import inert
from ..workspace import CONFIG_NAME
from ..yamltext import Document, Section, YamlRefused, kind_of, parse

CONFIG_BYTES: Final = 256 * 1024

#: ``use`` of the workflow plugin. A workbench whose workflow plugin cannot load is of no use: see ``fatal``.
WORKFLOWS_USE: Final = "workflows_core.extension:install"

AUTH_MODES: Final = ("terminal", "password", "disabled")


class PluginRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of ``plugins:``. ``use`` is ``module:attribute``; ``config`` belongs to the extension."""

    name: str
    use: str
    enabled: bool = True
    config: Mapping[str, Any] = {}
    package: str | None = None
    required: bool = False

    @property
    def fatal(self) -> bool:
        """Whether a failure of this record stops the host."""
        return self.required or self.use == WORKFLOWS_USE


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One agent: the backend that runs it, and the backend's own keys.

    ``price`` is what its tokens cost, where that is set. It shapes nothing, so no revision covers it.
    """

    name: str
    backend: str = STUB
    settings: Mapping[str, Any] = {}
    price: Price | None = None


class AuthConfig(msgspec.Struct, frozen=True):
    mode: str = "terminal"


class AuthorizationConfig(msgspec.Struct, frozen=True):
    """Whether plugin management is authorized, and what an unreadable configuration means."""

    enabled: bool = False
    fail_closed: bool = True


class WorkbenchConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The validated file. ``stubs`` are relative to the workspace, ``keymap`` maps binding ids to keys."""

    plugins: tuple[PluginRecord, ...] = (
        PluginRecord(name="workflows", use=WORKFLOWS_USE, config={"enabled": True}),
    )
    agents: Mapping[str, AgentConfig] = msgspec.field(
        default_factory=lambda: {"lead_agent": AgentConfig(name="lead_agent")}
    )
    stubs: tuple[str, ...] = ()
    auth: AuthConfig = AuthConfig()
    authorization: AuthorizationConfig = AuthorizationConfig()
    keymap: Mapping[str, str] = {}
    theme: str = "textual-dark"

    @property
    def workflows(self) -> PluginRecord | None:
        """The record of the workflow plugin, or None where the file leaves it out or disables it."""
        return next((r for r in self.plugins if r.use == WORKFLOWS_USE and r.enabled), None)


def no_real_agent(config: WorkbenchConfig, backends: Container[str]) -> str | None:
    """Why a launch on real Agents cannot run: a sentence, or None where at least one agent can be called."""
    problems: list[str] = []
    for agent in config.agents.values():
        if agent.backend == STUB:
            problems.append(f"{agent.name} has only the stub backend")
        elif agent.backend not in backends:
            problems.append(f"the backend {agent.backend} of {agent.name} is not part of this workbench yet")
        else:
            return None
    return (
        f"no agent can be called for real: {'; '.join(problems)}. "
        f"Give an agent another backend in {CONFIG_NAME}, or launch on stubs"
    )


def load_config(path: Path) -> WorkbenchConfig:
    """Read and validate the file. Raises ConfigurationError, for a missing file too."""
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{inert(str(path))} cannot be read: {error.strerror}") from None
    if len(data) > CONFIG_BYTES:
        raise ConfigurationError(f"{inert(str(path))} is larger than {CONFIG_BYTES // 1024} KiB")
    return parse_config(data, path.name)


def parse_config(text: str | bytes, name: str = CONFIG_NAME) -> WorkbenchConfig:
    """Validate the text of a configuration file; ``name`` is the file as messages call it."""
    try:
        return _config(parse(text, name))
    except YamlRefused as error:
        raise ConfigurationError(error.message) from None


def _config(document: Document) -> WorkbenchConfig:
    value = {} if document.value is None else document.value
    top = Section(document, (), value, "the configuration")
    given: dict[str, Any] = {
        "plugins": _plugins(top),
        "agents": _agents(top),
        "stubs": _stubs(top),
        "auth": _auth(top.section("auth", "auth")),
        "authorization": _authorization(top.section("authorization", "authorization")),
        "keymap": top.mapping("keymap", _binding),
        "theme": top.text("theme", "textual-dark"),
    }
    top.done()
    return WorkbenchConfig(**{key: made for key, made in given.items() if key in top})


def _plugins(top: Section) -> tuple[PluginRecord, ...]:
    records: list[PluginRecord] = []
    for index, item in enumerate(top.list("plugins", "records")):
        section = Section(top.document, ("plugins", index), item, "a plugin record")
        name = section.text("name")
        use = section.text("use")
        module, colon, attribute = use.partition(":")
        if not colon or not _dotted(module) or not _dotted(attribute):
            section.refuse("use", f"is {inert(use)!r}; it must have the form module:attribute")
        package = section.take("package")
        if package is not None and (not isinstance(package, str) or not package):
            section.refuse("package", f"must be text, not {kind_of(package)}")
        record = PluginRecord(
            name=name,
            use=use,
            enabled=section.flag("enabled", True),
            config=dict(section.section("config", "config").items()),
            package=package,
            required=section.flag("required", False),
        )
        section.done()
        if record.use == WORKFLOWS_USE and record.enabled:
            _engine_settings(top.document, ("plugins", index, "config"), record.config)
        records.append(record)
    return tuple(records)


def _engine_settings(document: Document, path: tuple[str | int, ...], config: Mapping[str, Any]) -> None:
    """Refuse a wrong setting of the workflow plugin at its own place, whoever asks and before anything loads."""
    try:
        engine_config(config)
    except ConfigurationError as error:
        named = error.message.removeprefix("config.")
        key = max((key for key in config if named.startswith(f"{key} ")), key=len, default=None)
        if key is None:
            document.refuse(path, error.message)
        document.refuse((*path, key), named[len(key) + 1 :])


def _agents(top: Section) -> dict[str, AgentConfig]:
    agents: dict[str, AgentConfig] = {}
    section = top.section("agents", "agents")
    for name, item in section.items():
        if not name or len(name) > 128 or inert(name) != name or name != name.strip():
            section.refuse(name, "is not usable as the name of an agent")
        keys = Section(top.document, (*section.path, name), item, "an agent")
        backend = keys.choice("backend", STUB, BACKEND_NAMES)
        keys.what = f"an agent with the {backend} backend"
        if backend in CHECKS:
            CHECKS[backend](keys)
        price = price_of(keys) if backend == OPENAI else None
        if backend == STUB or backend in CHECKS:
            keys.done()
        apart = ("backend",) if price is None else ("backend", "price")
        settings = {key: value for key, value in keys.items() if key not in apart}
        if backend not in CHECKS:
            for key, value in settings.items():
                _secret_reference(keys, key, value)
        agents[name] = AgentConfig(name=name, backend=backend, settings=settings, price=price)
    if "agents" in top and not agents:
        top.refuse("agents", "must name at least one agent")
    return agents


def _secret_reference(keys: Section, key: str, value: Any) -> None:
    """A mapping with ``env`` or ``keyring`` refers to a secret; it holds nothing else."""
    if isinstance(value, dict) and ("env" in value or "keyring" in value):
        reference = next(iter(value.values()))
        if len(value) != 1 or not isinstance(reference, str) or not reference:
            keys.refuse(key, "must be {env: NAME} or {keyring: NAME} with the name of the secret")


def _stubs(top: Section) -> tuple[str, ...]:
    paths = top.list("stubs", "paths of stub sets")
    for index, path in enumerate(paths):
        if not isinstance(path, str) or not path or "\0" in path:
            top.document.refuse(("stubs", index), f"must be the path of a stub set, not {kind_of(path)}")
    return tuple(paths)


def _auth(section: Section) -> AuthConfig:
    config = AuthConfig(section.choice("mode", "terminal", AUTH_MODES))
    section.done()
    return config


def _authorization(section: Section) -> AuthorizationConfig:
    config = AuthorizationConfig(section.flag("enabled", False), section.flag("fail_closed", True))
    section.done()
    return config


def _binding(name: str, value: Any) -> str | None:
    if not isinstance(value, str) or not value:
        return f"must be a key such as ctrl+r, not {kind_of(value)}"
    return None


def _dotted(text: str) -> bool:
    return bool(text) and all(part.isidentifier() for part in text.split("."))
