"""A call of a manual agent is answered on the Runs screen."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import FakeClient, flat, make_run, make_step, screen_text, settle, until
from tests.workbench.tui.test_run_acts_real import application, seen
from workbench.client import Client
from workbench.host import identity
from workbench.tui.app import WorkbenchApp
from workbench.tui.book import RunBook
from workbench.tui.screens import run_answer
from workbench.tui.screens.run_answer import AnswerDialog, read_answer
from workbench.tui.screens.runs import RunsScreen
from workbench.tui.widgets.choice import Choice
from workbench.tui.widgets.pane import Field
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchRequest
from workflows_core.errors import Conflict
from workflows_core.model import RunState, RunView, StepStatus

RUN = "wr_00000000000000a1"
SIZES = [(120, 40), (80, 24)]


def asked(**changes: Any) -> RunView:
    step = make_step("ask", StepStatus.RUNNING, badge="manual", agent_ref="man", input="Is it \x1b[2Jfine?")
    return make_run(RUN, **({"state": RunState.RUNNING, "steps": (step,)} | changes))


@pytest.fixture
def started(make_app: Callable[..., WorkbenchApp]) -> Callable[[FakeClient], WorkbenchApp]:
    return lambda client: make_app(client, screens={"runs": RunsScreen})


async def opened(pilot: Pilot[Any]) -> str:
    await settle(pilot)
    await pilot.press("T")
    await until(pilot, lambda: isinstance(pilot.app.screen, AnswerDialog))
    await settle(pilot)
    return flat(screen_text(pilot.app))


async def give(pilot: Pilot[Any], *keys: str, choice: int = 1) -> None:
    await pilot.press(*keys, "enter", *["tab"] * choice, "enter")
    await settle(pilot)


@pytest.mark.parametrize("size", SIZES)
async def test_the_answer_is_given_in_a_dialog(started: Any, size: tuple[int, int]) -> None:
    client = FakeClient(asked())
    app = started(client)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        text = flat(screen_text(app))
        assert "T answers it here" in text and "a person must type its answer" in text
        assert f"workbench answer {RUN} ask" in text
        text = await opened(pilot)
        assert "Answer ask" in text and "You are man" in text and "␛[2Jfine?" in text
        assert "[ Fail the step ]" in text, "every choice is in sight"
        await pilot.press("4", "2")
        await settle(pilot)
        assert "It is sent as JSON." in flat(screen_text(app))
        await give(pilot, "x")
        await until(pilot, lambda: client.answered != [])
        assert [(value, failed) for _, value, failed in client.answered] == [("42x", None)]
        await until(pilot, lambda: [notice.title for notice in app.notices] == ["Answer"])


async def test_the_step_fails_with_what_was_typed(started: Any) -> None:
    client = FakeClient(asked())
    async with started(client).run_test(size=SIZES[0]) as pilot:
        await opened(pilot)
        await give(pilot, "n", "o", choice=2)
        await until(pilot, lambda: client.answered != [])
        assert client.answered[0][1:] == (None, "no")


async def test_a_question_that_is_gone_keeps_what_was_typed(started: Any) -> None:
    client = FakeClient(asked())
    client.failures["answer"] = Conflict("it does not wait for an answer any more")
    app = started(client)
    async with app.run_test(size=SIZES[0]) as pilot:
        await opened(pilot)
        await give(pilot, "f", "i", "n", "e")
        await until(pilot, lambda: [notice.title for notice in app.notices] == ["Not answered"])
        assert "does not wait" in app.notices[0].text and app.notices[0].text.endswith("\nfine")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cancel_requested": True}, "ask takes no answer any more: the run running"),
        ({"steps": (make_step("ask", badge="manual"),)}, "ask was answered in the meantime."),
    ],
)
async def test_a_question_that_is_over_is_withdrawn_and_keeps_what_was_typed(
    started: Any, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], why: str
) -> None:
    monkeypatch.setattr(run_answer, "LOOK_SECONDS", 0.01)
    client = FakeClient(asked())
    app = started(client)
    async with app.run_test(size=SIZES[1]) as pilot:
        await opened(pilot)
        dialog = app.screen
        await pilot.press("f", "i")
        client.change(RUN, **changes)
        await until(pilot, lambda: dialog.withdrawn)
        await settle(pilot)
        text = flat(screen_text(app))
        assert "It cannot be answered any more" in text and why in text and "[ Close ]" in text
        await pilot.press("n", "e", "enter")
        assert dialog.query_one(Field).value == "fine"
        assert [choice.disabled for choice in dialog.query(Choice)] == [False, True, True]
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is not dialog)
        assert client.answered == [] and not app.notices


async def test_typing_alone_and_nothing_typed_answer_nothing(started: Any) -> None:
    client = FakeClient(asked())
    app = started(client)
    async with app.run_test(size=SIZES[0]) as pilot:
        await opened(pilot)
        await give(pilot)
        assert "Type the answer first" in flat(screen_text(app))
        await pilot.press("a", "enter", "enter")
        await settle(pilot)
        assert not isinstance(app.screen, AnswerDialog) and client.answered == []


@pytest.mark.parametrize("changes", [{"cancel_requested": True}, {"state": RunState.RECOVERABLE}])
async def test_there_is_no_key_where_nothing_is_asked(started: Any, changes: dict[str, Any]) -> None:
    app = started(FakeClient(asked(**changes)))
    async with app.run_test(size=SIZES[0]) as pilot:
        await settle(pilot)
        await pilot.press("T")
        await settle(pilot)
        assert not isinstance(app.screen, AnswerDialog)


@pytest.mark.parametrize(
    ("typed", "value"), [("fine", "fine"), ('"42"', "42"), ("42", 42), ('{"a": 1}', {"a": 1}), ("{", "{")]
)
def test_a_typed_line_is_json_where_it_is_json(typed: str, value: Any) -> None:
    assert read_answer(typed) == value


async def launched(app: WorkbenchApp) -> str:
    """Launch a run whose only step asks a person; over the real engine."""
    script = "return (await agent({stepId: 'ask', agentRef: 'person', task: 1})).output;\n"
    request = LaunchRequest(
        script=script,
        args={},
        name="asks",
        request_id="request-1",
        options=app.context.workspace.options(real=True),
    )
    return (await app.context.client.launch(request)).run_id


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    """A workspace with one Agent, a person."""
    plugin = {"enabled": True, "agents": ["person"]}
    agents = {"person": {"backend": "manual", "instructions": "Read it twice."}}
    record = {"name": "workflows", "use": "workflows_core.extension:install", "config": plugin}
    configuration = json.dumps({"plugins": [record], "agents": agents})
    (tmp_path / "workbench.yaml").write_text(configuration, "utf-8")
    return tmp_path


async def test_without_an_interactive_session_the_question_goes_on_waiting(
    manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the real engine."""
    monkeypatch.setattr(identity, "terminal", lambda: identity.Terminal(False, None))
    async with application(manual) as (app, pilot):
        client = app.context.client
        run_id = await launched(app)
        await seen(pilot, "T answers it here")
        assert "Read it twice." in await opened(pilot)
        await give(pilot, "f", "i", "n", "e")
        await until(pilot, lambda: bool(app.notices) and app.notices[-1].title == "Not answered")
        assert "needs an interactive session" in app.notices[-1].text
        assert (await client.view(run_id)).state is RunState.RUNNING
        await client.cancel(run_id)
        await seen(pilot, "cancelled")


