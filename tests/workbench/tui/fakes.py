"""A client without an engine, runs and steps to order, and a clock that stands still.

The fake keeps whole ``RunView`` values and tells its subscribers when a test puts another one. It has the public
methods of ``workbench.client.Client``; a test may make any of them fail or take long.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
from textual.app import App
from textual.pilot import Pilot

from tests.workbench.tui.rest import at_rest
from workbench.child_runs import Assembled, ChildRun
from workbench.review_questions import Question
from workflows_core.engine.evidence import Evidence
from workflows_core.engine.reconciliation import ReconcileRequest
from workflows_core.engine.recovery import Preview
from workflows_core.engine.requests import LaunchOutcome, LaunchRequest, Outcome
from workflows_core.engine.waits import DecideRequest
from workflows_core.errors import NotFound
from workflows_core.jsontext import sha256
from workflows_core.limits import Limits
from workflows_core.model import (
    Artifact,
    Attestation,
    Cause,
    Decision,
    Definition,
    FrameView,
    LogLine,
    RunState,
    RunSummary,
    RunView,
    StepKind,
    StepStatus,
    StepView,
    Wait,
)

SECOND = 1_000_000
#: 2026-07-01 12:00:00 UTC.
NOW = 1_782_907_200 * SECOND

SCRIPT = """\
const evidence = await agent({stepId: 'evidence', agentRef: 'lead_agent', task: args});
const checks = await parallel([
  () => agent({stepId: 'claims', agentRef: 'lead_agent', task: evidence.output}),
  () => agent({stepId: 'formula', agentRef: 'lead_agent', task: evidence.output}),
]);
log(`checked ${checks.length}`);
return {passed: checks.filter(c => c.output.verdict === 'pass').length};
"""


class FrozenClock:
    """Gives the same time until a test moves it."""

    def __init__(self, at: int = NOW) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += round(seconds * SECOND)


def make_step(
    step_id: str = "evidence", status: StepStatus = StepStatus.COMPLETED, **changes: Any
) -> StepView:
    """A step of the sample script; times are seconds before NOW in ``requested``, ``started``, ``finished``."""
    times = {
        f"{name}_at": NOW - round(changes.pop(name) * SECOND)
        for name in ("requested", "started", "finished")
        if changes.get(name) is not None
    }
    fields: dict[str, Any] = {
        "step_id": step_id,
        "kind": StepKind.AGENT,
        "attempt": 1,
        "status": status,
        "agent_ref": "lead_agent",
        "badge": "stub",
        "thread_id": f"wf-{step_id}",
        "child_run_id": f"cr_{sha256(step_id.encode('utf-8', 'surrogatepass'))[:16]}",
        "line": 1,
        "column": 24,
        "requested_at": NOW - 10 * SECOND,
        "started_at": NOW - 10 * SECOND,
        "finished_at": None,
        "input": {"product": "Synthetic soap"},
    }
    if status is StepStatus.COMPLETED:
        fields |= {"finished_at": NOW - 8 * SECOND, "output": {"verdict": "pass"}, "has_output": True}
    if status is StepStatus.QUEUED:
        fields |= {"started_at": None, "child_run_id": None, "thread_id": None, "badge": None}
    return StepView(**(fields | times | changes))


def make_frames(count: int, text: str = "claims") -> tuple[FrameView, ...]:
    """A journal of ``count`` frames: start, then requests and responses in turn."""
    frames = []
    for number in range(count):
        kind = "start" if number == 0 else "request" if number % 2 else "response"
        body = json.dumps({"calls": [{"id": number, "op": "agent", "step_id": text, "task": {"n": number}}]})
        frames.append(
            FrameView(
                number=number,
                kind=kind,
                at=NOW - (count - number) * SECOND // 10,
                summary="start" if number == 0 else f"{text}-{number}",
                body=body,
                hash=sha256(body.encode()),
            )
        )
    return tuple(frames)


def make_run(run_id: str = "wr_00000000000000a1", **changes: Any) -> RunView:
    """A completed run of the sample script, made at NOW − 60 s."""
    script = changes.get("script", SCRIPT)
    fields: dict[str, Any] = {
        "run_id": run_id,
        "name": "checks",
        "owner": "os:1000",
        "state": RunState.COMPLETED,
        "cause": None,
        "waiting": None,
        "result": None,
        "has_result": False,
        "script_hash": sha256(script.encode("utf-8", "surrogatepass")),
        "args_hash": sha256(b"{}"),
        "request_id": f"request-{run_id}",
        "parent_run_id": None,
        "created_at": NOW - 60 * SECOND,
        "since": NOW - 50 * SECOND,
        "last_progress": NOW - 50 * SECOND,
        "cancel_requested": False,
        "revision": 5,
        "steps": (),
        "log": (),
        "frames": (),
        "script": script,
        "args": {"product": "Synthetic soap"},
        "agents": ("lead_agent",),
        "options": {"agents": "stub", "label": "checks.stubs.yaml"},
        "limits": Limits(),
    }
    return RunView(**(fields | changes))


def completed_run(run_id: str = "wr_00000000000000a1", **changes: Any) -> RunView:
    """The sample script's run from end to end: three steps, a log line, a result, eight frames."""
    fields: dict[str, Any] = {
        "created_at": NOW - 60 * SECOND,
        "since": NOW - 54 * SECOND,
        "steps": (
            make_step("evidence", requested=60, started=59.9, finished=58),
            make_step("claims", requested=58, started=57.9, finished=55.5, line=3, column=9, request_frame=3),
            make_step(
                "formula", requested=58, started=56.8, finished=54.2, line=4, column=9, request_frame=3
            ),
        ),
        "log": (LogLine(NOW - 54 * SECOND, "checked 2", 6, 1, 6),),
        "frames": make_frames(8),
        "result": {"passed": 2},
        "has_result": True,
    }
    return make_run(run_id, **(fields | changes))


