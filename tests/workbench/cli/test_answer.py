"""Manual agents from the command line: what waits is said everywhere, and a person at a terminal answers it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.cli.seat import Seat, seat
from tests.workbench.crash import kit
from tests.workbench.tui.fakes import make_run, summary_of
from workbench.cli.inbox import command_of
from workbench.review import waits_of
from workflows_core.model import RunState, Wait

ASK = """\
const first = await agent({stepId: 'review', agentRef: 'person', task: args});
return {said: first.output};
"""
CATCHES = """\
try {
  await agent({stepId: 'review', agentRef: 'person', task: 'look'});
} catch (error) {
  return [error.code, error.message];
}
"""
TWO = """\
const both = await parallel([
  () => agent({stepId: 'left', agentRef: 'person', task: 1}),
  () => agent({stepId: 'right', agentRef: 'person', task: 2}),
]);
return both.map(one => one.output);
"""


def config(folder: Path, **more: Any) -> None:
    plugin = {"enabled": True, "agents": ["person", "helper"]}
    agents = {
        "person": {"backend": "manual", "instructions": "Read it twice."},
        "helper": {"backend": "command", "argv": ["sh", "-c", "touch started; sleep 600"], "stop_seconds": 0},
    }
    record = {"name": "workflows", "use": "workflows_core.extension:install", "config": plugin}
    text = json.dumps({"plugins": [record], "agents": agents, **more})
    (folder / "workbench.yaml").write_text(text, "utf-8")


@contextmanager
def asking(
    folder: Path, script: str = ASK, args: Any = None, **more: Any
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A run that waits for an answer: the process that owns it, and its id."""
    config(folder, **more)
    path = kit.write_script(folder, "ask", script)
    given = ("--args", json.dumps({} if args is None else args))
    with kit.process("run", path, "--agents", "real", *given, "--json", folder=folder) as running:
        said = kit.wait_for_line(
            running, "it waits for your answer, from another terminal: workbench answer "
        )
        yield running, said.split("workbench answer ")[1].split()[0]


def ended(running: subprocess.Popen[str]) -> Any:
    out, _ = running.communicate(timeout=kit.PATIENCE_SECONDS)
    return json.loads(out)


def agree(sitting: Seat, answer: str = "y") -> int:
    sitting.until("It cannot be taken back. [y/N] ")
    sitting.type(answer)
    return sitting.finish()


def test_a_person_is_asked_and_answers_from_another_terminal(command: Command, folder: Path) -> None:
    with asking(folder, args={"text": "a\x1b]0;owned\x07b"}) as (running, run_id):
        view = command("show", run_id)
        assert "running for" in view.out and "it waits for your answer to review" in view.out
        assert f"Next: workbench answer {run_id} review\n" in view.err
        assert "it waits for your answer to review" in command("runs").out
        listed = command("review", "--list")
        assert "answer" in listed.out and f"workbench answer {run_id} review\n" in listed.out
        (item,) = command("review", "--list", "--json").document["waiting"]
        assert (item["act"], item["run_id"], item["step_id"]) == ("answer", run_id, "review")
        assert (item["agent"], item["attempt"], item["expires_at"]) == ("person", 1, None)
        (step,) = command("show", run_id, "--json").document["steps"]
        assert (step["status"], step["badge"]) == ("running", "manual")
        with seat("answer", run_id[:9], "review", folder=folder) as sitting:
            asked = sitting.until("Your answer, on one line")
            assert "You are     person, for the step review" in asked
            assert f"as terminal, uid {os.getuid()}" in asked
            assert "Read it twice." in asked
            assert "owned" in asked and b"\x1b]" not in sitting.raw
            sitting.type('{"fine": true}')
            assert "The answer, as JSON" in sitting.until("taken back. [y/N] ")
            sitting.type("y")
            assert sitting.finish() == 0
            assert "review is answered" in sitting.shown
        document = ended(running)
        assert (document["state"], document["result"]) == ("completed", {"said": {"fine": True}})
    step = command("step", run_id, "review", "--json").document
    assert (step["badge"], step["output"]) == ("manual", {"fine": True})
    assert command("review", "--list", "--json").document == {"waiting": []}
    assert command("review", "--list").err == "Nothing waits for you.\n"
    (metadata,) = host_rows(folder, "SELECT metadata FROM events WHERE event_type = 'run_end'")
    assert json.loads(metadata[0])["answered_by"].startswith(f"os:{os.getuid()} (terminal, uid {os.getuid()}")


