"""The reviewer's job with the real engine, from keys on a controlling terminal to what is stored."""

from __future__ import annotations

import base64
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workbench.preview.files import pdf, png
from tests.workbench.tui.stream import foreign
from tests.workbench.tui.test_graphics import KITTY, Kitty
from workbench.client import Client
from workbench.tui.graphics import QUERY
from workbench.workspace import Workspace
from workflows_core.jsontext import encode, sha256
from workflows_core.model import RunState

SECONDS = 40
REPLY = {"ingredients": ["water", "soap"], "product": "soap"}


class Sitting:
    """A child whose controlling terminal is the other end of ``self._master``.

    With ``kitty`` the terminal draws pictures, and says so when it is asked.
    """

    def __init__(self, root: Path, *more: str, kitty: bool = False) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:  # pragma: no cover - the child
            os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
            os.environ["COLORTERM"] = "truecolor"
            if kitty:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 1200, 800))
            child = [sys.executable, "-m", "tests.workbench.tui.review_child", str(root), *more]
            os.execv(sys.executable, child)
        self._answers = kitty
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

    def in_turn(self, *keys: str) -> None:
        """Press keys, each when the one before has had its effect."""
        for number, key in enumerate(keys):
            if number:
                self.quiet()
            self.press(key)

    def press_until(self, keys: str, *parts: str, since: int | None = None) -> None:
        """Press ``keys`` again and again until every one of ``parts`` was written, from ``since`` on."""
        start, end = len(self.seen) if since is None else since, time.monotonic() + SECONDS
        while not all(part.encode() in self.seen[start:] for part in parts):
            assert time.monotonic() < end, self.seen[-2_000:]
            self.press(keys)
            self.quiet()

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
                if self._answers and QUERY.encode() in self.seen:
                    self._answers = False
                    os.write(self._master, KITTY.replace(b"40;20t", b"20;10t"))
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
    terminal.in_turn("\t", "\r")
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


TEXT = b"# What is documented\n\n\x1b]52;q;ZXZpbA==\x07 says the supplier: \xe2\x80\xaeelpmis\n"
#: Larger than is drawn at its own size, so it is looked at outside.
IMAGE = png(4_300, 4_300)
DOCUMENT = pdf(pages=2, script=True, note=True, box="0 0 360 216")


async def test_the_whole_job_of_a_reviewer(tmp_path: Path) -> None:
    """Read a text and approve it, view an image outside and approve it, read a document and reject it."""
    root = tmp_path / "soap-claims"
    root.mkdir()
    files = {"report.md": TEXT, "label.png": IMAGE, "label.pdf": DOCUMENT}
    (root / "job.stubs.yaml").write_text(
        "- step: made\n  reply: done\n  files:\n"
        + "".join(f"    {name}: base64:{base64.b64encode(data).decode()}\n" for name, data in files.items())
        + "- reply: sent\n"
    )
    (root / "workbench.yaml").write_text("stubs: [job.stubs.yaml]\n")
    terminal = Sitting(root, "job", kitty=True)
    try:
        terminal.until("text-review", "approve")
        terminal.press("\r")
        terminal.until("in full")
        decide(terminal, "A", "Approve this output?")
        since = len(terminal.seen)  # The picture may be drawn before a key is pressed.
        terminal.until("image-review")
        terminal.quiet()
        terminal.press_until("\r", "too large to be drawn at", since=since)
        terminal.quiet()
        terminal.press("E")
        terminal.until("Export the exact bytes")
        terminal.quiet()
        terminal.in_turn("\t", "\t", "\r")
        terminal.until("Exported")
        terminal.quiet()
        terminal.press("V")
        terminal.until("viewed outside")
        decide(terminal, "A", "exported to a file")
        since = len(terminal.seen)
        terminal.until("document-review")
        terminal.quiet()
        terminal.press_until("\r", "script a: app.alert(1)", "page 1 of 2, kitty graphics, ", since=since)
        terminal.press_until("u", "in full")
        terminal.press("X")
        terminal.until("Reject this output?")
        terminal.quiet()
        terminal.press("the label has a script")
        terminal.quiet()
        terminal.in_turn("\t", "\t", "\r")
        terminal.until("Nothing waits for you.")
        terminal.press("s")
        terminal.until("rejected", "approved")
        terminal.press("\x11")
        assert terminal.finish() == 0, terminal.seen[-3_000:]
    finally:
        terminal.close()
    # The terminal was sent pictures, and nothing but what the program writes. A new arrival rings.
    assert foreign(terminal.seen, bell=True) == []
    pictures = Kitty()
    pictures.feed(terminal.seen.decode())
    assert pictures.sent >= 2
    assert (root / "label.png").read_bytes() == IMAGE
    client = await Client.open(Workspace.find(root, root), host="never")
    try:
        (summary,) = await client.runs()
        view = await client.view(summary.run_id)
        kept = {name: (await client.artifact(summary.run_id, f"{name}-review")).body for name in NAMES}
    finally:
        await client.close()
    assert view.state is RunState.FAILED
    assert view.cause is not None and "the label has a script" in view.cause.message
    assert kept == dict(zip(NAMES, files.values(), strict=True))
    found = {receipt.step_id: receipt for receipt in view.receipts}
    assert [(step, one.decision, one.reason) for step, one in found.items()] == [
        ("text-review", "approve", None),
        ("image-review", "approve", None),
        ("document-review", "reject", "the label has a script"),
    ]
    for name, data in kept.items():
        receipt = found[f"{name}-review"]
        assert (receipt.sha256, receipt.attempt, receipt.run_id) == (sha256(data), 1, summary.run_id)
        assert receipt.actor["mode"] == "terminal" and "not password-verified" in receipt.actor["description"]
    assert found["text-review"].review == {
        "coverage": 1.0,
        "shown_bytes": len(TEXT),
        "bytes": len(TEXT),
        "renderer": "Markdown source",
        "viewed_outside": None,
    }
    assert found["image-review"].review == {
        "coverage": 0.0,
        "shown_bytes": 0,
        "bytes": len(IMAGE),
        "renderer": "none",
        "viewed_outside": "exported to a file",
    }
    document = dict(found["document-review"].review)
    assert re.fullmatch(r"kitty graphics, 1\d\d dpi", document.pop("renderer"))
    assert document == {
        "coverage": 1.0,
        "shown_bytes": 0,
        "bytes": len(DOCUMENT),
        "shown_pages": 2,
        "pages": 2,
        "viewed_outside": None,
    }


NAMES = ("text", "image", "document")


def decide(terminal: Sitting, key: str, *parts: str) -> None:
    """Open the dialog of a decision, see ``parts`` in it, and go from its safe answer to the other."""
    terminal.press(key)
    terminal.until(*parts, "Not yet")
    terminal.quiet()
    terminal.in_turn("\t", "\r")
