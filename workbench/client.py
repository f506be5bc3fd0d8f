"""What a front end can ask of a workspace: the same calls whether or not this process owns the engine."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from workflows_core import errors
from workflows_core.model import Artifact, Attestation, Decision, Definition, RunState, RunSummary, RunView

from .access import Access

if TYPE_CHECKING:
    from workflows_core.engine.evidence import Evidence
    from workflows_core.engine.reconciliation import ReconcileRequest
    from workflows_core.engine.recovery import Preview
    from workflows_core.engine.requests import LaunchOutcome, LaunchRequest, Outcome
    from workflows_core.engine.waits import DecideRequest

    from .child_runs import Assembled, ChildRun
    from .host.reloading import ReloadPlan, ReloadResult
    from .review_questions import Question

T = TypeVar("T")
Left = TypeVar("Left", RunSummary, RunView)


class Client(Access):
    """What can be asked of a workspace. How it is reached: :class:`Access`."""

    # Reading.

    async def runs(self, limit: int | None = 20) -> list[RunSummary]:
        """The newest runs first, each with its effective state; ``limit`` None means all."""
        reader = await self._read()
        return [] if reader is None else [self._as_left(run) for run in await reader.runs(limit)]

    def _as_left(self, run: Left) -> Left:
        """A run as it stands where the engine of this process had to leave it and cannot write so yet."""
        cause = self._service.abandoned(run.run_id) if self._host is not None and run.state.owned else None
        if cause is None:
            return run
        return msgspec.structs.replace(run, state=RunState.RECOVERABLE, cause=cause)

    async def live(self) -> list[RunSummary]:
        """Runs that a living owner works on or keeps a worker for."""
        return [run for run in await self.runs(None) if run.state.owned]

    async def resolve(self, run: str) -> str:
        """The full id for an id or a unique prefix; raises NotFound."""
        return await (await self._reading()).resolve(run)

    async def summary(self, run_id: str) -> RunSummary:
        return self._as_left(await (await self._reading()).summary(run_id))

    async def view(self, run_id: str) -> RunView:
        """Everything about one run; repeated calls read only what is new."""
        return self._as_left(await (await self._reading()).view(run_id))

    async def questions(self) -> list[Question]:
        """The calls of manual agents that have no answer yet, the oldest first. Raises StoreError.

        ``review.inbox`` leaves those that can be answered. A question that opens or ends changes its run as well.
        """
        from .review_questions import open_questions

        return await asyncio.to_thread(open_questions, self.workspace.host_store_path)

    async def calls_that_end(self) -> dict[str, list[str]]:
        """By run, the steps whose calls end with the engine's process, so that they need reconciliation then."""
        from .review_questions import calls_that_end

        return await asyncio.to_thread(calls_that_end, self.workspace.host_store_path)

    # Commands.

    async def launch(self, request: LaunchRequest) -> LaunchOutcome:
        """Launch here, or through the owner's inbox. Raises as WorkflowService.launch does."""
        from workflows_core.engine.requests import LaunchOutcome

        return _as(await self._control("launch", None, _builtins(request)), LaunchOutcome)

    async def cancel(self, run_id: str) -> Outcome:
        """Ask for a run to be cancelled; returns once that is recorded."""
        return _outcome(await self._control("cancel", run_id, {}))

    async def delete(self, run_id: str) -> Outcome:
        """Delete a final run, leaving a tombstone."""
        return _outcome(await self._control("delete", run_id, {}))

    async def delete_older_than(self, before: int) -> Outcome:
        """Delete final runs created before ``before`` (microseconds since the epoch)."""
        return _outcome(await self._control("delete_older_than", None, {"before": before}))

    async def resume(self, run_id: str, step_id: str, attempt: int = 1) -> Outcome:
        """Let a pause go on; a run whose owner is gone is recovered first, and the message says so."""
        return _outcome(await self._control("resume", run_id, {"step_id": step_id, "attempt": attempt}))

    async def decide(self, request: DecideRequest) -> Decision:
        """Decide a checkpoint from this process's interactive session and return the receipt."""
        return _as(await self._control("decide", request.run_id, _builtins(request)), Decision)

    async def recover(self, run_id: str) -> Outcome:
        """Start a replacement worker that replays the journal and goes on. Raises Incompatible."""
        return _outcome(await self._control("recover", run_id, {}))

    async def preview(self, run_id: str) -> Preview:
        """What recover would do now. Changes nothing."""
        from workflows_core.engine.recovery import Preview

        return _as(await self._control("preview", run_id, {}), Preview)

    async def reconcile(self, request: ReconcileRequest) -> Outcome:
        """Attest the outcome of an uncertain step from this process's interactive session."""
        return _outcome(await self._control("reconcile", request.run_id, _builtins(request)))

    async def evidence(self, run_id: str, step_id: str) -> Evidence:
        """What is known of an uncertain step; a reconciliation carries the hash of what the person was shown."""
        from workflows_core.engine.evidence import Evidence

        return _as(await self._control("evidence", run_id, {"step_id": step_id}), Evidence)

    async def answer(self, child_run_id: str, output: Any = None, *, failed: str | None = None) -> Outcome:
        """Give a manual agent's call its answer, or say in ``failed`` why there is none.

        From this process's interactive session. ``child_run_id`` is that of a running step with the badge manual.
        """
        body = {"child_run_id": child_run_id, "output": output, "failed": failed}
        return _outcome(await self._control("host.answer", None, body))

    async def save(self, name: str, script: str) -> Definition:
        """Save a script as an immutable version; an identical save returns the one that exists."""
        return _as(await self._control("save", None, {"name": name, "script": script}), Definition)

    # What is kept, and what is loaded.

    async def library(self) -> list[Definition]:
        """This person's saved versions, by name and newest first; everybody's where nobody is logged in."""
        from .login import acting_as

        reader = await self._read()
        return [] if reader is None else await reader.definitions(acting_as(self.workspace))

    async def definition(self, name: str, version: str) -> tuple[Definition, str]:
        """A saved version and its script; ``version`` is its hash or at least 7 characters of it."""
        from .login import acting_as

        return await (await self._reading()).definition(name, version, acting_as(self.workspace))

    async def artifact(self, run_id: str, step_id: str) -> Artifact:
        """The exact bytes of a step: a capture's file, or the canonical JSON of an output."""
        return await (await self._reading()).artifact(run_id, step_id)

    async def attestations(self, run_id: str) -> list[Attestation]:
        """What people have stated about steps of a run whose outcome was uncertain, in their order."""
        return await (await self._reading()).attestations(run_id)

    async def child_run(self, child_run_id: str) -> ChildRun | None:
        """A child run with its events, as the host keeps it; None where it keeps none. Raises StoreError."""
        from .child_runs import child_run

        return await asyncio.to_thread(child_run, self.workspace.host_store_path, child_run_id)

    async def assemblies(self, view: RunView) -> Mapping[str, Assembled]:
        """By stepId: how the assembly of each step's Agent compares with the one before. Raises StoreError."""
        from .child_runs import assemblies

        return await asyncio.to_thread(assemblies, self.workspace.host_store_path, view)

    async def extensions(self) -> dict[str, Any]:
        """What is loaded, as the owner says (see ``Extensions.describe``)."""
        return await self._control("host.extensions", None, {})

    async def sessions(self) -> list[dict[str, Any]]:
        """The sessions that hold a handle in the owner's process."""
        found: list[dict[str, Any]] = (await self._control("host.sessions", None, {}))["sessions"]
        return found

    async def plan_reload(self, use: str | None = None) -> ReloadPlan:
        """What a reload of an extension, or of all, would do. Changes nothing."""
        from .host.reloading import ReloadPlan

        return _as(await self._control("host.plan_reload", None, {"use": use}), ReloadPlan)

    async def reload(self, use: str | None = None) -> ReloadResult:
        """Load an extension, or all, anew. Live runs keep what they have. Raises as ``Extensions.reload``."""
        from .host.reloading import ReloadResult

        return _as(await self._control("host.reload", None, {"use": use}), ReloadResult)

    # Accounts.

    async def log_in(self, name: str, password: str) -> None:
        """Open a session in a workspace with accounts; this process acts as that account from now on.

        Raises as ``login.log_in``. The hash is computed in another thread.
        """
        from .login import log_in

        await asyncio.to_thread(log_in, self.workspace, name, password)

    async def log_out(self) -> str | None:
        """End this person's session; whose it was, None where nobody was logged in. Raises as ``login.log_out``."""
        from .login import log_out

        kept, _ended = await asyncio.to_thread(log_out, self.workspace)
        self._session = None
        return None if kept is None else kept.user_id

    async def end_session(self, session_id: str) -> None:
        """End a log-in of any account. Raises as ``login.end_session``."""
        from .login import end_session

        await asyncio.to_thread(end_session, self.workspace, session_id)

    def account(self) -> str | None:
        """The account that this person is logged in with; None where nobody is, or there are no accounts."""
        try:
            login = self._login()
        except errors.NotPermitted:
            return None
        return None if login is None else login.user_id

    def identity(self) -> str:
        """Who acts here, for the top line: ``ada · terminal``."""
        mode = self.workspace.config.auth.mode
        try:
            login = self._login()
        except errors.NotPermitted:
            return f"nobody · {mode}"
        if login is not None:
            return f"{login.user_id} · {mode}"
        try:
            name = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            name = f"uid {os.getuid()}"
        return f"{name} · {mode}"


def _builtins(request: Any) -> dict[str, Any]:
    result: dict[str, Any] = msgspec.to_builtins(request)
    return result


def _as(detail: dict[str, Any], kind: type[T]) -> T:
    return msgspec.convert(detail, kind)


def _outcome(detail: dict[str, Any]) -> Outcome:
    from workflows_core.engine.requests import Outcome

    return _as(detail, Outcome)
