"""Commands as data: one table for a front end in this process and for the control inbox of other processes.

``apply`` takes a kind, the run it names and a JSON body, and returns a JSON object; so a command does the same
from whichever process it comes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from extension_api.agent_runs import AgentRuns

from ..errors import UsageError
from .host_controls import PREFIX
from .reconciliation import ReconcileRequest
from .requests import LaunchRequest
from .waits import DecideRequest

if TYPE_CHECKING:
    from .service import WorkflowService

T = TypeVar("T")


class _Step(msgspec.Struct, frozen=True):
    step_id: str
    attempt: int = 1


class _Before(msgspec.Struct, frozen=True):
    before: int


class _Save(msgspec.Struct, frozen=True):
    name: str
    script: str


async def apply(
    service: WorkflowService, kind: str, run_id: str | None, body: Mapping[str, Any], runs: AgentRuns
) -> dict[str, Any]:
    """Apply one command. Raises UsageError for an unknown kind or a malformed body, else as the service.

    Kinds that start with ``host.`` are the host's own (see ``host_controls``).
    """
    if kind.startswith(PREFIX) and service.host_controls is not None:
        return dict(await service.host_controls.apply(kind, body, runs))
    handler = _HANDLERS.get(kind)
    if handler is None:
        raise UsageError(f"the owner does not know the control {kind[:40]}; it may be an older version")
    answer = await handler(service, run_id or "", body, runs)
    result: dict[str, Any] = msgspec.to_builtins(answer)
    return result


Handler = Callable[["WorkflowService", str, Mapping[str, Any], AgentRuns], Awaitable[Any]]


def _launch(
    service: WorkflowService, run_id: str, body: Mapping[str, Any], runs: AgentRuns
) -> Awaitable[Any]:
    return service.launch(_read(body, LaunchRequest), runs)


def _cancel(
    service: WorkflowService, run_id: str, body: Mapping[str, Any], runs: AgentRuns
) -> Awaitable[Any]:
    return service.cancel(run_id, runs)


def _delete(
    service: WorkflowService, run_id: str, body: Mapping[str, Any], runs: AgentRuns
) -> Awaitable[Any]:
    return service.delete(run_id, runs)


def _delete_older(
    service: WorkflowService, run_id: str, body: Mapping[str, Any], runs: AgentRuns
) -> Awaitable[Any]:
    return service.delete_older_than(_read(body, _Before).before, runs)


def _resume(
    service: WorkflowService, run_id: str, body: Mapping[str, Any], runs: AgentRuns
) -> Awaitable[Any]:
    step = _read(body, _Step)
    return service.resume(run_id, step.step_id, step.attempt, runs)


def _decide(
    service: WorkflowService, run_id: str, body: Mapping[str, Any], runs: AgentRuns
) -> Awaitable[Any]:
    return service.decide(_read({**body, "run_id": run_id}, DecideRequest), runs)


def _recover(
    service: WorkflowService, run_id: str, body: Mapping[str, Any], runs: AgentRuns
) -> Awaitable[Any]:
    return service.recover(run_id, runs)


def _preview(
    service: WorkflowService, run_id: str, body: Mapping[str, Any], runs: AgentRuns
) -> Awaitable[Any]:
    return service.preview(run_id, runs)


def _reconcile(
    service: WorkflowService, run_id: str, body: Mapping[str, Any], runs: AgentRuns
) -> Awaitable[Any]:
    request = _read({**body, "run_id": run_id}, ReconcileRequest)
    if request.evidence_hash is None:
        raise UsageError(
            "an attestation names the evidence that it was made upon; this command is of an older version"
        )
    return service.reconcile(request, runs)


def _evidence(
    service: WorkflowService, run_id: str, body: Mapping[str, Any], runs: AgentRuns
) -> Awaitable[Any]:
    return service.evidence(run_id, _read(body, _Step).step_id, runs)


def _save(service: WorkflowService, run_id: str, body: Mapping[str, Any], runs: AgentRuns) -> Awaitable[Any]:
    save = _read(body, _Save)
    return service.save(save.name, save.script, runs)


_HANDLERS: Mapping[str, Handler] = {
    "launch": _launch,
    "cancel": _cancel,
    "delete": _delete,
    "delete_older_than": _delete_older,
    "resume": _resume,
    "decide": _decide,
    "recover": _recover,
    "preview": _preview,
    "reconcile": _reconcile,
    "evidence": _evidence,
    "save": _save,
}


def _read(body: Mapping[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"the command is malformed: {error}") from None
