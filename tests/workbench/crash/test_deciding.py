"""Demand 8: however many people decide one checkpoint at one moment, in several processes, there is one receipt."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.workbench.cli.seat import Seat, seat
from tests.workbench.crash import kit
from workbench.client import Client
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchRequest
from workflows_core.model import RunState, RunView

SEATS, EACH = 5, 10
SCRIPT = """\
const made = await agent({stepId: 'made', agentRef: 'lead_agent', task: 'write it'});
await humanCheckpoint({stepId: 'good', sourceStepId: 'made', artifactVersion: made.artifactVersion});
return made.output;
"""


@pytest.mark.parametrize("rounds", [1, pytest.param(100, marks=pytest.mark.soak)])
async def test_i07_fifty_decisions_of_five_processes_leave_one_receipt(
    folder: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    workspace = Workspace.find(folder, folder)
    client = await Client.open(workspace, host="required")
    try:
        with ExitStack() as stack:
            seats = [
                stack.enter_context(
                    seat(str(EACH), folder=folder, columns=200, module="tests.workbench.crash.decider")
                )
                for _ in range(SEATS)
            ]
            for each in seats:
                each.until("seated")
            for number in range(rounds):
                view = await waiting(client, workspace, number)
                found = decided(seats, view)
                (receipt,) = kit.query(folder, "SELECT decision FROM decisions WHERE run_id = ?", view.run_id)
                assert set(found) == {receipt[0], "conflict"}, number
                assert found.total() == SEATS * EACH
                assert found[receipt[0]] == SEATS * EACH // 2, "the same decision again has the same receipt"
                await client.wait_idle()
                ended = await client.view(view.run_id)
                assert ended.state is (RunState.COMPLETED if receipt[0] == "approve" else RunState.FAILED)
                await client.delete(view.run_id)
            for each in seats:
                each.type("")
            assert [each.finish() for each in seats] == [0] * SEATS
    finally:
        await client.close()


async def waiting(client: Client, workspace: Workspace, number: int) -> RunView:
    """A new run that waits for its approval."""
    launched = await client.launch(
        LaunchRequest(
            script=SCRIPT, args={}, name="decided", request_id=f"r{number}", options=workspace.options()
        )
    )
    view = await client.view(launched.run_id)
    while view.state is not RunState.WAITING_APPROVAL:
        assert not view.state.final, view.cause
        view = await client.view(launched.run_id)
    return view


def decided(seats: list[Seat], view: RunView) -> Counter[str]:
    """What all seats were answered who decide at the same moment."""
    (step,) = [step for step in view.steps if step.step_id == "good"]
    for each in seats:
        each.type(f"{view.run_id} good {step.artifact_version}")
    found: Counter[str] = Counter()
    for each in seats:
        each.until("{")
        found += Counter(json.loads("{" + each.until("}")))
    return found
