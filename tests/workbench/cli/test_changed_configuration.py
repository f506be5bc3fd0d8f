"""A configuration that changes under a live run: what is said, what is kept, and that the offered fork works."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.workbench.cli.conftest import Command
from tests.workbench.cli.seat import seat
from tests.workbench.crash import kit

SCRIPT = """\
const one = await agent({stepId: 'one', agentRef: 'helper', task: 1});
const two = await agent({stepId: 'two', agentRef: 'helper', task: [one.output]});
return [one.output, two.output];
"""
APPROVED = """\
const one = await agent({stepId: 'one', agentRef: 'helper', task: 'write'});
await humanCheckpoint({stepId: 'good', sourceStepId: 'one', artifactVersion: one.artifactVersion});
const two = await agent({stepId: 'two', agentRef: 'helper', task: 2});
const three = await agent({stepId: 'three', agentRef: 'helper', task: 3});
return [one.output, two.output, three.output];
"""
#: Answers once the test lets it.
HELD = """\
echo asked >> "$1/asked"
until [ -e "$1/go" ]; do sleep 0.01; done
cat
"""


def config(folder: Path, **settings: Any) -> None:
    agents = {
        "lead_agent": {"backend": "stub"},
        "helper": {
            "backend": "command",
            "argv": ["sh", "-c", HELD, "held", "{workspace}"],
            "stop_seconds": 0,
            **settings,
        },
    }
    plugin = {"enabled": True, "agents": sorted(agents)}
    record = {"name": "workflows", "use": "workflows_core.extension:install", "config": plugin}
    spare = folder / "spare.yaml"
    spare.write_text(json.dumps({"plugins": [record], "agents": agents}), "utf-8")
    spare.replace(folder / "workbench.yaml")


@contextmanager
def held(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A live run on real Agents whose first Agent has been asked and answers when ``go`` exists."""
    config(folder)
    script = kit.write_script(folder, "held", SCRIPT)
    with kit.process("run", script, "--agents", "real", folder=folder) as running:
        said = kit.wait_for_line(running, "● running      one")
        kit.wait_until((folder / "asked").exists, "the first Agent is asked")
        yield running, "wr_" + said.partition(" as wr_")[2][:16]


def test_a_live_run_fails_with_the_changed_keys_and_the_offered_fork_goes_on(
    command: Command, folder: Path
) -> None:
    with held(folder) as (running, run_id):
        config(folder, timeout_seconds=77)
        (folder / "go").touch()
        out, err = running.communicate(timeout=kit.PATIENCE_SECONDS)
        assert running.returncode == 1
    offered = f"workbench fork {run_id} --agents real"
    assert "the configuration changed since the launch (agents.helper." in out
    assert "agents.helper.settings.timeout_seconds" in out
    assert "two was not started" in out
    assert f"workbench fork {run_id}" in out
    assert f"Next: {offered}\n" in err
    assert (folder / "asked").read_text("utf-8").split() == ["asked"]
    failed = command("show", run_id, "--json").document
    assert (failed["state"], failed["cause"]["code"]) == ("failed", "configuration_changed")
    assert f"Next: {offered}\n" in command("show", run_id).err
    assert failed["steps"][0]["status"] == "completed"

    made = command(*offered.split()[1:], "--json")
    assert made.status == 0, made.err
    assert made.document["parent_run_id"] == run_id
    one, two = made.document["result"]
    assert one["step_id"] == "one" and two["task"] == [one]
    assert [step["badge"] for step in made.document["steps"]] == ["recorded", "live"]
    assert (folder / "asked").read_text("utf-8").split() == ["asked", "asked"], "only two was asked anew"


def test_a_receipt_is_kept_and_a_fork_inherits_no_approval(command: Command, folder: Path) -> None:
    config(folder)
    (folder / "go").touch()
    script = kit.write_script(folder, "approved", APPROVED)
    first = command("run", script, "--agents", "real", "--json").document
    assert first["state"] == "waiting_approval"
    version = next(step for step in first["steps"] if step["step_id"] == "good")["artifact_version"]
    run_id = first["run_id"]
    (folder / "go").unlink()
    with seat("decide", run_id, "good", "approve", folder=folder) as sitting:
        sitting.until("characters of its hash: ")
        sitting.type(version[:7])
        sitting.until("● running      two")
        config(folder, timeout_seconds=77)
        (folder / "go").touch()
        assert sitting.finish() == 1
        assert "three was not started" in sitting.shown
        assert f"Next: workbench fork {run_id} --agents real\n" in sitting.shown
    receipt = command("step", run_id, "good", "--json").document["receipt"]
    assert (receipt["decision"], receipt["sha256"]) == ("approve", version)
    forked = command("fork", run_id, "--agents", "real", "--json")
    assert (forked.status, forked.document["state"]) == (3, "waiting_approval"), forked.err
    assert command("step", forked.document["run_id"], "good", "--json").document["receipt"] is None


def test_a_decision_under_a_changed_configuration_is_refused_and_names_the_fork(
    command: Command, folder: Path
) -> None:
    config(folder)
    script = kit.write_script(folder, "approved", APPROVED)
    run = command("run", script, "--json").document
    config(folder, timeout_seconds=77)
    version = next(step for step in run["steps"] if step["step_id"] == "good")["artifact_version"]
    with seat("decide", run["run_id"], "good", "approve", folder=folder) as sitting:
        sitting.until("characters of its hash: ")
        sitting.type(version[:7])
        assert sitting.finish() == 7
        assert f"or go on in a new run: workbench fork {run['run_id']}" in sitting.shown
    forked = command("fork", run["run_id"], "--json")
    assert (forked.status, forked.document["state"]) == (3, "waiting_approval")
