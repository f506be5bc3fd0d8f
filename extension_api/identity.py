"""Who calls a contributed route, and whether that caller may manage a plugin.

Principals and ``require_admin``: contract 0.2.0. Plugin management: contract 0.2.4.

Every helper fails closed: what cannot be determined is refused. ``request`` is duck-typed; what is read is
``request.app.state``, where the host installs its resolvers under the keys below.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

EXTENSION_PRINCIPAL_RESOLVER_KEY: Final = "deerflow_extension_principal_resolver"
"""``app.state`` attribute of the host's resolver ``(request) -> ExtensionPrincipal | None``."""

EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY: Final = "deerflow_extension_plugin_authz_resolver"
"""``app.state`` attribute of the host's resolver ``(request, namespace, scope) -> bool | None``."""

EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY: Final = "deerflow_extension_plugin_authz_resolver_async"
"""``app.state`` attribute of the host's resolver ``async (request, namespace, scope) -> bool | None``."""

NAMESPACE_PATTERN: Final = re.compile(r"[a-z][a-z0-9_.-]{0,95}")
"""The whole of a plugin namespace."""

_ADMIN_REQUIRED = "this endpoint requires an administrator account"


@dataclass(frozen=True)
class ExtensionPrincipal:
    """An authenticated caller. ``is_internal`` marks the host's own services."""

    user_id: str
    is_admin: bool = False
    is_internal: bool = False
    roles: tuple[str, ...] = ()


def host_resolver(request: object, key: str) -> Any | None:
    """The callable that the host installed under ``key`` on ``request.app.state``, or None."""
    try:
        resolver = getattr(request.app.state, key, None)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - a request without an application has no resolver
        return None
    return resolver if callable(resolver) else None


def resolve_principal(request: object) -> ExtensionPrincipal | None:
    """The authenticated caller of a contributed route, or None when it cannot be determined."""
    resolver = host_resolver(request, EXTENSION_PRINCIPAL_RESOLVER_KEY)
    if resolver is None:
        return None
    try:
        principal = resolver(request)
    except Exception:  # noqa: BLE001 - a failing resolver determines nobody
        return None
    _discard(principal)
    return principal if isinstance(principal, ExtensionPrincipal) else None


def require_admin(request: object) -> ExtensionPrincipal:
    """The caller, when it is an administrator. Raises PermissionError otherwise."""
    principal = resolve_principal(request)
    if principal is None or principal.is_admin is not True:
        raise PermissionError(_ADMIN_REQUIRED)
    return principal


def require_plugin_management(
    request: object, namespace: str, *, scope: Literal["read", "write"] = "read"
) -> ExtensionPrincipal:
    """The caller, when the host's authorization lets it read or write the policies of an installed plugin.

    For endpoints that run in a thread (``def``). Raises ValueError for a scope or a namespace that is none,
    before anything is asked, and PermissionError for every answer that is not a plain yes.
    """
    principal = _manager(request, namespace, scope)
    resolver = host_resolver(request, EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY)
    if resolver is None:
        raise PermissionError(_unavailable(namespace))
    try:
        allowed = resolver(request, namespace, scope)
    except Exception as error:
        raise PermissionError(_unavailable(namespace)) from error
    _discard(allowed)
    if allowed is not True:
        raise PermissionError(_denied(namespace, scope))
    return principal


async def arequire_plugin_management(
    request: object, namespace: str, *, scope: Literal["read", "write"] = "read"
) -> ExtensionPrincipal:
    """``require_plugin_management`` for ``async def`` endpoints.

    It awaits the host's asynchronous resolver and never asks the synchronous one. Cancellation passes.
    """
    principal = _manager(request, namespace, scope)
    resolver = host_resolver(request, EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY)
    if resolver is None:
        raise PermissionError(_unavailable(namespace))
    try:
        answer = resolver(request, namespace, scope)
        # An answer that is there at once comes from a synchronous resolver in the wrong place.
        allowed = await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else None
    except Exception as error:
        raise PermissionError(_unavailable(namespace)) from error
    if allowed is not True:
        raise PermissionError(_denied(namespace, scope))
    return principal


def _manager(request: object, namespace: object, scope: object) -> ExtensionPrincipal:
    if not isinstance(scope, str) or scope not in ("read", "write"):
        raise ValueError("scope must be 'read' or 'write'")
    if not isinstance(namespace, str) or NAMESPACE_PATTERN.fullmatch(namespace) is None:
        raise ValueError("namespace must match [a-z][a-z0-9_.-]{0,95}")
    principal = resolve_principal(request)
    if principal is None:
        raise PermissionError("plugin management requires an authenticated caller")
    return principal


def _unavailable(namespace: str) -> str:
    return f"plugin management of {namespace} cannot be authorized by this host"


def _denied(namespace: str, scope: str) -> str:
    return f"this caller may not {scope} the policies of {namespace}"


def _discard(answer: object) -> None:
    """Close a coroutine that a synchronous caller got by mistake, so that it is not left un-awaited."""
    if inspect.iscoroutine(answer):
        answer.close()
