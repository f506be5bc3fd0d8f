"""How a followed run stands, and what went wrong, as exit codes and sentences."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.cli.fakes import FakeClient
from tests.workbench.views import AT, agent_step, run_view
from workbench.cli.exits import Exit, Relayed
from workflows_core import errors
from workflows_core.engine.requests import LaunchOutcome, LaunchRequest
from workflows_core.model import Cause, LogLine, RunState, StepStatus, Wait


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (RunState.COMPLETED, 0),
        (RunState.FAILED, 1),
        (RunState.CANCELLED, 1),
        (RunState.PAUSED, 3),
        (RunState.WAITING_APPROVAL, 3),
        (RunState.WAITING_INPUT, 3),
        (RunState.NEEDS_RECONCILIATION, 4),
        (RunState.RECOVERABLE, 5),
        (RunState.INTERRUPTED, 5),
    ],
)
def test_run_ends_with_the_code_of_the_state_in_which_it_stopped_following(
    command: Command, fake: type[FakeClient], script: Path, state: RunState, status: int
) -> None:
    fake.reset(run_view(state=RunState.QUEUED), run_view(state=RunState.RUNNING), run_view(state=state))
    result = command("run", script, "--json")
    assert result.status == status
    assert result.document["state"] == state.value
    assert fake.opened == ["if_free"]
    assert fake.closed == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UsageError("a"), 2),
        (errors.NotFound("a"), 2),
        (errors.LimitExceeded("a"), 2),
        (errors.ScriptRefused("a", line=3, column=7), 2),
        (errors.Refused("a"), 7),
        (errors.Conflict("a"), 7),
        (errors.NotPermitted("a"), 7),
        (errors.Deleted("a"), 7),
        (errors.QuotaReached("a"), 7),
        (errors.ConfigurationError("a"), 6),
        (errors.StoreError("a"), 6),
        (errors.StoreInUse("a", pid=1), 6),
        (errors.StoreTooNew("a"), 6),
        (errors.StoreFailed("a"), 6),
        (Relayed("Title", "a", "code", 6), 6),
        (OSError(28, "No space left on device", "x"), 6),
    ],
)
def test_an_error_is_one_titled_sentence_and_the_code_of_its_class(
    command: Command, fake: type[FakeClient], error: Exception, status: int
) -> None:
    fake.reset(refusal=error)
    result = command("runs")
    assert result.status == status
    assert result.out == ""
    assert result.err.count("\n") == 1
    title = getattr(error, "title", "The disk refused")
    assert result.err.startswith(title + ": ")


def test_an_error_is_also_a_document_where_one_is_asked_for(command: Command, fake: type[FakeClient]) -> None:
    fake.reset(refusal=errors.NotFound("there is no run wr_1"))
    result = command("show", "wr_1", "--json")
    assert result.document == {
        "error": {"code": "not_found", "title": "Not found", "message": "there is no run wr_1"}
    }
    assert result.err == "Not found: there is no run wr_1\n"


def test_a_refused_script_names_its_place(command: Command, fake: type[FakeClient], script: Path) -> None:
    fake.reset(refusal=errors.ScriptRefused("it is not one function body", line=3, column=7))
    assert "(line 3, column 7)" in command("run", script).err


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("run",),
        ("run", "a.js", "--agents", "imagined"),
        ("show", "--nope", "x"),
        ("step", "only-one"),
        ("delete",),
        ("delete", "wr_1", "--older-than", "1d"),
        ("delete", "--older-than", "soon"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(command: Command, arguments: tuple[str, ...]) -> None:
    result = command(*arguments)
    assert result.status == 2
    assert result.err.startswith("That cannot be used: ")
    assert result.err.count("\n") == 1


def test_a_defect_is_a_sentence_and_its_message_is_not_written_down(
    command: Command, fake: type[FakeClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setattr("platformdirs.user_log_path", lambda *_, **__: log)
    log.mkdir()
    fake.reset(refusal=ZeroDivisionError("sk-secret"))
    result = command("runs")
    assert result.status == Exit.DEFECT
    assert "Traceback" not in result.err
    assert "ZeroDivisionError" in result.err
    assert str(log / "defects.log") in result.err
    written = (log / "defects.log").read_text()
    assert "ZeroDivisionError" in written
    assert "sk-secret" not in written + result.err
    assert (log / "defects.log").stat().st_mode & 0o777 == 0o600

    monkeypatch.setenv("WORKBENCH_DEBUG", "1")
    assert "Traceback" in command("runs").err


def test_progress_goes_to_standard_error_one_line_for_each_event(
    command: Command, fake: type[FakeClient], script: Path
) -> None:
    running = agent_step("evidence", status=StepStatus.RUNNING, finished_at=None)
    done = agent_step("evidence", output=1)
    said = LogLine(AT + 500_000, "half\x1b[2J way", 9, 1, 2)
    fake.reset(
        run_view(state=RunState.RUNNING, steps=(running,)),
        run_view(state=RunState.RUNNING, steps=(done,)),
        run_view(state=RunState.RUNNING, steps=(done,), log=(said,)),
        run_view(steps=(done,), log=(said,), result={"n": 1}, has_result=True),
    )
    result = command("run", script)
    lines = [line.split() for line in result.err.splitlines()[1:]]
    assert lines == [
        ["●", "running", "evidence", "lead_agent", "line", "5"],
        ["✓", "completed", "evidence", "lead_agent", "0.4", "s", "line", "5"],
        ["·", "log", "half␛[2J", "way", "line", "9"],
    ]
    assert "✓ completed" in result.out
    assert '"n": 1' in result.out


def test_a_failed_step_says_why(command: Command, fake: type[FakeClient], script: Path) -> None:
    broken = agent_step(
        "evidence", status=StepStatus.FAILED, error=Cause("agent_failed", "out of \x9b31m luck")
    )
    fake.reset(run_view(state=RunState.FAILED, steps=(broken,), cause=Cause("agent_failed", "a step failed")))
    result = command("run", script)
    assert "out of \\u{009B}31m luck" in result.err
    assert "a step failed" in result.out


def test_a_repeated_request_says_that_it_has_a_run_already(
    command: Command, fake: type[FakeClient], script: Path
) -> None:
    fake.reset(run_view(), existing=True)
    result = command("run", script, "--request-id", "req_1")
    assert result.status == 0
    assert "Request req_1 has a run already" in result.err
    assert fake.launched[0].request_id == "req_1"


def test_a_launch_carries_what_the_command_line_says(
    command: Command, fake: type[FakeClient], script: Path
) -> None:
    stubs = script.with_name("mine.yaml")
    stubs.write_text("- reply: 1\n")
    command("run", script, "--args", '{"a": [1]}', "--stubs", stubs, "--name", "first try")
    request = fake.launched[0]
    assert request.args == {"a": [1]}
    assert request.name == "first try"
    assert request.script == script.read_text()
    assert request.options["label"] == "mine.yaml"
    assert request.options["agents"] == "stub"


def test_a_run_without_further_options_is_new_each_time_and_named_after_its_file(
    command: Command, fake: type[FakeClient], script: Path
) -> None:
    command("run", script)
    command("run", script)
    first, second = fake.launched
    assert first.request_id != second.request_id
    assert first.name == "one"
    assert first.args == {}


def test_the_stub_set_beside_the_script_is_used_where_the_configuration_names_none(
    command: Command, fake: type[FakeClient], script: Path
) -> None:
    command("run", script)
    (script.parent / "one.stubs.yaml").write_text("- reply: 1\n")
    command("run", script)
    (script.parent / "general.yaml").write_text("- reply: 2\n")
    (script.parent / "workbench.yaml").write_text("stubs: [general.yaml]\n")
    command("run", script)
    labels = [request.options["label"] for request in fake.launched]
    assert labels == ["no stub set", "one.stubs.yaml", "general.yaml"]


def test_a_command_that_hosts_stays_for_runs_of_other_commands(
    command: Command, fake: type[FakeClient], script: Path
) -> None:
    from tests.workbench.views import summary_of

    other = summary_of(run_view(run_id="wr_other", name="theirs", state=RunState.RUNNING))
    fake.reset(run_view(), others=[other])
    assert "also hosts theirs wr_other" in command("run", script).err


def test_a_run_that_waits_is_printed_as_it_waits(
    command: Command, fake: type[FakeClient], script: Path
) -> None:
    wait = Wait("pause", "hold", 1, AT)
    fake.reset(run_view(state=RunState.PAUSED, waiting=wait))
    assert command("run", script, "--json").document["waiting"]["step_id"] == "hold"


HOSTING = """
import asyncio, sys
import workbench.client
from tests.workbench.cli.fakes import FakeClient
from tests.workbench.views import run_view
from workbench.cli.main import main
from workflows_core.model import RunState

