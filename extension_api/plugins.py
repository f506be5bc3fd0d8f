"""Full-stack plugins: settings, browser modules, actions and model tools (contract 0.2.2, experimental).

``BrowserAssets`` came with 0.2.3, the handle on the contexts with 0.2.6. The dataclasses hold what an
extension declares; ``registry.plugin()`` validates it (see ``extension_api.validation``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .agent_runs import AgentRuns
from .identity import ExtensionPrincipal


@dataclass(frozen=True)
class SettingsField:
    """One deployment setting that is no secret. ``max_length`` counts the characters of a string."""

    key: str
    title: str
    kind: Literal["boolean", "integer", "string"]
    default: bool | int | str
    description: str = ""
    minimum: int | None = None
    maximum: int | None = None
    max_length: int = 256


@dataclass(frozen=True)
class ActionContext:
    """Who calls an action, under which settings.

    ``agent_runs`` (0.2.6) is a handle bound to the caller's session; None where the host or the session
    offers none. It is revoked with the session, so a retained one refuses.
    """

    principal: ExtensionPrincipal
    settings: Mapping[str, bool | int | str]
    agent_runs: AgentRuns | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class ToolContext(ActionContext):
    """The context of a tool call that a model made; ``thread_id`` is the conversation it was made in."""

    thread_id: str | None


@dataclass(frozen=True)
class BackendAction:
    """A named asynchronous handler: ``(payload, context) -> JSON``."""

    name: str
    handler: Callable[[Mapping[str, Any], ActionContext], Awaitable[Any]]


@dataclass(frozen=True)
class ModelTool:
    """A tool for models. ``input_schema`` is an inline JSON schema of type object."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    handler: Callable[[Mapping[str, Any], ToolContext], Awaitable[Any]]
    group: str = "extensions"


@dataclass(frozen=True)
class BrowserModule:
    """One self-contained ES module of at most 512 KiB (transport ``inline-v1``)."""

    module: str
    code: str
    public_fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class BrowserAssets:
    """A manifest and static files inside the installed package (transport ``assets-v1``).

    ``root`` is usually ``Path(__file__).parent``; ``manifest`` is relative to it. The rules of the manifest
    and the files are those of ``extension_api.assets``.
    """

    module: str
    root: str | Path
    manifest: str = "ui_manifest.json"
    public_fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class PluginContribution:
    """One plugin. At least one of ``frontend``, ``backend`` and ``tools`` is given; ``api_version`` is 1."""

    namespace: str
    title: str
    description: str = ""
    enabled: bool = False
    fields: tuple[SettingsField, ...] = ()
    frontend: BrowserModule | BrowserAssets | None = None
    backend: tuple[BackendAction, ...] = ()
    api_version: int = 1
    tools: tuple[ModelTool, ...] = ()
