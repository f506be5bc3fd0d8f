"""The reviewer's job with the real engine, from keys on a controlling terminal to what is stored."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.client import Client
from workbench.workspace import Workspace
from workflows_core.jsontext import encode, sha256
from workflows_core.model import RunState

SECONDS = 40
REPLY = {"ingredients": ["water", "soap"], "product": "soap"}


class Sitting:
    """A child whose controlling terminal is the other end of ``self._master``."""

    def __init__(self, root: Path) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:  # pragma: no cover - the child
            os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
            os.execv(sys.executable, [sys.executable, "-m", "tests.workbench.tui.review_child", str(root)])
        self.seen = b""
        self.ended: int | None = None

    def until(self, *parts: str) -> None:
        """Read until every one of ``parts`` was written since the last call."""
        start, end = len(self.seen), time.monotonic() + SECONDS
        while not all(part.encode() in self.seen[start:] for part in parts):
            assert time.monotonic() < end, re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", self.seen)[-4_000:].decode(
                "utf-8", "replace"
            )
            self._read()

    def quiet(self) -> None:
        """Read until nothing is written for a while."""
        end = time.monotonic() + SECONDS
        while select.select([self._master], [], [], 0.4)[0]:
            assert time.monotonic() < end
            self._read()

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def finish(self) -> int:
        end = time.monotonic() + SECONDS
        while self.ended is None:
            assert time.monotonic() < end, re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", self.seen)[-4_000:].decode(
                "utf-8", "replace"
            )
            self._read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.ended = os.waitstatus_to_exitcode(status)
        return self.ended

    def _read(self) -> None:
        if select.select([self._master], [], [], 0.05)[0]:
            try:
                self.seen += os.read(self._master, 65_536)
            except OSError:
                pass  # The child has closed its end.

    def close(self) -> None:
        if self.ended is None:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self._master)


@pytest.fixture
def sitting(tmp_path: Path) -> Iterator[tuple[Sitting, Path]]:
    root = tmp_path / "soap-claims"
    root.mkdir()
    (root / "one.stubs.yaml").write_text(
        "- step: evidence\n  reply: {ingredients: [water, soap], product: soap}\n- step: report\n  reply: done\n"
    )
    (root / "workbench.yaml").write_text("stubs: [one.stubs.yaml]\n")
    sitting = Sitting(root)
    yield sitting, root
    sitting.close()


async def test_read_approve_resume_and_what_is_stored(sitting: tuple[Sitting, Path]) -> None:
    terminal, root = sitting
    terminal.until("evidence-review", "approve")
    terminal.press("\r")  # The terminal is small, so the output is behind the list.
    terminal.until("in full")
    terminal.press("A")
    terminal.until("Approve this output?", "Not yet")
    terminal.quiet()  # The dialog gives the focus to its safe answer after it is drawn.
    terminal.press("\t")
    terminal.quiet()
    terminal.press("\r")
    terminal.until("Approved", "resume")
    terminal.press("\r")
    terminal.until("[ Resume ]")
    terminal.press("r")
    terminal.until("Nothing waits for you.")
    terminal.press("\x11")
    assert terminal.finish() == 0, terminal.seen[-3_000:]
    workspace = Workspace.find(root, root)
    client = await Client.open(workspace, host="never")
    try:
        (summary,) = await client.runs()
        view = await client.view(summary.run_id)
    finally:
        await client.close()
    assert view.state is RunState.COMPLETED
    assert view.result == "done"
    decision, resume = view.receipts
    exact = encode(REPLY)
    assert (decision.decision, decision.step_id, decision.sha256) == (
        "approve",
        "evidence-review",
        sha256(exact),
    )
    assert decision.review == {
        "coverage": 1.0,
        "shown_bytes": len(exact),
        "bytes": len(exact),
        "renderer": "JSON tree",
        "viewed_outside": None,
    }
    assert decision.actor["user_id"] == f"os:{os.getuid()}"
    assert decision.actor["mode"] == "terminal"
    assert "pts/" in decision.actor["description"]
    assert "not password-verified" in decision.actor["description"]
    assert (resume.decision, resume.step_id) == ("resume", "hold")
