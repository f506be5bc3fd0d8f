"""What the extension remembers. One Ledger lives in the app store, so every part finds the same one."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

from deerflow_extension_api import ExtensionData


class Ledger:
    """Hooks run on several loops and threads: every change is made under the lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._longest = 0.0
        self._fingerprints: dict[str, str] = {}

    def count(self, what: str, number: int = 1) -> None:
        with self._lock:
            self._counts[what] += number

    def took(self, seconds: float) -> None:
        with self._lock:
            self._longest = max(self._longest, seconds)

    def built(self, agent: str, fingerprint: str) -> bool:
        """Note how an agent was built; whether that differs from the last time."""
        with self._lock:
            before = self._fingerprints.get(agent)
            self._fingerprints[agent] = fingerprint
            return before is not None and before != fingerprint

    def summary(self) -> dict[str, Any]:
        with self._lock:
            return {
                "counts": dict(sorted(self._counts.items())),
                "longest_seconds": round(self._longest, 3),
                "agents": sorted(self._fingerprints),
            }


@dataclass(frozen=True)
class StartedAt:
    """When a task began. It lives in the task's own store and goes with it."""

    seconds: float


def ledger_of(app_store: ExtensionData) -> Ledger:
    return app_store.get_or_init(Ledger, Ledger)
