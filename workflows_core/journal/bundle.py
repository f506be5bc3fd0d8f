"""A run outside its store: everything that was recorded of it, in one value and in one file.

A :class:`Bundle` is read-only and complete: from it the view of the run, a replay and a preview of recovery
are made, whether it came out of a store or out of a ``.wfrun`` file. ``write`` and ``open_bundle`` are each
other's inverse.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import msgspec

from .. import jsontext
from ..errors import StoreFailed
from ..model import Attestation, Capture, Decision, RunRecord, RunView, now
from .archive import Archive, BundleRefused, pack
from .frames import Frame, Mark, encode_side
from .references import expander
from .view import reduce_journal

__all__ = ["Bundle", "BundleRefused", "CaptureInfo", "open_bundle", "save", "versions_here", "write"]

SUFFIX: Final = ".wfrun"
_LINES = msgspec.json.Encoder()


class CaptureInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of captured bytes beside the bytes: ``version`` is their SHA-256, ``size`` in bytes."""

    step_id: str
    attempt: int
    source_step_id: str
    path: str
    version: str
    media_type: str
    size: int
    captured_at: int


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """One run with all its records.

    ``record.options`` holds only what says which Agents were asked; ``read_options`` gives the launch options
    whole. ``read_capture(version)`` gives captured bytes. ``verdict`` is what the exporter's replay came to
    (``redacted`` bundles only, which cannot be executed). ``notes`` say what could not be understood.
    """

    record: RunRecord
    script: str
    frames: tuple[Frame, ...]
    marks: tuple[Mark, ...]
    decisions: tuple[Decision, ...]
    attestations: tuple[Attestation, ...]
    captures: tuple[CaptureInfo, ...]
    read_capture: Callable[[str], bytes]
    read_options: Callable[[], Mapping[str, Any]]
    versions: Mapping[str, str]
    redacted: bool = False
    verdict: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    exported_at: int | None = None

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def args(self) -> Any:
        """The launch arguments, from frame 0; None where it cannot be read."""
        try:
            body = jsontext.parse(self.frames[0].body, "frame 0")
        except (IndexError, jsontext.JsonRefused):
            return None
        return body.get("args") if isinstance(body, dict) else None

    def view(self) -> RunView:
        """The same view of the run that its own workspace shows. Raises BundleRefused for unreadable frames."""
        try:
            view = reduce_journal(self.script, self.frames, self.marks).view(self.record)
        except (jsontext.JsonRefused, AttributeError, KeyError, TypeError, ValueError, RecursionError):
            raise BundleRefused(
                "its frames are not those of a run; 'workbench replay --headless' says where"
            ) from None
        return msgspec.structs.replace(view, receipts=self.decisions)

    def find_capture(self, version: str) -> Capture | None:
        """A capture with its bytes by version, or None where the bundle does not hold it."""
        for info in self.captures:
            if info.version == version:
                body = self.read_capture(version)
                fields = {key: value for key, value in msgspec.structs.asdict(info).items() if key != "size"}
                return Capture(run_id=self.run_id, body=body, **fields)
        return None

    def expand(self, body: bytes) -> bytes:
        """A recorded response body as JavaScript is given it; raises NotFound where captured bytes are missing."""
        return expander(self.find_capture)(body)


def versions_here() -> dict[str, str]:
    """What a run's behaviour may depend on beside its script: versions of programs, and the machine."""
    from ..worker.process import runtime_signature

    found = {name: _version(name) for name in ("workflow-workbench", "quickjs-ng", "tree-sitter-javascript")}
    return {
        **found,
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()).strip() or "unknown",
        "runtime_signature": runtime_signature(),
    }


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"


def open_bundle(source: Path | bytes) -> Bundle:
    """Open a ``.wfrun`` file, or its bytes; raises BundleRefused in words. Nothing is written anywhere.

    Captured bytes stay in the file and are read, with their hash checked, when they are asked for.
    """
    from .opening import read_bundle

    try:
        return read_bundle(Archive(source))
    except OSError as error:
        name = "the file" if isinstance(source, bytes) else str(source)
        raise BundleRefused(f"{name} cannot be read: {error.strerror}") from None


def write(bundle: Bundle) -> bytes:
    """The bytes of the ``.wfrun`` file of ``bundle``. Raises BundleRefused where it is over a bound."""
    record = msgspec.to_builtins(bundle.record)
    members: dict[str, bytes] = {
        "script.js": bundle.script.encode("utf-8"),
        "args.json": jsontext.encode(bundle.args, "the arguments"),
        "record.json": jsontext.encode(record, "the record"),
        "options.json": jsontext.encode(dict(bundle.read_options()), "the launch options"),
        "frames.jsonl": b"".join(map(_frame_line, bundle.frames)),
        "marks.jsonl": b"".join(map(_mark_line, bundle.marks)),
        "decisions.json": jsontext.encode(msgspec.to_builtins(bundle.decisions), "the decisions"),
        "attestations.json": jsontext.encode(msgspec.to_builtins(bundle.attestations), "the attestations"),
        "captures.json": jsontext.encode(msgspec.to_builtins(bundle.captures), "the captures"),
    }
    for info in bundle.captures:
        members[f"captures/{info.version}"] = bundle.read_capture(info.version)
    manifest = {
        "run_id": bundle.run_id,
        "redacted": bundle.redacted,
        "exported_at": bundle.exported_at if bundle.exported_at is not None else now(),
        "versions": dict(bundle.versions),
        "verdict": None if bundle.verdict is None else dict(bundle.verdict),
        "notes": list(bundle.notes),
    }
    return pack(members, manifest)


def _frame_line(frame: Frame) -> bytes:
    try:
        body = frame.body.decode("utf-8")
    except UnicodeDecodeError:
        raise BundleRefused(f"frame {frame.number} is not UTF-8 text, so no bundle can hold it") from None
    line = {
        "number": frame.number,
        "kind": frame.kind.value,
        "at": frame.at,
        "hash": frame.hash.hex(),
        "body": body,
        "side": msgspec.Raw(encode_side(frame.side)),
    }
    return _LINES.encode(line) + b"\n"


def _mark_line(mark: Mark) -> bytes:
    line = {
        "seq": mark.seq,
        "after_frame": mark.after_frame,
        "at": mark.at,
        "side": msgspec.Raw(encode_side(mark.side)),
    }
    return _LINES.encode(line) + b"\n"


def save(bundle: Bundle, path: Path) -> int:
    """Write the file whole or not at all, readable by its owner only, and return its size in bytes.

    Before it replaces anything, what was written is opened again. Raises StoreFailed where the disk refuses.
    """
    data = write(bundle)
    open_bundle(data)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreFailed(f"{path} cannot be written: {error.strerror}") from None
    return len(data)
