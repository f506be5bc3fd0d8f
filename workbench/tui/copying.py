"""Copying out of the application: through the terminal, by a tool of the system, into a file.

A terminal is asked with OSC 52, and never answers. A tool (``wl-copy``, ``xclip``, ``xsel``, ``pbcopy``, ``clip.exe``,
or tmux, which hands on to the terminal outside) ends with a code, which confirms. So both are used, and a person
is told what was sent where and what was confirmed.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workflows_core.errors import UsageError

from ..inert import inert

#: Characters of base64 that a terminal is sent at most. Terminals stop at a limit of their own, which differs.
SENT_CHARACTERS: Final = 1_000_000
#: From this on it is said that some terminals take less.
DOUBTFUL_CHARACTERS: Final = 74_000
TOOL_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a copy, in a sentence. ``confirmed``: somebody has said that he has it."""

    text: str
    confirmed: bool


def osc52(text: str, environ: Mapping[str, str]) -> str:
    """The sequence that asks a terminal to take ``text`` into its clipboard, wrapped for tmux or screen."""
    sequence = f"\x1b]52;c;{base64.b64encode(text.encode()).decode('ascii')}\x07"
    if environ.get("TMUX"):
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environ.get("STY"):
        return f"\x1bP{sequence}\x1b\\"
    return sequence


def native_tool(
    environ: Mapping[str, str], which: Callable[[str], str | None] = shutil.which
) -> tuple[str, ...] | None:
    """The command that takes a clipboard's content on its standard input, where this machine has one."""
    choices: list[tuple[str, ...]] = []
    if environ.get("WAYLAND_DISPLAY"):
        choices.append(("wl-copy",))
    if environ.get("DISPLAY"):
        choices += [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")]
    if not environ.get("SSH_CONNECTION"):  # else it would be another machine's clipboard
        if sys.platform == "darwin":
            choices.append(("pbcopy",))
        if environ.get("WSL_DISTRO_NAME"):
            choices.append(("clip.exe",))
    if environ.get("TMUX"):
        choices.append(("tmux", "load-buffer", "-w", "-"))
    return next((choice for choice in choices if which(choice[0])), None)


async def give_to_tool(command: tuple[str, ...], text: str) -> Told:
    """Let ``command`` take ``text``. Never raises: what goes wrong is told."""
    name = command[0]
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,  # xclip stays, and keeps what it was given
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        return Told(f"{name} cannot be started: {error.strerror}.", False)
    try:
        async with asyncio.timeout(TOOL_SECONDS):
            await process.communicate(text.encode())
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return Told(f"{name} did not take it within {TOOL_SECONDS:.0f} s.", False)
    if process.returncode:
        return Told(f"{name} did not take it: it ended with {process.returncode}.", False)
    return Told(f"{name} has taken it.", True)


async def copy(text: str, write: Callable[[str], object], environ: Mapping[str, str] = os.environ) -> Told:
    """Send ``text`` to the terminal with ``write`` and give it to a tool where there is one."""
    clean = text.encode("utf-8", "replace").decode()
    length = -(-len(clean.encode()) // 3) * 4
    if length > SENT_CHARACTERS:
        sent = "It is too long to be sent to the terminal."
    else:
        write(osc52(clean, environ))
        sent = "Sent to the terminal, which does not say whether it took it."
        if length > DOUBTFUL_CHARACTERS:
            sent += " Some terminals take less than this."
    tool = native_tool(environ)
    if tool is None:
        return Told(sent, False)
    told = await give_to_tool(tool, clean)
    return told if told.confirmed else Told(f"{told.text} {sent}", False)


def write_copy(path: Path, text: str) -> Told:
    """Write ``text`` into a new file that nobody else may read. Blocks; raises UsageError in words."""
    data = text.encode("utf-8", "surrogatepass")
    shown = inert(str(path))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except FileExistsError:
        raise UsageError(f"{shown} exists already and was left as it is; name another file") from None
    except OSError as error:
        raise UsageError(f"{shown} cannot be written: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{shown!r} is not a path") from None
    return Told(f"{shown} holds all {len(data):,} bytes.", True)
