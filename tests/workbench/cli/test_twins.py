"""Commands that do what the Author and Host screens do: fix, show and compare versions, host, notices."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.tui.host_support import evidence
from workbench.client import Client
from workbench.noticebook import Notice, NoticeBook
from workbench.review import Approved
from workbench.settings import notices_path
from workflows_core.model import Decision

BROKEN = (
    "const a = await agent({stepId: 's', agentRef: 'lead_agent', task: 1});\nconsole.log(a);\nreturn a;\n"
)


def test_check_applies_the_fixes_and_writes_the_script(command: Command, folder: Path) -> None:
    script = folder / "a.workflow.js"
    script.write_text(BROKEN)
    before = command("check", script, "--json").document["problems"]
    fixable = [problem for problem in before if problem["fix"]]
    assert fixable
    assert script.read_text() == BROKEN
    result = command("check", script, "--fix", "--json")
    assert len(result.document["problems"]) < len(before)
    assert all(problem["fix"] is None for problem in result.document["problems"])
    assert script.read_text() != BROKEN
    assert result.err.startswith("fixed ")
    written = script.stat().st_mtime_ns
    command("check", script, "--fix")
    assert script.stat().st_mtime_ns == written


def test_check_foretells_a_launch(command: Command, folder: Path) -> None:
    script = folder / "a.workflow.js"
    script.write_text(
        "const a = await agent({stepId: 's', agentRef: 'lead_agent', task: 1});\nreturn a.output;\n"
    )
    found = command("check", script, "--forecast", "stub", "--json").document
    known: dict[str, Any] = {
        "agents": "stub",
        "calls": 1,
        "limit": False,
        "seconds": None,
        "active": 0,
        "most": 2,
    }
    known["real"] = None
    assert found == {"problems": [], "forecast": known}
    assert command("run", script).status == 0
    later = command("check", script, "--forecast", "stub", "--json").document["forecast"]
    assert later.pop("seconds") >= 0 and later == {key: known[key] for key in known if key != "seconds"}
    shown = command("check", script, "--forecast", "stub").out
    assert "up to 1 call · ~" in shown and "0 of 2 runs of yours active" in shown
    refused = command("check", script, "--forecast", "real")
    assert refused.status == 2 and "no agent can be called for real" in refused.err
    (folder / "workbench.yaml").write_text("agents:\n  lead_agent: {backend: manual}\n")
    real = command("check", script, "--forecast", "real").out
    assert (
        "Up to 1 call to real Agents" in real
        and "a person, who is asked each time" in real
        and "~" not in real
    )
    bound = command("check", script, "--forecast", "real", "--json").document["forecast"]["real"]
    assert bound == {"called": [{"agent": "lead_agent", "backend": "manual"}], "tokens": 0, "costs": {}}
    script.write_text("return (;")
    broken = command("check", script, "--forecast", "stub", "--json")
    assert broken.status == 1 and broken.document["forecast"] is None


def test_a_version_is_shown_written_and_compared(command: Command, folder: Path) -> None:
    first, second = folder / "a.workflow.js", folder / "b.workflow.js"
    first.write_text("return 1;\n// \x1b[2J\n")
    second.write_text("return 2;\n// \x1b[2J\n")
    version = command("save", first, "--name", "a", "--json").document["version"]
    other = command("save", second, "--name", "b", "--json").document["version"]
    name = f"a@{version[:9]}"
    shown = command("library", name)
    assert shown.out == "return 1;\n// ␛[2J\n"
    document = command("library", name, "--json").document
    assert (document["version"], document["script"]) == (version, first.read_text())
    written = command("library", name, "-o", "out.js")
    assert written.status == 0 and (folder / "out.js").read_text() == first.read_text()
    assert command("library", name, "-o", "out.js").status == 2
    for with_ in (second, f"b@{other}"):
        compared = command("library", name, "--compare-with", with_, "--json").document
        assert not compared["same"]
        assert {"-return 1;", "+return 2;"} <= set(compared["diff"])
    same = command("library", name, "--compare-with", first)
    assert same.status == 0 and same.out == "" and "are the same" in same.err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("library", "a"), 2, "no version"),
        (("library", "a@0000000"), 2, ""),
        (("library", "-o", "x"), 2, "name the version"),
        (("library", "a@1234567", "-o", "x", "--compare-with", "y"), 2, "do not go together"),
        (("host", "moods"), 2, "moods"),
    ],
)
def test_what_cannot_be_used_is_refused(
    command: Command, arguments: tuple[str, ...], status: int, words: str
) -> None:
    result = command(*arguments)
    assert result.status == status and words in result.err


def test_host_shows_every_section_or_one(command: Command, folder: Path) -> None:
    document = command("host", "--json").document
    assert set(document) == {"owner_pid", "mode", "agents", "limits", "stores", "events", "problems"}
    assert document["owner_pid"] is None and document["problems"] == {}
    assert [agent["name"] for agent in document["agents"]] == ["lead_agent"]
    assert document["agents"][0]["comparison"] == "none"
    assert {"max_calls", "retained_runs"} <= {limit["key"] for limit in document["limits"]}
    text = command("host").out
    assert all(part in text for part in ("Agents", "Limits", "Stores", "Events", "max_calls"))
    only = command("host", "limits")
    assert only.status == 0 and "max_calls" in only.out and "lead_agent" not in only.out
    assert set(command("host", "stores", "--json").document) == {"owner_pid", "mode", "stores", "problems"}


def test_host_says_what_a_run_left_behind(command: Command, folder: Path) -> None:
    assert command("new", "a").status == 0
    assert command("run", "a.workflow.js").status == 0
    document = command("host", "--json").document
    assert document["events"] and document["agents"][0]["fingerprint"]
    assert "lead_agent" in command("host", "events").out


def test_a_step_tells_its_child_run_with_the_events_and_what_its_agent_was_assembled_from(
    command: Command, folder: Path
) -> None:
    (folder / "two.workflow.js").write_text(
        "const a = await agent({stepId: 'a', agentRef: 'lead_agent', task: {n: 1}});\n"
        "const b = await agent({stepId: 'b', agentRef: 'lead_agent', task: 'x'.repeat(900) + '\\x1b[2J'});\n"
        "return await pause({stepId: 'p'});\n"
    )
    run = command("run", "two.workflow.js", "--json").document["run_id"]
    plain = command("step", run, "b", "--json").document
    assert not {"child_run", "assembly"} & set(plain)
    found = command("step", run, "b", "--events", "--evidence", "--json").document
    assert {key: found[key] for key in plain} == plain
    child, assembly = found["child_run"], found["assembly"]
    assert (child["child_run_id"], child["run_id"], child["step_id"]) == (plain["child_run_id"], run, "b")
    kinds = ["run_start", "human_message", "ai_message", "run_end"]
    assert [event["event_type"] for event in child["events"]] == kinds and child["more"] is False
    assert child["events"][2]["content"] == plain["output"] == "x" * 900 + "\x1b[2J"
    assert (assembly["comparison"], assembly["changes"]) == ("same", [])
    assert (assembly["before"]["run_id"], assembly["before"]["step_id"]) == (run, "a")
    assert assembly["evidence"]["fingerprint"]
    text = command("step", run, "b", "--events", "--evidence").out
    assert "4 events" in text and " this host: it " in text
    assert f"{'x' * 900}␛[2J" in text.split("4 events")[1] and "\x1b" not in text
    assert "the same  as for a of this run" in text
    first = command("step", run, "a", "--evidence").out
    assert "The first assembly of lead_agent that this host knows." in first
    none = command("step", run, "p", "--events", "--evidence", "--json").document
    assert none["child_run"] is None
    assert none["assembly"] == {"evidence": None, "comparison": None, "before": None, "changes": []}
    assert "It has no child run." in command("step", run, "p", "--events").out
    assert "The host gave no evidence" in command("step", run, "p", "--evidence").out
    (folder / ".workbench" / "host.sqlite").unlink()
    gone = command("step", run, "a", "--events", "--evidence")
    assert "holds no child run" in gone.out and "nothing to compare with" in gone.out


def test_a_changed_assembly_is_told_by_its_components(command: Command, folder: Path) -> None:
    (folder / "two.workflow.js").write_text(
        "await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});\n"
        "return (await agent({stepId: 'b', agentRef: 'lead_agent', task: 2})).output;\n"
    )
    run = command("run", "two.workflow.js", "--json").document["run_id"]
    ids = [command("step", run, name, "--json").document["child_run_id"] for name in ("a", "b")]
    with closing(sqlite3.connect(folder / ".workbench" / "host.sqlite")) as store, store:
        for child, made in zip(ids, (evidence("m1", t=0.2), evidence("m2", t=0.7)), strict=True):
            store.execute("UPDATE child_runs SET evidence = ? WHERE run_id = ?", (json.dumps(made), child))
    assembly = command("step", run, "b", "--evidence", "--json").document["assembly"]
    assert assembly["comparison"] == "changed"
    assert {"component": "parameter:t", "what": "changed", "numbers": "0.2 → 0.7"} in assembly["changes"]
    assert "~ parameter:t  changed  0.2 → 0.7" in command("step", run, "b", "--evidence").out


def test_notices_are_read_again_newest_first_and_inert(command: Command, folder: Path) -> None:
    assert command("notices").err == "Nothing was reported yet.\n"
    assert command("notices", "--json").document == {"notices": []}
    book = NoticeBook(notices_path(folder))
    book.add(Notice(1_000_000, "First", "one\ntwo", "information"))
    book.add(Notice(2_000_000, "", "three\x1b[2J", "error"))
    book.write()
    found = command("notices", "--json").document["notices"]
    assert [each["message"] for each in found] == ["three␛[2J", "one\ntwo"]
    assert found[1] == {
        "at": "1970-01-01T00:00:01.000000Z",
        "title": "First",
        "message": "one\ntwo",
        "severity": "information",
    }
    text = command("notices").out
    assert text.index("three") < text.index("First") and "\x1b" not in text


def test_an_output_is_compared_with_what_was_approved_last(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.workflow.js").write_text(
        "const a = await agent({stepId: 's', agentRef: 'lead_agent', task: {n: args.n}});\nreturn a.output;\n"
    )
    old, new = (
        command("run", "a.workflow.js", "--args", f'{{"n": {n}}}', "--json").document["run_id"]
        for n in (1, 2)
    )
    nothing = command("artifact", new, "s", "--compare")
    assert nothing.status == 0 and nothing.err == "Nothing was approved at s in an earlier run.\n"
    assert command("artifact", new, "s", "--compare", "-o", "x").status == 2

    async def approved(client: Client, runs: object, run_id: str, step_id: str) -> Approved:
        artifact = await client.artifact(old, step_id)
        receipt = Decision(
            run_id=old,
            step_id=step_id,
            attempt=1,
            decision="approve",
            sha256=artifact.version,
            reason=None,
            actor={},
            review={},
            decided_at=1,
        )
        return Approved("a", receipt, artifact)

    monkeypatch.setattr("workbench.review.last_approved", approved)
    document = command("artifact", new, "s", "--compare", "--json").document
    assert document["approved"]["run_id"] == old and not document["same"]
    assert any(line.startswith("-") and "1" in line for line in document["diff"])
    assert any(line.startswith("+") and "2" in line for line in document["diff"])
    assert "The same bytes were approved" in command("artifact", old, "s", "--compare").err
