"""Public submodule: where contributed middleware goes."""

from __future__ import annotations

from .middleware import AgentScope, MiddlewarePlacement, Placement

__all__ = ["AgentScope", "MiddlewarePlacement", "Placement"]
