"""``stubs``, ``export-test``, ``fork``, ``explore``, ``coverage`` and the preview of a bundle, over the real engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.cli.test_replay import SCRIPT, killed, written

ROOT = Path(__file__).parents[3]
BRANCH = """\
const first = await agent({stepId: 'first', agentRef: 'lead_agent', task: args.n});
if (first.output.ok) {
  log('good');
} else {
  const more = await agent({stepId: 'more', agentRef: 'lead_agent', task: {about: first.output}});
  return more.output;
}
return 'done';
"""
BRANCH_STUBS = "- step: first\n  reply: {ok: true}\n- step: more\n  reply: more of it\n"


@pytest.fixture
def pair(command: Command, folder: Path) -> str:
    result = command("run", written(folder), "--args", '{"secret": "s"}', "--json")
    return str(result.document["run_id"])


@pytest.fixture
def branch(command: Command, folder: Path) -> str:
    (folder / "branch.workflow.js").write_text(BRANCH)
    (folder / "branch.stubs.yaml").write_text(BRANCH_STUBS)
    return str(command("run", "branch.workflow.js", "--args", '{"n": 1}', "--json").document["run_id"])


def outcome_of(path: Path) -> subprocess.CompletedProcess[str]:
    """Run an exported test as its user would, without network or workspace."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(path.parent),
            str(path),
        ],
        cwd=path.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_run_becomes_a_stub_set_that_answers_as_it_did(command: Command, folder: Path, pair: str) -> None:
    made = command("stubs", pair, "-o", "made.stubs.yaml", "--json")
    assert made.status == 0, made.err
    assert made.document == {"run_id": pair, "file": "made.stubs.yaml", "entries": 2, "notes": []}
    again = command(
        "run", "pair.workflow.js", "--stubs", "made.stubs.yaml", "--args", '{"secret": "x"}', "--json"
    )
    assert (again.status, again.document["result"]) == (0, "done")
    assert {step["badge"] for step in again.document["steps"]} == {"stub"}
    assert command("stubs", pair, "-o", "made.stubs.yaml").status == 2


def test_a_pinned_stub_set_answers_the_same_request_alone(command: Command, folder: Path, pair: str) -> None:
    command("stubs", pair, "-o", "pinned.stubs.yaml", "--pinned")
    same = command(
        "run", "pair.workflow.js", "--stubs", "pinned.stubs.yaml", "--args", '{"secret": "s"}', "--json"
    )
    assert {step["badge"] for step in same.document["steps"]} == {"recorded"}
    other = command(
        "run", "pair.workflow.js", "--stubs", "pinned.stubs.yaml", "--args", '{"secret": "x"}', "--json"
    )
    assert other.document["steps"][0]["badge"] == "stub"


def test_an_exported_test_passes_and_fails_when_the_script_changes(
    command: Command, folder: Path, pair: str, tmp_path: Path
) -> None:
    made = command("export-test", pair, "-o", "test_pair.py", "--json")
    assert made.status == 0, made.err
    assert made.document["verdict"] == "complete"
    alone = tmp_path / "alone"
    alone.mkdir()
    test = alone / "test_pair.py"
    test.write_text((folder / "test_pair.py").read_text())
    done = outcome_of(test)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    source = test.read_text()
    head, script = source.split("SCRIPT = ", 1)
    test.write_text(head + "SCRIPT = " + script.replace("task: one.output", "task: one.output.n", 1))
    done = outcome_of(test)
    assert done.returncode == 1
    assert "calls[0].task" in done.stdout
    assert command("export-test", pair, "-o", "test_pair.py").status == 2


def test_a_fork_with_another_answer_takes_the_other_branch(
    command: Command, folder: Path, branch: str
) -> None:
    made = command("fork", branch, "--at", "2", "--reply", '{"ok": false}', "--json")
    assert made.status == 0, made.err
    run = made.document
    assert run["parent_run_id"] == branch
    assert run["result"] == "more of it"
    assert [(step["step_id"], step["badge"]) for step in run["steps"]] == [
        ("first", "recorded"),
        ("more", "stub"),
    ]
    assert "differs at frame 3" in made.err
    (folder / "reply.json").write_text('{"ok": false}')
    assert (
        command("fork", branch, "--at", "1", "--reply", "@reply.json", "--json").document["result"]
        == "more of it"
    )


