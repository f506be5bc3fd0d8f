"""The reviewer's job, from keys to what is decided."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.preview.files import pdf, png
from tests.workbench.tui.fakes import (
    NOW,
    SECOND,
    FakeClient,
    FrozenClock,
    flat,
    make_run,
    make_step,
    screen_text,
    settle,
    until,
)
from tests.workbench.tui.review_support import (
    RUN,
    SMALL,
    application,
    approved_before,
    artifact,
    asking,
    at_checkpoint,
    at_pause,
    client_of,
    detail,
    everything,
    output,
    read_in_full,
    receipt,
    shown,
    unsettled,
)
from workbench.tui.app import WorkbenchApp
from workbench.tui.messages import Tick
from workbench.tui.screens.review import InboxList, ReviewScreen
from workbench.tui.screens.review_dialogs import TextDialog
from workbench.tui.screens.run_answer import AnswerDialog
from workbench.tui.widgets.bytes_view import BytesView
from workbench.tui.widgets.choice import Choice
from workflows_core.errors import Conflict, StoreFailed
from workflows_core.model import Cause, RunState, StepStatus, Wait

MakeApp = Callable[..., WorkbenchApp]
SIZE = (110, 34)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BytesView, "STOOD", 0.03)


def one(exact: Any = None, **changes: Any) -> FakeClient:
    exact = exact or artifact()
    return client_of((at_checkpoint(exact=exact, **changes), exact))


def progress(app: WorkbenchApp) -> Any:
    subject = detail(app).subject
    assert subject is not None and subject.progress is not None
    return subject.progress


def may(app: WorkbenchApp, action: str) -> bool:
    return bool(app.base_screen.check_action(action, ()))


def notices(app: WorkbenchApp) -> str:
    return "\n".join(f"{notice.title}: {notice.message}" for notice in app.notices)


class TestTheList:
    async def test_everything_that_waits_the_oldest_first_with_its_deadline(self, make_app: MakeApp) -> None:
        app = application(make_app, everything())
        async with app.run_test(size=(140, 34)) as pilot:
            await shown(pilot)
            text = screen_text(app)
            places = [text.index(part) for part in ("reconcile", "approve", "resume")]
            assert places == sorted(places)
            assert "in 23 h" in text and "in 50 min" in text and "1 h ago" in text
            assert "Waiting 3" in text

    async def test_an_empty_inbox_says_what_to_do(self, make_app: MakeApp) -> None:
        app = application(make_app, FakeClient(make_run()))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            assert "Nothing waits for you." in screen_text(app)
            assert not any(may(app, name) for name in ("approve", "reject", "resume", "unseen", "compare"))
            await shown(pilot, "s")
            assert "Nobody has decided anything" in screen_text(app)

    async def test_what_is_decided_elsewhere_leaves_and_the_next_one_is_read(self, make_app: MakeApp) -> None:
        client = everything()
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "down")
            assert "evidence-review of checks" in screen_text(app)
            client.change(RUN, state=RunState.RUNNING, waiting=None)
            await until(pilot, lambda: "evidence-review of checks" not in screen_text(app))
            await settle(pilot)
            assert "before-sending of file-review" in screen_text(app)
            assert client.decided == []

    async def test_the_key_of_the_screen_leads_here(self, make_app: MakeApp) -> None:
        app = make_app(one(), screen="runs")
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "f4")
            assert isinstance(app.base_screen, ReviewScreen)
            assert "JSON tree" in screen_text(app)


class TestShownInFull:
    async def test_nothing_is_decided_before_everything_was_shown(self, make_app: MakeApp) -> None:
        client = one()
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            await until(pilot, lambda: progress(app).coverage.seen > 0)
            assert not may(app, "approve") and not may(app, "reject")
            await shown(pilot, "A", "X")
            assert app.screen is app.base_screen
            assert all(choice.disabled for choice in app.screen.query("#acts Choice"))
            assert f"{progress(app).coverage.percent} %" in screen_text(app)
            await read_in_full(pilot, app)
            assert "in full" in screen_text(app)
            assert may(app, "approve") and may(app, "reject")
            assert not any(choice.disabled for choice in app.screen.query("#acts Choice"))
            assert client.decided == []

    async def test_a_jump_to_the_end_covers_nothing_in_between(self, make_app: MakeApp) -> None:
        app = application(make_app, one())
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            await until(pilot, lambda: progress(app).coverage.seen > 0)
            await pilot.press("end")
            size = progress(app).coverage.size
            await until(pilot, lambda: progress(app).coverage.ranges[-1][1] == size)
            assert len(progress(app).coverage.gaps()) == 1
            assert not may(app, "approve")

    async def test_folded_json_is_unseen_and_the_next_unseen_part_unfolds_it(self, make_app: MakeApp) -> None:
        app = application(make_app, one())
        async with app.run_test(size=(110, 60)) as pilot:
            await shown(pilot)
            view = output(app)
            rows = view.bytes_shown
            assert rows is not None
            await shown(pilot, "enter", "enter")
            assert "lines folded, not shown" in screen_text(app)
            folded = view.bytes_shown
            assert folded is not None and len(folded) == 1
            progress(app).coverage.__init__(len(rows.data))
            await until(pilot, lambda: progress(app).coverage.seen > 0)
            assert progress(app).coverage.ranges == [folded.span(0)]
            await shown(pilot, "u")
            assert "lines folded" not in screen_text(app)
            await until(pilot, lambda: progress(app).coverage.seen > 100)

    async def test_what_stands_under_a_dialog_or_another_screen_does_not_count(
        self, make_app: MakeApp
    ) -> None:
        app = application(make_app, one())
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            await shown(pilot, "f1")
            coverage = progress(app).coverage
            coverage.__init__(coverage.size)
            await pilot.pause(0.05)
            assert coverage.seen == 0
            await shown(pilot, "escape")
            await until(pilot, lambda: coverage.seen > 0)
            await shown(pilot, "f3")
            coverage.__init__(coverage.size)
            await pilot.pause(0.05)
            assert coverage.seen == 0

    async def test_what_a_notice_lies_over_does_not_count(self, make_app: MakeApp) -> None:
        app = application(make_app, one())
        async with app.run_test(size=SIZE, notifications=True) as pilot:
            await shown(pilot, "enter")
            app.notice("\n".join(f"line {n} of it" for n in range(9)), title="Something waits for you")
            await until(pilot, lambda: "line 8 of it" in screen_text(app))
            coverage = progress(app).coverage
            coverage.__init__(coverage.size)
            await until(pilot, lambda: coverage.seen > 0)
            await pilot.pause(0.1)
            rows, view = output(app).bytes_shown, output(app)
            assert rows is not None
            last = rows.span(view.size.height - 1)
            assert coverage.ranges[-1][1] < last[1]
            app.clear_notifications()
            await until(pilot, lambda: coverage.ranges[-1][1] >= last[1])

    async def test_a_narrow_terminal_shows_nothing_of_a_folded_pane(self, make_app: MakeApp) -> None:
        app = application(make_app, one())
        async with app.run_test(size=(80, 24)) as pilot:
            await shown(pilot)
            await pilot.pause(0.05)
            assert progress(app).coverage.seen == 0
            await shown(pilot, "enter")
            await until(pilot, lambda: progress(app).coverage.seen > 0)

    async def test_any_rendering_counts_and_the_receipt_names_those_used(self, make_app: MakeApp) -> None:
        app = application(make_app, one(artifact(b"line one\n" * 90 + b"end", "text/plain")))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            assert detail(app).tab == "text"
            await until(pilot, lambda: progress(app).coverage.seen > 0)
            await shown(pilot, "3")
            assert detail(app).tab == "hex"
            await read_in_full(pilot, app)
            assert progress(app).review()["renderer"] == "hex, text"

    async def test_coverage_stays_when_one_looks_at_something_else(self, make_app: MakeApp) -> None:
        app = application(make_app, everything())
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "down")
            await until(pilot, lambda: progress(app).coverage.seen > 0)
            before = progress(app)
            await shown(pilot, "down", "up")
            assert progress(app) is before

    async def test_an_empty_output_is_said_to_be_empty(self, make_app: MakeApp) -> None:
        app = application(make_app, one(artifact(b"", "text/plain")))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            assert "The output is empty" in screen_text(app)
            assert may(app, "approve")

    async def test_resizing_keeps_the_place(self, make_app: MakeApp) -> None:
        app = application(
            make_app, one(artifact(b"".join(b"line %d\n" % n for n in range(400)), "text/plain"))
        )
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter", "end", "pageup", "pageup")
            rows, index = output(app).bytes_shown, output(app).current_index
            assert rows is not None and index is not None
            line = rows.text(index)
            await pilot.resize_terminal(90, 24)
            await shown(pilot)
            rows, index = output(app).bytes_shown, output(app).current_index
            assert rows is not None and index is not None
            assert rows.text(index) == line


class TestDeciding:
    async def test_approve_from_keys_to_the_receipt(self, make_app: MakeApp) -> None:
        exact = artifact()
        client = one(exact)
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            await read_in_full(pilot, app)
            await pilot.press("A")
            await until(pilot, lambda: app.screen is not app.base_screen)
            text = flat(screen_text(app))
            assert "evidence-review of checks" in text
            assert exact.version in text
            assert "report (line 5)" in text
            assert "cannot be changed or taken back" in text
            assert app.focused is not None and app.focused.name == "wait"
            await pilot.press("enter")
            await settle(pilot)
            assert client.decided == []
            await pilot.press("A")
            await until(pilot, lambda: app.screen is not app.base_screen)
            await pilot.press("tab", "enter")
            await until(pilot, lambda: bool(client.decided))
            await settle(pilot)
            (request,) = client.decided
            assert (request.run_id, request.step_id, request.attempt) == (RUN, "evidence-review", 1)
            assert (request.decision, request.sha256, request.reason) == ("approve", exact.version, None)
            assert request.review == {
                "coverage": 1.0,
                "shown_bytes": len(exact.body),
                "bytes": len(exact.body),
                "renderer": "JSON tree",
                "viewed_outside": None,
            }
            assert "Nothing waits for you." in screen_text(app)
            await shown(pilot, "s", "enter")
            text = flat(screen_text(app))
            assert exact.version in text.replace(" ", "")
            for part in ("approved by os:1000", "pts/3", "all of 600 bytes", "JSON tree"):
                assert part in text
            await shown(pilot, "2")
            assert '"Synthetic soap"' in screen_text(app) or '"claims"' in screen_text(app)

    async def test_reject_asks_for_a_reason(self, make_app: MakeApp) -> None:
        client = one(artifact(SMALL))
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            await until(pilot, lambda: may(app, "approve"))
            await pilot.press("X")
            await until(pilot, lambda: isinstance(app.screen, TextDialog))
            await pilot.press("tab", "tab", "enter")
            await settle(pilot)
            assert "A rejection needs a reason" in screen_text(app)
            assert client.decided == []
            await pilot.press(*"no letter", "enter")
            assert app.focused is not None and app.focused.name == "wait"
            await pilot.press("tab", "enter")
            await until(pilot, lambda: bool(client.decided))
            assert (client.decided[0].decision, client.decided[0].reason) == ("reject", "no letter")

    async def test_a_reason_that_is_too_long_is_refused_in_words(self, make_app: MakeApp) -> None:
        client = one(artifact(SMALL))
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            await until(pilot, lambda: may(app, "approve"))
            await pilot.press("X")
            await until(pilot, lambda: isinstance(app.screen, TextDialog))
            assert isinstance(app.screen, TextDialog)
            app.screen.field.value = "x" * 2_001
            await pilot.press("tab", "tab", "enter")
            await settle(pilot)
            assert "at most 2,000 characters" in screen_text(app)
            await pilot.press("escape")
            await settle(pilot)
            assert client.decided == []

    async def test_a_refusal_of_the_engine_is_shown(self, make_app: MakeApp) -> None:
        client = one(artifact(SMALL))
        client.failures["decide"] = Conflict("evidence-review was already decided: reject by bob")
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            await until(pilot, lambda: may(app, "approve"))
            await pilot.press("A")
            await until(pilot, lambda: app.screen is not app.base_screen)
            await pilot.press("tab", "enter")
            await until(pilot, lambda: "already decided" in notices(app))

    @pytest.mark.parametrize("key", ["A", "X"])
    @pytest.mark.parametrize("how", ["decided", "expired", "cancelled"])
    async def test_a_question_is_withdrawn_once_its_object_is_over(
        self, make_app: MakeApp, clock: FrozenClock, key: str, how: str
    ) -> None:
        exact = artifact(SMALL)
        client = client_of(
            (at_checkpoint(exact=exact), exact), (at_checkpoint("wr_other", exact=exact), exact)
        )
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            await until(pilot, lambda: may(app, "approve"))
            asked = detail(app).subject
            assert asked is not None
            await pilot.press(key)
            await until(pilot, lambda: app.screen is not app.base_screen)
            if key == "X":
                await pilot.press(*"no letter")
            run_id = asked.view.run_id
            if how == "decided":
                made = receipt(run_id, exact, decision="reject", reason="no letter")
                client.change(run_id, state=RunState.FAILED, waiting=None, receipts=(made,))
                said = "evidence-review was decided in the meantime: rejected"
            elif how == "expired":
                clock.advance(90_000)
                app.base_screen.post_message(Tick(clock()))
                said = "This wait expired"
            else:
                cause = Cause("cancelled", "somebody asked for it")
                client.change(run_id, state=RunState.CANCELLED, waiting=None, cause=cause)
                said = "somebody asked for it"
            await until(pilot, lambda: said in flat(screen_text(app)))
            text = screen_text(app)
            assert "It cannot be decided any more" in text
            assert "no letter" in text or key == "A"
            assert [choice.disabled for choice in app.screen.query(Choice)] == [False, True]
            assert "[ Close ]" in text and "Not yet" not in text
            await pilot.press("tab", "tab", "enter", "escape")
            await until(pilot, lambda: app.screen is app.base_screen)
            await settle(pilot)
            assert client.decided == []

    async def test_a_refusal_of_what_is_over_says_why_keeps_the_reason_and_gives_the_list_back(
        self, make_app: MakeApp
    ) -> None:
        client = one(artifact(SMALL))
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            await until(pilot, lambda: may(app, "approve"))
            await pilot.press("X")
            await until(pilot, lambda: isinstance(app.screen, TextDialog))
            client.failures["decide"] = Conflict("run is failed; ok cannot be decided now")
            client.views[RUN] = at_checkpoint(
                state=RunState.FAILED, waiting=None, cause=Cause("expired", "nobody decided in time")
            )
            await pilot.press(*"no letter", "enter", "tab", "enter")
            await until(pilot, lambda: "Nothing was decided" in notices(app))
            assert "nobody decided in time" in notices(app) and "Your reason: no letter" in notices(app)
            client.changed(RUN)
            await until(pilot, lambda: "Nothing waits for you." in screen_text(app))
            assert isinstance(app.focused, InboxList)
            await shown(pilot, "s")
            assert "Nobody has decided anything" in screen_text(app)

    async def test_the_focus_leaves_an_output_that_is_gone(self, make_app: MakeApp) -> None:
        client = one(artifact(SMALL))
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            assert app.focused is output(app)
            client.change(RUN, state=RunState.FAILED, waiting=None)
            await until(pilot, lambda: "Nothing waits for you." in screen_text(app))
            await settle(pilot)
            assert isinstance(app.focused, InboxList)

    async def test_bytes_that_are_not_the_checkpoints_version_cannot_be_decided(
        self, make_app: MakeApp
    ) -> None:
        client = one()
        client.artifacts[RUN, "evidence-review"] = artifact(SMALL)
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            await until(pilot, lambda: "nothing can be decided" in flat(screen_text(app)))
            assert not may(app, "approve") and not may(app, "open_outside")

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"waiting": Wait("checkpoint", "evidence-review", 1, NOW - SECOND)}, "This wait expired"),
            ({"cancel_requested": True}, "A cancel is recorded"),
        ],
    )
    async def test_what_would_be_refused_is_not_offered(
        self, make_app: MakeApp, changes: dict[str, Any], words: str
    ) -> None:
        exact = artifact(SMALL)
        app = application(make_app, one(exact, **changes))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            await until(pilot, lambda: progress(app).coverage.complete)
            assert words in flat(screen_text(app))
            assert not may(app, "approve") and not may(app, "reject")

    async def test_a_wait_that_expires_while_it_is_read(self, make_app: MakeApp, clock: FrozenClock) -> None:
        exact = artifact(SMALL)
        app = application(make_app, one(exact))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            await until(pilot, lambda: may(app, "approve"))
            clock.advance(100_000)
            assert not may(app, "approve")

    async def test_a_retained_checkpoint_says_that_the_run_is_recovered_first(
        self, make_app: MakeApp
    ) -> None:
        exact = artifact(SMALL)
        client = one(exact, state=RunState.RECOVERABLE)
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            await until(pilot, lambda: may(app, "approve"))
            assert "answering recovers the run first" in flat(screen_text(app))
            await pilot.press("A")
            await until(pilot, lambda: app.screen is not app.base_screen)
            assert "the run is recovered first" in flat(screen_text(app))

    async def test_keys_do_not_decide_while_a_list_is_filtered(self, make_app: MakeApp) -> None:
        exact = artifact(SMALL)
        client = one(exact)
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            await until(pilot, lambda: may(app, "approve"))
            await shown(pilot, "slash", "A", "X")
            assert app.screen is app.base_screen
            assert client.decided == []


class TestPausesAndTheRest:
    async def test_a_pause_is_resumed_here(self, make_app: MakeApp) -> None:
        client = client_of((at_pause(), None))
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            text = flat(screen_text(app))
            assert "its pause before-sending in line 6" in text
            assert "the report has 3 findings" in text and "sending (line 7)" in text
            await shown(pilot, "r")
            await until(pilot, lambda: bool(client.resumed))
            assert client.resumed == [("wr_00000000000000e5", "before-sending", 1)]

    async def test_an_uncertain_step_leads_to_its_run(self, make_app: MakeApp) -> None:
        app = application(make_app, client_of((unsettled(), None)))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            assert "claims: uncertain" in screen_text(app)
            await shown(pilot, "tab", "tab", "enter")
            await until(pilot, lambda: app.current_mode == "runs")

    async def test_a_child_that_asks_a_human(self, make_app: MakeApp) -> None:
        view = unsettled(state=RunState.WAITING_INPUT, waiting=Wait("input", "claims", 1, None))
        app = application(make_app, client_of((view, None)))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            assert "An agent asks a human" in screen_text(app)


class TestOutside:
    @pytest.fixture(autouse=True)
    def viewer(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
        """A viewer that writes down what it is given."""
        folder = tmp_path / "viewer"
        folder.mkdir()
        program = folder / "xdg-open"
        program.write_text(f'#!/bin/sh\nstat -c %a "$1" > {folder}/mode\ncp "$1" {folder}/seen\necho noise\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("DISPLAY", ":9")
        monkeypatch.setattr("sys.platform", "linux")
        yield folder

    async def test_a_private_copy_is_opened_and_viewed_outside_is_stated(
        self, make_app: MakeApp, viewer: Path
    ) -> None:
        exact = artifact(bytes(range(256)) * 40, "application/octet-stream")
        client = one(exact)
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            assert not may(app, "viewed")
            await pilot.press("o")
            await until(pilot, lambda: may(app, "viewed"))
            assert not may(app, "approve")
            path = Path(notices(app).split("Opened a private copy: ")[1].splitlines()[0])
            assert exact.version in notices(app)
            assert path.read_bytes() == exact.body
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            await until(
                pilot, lambda: (viewer / "seen").exists() and (viewer / "seen").read_bytes() == exact.body
            )
            assert (viewer / "mode").read_text() == "600\n"
            await shown(pilot, "V")
            assert may(app, "approve") and "viewed outside" in screen_text(app)
            await pilot.press("A")
            await until(pilot, lambda: app.screen is not app.base_screen)
            assert "opened in the system's viewer" in flat(screen_text(app))
            await pilot.press("tab", "enter")
            await until(pilot, lambda: bool(client.decided))
            review = client.decided[0].review
            assert review["viewed_outside"] == "opened in the system's viewer"
            assert review["coverage"] < 1
        assert not path.exists()

    async def test_a_copy_that_was_changed_is_not_what_was_viewed(self, make_app: MakeApp) -> None:
        app = application(make_app, one(artifact(b"x" * 50_000, "text/plain")))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            await pilot.press("o")
            await until(pilot, lambda: may(app, "viewed"))
            path = Path(notices(app).split("Opened a private copy: ")[1].splitlines()[0])
            path.write_bytes(b"something else")
            await shown(pilot, "V")
            assert not may(app, "approve")
            assert "The copy was changed" in notices(app)

    async def test_the_exact_bytes_are_exported_to_a_new_file_only(
        self, make_app: MakeApp, workspace: Any
    ) -> None:
        exact = artifact(b"x" * 50_000, "text/plain", path="reports/../evil name\x1b.md")
        app = application(make_app, one(exact))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            await pilot.press("E")
            await until(pilot, lambda: isinstance(app.screen, TextDialog))
            assert isinstance(app.screen, TextDialog)
            assert app.screen.field.value == "evil-name-.md"
            await pilot.press("tab", "tab", "enter")
            target = workspace.root / "evil-name-.md"
            await until(pilot, target.exists)
            await until(pilot, lambda: may(app, "viewed"))
            assert target.read_bytes() == exact.body
            assert stat.S_IMODE(target.stat().st_mode) == 0o600
            target.write_bytes(b"kept")
            await pilot.press("E")
            await until(pilot, lambda: isinstance(app.screen, TextDialog))
            await pilot.press("tab", "tab", "enter")
            await until(pilot, lambda: "exists already" in notices(app))
            assert target.read_bytes() == b"kept"

    async def test_without_a_desktop_it_says_to_export(
        self, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("DISPLAY")
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        app = application(make_app, one())
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            await pilot.press("o")
            await until(pilot, lambda: "export the output instead" in notices(app))
            assert not may(app, "viewed")


class TestPictures:
    async def test_an_image_is_sketched_and_neither_that_nor_its_bytes_count(self, make_app: MakeApp) -> None:
        client = one(artifact(png(60, 40), "image/png", path="label.png"))
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            assert detail(app).tab == "picture"
            text = screen_text(app)
            assert "PNG, 60 by 40 pixels" in text and "▀▀▀▀" in text
            assert "does not count as shown" in flat(text)
            await pilot.pause(0.05)
            assert progress(app).coverage.seen == 0 and not may(app, "approve")
            assert "Markdown" not in text
            assert "not drawn legibly; view it outside: E or o" in flat(text)
            await shown(pilot, "u")
            assert detail(app).tab == "picture"
            assert "E exports the exact copy" in notices(app) and "then V states" in notices(app)
            await shown(pilot, "3")
            assert detail(app).tab == "hex"
            await until(pilot, lambda: progress(app).coverage.complete)
            await settle(pilot)
            assert "bytes do not count; view it outside: E or o" in flat(screen_text(app))
            assert not may(app, "approve") and not may(app, "viewed")
            await shown(pilot, "u")
            assert detail(app).tab == "picture"
            await pilot.press("E")
            await until(pilot, lambda: isinstance(app.screen, TextDialog))
            await pilot.press("tab", "tab", "enter")
            await until(pilot, lambda: may(app, "viewed"))
            await shown(pilot, "V")
            assert may(app, "approve")
            await pilot.press("A")
            await until(pilot, lambda: app.screen is not app.base_screen)
            said = flat(screen_text(app))
            assert "0 % shown here, its bytes read as hex, exported to a file" in said

    async def test_a_document_says_what_it_carries(self, make_app: MakeApp) -> None:
        exact = artifact(pdf(pages=9, script=True, note=True), "application/pdf", path="label.pdf")
        app = application(make_app, one(exact))
        async with app.run_test(size=(110, 120)) as pilot:
            await shown(pilot, "enter")
            text = flat(screen_text(app))
            assert "PDF, 9 pages" in text
            assert "scripts: 1, annotations: 9" in text and "1 of 9" in text

    async def test_what_cannot_be_drawn_is_said_and_can_still_be_read(self, make_app: MakeApp) -> None:
        app = application(make_app, one(artifact(b"\x1b]0;no image\x07", "image/png")))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            assert "the bytes are no PNG image" in flat(screen_text(app))
            assert progress(app).coverage.seen == 0
            await shown(pilot, "2")
            assert "no image" in screen_text(app)
            await until(pilot, lambda: progress(app).coverage.complete)
            assert not may(app, "approve")

    async def test_without_colours_there_is_no_sketch(
        self, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        app = application(make_app, one(artifact(png(), "image/png")))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "enter")
            text = flat(screen_text(app))
            assert "PNG, 40 by 20 pixels" in text and "▀" not in text and "draws no colours" in text


class TestComparing:
    async def test_with_the_last_approved_version_of_the_same_step(self, make_app: MakeApp) -> None:
        app = application(make_app, everything())
        async with app.run_test(size=(140, 40)) as pilot:
            await shown(pilot, "down", "equals_sign")
            await until(pilot, lambda: detail(app).compared)
            await settle(pilot)
            text = screen_text(app)
            assert "lines differ" in text and "approved 1 h 56 min ago" in text
            assert "- " in text and '"cleans in cold water"' in text
            seen = progress(app).coverage.seen
            await pilot.pause(0.05)
            assert progress(app).coverage.seen == seen
            await shown(pilot, "equals_sign")
            assert detail(app).tab == "tree"

    async def test_without_an_earlier_approval(self, make_app: MakeApp) -> None:
        app = application(make_app, one())
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "equals_sign")
            await until(pilot, lambda: "No earlier run has an approved version" in screen_text(app))

    async def test_the_same_bytes_again(self, make_app: MakeApp) -> None:
        exact = artifact()
        client = client_of((at_checkpoint(), exact), (approved_before(exact=exact), exact))
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, "equals_sign")
            await until(pilot, lambda: "no difference" in screen_text(app))


class TestArrivals:
    async def test_something_new_rings_and_is_named(
        self, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rung: list[int] = []
        client = everything()
        app = application(make_app, client)
        monkeypatch.setattr(app, "bell", lambda: rung.append(1))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            assert rung == [] and not app.notices
            client.put(at_checkpoint("wr_new", name="evil \x1b]0;x\x07"))
            await until(pilot, lambda: bool(rung))
            assert "evidence-review of evil ␛]0;x␇ waits for approval" in notices(app)
            client.changed("wr_new")
            await settle(pilot)
            client.change("wr_new", state=RunState.RUNNING, waiting=None)
            await settle(pilot)
            assert len(rung) == 1

    async def test_many_at_once_are_counted(self, make_app: MakeApp) -> None:
        client = FakeClient(make_run())
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            for n in range(5):
                client.views[f"wr_{n}"] = at_checkpoint(f"wr_{n}")
                client.changed(f"wr_{n}")
            await until(pilot, lambda: "5 things began to wait" in notices(app))

    async def test_the_terminals_title(self, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
        client = FakeClient(make_run())
        app = application(make_app, client)
        written: list[str] = []
        monkeypatch.setattr(app._arrivals, "_write", written.append)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            assert written == []
            client.put(at_checkpoint(name="\x1b]0;x\x07"))
            await until(pilot, lambda: bool(written))
            client.remove(RUN)
            await until(pilot, lambda: len(written) == 2)
        assert written == ["\x1b]2;1 waiting - workbench\x07", "\x1b]2;workbench\x07"]


def header(app: WorkbenchApp) -> str:
    """What stands over the tabs, in one line each."""
    subject = detail(app).subject
    assert subject is not None
    return "\n".join("".join(span.text for span in line) for line in subject.header(400))


class TestQuestions:
    async def test_each_is_a_row_and_is_counted_and_answered_in_the_dialog_of_runs(
        self, make_app: MakeApp
    ) -> None:
        view = asking("left", "right")
        client = FakeClient(at_checkpoint(), view)
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            assert [item.step_id for item in app.book.waiting] == ["evidence-review", "left", "right"]
            assert app.standing.waiting == 3 and "Waiting 3" in screen_text(app)
            await shown(pilot, "down")
            text = flat(screen_text(app))
            assert "Is left ␛[2Jfine?" in text and "You are man, for the step left" in text
            assert "It has no deadline: the run's time stands still" in header(app)
            assert may(app, "answer") and not may(app, "approve") and not may(app, "resume")
            await pilot.press("T")
            await until(pilot, lambda: isinstance(app.screen, AnswerDialog))
            await shown(pilot, "4", "2", "enter", "tab", "enter")
            await until(pilot, lambda: client.answered != [])
            (given,) = client.answered
            assert given == (view.steps[1].child_run_id, 42, None)
            await until(pilot, lambda: "Answer:" in notices(app))

    async def test_its_time_counts_while_other_calls_are_under_way(self, make_app: MakeApp) -> None:
        view = asking("left")
        working = make_step("work", StepStatus.RUNNING, agent_ref="helper")
        app = application(make_app, FakeClient(asking("left", steps=(*view.steps, working))))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            assert "the run's time counts while its other calls" in header(app)

    async def test_one_that_opens_rings_and_one_that_is_answered_elsewhere_leaves(
        self, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rung: list[int] = []
        client = FakeClient(asking())
        app = application(make_app, client)
        monkeypatch.setattr(app, "bell", lambda: rung.append(1))
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            assert not app.book.waiting
            client.put(asking("left"))
            await until(pilot, lambda: rung == [1])
            assert "left of asks waits for your answer." in notices(app)
            await until(pilot, lambda: may(app, "answer"))
            client.put(asking())
            await until(pilot, lambda: "Nothing waits for you." in screen_text(app))
            assert not may(app, "answer")

    async def test_where_the_owner_is_gone_it_is_no_question(self, make_app: MakeApp) -> None:
        client = FakeClient(asking("left"))
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            assert len(app.book.waiting) == 1
            client.put(asking("left", state=RunState.RECOVERABLE))
            await until(pilot, lambda: not app.book.waiting)

    async def test_runs_are_listed_where_the_questions_cannot_be_read(self, make_app: MakeApp) -> None:
        client = FakeClient(asking("left"), at_checkpoint())
        client.failures["questions"] = StoreFailed("the disk refused")
        app = application(make_app, client)
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            assert [item.step_id for item in app.book.waiting] == ["evidence-review"]

    async def test_the_row_under_the_cursor_is_shown_and_not_one_that_it_has_left(
        self, make_app: MakeApp
    ) -> None:
        app = application(make_app, everything())
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot)
            screen = app.base_screen
            assert isinstance(screen, ReviewScreen)
            rows = screen.query_one(InboxList)
            late = rows.current_id
            await shown(pilot, "down")
            rows.post_message(InboxList.Highlighted(rows, 0, late))
            await settle(pilot)
            assert screen._selected == rows.current_id != late
