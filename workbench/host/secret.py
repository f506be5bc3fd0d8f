"""The host's signing secret, and keys for single purposes made from it.

The file holds 64 hexadecimal digits and has mode 0600. It is created once and never changed: whatever was
signed with it (configuration revisions of recoverable runs) is worthless under another one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import string
from pathlib import Path
from typing import Final

from workflows_core.errors import StoreFailed

_DIGITS: Final = 64
_LOSS: Final = "runs that wait for recovery cannot continue then"


class Secret:
    """Signs for a purpose; two purposes never share a key. The secret itself is not readable from here."""

    def __init__(self, key: bytes) -> None:
        self.__key = key

    def key(self, purpose: str) -> bytes:
        """32 bytes for one purpose."""
        return hmac.digest(self.__key, f"workbench/{purpose}".encode(), "sha256")

    def sign(self, purpose: str, data: bytes) -> str:
        """HMAC-SHA-256 of ``data`` under the purpose's key, as hexadecimal digits."""
        return hmac.new(self.key(purpose), data, hashlib.sha256).hexdigest()

    def __repr__(self) -> str:
        return "Secret(…)"


def load_secret(path: Path) -> Secret:
    """Read the secret, making it where there is none.

    Raises StoreFailed where the file is not one, belongs to somebody else, or others could read it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        _create(path)
        return load_secret(path)
    except OSError as error:
        raise StoreFailed(f"the secret {path} cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        data = os.read(descriptor, 4096) if stat.S_ISREG(found.st_mode) else b""
    finally:
        os.close(descriptor)
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise StoreFailed(
            f"the secret {path} is open to other users (mode {stat.S_IMODE(found.st_mode):04o}). If nobody "
            f"has read it, run: chmod 600 {path}. Otherwise delete it; {_LOSS}"
        )
    text = data.decode("ascii", "replace").strip()
    if len(text) != _DIGITS or not all(char in string.hexdigits for char in text):
        raise StoreFailed(f"{path} does not hold a secret. Restore it from a copy, or delete it; {_LOSS}")
    return Secret(bytes.fromhex(text))


def _create(path: Path) -> None:
    """Write a fresh secret beside ``path`` and link it into place: the first of several processes wins."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, f"{secrets.token_hex(_DIGITS // 2)}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    except OSError as error:
        raise StoreFailed(f"the secret {path} cannot be made: {error.strerror}") from None