@pytest.mark.parametrize(
    ("typed", "choice", "state", "status", "kept"),
    [
        ('{"n": 42}', 1, RunState.COMPLETED, StepStatus.COMPLETED, {"n": 42}),
        ("illegible", 2, RunState.FAILED, StepStatus.FAILED, None),
    ],
)
async def test_what_is_typed_is_stored_as_the_answer(
    manual: Path,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    choice: int,
    state: RunState,
    status: StepStatus,
    kept: Any,
) -> None:
    """Over the real engine, from keys to what both stores hold."""
    monkeypatch.setattr(identity, "terminal", lambda: identity.Terminal(True, "pts/7"))
    async with application(manual) as (app, pilot):
        run_id = await launched(app)
        await seen(pilot, "T answers it here")
        assert "Read it twice." in await opened(pilot)
        await give(pilot, *typed, choice=choice)
        client = app.context.client
        end = asyncio.get_running_loop().time() + 60
        while (view := await client.view(run_id)).state is not state:
            assert asyncio.get_running_loop().time() < end, view
            await pilot.pause(0.01)
        (step,) = view.steps
        assert (step.status, step.badge, step.output, view.result) == (status, "manual", kept, kept)
        assert kept is not None or (step.error is not None and "illegible" in step.error.message)
        await seen(pilot, state.value)
    with closing(sqlite3.connect(manual / ".workbench" / "host.sqlite")) as store:
        (child,) = store.execute("SELECT run_id, step_id, status FROM child_runs").fetchall()
        told = [json.loads(each) for (each,) in store.execute("SELECT metadata FROM events")]
    assert child[:2] == (step.child_run_id, "ask") and child[2] == ("error" if kept is None else "success")
    who = [each["answered_by"] for each in told if "answered_by" in each]
    assert len(who) == 1 and "pts/7" in who[0]


TWO = """\
const both = await parallel([
  () => agent({stepId: 'left', agentRef: 'person', task: 1}),
  () => agent({stepId: 'right', agentRef: 'person', task: 2}),
]);
return both.map(one => one.output);
"""


async def test_another_process_hears_of_each_question_and_of_its_answer(
    manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the real engine: an owner, and a client that reads beside it."""
    monkeypatch.setattr(identity, "terminal", lambda: identity.Terminal(True, "pts/7"))
    workspace = Workspace.find(manual, manual)
    owner = await Client.open(workspace, host="required")
    other = await Client.open(workspace)
    try:
        book, told = RunBook(other), asyncio.Event()
        other.subscribe(lambda _run_id: told.set())
        request = LaunchRequest(
            script=TWO, args={}, name="asks", request_id="request-1", options=workspace.options(real=True)
        )
        run_id = (await owner.launch(request)).run_id

        async def asked(*steps: str) -> None:
            """Wait for these questions; only what the client is told leads to reading."""
            async with asyncio.timeout(60):
                while True:
                    await told.wait()
                    told.clear()
                    await book.load()
                    if sorted(item.step_id for item in book.waiting) == list(steps):
                        return

        await asked("left", "right")
        left, right = sorted(book.waiting, key=lambda item: item.step_id)
        assert left.child_run_id is not None and right.child_run_id is not None
        await owner.answer(left.child_run_id, "one")
        await asked("right")
        await owner.answer(right.child_run_id, "two")
        await asked()
        async with asyncio.timeout(60):
            while (view := await owner.view(run_id)).state is RunState.RUNNING:
                await asyncio.sleep(0.01)
        assert view.result == ["one", "two"]
    finally:
        await other.close()
        await owner.close()
