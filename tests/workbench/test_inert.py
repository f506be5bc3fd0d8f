"""No byte from outside reaches a terminal as a control sequence (invariant 13)."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.inert import acts, cells, inert, pad, shorten, symbol

#: Arabic, Syriac and Kaithi number and verse signs: category Cf, but drawn.
DRAWN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


def test_i13_every_control_and_format_character_becomes_visible() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and code not in DRAWN:
            shown = inert(char)
            assert shown != char, hex(code)
            assert not acts(shown), hex(code)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x1bP1$r0m\x1b\\", "␛P1$r0m␛\\"),
        ("\x9b31m", "\\u{009B}31m"),
        ("a\x00b\x7f", "a␀b␡"),
        ("user\u202etxt.exe", "user\\u{202E}txt.exe"),
        ("a\u2066b\u2069\u200f", "a\\u{2066}b\\u{2069}\\u{200F}"),
        ("a\u200bb\ufeff\u00ad", "a\\u{200B}b\\u{FEFF}\\u{00AD}"),
        ("\U000e0041\U000e007f", "\\u{E0041}\\u{E007F}"),
        ("a\u2028b\u2029", "a\\u{2028}b\\u{2029}"),
        ("\ud800 \udcff", "\\u{D800} \\u{DCFF}"),
        ("❤\ufe0f", "❤\\u{FE0F}"),
        ("a\r\n\tb", "a␍␊␉b"),
    ],
)
def test_what_acts_is_shown_as_a_symbol(text: str, shown: str) -> None:
    assert inert(text) == shown


@pytest.mark.parametrize("text", ["plain", "[bold]x[/]", "Grüße", "日本語", "e\u0301", "العربية", "🎉", ""])
def test_printable_text_is_unchanged(text: str) -> None:
    assert inert(text) == text
    assert not acts(text)


def test_line_feeds_stay_where_they_are_asked_for_and_nothing_else_does() -> None:
    assert inert("a\nb\r\n\x1bc", newlines=True) == "a\nb␍\n␛c"


@given(st.text(st.characters(exclude_categories=())))
@settings(max_examples=200, deadline=None)
def test_twice_is_once_and_nothing_acts_any_more(text: str) -> None:
    once = inert(text)
    assert inert(once) == once
    assert not acts(once)
    once.encode("utf-8")


def test_one_character_at_a_time_gives_the_same() -> None:
    text = "a\x1b\u202e\x85\n"
    assert "".join(map(symbol, text)) == inert(text)


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("hello", 5, "hello"),
        ("hello world", 5, "hell…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("a\x1bb\nc", 9, "a␛b␊c"),
        ("abc", 0, ""),
        ("abc", 1, "…"),
        ("", 4, ""),
    ],
)
def test_shorten_counts_cells(text: str, width: int, short: str) -> None:
    assert shorten(text, width) == short


@given(st.text(st.characters(exclude_categories=())), st.integers(0, 30))
@settings(max_examples=200, deadline=None)
def test_shortened_text_fits_and_is_inert(text: str, width: int) -> None:
    short = shorten(text, width)
    assert cells(short) <= width
    assert not acts(short)
    assert shorten(text, 10_000) == inert(text)


def test_pad_fills_cells_on_either_side() -> None:
    assert pad("日", 4) == "日  "
    assert pad("7", 3, right=True) == "  7"
    assert pad("long", 2) == "long"
