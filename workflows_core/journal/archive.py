"""The container of a bundle: a small zip that is read in memory, member by member, and never extracted.

Nothing in a file is believed before it is bounded: the directory is measured before it is parsed, names come
from a fixed list, each member has a bound of its own, and every member must be listed in the manifest with the
SHA-256 that it has. Whatever is wrong becomes one BundleRefused in words.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from .. import jsontext
from ..errors import UsageError
from ..limits import CAPTURE_BYTES, CAPTURES_PER_RUN, SCRIPT_BYTES

FORMAT: Final = 1
KIND: Final = "workflow-run"
MANIFEST: Final = "manifest.json"
MEBIBYTE: Final = 1024 * 1024

#: The largest size of each member, unpacked.
MEMBER_BYTES: Final[Mapping[str, int]] = {
    MANIFEST: 256 * 1024,
    "script.js": SCRIPT_BYTES,  # of UTF-8, never more than its JSON, which the engine bounds by the same number
    "args.json": 64 * 1024,
    "record.json": 256 * 1024,
    "options.json": 4 * MEBIBYTE,
    "frames.jsonl": 12 * MEBIBYTE,
    "marks.jsonl": 4 * MEBIBYTE,
    "captures.json": 256 * 1024,
    "decisions.json": MEBIBYTE,
    "attestations.json": MEBIBYTE,
}
REQUIRED: Final = frozenset({"script.js", "args.json", "record.json", "frames.jsonl"})
CAPTURE: Final = re.compile(r"captures/([0-9a-f]{64})")
FILE_BYTES: Final = 64 * MEBIBYTE
MEMBERS: Final = len(MEMBER_BYTES) + CAPTURES_PER_RUN

_DIRECTORY_BYTES: Final = 64 * 1024
_END: Final = struct.Struct("<4sHHHHIIH")
_CHUNK: Final = 64 * 1024
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, ValueError, NotImplementedError, KeyError)


class BundleRefused(UsageError):
    """The file is not a bundle that can be opened. ``str()`` says what is wrong with it and what to do."""

    code = "bundle_refused"
    title = "That bundle cannot be opened"


def member_bytes(name: str) -> int | None:
    """The largest size of the member ``name``; None for a name that no bundle has."""
    return CAPTURE_BYTES if CAPTURE.fullmatch(name) else MEMBER_BYTES.get(name)


class Manifest(msgspec.Struct, frozen=True):
    """The manifest, checked: ``members`` are size and SHA-256 of every other member by name."""

    run_id: str
    redacted: bool
    exported_at: int
    members: Mapping[str, tuple[int, str]]
    versions: Mapping[str, str]
    verdict: Mapping[str, Any] | None
    notes: tuple[str, ...]


class Archive:
    """An opened container. ``source`` is a path or the bytes of the file; nothing of it is kept open."""

    def __init__(self, source: Path | bytes) -> None:
        """Check the whole container. Raises BundleRefused; OSError where the file cannot be read."""
        self._source = source
        with self._file() as file:
            self._check_frame(file)
            try:
                with zipfile.ZipFile(file) as container:
                    infos = self._infos(container)
                    self.manifest: Manifest = self._manifest(container, infos)
                    for name, (size, digest) in self.manifest.members.items():
                        self._check_member(container, infos[name], size, digest)
            except _BROKEN as error:
                raise BundleRefused(f"the file is damaged: {_words(error)}") from None

    def _file(self) -> IO[bytes]:
        return io.BytesIO(self._source) if isinstance(self._source, bytes) else self._source.open("rb")

    def _check_frame(self, file: IO[bytes]) -> None:
        """Bound the file and its directory before anything parses them."""
        size = file.seek(0, io.SEEK_END)
        if size > FILE_BYTES:
            raise BundleRefused(f"the file has {size:,} bytes; a bundle has at most {FILE_BYTES:,}")
        if size < _END.size:
            raise BundleRefused("the file is not a bundle: it is too short, or was cut off")
        tail_size = min(size, _END.size + 20)
        file.seek(size - tail_size)
        tail = file.read(tail_size)
        signature, disk, start_disk, here, entries, directory, offset, comment = _END.unpack(
            tail[-_END.size :]
        )
        if signature != b"PK\x05\x06" or comment:
            raise BundleRefused("the file is not a bundle, or was cut off: it does not end as one")
        if tail[:4] == b"PK\x06\x07" and tail_size > _END.size:
            raise BundleRefused("the file is not a bundle: it has the form of a larger archive")
        if disk or start_disk or here != entries or not 0 < entries <= MEMBERS:
            raise BundleRefused(f"the file is not a bundle: it lists {entries} members of at most {MEMBERS}")
        if directory > _DIRECTORY_BYTES or offset + directory + _END.size != size:
            raise BundleRefused("the file is damaged: its directory does not fit the file")

    def _infos(self, container: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
        infos: dict[str, zipfile.ZipInfo] = {}
        total = 0
        for info in container.infolist():
            name = info.filename
            most = member_bytes(name)
            if most is None or info.orig_filename != name:
                raise BundleRefused(f"it holds {_shown(info.orig_filename)}, which is no member of a bundle")
            if name in infos:
                raise BundleRefused(f"it holds {name} twice")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 0x41:
                raise BundleRefused(f"{name} is packed or encrypted in a way that no bundle is")
            if info.file_size > most:
                raise BundleRefused(
                    f"{name} unpacks to {info.file_size:,} bytes; at most {most:,} are admitted"
                )
            total += info.file_size
            infos[name] = info
        if total > FILE_BYTES:
            raise BundleRefused(f"its members unpack to {total:,} bytes; at most {FILE_BYTES:,} are admitted")
        if MANIFEST not in infos:
            raise BundleRefused("it has no manifest, so it is no bundle")
        return infos

    def _manifest(self, container: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo]) -> Manifest:
        data = b"".join(_chunks(container, infos[MANIFEST]))
        try:
            parsed = jsontext.parse(data, "the manifest")
        except jsontext.JsonRefused as error:
            raise BundleRefused(str(error)) from None
        if not isinstance(parsed, dict) or parsed.get("kind") != KIND:
            raise BundleRefused("its manifest is not that of a workflow run")
        version = parsed.get("format")
        if version != FORMAT or isinstance(version, bool):
            raise BundleRefused(
                f"it has the format {_shown(str(version))}, and this version knows {FORMAT}. "
                "Use the workbench that wrote it, or a newer one"
            )
        claimed = parsed.pop("hash", None)
        if claimed != manifest_hash(parsed):
            raise BundleRefused("its manifest does not have the hash that it states: it was changed")
        manifest = _read_manifest(parsed)
        listed = set(manifest.members)
        present = set(infos) - {MANIFEST}
        if present - listed:
            raise BundleRefused(f"it holds {sorted(present - listed)[0]}, which its manifest does not list")
        if (listed | REQUIRED) - present:
            raise BundleRefused(f"it lacks {sorted((listed | REQUIRED) - present)[0]}")
        return manifest

    def _check_member(
        self, container: zipfile.ZipFile, info: zipfile.ZipInfo, size: int, digest: str
    ) -> None:
        hashed = hashlib.sha256()
        length = 0
        for chunk in _chunks(container, info):
            hashed.update(chunk)
            length += len(chunk)
        if length != size or hashed.hexdigest() != digest:
            raise BundleRefused(f"{info.filename} does not have the hash that the manifest states")

    def __contains__(self, name: str) -> bool:
        return name in self.manifest.members

    def read(self, name: str) -> bytes:
        """The bytes of one member, with their hash checked once more: the file may have changed meanwhile."""
        try:
            with self._file() as file, zipfile.ZipFile(file) as container:
                data = b"".join(_chunks(container, container.getinfo(name)))
        except _BROKEN as error:
            raise BundleRefused(f"the file is damaged: {_words(error)}") from None
        if jsontext.sha256(data) != self.manifest.members[name][1]:
            raise BundleRefused(f"{name} changed while the bundle was open")
        return data


def manifest_hash(manifest: Mapping[str, Any]) -> str:
    """The manifest's own hash: SHA-256 of its canonical JSON without the key ``hash``."""
    return jsontext.sha256(
        jsontext.encode({k: v for k, v in manifest.items() if k != "hash"}, "the manifest")
    )


