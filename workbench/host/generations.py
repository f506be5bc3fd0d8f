"""Generations of loaded extensions: each reload makes one, and a workflow run keeps the one it began with.

Child runs inherit the generation of their workflow run. A generation that was replaced is over once no run is
bound to it and no child run is driven by it any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from .assembly import Assembler
from .notifications import Notifier
from .registry import ExtensionSnapshot

FIRST: Final = 1


@dataclass(frozen=True, eq=False)
class Generation:
    """One snapshot, and those that notify and assemble with it. ``number`` counts from 1."""

    number: int
    snapshot: ExtensionSnapshot
    notifier: Notifier
    assembler: Assembler


class Generations:
    """The current generation, and the older ones that workflow runs are bound to. For the host's loop."""

    def __init__(self, first: Generation) -> None:
        self.current = first
        self._bound: dict[str, Generation] = {}

    def of(self, workflow_run: str) -> Generation:
        """The generation of a workflow run: the one it is bound to, else the current one."""
        return self._bound.get(workflow_run, self.current)

    def replace(self, new: Generation, live: Iterable[str]) -> None:
        """Make ``new`` the current generation. The workflow runs that are ``live`` keep what they have."""
        for run in live:
            self._bound.setdefault(run, self.current)
        self.current = new

    def release(self, live: Collection[str]) -> None:
        """Forget the bindings of runs that are not live any more."""
        for run in [run for run in self._bound if run not in live]:
            del self._bound[run]

    def bound(self, generation: Generation) -> list[str]:
        """The workflow runs that are bound to a generation."""
        return [run for run, bound in self._bound.items() if bound is generation]

    def older(self) -> list[Generation]:
        """The generations that runs are still bound to, besides the current one; the oldest first."""
        return sorted(set(self._bound.values()) - {self.current}, key=lambda each: each.number)
