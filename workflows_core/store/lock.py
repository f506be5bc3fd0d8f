"""The process lock: one owner a store, named by its pid.

``flock`` on a separate file, close-on-exec, so that the kernel lets go when the owner dies in any way.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path

from ..errors import StoreFailed, StoreInUse

_TRIES = 25
_PAUSE_SECONDS = 0.02


def lock_path(storage_path: Path) -> Path:
    """Where the lock of a store lies: beside it, with the suffix ``.lock``."""
    return storage_path.with_name(storage_path.name + ".lock")


class ProcessLock:
    """Holds the exclusive lock until ``release`` or the end of the process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, path: Path) -> ProcessLock:
        """Take the lock; raise StoreInUse naming the owner's pid.

        A reader that asks who owns the store holds a shared lock for microseconds, hence the retries.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreFailed(f"the lock file {path} cannot be opened: {error.strerror}") from None
        for attempt in range(_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES) or attempt == _TRIES - 1:
                    pid = _read_pid(descriptor)
                    os.close(descriptor)
                    who = f"process {pid}" if pid is not None else "another process"
                    raise StoreInUse(f"{who} owns {path.parent}; it must end first", pid=pid) from None
                time.sleep(_PAUSE_SECONDS)
        # A full disk does not keep anybody from owning the store, to delete runs for one: the lock is held already.
        with contextlib.suppress(OSError):
            os.pwrite(descriptor, _line(os.getpid()), 0)
        return cls(path, descriptor)

    def release(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):  # The pid that stays is not read once the lock is free.
                os.pwrite(self._descriptor, _line(None), 0)
            os.close(self._descriptor)
            self._descriptor = -1


def owner_pid(path: Path) -> int | None:
    """The pid of the living owner, or None where nobody owns the store. 0 where the pid is not readable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _read_pid(descriptor) or 0
        return None
    finally:
        os.close(descriptor)


def _line(pid: int | None) -> bytes:
    """The content of the file. Its width is fixed, so that its block stays its own on a full disk."""
    return f"{'' if pid is None else pid:<10}\n".encode()


def _read_pid(descriptor: int) -> int | None:
    try:
        return int(os.pread(descriptor, 32, 0).split()[0])
    except (OSError, ValueError, IndexError):
        return None