def _read_manifest(parsed: Mapping[str, Any]) -> Manifest:
    members: dict[str, tuple[int, str]] = {}
    try:
        for name, facts in parsed["members"].items():
            if member_bytes(name) is None or name == MANIFEST:
                raise BundleRefused(f"its manifest lists {_shown(name)}, which is no member of a bundle")
            members[name] = msgspec.convert((facts["bytes"], facts["sha256"]), tuple[int, str])
        return msgspec.convert(
            {
                "run_id": parsed["run_id"],
                "redacted": parsed["redacted"],
                "exported_at": parsed["exported_at"],
                "members": members,
                "versions": parsed.get("versions", {}),
                "verdict": parsed.get("verdict"),
                "notes": parsed.get("notes", ()),
            },
            Manifest,
        )
    except BundleRefused:
        raise
    except (msgspec.ValidationError, KeyError, TypeError, AttributeError):
        raise BundleRefused("its manifest lacks something, or says it in another form") from None


def _chunks(container: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """The unpacked bytes of a member, never more than its bound, whatever its header says."""
    most = member_bytes(info.filename)
    assert most is not None
    length = 0
    with container.open(info) as member:
        while chunk := member.read(_CHUNK):
            length += len(chunk)
            if length > most:
                raise BundleRefused(f"{info.filename} unpacks to more than {most:,} bytes")
            yield chunk


def pack(members: Mapping[str, bytes], manifest: Mapping[str, Any]) -> bytes:
    """The bytes of a bundle with ``members`` and a manifest that lists them. Deterministic for equal contents."""
    listed = {
        name: {"bytes": len(data), "sha256": jsontext.sha256(data)} for name, data in sorted(members.items())
    }
    whole = {**manifest, "format": FORMAT, "kind": KIND, "members": listed}
    whole["hash"] = manifest_hash(whole)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as container:
        for name, data in [(MANIFEST, jsontext.encode(whole, "the manifest")), *sorted(members.items())]:
            most = member_bytes(name)
            if most is None or len(data) > most:
                raise BundleRefused(f"{name} takes {len(data):,} bytes, more than a bundle may hold")
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o600 << 16
            container.writestr(info, data)
    return file.getvalue()


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:60] + "…")


def _words(error: Exception) -> str:
    if isinstance(error, BundleRefused):
        return str(error)
    return "it is cut off" if isinstance(error, EOFError) else "its packing cannot be read"
