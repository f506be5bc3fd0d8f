"""Runs that wait, and decisions, for the tests of the Review screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot

from tests.workbench.tui.fakes import NOW, SECOND, FakeClient, make_run, make_step, settle, until
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.review import ReviewScreen
from workbench.tui.screens.runs import RunsScreen
from workbench.tui.widgets.bytes_view import BytesView
from workbench.tui.widgets.review_detail import ReviewDetail
from workflows_core.jsontext import encode, sha256
from workflows_core.model import (
    Artifact,
    Decision,
    LogLine,
    RunState,
    RunView,
    StepKind,
    StepStatus,
    Wait,
)

SCRIPT = """\
const evidence = await agent({stepId: 'evidence', agentRef: 'lead_agent', task: args});
await humanCheckpoint({
  stepId: 'evidence-review', sourceStepId: 'evidence', artifactVersion: evidence.artifactVersion,
});
const report = await agent({stepId: 'report', agentRef: 'lead_agent', task: evidence.output});
await pause({stepId: 'before-sending'});
return await agent({stepId: 'sending', agentRef: 'lead_agent', task: report.output});
"""
OUTPUT = {
    "product": "Synthetic soap",
    "ingredients": [{"name": f"ingredient {n}", "share": n / 10} for n in range(12)],
    "claims": ["gentle", "cleans in cold water"],
    "note": "Nothing here was tested on people.\nThe supplier's letter is missing.",
}
RUN = "wr_00000000000000d4"
SMALL = b'{"verdict":"pass"}'


def artifact(body: bytes | None = None, media_type: str = "application/json", **changes: Any) -> Artifact:
    data = encode(OUTPUT) if body is None else body
    return Artifact(changes.get("step_id", "evidence"), sha256(data), media_type, data, changes.get("path"))


def at_checkpoint(run_id: str = RUN, exact: Artifact | None = None, **changes: Any) -> RunView:
    """A run whose checkpoint asks about ``exact``."""
    exact = exact or artifact()
    checkpoint = make_step(
        "evidence-review",
        StepStatus.WAITING,
        kind=StepKind.CHECKPOINT,
        agent_ref=None,
        badge=None,
        line=2,
        column=7,
        input={"sourceStepId": "evidence", "artifactVersion": exact.version},
        artifact_version=exact.version,
    )
    fields: dict[str, Any] = {
        "state": RunState.WAITING_APPROVAL,
        "waiting": Wait("checkpoint", "evidence-review", 1, NOW + 86_220 * SECOND),
        "created_at": NOW - 200 * SECOND,
        "since": NOW - 180 * SECOND,
        "last_progress": NOW - 180 * SECOND,
        "script": SCRIPT,
        "steps": (make_step("evidence", requested=200, started=200, finished=180), checkpoint),
    }
    return make_run(run_id, **(fields | changes))


def at_pause(run_id: str = "wr_00000000000000e5", **changes: Any) -> RunView:
    pause = make_step(
        "before-sending",
        StepStatus.WAITING,
        kind=StepKind.PAUSE,
        agent_ref=None,
        badge=None,
        line=6,
        column=7,
    )
    fields: dict[str, Any] = {
        "state": RunState.PAUSED,
        "waiting": Wait("pause", "before-sending", 1, NOW + 3_000 * SECOND),
        "name": "file-review",
        "since": NOW - 100 * SECOND,
        "script": SCRIPT,
        "steps": (make_step("evidence"), pause),
        "log": (LogLine(NOW - 101 * SECOND, "the report has 3 findings", 5, 1, 6),),
    }
    return make_run(run_id, **(fields | changes))


def asking(*names: str, since: float = 30, **changes: Any) -> RunView:
    """A running run whose steps ``names`` ask the manual agent ``man``, beside a stub's call."""
    asked = [
        make_step(
            name,
            StepStatus.RUNNING,
            badge="manual",
            agent_ref="man",
            started=since - number,
            input=f"Is {name} \x1b[2Jfine?",
        )
        for number, name in enumerate(names)
    ]
    fields = {"state": RunState.RUNNING, "name": "asks", "steps": (make_step("other"), *asked)} | changes
    return make_run("wr_00000000000000b7", **fields)


def unsettled(run_id: str = "wr_00000000000000f6", **changes: Any) -> RunView:
    fields: dict[str, Any] = {
        "state": RunState.NEEDS_RECONCILIATION,
        "name": "nightly",
        "since": NOW - 4_000 * SECOND,
        "steps": (make_step("claims", StepStatus.UNCERTAIN),),
    }
    return make_run(run_id, **(fields | changes))


def receipt(run_id: str, exact: Artifact, **changes: Any) -> Decision:
    fields: dict[str, Any] = {
        "run_id": run_id,
        "step_id": "evidence-review",
        "attempt": 1,
        "decision": "approve",
        "sha256": exact.version,
        "reason": None,
        "actor": {
            "user_id": "os:1000",
            "session_id": "s1",
            "mode": "terminal",
            "description": "terminal, uid 1000, pts/3, not password-verified",
        },
        "review": {
            "coverage": 1.0,
            "shown_bytes": len(exact.body),
            "bytes": len(exact.body),
            "renderer": "JSON tree",
            "viewed_outside": None,
        },
        "decided_at": NOW - 7_000 * SECOND,
    }
    return Decision(**(fields | changes))


def approved_before(run_id: str = "wr_0000000000000017", exact: Artifact | None = None) -> RunView:
    exact = exact or artifact(encode({**OUTPUT, "claims": ["gentle"], "product": "Synthetic soap 0.9"}))
    return make_run(
        run_id, created_at=NOW - 8_000 * SECOND, script=SCRIPT, receipts=(receipt(run_id, exact),)
    )


def client_of(*pairs: tuple[RunView, Artifact | None]) -> FakeClient:
    """A client with these runs, each with the output that its checkpoint asks about."""
    client = FakeClient(*(view for view, _ in pairs))
    for view, exact in pairs:
        if exact is not None:
            client.artifacts[view.run_id, "evidence-review"] = exact
    return client


def everything() -> FakeClient:
    """Each kind of thing that waits, and an earlier approval."""
    old = artifact(encode({**OUTPUT, "claims": ["gentle"], "product": "Synthetic soap 0.9"}))
    return client_of(
        (at_checkpoint(), artifact()),
        (at_pause(), None),
        (unsettled(), None),
        (approved_before(exact=old), old),
    )


def application(make_app: Callable[..., WorkbenchApp], client: FakeClient, **settings: Any) -> WorkbenchApp:
    return make_app(client, screen="review", screens={"review": ReviewScreen, "runs": RunsScreen}, **settings)


def detail(app: WorkbenchApp) -> ReviewDetail:
    return app.base_screen.query_one(ReviewDetail)


def output(app: WorkbenchApp) -> BytesView:
    return detail(app).output


async def shown(pilot: Pilot[Any], *keys: str) -> None:
    """Press ``keys`` and let everything be read and drawn."""
    await settle(pilot)
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def read_in_full(pilot: Pilot[Any], app: WorkbenchApp) -> None:
    """Go through the whole output as a person does, with the key for the next unseen part."""
    for _ in range(200):
        progress = detail(app).subject
        assert progress is not None and progress.progress is not None
        if progress.progress.coverage.complete:
            break
        before = progress.progress.coverage.seen
        await pilot.press("u")
        await until(pilot, lambda before=before, of=progress.progress: of.coverage.seen > before)  # type: ignore[misc]
    else:
        raise AssertionError("the output was never shown in full")
    await settle(pilot)
