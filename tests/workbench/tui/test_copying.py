"""Copying: what the terminal is sent, which tool takes it, what is said to be confirmed, and the menu of it."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workbench.tui.author_support import notices
from tests.workbench.tui.fakes import FakeClient, completed_run, screen_text, settle, until
from workbench.inert import acts
from workbench.tui import copying
from workbench.tui.app import WorkbenchApp
from workbench.tui.copying import Told, native_tool, osc52
from workbench.tui.palette import Palette
from workbench.tui.screens.author_dialogs import NameDialog
from workflows_core.errors import UsageError

MakeApp = Callable[..., WorkbenchApp]


def tool(folder: Path, name: str, body: str) -> None:
    """A program called ``name`` that comes first in the path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_a_terminal_is_asked_with_osc_52() -> None:
    assert osc52("säge", {}) == f"\x1b]52;c;{base64.b64encode('säge'.encode()).decode()}\x07"


def test_tmux_and_screen_hand_it_on() -> None:
    assert osc52("a", {"TMUX": "/tmp/t"}) == "\x1bPtmux;\x1b\x1b]52;c;YQ==\x07\x1b\\"
    assert osc52("a", {"STY": "1.pts"}) == "\x1bP\x1b]52;c;YQ==\x07\x1b\\"


@pytest.mark.parametrize(
    ("environ", "found", "command"),
    [
        ({}, {"xclip", "wl-copy", "xsel", "tmux"}, None),
        ({"WAYLAND_DISPLAY": "w"}, {"wl-copy"}, "wl-copy"),
        ({"DISPLAY": ":0"}, {"xclip", "xsel"}, "xclip"),
        ({"DISPLAY": ":0"}, {"xsel"}, "xsel"),
        ({"DISPLAY": ":0"}, set(), None),
        ({"TMUX": "t"}, {"tmux"}, "tmux"),
        ({"WSL_DISTRO_NAME": "d"}, {"clip.exe"}, "clip.exe"),
        ({"WSL_DISTRO_NAME": "d", "SSH_CONNECTION": "s"}, {"clip.exe"}, None),
    ],
)
def test_the_tool_of_the_system_is_found(
    environ: dict[str, str], found: set[str], command: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    chosen = native_tool(environ, lambda name: name if name in found else None)
    assert (chosen[0] if chosen else None) == command


async def test_a_tool_that_ends_well_confirms(path: Path, tmp_path: Path) -> None:
    tool(path, "wl-copy", f"cat > {tmp_path}/taken")
    sent: list[str] = []
    told = await copying.copy("the text", sent.append, {"WAYLAND_DISPLAY": "w"})
    assert told == Told("wl-copy has taken it.", True)
    assert (tmp_path / "taken").read_text() == "the text"
    assert sent == [osc52("the text", {})]


async def test_a_tool_that_fails_is_named_and_the_terminal_confirms_nothing(path: Path) -> None:
    tool(path, "xclip", "cat > /dev/null; exit 3")
    told = await copying.copy("a", lambda _: None, {"DISPLAY": ":0"})
    assert not told.confirmed
    assert told.text == (
        "xclip did not take it: it ended with 3. Sent to the terminal, which does not say whether it took it."
    )


async def test_a_tool_that_hangs_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "TOOL_SECONDS", 0.05)
    tool(path, "xclip", "exec sleep 60")
    told = await copying.copy("a", lambda _: None, {"DISPLAY": ":0"})
    assert not told.confirmed and "xclip did not take it within" in told.text


async def test_a_tool_that_leaves_a_process_behind_is_not_waited_for(path: Path) -> None:
    tool(path, "xclip", "cat > /dev/null; sleep 60 &")
    assert (await copying.copy("a", lambda _: None, {"DISPLAY": ":0"})).confirmed


async def test_what_is_too_long_for_a_terminal_is_not_sent_in_part() -> None:
    sent: list[str] = []
    told = await copying.copy("x" * 900_000, sent.append, {})
    assert (sent, told) == ([], Told("It is too long to be sent to the terminal.", False))
    told = await copying.copy("x" * 100_000, sent.append, {})
    assert "Some terminals take less" in told.text and len(sent) == 1


def test_a_file_is_new_private_and_whole(tmp_path: Path) -> None:
    target = tmp_path / "copy.txt"
    assert copying.write_copy(target, "säge\n").text == f"{target} holds all 6 bytes."
    assert target.read_text() == "säge\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="exists already and was left as it is"):
        copying.write_copy(target, "other")
    assert target.read_text() == "säge\n"
    for wrong in ("no/folder/x", "a\0b"):
        with pytest.raises(UsageError):
            copying.write_copy(tmp_path / wrong, "x")


async def test_a_copy_says_what_was_sent_and_what_was_confirmed(
    make_app: MakeApp, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(FakeClient(completed_run()))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("y")
        await until(pilot, lambda: len(app.notices) == 1)
        assert app.notices[-1].title == "Copy sent"
        assert app.notices[-1].message.endswith(
            "Sent to the terminal, which does not say whether it took it."
        )
        tool(path, "wl-copy", "cat > /dev/null")
        monkeypatch.setenv("WAYLAND_DISPLAY", "w")
        await pilot.press("y")
        await until(pilot, lambda: len(app.notices) == 2)
        assert app.notices[-1].title == "Copied"
        assert app.notices[-1].message.endswith("wl-copy has taken it.")


async def test_the_menu_copies_value_line_and_all_also_to_a_file(make_app: MakeApp) -> None:
    runs = [completed_run(f"wr_{n:016x}", name=f"run-{n}") for n in range(3)]
    app = make_app(FakeClient(*runs))

    async def choose(typed: str) -> None:
        await pilot.press("Y")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        await pilot.press(*typed, "enter")
        await until(pilot, lambda: not isinstance(app.screen, Palette))

    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("Y")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        shown = screen_text(app)
        assert all(part in shown for part in ("all 3 lines", "to the clipboard", "to a new file"))
        await pilot.press("escape")
        await choose("run")
        await until(pilot, lambda: app.clipboard == "wr_0000000000000000")
        await choose("the line")
        await until(pilot, lambda: "run-0" in app.clipboard and "completed" in app.clipboard)
        assert "\n" not in app.clipboard
        await choose("all 3 lines")
        await until(pilot, lambda: app.clipboard.count("\n") == 2)
        whole = app.clipboard
        await pilot.press("Y")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        await pilot.press(*"all file", "enter")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        await pilot.press("ctrl+u", *"lines.txt", "enter")
        target = app.context.workspace.root / "lines.txt"
        await until(pilot, lambda: "lines.txt holds all" in notices(app))
        assert target.read_text() == whole


async def test_i13_the_menu_and_its_lines_are_inert_and_the_value_is_what_it_was(make_app: MakeApp) -> None:
    evil = "\x1b]0;PWN\x07\u202e[red]"
    app = make_app(FakeClient(completed_run(name=evil)))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("Y")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        await pilot.press(*"line", "enter")
        await until(pilot, lambda: "PWN" in app.clipboard)
        assert not acts(app.clipboard)
        await pilot.press("Y")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        assert not acts("".join(screen_text(app).split("\n")))