class Endless(FakeClient):
    async def view(self, run_id):
        print("following", file=sys.stderr, flush=True)
        return run_view(state=RunState.RUNNING)
    async def close(self):
        await asyncio.sleep(0.05)
        print("closed in order", file=sys.stderr, flush=True)

Endless.reset(owner=sys.argv.pop(1) == "owner")
workbench.client.Client = Endless
import workbench.cli.author
workbench.cli.author.find_problems = lambda *_: []
main()
"""


@pytest.mark.parametrize(
    ("role", "words"), [("owner", "kept and recoverable"), ("guest", "goes on in the workbench that owns")]
)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_termination_shut_down_in_order(
    script: Path, role: str, words: str, number: signal.Signals, status: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOSTING, role, "run", str(script)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    with process:
        assert process.stderr is not None
        seen = ""
        while "following" not in seen:
            line = process.stderr.readline()
            assert line, seen
            seen += line
        process.send_signal(number)
        _, rest = process.communicate(timeout=90)
    assert process.returncode == status
    assert "closed in order" in rest
    assert words in rest.splitlines()[-1]


def test_detach_launches_once_more_when_the_owner_left_before_it_saw_the_request(
    command: Command, fake: type[FakeClient], script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import nullcontext

    monkeypatch.setattr("workbench.cli.owner.background_owner", lambda _: nullcontext())
    launch, gone = fake.launch, errors.StoreError("it ended before it answered", code="owner_gone")

    async def first_gone(self: FakeClient, request: LaunchRequest) -> LaunchOutcome:
        outcome = await launch(self, request)
        if len(fake.launched) == 1:
            raise gone
        return outcome

    monkeypatch.setattr(fake, "launch", first_gone)
    assert command("run", script, "--detach").status == 0
    first, second = fake.launched
    assert first.request_id == second.request_id

    fake.reset()
    gone.code = "owner_silent"
    assert command("run", script, "--detach").status == 6
    assert len(fake.launched) == 1
