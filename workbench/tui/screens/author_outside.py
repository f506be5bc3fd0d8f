"""Opening a script in a person's own editor, terminal or graphical."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from textual.app import App, SuspendNotSupported

from workflows_core.errors import UsageError


def outside_command() -> list[str]:
    """The command in $VISUAL or $EDITOR. Raises UsageError where there is none."""
    text = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"$EDITOR cannot be read as a command: {error}") from None
    if not command:
        raise UsageError("neither $VISUAL nor $EDITOR names an editor; set one and start the workbench again")
    return command


def edit_outside(app: App[object], path: Path) -> None:
    """Hand the terminal to the editor until it returns. Raises UsageError where that cannot be.

    A graphical editor returns at once; the file is watched in any case, so what it saves later is noticed.
    """
    command = outside_command()
    try:
        with app.suspend():
            code = subprocess.run([*command, str(path)], check=False).returncode
    except SuspendNotSupported:
        raise UsageError("this terminal cannot be handed to another program") from None
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started: {error.strerror}") from None
    if code:
        raise UsageError(f"{command[0]} ended with {code}")
