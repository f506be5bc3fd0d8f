"""The hash chain: any change, gap, reorder or surplus is found at the frame where it is."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows_core.journal.frames import (
    Frame,
    FrameKind,
    JournalBroken,
    JournalWriter,
    Side,
    decode_side,
    encode_side,
    pack_results,
    verify_chain,
)
from workflows_core.jsontext import encode, parse


def journal(bodies: list[bytes]) -> list[Frame]:
    writer = JournalWriter()
    kinds = [FrameKind.START] + [
        FrameKind.REQUEST if number % 2 else FrameKind.RESPONSE for number in range(1, len(bodies))
    ]
    return [
        writer.frame(kind, body, 1000 + i) for i, (kind, body) in enumerate(zip(kinds, bodies, strict=True))
    ]


BODIES = st.lists(
    st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=3).map(encode), min_size=1, max_size=8
)


@given(BODIES)
def test_an_untouched_journal_verifies(bodies: list[bytes]) -> None:
    verify_chain(journal(bodies))


@given(BODIES, st.data())
def test_a_changed_byte_is_found_at_its_frame(bodies: list[bytes], data: st.DataObject) -> None:
    frames = journal(bodies)
    number = data.draw(st.integers(0, len(frames) - 1))
    body = bytearray(frames[number].body)
    index = data.draw(st.integers(0, len(body) - 1))
    body[index] ^= data.draw(st.integers(1, 255))
    frames[number] = msgspec.structs.replace(frames[number], body=bytes(body))
    with pytest.raises(JournalBroken) as caught:
        verify_chain(frames)
    assert caught.value.number == number


@given(BODIES.filter(lambda bodies: len(bodies) > 2), st.data())
def test_a_missing_frame_is_found_where_it_is_missing(bodies: list[bytes], data: st.DataObject) -> None:
    frames = journal(bodies)
    number = data.draw(st.integers(0, len(frames) - 2))
    del frames[number]
    with pytest.raises(JournalBroken) as caught:
        verify_chain(frames)
    assert caught.value.number == number


def test_nothing_may_follow_the_end() -> None:
    writer = JournalWriter()
    frames = [
        writer.frame(FrameKind.START, b"{}", 1),
        writer.frame(FrameKind.END, b"{}", 2),
        writer.frame(FrameKind.REQUEST, b"{}", 3),
    ]
    with pytest.raises(JournalBroken, match="after the end"):
        verify_chain(frames)


def test_a_journal_that_was_cut_off_is_not_broken() -> None:
    verify_chain(journal([b"{}"] * 5)[:3])


@given(st.lists(st.integers(2, 60).map(lambda n: encode("x" * n)), min_size=1, max_size=20))
def test_results_are_packed_in_order_within_the_bound(results: list[bytes]) -> None:
    bodies = pack_results(results, 120)
    assert all(len(body) <= 120 for body in bodies)
    parsed = [parse(body) for body in bodies]
    assert [result for body in parsed for result in body["results"]] == [parse(result) for result in results]
    assert [body.get("more", False) for body in parsed] == [True] * (len(bodies) - 1) + [False]
    assert all(encode(body) == raw for body, raw in zip(parsed, bodies, strict=True))


def test_a_side_round_trips_and_an_empty_one_is_two_bytes() -> None:
    side = Side(positions=((1, 2), None), admitting=("a",))
    assert decode_side(encode_side(side)) == side
    assert encode_side(Side()) == b"{}"
    assert decode_side(b"{}") == Side()