def running_run(run_id: str = "wr_00000000000000b2", **changes: Any) -> RunView:
    """The sample script's run with one step finished, one running and one queued."""
    fields: dict[str, Any] = {
        "state": RunState.RUNNING,
        "created_at": NOW - 10 * SECOND,
        "since": NOW - 10 * SECOND,
        "last_progress": NOW - 3 * SECOND,
        "steps": (
            make_step("evidence", requested=10, started=9.9, finished=7),
            make_step(
                "claims", StepStatus.RUNNING, requested=7, started=6.5, line=3, column=9, request_frame=3
            ),
            make_step("formula", StepStatus.QUEUED, requested=7, line=4, column=9, request_frame=3),
        ),
        "frames": make_frames(4),
    }
    return make_run(run_id, **(fields | changes))


def failed_run(run_id: str = "wr_00000000000000c3", **changes: Any) -> RunView:
    """A run whose second step failed."""
    cause = Cause("agent_failed", "claims failed: the stub set has no reply left", 3, 9)
    fields: dict[str, Any] = {
        "state": RunState.FAILED,
        "cause": cause,
        "created_at": NOW - 3_600 * SECOND,
        "since": NOW - 3_590 * SECOND,
        "last_progress": NOW - 3_590 * SECOND,
        "steps": (
            make_step("evidence", requested=3_600, started=3_599.9, finished=3_597),
            make_step(
                "claims",
                StepStatus.FAILED,
                requested=3_597,
                started=3_596,
                finished=3_590,
                line=3,
                column=9,
                error=Cause("agent_failed", "the stub set has no reply left"),
            ),
        ),
        "frames": make_frames(5),
    }
    return make_run(run_id, **(fields | changes))


def waiting_run(run_id: str = "wr_00000000000000d4", **changes: Any) -> RunView:
    """A run at a checkpoint."""
    fields: dict[str, Any] = {
        "state": RunState.WAITING_APPROVAL,
        "waiting": Wait("checkpoint", "evidence-review", 1, NOW + 86_220 * SECOND),
        "created_at": NOW - 200 * SECOND,
        "since": NOW - 180 * SECOND,
        "last_progress": NOW - 180 * SECOND,
        "steps": (make_step("evidence", requested=200, started=200, finished=180),),
    }
    return make_run(run_id, **(fields | changes))


def summary_of(view: RunView) -> RunSummary:
    return RunSummary(**{name: getattr(view, name) for name in RunSummary.__struct_fields__})


def _ends(step: StepView) -> bool:
    return step.status is StepStatus.RUNNING and step.badge in ("manual", "live")


