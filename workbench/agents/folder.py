"""A child run's own folder: reading a file that it left there without being led anywhere else, and removing it.

The folder belongs to code that is not trusted and may change while it is read. Each part of the path is opened
relative to the one before it and never through a link; only a regular file with one name, on the folder's own
file system, is read; and one that changes meanwhile is refused rather than returned half.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Final

from .base import FileRefused

_PATH_LENGTH: Final = 1024
_CHUNK: Final = 65_536
_USER_DATA: Final = "/mnt/user-data/"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: O_NONBLOCK keeps a FIFO from holding us; it changes nothing for a regular file.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_inside(folder: Path, path: str, *, max_bytes: int) -> bytes:
    """The bytes of ``path`` below ``folder``, as they were from the first to the last byte.

    ``path`` is relative, with ``/`` between its parts; a leading ``/mnt/user-data/``, which is what Agents call
    their folder, is the folder. Raises FileRefused: ``bad_path`` for a path that leads out, ``file_not_found``
    where there is nothing to read, ``not_a_file`` for anything but a regular file with one name,
    ``file_too_large``, and ``file_changed`` where it changed while it was read.
    """
    parts = _parts(path)
    descriptors: list[int] = []
    try:
        descriptors.append(_open(os.fspath(folder), _FOLDER, None, path))
        device = os.fstat(descriptors[0]).st_dev
        for part in parts[:-1]:
            descriptors.append(_open(part, _FOLDER, descriptors[-1], path))
        parent = descriptors[-1]
        descriptors.append(_open(parts[-1], _FILE, parent, path))
        opened = os.fstat(descriptors[-1])
        if not _only_here(parts[-1], parent, opened) or opened.st_dev != device:
            raise FileRefused("not_a_file", f"{path[:80]} is not a regular file of the child's own")
        return _read(descriptors[-1], opened, path, max_bytes)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _parts(path: str) -> list[str]:
    parts = path.removeprefix(_USER_DATA).split("/")
    if not path or len(path) > _PATH_LENGTH or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise FileRefused(
            "bad_path", "the path must be relative, inside the child's folder, without . or .. parts"
        )
    return parts


def _open(name: str, flags: int, inside: int | None, path: str) -> int:
    try:
        return os.open(name, flags, dir_fd=inside)
    except FileNotFoundError:
        raise FileRefused("file_not_found", f"the child left no file {path[:80]}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its name cannot be used"
        raise FileRefused("not_a_file", f"{path[:80]} cannot be read as a file: {why}") from None


def _only_here(name: str, parent: int, opened: os.stat_result) -> bool:
    """Whether the opened file is a regular one whose only name is this one in the child's folder.

    The number of names of the opened file alone would not do: a hard link to a file elsewhere may have been
    removed since it was opened. Name and count are taken in one look.
    """
    try:
        named = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    same = (named.st_ino, named.st_dev) == (opened.st_ino, opened.st_dev)
    return same and stat.S_ISREG(named.st_mode) and named.st_nlink == 1


def _read(descriptor: int, before: os.stat_result, path: str, max_bytes: int) -> bytes:
    if before.st_size > max_bytes:
        raise FileRefused(
            "file_too_large", f"{path[:80]} has {before.st_size:,} bytes; admitted are {max_bytes:,}"
        )
    data = bytearray()
    while len(data) <= max_bytes:
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            break
        data += chunk
    after = os.fstat(descriptor)
    same = (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )
    if not same or len(data) != before.st_size:
        raise FileRefused("file_changed", f"{path[:80]} changed while it was read; capture it again")
    return bytes(data)


def remove(folder: Path) -> None:
    """Remove a child's folder with all in it, following no link; nothing where it is gone. Raises OSError.

    What the child took away from its owner's reach is made reachable first.
    """
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            folder.unlink()
            return
    except FileNotFoundError:
        return
    folder.chmod(stat.S_IRWXU)
    for parent, names, _ in os.walk(folder):
        for name in names:
            inner = Path(parent, name)
            if stat.S_ISDIR(inner.lstat().st_mode):
                inner.chmod(stat.S_IRWXU)  # before it is walked, since the walk is from the top
    shutil.rmtree(folder)
