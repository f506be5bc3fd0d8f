"""From the members of a container to a Bundle: what is understood is taken over, what is not is named.

A run of another version may hold fields, kinds of frames or states that this one does not know. They become
notes; only what contradicts itself, or a bound, is refused. Bounds on brackets keep hostile JSON, which takes
many times its size once parsed, within memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from .. import jsontext
from ..limits import JOURNAL_BYTES, SETTABLE, recorded_limits
from ..model import Attestation, Decision, RunRecord, RunState
from .archive import Archive, BundleRefused
from .bundle import Bundle, CaptureInfo
from .frames import Frame, FrameKind, Mark, Side, decode_side

T = TypeVar("T")

_FRAMES: Final = 40_000
_SIDES_BYTES: Final = 4 * 1024 * 1024
_BRACKETS: Final = 200_000
#: Wider than the ids that are made here; nothing in it means anything to a shell, a path, YAML or Python.
_RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_LATEST: Final = 253_402_300_799_000_000  # the last microsecond of the year 9999


class _Line(msgspec.Struct):
    number: int
    kind: str
    at: int
    hash: str
    body: str
    side: msgspec.Raw = msgspec.Raw(b"{}")


class _MarkLine(msgspec.Struct):
    seq: int
    after_frame: int
    at: int
    side: msgspec.Raw = msgspec.Raw(b"{}")


_LINE = msgspec.json.Decoder(_Line)
_MARK_LINE = msgspec.json.Decoder(_MarkLine)


def read_bundle(archive: Archive) -> Bundle:
    """The bundle that a checked container holds. Raises BundleRefused."""
    notes = list(archive.manifest.notes)
    brackets = _Budget(_BRACKETS, "its records are nested in more parts than a run's are")
    raw_record = _json(archive, "record.json", brackets, {})
    if not isinstance(raw_record, dict):
        raise BundleRefused("its record is not a JSON object")
    record = read_record(raw_record, notes)
    if record.run_id != archive.manifest.run_id:
        raise BundleRefused("its record and its manifest name different runs")
    try:
        script = archive.read("script.js").decode("utf-8")
    except UnicodeDecodeError:
        raise BundleRefused("its script is not UTF-8 text") from None
    frames = _frames(archive, notes, brackets)
    if not archive.manifest.redacted:  # of a redacted one they are checked when it is verified
        frames = _places_inside(frames, script, notes)
    captures = _list(archive, "captures.json", CaptureInfo, brackets, notes)
    for info in captures:
        if f"captures/{info.version}" not in archive:
            notes.append(f"The bytes that {info.step_id} captured are not in the bundle.")

    def options() -> Mapping[str, Any]:
        found = _json(archive, "options.json", _Budget(_BRACKETS, "its launch options are too large"), {})
        if not isinstance(found, dict):
            raise BundleRefused("its launch options are not a JSON object")
        return found

    return Bundle(
        record=record,
        script=script,
        frames=frames,
        marks=_marks(archive, brackets),
        decisions=_list(archive, "decisions.json", Decision, brackets, notes),
        attestations=_list(archive, "attestations.json", Attestation, brackets, notes),
        captures=captures,
        read_capture=lambda version: _capture(archive, version),
        read_options=options,
        versions=archive.manifest.versions,
        redacted=archive.manifest.redacted,
        verdict=archive.manifest.verdict,
        notes=tuple(notes),
        exported_at=archive.manifest.exported_at,
    )


class _Budget:
    """How many brackets may still be parsed."""

    def __init__(self, left: int, refusal: str) -> None:
        self.left = left
        self.refusal = refusal

    def spend(self, data: bytes) -> None:
        self.left -= data.count(b"[") + data.count(b"{") + data.count(b",") // 4
        if self.left < 0:
            raise BundleRefused(self.refusal)


def _capture(archive: Archive, version: str) -> bytes:
    from ..errors import NotFound

    if f"captures/{version}" not in archive:
        raise NotFound(f"the captured bytes of version {version[:7]} are missing")
    data = archive.read(f"captures/{version}")
    if not archive.manifest.redacted and jsontext.sha256(data) != version:
        raise BundleRefused(f"the captured bytes of version {version[:7]} do not have that hash")
    return data


def _json(archive: Archive, name: str, brackets: _Budget, absent: Any) -> Any:
    if name not in archive:
        return absent
    data = archive.read(name)
    brackets.spend(data)
    try:
        return jsontext.parse(data, name)
    except jsontext.JsonRefused as error:
        raise BundleRefused(str(error)) from None


def _list(archive: Archive, name: str, kind: type[T], brackets: _Budget, notes: list[str]) -> tuple[T, ...]:
    found = _json(archive, name, brackets, [])
    if not isinstance(found, list):
        raise BundleRefused(f"{name} is not a list")
    return tuple(convert(item, kind, name, notes) for item in found)


def convert(item: Any, kind: type[T], what: str, notes: list[str]) -> T:
    """``item`` as ``kind``; fields that ``kind`` does not have are named in ``notes``."""
    if isinstance(item, dict):
        known = {field.name for field in msgspec.structs.fields(kind)}  # type: ignore[arg-type]
        unknown = sorted(str(key) for key in item if key not in known)
        if unknown:
            note = f"{what} holds {', '.join(unknown[:5])}, which this version does not know."
            if note not in notes:
                notes.append(note)
        item = {key: value for key, value in item.items() if key in known}
    try:
        return msgspec.convert(item, kind)
    except msgspec.ValidationError as error:
        raise BundleRefused(f"{what} cannot be understood: {error}") from None


def read_record(raw: Mapping[str, Any], notes: list[str]) -> RunRecord:
    """A run record from its JSON, also one of another version. Raises BundleRefused where it is none."""
    fields = dict(raw)
    state = fields.get("state")
    if state not in list(RunState):
        notes.append(f"The run was in the state {str(state)[:40]!r}, which this version does not know.")
        fields["state"] = RunState.INTERRUPTED.value
        fields["cause"] = {
            "code": "unknown_state",
            "message": "its state is one that this version does not know",
        }
    given = fields.get("limits")
    if isinstance(given, dict):
        if any(type(given[key]) is not int for key in given.keys() & SETTABLE.keys()):
            raise BundleRefused("the record cannot be understood: a limit is not a whole number")
        fields["limits"], left = recorded_limits(given)
        if left:
            names = ", ".join(key[:40] for key in left[:5])
            notes.append(f"The run had limits that this version does not take over: {names}.")
    for key in ("created_at", "since", "last_progress"):
        if not _is_time(fields.get(key)):
            raise BundleRefused(f"the record cannot be understood: {key} is not a time")
    record = convert(fields, RunRecord, "the record", notes)
    for run_id in (record.run_id, record.parent_run_id):
        if run_id is not None and _RUN_ID.fullmatch(run_id) is None:
            raise BundleRefused(f"the record cannot be understood: {run_id[:40]!r} is not the id of a run")
    if record.waiting is not None and not _is_time(record.waiting.expires_at or 0):
        raise BundleRefused("the record cannot be understood: its wait has no time")
    return record


def _is_time(at: Any) -> bool:
    return type(at) is int and 0 <= at <= _LATEST


def _lines(archive: Archive, name: str) -> list[bytes]:
    data = archive.read(name) if name in archive else b""
    if data.count(b"\n") > _FRAMES:
        raise BundleRefused(f"{name} has more lines than a journal can have")
    return data.splitlines()


def _frames(archive: Archive, notes: list[str], brackets: _Budget) -> tuple[Frame, ...]:
    frames: list[Frame] = []
    size = sides = 0
    for index, text in enumerate(_lines(archive, "frames.jsonl")):
        try:
            line = _LINE.decode(text)
            digest = bytes.fromhex(line.hash)
            body = line.body.encode("utf-8")
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise BundleRefused(f"line {index + 1} of its frames is not a frame") from None
        if line.kind not in list(FrameKind):
            notes.append(
                f"Frame {line.number} is of the kind {line.kind[:40]!r}, which this version does not know; "
                "what follows it is left out."
            )
            break
        if not _is_time(line.at):
            raise BundleRefused(f"line {index + 1} of its frames has no time")
        size += len(body)
        sides += len(line.side)
        if size > JOURNAL_BYTES or sides > _SIDES_BYTES:
            raise BundleRefused(f"its journal is larger than the {JOURNAL_BYTES:,} bytes of a run")
        side = _side(bytes(line.side), brackets)
        frames.append(Frame(line.number, FrameKind(line.kind), body, digest, line.at, side))
    return tuple(frames)


def _places_inside(frames: tuple[Frame, ...], script: str, notes: list[str]) -> tuple[Frame, ...]:
    """``frames`` without the places that lie outside ``script``, which are named in ``notes``.

    Lines and columns count from 1; the end of a line is a place, too.
    """
    widths = [len(line) for line in script.split("\n")]
    kept: list[Frame] = []
    wrong: list[int] = []

    def inside(place: tuple[int, int] | None) -> tuple[int, int] | None:
        if place is None or (1 <= place[0] <= len(widths) and 1 <= place[1] <= widths[place[0] - 1] + 1):
            return place
        return None

    for frame in frames:
        side = frame.side
        places, end = tuple(map(inside, side.positions)), inside(side.position)
        if (places, end) != (side.positions, side.position):
            wrong.append(frame.number)
            side = msgspec.structs.replace(side, positions=places, position=end)
            frame = msgspec.structs.replace(frame, side=side)
        kept.append(frame)
    if wrong:
        names = ", ".join(map(str, wrong[:5])) + (" and others" if len(wrong) > 5 else "")
        which = "Frame" if len(wrong) == 1 else "Frames"
        verb = "names" if len(wrong) == 1 else "name"
        notes.append(f"{which} {names} {verb} places outside the script, which are left out.")
    return tuple(kept)


def _marks(archive: Archive, brackets: _Budget) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    for index, text in enumerate(_lines(archive, "marks.jsonl")):
        try:
            line = _MARK_LINE.decode(text)
        except (msgspec.MsgspecError, RecursionError):
            raise BundleRefused(f"line {index + 1} of its marks is not a mark") from None
        if not _is_time(line.at):
            raise BundleRefused(f"line {index + 1} of its marks has no time")
        marks.append(Mark(line.seq, line.after_frame, line.at, _side(bytes(line.side), brackets)))
    return tuple(marks)


def _side(data: bytes, brackets: _Budget) -> Side:
    brackets.spend(data)
    try:
        side = decode_side(data)
    except (msgspec.MsgspecError, RecursionError):
        raise BundleRefused("facts beside a frame cannot be understood") from None
    for note in side.children.values():
        if not all(_is_time(at or 0) for at in (note.started_at, note.finished_at)):
            raise BundleRefused("facts beside a frame have no time")
    return side
