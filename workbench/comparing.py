"""Two runs side by side: which steps differ in status, input, output and time. Without a screen.

Steps are paired by their stepId, in the order of the first run, then those that only the second has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from workflows_core.journal.replay import Difference, differences
from workflows_core.model import RunView, StepView

from .words import count

#: What a difference holds for the side that has nothing at its path.
MISSING: Final = {"$type": "missing"}


class StepPair(msgspec.Struct, frozen=True):
    """One step of two runs. ``first`` or ``second`` is None where that run has no such step."""

    step_id: str
    first: StepView | None
    second: StepView | None
    input: Sequence[Difference]
    output: Sequence[Difference]

    @property
    def same(self) -> bool:
        """Whether both runs have it with equal status, input, output and error; times do not count."""
        return (
            self.first is not None
            and self.second is not None
            and self.first.status is self.second.status
            and error_of(self.first) == error_of(self.second)
            and not self.input
            and not self.output
        )


class Comparison(msgspec.Struct, frozen=True):
    """Two runs with their paired steps and the differences of arguments and results."""

    first: RunView
    second: RunView
    steps: Sequence[StepPair]
    args: Sequence[Difference]
    result: Sequence[Difference]

    @property
    def same_script(self) -> bool:
        return self.first.script_hash == self.second.script_hash

    @property
    def differing(self) -> Sequence[StepPair]:
        """The steps that are not equal in both runs, in their order."""
        return [pair for pair in self.steps if not pair.same]

    @property
    def same(self) -> bool:
        """Whether script, arguments, steps, state and result are equal."""
        return (
            self.same_script
            and self.first.state is self.second.state
            and not self.args
            and not self.result
            and all(pair.same for pair in self.steps)
        )


def compare(first: RunView, second: RunView) -> Comparison:
    """Pair two runs step by step."""
    left = {step.step_id: step for step in first.steps}
    right = {step.step_id: step for step in second.steps}
    names = [*left, *(name for name in right if name not in left)]
    return Comparison(
        first,
        second,
        [_pair(name, left.get(name), right.get(name)) for name in names],
        differences(first.args, second.args),
        _values(first.has_result, first.result, second.has_result, second.result),
    )


def error_of(step: StepView | None) -> str | None:
    """Why a step failed, as the script was told; None where it did not."""
    return None if step is None or step.error is None else step.error.message


def is_missing(value: Any) -> bool:
    """Whether a side of a difference has nothing at that path."""
    return bool(value == MISSING)


def in_words(comparison: Comparison) -> str:
    """What two runs have in common, in sentences: ``2 of 3 steps are equal. The arguments differ.``"""
    if comparison.same:
        return "The runs are equal but for their times."
    total, equal = len(comparison.steps), len(comparison.steps) - len(comparison.differing)
    said = [
        f"{'All' if equal == total else f'{equal} of'} {count(total, 'step')} {'is' if total == 1 else 'are'} equal."
        if total
        else "Neither run has a step."
    ]
    parts = [
        name
        for name, differs in (
            ("scripts", not comparison.same_script),
            ("arguments", bool(comparison.args)),
            ("states", comparison.first.state is not comparison.second.state),
            ("results", bool(comparison.result)),
        )
        if differs
    ]
    if parts:
        named = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
        said.append(f"The {named} differ.")
    return " ".join(said)


def seconds(step: StepView | None) -> float | None:
    """How long a step took, None where it did not end or never began."""
    if step is None or step.started_at is None or step.finished_at is None:
        return None
    return (step.finished_at - step.started_at) / 1e6


def _pair(name: str, first: StepView | None, second: StepView | None) -> StepPair:
    if first is None or second is None:
        return StepPair(name, first, second, (), ())
    return StepPair(
        name,
        first,
        second,
        differences(first.input, second.input),
        _values(first.has_output, first.output, second.has_output, second.output),
    )


def _values(has_first: bool, first: Any, has_second: bool, second: Any) -> Sequence[Difference]:
    """How two values differ, where either may be missing, which is not the same as null."""
    if has_first and has_second:
        return differences(first, second)
    if not has_first and not has_second:
        return ()
    return [Difference("", first if has_first else MISSING, second if has_second else MISSING)]


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """What ``compare --json`` prints."""
    return {
        "first": _head(comparison.first),
        "second": _head(comparison.second),
        "same": comparison.same,
        "same_script": comparison.same_script,
        "args": _differences(comparison.args),
        "result": _differences(comparison.result),
        "steps": [
            {
                "step_id": pair.step_id,
                "same": pair.same,
                "first": _side(pair.first),
                "second": _side(pair.second),
                "input": _differences(pair.input),
                "output": _differences(pair.output),
            }
            for pair in comparison.steps
        ],
    }


def _head(run: RunView) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "name": run.name,
        "state": run.state.value,
        "script_hash": run.script_hash,
        "args_hash": run.args_hash,
    }


def _side(step: StepView | None) -> dict[str, Any] | None:
    if step is None:
        return None
    return {
        "status": step.status.value,
        "agent_ref": step.agent_ref,
        "badge": step.badge,
        "line": step.line,
        "seconds": seconds(step),
        "error": error_of(step),
    }


def _differences(found: Sequence[Difference]) -> list[dict[str, Any]]:
    return [{"path": item.path, "first": item.recorded, "second": item.now} for item in found]
