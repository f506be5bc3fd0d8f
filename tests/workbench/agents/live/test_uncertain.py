"""Real Agents whose outcome is not known: lost requests, killed processes, people in the thread, and who settles it."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.agents.servers import CompletionServer, GatewayServer, Request, human, message
from tests.workbench.cli.conftest import Command
from tests.workbench.cli.seat import seat
from tests.workbench.crash.kit import process, wait_until

from .kit import one_step, steps, write


def interrupted_by_a_person(task: str) -> tuple[str, list[dict[str, Any]]]:
    return "success", [message("ai", "yes"), human("and now?", "m2"), message("ai", "no")]


def test_a_person_in_the_thread_fails_the_run(command: Command, real: Path, gateway: GatewayServer) -> None:
    gateway.outcome = interrupted_by_a_person
    script = write(
        real,
        "try { await agent({stepId: 'only', agentRef: 'remote', task: 1}); }\n"
        "catch (error) { return error.code; }\n",
    )
    caught = command("run", script, "--agents", "real", "--json").document
    assert (caught["state"], caught["result"]) == ("completed", "attribution_conflict")
    assert [step["status"] for step in caught["steps"]] == ["failed"]
    failed = command("run", one_step(real, "remote"), "--agents", "real", "--json")
    assert (failed.status, failed.document["state"]) == (1, "failed")
    assert "a person wrote into the thread" in failed.document["cause"]["message"]


def test_a_person_in_the_thread_is_uncertain_in_a_recovery(
    command: Command, real: Path, gateway: GatewayServer
) -> None:
    gateway.held = True
    with process("run", one_step(real, "remote"), "--agents", "real", folder=real) as running:
        wait_until(lambda: len(gateway.runs) == 1, "the Gateway has the run")
        running.kill()
        running.communicate(timeout=90)
    gateway.outcome = interrupted_by_a_person
    gateway.release()
    (listed,) = command("runs", "--json").document["runs"]
    recovered = command("recover", listed["run_id"], "--json")
    assert (recovered.status, recovered.document["state"]) == (4, "needs_reconciliation")
    assert "a person wrote into the thread" in recovered.document["cause"]["message"]


def test_a_request_without_an_answer_needs_reconciliation(
    command: Command, real: Path, gateway: GatewayServer
) -> None:
    """Invariant 4, from the command line to the server's own count."""
    gateway.fault("post", "drop")
    result = command("run", one_step(real, "remote"), "--agents", "real", "--json")
    assert (result.status, result.document["state"]) == (4, "needs_reconciliation")
    assert "Its thread shows none, which proves nothing" in result.document["cause"]["message"]
    assert len(gateway.posts) == 1
    run_id = result.document["run_id"]
    assert command("recover", run_id).status == 7
    options = ("--outcome", "did_not_run", "--reason", "the server has no run")
    with seat("reconcile", run_id, "only", *options, folder=real) as sitting:
        sitting.until("Attest this?")
        sitting.type("y")
        assert sitting.finish() == 0, sitting.shown
    recovered = command("recover", run_id, "--json")
    assert (recovered.status, recovered.document["result"]["output"]) == (0, "go")
    assert len(gateway.posts) == 2


def test_a_killed_run_observes_its_remote_child(command: Command, real: Path, gateway: GatewayServer) -> None:
    gateway.held = True
    with process("run", one_step(real, "remote"), "--agents", "real", folder=real) as running:
        wait_until(lambda: len(gateway.runs) == 1, "the Gateway has the run")
        wait_until(lambda: any(r.path.endswith("/run-1") for r in gateway.seen), "the run is looked at")
        running.kill()
        running.communicate(timeout=90)
    (listed,) = command("runs", "--json").document["runs"]
    assert listed["state"] == "recoverable"
    preview = command("recover", listed["run_id"], "--preview", "--json").document
    assert [entry["step_id"] for entry in preview["observed"]] == ["only"]
    gateway.release()
    recovered = command("recover", listed["run_id"], "--json")
    assert recovered.status == 0, recovered.err
    assert recovered.document["result"]["output"] == "go"
    assert steps(recovered.document)["only"]["badge"] == "live"
    assert len(gateway.posts) == 1, "one request for a run, counted at the server"


def test_a_request_under_way_when_the_process_is_killed(
    command: Command, real: Path, gateway: GatewayServer
) -> None:
    """The run does not exist yet when recovery looks, and exists later: a person decides, nothing is asked twice."""
    gateway.held = True
    gateway.fault("post", "slow")
    with process("run", one_step(real, "remote"), "--agents", "real", folder=real) as running:
        wait_until(lambda: any(_asks_for_a_run(r) for r in gateway.seen), "a run is asked for")
        running.kill()
        running.communicate(timeout=90)
    (listed,) = command("runs", "--json").document["runs"]
    recovered = command("recover", listed["run_id"], "--json")
    assert (recovered.status, recovered.document["state"]) == (4, "needs_reconciliation")
    assert "which proves nothing" in recovered.document["cause"]["message"]
    options = ("--outcome", "did_not_run", "--reason", "I see nothing there")
    with seat("reconcile", listed["run_id"], "only", *options, folder=real) as sitting:
        sitting.until("Attest this?")
        sitting.type("y")
        assert sitting.finish() == 0, sitting.shown
    gateway.release()
    wait_until(lambda: len(gateway.runs) == 1, "the run that was asked for begins")
    final = command("recover", listed["run_id"], "--json")
    assert (final.status, final.document["result"]["output"]) == (0, "go")
    assert sum(_asks_for_a_run(request) for request in gateway.seen) == 1