class FakeClient:
    """``Client`` over a dictionary of views. ``launched``, ``cancelled`` and ``deleted`` record what was asked."""

    def __init__(self, *views: RunView, owner: bool = True, who: str = "ada · terminal") -> None:
        self.owner = owner
        self.who = who
        self.views: dict[str, RunView] = {view.run_id: view for view in views}
        self.versions: dict[tuple[str, str], tuple[Definition, str]] = {}
        self.launched: list[LaunchRequest] = []
        self.cancelled: list[str] = []
        self.deleted: list[str] = []
        self.decided: list[DecideRequest] = []
        self.resumed: list[tuple[str, str, int]] = []
        self.previews: dict[str, Preview] = {}
        self.recovered: list[str] = []
        self.reconciled: list[ReconcileRequest] = []
        self.answered: list[tuple[str, Any, str | None]] = []
        self.known: dict[str, Evidence] = {}
        self.artifacts: dict[tuple[str, str], Artifact] = {}
        self.attested: dict[str, list[Attestation]] = {}
        self.children: dict[str, ChildRun] = {}
        self.assembled: dict[str, Assembled] = {}
        self.viewed: list[str] = []
        self.failures: dict[str, Exception] = {}
        self.delays: dict[str, float] = {}
        self.on_launch: Callable[[LaunchRequest], LaunchOutcome] | None = None
        self.closed = False
        self._callbacks: list[Callable[[str], None]] = []

    def put(self, view: RunView) -> None:
        """Add or replace a run and tell the subscribers."""
        self.views[view.run_id] = view
        self.changed(view.run_id)

    def change(self, run_id: str, **fields: Any) -> RunView:
        """Replace some fields of a run and tell the subscribers."""
        view = self.views[run_id]
        self.put(msgspec.structs.replace(view, revision=view.revision + 1, **fields))
        return self.views[run_id]

    def remove(self, run_id: str) -> None:
        del self.views[run_id]
        self.changed(run_id)

    def changed(self, run_id: str) -> None:
        for callback in tuple(self._callbacks):
            callback(run_id)

    async def _called(self, method: str) -> None:
        await asyncio.sleep(self.delays.get(method, 0))
        if method in self.failures:
            raise self.failures[method]

    async def runs(self, limit: int | None = 20) -> list[RunSummary]:
        await self._called("runs")
        newest = sorted(self.views.values(), key=lambda view: view.created_at, reverse=True)
        return [summary_of(view) for view in newest[:limit]]

    async def live(self) -> list[RunSummary]:
        await self._called("live")
        return [summary_of(view) for view in self.views.values() if view.state.owned]

    async def summary(self, run_id: str) -> RunSummary:
        await self._called("summary")
        if run_id not in self.views:
            raise NotFound(f"no run is called {run_id}")
        return summary_of(self.views[run_id])

    def keep_version(self, name: str, script: str, at: int = NOW) -> Definition:
        """Put a version into the library."""
        saved = Definition(owner="os:1000", name=name, version=sha256(script.encode()), saved_at=at)
        self.versions.setdefault((name, saved.version), (saved, script))
        return self.versions[name, saved.version][0]

    async def library(self) -> list[Definition]:
        await self._called("library")
        return sorted((saved for saved, _ in self.versions.values()), key=lambda it: (it.name, -it.saved_at))

    async def definition(self, name: str, version: str) -> tuple[Definition, str]:
        await self._called("definition")
        if (name, version) not in self.versions:
            raise NotFound(f"there is no saved version {name}@{version[:12]}")
        return self.versions[name, version]

    async def save(self, name: str, script: str) -> Definition:
        await self._called("save")
        return self.keep_version(name, script)

    def owner_pid(self) -> int | None:
        return 4711

    async def start_hosting(self) -> bool:
        await self._called("start_hosting")
        return self.owner

    async def resolve(self, run: str) -> str:
        await self._called("resolve")
        found = [run_id for run_id in self.views if run_id.startswith(run)]
        if len(found) != 1:
            raise NotFound(f"no run is called {run}")
        return found[0]

    async def view(self, run_id: str) -> RunView:
        self.viewed.append(run_id)
        await self._called("view")
        if run_id not in self.views:
            raise NotFound(f"no run is called {run_id}")
        return self.views[run_id]

    async def attestations(self, run_id: str) -> list[Attestation]:
        await self._called("attestations")
        return self.attested.get(run_id, [])

    async def child_run(self, child_run_id: str) -> ChildRun | None:
        await self._called("child_run")
        return self.children.get(child_run_id)

    async def assemblies(self, view: RunView) -> dict[str, Assembled]:
        await self._called("assemblies")
        return {
            step.step_id: self.assembled[step.step_id]
            for step in view.steps
            if step.step_id in self.assembled
        }

    async def artifact(self, run_id: str, step_id: str) -> Artifact:
        await self._called("artifact")
        if (run_id, step_id) not in self.artifacts:
            raise NotFound(f"step {step_id} of run {run_id} has no output")
        return self.artifacts[run_id, step_id]

    async def decide(self, request: DecideRequest) -> Decision:
        """The receipt stays with the run, which goes on or ends."""
        await self._called("decide")
        self.decided.append(request)
        receipt = Decision(
            run_id=request.run_id,
            step_id=request.step_id,
            attempt=request.attempt,
            decision=request.decision,
            sha256=request.sha256,
            reason=request.reason,
            actor={"user_id": "os:1000", "session_id": "s1", "mode": "terminal", "description": "pts/3"},
            review=request.review,
            decided_at=NOW,
        )
        approved = request.decision == "approve"
        self.change(
            request.run_id,
            state=RunState.RUNNING if approved else RunState.FAILED,
            waiting=None,
            receipts=(*self.views[request.run_id].receipts, receipt),
        )
        return receipt

    async def resume(self, run_id: str, step_id: str, attempt: int = 1) -> Outcome:
        await self._called("resume")
        self.resumed.append((run_id, step_id, attempt))
        self.change(run_id, state=RunState.RUNNING, waiting=None)
        return Outcome(status="applied", message=f"{step_id} is resumed")

    async def preview(self, run_id: str) -> Preview:
        await self._called("preview")
        return self.previews.get(run_id, Preview())

    async def recover(self, run_id: str) -> Outcome:
        await self._called("recover")
        self.recovered.append(run_id)
        self.change(run_id, state=RunState.RUNNING, waiting=None)
        return Outcome(status="applied", message=f"run {run_id} is being recovered")

    async def evidence(self, run_id: str, step_id: str) -> Evidence:
        await self._called("evidence")
        return self.known.get(step_id, Evidence(hash="e" * 64, step_id=step_id))

    async def calls_that_end(self) -> dict[str, list[str]]:
        """Those of the running steps with the badges manual and live."""
        await self._called("calls_that_end")
        return {
            view.run_id: [step.step_id for step in view.steps if _ends(step)]
            for view in self.views.values()
            if any(map(_ends, view.steps))
        }

    async def questions(self) -> list[Question]:
        """Those of the running steps with the badge manual, the oldest first."""
        await self._called("questions")
        found = [
            Question(
                view.run_id,
                step.step_id,
                step.attempt,
                str(step.agent_ref),
                str(step.child_run_id),
                step.started_at or view.since,
            )
            for view in self.views.values()
            for step in view.steps
            if step.status is StepStatus.RUNNING and step.badge == "manual"
        ]
        return sorted(found, key=lambda question: (question.since, question.child_run_id))

    async def answer(self, child_run_id: str, output: Any = None, *, failed: str | None = None) -> Outcome:
        """The answer is kept in ``answered``; the run stays as it is."""
        await self._called("answer")
        self.answered.append((child_run_id, output, failed))
        return Outcome("applied", "it is answered")

    async def reconcile(self, request: ReconcileRequest) -> Outcome:
        """The step is settled; with the last one the run is recoverable."""
        await self._called("reconcile")
        self.reconciled.append(request)
        view = self.views[request.run_id]
        steps = tuple(
            msgspec.structs.replace(step, status=StepStatus.COMPLETED, response_frame=9, badge="attested")
            if step.step_id == request.step_id
            else step
            for step in view.steps
        )
        left = any(step.unsettled for step in steps)
        self.change(view.run_id, steps=steps, state=view.state if left else RunState.RECOVERABLE)
        return Outcome(status="applied", message=f"{request.step_id} is settled")

    async def launch(self, request: LaunchRequest) -> LaunchOutcome:
        await self._called("launch")
        self.launched.append(request)
        if self.on_launch is not None:
            return self.on_launch(request)
        run_id = f"wr_{len(self.launched):016x}"
        self.put(running_run(run_id, name=request.name, script=request.script, args=request.args))
        return LaunchOutcome(run_id=run_id, existing=False)

    async def cancel(self, run_id: str) -> Outcome:
        await self._called("cancel")
        self.cancelled.append(run_id)
        self.change(run_id, state=RunState.CANCELLED, cause=Cause("cancelled", "cancelled by ada"))
        return Outcome(status="applied", message=f"{run_id} is cancelled")

    async def delete(self, run_id: str) -> Outcome:
        await self._called("delete")
        self.deleted.append(run_id)
        self.remove(run_id)
        return Outcome(status="applied", message=f"{run_id} is deleted")

    def subscribe(self, callback: Callable[[str], None]) -> Callable[[], None]:
        self._callbacks.append(callback)

        def stop() -> None:
            self._callbacks.remove(callback)

        return stop

    def identity(self) -> str:
        return self.who

    async def close(self) -> None:
        self.closed = True


def screen_text(app: App[Any]) -> str:
    """What a person sees: the whole terminal as text, one line a row."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


def flat(text: str) -> str:
    """``screen_text`` without borders and line breaks, for sentences that may be broken anywhere."""
    return " ".join(text.replace("│", " ").split())


async def until(pilot: Pilot[Any], condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until ``condition`` holds; an assertion fails where it does not in time."""
    end = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < end, screen_text(pilot.app)
        await pilot.pause(0.005)


async def settle(pilot: Pilot[Any]) -> None:
    """Let changes of runs be told and reading end, and what they changed be drawn."""
    await pilot.pause(0.001)
    await at_rest(pilot.app)
