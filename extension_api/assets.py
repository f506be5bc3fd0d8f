"""Packaged browser resources: the rules of the manifest and the files, and an in-memory snapshot (0.2.3).

A host validates when ``registry.plugin()`` is called and serves from the snapshot ever after, so the files on
the disk are read once. Every folder and file is opened relative to its parent without following links; what
was checked is what was read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn

from .invalid import InvalidContribution, shown
from .plugins import BrowserAssets

SCHEMA_VERSION: Final = 1
MAX_FILES: Final = 256
MAX_MANIFEST_BYTES: Final = 64 * 1024
MAX_FILE_BYTES: Final = 4 * 1024 * 1024
MAX_TOTAL_BYTES: Final = 16 * 1024 * 1024

MEDIA_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".css": "text/css",
        ".json": "application/json",
        ".map": "application/json",
        ".wasm": "application/wasm",
        ".png": "image/png",
        ".jpg": "image/jpeg",
        ".jpeg": "image/jpeg",
        ".gif": "image/gif",
        ".webp": "image/webp",
        ".svg": "image/svg+xml",
        ".ico": "image/x-icon",
        ".woff": "font/woff",
        ".woff2": "font/woff2",
        ".ttf": "font/ttf",
        ".otf": "font/otf",
    }
)
"""The accepted file types, by the lower-case ending of the name."""

_ENTRY_TYPES = (".js", ".mjs")
_KEYS = {"schema_version", "entry", "files"}
_SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_PATH = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO would wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True)
class AssetSnapshot:
    """The listed files as they were read. ``files`` maps each path to its bytes, in the manifest's order.

    ``revision`` is a SHA-256 over the manifest, the paths and the contents, so it names exactly these bytes.
    """

    module: str
    entry: str
    files: Mapping[str, bytes]
    revision: str

    def media_type(self, path: str) -> str:
        """The media type of a listed file. Raises KeyError for any other path."""
        if path not in self.files:
            raise KeyError(path)
        return MEDIA_TYPES[_ending(path)]


def load_assets(assets: BrowserAssets) -> AssetSnapshot:
    """Validate the manifest and read every listed file.

    Raises InvalidContribution with a rule that begins with ``assets.``; the message names the path.
    """
    manifest_path = _checked_path(assets.manifest, "the manifest's path")
    root = _open_root(assets.root)
    try:
        manifest = _read(root, manifest_path, MAX_MANIFEST_BYTES, "assets.manifest_size")
        entry, paths = parse_manifest(manifest)
        files: dict[str, bytes] = {}
        total = 0
        for path in paths:
            content = _read(root, path, MAX_FILE_BYTES, "assets.file_size")
            total += len(content)
            if total > MAX_TOTAL_BYTES:
                _refuse("assets.total_size", f"the files exceed {MAX_TOTAL_BYTES} bytes in total at {path}")
            files[path] = content
    finally:
        os.close(root)
    return AssetSnapshot(assets.module, entry, MappingProxyType(files), _revision(manifest, files.items()))


def parse_manifest(manifest: bytes) -> tuple[str, tuple[str, ...]]:
    """The entry and the files of a manifest. Raises InvalidContribution where it breaks a rule."""
    document = _parse_json(manifest)
    if not isinstance(document, dict):
        _refuse("assets.manifest", f"the manifest must be a JSON object, not {shown(document)}")
    if document.keys() != _KEYS:
        missing = ", ".join(sorted(_KEYS - document.keys()))
        surplus = ", ".join(shown(key) for key in sorted(document.keys() - _KEYS)[:5])
        found = "; ".join(
            part
            for part in (
                f"missing: {missing}" if missing else "",
                f"not allowed: {surplus}" if surplus else "",
            )
            if part
        )
        _refuse("assets.keys", f"the manifest has exactly the keys schema_version, entry and files ({found})")
    version = document["schema_version"]
    if type(version) is not int or version != SCHEMA_VERSION:
        _refuse("assets.schema_version", f"schema_version must be the integer 1, not {shown(version)}")
    listed = document["files"]
    if not isinstance(listed, list):
        _refuse("assets.files", f"files must be a list, not {shown(listed)}")
    if not 1 <= len(listed) <= MAX_FILES:
        _refuse("assets.count", f"files lists 1 to {MAX_FILES} paths, not {len(listed)}")
    paths: dict[str, None] = {}
    for item in listed:
        path = _checked_path(item, "a path in files")
        if _ending(path) not in MEDIA_TYPES:
            _refuse("assets.type", f"{path} is not of an accepted file type")
        if path in paths:
            _refuse("assets.unique", f"{path} is listed twice")
        paths[path] = None
    entry = document["entry"]
    if not isinstance(entry, str) or entry not in paths:
        _refuse("assets.entry", f"entry must be one of the listed files, not {shown(entry)}")
    if _ending(entry) not in _ENTRY_TYPES:
        _refuse("assets.entry", f"entry must end in .js or .mjs, not {shown(entry)}")
    return entry, tuple(paths)


def _parse_json(manifest: bytes) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            _refuse("assets.keys", "the manifest repeats a key")
        return members

    def no_constant(name: str) -> NoReturn:
        _refuse("assets.manifest", f"the manifest is not JSON ({name})")

    try:
        return json.loads(manifest.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant)
    except InvalidContribution:
        raise
    except (ValueError, RecursionError) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "not JSON"
        raise InvalidContribution("assets.manifest", f"the manifest is {reason}") from error


def _checked_path(path: object, what: str) -> str:
    if not isinstance(path, str) or _PATH.fullmatch(path) is None:
        _refuse(
            "assets.path",
            f"{what} is made of ASCII letters, digits, '_', '-' and '.', in segments separated by '/' that "
            f"do not start with '.', not {shown(path)}",
        )
    return path


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()  # noqa: PTH122 - a path of a manifest, not of this machine


def _open_root(root: object) -> int:
    if not isinstance(root, (str, Path)) or not str(root) or "\0" in str(root):
        _refuse("assets.root", f"root must be the path of a folder, not {shown(root)}")
    # Path drops a trailing separator, which would make the system follow a link.
    folder = Path(root)
    try:
        return os.open(folder, _FOLDER)
    except OSError as error:
        what = (
            "is a symbolic link" if folder.is_symlink() else f"cannot be opened as a folder ({_word(error)})"
        )
        raise InvalidContribution("assets.root", f"root {what}") from error


def _read(root: int, path: str, limit: int, rule: str) -> bytes:
    """The bytes of the regular file at ``path`` below the open folder; no component may be a link."""
    folder = os.dup(root)
    segment = ""
    try:
        *folders, name = path.split("/")
        for segment in folders:
            below = os.open(segment, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        segment = name
        file = os.open(name, _FILE, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                _refuse("assets.regular", f"{path} is not a regular file")
            content = _read_at_most(file, limit + 1)
        finally:
            os.close(file)
    except OSError as error:
        if _is_link(segment, folder):
            raise InvalidContribution("assets.symlink", f"{path} passes through a symbolic link") from error
        raise InvalidContribution("assets.missing", f"{path} cannot be read ({_word(error)})") from error
    finally:
        os.close(folder)
    if len(content) > limit:
        _refuse(rule, f"{path} exceeds {limit} bytes")
    return content


def _read_at_most(file: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (part := os.read(file, min(size, 1024 * 1024))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _is_link(segment: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(segment, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _revision(manifest: bytes, files: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for part in (manifest, *(part for path, content in files for part in (path.encode("ascii"), content))):
        # The length before each part keeps neighbours from being read as one.
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _word(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def _refuse(rule: str, message: str) -> NoReturn:
    raise InvalidContribution(rule, message)
