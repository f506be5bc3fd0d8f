"""What an agent is assembled from: the descriptor for observers, and keyed evidence for the engine.

The versions in the evidence are keyed with a secret of this host's lifetime: equal versions mean equal
components within it, and nothing can be read out of them.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from extension_api.assembly import AgentAssemblyDescriptor, MiddlewareDescriptor, ToolDescriptor
from extension_api.hashing import canonical_hash, canonical_json
from extension_api.middleware import AgentBuildContext, AgentScope, HostPolicySnapshot
from extension_api.release_policy import ReleasePolicyProvider, unwrap_middleware
from extension_api.state import ExtensionData

from ..agents.base import AgentDescription, Backend
from ..agents.names import STUB
from .diagnostics import Diagnostics, name_of
from .ordering import OrderedMiddleware, contributed_middleware
from .registry import ExtensionSnapshot

NAMESPACE: Final = "local"
_VERSION_DIGITS: Final = 16
_KEPT: Final = 64
#: A hook without a coroutine that takes longer than this is named.
BLOCKING_SECONDS: Final = 0.5
_BUILD: Final = {"image_digest": "DEER_FLOW_IMAGE_DIGEST", "git_commit": "DEER_FLOW_GIT_COMMIT"}


class Evidence(NamedTuple):
    """Keyed evidence of one assembly: as a mapping for views and as JSON text for the record."""

    value: Mapping[str, Any]
    text: str


class Assembler:
    """Assembles the agents of one host with one snapshot."""

    def __init__(
        self,
        snapshot: ExtensionSnapshot,
        app_store: ExtensionData,
        diagnostics: Diagnostics,
        policy: HostPolicySnapshot,
        key: bytes | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._app_store = app_store
        self._diagnostics = diagnostics
        self._policy = policy
        self._key = key if key is not None else secrets.token_bytes(32)
        self._cached: dict[tuple[str, str], Evidence] = {}
        #: The latest evidence of each agent, for people who look at it.
        self.latest: dict[str, Mapping[str, Any]] = {}

    def with_snapshot(self, snapshot: ExtensionSnapshot) -> Assembler:
        """One for other extensions of the same host: its versions compare with those made here."""
        made = Assembler(snapshot, self._app_store, self._diagnostics, self._policy, self._key)
        made.latest = self.latest
        return made

    def assemble(
        self,
        agent_ref: str,
        backend: Backend,
        settings: Mapping[str, Any],
        options: Mapping[str, Any],
        scope: AgentScope = AgentScope.LEAD,
    ) -> Evidence:
        """Ask the contributors, tell the observers, and return the evidence.

        Where nobody contributes or observes, a stub agent is described once per stub set.
        """
        plain = not (self._snapshot.middlewares or self._snapshot.assembly_observers)
        key = (agent_ref, str(options.get("stubs_hash"))) if plain and backend.name == STUB else None
        if key is not None:
            known = self._cached.get(key)
            if known is not None:
                return known
        description = backend.describe(agent_ref, settings, options)
        executed = False  # no backend of this build runs contributed middleware
        middlewares = self._middlewares(agent_ref, description, scope)
        descriptor = _descriptor(agent_ref, description, middlewares, executed)
        evidence = self._evidence(descriptor, description)
        for observer in self._snapshot.assembly_observers:
            begun = time.monotonic()
            try:
                observer.value.on_agent_assembled(self._app_store, copy.deepcopy(descriptor))
            except BaseException as error:  # noqa: BLE001 - the agent is built whatever its observers do
                self._diagnostics.add(
                    "error", observer.source, f"on_agent_assembled raised {name_of(error)}", error
                )
            self._name_blocking(observer.source, "on_agent_assembled", begun)
        self.latest[agent_ref] = evidence.value
        if key is not None:
            if len(self._cached) >= _KEPT:
                self._cached.clear()
            self._cached[key] = evidence
        return evidence

    def _middlewares(
        self, agent_ref: str, description: AgentDescription, scope: AgentScope
    ) -> tuple[MiddlewareDescriptor, ...]:
        if not self._snapshot.middlewares:
            return ()
        context = AgentBuildContext(scope, agent_ref, description.effective_model, self._policy)
        begun = time.monotonic()
        ordered = contributed_middleware(self._snapshot, self._app_store, context, self._diagnostics)
        sources = ", ".join(dict.fromkeys(each.source for each in self._snapshot.middlewares))
        self._name_blocking(sources, "contribute_middlewares", begun)
        return tuple(_middleware_descriptor(entry) for entry in ordered)

    def _name_blocking(self, source: str, hook: str, begun: float) -> None:
        took = time.monotonic() - begun
        if took > BLOCKING_SECONDS:
            self._diagnostics.add("warning", source, f"{hook} blocked the host for {took:.1f} s")

    def _evidence(self, descriptor: AgentAssemblyDescriptor, description: AgentDescription) -> Evidence:
        components: dict[str, Any] = {
            "model": [descriptor.effective_model, descriptor.thinking_enabled, descriptor.reasoning_effort],
            "prompt": descriptor.base_prompt_hash,
        }
        for name, value in descriptor.model_parameters.items():
            components[f"parameter:{name}"] = value
        for tool in descriptor.tools:
            components[f"tool:{tool.name}"] = [tool.description_hash, tool.schema_hash, tool.source]
        for index, middleware in enumerate(descriptor.middlewares):
            components[f"middleware:{index}:{middleware.name}"] = [
                middleware.module,
                middleware.policy_parameters,
                middleware.extension,
            ]
        for name, value in (
            ("skills", sorted(descriptor.enabled_skills)),
            ("policies", descriptor.effective_policies),
        ):
            if value:
                components[name] = value
        numbers = {
            name: value
            for name, value in description.model_parameters.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        value = {
            "fingerprint": self._version("fingerprint", descriptor.fingerprint),
            "components": {name: self._version(name, part) for name, part in sorted(components.items())},
        }
        if numbers:
            value["numbers"] = numbers
        return Evidence(value, json.dumps(value, separators=(",", ":")))

    def _version(self, component: str, value: Any) -> str:
        data = f"{component}\0{canonical_json(value)}".encode()
        return hmac.new(self._key, data, hashlib.sha256).hexdigest()[:_VERSION_DIGITS]


def _descriptor(
    agent_ref: str,
    description: AgentDescription,
    middlewares: tuple[MiddlewareDescriptor, ...],
    executed: bool,
) -> AgentAssemblyDescriptor:
    policies = dict(description.policies)
    if middlewares and not executed:
        policies["middlewares"] = "not executed"
    return AgentAssemblyDescriptor(
        namespace=NAMESPACE,
        agent_name=agent_ref,
        requested_model=description.requested_model,
        effective_model=description.effective_model,
        model_parameters=dict(description.model_parameters),
        thinking_enabled=description.thinking_enabled,
        reasoning_effort=description.reasoning_effort,
        base_prompt_hash=canonical_hash(description.prompt),
        tools=tuple(
            ToolDescriptor(name, canonical_hash(text), canonical_hash(schema), NAMESPACE)
            for name, (text, schema) in description.tools.items()
        ),
        middlewares=middlewares,
        deferred_tool_names=(),
        enabled_skills=description.skills,
        effective_policies=policies,
        build={key: os.environ.get(name) or "unknown" for key, name in _BUILD.items()},
    )


def _middleware_descriptor(entry: OrderedMiddleware) -> MiddlewareDescriptor:
    try:
        inner = unwrap_middleware(entry.middleware)
    except BaseException:  # noqa: BLE001 - a property that ends the program would end the host
        inner = entry.middleware
    return MiddlewareDescriptor(
        name=type(inner).__name__,
        module=type(inner).__module__,
        policy_parameters=_policy(inner),
        extension=entry.source,
    )


def _policy(middleware: object) -> dict[str, Any]:
    """What the middleware declares, detached; in its place the reason where it cannot be used."""
    try:
        if not isinstance(middleware, ReleasePolicyProvider):
            return {}
        declared: object = middleware.release_policy_parameters()
        if not isinstance(declared, Mapping):
            return {"error": "NonMappingDeclaration"}
        parameters: dict[str, Any] = json.loads(canonical_json(dict(declared)))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is recorded in place of the declaration
        return {"error": type(error).__name__}
    return parameters