def _asks_for_a_run(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/runs")


def test_a_result_that_the_gateway_shows_is_fetched(
    command: Command, real: Path, gateway: GatewayServer
) -> None:
    gateway.fault("post", "after_drop")
    gateway.fault("list", "pass", 503, 503, 503)
    run = command("run", one_step(real, "remote"), "--agents", "real", "--json").document
    assert run["state"] == "needs_reconciliation"
    options = ("--outcome", "succeeded", "--fetch", "--reason", "the Gateway shows it")
    with seat("reconcile", run["run_id"], "only", *options, folder=real) as sitting:
        sitting.until("Attest this?")
        sitting.type("y")
        assert sitting.finish() == 0, sitting.shown
    final = command("recover", run["run_id"], "--json")
    assert (final.status, final.document["result"]["output"]) == (0, "go")
    assert steps(final.document)["only"]["badge"] == "attested"
    assert len(gateway.posts) == 1


COUNTED = """\
let last = 0;
for (const n of [1, 2, 3]) {
  const step = await agent({stepId: `count-${n}`, agentRef: 'remote', task: {n}});
  last = step.output.n;
}
return last;
"""


def killed_and_recovered(command: Command, real: Path, gateway: GatewayServer, seed: int) -> None:
    """Kill a run at a moment of the seed, take it up as a person would, and count at the server."""
    print(f"seed {seed}")
    gateway.looks = 2
    with process("run", write(real, COUNTED), "--agents", "real", folder=real) as running:
        wait_until(lambda: gateway.seen or running.poll() is not None, "the Gateway is asked")
        time.sleep(random.Random(seed).uniform(0, 1.2))
        running.kill()
        running.communicate(timeout=90)
    run = command("runs", "--json").document["runs"][0]
    for _ in range(4):
        if run["state"] == "completed":
            break
        if run["state"] == "recoverable":
            run = command("recover", run["run_id"], "--json").document
            continue
        assert run["state"] == "needs_reconciliation"
        (step,) = [
            name for name, each in steps(run).items() if each["status"] in ("uncertain", "interrupted")
        ]
        options = ("--outcome", "did_not_run", "--reason", "nothing to be seen")
        with seat("reconcile", run["run_id"], step, *options, folder=real) as sitting:
            sitting.until("Attest this?")
            sitting.type("y")
            assert sitting.finish() == 0, sitting.shown
        run = command("show", run["run_id"], "--json").document
    assert (run["state"], run["result"]) == ("completed", 3)
    assert [len(gateway.of_step(f"count-{n}")) for n in (1, 2, 3)] == [1, 1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_each_step_is_asked_once(
    command: Command, real: Path, gateway: GatewayServer, seed: int
) -> None:
    killed_and_recovered(command, real, gateway, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_killed_at_many_moments_each_step_is_asked_once(
    command: Command, real: Path, gateway: GatewayServer, seed: int
) -> None:
    killed_and_recovered(command, real, gateway, seed)


def test_a_cancel_stops_the_remote_run(command: Command, real: Path, gateway: GatewayServer) -> None:
    gateway.held = True
    with process("run", one_step(real, "remote"), "--agents", "real", folder=real) as running:
        wait_until(lambda: len(gateway.runs) == 1, "the Gateway has the run")
        running.kill()
        running.communicate(timeout=90)
    (listed,) = command("runs", "--json").document["runs"]
    cancelled = command("cancel", listed["run_id"], "--json")
    assert cancelled.document["state"] == "cancelled", cancelled.err
    assert [run["status"] for run in gateway.runs.values()] == ["interrupted"]


def test_a_completion_that_died_with_its_process_is_settled_by_a_person(
    command: Command, real: Path, completions: CompletionServer
) -> None:
    completions.replies.append(completions.hang)
    with process("run", one_step(real, "writer"), "--agents", "real", folder=real) as running:
        wait_until(lambda: len(completions.calls) == 1, "the server is asked")
        running.kill()
        running.communicate(timeout=90)
    (listed,) = command("runs", "--json").document["runs"]
    recovered = command("recover", listed["run_id"], "--json")
    assert (recovered.status, recovered.document["state"]) == (4, "needs_reconciliation")
    assert len(completions.calls) == 1, "it is not asked again by the program"
    answer = real / "answer.json"
    answer.write_text('"settled"')
    options = ("--outcome", "succeeded", "--output", f"@{answer}", "--reason", "it is in the server's log")
    with seat("reconcile", listed["run_id"], "only", *options, folder=real) as sitting:
        sitting.until("Attest this?")
        sitting.type("y")
        assert sitting.finish() == 0, sitting.shown
    final = command("recover", listed["run_id"], "--json")
    assert (final.status, final.document["result"]["output"]) == (0, "settled")
    assert steps(final.document)["only"]["badge"] == "attested"
    assert len(completions.calls) == 1
