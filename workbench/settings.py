"""A person's settings and what the application remembers between sessions.

Settings come from ``workbench.yaml`` of the workspace and from ``settings.yaml`` in the person's own
configuration folder, which wins: keys, theme, mouse and ASCII glyphs belong to who sits there. What is
remembered (open scripts, filters, the run under the cursor) is kept per workspace in the person's state folder, so that opening a
workspace only to look at it writes nothing into it.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import locale
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import platformdirs

from workflows_core.errors import ConfigurationError

from .inert import inert
from .noticebook import NoticeBook
from .yamltext import Section, YamlRefused, parse

DEFAULT_THEME: Final = "textual-dark"
SETTINGS_BYTES: Final = 256 * 1024


class Session:
    """Small JSON values that outlive the application, by key. A file that cannot be read counts as empty.

    With ``own`` the file is this process's alone while it lives. Where another living process has ``path``, a
    file beside it is taken (``NAME.2.json``), so that no process writes over what another one keeps.
    """

    def __init__(self, path: Path | None = None, *, own: bool = False) -> None:
        self._first = self._path = path
        self._writing = threading.Lock()
        self._release: Callable[[], object] | None = None
        self._claim_due = own and path is not None
        if self._claim_due and path is not None and path.parent.is_dir():
            self._claim(new=False)
        self._values = _read(self._path)
        if self._path != path and path is not None and not self._values:
            self._values = _without_unsaved(_read(path))

    def _claim(self, *, new: bool) -> None:
        """Take the first file that no living process has; with ``new`` one that nothing was written to."""
        assert self._first is not None
        self._claim_due = False
        for number in itertools.count(1):
            path = self._first if number == 1 else self._first.with_suffix(f".{number}.json")
            try:
                if (new and path.exists()) or not self._hold(path):
                    continue
            except OSError:  # a disk without locks: one file for all
                path = self._first
            self._path = path
            return

    def _hold(self, path: Path) -> bool:
        """Keep others from ``path`` until this session is let go or its process ends. Raises OSError."""
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        except OSError:
            os.close(lock)
            raise
        self._release = weakref.finalize(self, os.close, lock)
        return True

    def left(self) -> list[Session]:
        """The sessions of this workspace that processes left behind, held until ``let_go``. Raises OSError."""
        found: list[Session] = []
        if self._release is not None and self._first is not None:
            for path in sorted(self._first.parent.glob(f"{self._first.stem}*.json")):
                session = Session()
                if path != self._path and session._hold(path):
                    session._path, session._values = path, _read(path)
                    found.append(session)
        return found

    def let_go(self, *, delete: bool = False) -> None:
        """Give the file free for other processes, with ``delete`` without its values. Raises OSError."""
        if delete and self._path is not None:
            self._path.unlink(missing_ok=True)
        if self._release is not None:
            self._release()

    def get(self, key: str, default: Any = None) -> Any:
        return self._values.get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Remember ``value``, a JSON value, until ``save``."""
        self._values[key] = value

    def save(self) -> None:
        """Write everything, readable by this person only. Raises OSError where the disk refuses."""
        if self._path is None:
            return
        with self._writing:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._claim_due:
                self._claim(new=True)
            temporary = self._path.with_suffix(".new")
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(dict(self._values), file, indent=1)
            temporary.replace(self._path)

    def try_save(self) -> None:
        """Write everything; where the disk refuses, it is left as it was. From any thread."""
        with suppress(OSError):
            self.save()


def _read(path: Path | None) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_text("utf-8")) if path is not None else None
    except (OSError, ValueError):
        loaded = None
    return loaded if isinstance(loaded, dict) else {}


def _without_unsaved(values: dict[str, Any]) -> dict[str, Any]:
    """``values`` without the unsaved texts, which stay with the process that has them."""
    author = values.get("author")
    scripts = author.get("open") if isinstance(author, dict) else None
    if not isinstance(author, dict) or not isinstance(scripts, list):
        return values
    clean = [{**item, "unsaved": None} for item in scripts if isinstance(item, dict)]
    return {**values, "author": {**author, "open": clean}}


@dataclass(frozen=True, slots=True)
class Settings:
    """``keymap`` is as the person wrote it, for ``tui.remap.load``; ``ascii`` draws without Unicode.

    ``hjkl`` adds these four letters to the arrow keys. Without ``mouse`` the terminal keeps its own mouse.
    """

    keymap: Mapping[str, Any] = field(default_factory=dict)
    theme: str = DEFAULT_THEME
    ascii: bool = False
    hjkl: bool = False
    mouse: bool = True
    session: Session = field(default_factory=Session)
    notices: NoticeBook = field(default_factory=NoticeBook)

    @classmethod
    def load(cls, root: Path, *, keymap: Mapping[str, Any], theme: str | None) -> Settings:
        """Settings for the workspace at ``root``, whose configuration holds ``keymap`` and ``theme``.

        Raises ConfigurationError, naming the file, where the person's own settings cannot be used.
        """
        own = _own(settings_path())
        return cls(
            keymap={**keymap, **own.get("keymap", {})},
            theme=own.get("theme") or theme or DEFAULT_THEME,
            ascii=own.get("ascii", not _terminal_writes_unicode()),
            hjkl=own.get("hjkl", False),
            mouse=own.get("mouse", True),
            session=Session(session_path(root), own=True),
            notices=NoticeBook(notices_path(root)),
        )


def settings_path() -> Path:
    """Where a person's own settings are read from."""
    return Path(platformdirs.user_config_dir("workbench", appauthor=False)) / "settings.yaml"


def session_path(root: Path) -> Path:
    """Where the session of the workspace at ``root`` is kept."""
    digest = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
    return Path(platformdirs.user_state_dir("workbench", appauthor=False)) / "sessions" / f"{digest}.json"


def notices_path(root: Path) -> Path:
    """Where the notices of the workspace at ``root`` are kept."""
    return session_path(root).with_suffix(".notices")


def _own(path: Path) -> dict[str, Any]:
    """What the person's own file sets, by key."""
    where = inert(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(SETTINGS_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigurationError(f"{where} cannot be read: {error.strerror}") from None
    if len(data) > SETTINGS_BYTES:
        raise ConfigurationError(f"{where} is larger than {SETTINGS_BYTES // 1024} KiB")
    try:
        document = parse(data, str(path))
        value = {} if document.value is None else document.value
        top = Section(document, (), value, "a person's settings")
        given = {
            "keymap": dict(top.section("keymap", "ids of key bindings with keys").items()),
            "theme": top.text("theme", DEFAULT_THEME),
            "ascii": top.flag("ascii", False),
            "hjkl": top.flag("hjkl", False),
            "mouse": top.flag("mouse", True),
        }
        top.done()
    except YamlRefused as error:
        raise ConfigurationError(error.message) from None
    return {key: made for key, made in given.items() if key in top}


def _terminal_writes_unicode() -> bool:
    """Whether the locale is UTF-8 and the terminal is not one of those that draw ASCII only."""
    return os.environ.get("TERM") not in ("linux", "dumb", "vt100", "vt220") and (
        locale.getpreferredencoding(False).lower().replace("-", "") == "utf8"
    )
