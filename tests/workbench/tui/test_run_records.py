"""Evidence with what changed, receipts, and child runs with their events, on the Runs screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import (
    NOW,
    FakeClient,
    completed_run,
    flat,
    make_step,
    screen_text,
    settle,
    until,
)
from tests.workbench.tui.review_support import receipt
from tests.workbench.tui.run_support import ASSEMBLED, FIRST, assembled_run, attestation, child
from tests.workbench.tui.test_run_acts_snapshots import REPORT
from workbench.child_runs import ChildEvent
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.run_child import ChildRunScreen, EventRows
from workbench.tui.screens.runs import RunsScreen
from workbench.tui.widgets.run_records import (
    RecordRows,
    attestation_lines,
    evidence_of,
    evidence_rows,
    receipt_count,
    receipt_rows,
)
from workflows_core.errors import StoreFailed

MakeApp = Callable[..., WorkbenchApp]
WIDE, NARROW = (120, 40), (80, 24)
EVIL = "\x1b]52;c;x\x07\u202e"


def texts(rows: RecordRows | EventRows, width: int = 74) -> list[str]:
    return ["".join(span.text for span in rows.line(n, width)).rstrip() for n in range(len(rows))]


@pytest.fixture
def runs_app(make_app: MakeApp) -> MakeApp:
    def make(client: FakeClient) -> WorkbenchApp:
        return make_app(client, screens={"runs": RunsScreen})

    return make


async def press(pilot: Pilot[Any], *keys: str) -> str:
    await pilot.press(*keys)
    await settle(pilot)
    return screen_text(pilot.app)


# Evidence


def test_evidence_says_for_each_step_what_changed_since_the_assembly_before() -> None:
    lines = texts(evidence_rows(assembled_run(), ASSEMBLED, (), NOW))
    assert "  The first assembly of lead_agent that this host knows." in lines
    assert "  the same  as for evidence of this run, 1 min ago" in lines
    assert "  3 changes  since formula of wr_00000000000000ff, 2 h ago" in lines
    assert "    ~ parameter:temperature  changed  0.2 → 0.7" in lines
    assert "    + tool:search  added" in lines
    assert "  not comparable  with summary of wr_00000000000000ff, 1 d 1 h ago" in lines
    assert "    Another lifetime of the host: its versions have other keys." in lines
    assert all(len(line) <= 74 for line in lines)


def test_the_components_of_a_step_stand_below_it_once_it_is_opened() -> None:
    closed = texts(evidence_rows(assembled_run(), ASSEMBLED, (), NOW))
    assert not any("fingerprint" in line and "{" in line for line in closed) and '"model"' not in "".join(
        closed
    )
    opened = texts(evidence_rows(assembled_run(), ASSEMBLED, {"claims@1"}, NOW))
    assert sum('"model": "a1"' in line for line in opened) == 1
    alone = completed_run(steps=(make_step("a", evidence={"tokens": 3}),))
    assert '      "tokens": 3' in texts(evidence_rows(alone, None, (), NOW))


def test_copying_any_line_of_evidence_takes_all_of_it() -> None:
    rows = evidence_rows(assembled_run(), ASSEMBLED, (), NOW)
    what, value = rows.copied(1)
    assert what == "the evidence of evidence" and '"fingerprint": "3f9a2c1d"' in value


def test_a_child_that_the_host_does_not_know_and_a_store_that_cannot_be_read_are_said() -> None:
    view = assembled_run()
    assert any("does not hold its child run" in line for line in texts(evidence_rows(view, {}, (), NOW)))
    assert (
        texts(evidence_rows(view, {}, (), NOW, "The disk does not answer."))[0] == "The disk does not answer."
    )
    assert not any("hold its child" in line for line in texts(evidence_rows(view, None, (), NOW)))
    assert evidence_of(completed_run()) == [] and len(evidence_of(view)) == 4


def test_i13_evidence_is_inert() -> None:
    view = completed_run(steps=(make_step(EVIL, agent_ref=EVIL, evidence={EVIL: EVIL}),))
    assert "\x1b" not in "".join(texts(evidence_rows(view, {}, (), NOW)))


async def test_the_evidence_tab_asks_the_host_when_it_is_shown(runs_app: MakeApp) -> None:
    client = FakeClient(assembled_run())
    client.assembled.update(ASSEMBLED)
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        assert "Evidence 4" in await press(pilot, "enter")
        await pilot.press("5")
        await until(pilot, lambda: "not comparable" in screen_text(app))
        assert "parameter:temperature" in screen_text(app)
        await press(pilot, "home")
        text = await press(pilot, "enter")
        assert '"model": "a1"' in text


async def test_a_host_store_that_cannot_be_read_leaves_the_evidence(runs_app: MakeApp) -> None:
    client = FakeClient(assembled_run())
    client.failures["assemblies"] = StoreFailed("the host's store is damaged")
    app = runs_app(client)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "enter", "5")
        await until(pilot, lambda: "the host's store is damaged" in flat(screen_text(app)))
        assert "summary  lead_agent" in screen_text(app)


# Receipts


def test_receipts_say_who_decided_what_and_how_it_was_shown() -> None:
    view = completed_run(receipts=(receipt(FIRST, REPORT),))
    lines = texts(receipt_rows(view, [attestation()], NOW, 74))
    assert receipt_count(view, [attestation()]) == 2
    for wanted in (
        "evidence-review  approved",
        "  who            os:1000",
        "  session        terminal, uid 1000, pts/3, not password-verified",
        "  mode           terminal",
        "  shown          all of 11 bytes",
        "claims  attested: it did not run",
        "  reason         The Gateway's log shows no request of that thread.",
        "  effect         it settles the step",
    ):
        assert wanted in lines
    assert all(len(line) <= 74 for line in lines)


def test_receipts_stand_in_the_order_in_which_they_were_made_and_copy_whole() -> None:
    late = receipt(FIRST, REPORT, decided_at=NOW)
    rows = receipt_rows(completed_run(receipts=(late,)), [attestation()], NOW, 74)
    assert texts(rows)[0] == "claims  attested: it did not run"
    assert "statement: " + "5" * 64 in rows.copied(0)[1]


def test_an_attestation_that_does_not_settle_says_so_and_is_inert() -> None:
    lines = dict(attestation_lines(attestation(settles=False, reason=EVIL, actor={}), NOW))
    assert lines["effect"] == "kept on record; it does not settle the step"
    assert lines["who"] == "unknown" and "\x1b" not in lines["reason"]


async def test_the_receipts_tab_is_there_where_somebody_decided_or_attested(runs_app: MakeApp) -> None:
    client = FakeClient(completed_run())
    client.attested[FIRST] = [attestation()]
    app = runs_app(client)
    async with app.run_test(size=NARROW) as pilot:
        assert "Receipts 1" in await press(pilot, "enter")
        text = await press(pilot, "5")
        assert "claims  attested: it did not run" in text and "not password-verified" in text
    async with runs_app(FakeClient(completed_run())).run_test(size=NARROW) as pilot:
        assert "Receipts" not in await press(pilot, "enter")


# Child runs


def test_a_child_run_is_shown_in_facts_and_events() -> None:
    lines = texts(EventRows(child("cr_1"), set(), NOW))
    assert "status     success" in lines and "4 events" in lines
    assert any("human_message" in line and '{"product": "Synthetic soap"}' in line for line in lines)
    opened = texts(EventRows(child("cr_1"), {"3"}, NOW))
    assert any('"all claims have a source"' in line for line in opened)


def test_what_was_cut_off_is_said_and_events_are_inert() -> None:
    cut = ChildEvent(1, EVIL, "message", EVIL + '{"a": ', "{}", NOW, cut=True)
    made = child("cr_1", events=(cut,), more=True, agent=EVIL)
    lines = texts(EventRows(made, {"1"}, NOW))
    assert any("are shown." in line for line in lines) and any(
        "the first 2,000 are shown" in line for line in lines
    )
    assert "\x1b" not in "".join(lines) and "\u202e" not in "".join(lines)


async def open_child(pilot: Pilot[Any]) -> None:
    await press(pilot, "enter", "home")
    await pilot.press("H")
    await until(pilot, lambda: isinstance(pilot.app.screen, ChildRunScreen))
    await settle(pilot)


async def test_the_events_of_a_steps_child_run_are_one_key_away(runs_app: MakeApp) -> None:
    view = completed_run()
    run_id = view.steps[0].child_run_id or ""
    client = FakeClient(view)
    client.children[run_id] = child(run_id)
    app = runs_app(client)
    async with app.run_test(size=NARROW) as pilot:
        await open_child(pilot)
        assert "Child run of evidence" in screen_text(app) and "ai_message" in screen_text(app)
        text = await press(pilot, "end", "up", "enter")
        assert '"verdict": "pass",' in text
        await press(pilot, "y")
        assert app.clipboard == client.children[run_id].events[2].content
        client.children[run_id] = child(run_id, status="error")
        client.changed(FIRST)
        await until(pilot, lambda: "error" in screen_text(app))
        await press(pilot, "escape")
        assert app.screen is app.base_screen


async def test_a_child_run_that_is_not_known_or_cannot_be_read_is_said(runs_app: MakeApp) -> None:
    client = FakeClient(completed_run())
    app = runs_app(client)
    async with app.run_test(size=NARROW) as pilot:
        await open_child(pilot)
        assert "holds no child run" in flat(screen_text(app))
        client.failures["child_run"] = StoreFailed("the host's store is damaged")
        client.changed(FIRST)
        await until(pilot, lambda: "is damaged" in flat(screen_text(app)))


async def test_the_key_is_there_only_where_a_step_has_a_child_run(runs_app: MakeApp) -> None:
    app = runs_app(FakeClient(completed_run(steps=(make_step("a", child_run_id=None),))))
    async with app.run_test(size=WIDE) as pilot:
        assert "H child run" not in await press(pilot, "enter")
        await press(pilot, "H")
        assert app.screen is app.base_screen
