"""What went wrong with extensions: kept for the screens and written to the log."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Final, Literal, NamedTuple

from workflows_core.model import now

logger = logging.getLogger("workbench.extensions")

KEPT: Final = 500
_SENTENCE: Final = 600

Level = Literal["info", "warning", "error"]
_LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Diagnostic(NamedTuple):
    """One message about ``source`` (a ``use`` string, or ``host``). ``message`` is text from outside."""

    level: Level
    source: str
    message: str
    at: int


class Diagnostics:
    """The latest KEPT messages. May be used from any thread."""

    def __init__(self) -> None:
        self._kept: deque[Diagnostic] = deque(maxlen=KEPT)
        self._lock = threading.Lock()

    def add(self, level: Level, source: str, message: str, error: BaseException | None = None) -> None:
        """Keep and log a message; with ``error`` the log also holds its traceback."""
        text = message if len(message) <= _SENTENCE else message[: _SENTENCE - 1] + "…"
        with self._lock:
            self._kept.append(Diagnostic(level, source, text, now()))
        logger.log(_LEVELS[level], "%s: %s", source, text, exc_info=error)

    def all(self) -> tuple[Diagnostic, ...]:
        """Oldest first."""
        with self._lock:
            return tuple(self._kept)


def name_of(error: BaseException) -> str:
    """The type of an exception, and its first line where it has a readable one."""
    kind = type(error).__name__
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001 - an exception of an extension may not even be printable
        return kind
    return f"{kind}: {lines[0]}" if lines else kind
