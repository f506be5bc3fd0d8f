from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workflows_core.script.regex_time import exponential_part


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        (r"(a+)+$", "(a+)+"),
        (r"(a*)*b", "(a*)*"),
        (r"(?:a+){2,}b", "(?:a+){2,}"),
        (r"(a|a)*c", "(a|a)*"),
        (r"(a|aa)+$", "(a|aa)+"),
        (r"^x(\w+\s?)+$", r"(\w+\s?)+"),
        (r"^(\d+|\w+)*$", r"(\d+|\w+)*"),
        (r"([a-z]+)*@", "([a-z]+)*"),
        (r"(.*)*x", "(.*)*"),
        (r"(?:x+x+)+y", "(?:x+x+)+"),
        (r"(\s*\w+\s*)+:", r"(\s*\w+\s*)+"),
        (r"(a{1,30}){1,30}b", "(a{1,30}){1,30}"),
        (r"(a{1,3})+b", "(a{1,3})+"),
        (r"(?=(a+)+$)x", "(a+)+"),
        (r"(?<name>a+)+b", "(?<name>a+)+"),
        (r"(x|\w)*!", r"(x|\w)*"),
        (r"(a+)+?b", "(a+)+?"),
        (r"([^,]*,?)*;", "([^,]*,?)*"),
        (r"(\u0061|\x61)+$", r"(\u0061|\x61)+"),
        (r"((a+)b?)+$", "((a+)b?)+"),
    ],
)
def test_exponential_patterns_are_found_with_their_part(pattern: str, part: str) -> None:
    assert exponential_part(pattern) == part


@pytest.mark.parametrize(
    "pattern",
    [
        r"a+b+",
        r"(a+b)+$",
        r"(\d{1,3}\.){3}\d{1,3}",
        r"^[\w-]+$",
        r"(\w+\s)+$",
        r"(a|b)*c",
        r"^\s*(\w+)\s*=\s*(.*)$",
        r"([^\"\\]|\\.)*",
        r"(a\1)+",
        r"\d+(,\d+)*",
        r"^(?:[a-z]+-)*[a-z]+$",
        r"(a?)*b",
        r"(?:ab|ac)+$",
        r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}",
        r"(\p{L}+\s+)+",
        r"[",
        r"(",
        r"a{2,1}{",
        r"",
    ],
)
def test_other_patterns_are_not(pattern: str) -> None:
    assert exponential_part(pattern) is None


def test_flags_change_what_overlaps() -> None:
    assert exponential_part("(a|A)+$") is None
    assert exponential_part("(a|A)+$", "i") == "(a|A)+"
    assert exponential_part(r"(.|\n)+$") is None
    assert exponential_part(r"(.|\n)+$", "s") == r"(.|\n)+"


@pytest.mark.parametrize("pattern", [r"a\p{", r"(\p{a+)+", r"[\P{x]", r"\u{", r"\k<a", "(?<a", "[a"])
def test_what_never_closes_is_given_up_on(pattern: str) -> None:
    assert exponential_part(pattern, "v") is None


@given(
    st.text(alphabet="ab()[]{}*+?|\\^$.-,:=!<>dwsux0123pk", max_size=40),
    st.sampled_from(["", "i", "v", "su"]),
)
@settings(max_examples=500, deadline=None)
def test_any_text_gives_an_answer(pattern: str, flags: str) -> None:
    part = exponential_part(pattern, flags)
    assert part is None or part in pattern


@pytest.mark.parametrize(
    "pattern", ["(a*" * 300 + ")*" * 300, "a?" * 2000, "(" + "a|" * 900 + "b)*", "(?:" + "a?" * 60 + ")*b"]
)
def test_huge_patterns_are_given_up_on(pattern: str) -> None:
    assert exponential_part(pattern) in (None, pattern[:-1], pattern)
