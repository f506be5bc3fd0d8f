"""How the acts of the Runs screen look: previews, reconciling, what was captured, decided or is uncertain."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import NOW, SECOND, FakeClient, make_run, make_step, settle, until
from tests.workbench.tui.review_support import receipt
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.dialogs import Modal
from workbench.tui.screens.runs import RunsScreen
from workflows_core.engine.recovery import Preview, StepAt
from workflows_core.jsontext import sha256
from workflows_core.model import Artifact, Cause, RunState, RunView, StepKind, StepStatus, StepView, Wait

BASELINE = (3, 11)
pytestmark = [
    pytest.mark.skipif(sys.version_info[:2] != BASELINE, reason="pictures are compared on one Python"),
    pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["small", "large"]),
]

Size = tuple[int, int]
RUN = "wr_00000000000000a1"
REPORT = Artifact("report-file", sha256(b"# Evidence\n"), "text/markdown", b"# Evidence\n", "out/report.md")


def capture(step_id: str, path: str, media_type: str, size: int, **changes: Any) -> StepView:
    version = sha256(path.encode())
    return make_step(
        step_id,
        kind=StepKind.CAPTURE,
        agent_ref=None,
        badge=None,
        child_run_id=None,
        thread_id=None,
        input={"sourceStepId": "evidence", "path": path},
        output={"artifactVersion": version, "sha256": version, "size": size, "mediaType": media_type},
        artifact_version=version,
        **changes,
    )


def checkpoint(step_id: str, status: StepStatus, **changes: Any) -> StepView:
    return make_step(
        step_id,
        status,
        kind=StepKind.CHECKPOINT,
        agent_ref=None,
        badge=None,
        child_run_id=None,
        thread_id=None,
        input={"sourceStepId": "evidence", "artifactVersion": REPORT.version},
        artifact_version=REPORT.version,
        **changes,
    )


def decided() -> RunView:
    """Approved, rejected, captured: a run that a person ended."""
    steps = (
        make_step("evidence", requested=300, started=300, finished=290),
        capture(
            "report-file", "out/report.md", "text/markdown", 1_536, requested=290, started=290, finished=289
        ),
        capture("label-pdf", "out/label-front.pdf", "application/pdf", 482_113, requested=289, finished=288),
        checkpoint("evidence-review", StepStatus.APPROVED, requested=288, started=288, finished=120),
        checkpoint("report-review", StepStatus.REJECTED, requested=120, started=120, finished=50),
    )
    receipts = (
        receipt(RUN, REPORT, decided_at=NOW - 120 * SECOND),
        receipt(
            RUN,
            REPORT,
            step_id="report-review",
            decision="reject",
            reason="The supplier's letter is missing.",
            decided_at=NOW - 50 * SECOND,
        ),
    )
    cause = Cause(
        "rejected", "report-review was rejected by os:1000: The supplier's letter is missing.", 2, 7
    )
    return make_run(RUN, state=RunState.FAILED, cause=cause, steps=steps, receipts=receipts)


def unsettled() -> RunView:
    steps = (
        make_step("evidence", requested=500, started=500, finished=420, response_frame=2),
        make_step(
            "claims", StepStatus.UNCERTAIN, requested=400, started=400, line=3, column=9, request_frame=3
        ),
        make_step("formula", StepStatus.INTERRUPTED, requested=400, line=4, column=9, request_frame=3),
    )
    cause = Cause("uncertain", "the outcome of claims, formula is uncertain. Settle it to go on", 3, 9)
    return make_run(RUN, state=RunState.NEEDS_RECONCILIATION, cause=cause, steps=steps)


def recoverable(**changes: Any) -> RunView:
    steps = (
        make_step("evidence", requested=500, started=500, finished=420, response_frame=2),
        make_step("claims", StepStatus.RUNNING, requested=400, started=400, line=3, column=9),
        make_step("formula", StepStatus.QUEUED, requested=400, line=4, column=9),
    )
    cause = Cause("owner_gone", "the process that owned it ended")
    return make_run(RUN, **({"state": RunState.RECOVERABLE, "cause": cause, "steps": steps} | changes))


GROUPS = Preview(
    reused=(StepAt("evidence", 1, 24),),
    observed=(StepAt("claims", 3, 9),),
    uncertain=(StepAt("formula", 4, 9),),
    new=(StepAt("summary-of-all-that-was-found", 6, 1),),
)
CHANGED = Preview(
    reused=(StepAt("evidence", 1, 24),),
    compatible=False,
    reasons=(
        "limits changed since the launch: max_calls. Restore them to recover",
        "the configuration changed since the launch: agents.lead_agent. Restore it to recover",
    ),
)


@pytest.fixture
def look(
    snap_compare: Callable[..., bool], make_app: Callable[..., WorkbenchApp], size: Size
) -> Callable[..., bool]:
    """``look(run, keys…)``: whether the run looks as it did after these keys; ``dialog`` waits for one."""

    def compare(view: RunView, *keys: str, preview: Preview | None = None, dialog: str = "") -> bool:
        client = FakeClient(view)
        if preview is not None:
            client.previews[RUN] = preview
        app = make_app(client, screens={"runs": RunsScreen})

        async def before(pilot: Pilot[Any]) -> None:
            await settle(pilot)
            await pilot.press(*keys)
            await settle(pilot)
            if dialog:
                await pilot.press(dialog[0])
                await until(pilot, lambda: isinstance(app.screen, Modal))
                await settle(pilot)
                await pilot.press(*dialog[1:].split())
                await settle(pilot)

        return snap_compare(app, terminal_size=size, run_before=before)

    return compare


Look = Callable[..., bool]


def test_a_preview_of_every_kind(look: Look) -> None:
    assert look(recoverable(), preview=GROUPS, dialog="R")


def test_a_preview_of_what_is_incompatible(look: Look) -> None:
    waiting = Wait("pause", "before-report", 1, NOW + 3_000 * SECOND)
    assert look(recoverable(waiting=waiting), preview=CHANGED, dialog="R")


def test_what_nobody_knows(look: Look) -> None:
    assert look(unsettled(), "enter", "down")


def test_reconciling(look: Look) -> None:
    assert look(unsettled(), dialog="S")


def test_reconciling_with_an_output(look: Look) -> None:
    assert look(
        unsettled(), dialog="S tab tab enter enter tab tab left_square_bracket 1 tab l o g enter tab enter"
    )


def test_steps_that_were_captured_and_decided(look: Look) -> None:
    assert look(decided(), "enter", "end", "enter")


def test_the_captured_files(look: Look) -> None:
    assert look(decided(), "enter", "5", "down")
