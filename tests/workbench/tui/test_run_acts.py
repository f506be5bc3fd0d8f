"""What a person does about a run on the Runs screen: resume, recover after its preview, reconcile, export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import (
    NOW,
    SECOND,
    FakeClient,
    flat,
    make_run,
    make_step,
    screen_text,
    settle,
    until,
    waiting_run,
)
from tests.workbench.tui.review_support import artifact as output_of
from tests.workbench.tui.review_support import at_checkpoint, at_pause, client_of
from workbench.acts import UNSETTLED_STATES
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.dialogs import Dialog
from workbench.tui.screens.review import ReviewScreen
from workbench.tui.screens.run_dialogs import ReconcileDialog, RecoverDialog, read_output
from workbench.tui.screens.runs import RunsScreen
from workbench.tui.widgets.choice import Choice
from workflows_core.engine.evidence import Evidence
from workflows_core.engine.recovery import Preview, StepAt
from workflows_core.errors import Incompatible, NotPermitted, UsageError
from workflows_core.model import RunState, RunView, StepKind, StepStatus, Wait

WIDE, SMALL = (120, 40), (80, 24)
RUN = "wr_00000000000000a1"
PREVIEW = Preview(
    reused=(StepAt("evidence", 1, 24),),
    observed=(StepAt("claims", 3, 9),),
    new=(StepAt("formula", 4, 9),),
)


@pytest.fixture
def runs_app(make_app: Callable[..., WorkbenchApp]) -> Callable[..., WorkbenchApp]:
    def make(client: FakeClient, **settings: Any) -> WorkbenchApp:
        return make_app(client, screens={"runs": RunsScreen, "review": ReviewScreen}, **settings)

    return make


MakeApp = Callable[..., WorkbenchApp]


def recoverable(**changes: Any) -> RunView:
    steps = (
        make_step("evidence", response_frame=2),
        make_step("claims", StepStatus.RUNNING, line=3, column=9),
        make_step("formula", StepStatus.QUEUED, line=4, column=9),
    )
    return make_run(RUN, **({"state": RunState.RECOVERABLE, "steps": steps} | changes))


def unsettled(**changes: Any) -> RunView:
    steps = (
        make_step("evidence", response_frame=2),
        make_step("claims", StepStatus.UNCERTAIN, line=3, column=9, requested=400),
        make_step("formula", StepStatus.INTERRUPTED, line=4, column=9, requested=400),
    )
    fields: dict[str, Any] = {"state": RunState.NEEDS_RECONCILIATION, "steps": steps}
    return make_run(RUN, **(fields | changes))


async def press(pilot: Pilot[Any], *keys: str) -> str:
    await settle(pilot)
    await pilot.press(*keys)
    await settle(pilot)
    return flat(screen_text(pilot.app))


async def opened(pilot: Pilot[Any], kind: type[Any], *keys: str) -> str:
    """Press ``keys`` and wait for the dialog that they open."""
    await press(pilot, *keys)
    await until(pilot, lambda: isinstance(pilot.app.screen, kind))
    return await press(pilot)


def last_line(app: WorkbenchApp) -> str:
    return screen_text(app).splitlines()[-1]


def focused_answer(app: WorkbenchApp) -> str | None:
    return app.focused.name if isinstance(app.focused, Choice) else None


# Resume and review


async def test_a_pause_is_resumed_by_one_key(runs_app: MakeApp) -> None:
    client = FakeClient(at_pause(RUN))
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot)
        assert "The script stands at its pause; r resumes it." in text and "r resume" in last_line(app)
        await press(pilot, "r")
        await until(pilot, lambda: client.resumed == [(RUN, "before-sending", 1)])
        await until(pilot, lambda: [notice.title for notice in app.notices] == ["Resume"])
        await press(pilot)
        assert "r resume" not in last_line(app)


@pytest.mark.parametrize(
    "changes",
    [
        {"waiting": Wait("pause", "before-sending", 1, NOW - SECOND)},
        {"cancel_requested": True},
        {"state": RunState.RUNNING, "waiting": None},
    ],
    ids=["expired", "cancelling", "running"],
)
async def test_a_pause_that_cannot_go_on_is_not_resumed(runs_app: MakeApp, changes: dict[str, Any]) -> None:
    client = FakeClient(at_pause(RUN, **changes))
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "r")
        assert client.resumed == [] and "r resume" not in last_line(app)


async def test_what_waits_for_approval_is_shown_in_review(runs_app: MakeApp) -> None:
    client = client_of((at_pause("wr_2"), None), (at_checkpoint(RUN), output_of()))
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        app.show_run(RUN)
        text = await press(pilot)
        assert "A person must judge the output: i shows its exact bytes in Review" in text
        await press(pilot, "i")
        await until(pilot, lambda: app.current_mode == "review")
        await press(pilot)
        screen = app.base_screen
        assert isinstance(screen, ReviewScreen) and screen.subject is not None
        assert screen.subject.view.run_id == RUN


async def test_review_is_not_offered_where_there_is_no_such_screen(
    make_app: Callable[..., WorkbenchApp],
) -> None:
    app = make_app(FakeClient(waiting_run(RUN)), screens={"runs": RunsScreen})
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "i")
        assert "i review" not in last_line(app)


# Recover


@pytest.mark.parametrize("size", [WIDE, SMALL])
async def test_the_preview_says_what_recovering_does_before_it_is_done(
    runs_app: MakeApp, size: tuple[int, int]
) -> None:
    client = FakeClient(recoverable())
    client.previews[RUN] = PREVIEW
    app = runs_app(client)
    async with app.run_test(size=size) as pilot:
        assert "R shows what recovering it would do" in await press(pilot, "enter")
        text = await opened(pilot, RecoverDialog, "R")
        assert "Recover this run?" in text and RUN in text
        for said in (
            "1 reused",
            "1 observed",
            "1 new",
            "evidence 1:24",
            "claims 3:9",
            "() => agent({stepId: 'claims'",
        ):
            assert said in text
        assert "with the new calls above, which cannot be taken back." in text
        assert focused_answer(app) == "leave" and client.recovered == []
        await press(pilot, "right", "enter")
        await until(pilot, lambda: client.recovered == [RUN])


async def test_escape_leaves_the_run_as_it_is(runs_app: MakeApp) -> None:
    client = FakeClient(recoverable())
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, RecoverDialog, "R")
        await press(pilot, "escape")
        assert client.recovered == [] and not isinstance(app.screen, Dialog)


async def test_what_is_incompatible_is_said_with_the_way_out(runs_app: MakeApp) -> None:
    client = FakeClient(recoverable())
    reasons = ("limits changed since the launch: max_calls. Restore them to recover",)
    client.previews[RUN] = Preview(compatible=False, reasons=reasons)
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        text = await opened(pilot, RecoverDialog, "R")
        assert "It cannot be recovered now" in text
        assert "Limits changed since the launch: max_calls. Restore them to recover." in text
        assert "Put back what changed and look again, or cancel the run" in text
        assert [choice.name for choice in app.screen.query(Choice)] == ["leave", "cancel"]
        await press(pilot, "right", "enter")
        text = await opened(pilot, Dialog)
        assert "Cancel this run?" in text and client.cancelled == []
        await press(pilot, "right", "enter")
        await until(pilot, lambda: client.cancelled == [RUN])
        assert client.recovered == []


async def test_an_uncertain_step_and_a_kept_wait_are_foretold(runs_app: MakeApp) -> None:
    waiting = Wait("pause", "before-report", 1, NOW + 100 * SECOND)
    client = FakeClient(recoverable(waiting=waiting))
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        text = await opened(pilot, RecoverDialog, "R")
        assert "Then it waits for resume at before-report again." in text
        await press(pilot, "escape")
        client.previews[RUN] = Preview(uncertain=(StepAt("claims", 3),), reasons=("the budget is used up",))
        text = await opened(pilot, RecoverDialog, "R")
        assert "1 uncertain nobody knows what became of them" in text
        assert "It stops at once and needs reconciliation" in text and "The budget is used up." in text


async def test_a_long_preview_scrolls_while_an_answer_has_the_focus(runs_app: MakeApp) -> None:
    client = FakeClient(recoverable())
    client.previews[RUN] = Preview(reused=tuple(StepAt(f"step-{n}", n + 1) for n in range(40)))
    app = runs_app(client)
    async with app.run_test(size=SMALL) as pilot:
        assert "step-35" not in await opened(pilot, RecoverDialog, "R")
        text = await press(pilot, *["down"] * 40)
        assert "step-39" in text and "Then it goes on behind what is recorded." in text
        assert focused_answer(app) == "leave"


async def test_a_recovery_that_is_refused_meanwhile_says_so(runs_app: MakeApp) -> None:
    client = FakeClient(recoverable())
    client.failures["recover"] = Incompatible("the run is cancelled, not recoverable")
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, RecoverDialog, "R")
        await press(pilot, "right", "enter")
        await until(pilot, lambda: len(app.notices) == 1)
        assert app.notices[0].message == "the run is cancelled, not recoverable"


async def test_recover_and_reconcile_are_offered_only_where_they_are_possible(runs_app: MakeApp) -> None:
    client = FakeClient(unsettled())
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        for state in RunState:
            client.change(RUN, state=state)
            await press(pilot)
            assert ("R recover" in last_line(app)) is (state is RunState.RECOVERABLE), state
            assert ("S reconcile" in last_line(app)) is (state in UNSETTLED_STATES), state


async def test_after_a_recorded_cancel_only_cancel_is_offered(runs_app: MakeApp) -> None:
    app = runs_app(FakeClient(recoverable(cancel_requested=True)))
    async with app.run_test(size=WIDE) as pilot:
        text = await press(pilot, "R")
        assert not isinstance(app.screen, Dialog)
        assert "Only cancel can finish it: c observes its children and ends it." in text
        assert "c cancel" in last_line(app) and "R recover" not in last_line(app)


# Reconcile


async def filled(pilot: Pilot[Any], turns: int, reason: str, output: str | None = None) -> None:
    """From the safe answer: choose the outcome, type the output where one is given, and the reason."""
    await press(pilot, "tab", "tab")  # past "put it on record", round to the outcome
    await press(pilot, *["enter"] * turns)
    await press(pilot, "tab")
    if turns == 2:
        if output is None:
            await press(pilot, "enter", "tab")
        else:
            await press(pilot, "tab")
            await pilot.press(*(char if char.isalnum() else _KEYS[char] for char in output))
            await press(pilot, "tab")
    await pilot.press(*(char if char.isalnum() else _KEYS[char] for char in reason))
    await press(pilot, "enter")


_KEYS = {
    " ": "space",
    "{": "left_curly_bracket",
    "}": "right_curly_bracket",
    '"': "quotation_mark",
    ":": "colon",
}


@pytest.mark.parametrize("size", [WIDE, SMALL])
async def test_reconcile_names_object_effect_and_what_cannot_be_undone(
    runs_app: MakeApp, size: tuple[int, int]
) -> None:
    client = FakeClient(unsettled())
    app = runs_app(client)
    async with app.run_test(size=size) as pilot:
        text = await press(pilot, "enter")
        assert "Find out what became of claims and formula" in text
        text = await opened(pilot, ReconcileDialog, "S")
        assert "Reconcile claims (1 of 2 unsettled)" in text and RUN in text
        assert "uncertain: lead_agent, asked 6 min ago; child run cr_" in text
        assert "() => agent({stepId: 'claims'" in text
        assert focused_answer(app) == "leave"
        text = await press(pilot, "tab", "tab", "enter")
        assert "Recovering may then ask lead_agent again" in text and "1 step stays unsettled." in text
        assert "It is kept with your name (ada · terminal) and cannot be taken back." in text
        await press(pilot, "escape")
        assert client.reconciled == []


async def test_that_it_did_not_run_is_put_on_record(runs_app: MakeApp) -> None:
    client = FakeClient(unsettled())
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, ReconcileDialog, "S")
        await filled(pilot, 1, "no trace of it")
        assert focused_answer(app) == "leave"
        await press(pilot, "tab", "enter")
        await until(pilot, lambda: len(client.reconciled) == 1)
        request = client.reconciled[0]
        assert (request.step_id, request.outcome, request.reason) == (
            "claims",
            "did_not_run",
            "no trace of it",
        )
        assert not request.has_output and not request.fetch
        await press(pilot)
        assert "Find out what became of formula" in await press(pilot)


async def test_a_typed_output_is_json_and_what_is_wrong_is_said_in_place(runs_app: MakeApp) -> None:
    client = FakeClient(unsettled())
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, ReconcileDialog, "S")
        assert "Choose what became of it first." in await press(pilot, "tab", "enter")
        assert app.focused is not None and app.focused.id == "outcome"
        await press(pilot, "shift+tab", "shift+tab")
        await filled(pilot, 2, "", '{"n":')
        await press(pilot, "tab", "enter")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "output")
        text = await press(pilot)
        assert "The output" in text and client.reconciled == []
        await pilot.press("2", "right_curly_bracket", "enter")
        await press(pilot, "tab", "enter")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "reason")
        assert "A record needs a reason" in await press(pilot)
        await pilot.press("l", "o", "g", "enter")
        await press(pilot, "tab", "enter")
        await until(pilot, lambda: len(client.reconciled) == 1)
        request = client.reconciled[0]
        assert (request.outcome, request.has_output, request.output, request.fetch) == (
            "succeeded", True, {"n": 2}, False,
        )  # fmt: skip


async def test_the_output_can_come_from_the_child_run(runs_app: MakeApp) -> None:
    client = FakeClient(unsettled())
    app = runs_app(client)
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "enter", "down", "down", "down")
        text = await opened(pilot, ReconcileDialog, "S")
        assert "Reconcile formula (2 of 2 unsettled)" in text, "the step under the cursor is meant"
        await filled(pilot, 2, "seen there")
        await press(pilot, "tab", "enter")
        await until(pilot, lambda: len(client.reconciled) == 1)
        request = client.reconciled[0]
        assert (request.step_id, request.fetch, request.has_output) == ("formula", True, False)


async def test_an_attestation_is_bound_to_what_is_shown_of_the_child_run(runs_app: MakeApp) -> None:
    client = FakeClient(unsettled())
    client.known["claims"] = Evidence(
        hash="abc",
        step_id="claims",
        child_run_id="cr_1",
        status="success",
        output={"n": 7},
        has_output=True,
        output_hash="f" * 64,
    )
    app = runs_app(client)
    async with app.run_test(size=SMALL) as pilot:
        text = await opened(pilot, ReconcileDialog, "S")
        assert "The host's record of child run cr_1: success" in text
        await filled(pilot, 1, "no trace of it")
        await press(pilot, "tab", "enter")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "outcome")
        assert "so it did run" in " ".join((await press(pilot)).split())
        assert client.reconciled == []
        text = await press(pilot, "enter", "tab", "enter")
        assert 'Its output, sha256 fffffff: {"n": 7}' in text, "shown before it is attested"
        await press(pilot, "shift+tab", "shift+tab", "enter")
        await until(pilot, lambda: len(client.reconciled) == 1)
        assert client.reconciled[0].fetch
        assert client.reconciled[0].evidence_hash == "abc"


async def test_a_child_run_that_is_running_is_not_offered_as_one_that_did_not_run(runs_app: MakeApp) -> None:
    client = FakeClient(unsettled())
    client.known["claims"] = Evidence(hash="abc", step_id="claims", child_run_id="cr_1", status="running")
    app = runs_app(client)
    async with app.run_test(size=SMALL) as pilot:
        text = await opened(pilot, ReconcileDialog, "S")
        assert "The host's record of child run cr_1: running" in text
        assert "Outcome ○ succeeded ○ failed" in text
        assert "it cannot be said not to have run. Look again once it has ended" in " ".join(text.split())
        await press(pilot, "tab", "tab", "enter", "enter")
        assert "The script is given an error with your reason" in " ".join((await press(pilot)).split())


async def test_without_an_interactive_session_the_refusal_is_shown(runs_app: MakeApp) -> None:
    client = FakeClient(unsettled())
    client.failures["reconcile"] = NotPermitted("a decision needs an interactive session")
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, ReconcileDialog, "S")
        await filled(pilot, 3, "it broke")
        await press(pilot, "tab", "enter")
        await until(pilot, lambda: len(app.notices) == 1)
        assert app.notices[0].message == "a decision needs an interactive session"


def test_an_output_is_read_as_json_or_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text('{"n": [1, 2]}', "utf-8")
    assert read_output("@answer.json", tmp_path) == {"n": [1, 2]}
    assert read_output('"text"', tmp_path) == "text"
    for text, said in (
        ("", "needs an output"),
        ("{", "the output"),
        ("@none.json", "does not exist"),
        ('"' + "x" * 12_000 + '"', "admitted are 12,000"),
    ):
        with pytest.raises(UsageError, match=said):
            read_output(text, tmp_path)


# Export


async def test_the_exact_bytes_of_a_capture_go_to_a_new_file(runs_app: MakeApp, workspace: Any) -> None:
    exact = output_of(b"# Evidence\n", "text/markdown", step_id="report-file", path="out/report.md")
    capture = make_step(
        "report-file",
        kind=StepKind.CAPTURE,
        agent_ref=None,
        input={"sourceStepId": "evidence", "path": "out/report.md"},
        output={"sha256": exact.version, "size": 11, "mediaType": "text/markdown"},
        artifact_version=exact.version,
    )
    client = FakeClient(make_run(RUN, steps=(make_step("evidence"), capture)))
    client.artifacts[RUN, "report-file"] = exact
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot)
        await pilot.press("E")
        await until(
            pilot, lambda: "Export this run" in screen_text(app)
        )  # nothing with bytes is under the cursor
        await press(pilot, "escape")
        text = await press(pilot, "enter", "5")
        assert f"out/report.md text/markdown 11 bytes {exact.version[:7]} of evidence" in text
        await press(pilot, "y")
        assert app.clipboard == exact.version
        await press(pilot, "E")
        await until(
            pilot, lambda: isinstance(app.focused, object) and "Export the exact bytes" in screen_text(app)
        )
        await press(pilot, "enter", "tab", "enter")
        await until(pilot, lambda: (workspace.root / "report.md").exists())
        assert (workspace.root / "report.md").read_bytes() == exact.body
        await until(pilot, lambda: app.notices[-1].title == "Exported")
        assert exact.version in app.notices[-1].message
