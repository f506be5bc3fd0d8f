"""What people say to runs: resume, decide, recover, reconcile, over the real engine and real terminals."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.cli.conftest import Command, Result
from tests.workbench.cli.seat import Seat, seat
from tests.workbench.crash import kit
from workbench.host.store import run_id_of

PAUSE = """\
const one = await agent({stepId: 'one', agentRef: 'lead_agent', task: {n: 1}});
await pause({stepId: 'stop'});
const two = await agent({stepId: 'two', agentRef: 'lead_agent', task: one.output});
return two.output;
"""
REVIEW = """\
const made = await agent({stepId: 'made', agentRef: 'lead_agent', task: 'write it'});
const file = await captureArtifact({stepId: 'file', sourceStepId: 'made', path: 'out.txt'});
await humanCheckpoint({stepId: 'good', sourceStepId: 'file', artifactVersion: file.artifactVersion});
const sent = await agent({stepId: 'sent', agentRef: 'lead_agent', task: 'send', artifacts: [file.artifactVersion]});
return sent.output;
"""
FILE = "line one\nline two\n"
BRANCHES = """\
const first = await agent({stepId: 'first', agentRef: 'lead_agent', task: 1});
const rest = await parallel(['a', 'b', 'c'].map(id => () =>
  agent({stepId: id, agentRef: 'lead_agent', task: first.output})));
return rest.map(one => one.output);
"""
LONG = "const one = await agent({stepId: 'one', agentRef: 'lead_agent', task: 1});\n" + (
    "const two = await agent({stepId: 'two', agentRef: 'lead_agent', task: 2});\n"
    "return [one.output, two.output];\n"
)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where stubs write down what they were really asked."""
    path = tmp_path / "calls.jsonl"
    monkeypatch.setenv("WORKBENCH_STUB_CALLS", str(path))
    return path


def asked(calls: Path) -> dict[str, int]:
    return Counter(step for _, step, _ in kit.agent_calls(calls).elements())


def reviewed(folder: Path, content: str = FILE) -> Path:
    """REVIEW with an Agent that leaves ``content`` in its file."""
    stubs = [
        {"step": "made", "reply": "done", "files": {"out.txt": content}},
        {"step": "sent", "reply": "sent"},
    ]
    return kit.write_script(folder, "review", REVIEW, json.dumps(stubs))


def waiting(command: Command, script: Path) -> dict[str, Any]:
    """A run of ``script`` that waits and that nobody owns."""
    result = command("run", script, "--json")
    assert result.status == 3, result.err
    run: dict[str, Any] = result.document
    return run


def step_of(run: dict[str, Any], step_id: str) -> dict[str, Any]:
    step: dict[str, Any] = next(step for step in run["steps"] if step["step_id"] == step_id)
    return step


def version(run: dict[str, Any]) -> str:
    digest: str = step_of(run, "good")["artifact_version"]
    return digest


def shown(command: Command, run_id: str) -> dict[str, Any]:
    document: dict[str, Any] = command("show", run_id, "--json").document
    return document


def answer_hash(sitting: Seat, typed: str) -> int:
    sitting.until("characters of its hash: ")
    sitting.type(typed)
    return sitting.finish()


def printed_json(sitting: Seat) -> Any:
    """The document that ended what the terminal shows."""
    return json.loads(sitting.shown[sitting.shown.index("\n{\n") :])


# Waiting, and going on.


def test_a_run_that_waits_is_printed_as_it_waits_and_kept_with_its_wait(
    command: Command, folder: Path
) -> None:
    run = waiting(command, kit.write_script(folder, "stop", PAUSE))
    assert (run["state"], run["cause"]) == ("paused", None)
    assert run["waiting"]["kind"] == "pause"
    assert (run["waiting"]["step_id"], run["waiting"]["attempt"]) == ("stop", 1)
    later = shown(command, run["run_id"])
    assert (later["state"], later["waiting"]) == ("recoverable", run["waiting"])
    text = command("show", run["run_id"]).out
    assert "it waits for resume at stop; expires in 23 h" in text
    assert "closed while it waited" in text
    assert f"Next: workbench resume {run['run_id']} stop\n" in command("show", run["run_id"]).err


