"""The application on a real terminal: what reaches it, and that it is given back as it was."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import random
import re
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.workbench.tui.terminal import SECONDS, Terminal
from tests.workbench.tui.test_hostile_stream import KEYS, WALK
from workbench.client import Client
from workbench.settings import settings_path
from workbench.tui import start as starting
from workbench.tui.driver import Output
from workbench.tui.graphics import QUERY
from workbench.tui.guard import GIVE_TITLE_BACK, KEEP_TITLE, KILLED
from workbench.tui.start import _end, _Hosting
from workbench.workspace import Workspace
from workflows_core.errors import StoreInUse

#: Operating-system and device commands, and everything else that is no CSI sequence.
_COMMANDS = re.compile(rb"\x1b(?:\].*?(?:\x07|\x1b\\)|[P_^X].*?\x1b\\)", re.DOTALL)
_C1 = re.compile(rb"\xc2[\x80-\x9f]")
_UNSEEN = re.compile(rb"\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xf3\xa0[\x80-\xbf].|\xef\xbb\xbf")

#: How often the application is ended on a walk in each way; with ``--soak`` and without it.
ENDINGS, FEW = 60, 2
_SIGNALS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "hang up": signal.SIGHUP}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Terminal]]:
    started: list[Terminal] = []

    def make(mode: str) -> Terminal:
        root = tmp_path / "soap-claims"
        root.mkdir()
        started.append(Terminal(mode, root))
        return started[-1]

    yield make
    for terminal in started:
        terminal.close()


def test_i13_what_reaches_a_terminal_is_authored_here(start: Callable[[str], Terminal]) -> None:
    terminal = start("hostile")
    terminal.read_until("Runs", "all keys")
    for keys, part in (
        (b"\r", "esc"),
        (b"2", "Source"),
        (b"4", "Journal"),
        (b"5", "Artifacts"),
        (b"y", "Copy sent"),
        (b"?", "Keys"),
    ):
        terminal.press(keys)
        terminal.read_until(part)
    terminal.press(b"\x11")
    assert terminal.finish() == 0
    commands = {command[:5] for command in _COMMANDS.findall(terminal.seen)}
    assert commands <= {b"\x1b]52;", b"\x1b]22;"}
    assert not _C1.search(terminal.seen)
    assert not _UNSEEN.search(terminal.seen)
    assert not re.search(rb"[\x00\x05\x0b\x0c\x0e\x0f\x1a\x7f]", terminal.seen)
    assert terminal.attributes() == terminal.before
    assert b"closed" in terminal.seen


def test_after_a_crash_the_terminal_is_as_it_was_and_the_client_closed(
    start: Callable[[str], Terminal],
) -> None:
    terminal = start("crash")
    terminal.read_until("Runs", "all keys")
    terminal.press(b"s")
    assert terminal.finish() == 1
    end = terminal.seen[terminal.seen.rindex(b"\x1b[?1049l") :]
    assert b"The workbench stopped because of a mistake in itself. Runs are kept." in end
    assert "RuntimeError: planted ␛]0;PWN␇".encode() in end
    assert b"\x1b]0;PWN" not in terminal.seen
    assert b"\x1b[?25h" in end and b"closed" in end
    assert terminal.attributes() == terminal.before


def test_a_termination_signal_ends_in_order(start: Callable[[str], Terminal]) -> None:
    terminal = start("plain")
    terminal.read_until("Runs", "all keys")
    os.kill(terminal.process.pid, signal.SIGTERM)
    assert terminal.finish() == 128 + signal.SIGTERM
    assert b"closed" in terminal.seen
    assert terminal.attributes() == terminal.before


@pytest.mark.parametrize("how", ["quit", "crash", "interrupt", "terminate", "hang up"])
def test_the_title_is_kept_at_the_start_and_given_back_at_every_end(
    start: Callable[[str], Terminal], how: str
) -> None:
    terminal = start("crash" if how == "crash" else "plain")
    terminal.read_until("Runs", "all keys")
    assert terminal.seen.count(KEEP_TITLE.encode()) == 1
    assert terminal.seen.index(KEEP_TITLE.encode()) < terminal.seen.index(b"\x1b[?1049h")
    if how in _SIGNALS:
        os.kill(terminal.process.pid, _SIGNALS[how])
    else:
        terminal.press({"quit": b"\x11", "crash": b"s"}[how])
    terminal.finish()
    assert terminal.seen.count(GIVE_TITLE_BACK.encode()) == 1
    assert terminal.attributes() == terminal.before


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=pytest.mark.soak if n >= FEW else ()) for n in range(ENDINGS)]
)
@pytest.mark.parametrize("how", ["quit", "terminate", "hang up"])
def test_it_ends_in_order_at_any_moment_of_a_walk_through_every_screen(
    tmp_path: Path, how: str, seed: int
) -> None:
    draw = random.Random(f"{how} {seed}")
    keys = [key for walk in draw.sample(list(WALK.values()), len(WALK)) for key in walk.split()]
    terminal = Terminal("0:40", tmp_path, module="tests.workbench.tui.everywhere")
    try:
        terminal.read_until("Author", "Host")
        for key in keys[: draw.randrange(len(keys))]:
            terminal.press(KEYS.get(key, key.encode()))
            terminal.read(draw.choice((0.0, 0.02, 0.2)))
        terminal.read(draw.choice((0.0, 0.01, 0.1)))
        if how == "quit":
            leave(terminal)
        else:
            os.kill(terminal.process.pid, _SIGNALS[how])
        code = terminal.finish()
        assert b"The workbench stopped" not in terminal.seen
        assert code == (0 if how == "quit" else 128 + _SIGNALS[how])
        assert terminal.seen.rindex(b"\x1b[?1049l") > terminal.seen.rindex(b"\x1b[?1049h")
        assert terminal.seen.count(GIVE_TITLE_BACK.encode()) == 1
        assert KILLED.encode() not in terminal.seen
        assert terminal.attributes() == terminal.before
    finally:
        terminal.close()


def leave(terminal: Terminal) -> None:
    """Ask to leave, and confirm it of unsaved work and of live runs; again where a key came too soon to be one."""
    end = time.monotonic() + SECONDS
    while terminal.process.poll() is None:
        assert time.monotonic() < end, terminal.seen[-2_000:]
        terminal.press(b"\x1b")  # out of what lies above the question, as help does
        terminal.quiet()
        terminal.press(b"\x11")
        if terminal.reads(partial(_asks, terminal, len(terminal.seen)), 2):
            for key in (b"\t", b"\r"):
                terminal.quiet()
                terminal.press(key)
            terminal.reads(partial(_asks, terminal, len(terminal.seen)), 2)


def _asks(terminal: Terminal, start: int) -> bool:
    """Whether a question about leaving was drawn since ``start``, or the application has ended."""
    return (
        terminal.process.poll() is not None
        or re.search(rb"Leave (with|the)", terminal.seen[start:]) is not None
    )


def test_it_ends_when_its_terminal_goes_away(tmp_path: Path) -> None:
    terminal = Terminal("0:40", tmp_path, module="tests.workbench.tui.everywhere")
    try:
        terminal.read_until("Author", "Host")
        terminal.hang_up()
        assert terminal.process.wait(SECONDS) == 128 + signal.SIGHUP
    finally:
        terminal.close()


def test_what_cannot_be_written_is_dropped() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

        def flush(self) -> None:
            raise OSError(5, "Input/output error")

    output = Output(Gone())
    output.write("a frame")
    output.flush()
    assert not output.isatty()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_after_a_death_without_warning_the_terminal_is_as_it_was(
    start: Callable[[str], Terminal], number: signal.Signals
) -> None:
    terminal = start("plain")
    terminal.read_until("Runs", "all keys")
    assert terminal.attributes() != terminal.before
    os.kill(terminal.process.pid, number)
    terminal.read_until(KILLED)
    assert terminal.process.wait() == -number
    end = terminal.seen[terminal.seen.rindex(b"\x1b[?1000l") :]
    assert all(sequence in end for sequence in (b"\x1b[?1049l", b"\x1b[?25h", GIVE_TITLE_BACK.encode()))
    assert terminal.attributes() == terminal.before


def test_nothing_is_left_running_after_an_end_in_order(start: Callable[[str], Terminal]) -> None:
    terminal = start("plain")
    terminal.read_until("Runs", "all keys")
    terminal.press(b"\x11")
    assert terminal.finish() == 0
    assert KILLED.encode() not in terminal.seen


def test_a_workspace_that_cannot_be_opened_never_touches_the_screen(start: Callable[[str], Terminal]) -> None:
    terminal = start("in use")
    assert terminal.finish() == 6
    assert b"refused: process 4711 owns this workspace" in terminal.seen
    assert b"\x1b[?1049h" not in terminal.seen


def test_a_workspace_that_cannot_be_hosted_ends_the_application_with_the_reason(
    start: Callable[[str], Terminal],
) -> None:
    terminal = start("not hosted")
    assert terminal.finish() == 6
    assert b"refused: the plugin cannot be loaded closed" in terminal.seen
    assert terminal.attributes() == terminal.before


class Ending:
    """Stands for the application where only its end is of interest."""

    def __init__(self) -> None:
        self.codes: list[int] = []

    @property
    def ending(self) -> bool:
        return bool(self.codes)

    def exit(self, code: int) -> None:
        self.codes.append(code)


@pytest.mark.parametrize("left_before", [True, False])
async def test_a_workspace_that_cannot_be_hosted_does_not_change_an_end_that_was_decided(
    left_before: bool,
) -> None:
    answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    app: Any = Ending()
    client: Any = SimpleNamespace(start_hosting=lambda: asyncio.wait_for(answer, None))
    hosting = _Hosting(client)
    hosting.app = app
    hosting.start()
    if left_before:
        _end(app, 143)
        _end(app, 129)
    answer.set_exception(StoreInUse("process 4711 owns this workspace"))
    if left_before:
        await hosting.end()
        assert app.codes == [143]
        return
    while not app.codes:
        await asyncio.sleep(0)
    with pytest.raises(StoreInUse):
        await hosting.end()
    assert app.codes == [1]


@pytest.mark.parametrize("mouse", [True, False])
def test_the_mouse_stays_the_terminals_own_if_a_person_wants_it(
    start: Callable[[str], Terminal], mouse: bool
) -> None:
    path = settings_path()
    path.parent.mkdir(parents=True)
    path.write_text(f"mouse: {str(mouse).lower()}\n")
    terminal = start("plain")
    terminal.read_until("Runs", "all keys")
    assert (b"\x1b[?1000h" in terminal.seen) is mouse
    terminal.press(b"\x11")
    assert terminal.finish() == 0


def test_what_tmux_takes_for_a_title_does_not_stay_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "/tmp/tmux,1,0")
    terminal = Terminal("plain", tmp_path, pixels=(1_000, 600))
    try:
        terminal.read_until("Runs", "all keys")
        asked = terminal.seen.index(QUERY.encode())
        assert terminal.seen.index(KEEP_TITLE.encode()) < asked
        given_back = terminal.seen.index(GIVE_TITLE_BACK.encode())
        assert asked < given_back < terminal.seen.index(b"\x1b[?1049h")
        terminal.press(b"\x11")
        assert terminal.finish() == 0
        assert terminal.seen.count(KEEP_TITLE.encode()) == terminal.seen.count(GIVE_TITLE_BACK.encode()) == 2
    finally:
        terminal.close()


def test_a_terminal_is_given_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    with os.fdopen(master, "wb", buffering=0), os.fdopen(slave) as terminal:
        monkeypatch.setattr(sys, "__stdin__", terminal)
        saved = starting._attributes()
        assert saved is not None
        other = termios.tcgetattr(slave)
        other[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(slave, termios.TCSANOW, other)
        starting._give_back(saved)
        assert termios.tcgetattr(slave) == saved


@pytest.mark.parametrize("gone", ["window closed", "descriptor closed", "stream closed", "no stream"])
def test_a_terminal_that_is_gone_is_not_given_back(
    monkeypatch: pytest.MonkeyPatch, workspace: Workspace, gone: str
) -> None:
    """The application ends as it would have: what it returns is what its end was."""
    master, slave = pty.openpty()
    terminal = os.fdopen(slave, closefd=False)
    monkeypatch.setattr(sys, "__stdin__", terminal)

    async def ends(*_: object) -> int:
        os.close(master)
        if gone != "window closed":
            os.close(slave)
        if gone == "stream closed":
            terminal.close()
        if gone == "no stream":
            monkeypatch.setattr(sys, "__stdin__", None)
        return 7

    monkeypatch.setattr(starting, "_run", ends)
    try:
        assert starting.run(workspace, _no_client, "runs") == 7
    finally:
        terminal.close()
        if gone == "window closed":
            os.close(slave)


async def _no_client() -> Client:
    raise AssertionError("it is not opened here")
