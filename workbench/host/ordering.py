"""Contributed middleware: which entries are valid, and in which order they stand."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, Final

from extension_api.middleware import AgentBuildContext, AgentScope, MiddlewarePlacement, Placement
from extension_api.state import ExtensionData

from .diagnostics import Diagnostics, name_of
from .registry import ExtensionSnapshot

#: What one contributor gives to one agent; more is not taken, so that an endless answer ends.
MAX_ENTRIES: Final = 100


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
            given = contribution.value.contribute_middlewares(app_store, replace(context))
            entries = list(itertools.islice(given, MAX_ENTRIES))
        except BaseException as error:  # noqa: BLE001 - the agent is built whatever contributors do
            diagnostics.add(
                "error", contribution.source, f"contribute_middlewares raised {name_of(error)}", error
            )
            continue
        for index, entry in enumerate(entries):
            try:
                problem = _problem(entry)
            except BaseException as error:  # noqa: BLE001 - an entry may be of a class that the extension made
                problem = f"reading it raised {name_of(error)}"
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
    if type(order) is not int:
        return f"its order is a {type(order).__name__}, not a whole number"
    if entry.middleware is None or isinstance(entry.middleware, type):
        return "its middleware is not an object"
    return None