def test_resume_recovers_a_run_whose_owner_is_gone_and_says_so(
    command: Command, folder: Path, calls: Path
) -> None:
    run = waiting(command, kit.write_script(folder, "stop", PAUSE, "- {step: one, reply: {n: 7}}"))
    result = command("resume", run["run_id"][:9], "stop", "--json")
    assert result.status == 0, result.err
    assert "stop is resumed; its owner was gone, so it was recovered first" in result.err
    assert (result.document["state"], result.document["result"]) == ("completed", {"n": 7})
    assert "✓ completed    one" not in result.err, "what was known before is not reported again"
    assert "✓ completed    two" in result.err
    assert asked(calls) == {"one": 1, "two": 1}
    again = command("resume", run["run_id"], "stop")
    assert (again.status, "was resumed before" in again.err) == (0, True)
    assert "stop resumed" in command("show", run["run_id"]).out
    assert command("step", run["run_id"], "stop", "--json").document["receipt"]["decision"] == "resume"


@pytest.mark.parametrize(
    ("step", "status", "said"),
    [("one", 7, "one cannot be resumed now"), ("nothing", 2, "has no step 'nothing'")],
)
def test_resume_names_exactly_the_step_that_waits(
    command: Command, folder: Path, step: str, status: int, said: str
) -> None:
    run = waiting(command, kit.write_script(folder, "stop", PAUSE))
    result = command("resume", run["run_id"], step, "--json")
    assert (result.status, said in result.document["error"]["message"]) == (status, True)
    assert shown(command, run["run_id"])["waiting"] == run["waiting"]


def test_a_changed_configuration_consumes_nothing(command: Command, folder: Path) -> None:
    run = waiting(command, kit.write_script(folder, "stop", PAUSE))
    changed = folder / "workbench.yaml"
    changed.write_text("agents:\n  lead_agent: {backend: stub}\n  other: {backend: stub}\n", "utf-8")
    refused = command("resume", run["run_id"], "stop", "--json")
    assert refused.status == 7
    preview = command("recover", run["run_id"], "--preview", "--json")
    assert (preview.status, preview.document["compatible"]) == (0, False)
    assert "configuration" in " ".join(preview.document["reasons"])
    assert command("recover", run["run_id"], "--json").document["error"]["code"] == "incompatible"
    changed.unlink()
    assert command("resume", run["run_id"], "stop").status == 0


# Deciding.


def test_an_approval_at_a_terminal(command: Command, folder: Path, calls: Path) -> None:
    run = waiting(command, reviewed(folder))
    with seat("decide", run["run_id"], "good", "approve", "--json", folder=folder) as sitting:
        assert answer_hash(sitting, version(run)[:7]) == 0
        text = sitting.shown
        document = printed_json(sitting)
    assert "file: 18 bytes of text/plain, captured from out.txt" in text
    assert "\nline one\nline two\n" in text
    assert version(run) in text
    assert "sent, agent at line 4, which is given these bytes" in text
    assert f"as terminal, uid {os.getuid()}" in text
    assert "not password-verified" in text
    assert "it is recovered first" in text
    assert (document["decision"], document["sha256"]) == ("approve", version(run))
    assert (document["step_id"], document["attempt"], document["reason"]) == ("good", 1, None)
    assert document["actor"]["user_id"] == f"os:{os.getuid()}"
    assert document["review"] == {
        "coverage": 1.0,
        "shown_bytes": len(FILE),
        "bytes": len(FILE),
        "renderer": "command line, text",
        "viewed_outside": None,
    }
    assert (document["run"]["state"], document["run"]["result"]) == ("completed", "sent")
    assert asked(calls) == {"made": 1, "sent": 1}
    receipt = {key: document[key] for key in document if key != "run"}
    assert command("step", run["run_id"], "good", "--json").document["receipt"] == receipt
    page = command("show", run["run_id"]).out
    assert f"version {version(run)[:7]}, shown in full" in page
    assert f"out.txt, 18 bytes of text/plain, version {version(run)[:7]}" in page
    with seat("decide", run["run_id"], "good", "reject", folder=folder) as sitting:
        assert sitting.finish() == 7
        assert "was decided already: approved" in sitting.shown
    for form in ((), ("--json",)):
        with seat("decide", run["run_id"], "good", "approve", *form, folder=folder) as sitting:
            assert sitting.finish() == 0, "the same decision once more gives the first receipt"
            assert "type the first" not in sitting.shown
            if form:
                again = json.loads(sitting.shown)
                assert {key: again[key] for key in receipt} == receipt
            else:
                assert "That was decided before; this is its receipt." in sitting.shown
                assert "good approved" in sitting.shown


