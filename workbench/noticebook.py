"""Notices that the application showed in passing, kept so that each can be read again, in a later session too.

They lie in the person's own state folder, beside what is remembered of the workspace, a line of JSON each.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from .inert import inert

#: Notices that are kept, and bytes of the file from which the oldest are dropped.
KEPT: Final = 200
FILE_BYTES: Final = 512 * 1024
_SEVERITIES: Final = ("information", "warning", "error")


@dataclass(frozen=True, slots=True)
class Notice:
    """What was said: ``at`` in microseconds, ``severity`` information, warning or error. Its text is inert."""

    at: int
    title: str
    message: str
    severity: str

    @property
    def text(self) -> str:
        return f"{self.title}: {self.message}" if self.title else self.message


class NoticeBook:
    """The latest notices, the oldest first. Without a path they end with the process."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._writing = threading.Lock()
        self._notices: deque[Notice] = deque(maxlen=KEPT)
        self._unwritten: deque[Notice] = deque(maxlen=KEPT)

    def __len__(self) -> int:
        return len(self._notices)

    @property
    def all(self) -> Sequence[Notice]:
        return tuple(self._notices)

    def load(self) -> None:
        """Read what earlier sessions kept. Blocks, never raises: what cannot be read counts as nothing."""
        found = [] if self._path is None else _read(self._path)
        said = list(self._notices)
        self._notices.clear()
        self._notices.extend([*(notice for notice in found if notice not in said), *said])

    def add(self, notice: Notice) -> None:
        """Keep a notice until ``write``."""
        self._notices.append(notice)
        if self._path is not None:
            self._unwritten.append(notice)

    def write(self) -> None:
        """Append what was added since. Blocks, from any thread; a disk that refuses loses what it refuses."""
        if self._path is None:
            return
        with self._writing, suppress(OSError):
            lines = []
            while self._unwritten:
                lines.append(json.dumps(asdict(self._unwritten.popleft())) + "\n")
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._path.exists() and self._path.stat().st_size > FILE_BYTES:
                lines = [*(json.dumps(asdict(old)) + "\n" for old in _read(self._path)), *lines]
                temporary = self._path.with_suffix(".new")
                _write(temporary, lines, os.O_TRUNC)
                temporary.replace(self._path)
            elif lines:
                _write(self._path, lines, os.O_APPEND)


def _write(path: Path, lines: Sequence[str], how: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.writelines(lines)


def _read(path: Path) -> list[Notice]:
    """The latest notices of a file; lines that are none are left out."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4 * FILE_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return []
    return [notice for line in lines[-KEPT:] if (notice := _parsed(line)) is not None]


def _parsed(line: bytes) -> Notice | None:
    try:
        value = json.loads(line)
        at, severity = value["at"], value["severity"]
        title, message = value["title"], value["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if type(at) is not int or severity not in _SEVERITIES:
        return None
    if not isinstance(title, str) or not isinstance(message, str):
        return None
    return Notice(at, inert(title), inert(message, newlines=True), severity)
