"""Exact copies of an output outside the workbench: a private one for the system's viewer, and an export.

A copy is 0600 in a folder that only this person may enter. Its name ends as its media type says, from a list
of types that a viewer shows; what a program of the desktop would run (HTML, SVG, scripts, launchers) is given
the ending of plain text.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workflows_core.errors import UsageError, WorkflowError
from workflows_core.model import Artifact

ENDINGS: Final[Mapping[str, str]] = {
    "application/json": ".json",
    "application/pdf": ".pdf",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/webp": ".webp",
    "text/csv": ".csv",
    "text/markdown": ".md",
}


@dataclass(frozen=True, slots=True)
class Copy:
    """A file with exactly the bytes whose SHA-256 is ``sha256``."""

    path: Path
    sha256: str

    def intact(self) -> bool:
        """Whether the file still holds those bytes."""
        try:
            return hashlib.sha256(self.path.read_bytes()).hexdigest() == self.sha256
        except OSError:
            return False


class PrivateCopies:
    """The copies of one session of the application; ``close`` removes them all."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._copies: dict[str, Copy] = {}

    def make(self, artifact: Artifact) -> Copy:
        """The copy of ``artifact``; the one that exists where its bytes are still the same.

        Raises WorkflowError where the file cannot be written.
        """
        digest = hashlib.sha256(artifact.body).hexdigest()
        known = self._copies.get(digest)
        if known is not None and known.intact():
            return known
        try:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="workbench-review-"))
            name = f"{digest[:12]}-{len(self._copies)}{ENDINGS.get(artifact.media_type, '.txt')}"
            copy = _write(self._folder / name, artifact.body, digest)
        except OSError as error:
            raise WorkflowError(f"the private copy cannot be written: {error.strerror}") from None
        self._copies[digest] = copy
        return copy

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            self._copies.clear()


def export(artifact: Artifact, target: Path) -> Copy:
    """Write the exact bytes to the new file ``target``. Raises UsageError where it exists or cannot be written."""
    digest = hashlib.sha256(artifact.body).hexdigest()
    try:
        return _write(target, artifact.body, digest)
    except FileExistsError:
        raise UsageError(f"{target} exists already; give another name") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "that is no file name"
        raise UsageError(f"{target} cannot be written: {why}") from None


def _write(path: Path, body: bytes, digest: str) -> Copy:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(body)
    copy = Copy(path, digest)
    if not copy.intact():
        raise OSError(0, "what was written does not read back")
    return copy


def suggested_name(artifact: Artifact) -> str:
    """A file name for an export: of the captured path or the step, its characters reduced to harmless ones."""
    base = Path(artifact.path).name if artifact.path else artifact.step_id
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in base)
    safe = safe.lstrip(".-")[:80] or "output"
    if artifact.path:
        return safe
    return safe + ENDINGS.get(artifact.media_type, ".txt")


def viewer(find: Callable[[str], str | None] = shutil.which) -> list[str]:
    """The command that opens a file in the system's viewer. Raises UsageError where there is none."""
    name = "open" if sys.platform == "darwin" else "xdg-open"
    found = find(name)
    if found is None or (name == "xdg-open" and not _has_display()):
        raise UsageError(
            "there is no viewer here, because no desktop is reachable; export the output instead"
        )
    return [found]


def _has_display() -> bool:
    return bool(os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY"))


def open_outside(command: Sequence[str], path: Path) -> subprocess.Popen[bytes]:
    """Start the viewer apart from this terminal; nothing that it writes reaches it. Raises UsageError.

    The caller waits for the process, so that it is reaped.
    """
    try:
        return subprocess.Popen(
            [*command, str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started: {error.strerror}") from None