def test_a_rejection_asks_for_its_reason_and_fails_the_run(command: Command, folder: Path) -> None:
    run = waiting(command, reviewed(folder))
    with seat("decide", run["run_id"], "good", "reject", folder=folder) as sitting:
        sitting.until("Why is it rejected? ")
        sitting.type("the date is missing")
        assert answer_hash(sitting, version(run)[:7]) == 0
    after = shown(command, run["run_id"])
    assert (after["state"], after["cause"]["code"]) == ("failed", "rejected")
    assert step_of(after, "good")["status"] == "rejected"
    assert "reason: the date is missing" in command("show", run["run_id"]).out
    assert [step["step_id"] for step in after["steps"]] == ["made", "file", "good"]


@pytest.mark.parametrize("typed", ["0000000", "", "aaaaaa"])
def test_something_else_typed_decides_nothing(command: Command, folder: Path, typed: str) -> None:
    run = waiting(command, reviewed(folder))
    with seat("decide", run["run_id"], "good", "approve", folder=folder) as sitting:
        assert answer_hash(sitting, typed) == 7
        assert "nothing was decided" in sitting.shown
    after = shown(command, run["run_id"])
    assert (after["state"], after["waiting"]) == ("recoverable", run["waiting"])


def test_ctrl_c_at_the_question_decides_nothing(command: Command, folder: Path) -> None:
    run = waiting(command, reviewed(folder))
    with seat("decide", run["run_id"], "good", "approve", folder=folder) as sitting:
        sitting.until("characters of its hash: ")
        sitting.interrupt()
        assert sitting.finish() == 130
    assert shown(command, run["run_id"])["waiting"] == run["waiting"]


