"""``export`` and ``replay`` over the real engine: live, finished, crashed and copied runs, and files that are none."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.cli.test_real import process, store, wait_for_line
from tests.workflows_core.journal.test_preview import cut
from workflows_core.journal.bundle import write
from workflows_core.model import Wait

SCRIPT = """\
const one = await agent({stepId: 'one', agentRef: 'lead_agent', task: {secret: args.secret}});
const two = await agent({stepId: 'two', agentRef: 'lead_agent', task: one.output});
return two.output;
"""
STUBS = "- step: one\n  reply: {n: 7, text: 'hush-hush'}\n- step: two\n  reply: done\n"
HANG = "- step: one\n  reply: {n: 7}\n- step: two\n  hang: true\n"
NEVER = {"verdict", "frames", "notes", "divergence"}


def written(folder: Path, stubs: str = STUBS) -> Path:
    script = folder / "pair.workflow.js"
    script.write_text(SCRIPT)
    (folder / "pair.stubs.yaml").write_text(stubs)
    return script


@pytest.fixture
def run_id(command: Command, folder: Path) -> str:
    result = command("run", written(folder), "--args", '{"secret": "hush-hush"}', "--json")
    assert result.status == 0, result.err
    return str(result.document["run_id"])


def killed(folder: Path, command: Command) -> str:
    """A run whose process was killed while the second step was under way."""
    with process("run", written(folder, HANG)) as running:
        wait_for_line(running, "two")
        running.kill()
        running.communicate(timeout=90)
    return str(command("runs", "--json").document["runs"][0]["run_id"])


def test_a_finished_run_is_exported_and_replays_without_its_workspace(
    command: Command, folder: Path, run_id: str, tmp_path: Path
) -> None:
    result = command("export", run_id[:9], "-o", "a.wfrun", "--json")
    assert result.status == 0, result.err
    assert result.document["run_id"] == run_id
    assert result.document["frames"] == 6
    assert result.document["bytes"] == (folder / "a.wfrun").stat().st_size
    shutil.rmtree(folder / ".workbench")
    for arguments in (("replay", "a.wfrun"), ("replay", "a.wfrun", "--headless")):
        done = command(*arguments, "--json")
        assert done.status == 0
        assert done.document == {"verdict": "complete", "frames": 6, "notes": [], "divergence": None}
    assert "✓ complete" in command("replay", "a.wfrun").out
    assert not (folder / ".workbench").exists()


def test_a_run_replays_from_its_workspace(command: Command, run_id: str) -> None:
    assert command("replay", run_id, "--json").document["verdict"] == "complete"


def test_a_killed_run_is_exported_and_ends_early(command: Command, folder: Path) -> None:
    run = killed(folder, command)
    assert command("export", run, "-o", "crash.wfrun").status == 0
    done = command("replay", "crash.wfrun", "--json")
    assert done.status == 0
    assert done.document["verdict"] == "ends_early"
    assert "no answer recorded for two" in done.document["notes"][0]


def test_a_live_run_is_exported_while_it_runs(command: Command, folder: Path) -> None:
    with process("run", written(folder, HANG)) as running:
        wait_for_line(running, "two")
        run = command("runs", "--json").document["runs"][0]["run_id"]
        assert command("export", run, "-o", "live.wfrun").status == 0
        assert running.poll() is None
    assert command("replay", "live.wfrun", "--json").document["verdict"] == "ends_early"


def test_a_store_copied_off_a_dead_machine(command: Command, folder: Path) -> None:
    run = killed(folder, command)
    found = folder / "found"
    found.mkdir()
    for suffix in ("", "-wal"):
        part = store(folder).with_name(store(folder).name + suffix)
        if part.exists():
            shutil.copyfile(part, found / f"old.sqlite{suffix}")
    shutil.rmtree(folder / ".workbench")
    before = {file.name: file.read_bytes() for file in found.iterdir()}
    by_file = command("replay", "found/old.sqlite", "--json")
    by_id = command("replay", run[:8], "--store", "found/old.sqlite", "--json")
    assert by_file.status == by_id.status == 0, by_file.err + by_id.err
    assert by_file.document == by_id.document
    assert command("export", run, "--store", "found/old.sqlite", "-o", "x.wfrun").status == 0
    assert command("replay", "x.wfrun", "--json").document == by_file.document
    ahead = command("recover", "found/old.sqlite", "--preview", "--json")
    assert ahead.status == 0, ahead.err
    assert [step["step_id"] for step in ahead.document["reused"]] == ["one"]
    for arguments in ((run[:8], "--store", "found/old.sqlite"), ("x.wfrun",)):
        assert command("recover", *arguments, "--preview", "--json").document == ahead.document
    for arguments in ((run[:8], "--store", "found/old.sqlite"), ("found/old.sqlite",), ("x.wfrun",)):
        refused = command("recover", *arguments)
        assert refused.status == 2 and "a file can only be looked at: add --preview" in refused.err
    assert {file.name: file.read_bytes() for file in found.iterdir()} == before


def test_the_place_where_a_journal_was_cut(command: Command, folder: Path) -> None:
    script = (
        "let y = 0;\nconst p = agent({stepId: 'a', agentRef: 'lead_agent', task: 1});\ny = 2;\nawait p;\n"
    )
    (folder / "cut.wfrun").write_bytes(write(asyncio.run(cut(script, rounds=0))))
    for at, value in (("1", 0), ("end", 2)):
        found = command("replay", "cut.wfrun", "--at", at, "--watch", "y", "--json").document
        assert (found["watches"]["y"], len(found["in_flight"])) == (value, int(at == "end"))


def test_what_a_run_in_a_file_would_wait_for(command: Command, folder: Path) -> None:
    made = asyncio.run(cut("await pause({stepId: 'hold'});\nreturn 1;\n", rounds=0))
    waiting = Wait("pause", "hold", 1, None)
    record = msgspec.structs.replace(made.record, waiting=waiting)
    (folder / "wait.wfrun").write_bytes(write(msgspec.structs.replace(made, record=record)))
    ahead = command("recover", "wait.wfrun", "--preview")
    assert ahead.status == 0 and "not known here" in ahead.out
    assert ahead.out.endswith("Then it waits for resume at hold again\n")


def test_a_run_is_compared_with_one_that_exists_only_as_a_file(
    command: Command, folder: Path, run_id: str
) -> None:
    assert command("export", run_id, "-o", "parent.wfrun").status == 0
    assert command("export", run_id, "-o", "hidden.wfrun", "--redact").status == 0
    found = folder / "found"
    found.mkdir()
    shutil.move(store(folder), found / "old.sqlite")
    shutil.rmtree(folder / ".workbench")
    (folder / "pair.stubs.yaml").write_text(STUBS.replace("n: 7", "n: 8"))
    other = command("run", "pair.workflow.js", "--args", '{"secret": "hush-hush"}', "--json").document[
        "run_id"
    ]
    compared = command("compare", "parent.wfrun", other, "--json")
    assert compared.status == 0, compared.err
    document = compared.document
    assert (document["first"]["run_id"], document["second"]["run_id"]) == (run_id, other)
    assert document["steps"][0]["output"] == [{"path": "n", "first": 7, "second": 8}]
    assert command("compare", "found/old.sqlite", other, "--json").document == document
    turned = command("compare", other, "./parent.wfrun", "--json").document
    assert turned["steps"][0]["output"] == [{"path": "n", "first": 8, "second": 7}]
    assert command("compare", "parent.wfrun", "parent.wfrun").out.endswith("equal but for their times.\n")
    hidden = command("compare", "parent.wfrun", "hidden.wfrun")
    assert hidden.status == 0 and "hidden.wfrun is redacted" in hidden.err
    for wrong in ("none.wfrun", "pair.workflow.js", run_id):
        assert command("compare", wrong, other).status == 2, wrong


def test_a_store_with_several_runs_asks_which(command: Command, folder: Path, run_id: str) -> None:
    command("run", folder / "pair.workflow.js")
    result = command("replay", store(folder))
    assert result.status == 2
    assert "holds 2 runs" in result.err and run_id in result.err


def test_a_redacted_bundle_is_not_executed_and_holds_no_value(
    command: Command, folder: Path, run_id: str
) -> None:
    assert command("export", run_id, "-o", "r.wfrun", "--redact", "--json").document["redacted"] is True
    done = command("replay", "r.wfrun", "--json")
    assert (done.status, done.document["verdict"]) == (0, "complete")
    assert "not executed" in done.document["notes"][-1]
    command("export", run_id, "-o", "a.wfrun")
    assert command("export", "a.wfrun", "-o", "r2.wfrun", "--redact").status == 0
    for name, holds in (("a.wfrun", True), ("r.wfrun", False), ("r2.wfrun", False)):
        from tests.workflows_core.journal.runs import members

        whole = b"".join(members((folder / name).read_bytes()).values())
        assert (b"hush-hush" in whole) is holds
    assert command("replay", "r.wfrun", "--script", folder / "pair.workflow.js").status == 2


def test_a_divergence_is_shown_with_its_place(command: Command, folder: Path, run_id: str) -> None:
    edited = folder / "edited.js"
    edited.write_text(SCRIPT.replace("task: one.output", "task: one.output.n"))
    done = command("replay", run_id, "--script", edited, "--json")
    assert done.status == 1
    assert done.document.keys() == NEVER
    found = done.document["divergence"]
    assert (found["frame"], found["agreed"], found["line"], found["column"]) == (3, 2, 2, 19)
    assert found["differences"] == [
        {"path": "calls[0].task", "recorded": {"n": 7, "text": "hush-hush"}, "now": 7}
    ]
    assert found["locals"] == {
        "one": {**found["locals"]["one"], "output": {"n": 7, "text": "hush-hush"}},
        "two": {"$type": "unassigned"},
    }
    shown = command("replay", run_id, "--script", edited)
    assert shown.status == 1
    assert "differs at frame 3, 2:19" in shown.out
    assert "task: one.output.n" in shown.out


def test_a_changed_store_is_no_journal_of_ours(command: Command, folder: Path, run_id: str) -> None:
    with sqlite3.connect(store(folder)) as connection:
        ((body,),) = connection.execute("SELECT body FROM frames WHERE number = 1").fetchall()
        connection.execute("UPDATE frames SET body = ? WHERE number = 1", (body.replace(b"one", b"two"),))
    connection.close()
    done = command("replay", run_id, "--json")
    assert done.status == 1
    assert done.document["verdict"] == "incompatible"
    assert done.document["notes"] == ["frame 1 does not match its hash."]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.wfrun", b"junk", "too short"),
        ("a.wfrun", b"SQLite format 3\0" + b"\0" * 2000, "not a"),
        ("a.txt", b"x" * 100, "not a bundle"),
    ],
)
def test_files_that_are_no_runs(
    command: Command, folder: Path, name: str, content: bytes, words: str
) -> None:
    (folder / name).write_bytes(content)
    result = command("replay", name, "--json")
    assert result.status == 2
    assert words in result.document["error"]["message"]


def test_what_is_not_there(command: Command, folder: Path) -> None:
    for arguments in (("replay", "missing.wfrun"), ("replay", "wr_0"), ("export", "wr_0", "-o", "x.wfrun")):
        result = command(*arguments)
        assert result.status == 2, result.err
    assert command("replay", "x", "--store", "missing.sqlite").status == 2
    assert not (folder / "x.wfrun").exists()


def test_what_is_no_store_of_runs(command: Command, folder: Path, run_id: str) -> None:
    asked = (("replay", run_id), ("export", run_id, "-o", "x.wfrun"), ("recover", run_id, "--preview"))
    for path, words in (
        ("missing.sqlite", "there is no store"),
        (".workbench/host.sqlite", "not a store of runs"),
    ):
        for arguments in asked:
            result = command(*arguments, "--store", path)
            assert result.status == 2 and words in result.err, result.err
    shutil.copyfile(store(folder), folder / "some.sqlite")
    connection = sqlite3.connect(folder / "some.sqlite")
    with connection:
        connection.execute("DELETE FROM contents")
    connection.close()
    assert "does not hold the launch options of the run" in command("replay", "some.sqlite").err


def test_a_reply_that_no_agent_could_give(command: Command, run_id: str) -> None:
    for size, status in ((12_001, 2), (12_000, 0)):
        reply = json.dumps("x" * (size - 2))
        result = command("fork", run_id, "--at", "2", "--reply", reply, "--json")
        assert result.status == status, result
    assert "12,001 bytes" in command("fork", run_id, "--at", "2", "--reply", json.dumps("x" * 11_999)).err


def test_text_from_a_bundle_cannot_act_on_the_terminal(command: Command, folder: Path) -> None:
    script = folder / "esc.workflow.js"
    script.write_text(
        "return await agent({stepId: 'a', agentRef: 'lead_agent', task: '\\u001b]52;c;x\\u0007'});"
    )
    run = command("run", script, "--json").document["run_id"]
    edited = folder / "edited.js"
    edited.write_text(
        "return await agent({stepId: 'a', agentRef: 'lead_agent', task: '\\u009b31m\x1b[31m'});"
    )
    shown = command("replay", run, "--script", edited)
    assert shown.status == 1
    assert not {"\x1b", "\x9b", "\x07"} & set(shown.out + shown.err)


def test_a_bundle_is_private_and_replaces_a_file_whole(command: Command, folder: Path, run_id: str) -> None:
    target = folder / "a.wfrun"
    target.write_text("before")
    assert command("export", run_id, "-o", target).status == 0
    assert target.stat().st_mode & 0o777 == 0o600
    if os.geteuid() != 0:
        (folder / "closed").mkdir(mode=0o500)
        assert command("export", run_id, "-o", "closed/a.wfrun").status == 6
    assert command("export", run_id, "-o", "nowhere/a.wfrun").status == 6


def test_json_is_ascii(command: Command, folder: Path) -> None:
    script = folder / "u.workflow.js"
    script.write_text("return await agent({stepId: 'a', agentRef: 'lead_agent', task: 'ä'});")
    run: Any = command("run", script, "--json").document["run_id"]
    (folder / "e.js").write_text("return await agent({stepId: 'a', agentRef: 'lead_agent', task: 'ö'});")
    result = command("replay", run, "--script", "e.js", "--json")
    assert result.out.isascii()
    assert json.loads(result.out)["divergence"]["differences"][0]["now"] == "ö"


def test_variables_are_shown_at_a_frame(command: Command, run_id: str) -> None:
    done = command(
        "replay", run_id, "--at", "3", "--watch", "one.output.n", "--watch", "args.secret", "--json"
    )
    assert done.status == 0, done.err
    found = done.document
    assert found.keys() == {
        "frame", "statement", "line", "column", "locals", "watches", "scopes", "in_flight",
    }  # fmt: skip
    assert found["scopes"].keys() == found["locals"].keys() and found["in_flight"] == []
    assert (found["frame"], found["line"], found["column"]) == (3, 2, 19)
    assert found["locals"]["two"] == {"$type": "unassigned"}
    assert found["locals"]["one"]["output"]["n"] == 7
    assert found["watches"] == {"one.output.n": 7, "args.secret": "hush-hush"}
    last = command("replay", run_id, "--watch", "two.output", "--json").document
    assert (last["frame"], last["watches"]) == (5, {"two.output": "done"})
    flying = command("replay", run_id, "--at", "4", "--json").document["in_flight"]
    assert flying == [{"label": "two", "line": 2, "column": 19}]
    shown = command("replay", run_id, "--at", "4")
    assert "frame 4  response, 2:19" in shown.out
    assert "in flight: two" in shown.out


def test_variables_are_shown_at_a_statement_and_where_a_line_runs_first(
    command: Command, run_id: str
) -> None:
    third = command("replay", run_id, "--at", "#3", "--json").document
    assert (third["line"], third["locals"]["two"]["output"]) == (3, "done")
    second = command("replay", run_id, "--at", ":2", "--watch", "one.output.n", "--json").document
    assert (second["frame"], second["line"], second["watches"]) == (2, 2, {"one.output.n": 7})
    first = command("replay", run_id, "--at", ":1", "--json").document
    assert (first["line"], first["locals"]["one"]) == (1, {"$type": "unassigned"})
    for wrong in ("x", "#", ":-1", "1.5"):
        assert command("replay", run_id, "--at", wrong).status == 2
    never = command("replay", run_id, "--at", ":9")
    assert never.status == 2 and "line 9 does not run" in never.err
    assert third["statement"] == 3
    for number in ("#0", "#4", "#99"):
        none = command("replay", run_id, "--at", number)
        assert none.status == 2 and "statements 1 to 3" in none.err


def test_a_line_without_a_statement_is_not_answered_with_another(command: Command, folder: Path) -> None:
    script = folder / "gap.workflow.js"
    script.write_text("let n = 1;\n// nothing\nn += 1;\nreturn n;\n")
    (folder / "gap.stubs.yaml").write_text("[]\n")
    run = command("run", script, "--json").document["run_id"]
    assert command("replay", run, "--at", ":3", "--json").document["locals"] == {"n": 1}
    gap = command("replay", run, "--at", ":2")
    assert gap.status == 2 and "no statement begins on it; the next one is on line 3" in gap.err


def test_a_line_of_a_loop_is_stopped_at_each_time_that_it_runs(command: Command, folder: Path) -> None:
    script = folder / "loop.workflow.js"
    script.write_text("let n = 0;\nfor (const each of [5, 6, 7]) {\n  n += each;\n}\nreturn n;\n")
    (folder / "loop.stubs.yaml").write_text("[]\n")
    run = command("run", script, "--json").document["run_id"]
    seen = [command("replay", run, "--at", f":3x{times}", "--json").document["locals"] for times in (1, 2, 3)]
    assert [(each["n"], each["each"]) for each in seen] == [(0, 5), (5, 6), (11, 7)]
    assert seen[0] == command("replay", run, "--at", ":3", "--json").document["locals"]
    never = command("replay", run, "--at", ":3x4")
    assert never.status == 2 and "line 3 runs 3 times in this run, not 4" in never.err
    first = command("replay", run, "--at", ":1x2")
    assert first.status == 2 and "line 1 runs 1 time in this run, not 2" in first.err
    for wrong in (":3x", ":3x0", "3x2", "#3x2", ":3x2x2"):
        assert command("replay", run, "--at", wrong).status == 2


@pytest.mark.parametrize("option", ["--watch", "--history"])
def test_what_is_no_expression_is_refused(command: Command, run_id: str, option: str) -> None:
    for wrong in ("", " ", "one +"):
        refused = command("replay", run_id, option, wrong)
        assert refused.status == 2 and "is no expression" in refused.err


def test_a_surplus_answer_and_an_early_end_are_found_and_looked_at(
    command: Command, folder: Path, run_id: str
) -> None:
    early = folder / "early.js"
    early.write_text("return 1\n")
    found = command("replay", run_id, "--script", early, "--headless", "--json")
    assert found.status == 1
    assert [found.document["divergence"][key] for key in ("frame", "line", "column")] == [1, 1, 1]
    at = command("replay", run_id, "--script", early, "--at", "3", "--watch", "args", "--json")
    assert at.status == 0, at.err
    assert (at.document["line"], at.document["watches"]) == (1, {"args": {"secret": "hush-hush"}})
    assert command("replay", run_id, "--script", early, "--history", "args", "--json").status == 0


def test_the_value_of_an_expression_over_all_frames(command: Command, folder: Path, run_id: str) -> None:
    done = command("replay", run_id, "--history", "one.output.n", "--json")
    assert done.status == 0, done.err
    assert done.document["expression"] == "one.output.n"
    values = {each["frame"]: each["value"] for each in done.document["history"]}
    unassigned = {"$type": "unassigned"}
    assert values == {0: unassigned, 1: unassigned, 2: unassigned, 3: 7, 4: 7, 5: 7}
    shown = command("replay", run_id, "--history", "one.output.n", "--headless").out.splitlines()
    assert len(shown) == 6 and shown[3].split() == ["frame", "3", "request", "two", "7"]
    refused = command("replay", run_id, "--history", "one = 1")
    assert refused.status == 2 and "might change something" in refused.err
    edited = folder / "edited.js"
    edited.write_text(SCRIPT.replace("task: one.output", "task: one.output.n"))
    cut = command("replay", run_id, "--script", edited, "--history", "one.output.n", "--json").document
    assert [each["frame"] for each in cut["history"]] == [0, 1, 2, 3]


def test_the_frames_are_listed(command: Command, run_id: str) -> None:
    found = command("replay", run_id, "--frames", "--json").document["frames"]
    assert [line["kind"] for line in found] == ["start", "request", "response", "request", "response", "end"]
    assert (found[3]["labels"], found[3]["places"], found[4]["failed"]) == (["two"], [[2, 19]], False)
    assert found[2]["body"]["results"][0]["value"]["output"]["text"] == "hush-hush"
    assert found[0]["microseconds"] is None and found[1]["microseconds"] >= 0
    lines = command("replay", run_id, "--frames").out.splitlines()
    assert len(lines) == 6 and lines[3].split()[:4] == ["3", "request", "two", "2:19"]
    both = command("replay", run_id, "--frames", "--history", "one")
    assert both.status == 2 and "exclude each other" in both.err


def test_what_cannot_be_looked_at(command: Command, folder: Path, run_id: str) -> None:
    assert command("replay", run_id, "--at", "6").status == 2
    assert command("replay", run_id, "--at", "-1").status == 2
    command("export", run_id, "-o", "r.wfrun", "--redact")
    assert command("replay", "r.wfrun", "--at", "1").status == 2
    assert command("replay", "r.wfrun", "--history", "one").status == 2
    assert command("replay", "r.wfrun", "--frames").status == 0
    with sqlite3.connect(store(folder)) as connection:
        connection.execute("UPDATE frames SET hash = zeroblob(32) WHERE number = 2")
    connection.close()
    assert command("replay", run_id, "--at", "1").status == 1


def test_a_fork_uses_all_recorded_answers_or_only_those_before_its_first_difference(
    command: Command, folder: Path
) -> None:
    script = folder / "three.workflow.js"
    script.write_text(
        "for (const id of ['a', 'b', 'c']) await agent({stepId: id, agentRef: 'lead_agent', task: {id}});\n"
    )
    run = command("run", script, "--json").document["run_id"]
    edited = folder / "edited.js"
    edited.write_text(script.read_text().replace("task: {id}", "task: id === 'b' ? 'else' : {id}"))
    badges = {}
    for which in ("all", "agreed"):
        forked = command("fork", run, "--script", edited, "--recorded", which, "--json")
        assert forked.document["parent_run_id"] == run and forked.document["state"] == "completed"
        badges[which] = [step["badge"] for step in forked.document["steps"]]
    assert badges == {"all": ["recorded", "stub", "recorded"], "agreed": ["recorded", "stub", "stub"]}
