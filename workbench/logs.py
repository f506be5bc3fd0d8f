"""The workspace's log file, for what goes wrong in the background.

Screens and commands own the terminal, so that no library may write to it. Inside ``logged`` everything that is
logged goes to ``.workbench/workbench.log`` (0600, one older file kept). Text is written inert; of an exception
the type and the code positions are kept but not its message, which could quote what a script, an Agent or a
configuration supplied.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .inert import inert

LOG_NAME: Final = "workbench.log"
LOG_BYTES: Final = 1024 * 1024
#: Their loaded-so-and-so-many lines are wanted; other libraries are heard from warnings on.
_OURS: Final = ("workbench", "workflows_core", "extension_api")


@contextmanager
def logged(state_dir: Path | None) -> Iterator[None]:
    """Send log records to the file in ``state_dir`` until the block ends; drop them where it is None."""
    handler = _File(state_dir / LOG_NAME) if state_dir is not None else logging.NullHandler()
    root = logging.getLogger()
    levels = {name: logging.getLogger(name).level for name in _OURS}
    root.addHandler(handler)
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def frames(error: BaseException) -> str:
    """Type and code positions of an exception, its causes included, without their messages."""
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        lines.append(f"{type(current).__module__}.{type(current).__qualname__}\n")
        lines += traceback.format_tb(current.__traceback__)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return inert("".join(lines), newlines=True)


class _File(logging.Handler):
    """Opens the file for each record: a log that is hardly ever written holds no descriptor."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def format(self, record: logging.LogRecord) -> str:
        plain = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None})
        line = inert(super().format(plain)) + "\n"
        error = record.exc_info[1] if record.exc_info else None
        return line if error is None else line + frames(error)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            append(self._path, self.format(record))
        except Exception:  # noqa: BLE001  a log that cannot be written must not stop what it tells about
            pass


def append(path: Path, text: str) -> None:
    """Append to a private log file, turning a long one into PATH.1. Raises OSError."""
    try:
        if path.stat().st_size > LOG_BYTES:
            path.replace(path.with_name(path.name + ".1"))
    except FileNotFoundError:
        pass
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as log:
        log.write(text)
