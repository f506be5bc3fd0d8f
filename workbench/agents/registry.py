"""The backends that this build has."""

from __future__ import annotations

from .base import Backends
from .stub import StubBackend


def available_backends() -> Backends:
    """A fresh registry: backends keep caches, so each host has its own."""
    return Backends({StubBackend.name: StubBackend()})
