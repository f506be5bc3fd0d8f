"""Stand-ins for what an extension meets: a request, a runtime, a descriptor."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from ..assembly import AgentAssemblyDescriptor
from ..hashing import canonical_hash
from ..identity import (
    EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY,
    EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY,
    EXTENSION_PRINCIPAL_RESOLVER_KEY,
    ExtensionPrincipal,
)
from ..run_evidence import RUN_EVIDENCE_READER_RESOLVER_KEY, RunEvidenceReader
from ..state import EXTENSION_TASK_STORE_KEY, ExtensionData


class FakeRuntime:
    """A runtime as middleware gets it; with a store it belongs to a live task."""

    def __init__(self, store: ExtensionData | None = None, **context: Any) -> None:
        self.context: dict[str, Any] = dict(context)
        if store is not None:
            self.context[EXTENSION_TASK_STORE_KEY] = store


def fake_request(
    principal: ExtensionPrincipal | None = None,
    *,
    reader: RunEvidenceReader | None = None,
    manages: Iterable[tuple[str, str]] | None = None,
) -> Any:
    """A request of ``principal`` to a contributed route.

    ``reader`` is the caller's run evidence. ``manages`` lists the (namespace, scope) pairs that authorization
    allows; without it the host has no such resolver.
    """
    state = SimpleNamespace(**{EXTENSION_PRINCIPAL_RESOLVER_KEY: lambda request: principal})
    if reader is not None:
        setattr(state, RUN_EVIDENCE_READER_RESOLVER_KEY, lambda request: reader)
    if manages is not None:
        allowed = frozenset(manages)

        def decide(request: object, namespace: str, scope: str) -> bool:
            return (namespace, scope) in allowed

        async def adecide(request: object, namespace: str, scope: str) -> bool:
            return (namespace, scope) in allowed

        setattr(state, EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY, decide)
        setattr(state, EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY, adecide)
    return SimpleNamespace(app=SimpleNamespace(state=state))


def fake_descriptor(**changes: Any) -> AgentAssemblyDescriptor:
    """A descriptor of a plain lead Agent with ``changes``."""
    fields: dict[str, Any] = {
        "namespace": "test",
        "agent_name": "lead_agent",
        "requested_model": None,
        "effective_model": "test-model",
        "model_parameters": {},
        "thinking_enabled": False,
        "reasoning_effort": None,
        "base_prompt_hash": canonical_hash("You are a test."),
        "tools": (),
        "middlewares": (),
        "deferred_tool_names": (),
        "enabled_skills": (),
        "effective_policies": {},
    }
    return AgentAssemblyDescriptor(**(fields | changes))
