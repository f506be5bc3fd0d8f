"""Strict JSON at the engine's borders: what cannot pass through JavaScript unchanged is refused in words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows_core.jsontext import MAX_DEPTH, JsonRefused, encode, parse, repeated_key, size

SAFE = 2**53 - 1
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_encoded_parses_to_the_same_canonical_bytes(value: object) -> None:
    data = encode(value)
    assert encode(parse(data)) == data
    assert json.loads(data) == value
    assert size(value) == len(data)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("NaN", "NaN"),
        ("[Infinity]", "Infinity"),
        ("[-Infinity]", "-Infinity"),
        ("1e400", "out of range"),
        ("9007199254740993", "cannot represent exactly"),
        ("1" * 400, "cannot represent"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested deeper"),
        ("[" * 100_000, "nested deeper"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_what_is_refused_says_why(text: str | bytes, words: str) -> None:
    with pytest.raises(JsonRefused, match=words):
        parse(text)


def test_integers_that_a_double_holds_exactly_pass() -> None:
    assert parse("9007199254740992") == 2**53
    assert parse(str(2**60)) == 2**60


def test_brackets_inside_strings_are_no_nesting() -> None:
    assert parse(json.dumps("[" * 1000)) == "[" * 1000


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(JsonRefused, match="lone surrogate"):
        encode({"a": "\ud800"})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", object()])
def test_values_without_json_are_refused(value: object) -> None:
    with pytest.raises(JsonRefused):
        encode(value)


def test_proto_keys_and_nul_characters_are_ordinary_data() -> None:
    assert parse(encode({"__proto__": {"x": 1}, "a\0b": "\0"})) == {"__proto__": {"x": 1}, "a\0b": "\0"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1, "a": 2}', ("a", 9)),
        ('[{"a": {"b": 1, "b" : 2}}]', ("b", 16)),
        ('{"a": 1, "\\u0061": 2}', ("a", 9)),
        ('{"a": {"a": ["a", "a", {"a": "a"}]}, "b": "a"}', None),
        ('{"a": "{\\"a\\": 1, \\"a\\":", "b": ":"}', None),
        ('[{"a": 1}, {"a": 2}]', None),
        ("{}", None),
        ("1", None),
    ],
)
def test_a_key_that_an_object_has_twice_is_found(text: str, found: tuple[str, int] | None) -> None:
    parse(text)
    assert repeated_key(text) == found
