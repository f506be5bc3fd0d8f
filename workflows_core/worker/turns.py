"""What a worker says, checked: its frames become a Turn, or a refusal.

The process that runs a script is not trusted. Every body is parsed strictly, every call is checked field by
field, and what is handed on is our own canonical encoding of what was understood.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import msgspec

from ..jsontext import JsonRefused, encode, parse
from ..limits import STEP_ID_LENGTH
from ..script.lexing import line_starts
from . import protocol
from .protocol import FrameRefused

#: Line and column in a script, from 1; the column counts characters.
Position = tuple[int, int]
#: What the engine says: where a function was read and where it was called; each a line and a column, or empty.
Place = tuple[list[int], list[int]]

_STEP_ID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{STEP_ID_LENGTH}}}")
_PLACES: Final = msgspec.json.Decoder(list[Place])
_LINE_END: Final = re.compile("(?:\r\n|[\n\r\u2028\u2029])\\Z")
_NAME_ONLY: Final = re.compile(r"\w+\s*")
_CALL: Final = re.compile(r"\w+\s*(\?\.\s*)?\(")
_IDLE: Final = re.compile(rb"(0|[1-9][0-9]{0,8}) (0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class RequestFrame:
    """One request frame: its canonical body, the calls in it, and where in the script each was made.

    ``positions`` has one entry a call: line and column, both from 1, the column in characters; None where no
    line of the script made the call (for example a built-in that called ``agent`` itself).
    """

    body: bytes
    calls: tuple[dict[str, Any], ...]
    positions: tuple[Position | None, ...]


@dataclass(frozen=True, slots=True)
class EndFrame:
    """How the script ended: its canonical body, and what is in it.

    ``error`` has name, code and message; ``position`` is where that error was made.
    """

    body: bytes
    ok: bool
    value: Any
    error: dict[str, str] | None
    position: Position | None


@dataclass(frozen=True, slots=True)
class Turn:
    """What one entry into the script produced.

    ``outstanding`` counts the calls that still wait for a response. Without an end and with none outstanding
    the script can never go on: it is stalled.
    """

    requests: tuple[RequestFrame, ...]
    end: EndFrame | None
    outstanding: int
    jobs: int


def _text(value: Any) -> bool:
    return type(value) is str


def _name(value: Any) -> bool:
    return type(value) is str and value != ""


def _step(value: Any) -> bool:
    return type(value) is str and _STEP_ID.fullmatch(value) is not None


def _offset(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 2**53


def _anything(value: Any) -> bool:
    return True


def _names(value: Any) -> bool:
    return type(value) is list and all(_name(item) for item in value)


_OPERATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "agent": {"step_id": _step, "agent_ref": _name, "task": _anything},
    "pause": {"step_id": _step},
    "checkpoint": {"step_id": _step, "source_step_id": _step, "artifact_version": _name},
    "capture": {"step_id": _step, "source_step_id": _step, "path": _name},
    "read": {"artifact_version": _name, "offset": _offset},
    "log": {"message": _text},
}


class TurnReader:
    """Collects the frames of one worker into turns, and remembers which calls it may still be answered.

    ``feed`` raises FrameRefused for anything a worker of ours would not send.
    """

    def __init__(self, script: str) -> None:
        self._script = script
        self._source: Source | None = None
        self._requests: list[RequestFrame] = []
        self._end: EndFrame | None = None
        self._places: list[Place] | None = None
        self._more = False
        self._bytes = 0
        self._last_id = 0
        self._steps: set[str] = set()
        self._outstanding: set[int] = set()

    def answer(self, ids: list[int]) -> None:
        """The calls ``ids`` are about to be answered. Raises ValueError for one that is not outstanding."""
        for call_id in ids:
            if call_id not in self._outstanding:
                raise ValueError(f"call {call_id} is not outstanding")
            self._outstanding.discard(call_id)

    def feed(self, kind: int, payload: bytes) -> Turn | None:
        """Take one frame; returns the turn when it was the last of it."""
        self._bytes += len(payload)
        if self._bytes > protocol.TURN_BYTES:
            raise FrameRefused("more in one turn than it may hold")
        if kind == protocol.PLACES:
            self._read_places(payload)
        elif kind == protocol.REQUEST:
            self._requests.append(self._read_request(payload))
        elif kind == protocol.END:
            if self._end is not None:
                raise FrameRefused("it ended the script twice")
            self._end = self._read_end(payload)
        elif kind == protocol.IDLE:
            return self._finish(payload)
        else:
            raise FrameRefused(f"a frame of the unknown kind {kind}")
        return None

    def _finish(self, payload: bytes) -> Turn:
        counts = _IDLE.fullmatch(payload)
        if counts is None or self._places is not None or self._more:
            raise FrameRefused("a turn that is not complete")
        outstanding, jobs = int(counts[1]), int(counts[2])
        if self._end is None and outstanding != len(self._outstanding):
            raise FrameRefused(f"{outstanding} outstanding calls where there are {len(self._outstanding)}")
        turn = Turn(tuple(self._requests), self._end, len(self._outstanding), jobs)
        self._requests = []
        self._bytes = 0
        return turn

    def _read_places(self, payload: bytes) -> None:
        if self._places is not None:
            raise FrameRefused("positions out of place")
        self._places = read_places(payload)

    def _read_request(self, payload: bytes) -> RequestFrame:
        body = _parsed(payload, "its request")
        if type(body) is not dict or not body.keys() <= {"calls", "more"} or self._end is not None:
            raise FrameRefused("a request that is none")
        calls = body.get("calls")
        if type(calls) is not list or not calls or body.get("more", True) is not True:
            raise FrameRefused("a request without calls")
        if self._requests and not self._more:
            raise FrameRefused("a request after the last one of a turn")
        self._more = "more" in body
        for call in calls:
            self._check(call)
        places, self._places = self._places, None
        if places is None or len(places) != len(calls):
            raise FrameRefused("positions that do not fit the calls")
        return RequestFrame(_encoded(body), tuple(calls), tuple([self._position(place) for place in places]))

    def _check(self, call: Any) -> None:
        if type(call) is not dict:
            raise FrameRefused("a call that is none")
        operation = call.get("op")
        fields = _OPERATIONS.get(operation) if type(operation) is str else None
        if fields is None:
            raise FrameRefused("a call of an unknown operation")
        expected = {"op", *fields}
        if operation != "log":
            expected.add("id")
        if operation == "agent" and "artifacts" in call:
            expected.add("artifacts")
            if not _names(call["artifacts"]):
                raise FrameRefused("artifacts that are no list of versions")
        if call.keys() != expected:
            raise FrameRefused(f"a call {operation} with the wrong fields")
        for field, holds in fields.items():
            if not holds(call[field]):
                raise FrameRefused(f"a call {operation} with a wrong {field}")
        if operation == "log":
            return
        call_id = call["id"]
        if type(call_id) is not int or call_id != self._last_id + 1:
            raise FrameRefused("a call out of order")
        self._last_id = call_id
        if "step_id" in fields:
            if call["step_id"] in self._steps:
                raise FrameRefused("the same stepId twice")
            self._steps.add(call["step_id"])
        self._outstanding.add(call_id)

    def _read_end(self, payload: bytes) -> EndFrame:
        body = _parsed(payload, "its end")
        places, self._places = self._places, None
        if type(body) is not dict or body.get("by") != "script" or places is None or len(places) != 1:
            raise FrameRefused("an end that is none")
        position = self._position(places[0])
        if body.get("ok") is True and body.keys() == {"by", "ok", "value"}:
            return EndFrame(_encoded(body), True, body["value"], None, position)
        error = body.get("error")
        if (
            body.get("ok") is not False
            or body.keys() != {"by", "ok", "error"}
            or type(error) is not dict
            or error.keys() != {"name", "code", "message"}
            or not all(type(part) is str for part in error.values())
        ):
            raise FrameRefused("an end that is none")
        return EndFrame(_encoded(body), False, None, error, position)

    def _position(self, place: Place) -> Position | None:
        if self._source is None:
            self._source = Source(self._script)
        return self._source.position(place)


class Source:
    """The text of a script, to make sense of the places that the engine names in it.

    The engine ends lines at more characters than a line feed (``lexing.line_starts``). Its lines are used up to what
    leaves here: that counts lines as everything else does.
    """

    def __init__(self, script: str) -> None:
        self._script = script
        self._starts = line_starts(script)
        self._same = len(self._starts) == script.count("\n") + 1
        whole = [script[start:end] for start, end in pairwise([*self._starts, len(script)])]
        self._lines = [*(_LINE_END.sub("", line) for line in whole[:-1]), whole[-1]]

    def is_behind(self, place: Place) -> bool:
        """Whether the engine found something wrong only behind the end of the script."""
        return bool(place[1]) and place[1][0] > len(self._lines)

    def position(self, place: Place) -> Position | None:
        """Line and column for a place. None when the engine knows none; FrameRefused for what cannot be one.

        The engine knows a call only by the last expression in it that has a place of its own, often in its
        arguments. Where the source shows a call at the reading, that is the better answer.
        """
        read, call = self._pair(place[0]), self._pair(place[1])
        if read is not None and (call is None or self._is_call(read)):
            return self._told(read)
        return self._told(call)

    def _told(self, position: Position | None) -> Position | None:
        if position is None or self._same:
            return position
        at = self._starts[position[0] - 1] + position[1] - 1
        return self._script.count("\n", 0, at) + 1, at - self._script.rfind("\n", 0, at)

    def _pair(self, pair: list[int]) -> Position | None:
        if not pair:
            return None
        if len(pair) != 2 or pair[0] < 1 or pair[1] < 1:
            raise FrameRefused("a position that is none")
        line, column = pair
        if line > len(self._lines):  # the engine reports an unfinished script behind its end
            return len(self._lines), len(self._lines[-1]) + 1
        text = self._lines[line - 1]
        if not text.isascii():  # the engine counts bytes
            column = len(text.encode("utf-8")[: column - 1].decode("utf-8", "ignore")) + 1
        return line, min(column, len(text) + 1)

    def _is_call(self, position: Position) -> bool:
        line, column = position
        rest = self._lines[line - 1][column - 1 :]
        following = line
        while _NAME_ONLY.fullmatch(rest) and following < len(self._lines):
            rest += " " + self._lines[following]
            following += 1
        return _CALL.match(rest) is not None


def read_places(payload: bytes) -> list[Place]:
    """The places in a PLACES frame; FrameRefused for anything else."""
    try:
        return _PLACES.decode(payload)
    except msgspec.MsgspecError:
        raise FrameRefused("positions that are none") from None


def _parsed(payload: bytes, what: str) -> Any:
    try:
        return parse(payload, what)
    except JsonRefused as error:
        raise FrameRefused(str(error)) from None


def _encoded(body: Any) -> bytes:
    try:
        return encode(body, "its body")
    except JsonRefused as error:
        raise FrameRefused(str(error)) from None