def host_rows(folder: Path, sql: str) -> list[Any]:
    path = folder / ".workbench" / "host.sqlite"
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize(
    ("options", "file", "result"),
    [
        (("--text", "42"), None, {"said": "42"}),
        (("--output", "@given.json"), "[1, 2]", {"said": [1, 2]}),
    ],
)
def test_an_answer_may_be_given_with_the_command(
    folder: Path, options: tuple[str, ...], file: str | None, result: Any
) -> None:
    if file is not None:
        (folder / "given.json").write_text(file, "utf-8")
    with asking(folder) as (running, run_id):
        with seat("answer", run_id, "review", *options, "--json", folder=folder) as sitting:
            assert agree(sitting) == 0
            document = json.loads(sitting.shown[sitting.shown.rindex("\n{\n") :])
        assert (document["run_id"], document["step_id"], document["status"]) == (run_id, "review", "applied")
        assert ended(running)["result"] == result


def test_a_person_may_say_why_there_is_no_answer(folder: Path) -> None:
    with asking(folder, CATCHES) as (running, run_id):
        with seat("answer", run_id, "review", "--fail", "the page is empty", folder=folder) as sitting:
            assert agree(sitting) == 0
        assert ended(running)["result"] == ["answered_failed", "the page is empty"]


def test_what_cannot_be_an_answer_is_refused_and_the_call_goes_on_waiting(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "large.json").write_text(json.dumps("x" * 12_000), "utf-8")
    (folder / "bad.json").write_text("{", "utf-8")
    with asking(folder) as (running, run_id):
        for options, answer, status, said in (
            (("--output", "@large.json"), "y", 2, "the answer takes 12,002 bytes; admitted are 12,000"),
            (("--output", "@bad.json"), None, 2, "is not valid JSON"),
            (("--output", "large.json"), None, 2, "takes @FILE"),
            (("--text", "a", "--fail", "b"), None, 2, "exclude each other"),
            (("--fail", " "), "y", 2, "needs a reason"),
            (("--text", "a"), "n", 7, "nothing was answered"),
            (("--text", "a"), "", 7, "nothing was answered"),
        ):
            with seat("answer", run_id, "review", *options, folder=folder) as sitting:
                found = sitting.finish() if answer is None else agree(sitting, answer)
                assert (found, said in sitting.shown) == (status, True), sitting.shown
        with seat("answer", run_id, "other", folder=folder) as sitting:
            assert sitting.finish() == 2
        monkeypatch.setattr("sys.stdin", None)
        refused = command("answer", run_id, "review", "--text", "x", "--json")
        assert (refused.status, refused.document["error"]["code"]) == (7, "not_permitted")
        assert "it waits for your answer to review" in command("show", run_id).out
        assert running.poll() is None


def test_one_answer_counts_and_each_question_has_its_own(command: Command, folder: Path) -> None:
    with asking(folder, TWO) as (running, run_id):
        kit.wait_until(lambda: "left, right" in command("show", run_id).out, "both wait")
        with (
            seat("answer", run_id, "right", "--text", "first", folder=folder) as one,
            seat("answer", run_id, "right", "--text", "second", folder=folder) as two,
        ):
            one.until("taken back. [y/N] ")
            two.until("taken back. [y/N] ")
            one.type("y")
            assert one.finish() == 0
            two.type("y")
            assert two.finish() in (2, 7)
        assert "it waits for your answer to left\n" in command("show", run_id).out
        with seat("answer", run_id, "right", "--text", "third", folder=folder) as late:
            assert late.finish() == 7
            assert "no answer is asked for" in late.shown
        with seat("answer", run_id, "left", "--text", "L", folder=folder) as sitting:
            assert agree(sitting) == 0
        assert ended(running)["result"] == ["L", "first"]


