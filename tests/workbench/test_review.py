"""What waits for a person, what counts as shown, and what a receipt says."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workbench.tui.fakes import NOW, SECOND, FakeClient, make_run, make_step, summary_of, waiting_run
from workbench import review_questions
from workbench.cli.inbox import command_of
from workbench.host.store import HostStore
from workbench.review import (
    Act,
    Outside,
    Progress,
    consumers,
    decided,
    digest,
    inbox,
    last_approved,
    receipt_lines,
    told,
    unsettled,
    waits_of,
)
from workbench.review_coverage import Coverage
from workbench.review_questions import Question, calls_that_end, open_questions
from workflows_core.errors import StoreFailed
from workflows_core.jsontext import sha256
from workflows_core.model import Artifact, Decision, RunState, StepKind, StepStatus, Wait

BODY = b'{"verdict":"pass"}'


def receipt(**changes: Any) -> Decision:
    fields: dict[str, Any] = {
        "run_id": "wr_1",
        "step_id": "evidence-review",
        "attempt": 1,
        "decision": "approve",
        "sha256": sha256(BODY),
        "reason": None,
        "actor": {
            "user_id": "os:1000",
            "session_id": "s1",
            "mode": "terminal",
            "description": "terminal, uid 1000, pts/3, not password-verified",
        },
        "review": {
            "coverage": 1.0,
            "shown_bytes": 18,
            "bytes": 18,
            "renderer": "JSON tree",
            "viewed_outside": None,
        },
        "decided_at": NOW - 60 * SECOND,
    }
    return Decision(**(fields | changes))


def artifact(body: bytes = BODY) -> Artifact:
    return Artifact("evidence", sha256(body), "application/json", body, None)


ranges = st.lists(st.tuples(st.integers(-5, 60), st.integers(-5, 60)), max_size=12)


class TestCoverage:
    @given(ranges, st.integers(0, 50))
    @settings(max_examples=200, deadline=None)
    def test_it_is_the_set_of_bytes_that_were_shown(self, shown: list[tuple[int, int]], size: int) -> None:
        coverage, bytes_ = Coverage(size), set[int]()
        for start, end in shown:
            new = set(range(max(0, start), min(end, size))) - bytes_
            assert coverage.add(start, end) == bool(new)
            bytes_ |= new
        assert {n for start, end in coverage.ranges for n in range(start, end)} == bytes_
        assert coverage.seen == len(bytes_)
        assert coverage.complete == (len(bytes_) == size)
        assert (coverage.percent == 100) == coverage.complete == (coverage.fraction == 1.0)
        unseen = {n for start, end in coverage.gaps() for n in range(start, end)}
        assert unseen == set(range(size)) - bytes_
        for (_, end), (start, _) in zip(coverage.ranges, coverage.ranges[1:], strict=False):
            assert end < start

    @given(ranges, st.integers(0, 60))
    @settings(max_examples=100, deadline=None)
    def test_the_next_unseen_part_follows_or_is_the_first(
        self, shown: list[tuple[int, int]], after: int
    ) -> None:
        coverage = Coverage(50)
        for start, end in shown:
            coverage.add(start, end)
        found = coverage.next_unseen(after)
        gaps = coverage.gaps()
        if found is None:
            assert coverage.complete
        else:
            behind = [gap for gap in gaps if gap[0] >= after]
            assert found == (behind or gaps)[0]

    def test_a_jump_covers_nothing_in_between(self) -> None:
        coverage = Coverage(1_000)
        coverage.add(0, 100)
        coverage.add(900, 1_000)
        assert coverage.percent == 20
        assert coverage.next_unseen() == (100, 900)

    def test_going_through_every_unseen_part_ends(self) -> None:
        coverage = Coverage(100)
        coverage.add(40, 50)
        steps = 0
        while (part := coverage.next_unseen(steps * 7)) is not None:
            coverage.add(part[0], part[0] + 7)
            steps += 1
            assert steps < 100
        assert coverage.complete

    def test_nothing_at_all_is_shown_in_full(self) -> None:
        assert Coverage(0).complete


class TestProgress:
    def test_nothing_is_decided_before_it_was_shown_in_full(self) -> None:
        progress = Progress.of(artifact())
        answers = [progress.may_decide]
        for start, end in ((0, 17), (17, 18)):
            progress.coverage.add(start, end)
            answers.append(progress.may_decide)
        assert answers == [False, False, True]

    @pytest.mark.parametrize(
        ("outside", "stated", "may"),
        [(None, True, False), (Outside.EXPORTED, False, False), (Outside.EXPORTED, True, True)],
    )
    def test_a_copy_and_the_statement_are_both_needed(
        self, outside: Outside | None, stated: bool, may: bool
    ) -> None:
        progress = Progress(sha256(BODY), Coverage(18), outside=outside, stated=stated)
        assert progress.may_decide is may
        assert progress.review()["viewed_outside"] == ("exported to a file" if may else None)

    @pytest.mark.parametrize("media_type", ["image/png", "image/tiff", "application/pdf"])
    def test_the_bytes_of_a_picture_or_document_do_not_show_it(self, media_type: str) -> None:
        progress = Progress.of(Artifact("label", sha256(BODY), media_type, BODY, None))
        progress.coverage.add(0, 18)
        progress.renderers.add("hex")
        assert (progress.may_decide, progress.percent) == (False, 0)
        assert (progress.review()["coverage"], progress.review()["shown_bytes"]) == (0.0, 18)
        progress.outside, progress.stated = Outside.EXPORTED, True
        assert (progress.may_decide, progress.in_full) == (True, False)
        assert Progress.of(Artifact("label", sha256(b""), media_type, b"", None)).in_full

    def test_the_review_says_what_was_shown_and_how(self) -> None:
        progress = Progress.of(artifact())
        progress.coverage.add(0, 9)
        progress.renderers |= {"text", "JSON tree"}
        assert progress.review() == {
            "coverage": 0.5,
            "shown_bytes": 9,
            "bytes": 18,
            "renderer": "JSON tree, text",
            "viewed_outside": None,
        }


class TestInbox:
    def test_everything_that_waits_for_a_person_the_oldest_first(self) -> None:
        wait = Wait("pause", "hold", 1, NOW + 60 * SECOND)
        runs = [
            make_run("wr_1", state=RunState.RUNNING),
            waiting_run("wr_2"),
            make_run("wr_3", state=RunState.PAUSED, waiting=wait, since=NOW - 500 * SECOND),
            make_run("wr_4", state=RunState.NEEDS_RECONCILIATION, since=NOW - 400 * SECOND),
            make_run("wr_5", state=RunState.RECOVERABLE, waiting=wait, since=NOW - 300 * SECOND),
            make_run("wr_6", state=RunState.RECOVERABLE),
            make_run("wr_7", state=RunState.COMPLETED, waiting=wait),
            make_run(
                "wr_8",
                state=RunState.WAITING_INPUT,
                waiting=Wait("input", "claims", 1, None),
                since=NOW - 50 * SECOND,
            ),
        ]
        found = inbox(map(summary_of, runs))
        assert [(item.run_id, item.act) for item in found] == [
            ("wr_3", Act.RESUME),
            ("wr_4", Act.RECONCILE),
            ("wr_5", Act.RESUME),
            ("wr_2", Act.DECIDE),
            ("wr_8", Act.ANSWER),
        ]
        assert [item.retained for item in found] == [False, False, True, False, False]
        assert [item.left(NOW) for item in found] == ["in 1 min", "", "in 1 min", "in 23 h", ""]

    def test_each_step_that_is_to_be_settled_is_one_thing_that_waits(self) -> None:
        lost = make_run(
            "wr_1",
            state=RunState.NEEDS_RECONCILIATION,
            steps=(
                make_step("a"),
                make_step("b", StepStatus.UNCERTAIN),
                make_step("c", StepStatus.UNCERTAIN),
            ),
        )
        found = inbox([summary_of(lost)], to_settle={"wr_1": unsettled(lost)})
        assert [(item.act, item.step_id) for item in found] == [(Act.RECONCILE, "b"), (Act.RECONCILE, "c")]
        assert command_of(found[0]) == "workbench reconcile wr_1 b --outcome …"
        assert [item.step_id for item in inbox([summary_of(lost)])] == [""], "its steps are not known"

    def test_what_expired_or_is_being_cancelled_cannot_be_decided(self) -> None:
        (late,) = waits_of(summary_of(waiting_run(waiting=Wait("checkpoint", "a", 1, NOW - SECOND))))
        assert late is not None
        assert late.left(NOW) == "expired" and "expired" in late.refused(NOW)
        (cancelled,) = waits_of(summary_of(waiting_run(cancel_requested=True)))
        assert cancelled is not None and "cancel" in cancelled.refused(NOW)
        (fine,) = waits_of(summary_of(waiting_run()))
        assert fine is not None and fine.refused(NOW) == ""


class TestReceipts:
    def test_it_says_who_how_what_and_when(self) -> None:
        lines = dict(receipt_lines(receipt(reason="not \x1b[2Jgentle"), NOW))
        assert lines["who"] == "os:1000"
        assert lines["session"] == "terminal, uid 1000, pts/3, not password-verified"
        assert lines["version"] == sha256(BODY)
        assert lines["shown"] == "all of 18 bytes"
        assert lines["viewed outside"] == "no"
        assert lines["step"] == "evidence-review, attempt 1"
        assert lines["reason"] == "not ␛[2Jgentle"
        assert lines["when"].endswith("1 min ago")

    def test_part_of_it_is_never_called_all(self) -> None:
        lines = dict(receipt_lines(receipt(review={"coverage": 0.999999, "bytes": 9}), NOW))
        assert lines["shown"] == "99 % of 9 bytes"

    def test_a_resume_has_no_version_and_no_coverage(self) -> None:
        lines = dict(receipt_lines(receipt(decision="resume", sha256=None, review={}), NOW))
        assert "version" not in lines and "shown" not in lines

    @pytest.mark.parametrize("review", [{"coverage": "all"}, {"coverage": True}, {"x": 1}])
    def test_what_was_recorded_by_others_is_not_trusted(self, review: dict[str, Any]) -> None:
        assert dict(receipt_lines(receipt(review=review), NOW))["shown"] == "unknown"

    def test_all_of_them_the_newest_first(self) -> None:
        views = [
            make_run("wr_1", receipts=(receipt(), receipt(step_id="b", decided_at=NOW))),
            make_run("wr_2", receipts=(receipt(run_id="wr_2", decided_at=NOW - 5),)),
        ]
        assert [item.receipt.step_id for item in decided(views)] == [
            "b",
            "evidence-review",
            "evidence-review",
        ]


SCRIPT = """\
const e = await agent({stepId: 'evidence', agentRef: 'lead_agent', task: args});
await humanCheckpoint({stepId: 'evidence-review', sourceStepId: 'evidence', artifactVersion: e.artifactVersion});
const r = await agent({stepId: 'report', agentRef: 'lead_agent', task: 1});
await pause({stepId: 'hold'});
"""


def test_what_consumes_the_output_next_is_what_the_script_names_behind_the_checkpoint() -> None:
    step = make_step(
        "evidence-review", StepStatus.WAITING, kind=StepKind.CHECKPOINT, line=2, column=7, agent_ref=None
    )
    view = waiting_run(script=SCRIPT, steps=(make_step(), step))
    assert [(site.step_id, site.kind, site.line) for site in consumers(view, "evidence-review", 1)] == [
        ("report", "agent", 3),
        ("hold", "pause", 4),
    ]
    assert consumers(view, "unknown", 1) == []
    said = told(consumers(view, "evidence-review", 1))
    assert said == "Next in the script: report (line 3), hold (pause, line 4)."
    assert told([]) == "The script names no later step."


def test_the_step_that_is_given_the_bytes_is_named_first() -> None:
    step = make_step(
        "evidence-review",
        StepStatus.WAITING,
        kind=StepKind.CHECKPOINT,
        line=2,
        column=7,
        agent_ref=None,
        input={"sourceStepId": "evidence"},
    )
    script = SCRIPT.replace("task: 1", "task: e.output")
    view = waiting_run(script=script, steps=(make_step(), step))
    said = told(consumers(view, "evidence-review", 1))
    assert said == "These bytes go to report (line 3); then hold (pause, line 4)."


class TestLastApproved:
    def client(self, *views: Any) -> FakeClient:
        client = FakeClient(*views)
        client.artifacts = {(view.run_id, "evidence-review"): artifact() for view in views}
        return client

    async def test_the_newest_approval_in_an_older_run(self) -> None:
        runs = [
            make_run("wr_9", created_at=NOW, receipts=(receipt(run_id="wr_9"),)),
            make_run("wr_8", created_at=NOW - 1),
            make_run("wr_7", created_at=NOW - 2, receipts=(receipt(run_id="wr_7", decision="reject"),)),
            make_run("wr_6", created_at=NOW - 3, receipts=(receipt(run_id="wr_6", step_id="other"),)),
            make_run("wr_5", created_at=NOW - 4, receipts=(receipt(run_id="wr_5"),)),
        ]
        client = self.client(*runs)
        found = await last_approved(client, await client.runs(None), "wr_8", "evidence-review")  # type: ignore[arg-type]
        assert found is not None and found.receipt.run_id == "wr_5"
        assert found.artifact.body == BODY

    async def test_bytes_that_are_not_the_approved_ones_are_not_compared_with(self) -> None:
        runs = [
            make_run("wr_8", created_at=NOW),
            make_run("wr_5", created_at=NOW - 4, receipts=(receipt(run_id="wr_5", sha256="0" * 64),)),
        ]
        client = self.client(*runs)
        assert await last_approved(client, await client.runs(None), "wr_8", "evidence-review") is None  # type: ignore[arg-type]

    async def test_a_run_that_cannot_be_read_is_passed_over(self) -> None:
        client = self.client(make_run("wr_8"), make_run("wr_7"))
        client.failures["view"] = StoreFailed("disk")
        assert await last_approved(client, await client.runs(None), "wr_8", "evidence-review") is None  # type: ignore[arg-type]


def test_the_hash_is_of_the_bytes_at_hand_not_of_what_the_record_says() -> None:
    forged = Artifact("evidence", "0" * 64, "application/json", BODY, None)
    assert digest(forged) == sha256(BODY)


class TestQuestions:
    def test_each_open_call_of_a_manual_agent_is_one_thing_that_waits(self) -> None:
        asked = [
            Question("wr_1", "left", 1, "person", "cr_1", NOW - 90 * SECOND),
            Question("wr_1", "right", 2, "person", "cr_2", NOW - 5 * SECOND),
            Question("wr_gone", "ask", 1, "person", "cr_3", NOW),
        ]
        runs = [make_run("wr_1", state=RunState.RUNNING), waiting_run("wr_2", since=NOW - 30 * SECOND)]
        found = inbox(map(summary_of, runs), asked)
        assert [(item.run_id, item.step_id, item.attempt, item.act) for item in found] == [
            ("wr_1", "left", 1, Act.ANSWER),
            ("wr_2", "evidence-review", 1, Act.DECIDE),
            ("wr_1", "right", 2, Act.ANSWER),
        ]
        left = found[0]
        assert (left.agent, left.child_run_id, left.expires_at, left.left(NOW)) == (
            "person",
            "cr_1",
            None,
            "",
        )
        assert (left.time(NOW), left.refused(NOW)) == ("1 min ago", "")

    @pytest.mark.parametrize(
        "changes",
        [
            {"state": RunState.RECOVERABLE},
            {"state": RunState.NEEDS_RECONCILIATION},
            {"state": RunState.COMPLETED},
            {"state": RunState.RUNNING, "cancel_requested": True},
        ],
    )
    def test_what_cannot_be_answered_any_more_is_no_question(self, changes: dict[str, Any]) -> None:
        asked = [Question("wr_1", "ask", 1, "person", "cr_1", NOW)]
        found = inbox([summary_of(make_run("wr_1", **changes))], asked)
        assert all(item.act is not Act.ANSWER for item in found)

    def test_only_child_runs_that_have_not_ended_are_looked_at(self, tmp_path: Path) -> None:
        path = tmp_path / "host.sqlite"
        assert open_questions(path) == [] and calls_that_end(path) == {}
        HostStore.open(path).close()
        rows = [
            ("cr_1", "manual", "running", 30),
            ("cr_2", "manual", "success", 10),
            ("cr_3", "stub", "running", 5),
            ("cr_4", "manual", "pending", 20),
        ]
        with closing(sqlite3.connect(path)) as store:
            for number, (child, backend, status, at) in enumerate(rows):
                store.execute(
                    "INSERT INTO child_runs (run_id, thread_id, agent_ref, owner, workflow_run, step_id, attempt, "
                    "backend, badge, durable, incarnation, status, created_at, updated_at, change) "
                    "VALUES (?, ?, 'person', 'os:1', 'wr_1', 'ask', 1, ?, '', ?, 'i', ?, ?, ?, ?)",
                    (child, f"th_{number}", backend, backend == "stub", status, at, at, number),
                )
            store.commit()
            plan = store.execute(f"EXPLAIN QUERY PLAN {review_questions._OPEN}", ("manual",)).fetchall()
        assert open_questions(path) == [
            Question("wr_1", "ask", 1, "person", "cr_4", 20),
            Question("wr_1", "ask", 1, "person", "cr_1", 30),
        ]
        assert calls_that_end(path) == {"wr_1": ["ask", "ask"]}, "that of a stub goes on"
        assert "child_runs_active" in plan[0][3], "however many child runs have ended"

    def test_the_steps_behind_a_question_are_given_its_answer(self) -> None:
        script = (
            "const said = await agent({stepId: 'ask', agentRef: 'person', task: 1});\n"
            "return await agent({stepId: 'use', agentRef: 'helper', task: said.output});\n"
        )
        step = make_step("ask", StepStatus.RUNNING, line=1, column=20, input={"sourceStepId": "other"})
        steps = consumers(make_run(script=script, steps=(step,)), "ask", 1)
        assert told(steps, "The answer goes") == "The answer goes to use (line 2)."
