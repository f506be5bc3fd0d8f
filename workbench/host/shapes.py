"""Whether what an extension registered has the shape that the contract asks for.

A host takes what has another shape, too, and names what goes wrong when it is called. This tells beforehand.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from .describing import METHODS
from .registry import ExtensionSnapshot


@dataclass(frozen=True)
class Problem:
    """What is wrong and the ``rule`` that it breaks. An error stops something from working, a warning may."""

    rule: str
    severity: Literal["error", "warning"]
    message: str


#: For each kind of contribution its methods: name, whether a coroutine function, number of arguments.
_METHODS: Final[dict[str, tuple[tuple[str, bool, int], ...]]] = {
    "middlewares": (("contribute_middlewares", False, 2),),
    "lifecycle": (("on_task_start", True, 3), ("on_task_stop", True, 4)),
    "system_observers": (("on_system_model_call", True, 5),),
    "assembly_observers": (("on_agent_assembled", False, 2),),
    "compaction_observers": (("on_context_compacted", True, 3),),
    "services": (("start", True, 1), ("stop", True, 0)),
}
#: Names of route classes that are not mounted.
_FOREIGN_ROUTES: Final = {
    "Mount": "mounts another application",
    "Host": "mounts another application",
    "WebSocketRoute": "is a websocket",
    "APIWebSocketRoute": "is a websocket",
}


def shape_problems(snapshot: ExtensionSnapshot) -> list[Problem]:
    """Every problem of every contribution, in registration order of each kind."""
    found: list[Problem] = []
    for bucket, methods in _METHODS.items():
        for contribution in getattr(snapshot, bucket):
            for name, asynchronous, arguments in methods:
                problem = _method(contribution.value, name, asynchronous, arguments)
                if problem is not None:
                    rule, words = problem
                    kind = _class_of(contribution.value)
                    found.append(Problem(rule, "error", f"{METHODS[bucket]}({kind}): {words}"))
    for contribution in snapshot.routers:
        found.extend(Problem("routers", "error", words) for words in _router(contribution.value))
    return found


def _method(value: Any, name: str, asynchronous: bool, arguments: int) -> tuple[str, str] | None:
    try:
        method = getattr(value, name)
    except Exception as error:  # noqa: BLE001 - a property of an extension may raise anything
        return "shape.method", f"it has no {name} ({type(error).__name__})"
    if not callable(method):
        return "shape.method", f"{name} is not callable"
    if inspect.iscoroutinefunction(method) is not asynchronous and inspect.isroutine(method):
        wanted = "must be declared async" if asynchronous else "must not be async: nobody awaits it"
        return "shape.async", f"{name} {wanted}"
    try:
        inspect.signature(method).bind(*range(arguments))
    except TypeError:
        return "shape.arguments", f"{name} must take {arguments} arguments besides self"
    except ValueError:
        pass  # built in; it has no signature
    return None


def _router(router: Any) -> Iterator[str]:
    kind = _class_of(router)
    try:
        routes = list(router.routes)
    except Exception:  # noqa: BLE001 - as above
        yield f"routers({kind}): it is no router, it has no list of routes"
        return
    if not routes:
        yield f"routers({kind}): it has no routes"
    for route in routes:
        why = _FOREIGN_ROUTES.get(_class_of(route))
        if why is not None:
            yield f"routers({kind}): the route {str(getattr(route, 'path', ''))[:80]} {why}"
    if getattr(router, "on_startup", None) or getattr(router, "on_shutdown", None):
        yield f"routers({kind}): it has lifespan handlers; use a service"


def _class_of(value: Any) -> str:
    return type(value).__name__[:80]