def test_a_fork_with_another_script_keeps_what_is_asked_alike(
    command: Command, folder: Path, pair: str
) -> None:
    (folder / "edited.js").write_text(SCRIPT.replace("task: one.output}", "task: {again: one.output}}"))
    made = command("fork", pair, "--script", "edited.js", "--json")
    assert made.status == 0, made.err
    assert [(step["step_id"], step["badge"]) for step in made.document["steps"]] == [
        ("one", "recorded"),
        ("two", "stub"),
    ]
    assert made.document["script_hash"] != command("show", pair, "--json").document["script_hash"]


def test_a_fork_of_a_bundle_and_of_nothing_else(command: Command, folder: Path, branch: str) -> None:
    command("export", branch, "-o", "b.wfrun")
    same = command("fork", "b.wfrun", "--json")
    assert (same.status, same.document["result"], same.document["parent_run_id"]) == (0, "done", branch)
    assert "asks what was recorded" in same.err
    command("export", branch, "-o", "r.wfrun", "--redact")
    for arguments in (
        ("r.wfrun",), ("b.wfrun", "--at", "1"), ("b.wfrun", "--reply", "1"), ("b.wfrun", "--at", "0", "--reply", "1"),
        ("b.wfrun", "--at", "99", "--reply", "1"), ("b.wfrun", "--at", "1", "--reply", "{"),
        ("b.wfrun", "--at", "1", "--step", "x", "--reply", "1"),
    ):  # fmt: skip
        assert command("fork", *arguments).status == 2, arguments
    (folder / "bad.js").write_text("return (;")
    assert command("fork", "b.wfrun", "--script", "bad.js").status in (1, 2)


def test_orders_are_explored(command: Command, folder: Path) -> None:
    script = folder / "race.workflow.js"
    script.write_text(
        "const seen = [];\nawait parallel(['x', 'y'].map((name) => async () => {\n"
        "  seen.push((await agent({stepId: name, agentRef: 'lead_agent', task: name})).output);\n}));\nreturn seen;\n"
    )
    run = command("run", script, "--json").document["run_id"]
    found = command("explore", "orders", run, "--json")
    assert found.status == 0, found.err
    assert (found.document["exist"], found.document["ran"], found.document["parallel"]) == (
        2,
        2,
        [["x", "y"]],
    )
    (case,) = found.document["changed"]
    assert case["what"] == "result"
    shown = command("explore", "orders", run)
    assert "2 orders of answers exist; 2 ran" in shown.out
    assert "the result changes" in shown.out


def test_orders_that_cannot_be_looked_at_are_named(command: Command, folder: Path) -> None:
    (folder / "race.js").write_text(
        "const ask = name => agent({stepId: name, agentRef: 'lead_agent', task: name});\n"
        "return (await Promise.race([ask('x'), ask('y')])).output;\n"
    )
    (folder / "race.yaml").write_text("- step: x\n  hang: true\n- step: y\n  reply: y\n")
    run = command("run", "race.js", "--stubs", "race.yaml", "--json").document["run_id"]
    found = command("explore", "orders", run, "--json").document
    assert (found["exist"], found["parallel"], found["unanswered"]) == (1, [["x", "y"]], ["x"])
    shown = command("explore", "orders", run).out
    assert "1 order of recorded answers exists; 1 ran" in shown
    assert "no recorded answer: x" in shown


def test_crash_points_are_told(command: Command, pair: str) -> None:
    found = command("explore", "crashes", pair, "--json")
    assert found.status == 0, found.err
    points = found.document["points"]
    assert found.document["exist"] == found.document["ran"] == len(points)
    assert points[0]["new"] == ["one"]
    assert points[-1]["reused"] == ["one", "two"]
    assert command("explore", "crashes", pair, "--limit", "2", "--json").document["ran"] == 2
    assert "commits" in command("explore", "crashes", pair).out


def test_coverage_over_two_runs(command: Command, folder: Path, branch: str) -> None:
    alone = command("coverage", branch, "--json").document["scripts"][0]
    assert [place["line"] for place in alone["never"]] == [5, 6]
    shown = command("coverage", branch)
    assert "✗" in shown.out and "in 1 run" in shown.out
    other = command("fork", branch, "--at", "2", "--reply", '{"ok": false}', "--json").document["run_id"]
    both = command("coverage", branch, other, "--json").document["scripts"][0]
    assert (both["never"], both["runs"]) == ([], [branch, other])


def test_what_does_not_replay_is_not_explored(command: Command, folder: Path, pair: str) -> None:
    command("export", pair, "-o", "r.wfrun", "--redact")
    for arguments in (
        ("explore", "orders", "r.wfrun"), ("explore", "crashes", "r.wfrun"), ("coverage", "r.wfrun"),
        ("stubs", "r.wfrun", "-o", "x.yaml"), ("export-test", "r.wfrun", "-o", "x.py"),
    ):  # fmt: skip
        assert command(*arguments).status == 2, arguments
    assert not (folder / "x.yaml").exists() and not (folder / "x.py").exists()


