"""Two runs side by side: which steps differ in status, input, output and time. Without a screen.

Steps are paired by their stepId, in the order of the first run, then those that only the second has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from workflows_core.journal.replay import Difference, differences
from workflows_core.model import RunView, StepView


class StepPair(msgspec.Struct, frozen=True):
    """One step of two runs. ``first`` or ``second`` is None where that run has no such step."""

    step_id: str
    first: StepView | None
    second: StepView | None
    input: Sequence[Difference]
    output: Sequence[Difference]

    @property
    def same(self) -> bool:
        """Whether both runs have it with equal status, input and output; times do not count."""
        return (
            self.first is not None
            and self.second is not None
            and self.first.status is self.second.status
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
        differences(first.result, second.result),
    )


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
        differences(first.output, second.output),
    )


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
    }


def _differences(found: Sequence[Difference]) -> list[dict[str, Any]]:
    return [{"path": item.path, "first": item.recorded, "second": item.now} for item in found]