def test_a_step_that_another_agent_answers_is_not_a_persons(command: Command, folder: Path) -> None:
    script = TWO.replace("stepId: 'left', agentRef: 'person'", "stepId: 'left', agentRef: 'helper'")
    with asking(folder, script) as (running, run_id):
        with seat("answer", run_id, "left", "--text", "x", folder=folder) as sitting:
            assert sitting.finish() == 7
            assert "is answered by its Agent helper" in sitting.shown
        assert command("cancel", run_id, "--json").document["state"] == "cancelled"
        assert ended(running)["state"] == "cancelled"


def test_a_cancel_takes_the_question_back(command: Command, folder: Path) -> None:
    with asking(folder) as (running, run_id):
        assert command("cancel", run_id, "--json").document["state"] == "cancelled"
        assert ended(running)["state"] == "cancelled"
    with seat("answer", run_id, "review", "--text", "late", folder=folder) as sitting:
        assert sitting.finish() == 7
        assert "the run cancelled; no answer is asked for" in sitting.shown


def test_a_question_dies_with_its_process_and_its_step_is_settled_by_a_person(
    command: Command, folder: Path
) -> None:
    with asking(folder) as (running, run_id):
        running.kill()
        running.wait(kit.PATIENCE_SECONDS)
    kit.wait_until_free(folder)
    with seat("answer", run_id, "review", "--text", "late", folder=folder) as sitting:
        assert sitting.finish() == 7
        assert "the run recoverable; no answer is asked for" in sitting.shown
    assert command("recover", run_id, "--json").status == 4
    (folder / "answer.json").write_text('"as I said"', "utf-8")
    options = ("--outcome", "succeeded", "--output", "@answer.json", "--reason", "I had typed it")
    with seat("reconcile", run_id, "review", *options, folder=folder) as sitting:
        sitting.until("[y/N] ")
        sitting.type("y")
        assert sitting.finish() == 0
    recovered = command("recover", run_id, "--json").document
    assert (recovered["state"], recovered["result"]) == ("completed", {"said": "as I said"})


def test_ctrl_c_leaves_the_run_recoverable_and_its_question_to_a_person(
    command: Command, folder: Path
) -> None:
    with asking(folder) as (running, run_id):
        running.send_signal(signal.SIGINT)
        assert running.wait(kit.PATIENCE_SECONDS) == 130
    assert command("show", run_id, "--json").document["state"] == "recoverable"
    preview = command("recover", run_id, "--preview", "--json").document
    assert preview["uncertain"] == [{"step_id": "review", "line": 1}]


def test_where_nobody_is_named_nobody_answers(folder: Path) -> None:
    with (
        asking(folder, auth={"mode": "disabled"}) as (_, run_id),
        seat("answer", run_id, "review", "--text", "x", folder=folder) as sitting,
    ):
        assert sitting.finish() == 7
        assert "auth.mode is disabled" in sitting.shown


@pytest.mark.parametrize(
    ("fields", "command_line"),
    [
        (
            {"state": RunState.WAITING_APPROVAL, "waiting": Wait("checkpoint", "a", 1, None)},
            "decide wr_1 a approve|reject",
        ),
        ({"state": RunState.RECOVERABLE, "waiting": Wait("pause", "a", 1, None)}, "resume wr_1 a"),
        (
            {"state": RunState.WAITING_INPUT, "waiting": Wait("input", "a", 1, None)},
            "reconcile wr_1 a --outcome …",
        ),
        ({"state": RunState.NEEDS_RECONCILIATION}, "show wr_1"),
    ],
)
def test_what_waits_is_listed_with_the_command_that_does_it(fields: Any, command_line: str) -> None:
    (item,) = waits_of(summary_of(make_run("wr_1", **fields)))
    assert item is not None and command_of(item) == f"workbench {command_line}"