def test_without_a_terminal_nobody_decides_and_nobody_is_asked(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = waiting(command, reviewed(folder))
    monkeypatch.setattr("sys.stdin", None)
    for arguments in (
        ("decide", run["run_id"], "good", "approve"),
        ("decide", run["run_id"], "good", "reject", "--reason", "no"),
        ("reconcile", run["run_id"], "made", "--outcome", "failed", "--reason", "no"),
    ):
        refused = command(*arguments, "--json")
        assert (refused.status, refused.document["error"]["code"]) == (7, "not_permitted")
        assert "controlling terminal must be one terminal" in refused.err
    assert shown(command, run["run_id"])["waiting"] == run["waiting"]


def test_a_terminal_whose_output_goes_elsewhere_is_no_interactive_session(
    command: Command, folder: Path
) -> None:
    run = waiting(command, reviewed(folder))
    with (folder / "elsewhere").open("wb") as elsewhere:
        arguments = ("decide", run["run_id"], "good", "approve")
        with seat(*arguments, folder=folder, output=elsewhere.fileno()) as sitting:
            assert sitting.finish() == 7
            assert "interactive session" in sitting.shown
    assert (folder / "elsewhere").read_bytes() == b""


def test_where_nobody_is_named_nobody_decides(command: Command, folder: Path) -> None:
    (folder / "workbench.yaml").write_text("auth: {mode: disabled}\n", "utf-8")
    run = waiting(command, reviewed(folder))
    with seat("decide", run["run_id"], "good", "approve", folder=folder) as sitting:
        assert sitting.finish() == 7
        assert "auth.mode is disabled" in sitting.shown
        assert "line one" not in sitting.shown


def test_a_step_that_is_no_checkpoint_is_not_decided(command: Command, folder: Path) -> None:
    run = waiting(command, reviewed(folder))
    for step, status, said in (("made", 7, "is no checkpoint"), ("nothing", 2, "its checkpoints: good")):
        with seat("decide", run["run_id"], step, "approve", folder=folder) as sitting:
            assert sitting.finish() == status
            assert said in sitting.shown


def test_bytes_that_would_act_on_the_terminal_are_shown_and_change_nothing(
    command: Command, folder: Path
) -> None:
    hostile = "a\x1b]0;owned\x07b\u202ec\r\x9b31md\n"
    run = waiting(command, reviewed(folder, hostile))
    with seat("decide", run["run_id"], "good", "approve", folder=folder) as sitting:
        assert answer_hash(sitting, version(run)[:7]) == 0
        assert "a␛]0;owned␇b\\u{202E}c␍\\u{009B}31md" in sitting.shown
        assert b"\x1b]" not in sitting.raw
        assert "\u202e".encode() not in sitting.raw
        assert "\x9b".encode() not in sitting.raw
    with seat("artifact", run["run_id"], "good", folder=folder) as sitting:
        assert sitting.finish() == 0
        assert "a␛]0;owned␇b\\u{202E}c␍" in sitting.shown
        assert b"\x1b]" not in sitting.raw


def test_who_stops_before_the_end_cannot_decide_except_by_stating_that_it_was_read_outside(
    command: Command, folder: Path
) -> None:
    content = "".join(f"line {number}\n" for number in range(30))
    run = waiting(command, reviewed(folder, content))
    with seat("decide", run["run_id"], "good", "approve", folder=folder, rows=12) as sitting:
        sitting.until("q: stop")
        sitting.type("")
        sitting.until("q: stop")
        sitting.type("q")
        assert sitting.finish() == 7
        assert "line 19\n" in sitting.shown
        assert "line 20\n" not in sitting.shown
        assert f"of {len(content)} bytes were shown, so nothing can be decided" in sitting.shown
    assert shown(command, run["run_id"])["waiting"] == run["waiting"]
    with seat("decide", run["run_id"], "good", "approve", folder=folder, rows=12) as sitting:
        sitting.until("q: stop")
        sitting.type("x")
        sitting.until("File for the exact copy [out.txt]: ")
        (folder / "other.txt").write_text("kept", "utf-8")
        sitting.type("other.txt")
        sitting.until("exists already; give another name")
        sitting.until("exact copy [out.txt]: ")
        sitting.type("copy.txt")
        sitting.until("Have you viewed it? [y/N] ")
        assert (folder / "copy.txt").read_text("utf-8") == content
        assert (folder / "other.txt").read_text("utf-8") == "kept"
        sitting.type("y")
        assert answer_hash(sitting, version(run)[:7]) == 0
    assert "viewed outside" in command("show", run["run_id"]).out
    review = command("step", run["run_id"], "good", "--json").document["receipt"]["review"]
    assert 0 < review["coverage"] < 1
    assert review["viewed_outside"] == "exported to a file"


@pytest.mark.parametrize(("answer", "change"), [("n", False), ("y", True)])
def test_a_copy_that_was_not_viewed_or_was_changed_decides_nothing(
    command: Command, folder: Path, answer: str, change: bool
) -> None:
    content = "".join(f"line {number}\n" for number in range(30))
    run = waiting(command, reviewed(folder, content))
    (folder / "out.txt").write_text(content, "utf-8")  # an exact copy that was exported before will do
    with seat("decide", run["run_id"], "good", "approve", folder=folder, rows=12) as sitting:
        sitting.until("q: stop")
        sitting.type("x")
        sitting.until("exact copy [out.txt]: ")
        sitting.type("")
        sitting.until("Have you viewed it? [y/N] ")
        if change:
            (folder / "out.txt").write_text("something else", "utf-8")
        sitting.type(answer)
        assert sitting.finish() == 7
        assert "nothing was decided" in sitting.shown
    assert shown(command, run["run_id"])["waiting"] == run["waiting"]


def test_a_picture_is_never_shown_as_hexadecimal_but_viewed_outside(command: Command, folder: Path) -> None:
    script = kit.write_script(
        folder,
        "review",
        REVIEW.replace("out.txt", "out.png"),
        json.dumps([{"step": "made", "reply": "done", "files": {"out.png": "no real image"}}]),
    )
    run = waiting(command, script)
    with seat("decide", run["run_id"], "good", "reject", "--reason", "no", folder=folder) as sitting:
        sitting.until("exact copy [out.png]: ")
        sitting.type("")
        sitting.until("Have you viewed it? [y/N] ")
        assert "image/png" in sitting.shown and "-- begin" not in sitting.shown
        sitting.type("y")
        assert answer_hash(sitting, version(run)[:7]) == 0
    review = command("step", run["run_id"], "good", "--json").document["receipt"]["review"]
    assert (review["coverage"], review["viewed_outside"]) == (0.0, "exported to a file")


# With an owner elsewhere.


@pytest.fixture
def owned(command: Command, folder: Path, calls: Path) -> Iterator[None]:
    """A process that owns the workspace and goes on owning it."""
    with kit.process("run", kit.hanging(folder), folder=folder) as running:
        kit.wait_for_line(running, "running")
        yield


def test_a_second_terminal_resumes_and_decides_through_the_owner(
    command: Command, folder: Path, calls: Path, owned: None
) -> None:
    paused = waiting(command, kit.write_script(folder, "stop", PAUSE))
    assert shown(command, paused["run_id"])["state"] == "paused"
    resumed = command("resume", paused["run_id"], "stop", "--json")
    assert (resumed.status, resumed.document["state"]) == (0, "completed")
    assert "stop is resumed\n" in resumed.err
    run = waiting(command, reviewed(folder))
    assert shown(command, run["run_id"])["state"] == "waiting_approval"
    with seat("decide", run["run_id"], "good", "approve", "--json", folder=folder) as sitting:
        assert answer_hash(sitting, version(run)[:7]) == 0
        document = printed_json(sitting)
        assert "recovered first" not in sitting.shown
    assert document["run"]["state"] == "completed"
    assert document["actor"]["description"].startswith(f"terminal, uid {os.getuid()}, pts/")
    controls = kit.query(folder, "SELECT kind, outcome FROM inbox ORDER BY id")
    assert [tuple(row) for row in controls] == [
        ("launch", "applied"), ("resume", "applied"), ("launch", "applied"), ("decide", "applied"),
    ]  # fmt: skip


# After a crash.


def killed(folder: Path, name: str, script: str, stubs: str, when: str) -> str:
    """The id of a run whose process was killed once it had said ``when``."""
    with kit.process("run", kit.write_script(folder, name, script, stubs), folder=folder) as running:
        said = kit.wait_for_line(running, when)
        running.kill()
        running.wait()
    kit.wait_until_free(folder)
    return "wr_" + said.partition(" as wr_")[2][:16]


def test_a_preview_lists_what_recovering_then_does(command: Command, folder: Path, calls: Path) -> None:
    stubs = "- {step: first, reply: 1}\n- {step: '[ab]', after: 1.5, reply: late}\n"
    run_id = killed(folder, "branches", BRANCHES, stubs, "● running      b ")
    assert shown(command, run_id)["state"] == "recoverable"
    preview = command("recover", run_id, "--preview", "--json")
    assert preview.status == 0
    assert preview.document == {
        "reused": [{"step_id": "first", "line": 1}],
        "observed": [{"step_id": "a", "line": 3}, {"step_id": "b", "line": 3}],
        "uncertain": [],
        "new": [{"step_id": "c", "line": 3}],
        "compatible": True,
        "reasons": [],
    }
    text = command("recover", run_id, "--preview").out
    assert text.startswith("It can be recovered\n")
    assert "c  line 3  agent({stepId: id, agentRef: 'lead_agent', task: first.output})));" in text
    assert asked(calls) == {"first": 1, "a": 1, "b": 1}
    result = command("recover", run_id, "--json")
    assert (result.status, result.document["result"]) == (0, ["late", "late", 1])
    assert "is being recovered" in result.err
    assert asked(calls) == {"first": 1, "a": 1, "b": 1, "c": 1}
    refused = command("recover", run_id, "--json")
    assert (refused.status, refused.document["error"]["code"]) == (7, "incompatible")


@pytest.fixture
def uncertain(command: Command, folder: Path, calls: Path) -> str:
    """A run with one step of which the host knows nothing any more."""
    stubs = "- {step: one, reply: 1}\n- {step: two, after: 60, reply: 2}\n"
    run_id = killed(folder, "long", LONG, stubs, "● running      two")
    with closing(sqlite3.connect(folder / ".workbench" / "host.sqlite")) as host:
        gone = host.execute("DELETE FROM child_runs WHERE step_id = 'two'")
        host.commit()
        assert gone.rowcount == 1
    preview = command("recover", run_id, "--preview", "--json").document
    assert preview["uncertain"] == [{"step_id": "two", "line": 2}]
    assert preview["new"] == []
    stopped = command("recover", run_id, "--json")
    assert (stopped.status, stopped.document["state"]) == (4, "needs_reconciliation")
    assert asked(calls) == {"one": 1, "two": 1}, "an uncertain call is never repeated by the program"
    return run_id


def settled(folder: Path, run_id: str, *options: str) -> Seat:
    with seat("reconcile", run_id, "two", *options, folder=folder) as sitting:
        sitting.until("[y/N] ")
        sitting.type("y")
        assert sitting.finish() == 0, sitting.shown
        return sitting


def test_an_attested_output_is_given_to_the_script(
    command: Command, folder: Path, calls: Path, uncertain: str
) -> None:
    (folder / "answer.json").write_text('{"n": 22}', "utf-8")
    options = ("--outcome", "succeeded", "--output", "@answer.json", "--reason", "it is in the log")
    with seat("reconcile", uncertain, "two", *options, folder=folder) as sitting:
        sitting.until("[y/N] ")
        sitting.type("")
        assert sitting.finish() == 7
        assert '"n": 22' in sitting.shown
        assert "nothing was attested" in sitting.shown
    assert shown(command, uncertain)["state"] == "needs_reconciliation"
    text = settled(folder, uncertain, *options, "--json").shown
    document = json.loads(text[text.index("\n{\n") :])
    assert (document["outcome"], document["status"], document["state"]) == (
        "succeeded", "applied", "recoverable",
    )  # fmt: skip
    result = command("recover", uncertain, "--json")
    assert (result.status, result.document["result"]) == (0, [1, {"n": 22}])
    assert step_of(result.document, "two")["badge"] == "attested"
    assert asked(calls) == {"one": 1, "two": 1}


def ended(folder: Path, run_id: str, answer: list[Any]) -> None:
    """Let the host have a record of the uncertain step's child run, which has ended."""
    with closing(sqlite3.connect(folder / ".workbench" / "host.sqlite")) as host:
        cursor = host.execute("SELECT * FROM child_runs WHERE step_id = 'one'")
        row = dict(zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True))
        row |= {"run_id": run_id_of(f"{run_id}/two/1"), "thread_id": "t2", "step_id": "two"}
        row |= {"status": answer[0], "answer": json.dumps(answer), "change": row["change"] + 1}
        marks = ", ".join("?" * len(row))
        host.execute(f"INSERT INTO child_runs ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
        host.commit()


def test_a_fetched_output_is_shown_before_it_is_attested(
    command: Command, folder: Path, calls: Path, uncertain: str
) -> None:
    ended(folder, uncertain, ["success", {"lines": list(range(60))}, None, None])
    options = ("--outcome", "succeeded", "--fetch", "--reason", "it is on record")
    text = settled(folder, uncertain, *options).shown
    assert f"child run {run_id_of(f'{uncertain}/two/1')}: success" in text
    assert '"lines": [\n' in text and "    20,\n" in text
    assert re.search(r"Its output: sha256 [0-9a-f]{64}", text)
    assert "24 more lines; the hash above covers all of it" in text
    assert text.index('"lines"') < text.index("[y/N]")
    assert command("recover", uncertain, "--json").document["result"] == [1, {"lines": list(range(60))}]
    assert asked(calls) == {"one": 1, "two": 1}


def test_what_ended_on_record_is_not_attested_not_to_have_run(
    command: Command, folder: Path, calls: Path, uncertain: str
) -> None:
    ended(folder, uncertain, ["error", None, "agent_error", "500 from \x1b[31mthe model"])
    options = ("--outcome", "did_not_run", "--reason", "no trace")
    with seat("reconcile", uncertain, "two", *options, folder=folder) as sitting:
        assert sitting.finish() == 7
        assert "[y/N]" not in sitting.shown
        assert "so it did run" in " ".join(sitting.shown.split())
        assert "500 from ␛[31mthe model" in " ".join(sitting.shown.split())
    text = settled(folder, uncertain, "--outcome", "failed", "--reason", "the record says so").shown
    assert "error: 500 from ␛[31mthe model" in text
    assert asked(calls) == {"one": 1, "two": 1}


def test_what_the_host_sees_running_is_not_attested_not_to_have_run(
    command: Command, folder: Path, calls: Path, uncertain: str
) -> None:
    ended(folder, uncertain, ["running", None, None, None])
    with closing(sqlite3.connect(folder / ".workbench" / "host.sqlite")) as host:
        host.execute("UPDATE child_runs SET answer = NULL, due = NULL WHERE step_id = 'two'")
        host.commit()
    options = ("--outcome", "did_not_run", "--reason", "no trace")
    with seat("reconcile", uncertain, "two", *options, folder=folder) as sitting:
        assert sitting.finish() == 7
        assert "[y/N]" not in sitting.shown
        said = " ".join(sitting.shown.split())
        assert "running, so asking the Agent again would do its work twice" in said
        assert "or cancel the run, which interrupts it" in said
    assert asked(calls) == {"one": 1, "two": 1}


def test_what_did_not_run_is_asked_once_more(
    command: Command, folder: Path, calls: Path, uncertain: str
) -> None:
    assert (
        "workbench recover"
        in settled(folder, uncertain, "--outcome", "did_not_run", "--reason", "no trace of it").shown
    )
    preview = command("recover", uncertain, "--preview", "--json").document
    assert (preview["new"], preview["uncertain"]) == ([{"step_id": "two", "line": 2}], [])
    with kit.process("recover", uncertain, folder=folder) as running:
        kit.wait_for_line(running, "● running      two")
    kit.wait_until_free(folder)
    assert asked(calls) == {"one": 1, "two": 2}


def test_reconcile_says_what_is_wrong_with_its_input(command: Command, folder: Path, uncertain: str) -> None:
    cases: list[tuple[tuple[str, ...], int, str]] = [
        (("one", "--outcome", "failed"), 7, "is not uncertain; it is completed"),
        (("two", "--outcome", "succeeded", "--output", "inline"), 2, "--output takes @FILE"),
        (("two", "--outcome", "succeeded", "--output", "@missing"), 2, "does not exist"),
    ]
    for arguments, status, said in cases:
        with seat("reconcile", uncertain, *arguments, "--reason", "r", folder=folder) as sitting:
            assert sitting.finish() == status
            assert said in sitting.shown.replace("\n", " ")


# Versions and bytes.


def saved(result: Result) -> str:
    assert result.status == 0, result.err
    return f"{result.document['name']}@{result.document['version']}"


def test_a_saved_version_is_launched_and_never_another(command: Command, folder: Path) -> None:
    assert command("library", "--json").document == {"definitions": []}
    assert "Nothing is saved" in command("library").err
    script = kit.write_script(folder, "quick", kit.QUICK)
    first = saved(command("save", script, "--name", "my checks", "--json"))
    assert saved(command("save", script, "--name", "my checks", "--json")) == first
    assert "workbench run --version 'my checks@" in command("save", script, "--name", "my checks").err
    script.write_text("return 'edited';\n", "utf-8")
    second = saved(command("save", script, "--name", "my checks", "--json"))
    listed = command("library", "--json").document["definitions"]
    assert [f"{item['name']}@{item['version']}" for item in listed] == [second, first]
    assert first[:17] in command("library").out
    result = command("run", "--version", first[:17], "--args", '{"a": 1}', "--json")
    assert (result.status, result.document["name"]) == (0, "my checks")
    assert result.document["result"]["output"] == {"a": 1}
    assert result.document["script_hash"] == first.partition("@")[2]
    assert f"saved version {first[:17]}\n" in command("show", result.document["run_id"]).out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--version", "quick"), "names no version"),
        (("run", "--version", "quick@abc"), "names no version"),
        (("run", "--version", "quick@0000000"), "no saved version quick@0000000"),
        (("run", "quick.workflow.js", "--version", "quick@0000000"), "name either"),
        (("run",), "name either"),
        (("save", "quick.workflow.js", "--name", "/etc"), "a name has"),
        (("save", "missing.js", "--name", "a"), "does not exist"),
    ],
)
def test_what_names_no_version_is_refused_in_words(
    command: Command, folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    assert command("save", kit.write_script(folder, "quick", kit.QUICK), "--name", "quick").status == 0
    result = command(*arguments, "--json")
    assert (result.status, said in result.document["error"]["message"]) == (2, True)


def test_a_script_with_errors_is_not_saved(command: Command, folder: Path) -> None:
    result = command("save", kit.write_script(folder, "bad", "return (;\n"), "--name", "bad", "--json")
    assert result.status == 1
    assert result.document["problems"][0]["severity"] == "error"
    assert command("library", "--json").document == {"definitions": []}


def test_the_exact_bytes_of_steps(command: Command, folder: Path) -> None:
    content = "a\x1b[31m\r\n\u202eb\x00"
    run = waiting(command, reviewed(folder, content))
    target = folder / "copy"
    for step, body in (("file", content.encode()), ("good", content.encode()), ("made", b'"done"')):
        document = command("artifact", run["run_id"], step, "--json").document
        assert document["size"] == len(body)
        assert document["sha256"] == document["artifact_version"]
        with kit.process("artifact", run["run_id"], step, folder=folder) as running:
            running.wait(timeout=kit.PATIENCE_SECONDS)
            assert running.stdout is not None
            assert running.stdout.buffer.read() == body  # type: ignore[attr-defined]
            assert running.stderr is not None
            assert document["sha256"] in running.stderr.read()
        assert command("artifact", run["run_id"], step, "-o", target).status == 0
        assert (target.read_bytes(), target.stat().st_mode & 0o777) == (body, 0o600)
        again = command("artifact", run["run_id"], step, "-o", target, "--json")
        assert (again.status, "exists already" in again.document["error"]["message"]) == (2, True)
        target.unlink()
    missing = command("artifact", run["run_id"], "sent", "--json")
    assert (missing.status, missing.document["error"]["code"]) == (2, "not_found")


def test_the_examples_do_what_they_say(command: Command, folder: Path) -> None:
    from workbench.scripts import write_examples

    scripts = {script.name: script for script, _ in write_examples(folder)}
    for script in scripts.values():
        assert command("check", script, "--json").document == {"problems": []}
    run = waiting(command, scripts["file-review.workflow.js"])
    assert (run["state"], run["waiting"]["step_id"]) == ("waiting_approval", "final-report")
    assert [line["message"] for line in run["log"]] == ["180 bytes, 5 lines that are not empty"]
    paused = waiting(command, scripts["pause.workflow.js"])
    result = command("resume", paused["run_id"], "before-the-rest", "--json")
    assert len(result.document["result"]["looked"]) == 3
