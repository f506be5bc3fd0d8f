"""Journal frames: numbered from 0, chained by hash, with facts beside them that are never compared.

A frame is ``kind`` (start, request, response, end) and a canonical JSON ``body``;
``hash = SHA-256(previous hash ‖ kind ‖ body)``, with 32 zero bytes before frame 0. Beside a frame stands a
:class:`Side` (source positions, admission intents, child ids), and between frames a mark may carry another
one. Replay compares bodies only; the view of a run reads both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from .. import jsontext
from ..model import Cause, StepStatus

ZERO_HASH: Final = bytes(32)


class FrameKind(StrEnum):
    START = "start"
    REQUEST = "request"
    RESPONSE = "response"
    END = "end"


class ChildNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became known of one step's child outside the compared frames. Times in microseconds."""

    thread_id: str | None = None
    child_run_id: str | None = None
    badge: str | None = None
    started_at: int | None = None
    finished_at: int | None = None
    status: StepStatus | None = None
    error: Cause | None = None
    evidence: Mapping[str, Any] | None = None
    #: The response value of a confirmed result that no response frame has delivered.
    result: Mapping[str, Any] | None = None
    #: Whether the file of a capture was read after a recovery, and not when the script asked for it.
    late: bool = False


class Side(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts beside a frame, or a mark's whole content.

    ``positions`` holds (line, column) or None for each call of a request frame, ``admitting`` the step ids
    whose admission intent this commit makes, ``children`` what is known of children by step id.
    """

    positions: tuple[tuple[int, int] | None, ...] = ()
    admitting: tuple[str, ...] = ()
    children: Mapping[str, ChildNote] = {}
    #: Step ids that a person attested not to have run: they may be admitted once more.
    readmitted: tuple[str, ...] = ()
    position: tuple[int, int] | None = None
    #: Stands for facts that were stored and cannot be read any more.
    unreadable: bool = False


class Frame(msgspec.Struct, frozen=True):
    """One committed frame. ``at`` is when it was committed, in microseconds since the epoch."""

    number: int
    kind: FrameKind
    body: bytes
    hash: bytes
    at: int
    side: Side = Side()


class Mark(msgspec.Struct, frozen=True):
    """Facts committed between frames: after ``after_frame`` frames existed."""

    seq: int
    after_frame: int
    at: int
    side: Side


class JournalBroken(ValueError):
    """The frames are not an unbroken chain. ``number`` is the first frame that does not fit."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


_ENCODER = msgspec.json.Encoder()
_SIDE_DECODER = msgspec.json.Decoder(Side)
_EMPTY_SIDE: Final = b"{}"


def encode_side(side: Side) -> bytes:
    return _ENCODER.encode(side)


def decode_side(data: bytes) -> Side:
    """The facts beside a frame. Raises MsgspecError where they are none."""
    return Side() if data == _EMPTY_SIDE else _SIDE_DECODER.decode(data)


def kept_side(data: bytes) -> Side:
    """The facts beside a stored frame; damaged ones are ``unreadable``, so that what is left can be shown."""
    try:
        return decode_side(data)
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError):
        return Side(unreadable=True)


def chain_hash(previous: bytes, kind: FrameKind, body: bytes) -> bytes:
    return hashlib.sha256(previous + kind.value.encode("ascii") + body).digest()


class JournalWriter:
    """Numbers and chains the frames of one run. It only builds frames; the store commits them."""

    __slots__ = ("bytes", "marks", "next_number", "previous")

    def __init__(
        self, next_number: int = 0, previous: bytes = ZERO_HASH, size: int = 0, marks: int = 0
    ) -> None:
        self.next_number = next_number
        self.previous = previous
        self.bytes = size
        self.marks = marks

    def frame(self, kind: FrameKind, body: bytes, at: int, side: Side | None = None) -> Frame:
        digest = chain_hash(self.previous, kind, body)
        frame = Frame(self.next_number, kind, body, digest, at, side if side is not None else Side())
        self.next_number += 1
        self.previous = digest
        self.bytes += len(body)
        return frame

    def state(self) -> tuple[int, bytes, int, int]:
        """Where the chain ends: for going back to it when a commit is refused."""
        return (self.next_number, self.previous, self.bytes, self.marks)

    def go_back(self, state: tuple[int, bytes, int, int]) -> None:
        """Forget the frames and marks that were made since ``state`` was taken."""
        self.next_number, self.previous, self.bytes, self.marks = state

    def mark(self, at: int, side: Side) -> Mark:
        self.marks += 1
        return Mark(self.marks - 1, self.next_number, at, side)


def verify_chain(frames: Iterable[Frame]) -> None:
    """Raise JournalBroken at the first frame whose number, kind order or hash does not fit."""
    previous = ZERO_HASH
    ended = False
    for expected, frame in enumerate(frames):
        if frame.number != expected:
            raise JournalBroken(expected, f"frame {expected} is missing; the next one is {frame.number}")
        if (frame.kind is FrameKind.START) != (expected == 0):
            raise JournalBroken(expected, f"frame {expected} is a {frame.kind.value} frame out of place")
        if ended:
            raise JournalBroken(expected, f"frame {expected} stands after the end frame")
        if chain_hash(previous, frame.kind, frame.body) != frame.hash:
            raise JournalBroken(expected, f"frame {expected} does not match its hash")
        previous = frame.hash
        ended = frame.kind is FrameKind.END


def verify_journal(frames: Sequence[Frame], marks: Iterable[Mark]) -> None:
    """Raise JournalBroken where a run cannot be replayed from this: the chain, or a fact beside it, is damaged."""
    if not frames:
        raise JournalBroken(0, "it is empty: not even its start frame is there")
    verify_chain(frames)
    for frame in frames:
        if frame.side.unreadable:
            raise JournalBroken(frame.number, f"what stands beside frame {frame.number} cannot be read")
    for mark in marks:
        if mark.side.unreadable:
            raise JournalBroken(mark.after_frame, f"a note before frame {mark.after_frame} cannot be read")


def start_body(
    *,
    script_hash: str,
    args: Any,
    limits: Mapping[str, int],
    agents: Sequence[str],
    options_hash: str,
    runtime_signature: str,
) -> bytes:
    """The body of frame 0: everything a replay needs to know besides the script's text."""
    return jsontext.encode(
        {
            "script_hash": script_hash,
            "args": args,
            "limits": dict(limits),
            "agents": sorted(agents),
            "options_hash": options_hash,
            "runtime_signature": runtime_signature,
        }
    )


def pack_results(results: Sequence[bytes], frame_bytes: int) -> list[bytes]:
    """Response bodies for results that are canonical JSON objects, in order, each body within the bound.

    All but the last body carry ``"more":true``: they belong to one batch.
    """
    head, tail, more = b'{"results":[', b"]}", b'"more":true,'
    groups: list[list[bytes]] = [[]]
    room = frame_bytes - len(head) - len(tail) - len(more)
    used = 0
    for result in results:
        if groups[-1] and used + len(result) + 1 > room:
            groups.append([])
            used = 0
        groups[-1].append(result)
        used += len(result) + 1
    bodies = [b'{"more":true,"results":[' + b",".join(group) + tail for group in groups[:-1]]
    bodies.append(head + b",".join(groups[-1]) + tail)
    return bodies