def test_a_fork_without_recorded_answers_asks_everybody_anew(
    command: Command, folder: Path, pair: str
) -> None:
    again = command("fork", pair, "--recorded", "none", "--json").document
    assert again["parent_run_id"] == pair
    assert [step["badge"] for step in again["steps"]] == ["stub", "stub"]
    assert again["result"] == command("show", pair, "--json").document["result"]
    (folder / "other.stubs.yaml").write_text("- reply: else\n")
    other = command("fork", pair, "--recorded", "none", "--stubs", "other.stubs.yaml", "--json").document
    assert {step["badge"] for step in other["steps"]} == {"stub"} and other["result"] == "else"
    refused = command("fork", pair, "--recorded", "none", "--at", "2", "--reply", "1")
    assert refused.status == 2 and "--recorded none uses none" in refused.err
    assert command("fork", pair, "--recorded", "none", "--agents", "real").status == 2


def test_a_bundle_of_a_crash_says_what_recovery_would_do(command: Command, folder: Path) -> None:
    run = killed(folder, command)
    command("export", run, "-o", "crash.wfrun")
    found = command("recover", "crash.wfrun", "--preview", "--json")
    assert found.status == 0, found.err
    document = found.document
    assert [step["step_id"] for step in document["reused"]] == ["one"]
    assert [step["step_id"] for step in (*document["observed"], *document["uncertain"])] == ["two"]
    assert document["new"] == []
    assert document["compatible"] is None
    assert any(reason.startswith("unknown here") for reason in document["reasons"])
    assert "not known here" in command("recover", "crash.wfrun", "--preview").out
    assert command("recover", "crash.wfrun").status == 2
    command("export", "crash.wfrun", "-o", "r.wfrun", "--redact")
    hidden = command("recover", "r.wfrun", "--preview", "--json").document
    assert [step["step_id"] for step in hidden["reused"]] == ["one"]
    assert hidden["compatible"] is None


def test_a_finished_bundle_cannot_be_recovered(command: Command, folder: Path, pair: str) -> None:
    command("export", pair, "-o", "done.wfrun")
    document = command("recover", "done.wfrun", "--preview", "--json").document
    assert document["compatible"] is False
    assert "the run is completed, not recoverable" in document["reasons"]


def test_a_run_with_a_captured_file_travels_whole(command: Command, folder: Path) -> None:
    script = folder / "cap.workflow.js"
    script.write_text(
        "const a = await agent({stepId: 'src', agentRef: 'lead_agent', task: 'x'});\n"
        "const c = await captureArtifact({stepId: 'cap', sourceStepId: 'src', path: 'report.md'});\n"
        "let size = 0, offset = 0;\n"
        "while (offset !== null) {\n"
        "  const part = await readArtifact({artifactVersion: c.artifactVersion, offset});\n"
        "  size += atob(part.data).length;\n"
        "  offset = part.next_offset;\n"
        "}\n"
        "return {size, same: size === c.size};\n"
    )
    (folder / "cap.stubs.yaml").write_text(
        f"- step: src\n  reply: ok\n  files: {{report.md: '{'word ' * 8000}'}}\n"
    )
    done = command("run", script, "--json")
    assert (done.status, done.document["result"]) == (0, {"size": 40_000, "same": True})
    run = done.document["run_id"]
    command("export", run, "-o", "cap.wfrun")
    assert command("replay", "cap.wfrun", "--json").document["verdict"] == "complete"
    at = command("replay", "cap.wfrun", "--watch", "size", "--json").document
    assert at["watches"] == {"size": 40_000}
    assert command("explore", "orders", "cap.wfrun", "--json").document["changed"] == []
    assert command("coverage", "cap.wfrun", "--json").document["scripts"][0]["never"] == []
    command("stubs", "cap.wfrun", "-o", "again.stubs.yaml")
    again = command("run", script, "--stubs", "again.stubs.yaml", "--json")
    assert again.document["result"] == {"size": 40_000, "same": True}
    assert command("export-test", "cap.wfrun", "-o", "test_cap.py").status == 2
    assert command("fork", "cap.wfrun", "--json").document["result"] == {"size": 40_000, "same": True}
    command("export", "cap.wfrun", "-o", "r.wfrun", "--redact")
    assert command("replay", "r.wfrun", "--json").document["verdict"] == "complete"
