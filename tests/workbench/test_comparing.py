"""Two runs step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from workbench.comparing import compare, comparison_document, in_words, seconds
from workflows_core.model import RunState, RunView, StepKind, StepStatus, StepView

from .tui.fakes import make_run


@dataclass
class Pair:
    first: RunView
    second: RunView


def step(name: str, **changes: Any) -> StepView:
    values: dict[str, Any] = {
        "step_id": name,
        "kind": StepKind.AGENT,
        "attempt": 1,
        "status": StepStatus.COMPLETED,
        "input": {"n": 1},
        "output": {"v": 1},
        "has_output": True,
        "started_at": 1_000_000,
        "finished_at": 2_500_000,
    }
    return StepView(**(values | changes))


def runs(left: tuple[StepView, ...], right: tuple[StepView, ...], **changes: Any) -> Pair:
    base = msgspec.structs.replace(make_run("wr_1"), state=RunState.COMPLETED, steps=left)
    return Pair(base, msgspec.structs.replace(base, run_id="wr_2", steps=right, **changes))


def test_equal_runs_are_the_same_whatever_time_they_took() -> None:
    pair = runs((step("a"),), (step("a", finished_at=9_000_000),))
    found = compare(pair.first, pair.second)
    assert found.same
    assert [seconds(item.first) for item in found.steps] == [1.5]


def test_differences_are_named_by_step_and_path() -> None:
    pair = runs(
        (step("a"), step("b"), step("only-first")),
        (
            step("only-second"),
            step("b", output={"v": 2}, status=StepStatus.FAILED),
            step("a", input={"n": 2}),
        ),
        result={"x": 1},
    )
    found = compare(pair.first, pair.second)
    assert not found.same
    assert [item.step_id for item in found.steps] == ["a", "b", "only-first", "only-second"]
    document = comparison_document(found)
    assert document["steps"][0]["input"] == [{"path": "n", "first": 1, "second": 2}]
    assert document["steps"][1]["output"] == [{"path": "v", "first": 1, "second": 2}]
    assert document["steps"][1]["second"]["status"] == "failed"
    assert document["steps"][2]["second"] is None
    assert document["steps"][3]["first"] is None


def test_another_script_or_state_is_no_equal_run() -> None:
    pair = runs((step("a"),), (step("a"),), script_hash="f" * 64)
    assert not compare(pair.first, pair.second).same_script
    pair = runs((step("a"),), (step("a"),), state=RunState.FAILED)
    assert not compare(pair.first, pair.second).same


def test_no_output_is_not_the_same_as_null() -> None:
    pair = runs((step("a", output=None, has_output=False),), (step("a", output=None),))
    found = compare(pair.first, pair.second)
    assert [(each.path, each.recorded, each.now) for each in found.steps[0].output] == [
        ("", {"$type": "missing"}, None)
    ]
    both = runs((step("a", output=None, has_output=False),), (step("a", output=None, has_output=False),))
    assert compare(both.first, both.second).steps[0].same


def test_what_two_runs_have_in_common_in_words() -> None:
    pair = runs((step("a"), step("b")), (step("a"), step("b", output={"v": 2})))
    found = compare(pair.first, pair.second)
    assert in_words(found) == "1 of 2 steps are equal."
    assert [each.step_id for each in found.differing] == ["b"]
    assert in_words(compare(pair.first, pair.first)) == "The runs are equal but for their times."
    other = msgspec.structs.replace(pair.first, state=RunState.FAILED, script_hash="f" * 64, args={"n": 2})
    assert (
        in_words(compare(pair.first, other))
        == "All 2 steps are equal. The scripts, arguments and states differ."
    )
    empty = runs((), (), state=RunState.FAILED)
    assert in_words(compare(empty.first, empty.second)) == "Neither run has a step. The states differ."
