"""Parameters that a middleware declares because they change its behaviour (contract 0.2.0)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

_MAX_WRAPPERS = 32


@runtime_checkable
class ReleasePolicyProvider(Protocol):
    """Implemented by a middleware. The values must be JSON; hash long text instead of embedding it."""

    def release_policy_parameters(self) -> dict[str, object]:
        """What changes this middleware's behaviour."""
        return {}


def unwrap_middleware(middleware: object) -> object:
    """The middleware inside a host's isolation wrappers, which hold what they wrap as ``__wrapped__``."""
    current = middleware
    for _ in range(_MAX_WRAPPERS):
        try:
            inner = current.__wrapped__  # type: ignore[attr-defined]
        except Exception:  # noqa: BLE001 - whatever has no readable inner middleware is one itself
            return current
        if inner is None or inner is current:
            return current
        current = inner
    return current


def collect_release_policies(middlewares: Sequence[object]) -> dict[str, dict[str, object]]:
    """All declarations of a stack, by class name: ``Name``, then ``Name#2`` and so on for repeats.

    Middleware without a declaration is left out. One whose declaration raises is recorded as
    ``{"error": "<ExceptionType>"}``, one that returns no mapping as ``{"error": "NonMappingDeclaration"}``.
    """
    policies: dict[str, dict[str, object]] = {}
    seen: dict[str, int] = {}
    for wrapped in middlewares:
        middleware = unwrap_middleware(wrapped)
        declaration = _declaration(middleware)
        if declaration is None:
            continue
        name = type(middleware).__name__
        seen[name] = count = seen.get(name, 0) + 1
        policies[name if count == 1 else f"{name}#{count}"] = declaration
    return policies


def _declaration(middleware: object) -> dict[str, object] | None:
    try:
        if not isinstance(middleware, ReleasePolicyProvider):
            return None
        declared: object = middleware.release_policy_parameters()
        if not isinstance(declared, Mapping):
            return {"error": "NonMappingDeclaration"}
        return dict(declared)
    except Exception as error:  # noqa: BLE001 - the declaration records it
        return {"error": type(error).__name__}
