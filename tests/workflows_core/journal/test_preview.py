"""What recovering a run would do, from a bundle alone: hostile bundles and finished runs included."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from workflows_core.journal.bundle import Bundle, BundleRefused, open_bundle, write
from workflows_core.journal.preview import preview_bundle
from workflows_core.limits import Limits
from workflows_core.model import RunState
from workflows_core.worker.process import runtime_signature

from .runs import bundle, changed, decision, members

TWO = "await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});\nawait agent({stepId: 'b', agentRef: 'lead_agent', task: 2});\nreturn 1;\n"


async def cut(script: str = TWO, state: RunState = RunState.RECOVERABLE, **options: Any) -> Bundle:
    """A run whose process died, that this version could recover."""
    fields = options.pop("record", {})
    values: dict[str, Any] = {"marks": (), "decisions": (), "captures": (), "rounds": 1, "state": state}
    made = await bundle(script, {}, **(values | options))
    record = msgspec.structs.replace(
        made.record, runtime_signature=runtime_signature(), waiting=None, cause=None, **fields
    )
    return msgspec.structs.replace(made, record=record)


def names(steps: Any) -> list[str]:
    return [step.step_id for step in steps]


async def test_a_journal_with_more_calls_than_its_record_admits() -> None:
    found = await preview_bundle(await cut(record={"limits": Limits(max_calls=1)}))
    assert found.compatible is False
    assert found.reasons == (
        "recovery would fail, since the run could not have made its calls: "
        "b would be Agent call 2; max_calls admits 1",
    )


@pytest.mark.parametrize("value", [5, [], {}, {"artifactVersion": [], "runId": {}}, None])
async def test_answers_of_another_kind(value: Any) -> None:
    found = await preview_bundle(await cut(answer=lambda call: value))
    assert found.compatible is None


async def test_a_run_that_is_final_is_not_looked_into() -> None:
    made = await cut(state=RunState.CANCELLED, record={"cancel_requested_at": 5})
    found = await preview_bundle(made)
    assert found.reasons == ("the run is cancelled, not recoverable",)
    assert found.compatible is False
    assert not (found.reused or found.observed or found.uncertain or found.new)


async def test_answered_waits_are_reused() -> None:
    script = "await pause({stepId: 'hold'});\nawait pause({stepId: 'more'});\nreturn 1;\n"
    found = await preview_bundle(await cut(script, answer=lambda call: {"resumed": True}))
    assert names(found.reused) == ["hold"]
    decided = decision(step_id="more", attempt=1, decision="resume")
    found = await preview_bundle(await cut(script, answer=lambda call: {}, decisions=(decided,)))
    assert names(found.reused) == ["hold", "more"]


@pytest.mark.parametrize(("key", "value"), [("max_calls", 0), ("memory_bytes", 1), ("cpu_seconds", 11)])
async def test_limits_of_a_record_outside_their_bounds_are_not_taken_over(key: str, value: int) -> None:
    data = write(await cut())
    record = msgspec.json.decode(members(data)["record.json"])
    record["limits"] |= {key: value, "new_one": 1}
    made = open_bundle(changed(data, record__json=msgspec.json.encode(record)))
    assert made.record.limits == Limits()
    assert f"The run had limits that this version does not take over: {key}, new_one." in made.notes
    assert (await preview_bundle(made)).compatible is None
    record["limits"][key] = "many"
    with pytest.raises(BundleRefused, match="a limit is not a whole number"):
        open_bundle(changed(data, record__json=msgspec.json.encode(record)))
