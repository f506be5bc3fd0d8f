from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.agents.template import FILLED_CHARACTERS, TemplateError, fill

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab{}task. ", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)
_LOOKS_FILLED = re.compile(r"\{\{\s*task[^{}]*\}\}")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("{{task.product}}", "soap"),
        ("for {{ task.product }}!", "for soap!"),
        ("{{task.formula}}", ["water", {"name": "oil"}]),
        ("{{task.formula.1.name}}", "oil"),
        ("has {{task.formula.0}} and {{task.count}}", "has water and 3"),
        ("all: {{task.formula}}", 'all: ["water",{"name":"oil"}]'),
        ("{{task.nothing}}", None),
        ("x{{task.nothing}}", "xnull"),
        ("{{task.trick}}", "{{task.product}}"),
        ("{{other.product}}", "{{other.product}}"),
        ("{{tasks.product}}", "{{tasks.product}}"),
        ("{task.product}", "{task.product}"),
        ({"a": ["{{task.product}}"], "{{task.product}}": 1}, {"a": ["soap"], "{{task.product}}": 1}),
        (5, 5),
    ],
)
def test_placeholders_are_filled_in(reply: Any, expected: Any) -> None:
    task = {
        "product": "soap",
        "formula": ["water", {"name": "oil"}],
        "count": 3,
        "nothing": None,
        "trick": "{{task.product}}",
    }
    assert fill(reply, task) == expected


def test_the_whole_task_can_be_inserted() -> None:
    assert fill("{{task}}", "text") == "text"
    assert fill("{{task}}", [1]) == [1]
    assert fill("<{{task}}>", {"b": 1, "a": 2}) == '<{"a":2,"b":1}>'


@pytest.mark.parametrize("name", ["task.missing", "task.a.b", "task.list.3", "task.list.-1", "task.list.x"])
def test_a_name_that_is_not_there_is_an_error(name: str) -> None:
    with pytest.raises(TemplateError, match=re.escape("{{" + name + "}}")):
        fill("{{" + name + "}}", {"a": 1, "list": [1]})


def test_filling_in_is_bounded() -> None:
    with pytest.raises(TemplateError, match="grows past"):
        fill(["{{task}}"] * 2, "x" * (FILLED_CHARACTERS // 2 + 1))


@given(_JSON, _JSON)
@settings(max_examples=150, deadline=None)
def test_a_reply_without_placeholders_comes_back_equal_and_nothing_is_changed(reply: Any, task: Any) -> None:
    text, shape = repr(reply), repr(task)
    try:
        filled = fill(reply, task)
    except TemplateError:
        assert _LOOKS_FILLED.search(text)
    else:
        assert filled == reply or _LOOKS_FILLED.search(text)
    assert (repr(reply), repr(task)) == (text, shape)
