"""Positions in a recorded run: what a moment shows, and where each frame lies between calls and turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from .. import jsontext
from .frames import Frame, FrameKind
from .replay import Divergence


class Local(msgspec.Struct, frozen=True):
    """A variable in sight. ``value`` is JSON; what JSON cannot say is ``{"$type": …}``."""

    name: str
    kind: str
    scope: str
    value: Any


class Pending(msgspec.Struct, frozen=True):
    """A call in flight: asked for and not yet answered. ``label`` is its step id, or its operation."""

    call: int
    label: str
    line: int | None
    column: int | None


class Moment(msgspec.Struct, frozen=True):
    """A position. ``frame`` is the latest frame that was emitted or delivered; ``statement`` counts statements begun.

    ``kind`` is statement, breakpoint, request, response or end. ``line`` and ``column`` are those of the statement,
    of the call that a request makes, or of the call that a response answers. ``diverged`` is set where the replay
    stops agreeing here, ``limit`` where a bound of the worker stopped it.
    """

    kind: str
    frame: int
    statement: int
    line: int | None
    column: int | None
    locals: tuple[Local, ...]
    pending: tuple[Pending, ...]
    diverged: Divergence | None = None
    limit: str | None = None


class Entry(msgspec.Struct):
    """A frame: a request's last ``call`` from 0 (with it the frame is complete), or the ``turns`` that ran before a response is delivered."""

    kind: FrameKind
    call: int = 0
    turns: int = 0
    answers: int | None = None
    place: tuple[int, int] | None = None


class Table:
    """Where each frame lies in the run: calls counted from 0, and the turns before each response."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self.entries: list[Entry] = []
        self.calls: list[dict[str, Any]] = []
        self.places: list[tuple[int, int] | None] = []
        #: Call id → how many turns had run when its answer was delivered.
        self.answered: dict[int, int] = {}
        place_of: dict[int, tuple[int, int] | None] = {}
        turns = 1
        for frame in frames:
            entry = Entry(frame.kind)
            body = jsontext.parse(frame.body, f"frame {frame.number}")
            if frame.kind is FrameKind.REQUEST:
                calls = body["calls"]
                places = [*frame.side.positions[: len(calls)]]
                places += [None] * (len(calls) - len(places))
                entry.call = len(self.calls) + len(calls) - 1
                entry.place = next((place for place in reversed(places) if place is not None), None)
                self.calls += calls
                self.places += places
                place_of |= {
                    call["id"]: place for call, place in zip(calls, places, strict=True) if "id" in call
                }
            elif frame.kind is FrameKind.RESPONSE:
                ids = [result["id"] for result in body["results"]]
                entry.turns = turns
                entry.answers = ids[0]
                entry.place = place_of.get(ids[0])
                self.answered |= dict.fromkeys(ids, turns)
                if not body.get("more"):
                    turns += 1
            self.entries.append(entry)

    def latest(self, queued: int, started: int) -> int:
        """The latest frame that is emitted or delivered when ``queued`` calls were made and ``started`` turns begun."""
        latest = 0
        for number, entry in enumerate(self.entries):
            made = entry.kind is FrameKind.REQUEST and entry.call < queued
            delivered = entry.kind is FrameKind.RESPONSE and started > entry.turns
            if made or delivered:
                latest = number
        return latest

    def pending(self, queued: int, started: int) -> tuple[Pending, ...]:
        """The calls that were made then and not answered yet."""
        found = []
        for call, place in zip(self.calls[:queued], self.places[:queued], strict=True):
            if "id" in call and self.answered.get(call["id"], 1 << 60) >= started:
                line, column = place if place is not None else (None, None)
                found.append(Pending(call["id"], str(call.get("step_id", call["op"])), line, column))
        return tuple(found)
