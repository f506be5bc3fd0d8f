"""The typed store that a host attaches to one scope (contract 0.1.0)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

EXTENSION_TASK_STORE_KEY: Final = "__deerflow_extension_task_store"
"""Key of the task store in a runtime's context. The host writes it, task_store_from_runtime reads it."""


class ExtensionData:
    """Values of one scope (the app, or one task), at most one per Python type.

    The key is the exact type, so that two extensions never meet unless they share a class. Every method may
    be called from any thread. A host creates the stores; an extension constructs one in its tests only.
    """

    __slots__ = ("_lock", "_scope_id", "_values")

    def __init__(self, scope_id: str) -> None:
        self._scope_id = scope_id
        self._lock = threading.RLock()
        self._values: dict[type[Any], Any] = {}

    @property
    def scope_id(self) -> str:
        """What the host calls this scope."""
        return self._scope_id

    def get(self, typ: type[T]) -> T | None:
        """The value of exactly this type, or None."""
        with self._lock:
            return cast("T | None", self._values.get(typ))

    def get_or_init(self, typ: type[T], init: Callable[[], T]) -> T:
        """The value of this type; where there is none, ``init()`` makes it.

        ``init`` runs under the store's lock: once, whatever the number of callers. It may use the store
        itself, from the same thread. When it raises, nothing is stored and the exception passes on.
        """
        with self._lock:
            if typ not in self._values:
                value = init()
                # A nested call for the same type may have stored one meanwhile; the first one stays.
                self._values.setdefault(typ, value)
            return cast("T", self._values[typ])

    def set(self, value: object) -> None:
        """Store ``value`` under ``type(value)`` in place of any earlier value of that type."""
        with self._lock:
            self._values[type(value)] = value

    def remove(self, typ: type[T]) -> T | None:
        """Take the value of this type out of the store and return it, or None."""
        with self._lock:
            return cast("T | None", self._values.pop(typ, None))

    def __repr__(self) -> str:
        with self._lock:
            return f"ExtensionData(scope_id={self._scope_id!r}, types={len(self._values)})"


def stored_types(store: ExtensionData) -> tuple[type[Any], ...]:
    """The types that have a value. For hosts, which drop what a reloaded extension has left."""
    with store._lock:
        return tuple(store._values)


def task_store_from_runtime(runtime: object) -> ExtensionData | None:
    """The store of the live task behind a LangGraph runtime, or None when there is none.

    ``runtime`` is duck-typed: what is read is the mapping ``runtime.context``.
    """
    context = getattr(runtime, "context", None)
    if not isinstance(context, Mapping):
        return None
    store = context.get(EXTENSION_TASK_STORE_KEY)
    return store if isinstance(store, ExtensionData) else None
