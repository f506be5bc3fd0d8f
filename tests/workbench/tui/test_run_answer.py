"""A call of a manual agent is answered on the Runs screen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.fakes import FakeClient, flat, make_run, make_step, screen_text, settle, until
from tests.workbench.tui.test_run_acts_real import application, seen
from workbench.host import identity
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.run_answer import AnswerDialog, read_answer
from workbench.tui.screens.runs import RunsScreen
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


async def test_without_an_interactive_session_the_question_goes_on_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the real engine."""
    monkeypatch.setattr(identity, "terminal", lambda: identity.Terminal(False, None))
    plugin = {"enabled": True, "agents": ["person"]}
    agents = {"person": {"backend": "manual", "instructions": "Read it twice."}}
    record = {"name": "workflows", "use": "workflows_core.extension:install", "config": plugin}
    configuration = json.dumps({"plugins": [record], "agents": agents})
    (tmp_path / "workbench.yaml").write_text(configuration, "utf-8")
    script = "return (await agent({stepId: 'ask', agentRef: 'person', task: 1})).output;\n"
    async with application(tmp_path) as (app, pilot):
        client, workspace = app.context.client, app.context.workspace
        options = workspace.options(real=True)
        request = LaunchRequest(script=script, args={}, name="asks", request_id="request-1", options=options)
        run_id = (await client.launch(request)).run_id
        await seen(pilot, "T answers it here")
        assert "Read it twice." in await opened(pilot)
        await give(pilot, "f", "i", "n", "e")
        await until(pilot, lambda: bool(app.notices) and app.notices[-1].title == "Not answered")
        assert "needs an interactive session" in app.notices[-1].text
        assert (await client.view(run_id)).state is RunState.RUNNING
        await client.cancel(run_id)
        await seen(pilot, "cancelled")
