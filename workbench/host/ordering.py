"""Contributed middleware: which entries are valid, and in which order they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from extension_api.middleware import AgentBuildContext, AgentScope, MiddlewarePlacement, Placement
from extension_api.state import ExtensionData

from .diagnostics import Diagnostics, name_of
from .registry import ExtensionSnapshot


@dataclass(frozen=True)
class OrderedMiddleware:
    """One middleware in its place; ``source`` is the ``use`` string of its contributor."""

    middleware: Any
    placement: Placement
    source: str
    order: int


def contributed_middleware(
    snapshot: ExtensionSnapshot,
    app_store: ExtensionData,
    context: AgentBuildContext,
    diagnostics: Diagnostics,
) -> tuple[OrderedMiddleware, ...]:
    """Ask every contributor, skip what is invalid one by one, and sort by (order, registration).

    Earlier entries stand further out. What a contributor raises is a diagnostic, and it contributes nothing.
    """
    found: list[OrderedMiddleware] = []
    for contribution in snapshot.middlewares:
        try:
            entries = list(contribution.value.contribute_middlewares(app_store, context))
        except BaseException as error:  # noqa: BLE001 - the agent is built whatever contributors do
            diagnostics.add(
                "error", contribution.source, f"contribute_middlewares raised {name_of(error)}", error
            )
            continue
        for index, entry in enumerate(entries):
            problem = _problem(entry)
            if problem is not None:
                diagnostics.add("error", contribution.source, f"middleware {index} was skipped: {problem}")
            elif entry.scope & context.scope:
                found.append(
                    OrderedMiddleware(entry.middleware, entry.placement, contribution.source, entry.order)
                )
    return tuple(sorted(found, key=lambda entry: entry.order))


def _problem(entry: object) -> str | None:
    if not isinstance(entry, MiddlewarePlacement):
        return f"it is a {type(entry).__name__}, not a MiddlewarePlacement"
    # What is declared in the dataclass is not enforced by it.
    placement: object = entry.placement
    scope: object = entry.scope
    order: object = entry.order
    if not isinstance(placement, Placement):
        return f"its placement is a {type(placement).__name__}, not a Placement"
    if not isinstance(scope, AgentScope) or not scope:
        return "its scope is not an AgentScope"
    if isinstance(order, bool) or not isinstance(order, int):
        return f"its order is a {type(order).__name__}, not a whole number"
    if entry.middleware is None or isinstance(entry.middleware, type):
        return "its middleware is not an object"
    return None
