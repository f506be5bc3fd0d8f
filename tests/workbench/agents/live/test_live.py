"""Real Agents through the command line: whole runs, what they keep, a recording, and a fork that goes on live."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from tests.workbench.agents.contract import PLANTED
from tests.workbench.agents.servers import CompletionServer, GatewayServer, Response, message
from tests.workbench.cli.conftest import Command
from tests.workbench.crash.kit import process

from .kit import ARGS, SCRIPT, one_step, steps, stored, write


def test_a_run_on_real_agents(
    command: Command, real: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    result = command("run", write(real), *ARGS, "--agents", "real", "--json")
    assert result.status == 0, result.err
    run = result.document
    assert run["result"] == {"facts": {"product": "soap"}, "text": {"facts": {"product": "soap"}}}
    assert {step["badge"] for step in run["steps"]} == {"live"}
    assert steps(run)["facts"]["thread_id"] in gateway.threads
    assert (len(gateway.posts), len(completions.calls)) == (1, 1)
    assert "live" in command("step", run["run_id"], "facts").out


def test_i14_no_secret_reaches_a_record_a_bundle_a_log_or_an_error(
    command: Command, real: Path, gateway: GatewayServer, completions: CompletionServer, monkeypatch: Any
) -> None:
    """Runs that succeed, servers that repeat the secret in their errors, and connections that break."""
    gateway.fault("look", "drop", 503)
    said = ""
    scripts = [write(real, SCRIPT), one_step(real, "writer", "w"), one_step(real, "remote", "r")]
    for script in scripts:
        if script is scripts[1]:
            completions.replies += [Response(401, {"error": {"message": f"bad key {PLANTED}"}})]
        if script is scripts[2]:
            gateway.sessions.clear()
            monkeypatch.setenv("GATEWAY_PASSWORD", f"wrong-{PLANTED}")
        with process("run", script, *ARGS, "--agents", "real", folder=real) as running:
            said += "".join(running.communicate(timeout=60))
    runs = command("runs", "--json").document["runs"]
    assert [run["state"] for run in reversed(runs)] == ["completed", "failed", "failed"]
    assert "bad key [secret]" in said and "wrong password [secret]" in said
    log = real / ".workbench" / "workbench.log"
    assert "looking at child run" in log.read_text()
    everything = said + stored(real)
    for run in runs:
        bundle = real / f"{run['run_id']}.wfrun"
        everything += command("export", run["run_id"], "-o", bundle).err
        with zipfile.ZipFile(bundle) as members:
            everything += "".join(members.read(name).decode("latin-1") for name in members.namelist())
    tokens = ("session-token-1", "csrf-token-1")
    assert set(tokens) <= {request.cookie("access_token") for request in gateway.seen} | {
        request.headers.get("x-csrf-token") for request in gateway.seen
    }
    for secret in (PLANTED, *tokens):
        assert secret not in everything


def test_what_fails_says_why_and_no_secret(
    command: Command, real: Path, completions: CompletionServer
) -> None:
    completions.replies.append(Response(401, {"error": {"message": f"bad key {PLANTED}\x1b[31m"}}))
    result = command("run", one_step(real, "writer"), "--agents", "real")
    assert result.status == 1
    assert "the server asks for a valid log-in (HTTP 401): bad key [secret]␛[31m" in result.out
    assert PLANTED not in result.out + result.err + stored(real)


def test_a_missing_secret_fails_the_step_in_words(
    command: Command, real: Path, completions: CompletionServer, monkeypatch: Any
) -> None:
    monkeypatch.delenv("WRITER_KEY")
    result = command("run", one_step(real, "writer"), "--agents", "real")
    assert result.status == 1
    assert "the environment variable WRITER_KEY is not set" in result.out
    assert completions.seen == []


def test_an_agent_that_asks_a_person_stops_the_run(
    command: Command, real: Path, gateway: GatewayServer
) -> None:
    asked = {"human_input": {"kind": "human_input_request", "question": "Which soap?"}}
    gateway.outcome = lambda task: ("success", [message("tool", "Which soap?", artifact=asked)])
    result = command("run", one_step(real, "remote"), "--agents", "real", "--json")
    assert (result.status, result.document["state"]) == (3, "waiting_input")
    assert "Which soap?" in result.document["cause"]["message"]


def test_a_recording_answers_the_same_requests_without_a_network(
    command: Command, real: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    script = write(real)
    run = command("run", script, *ARGS, "--agents", "real", "--json").document
    stubs = real / "recorded.yaml"
    assert command("stubs", run["run_id"], "-o", stubs).status == 0
    assert stubs.read_text().count("request: ") == 2
    asked = len(gateway.seen) + len(completions.seen)
    again = command("run", script, *ARGS, "--stubs", stubs, "--json")
    assert (again.status, again.document["result"]) == (0, run["result"])
    assert {step["badge"] for step in again.document["steps"]} == {"recorded"}
    other = command("run", script, "--args", '{"product": "oil"}', "--stubs", stubs, "--json").document
    assert {step["badge"] for step in other["steps"]} == {"stub"}, "another request is not what was recorded"
    assert len(gateway.seen) + len(completions.seen) == asked


def test_a_fork_goes_on_live_and_does_not_ask_again(
    command: Command, real: Path, gateway: GatewayServer, completions: CompletionServer
) -> None:
    run = command("run", write(real), *ARGS, "--agents", "real", "--json").document
    edited = write(
        real, SCRIPT.replace("task: {facts: facts.output}", "task: {facts: facts.output, tone: 'dry'}"), "dry"
    )
    result = command("fork", run["run_id"], "--script", edited, "--agents", "real", "--json")
    assert result.status == 0, result.err
    fork = result.document
    assert fork["parent_run_id"] == run["run_id"]
    assert {name: step["badge"] for name, step in steps(fork).items()} == {
        "facts": "recorded",
        "text": "live",
    }
    assert fork["result"]["text"] == {"facts": {"product": "soap"}, "tone": "dry"}
    assert len(gateway.posts) == 1, "what is pinned is not asked again"
    assert [json.loads(body["messages"][-1]["content"]) for body in completions.calls][1]["tone"] == "dry"
    assert "then real Agents" in result.err


def test_a_fork_on_real_agents_needs_one(command: Command, real: Path) -> None:
    run = command("run", write(real), *ARGS, "--agents", "real", "--json").document
    both = command("fork", run["run_id"], "--agents", "real", "--stubs", "x.yaml")
    assert (both.status, "exclude each other" in both.err) == (2, True)
    (real / "workbench.yaml").write_text("agents: {lead_agent: {backend: stub}}\n")
    none = command("fork", run["run_id"], "--agents", "real")
    assert none.status == 2
    assert "no agent can be called for real" in none.err


def test_a_captured_file_of_a_remote_child(command: Command, real: Path, gateway: GatewayServer) -> None:
    gateway.files["mnt/user-data/outputs/report.md"] = b"# Evidence\n"
    script = write(
        real,
        "await agent({stepId: 'made', agentRef: 'remote', task: 1});\n"
        "return await captureArtifact({stepId: 'kept', sourceStepId: 'made', path: 'outputs/report.md'});\n",
    )
    result = command("run", script, "--agents", "real", "--json")
    assert result.status == 0, result.err
    assert (result.document["result"]["size"], result.document["result"]["mediaType"]) == (
        11,
        "text/markdown",
    )


LOADED = """
import sys
from workbench.cli.main import invoke
status = invoke(sys.argv[1:])
print("loaded:", status, "httpx" in sys.modules)
"""


def test_a_run_on_stubs_loads_no_http_library(real: Path) -> None:
    """Also where the workspace has real Agents."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOADED, "run", str(one_step(real, "remote"))],
        cwd=real,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.rpartition("loaded: ")[2].split() == ["0", "False"], done.stderr
