from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.yamltext import MAX_NODES, Section, YamlRefused, parse

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["C"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc <:-", max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(_JSON)
@settings(max_examples=100, deadline=None)
def test_what_json_can_say_comes_back_from_json_text(value: object) -> None:
    assert parse(json.dumps(value, ensure_ascii=False), "f").value == value


@given(_JSON)
@settings(max_examples=50, deadline=None)
def test_what_json_can_say_comes_back_from_block_style(value: object) -> None:
    text = yaml.safe_dump(value, allow_unicode=True, default_flow_style=False)
    assert parse(text, "f").value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("'true'", "true"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("010", "010"),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        ("-0", 0),
        ("~", None),
        ("", None),
        ("!!str 5", "5"),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("{a: &x {k: 1}, b: {<<: *x, k: 2}}", {"a": {"k": 1}, "b": {"k": 2}}),
        ("{'<<': 1}", {"<<": 1}),
    ],
)
def test_plain_words_mean_what_a_person_expects(text: str, value: object) -> None:
    parsed = parse(text, "f").value
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("a: 1\na: 2\n", "a occurs twice", (2, 1)),
        ("a: !!python/object:os.system x", "has the tag", (1, 4)),
        ("- &a [*a]", "refers to itself", (1, 3)),
        ("? [1]\n: 2", "has a key that is not text", (1, 3)),
        ("a: 1e999", "is a number out of range", (1, 4)),
        ("a: 9007199254740993", "cannot represent exactly", (1, 4)),
        ("a: " + "9" * 400, "cannot represent", (1, 4)),
        ("x: [1, 2", "not valid YAML", None),
        ("- " * 500 + "x", "nested deeper than 200 levels", None),
        ("- " * 100_000 + "x", "not valid YAML", None),
        ("--- a\n--- b", "not valid YAML", (2, 1)),
        ("a: {<<: 5}", "merges", None),
    ],
)
def test_what_is_refused_is_named_with_its_place(
    text: str, message: str, position: tuple[int, int] | None
) -> None:
    with pytest.raises(YamlRefused) as caught:
        parse(text, "f.yaml")
    assert message in caught.value.message
    if position is not None:
        assert caught.value.position == position
        assert caught.value.message.startswith(f"f.yaml:{position[0]}:{position[1]}: ")


@pytest.mark.parametrize("data", [b"\xff", b"a: \x01", b"a: \xed\xa0\x80"])
def test_bytes_that_are_no_text_are_refused(data: bytes) -> None:
    with pytest.raises(YamlRefused, match=r"^f\.yaml: "):
        parse(data, "f.yaml")


def test_aliases_cannot_multiply_without_end() -> None:
    levels = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    levels += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(YamlRefused, match=f"more than {MAX_NODES:,} values"):
        parse("\n".join(levels), "f")


def test_hostile_keys_are_shown_inert() -> None:
    with pytest.raises(YamlRefused) as caught:
        parse('{"\\e]0;x": 1, "\\e]0;x": 2}', "f\x1b")
    assert "\x1b" not in caught.value.message


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    document = parse("name: a\nenabledd: true\n", "f.yaml")
    section = Section(document, (), document.value, "the file")
    section.text("name")
    section.flag("enabled", True)
    with pytest.raises(YamlRefused) as caught:
        section.done()
    assert caught.value.message == (
        "f.yaml:2:1: enabledd is not a key of the file. Did you mean 'enabled'? Known keys: name, enabled"
    )
