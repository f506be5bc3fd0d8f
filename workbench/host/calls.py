"""``WORKBENCH_STUB_CALLS``: a count of what stub agents were really asked, kept outside the engine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from ..agents.base import Call

VARIABLE: Final = "WORKBENCH_STUB_CALLS"


class CallsLog:
    """Appends one JSON line a call; does nothing where the variable is not set."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._descriptor = -1

    @classmethod
    def from_environment(cls) -> CallsLog:
        value = os.environ.get(VARIABLE)
        return cls(Path(value) if value else None)

    def append(self, call: Call) -> None:
        """Write the line before the call is answered. Raises OSError where it is not wholly written."""
        if self._path is None:
            return
        if self._descriptor < 0:
            self._descriptor = os.open(
                self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        line = json.dumps(
            {
                "run_id": call.run_id,
                "step_id": call.step_id,
                "attempt": call.attempt,
                "agent_ref": call.agent_ref,
                "thread_id": call.thread_id,
                "child_run_id": call.child_run_id,
            }
        )
        data = f"{line}\n".encode()
        if os.write(self._descriptor, data) != len(data):
            raise OSError(28, "the line was written in part only")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
