"""The application on a real terminal: what reaches it, and that it is given back as it was."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.workbench.tui.terminal import Terminal
from workbench.settings import settings_path
from workbench.tui.graphics import QUERY
from workbench.tui.guard import GIVE_TITLE_BACK, KEEP_TITLE, KILLED

#: Operating-system and device commands, and everything else that is no CSI sequence.
_COMMANDS = re.compile(rb"\x1b(?:\].*?(?:\x07|\x1b\\)|[P_^X].*?\x1b\\)", re.DOTALL)
_C1 = re.compile(rb"\xc2[\x80-\x9f]")
_UNSEEN = re.compile(rb"\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xf3\xa0[\x80-\xbf].|\xef\xbb\xbf")


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
    signals = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "hang up": signal.SIGHUP}
    if how in signals:
        os.kill(terminal.process.pid, signals[how])
    else:
        terminal.press({"quit": b"\x11", "crash": b"s"}[how])
    terminal.finish()
    assert terminal.seen.count(GIVE_TITLE_BACK.encode()) == 1
    assert terminal.attributes() == terminal.before


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
