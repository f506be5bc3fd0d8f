"""A worker's frames are not trusted: what is not exactly right is refused."""

from __future__ import annotations

from typing import Any

import pytest

from workflows_core.jsontext import encode
from workflows_core.worker import protocol as p
from workflows_core.worker.protocol import FrameRefused
from workflows_core.worker.turns import Source, Turn, TurnReader

SCRIPT = "const a = 1;\nawait agent({stepId: 'a'});\n"
NOWHERE: list[list[int]] = [[], []]


def agent(call_id: int = 1, **changes: Any) -> dict[str, Any]:
    call = {"id": call_id, "op": "agent", "step_id": f"s{call_id}", "agent_ref": "x", "task": None}
    call.update(changes)
    return {key: value for key, value in call.items() if value is not ...}


def feed(reader: TurnReader, *calls: Any, outstanding: int | None = None, **extra: Any) -> Turn | None:
    reader.feed(p.PLACES, encode([NOWHERE] * len(calls)))
    reader.feed(p.REQUEST, encode({"calls": list(calls), **extra}))
    if outstanding is None:
        return None
    return reader.feed(p.IDLE, b"%d 3" % outstanding)


def test_a_turn_carries_canonical_bodies_and_counts() -> None:
    reader = TurnReader(SCRIPT)
    reader.feed(p.PLACES, b"[[[2,7],[2,13]]]")
    reader.feed(
        p.REQUEST,
        b'{"calls":[{"id":1,"op":"agent","step_id":"a","agent_ref":"x","task":{"b":1,"a":[1e-7]}}]}',
    )
    turn = reader.feed(p.IDLE, b"1 0")
    assert turn is not None
    (request,) = turn.requests
    assert request.body == (
        b'{"calls":[{"agent_ref":"x","id":1,"op":"agent","step_id":"a","task":{"a":[1e-07],"b":1}}]}'
    )
    assert request.positions == ((2, 7),)
    assert (turn.outstanding, turn.jobs, turn.end) == (1, 0, None)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(7, id="no object"),
        pytest.param({"op": "agent"}, id="fields missing"),
        pytest.param(agent(op="shell"), id="unknown operation"),
        pytest.param(agent(op=["agent"]), id="operation of another type"),
        pytest.param(agent(extra=1), id="a field too many"),
        pytest.param(agent(id="1"), id="id as text"),
        pytest.param(agent(id=True), id="id as boolean"),
        pytest.param(agent(id=2), id="id skipped"),
        pytest.param(agent(id=0), id="id too small"),
        pytest.param(agent(id=...), id="no id"),
        pytest.param(agent(step_id="a b"), id="stepId with a space"),
        pytest.param(agent(step_id="a\n"), id="stepId with a line end"),
        pytest.param(agent(step_id="é"), id="stepId outside ASCII"),
        pytest.param(agent(step_id="a" * 81), id="stepId too long"),
        pytest.param(agent(step_id=""), id="stepId empty"),
        pytest.param(agent(agent_ref=""), id="agent_ref empty"),
        pytest.param(agent(agent_ref=5), id="agent_ref of another type"),
        pytest.param(agent(artifacts="v"), id="artifacts no list"),
        pytest.param(agent(artifacts=[1]), id="artifacts of another type"),
        pytest.param({"op": "log", "message": "x", "id": 1}, id="log with an id"),
        pytest.param({"op": "log", "message": 1}, id="log of a number"),
        pytest.param({"id": 1, "op": "read", "artifact_version": "v", "offset": -1}, id="offset below zero"),
        pytest.param({"id": 1, "op": "read", "artifact_version": "v", "offset": 1.0}, id="offset as float"),
        pytest.param({"id": 1, "op": "pause", "step_id": "a", "task": 1}, id="pause with a task"),
        pytest.param(
            {"id": 1, "op": "checkpoint", "step_id": "a", "source_step_id": "", "artifact_version": "v"},
            id="checkpoint without a source",
        ),
        pytest.param(
            {"id": 1, "op": "capture", "step_id": "a", "source_step_id": "b", "path": None}, id="no path"
        ),
    ],
)
def test_a_wrong_call_is_refused(call: Any) -> None:
    with pytest.raises(FrameRefused):
        feed(TurnReader(SCRIPT), call)


def test_ids_and_steps_never_repeat() -> None:
    reader = TurnReader(SCRIPT)
    feed(reader, agent(1), outstanding=1)
    with pytest.raises(FrameRefused, match="out of order"):
        feed(reader, agent(1))
    reader = TurnReader(SCRIPT)
    with pytest.raises(FrameRefused, match="same stepId"):
        feed(reader, agent(1, step_id="a"), {"id": 2, "op": "pause", "step_id": "a"})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"calls":[]}',
        b'{"calls":{}}',
        b'{"calls":[],"x":1}',
        b"nonsense",
        b"\xff",
        b"NaN",
    ],
)
def test_a_request_that_is_none_is_refused(body: bytes) -> None:
    reader = TurnReader(SCRIPT)
    reader.feed(p.PLACES, b"[]")
    with pytest.raises(FrameRefused):
        reader.feed(p.REQUEST, body)


def test_only_true_says_that_more_frames_follow() -> None:
    with pytest.raises(FrameRefused):
        feed(TurnReader(SCRIPT), agent(1), more=False)


