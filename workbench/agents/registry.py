"""The backends that this build has."""

from __future__ import annotations

from pathlib import Path

from .base import Backend, Backends
from .command import CommandBackend
from .deerflow import DeerFlowBackend
from .manual import ManualBackend
from .openai import OpenAIBackend
from .stub import StubBackend


def available_backends(root: Path | None = None) -> Backends:
    """A fresh registry: backends keep caches and connections, so each host has its own.

    ``root`` is the workspace, for the backend that runs programs in it.
    """
    backends: list[Backend] = [
        StubBackend(),
        OpenAIBackend(),
        DeerFlowBackend(),
        CommandBackend(root),
        ManualBackend(),
    ]
    return Backends({backend.name: backend for backend in backends})
