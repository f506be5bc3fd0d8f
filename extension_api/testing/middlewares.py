"""Middleware as a host collects it: one by one, in order, with a diagnostic for what is invalid."""

from __future__ import annotations

from ..middleware import AgentBuildContext, AgentScope, MiddlewarePlacement, Placement
from ..state import ExtensionData
from .notify import Notifier
from .registry import FakeRegistry, Registered

_HOOK = "contribute_middlewares"


def collect_middlewares(
    registry: FakeRegistry, app_store: ExtensionData, ctx: AgentBuildContext, notifier: Notifier
) -> list[Registered[MiddlewarePlacement]]:
    """Every valid placement for the scope of ``ctx``, sorted by order and registration."""
    found: list[Registered[MiddlewarePlacement]] = []
    for contributor in registry.middleware_contributors:
        try:
            placements = list(contributor.value.contribute_middlewares(app_store, ctx))
        except Exception as error:  # noqa: BLE001 - the agent is built without this contributor
            notifier.fail(contributor.use, _HOOK, error)
            continue
        for placement in placements:
            problem = _problem(placement)
            if problem is not None:
                notifier.fail(contributor.use, _HOOK, TypeError(problem))
            elif placement.scope & ctx.scope:
                found.append(Registered(contributor.use, placement))
    return sorted(found, key=lambda registered: registered.value.order)


def _problem(placement: object) -> str | None:
    if not isinstance(placement, MiddlewarePlacement):
        return f"a MiddlewarePlacement is expected, not {type(placement).__name__}"
    for name, kind in (("placement", Placement), ("scope", AgentScope), ("order", int)):
        # A bool is not an order, although it is an int.
        value: object = getattr(placement, name)
        if not isinstance(value, kind) or isinstance(value, bool):
            return f"{name} must be of type {kind.__name__}, not {type(value).__name__}"
    return None