def test_a_round_over_several_frames_needs_its_last_one() -> None:
    reader = TurnReader(SCRIPT)
    feed(reader, agent(1), more=True)
    with pytest.raises(FrameRefused, match="not complete"):
        reader.feed(p.IDLE, b"1 0")
    reader = TurnReader(SCRIPT)
    feed(reader, agent(1), more=True)
    turn = feed(reader, agent(2), outstanding=2)
    assert turn is not None
    assert [request.body.count(b'"more":true') for request in turn.requests] == [1, 0]
    feed(reader, agent(3))
    with pytest.raises(FrameRefused, match="after the last"):
        feed(reader, agent(4))


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"by":"engine","ok":true,"value":1}',
        b'{"by":"script","ok":true}',
        b'{"by":"script","ok":1,"value":1}',
        b'{"by":"script","ok":true,"value":1,"error":{}}',
        b'{"by":"script","ok":false,"error":{"name":"a","code":"b"}}',
        b'{"by":"script","ok":false,"error":{"name":"a","code":"b","message":1}}',
        b'{"by":"script","ok":false,"error":{"name":"a","code":"b","message":"c","stack":"d"}}',
        b'{"by":"script","ok":true,"value":9007199254740993}',
        b'{"by":"script","ok":true,"value":"\\ud800"}',
    ],
)
def test_an_end_that_is_none_is_refused(body: bytes) -> None:
    reader = TurnReader(SCRIPT)
    reader.feed(p.PLACES, b"[[[],[]]]")
    with pytest.raises(FrameRefused):
        reader.feed(p.END, body)


def test_a_script_ends_once_and_asks_for_nothing_afterwards() -> None:
    for kind, body in (
        (p.END, b'{"by":"script","ok":true,"value":2}'),
        (p.REQUEST, encode({"calls": [agent(1)]})),
    ):
        reader = TurnReader(SCRIPT)
        reader.feed(p.PLACES, b"[[[],[]]]")
        reader.feed(p.END, b'{"by":"script","ok":true,"value":1}')
        reader.feed(p.PLACES, b"[[[],[]]]")
        with pytest.raises(FrameRefused):
            reader.feed(kind, body)


@pytest.mark.parametrize(
    "payload", [b"", b"1", b"1 0 ", b"01 0", b"-1 0", b"1 1e9", b"2 0", b"0 0", b"1234567890 0"]
)
def test_the_counts_of_a_turn_must_be_right(payload: bytes) -> None:
    reader = TurnReader(SCRIPT)
    feed(reader, agent(1))
    with pytest.raises(FrameRefused):
        reader.feed(p.IDLE, payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b"[1]",
        b"[[[1],[]]]",
        b"[[[0,1],[]]]",
        b"[[[1,1.5],[]]]",
        b"[[[1,1]]]",
        b"[[[1,true],[]]]",
        b"[]",
    ],
)
def test_positions_that_are_none_are_refused(payload: bytes) -> None:
    reader = TurnReader(SCRIPT)
    with pytest.raises(FrameRefused):
        reader.feed(p.PLACES, payload)
        reader.feed(p.REQUEST, encode({"calls": [agent(1)]}))


def test_a_turn_without_positions_or_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(FrameRefused):
        TurnReader(SCRIPT).feed(p.REQUEST, encode({"calls": [agent(1)]}))
    with pytest.raises(FrameRefused):
        TurnReader(SCRIPT).feed(90, b"")
    with pytest.raises(FrameRefused):
        TurnReader(SCRIPT).feed(p.READY, b"")


def test_a_turn_is_bounded() -> None:
    reader = TurnReader(SCRIPT)
    big = encode({"calls": [{"op": "log", "message": "x" * 40_000}], "more": True})
    with pytest.raises(FrameRefused, match="more in one turn"):
        for _ in range(p.TURN_BYTES // 40_000 + 1):
            reader.feed(p.PLACES, b"[[[],[]]]")
            reader.feed(p.REQUEST, big)


def test_only_outstanding_calls_are_answered() -> None:
    reader = TurnReader(SCRIPT)
    feed(reader, agent(1), agent(2), outstanding=2)
    reader.answer([2])
    with pytest.raises(ValueError, match="call 2"):
        reader.answer([2])
    with pytest.raises(ValueError, match="call 3"):
        reader.answer([3])


@pytest.mark.parametrize(
    ("script", "place", "expected"),
    [
        ("abc", [[], []], None),
        ("abc", [[], [1, 2]], (1, 2)),
        ("agent({a: b.c})", [[1, 1], [1, 13]], (1, 1)),
        ("agent\n  ({})", [[1, 1], [2, 4]], (1, 1)),
        ("agent ?. ({})", [[1, 1], [1, 2]], (1, 1)),
        ("const f = agent; f()", [[1, 11], [1, 18]], (1, 18)),
        ("[].map(agent)", [[1, 8], []], (1, 8)),
        ("'é中😀'; agent()", [[1, 14], [1, 14]], (1, 8)),
        ("a\r\nb\rc\nagent()", [[4, 1], [4, 1]], (3, 1)),
        ("a\r\nb\rä; agent()", [[3, 5], [3, 5]], (2, 6)),
        ("one\ntwo", [[], [9, 1]], (2, 4)),
        ("one", [[], [1, 99]], (1, 4)),
    ],
)
def test_a_place_becomes_a_line_and_a_column_in_characters(script: str, place: Any, expected: Any) -> None:
    assert Source(script).position(place) == expected
