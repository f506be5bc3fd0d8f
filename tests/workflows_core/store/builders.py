"""Records and frames for tests of the stores."""

from __future__ import annotations

from typing import Any

from workflows_core.journal.frames import Frame, FrameKind, JournalWriter, start_body
from workflows_core.jsontext import sha256
from workflows_core.limits import Limits
from workflows_core.model import RunRecord, RunState, new_id

SCRIPT = "return 1;\n"


def record(**changes: Any) -> RunRecord:
    values: dict[str, Any] = {
        "run_id": new_id("wr"),
        "owner": "os:1",
        "request_id": new_id("rq"),
        "name": "test",
        "state": RunState.QUEUED,
        "revision": 1,
        "created_at": 1_000,
        "since": 1_000,
        "last_progress": 1_000,
        "script_hash": sha256(SCRIPT.encode()),
        "args_hash": sha256(b"{}"),
        "identity_hash": "i",
        "configuration_revision": "c",
        "runtime_signature": "r",
        "agents": ("lead_agent",),
        "options": {"agents": "stub", "label": "test"},
        "limits": Limits(),
    }
    return RunRecord(**(values | changes))


def start(writer: JournalWriter, at: int = 1_000) -> Frame:
    body = start_body(
        script_hash=sha256(SCRIPT.encode()),
        args={},
        limits={},
        agents=["lead_agent"],
        options_hash="o",
        runtime_signature="r",
    )
    return writer.frame(FrameKind.START, body, at)
