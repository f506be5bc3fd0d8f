"""The service: it lives as long as the host, and does what hooks must not do, which is to write a file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from deerflow_extension_api import ExtensionRuntimeDeps, ExtensionService

from .ledger import Ledger, ledger_of

_running: list[Ledger] = []


def current() -> Ledger:
    """The ledger of the running host. Raises LookupError before the service was started."""
    if not _running:
        raise LookupError("the ledger is not open")
    return _running[-1]


class LedgerWriter(ExtensionService):
    def __init__(self, file: str) -> None:
        self._file = file
        self._path: Path | None = None
        self._ledger: Ledger | None = None

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        if deps.app_store is None:
            raise RuntimeError("this host has no app store")
        self._ledger = ledger_of(deps.app_store)
        _running.append(self._ledger)
        if deps.workspace_root is not None:
            self._path = Path(deps.workspace_root) / self._file

    async def stop(self) -> None:
        if self._ledger is None:
            return
        _running.remove(self._ledger)
        if self._path is not None:
            text = json.dumps(self._ledger.summary(), indent=2) + "\n"
            await asyncio.to_thread(self._path.write_text, text, "utf-8")
