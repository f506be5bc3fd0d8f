"""The install function of an extension and its version marker (contract 0.1.0)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .registry import ExtensionRegistry
from .version import MARKER_ATTRIBUTE, NAME_ATTRIBUTE

ExtensionInstall = Callable[[ExtensionRegistry, Mapping[str, Any]], None]
"""What ``use`` names: called once with the registry and a shallow copy of the record's ``config``."""

F = TypeVar("F", bound=Callable[..., Any])


def extension(*, api: str, name: str | None = None) -> Callable[[F], F]:
    """Mark an install function with the contract version it was written against, and optionally a name.

    The function itself comes back, with ``__deerflow_api__`` and ``__deerflow_name__``. The version is judged
    by the host that loads it, not here.
    """

    def mark(install: F) -> F:
        setattr(install, MARKER_ATTRIBUTE, api)
        setattr(install, NAME_ATTRIBUTE, name)
        return install

    return mark
