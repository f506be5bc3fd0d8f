"""200 planted secrets, in an Agent's settings, in the environment and in the workspace's own: none of them reaches a
bundle, a log, a journal, an error text or anything that a command prints, whatever the Agent does with those it has."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.crash import kit
from tests.workflows_core.journal.runs import members

SECRETS = {
    f"KEY_{number:03}": f"sk_{hashlib.sha256(str(number).encode()).hexdigest()[:24]}" for number in range(200)
}
#: Those that the Agent is given; it does what it should not with each of them.
GIVEN = list(SECRETS)[:40]
SCRIPT = """\
const said = [];
for (const how of args.hows) {
  try {
    const step = await agent({stepId: how, agentRef: 'helper', task: {how}});
    said.push(step.output);
  } catch (error) {
    said.push(error.code + ': ' + error.message);
    log(error.message);
  }
}
return said;
"""
#: What the program does with its secrets: keeps them, answers with them, says them and fails, dies of them.
PROGRAM = """
task=$(cat)
case "$task" in
  *keeps*) echo done ;;
  *answers*) env | grep KEY_ ;;
  *says*) env | grep KEY_ >&2; exit 3 ;;
  *dies*) env >&2; kill -9 $$ ;;
  *writes*) env > found.txt; echo written ;;
esac
"""
HOWS = ("keeps", "answers", "says", "dies", "writes")
CAPTURE = "return await captureArtifact({stepId: 'file', sourceStepId: 'writes', path: 'found.txt'});\n"


@pytest.fixture
def workspace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    agent = {
        "backend": "command",
        "argv": ["sh", "-c", PROGRAM],
        "secrets": {name: {"env": name} for name in GIVEN},
    }
    plugin = {
        "name": "workflows",
        "use": "workflows_core.extension:install",
        "config": {"enabled": True, "agents": ["helper"]},
    }
    (folder / "workbench.yaml").write_text(
        json.dumps({"plugins": [plugin], "agents": {"helper": agent}}), "utf-8"
    )
    return folder


def leaks(*texts: bytes) -> set[str]:
    """The names of the secrets that stand in ``texts``, as they are or as base64 or hexadecimal digits would show."""
    whole = b"\n".join(texts)
    return {
        name
        for name, value in SECRETS.items()
        if value.encode() in whole or value.encode().hex().encode() in whole
    }


def stored(folder: Path) -> list[bytes]:
    """Every file that the workspace keeps of its runs: stores with their logs, the log, folders of child runs apart."""
    state = folder / ".workbench"
    files = [file for file in state.rglob("*") if file.is_file() and "children" not in file.parts]
    assert {"workflows.sqlite", "host.sqlite"} <= {file.name for file in files}
    return [file.read_bytes() for file in files if file.name != "secret"]


def test_no_planted_secret_is_in_a_bundle_a_log_a_journal_or_an_error_text(
    command: Command, workspace: Path
) -> None:
    script = kit.write_script(workspace, "leaky", SCRIPT + CAPTURE.replace("return await", "await"))
    printed: list[bytes] = []

    def run(*arguments: str | Path) -> Any:
        result = command(*arguments)
        printed.extend((result.out.encode(), result.err.encode()))
        return result

    done = run("run", script, "--agents", "real", "--args", json.dumps({"hows": HOWS}), "--json")
    run_id = done.document["run_id"]
    statuses = {step["step_id"]: step["status"] for step in done.document["steps"]}
    assert (
        statuses["keeps"] == "completed" and statuses["says"] == "failed" and statuses["answers"] == "failed"
    )
    for step in statuses:
        run("step", run_id, step)
        run("step", run_id, step, "--json")
    run("show", run_id)
    run("log", run_id)
    run("export", run_id, "-o", "whole.wfrun")
    run("export", run_id, "-o", "redacted.wfrun", "--redact")
    run("replay", "whole.wfrun", "--at", "2")
    run("replay", "whole.wfrun", "--frames", "--json")
    for name in ("whole.wfrun", "redacted.wfrun"):
        data = (workspace / name).read_bytes()
        assert leaks(data, *members(data).values()) == set(), name
    assert run("replay", "redacted.wfrun").status == 0
    assert leaks(*stored(workspace)) == set()
    assert leaks(*printed) == set()
    key = (workspace / ".workbench" / "secret").read_bytes()
    assert key not in b"".join([*printed, *stored(workspace), (workspace / "whole.wfrun").read_bytes()])
