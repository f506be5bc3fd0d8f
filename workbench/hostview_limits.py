"""Every limit with what uses it now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from workflows_core.errors import ConfigurationError, WorkflowError
from workflows_core.limits import (
    CAPTURED_BYTES_PER_OWNER,
    SETTABLE,
    VERSIONS_PER_OWNER,
    Limits,
    engine_config,
)
from workflows_core.model import ACTIVE, RunState, RunSummary, StepKind, StepStatus

from .hostview_stores import Stored

if TYPE_CHECKING:
    from .client import Client
    from .host.config import WorkbenchConfig

#: Names that are given of what uses a limit; more are counted.
_NAMED: Final = 3
#: Runs whose steps are looked at for calls that hold a place.
_READ: Final = 20


@dataclass(frozen=True)
class LimitUse:
    """``used`` of ``value``, where something uses it now; ``by`` says what, in words.

    ``ceiling`` is the largest value that the configuration admits, None for what is part of the format.
    """

    key: str
    value: int
    unit: str
    meaning: str
    ceiling: int | None = None
    default: int | None = None
    used: int | None = None
    by: str = ""


async def limit_uses(
    client: Client,
    config: WorkbenchConfig,
    runs: Sequence[RunSummary],
    stored: Stored,
    problems: dict[str, str],
) -> list[LimitUse]:
    """All limits; what uses them is put in front. ``problems`` takes what is wrong with the configuration."""
    limits = Limits()
    record = config.workflows
    try:
        limits = engine_config({} if record is None else record.config).limits
    except ConfigurationError as error:
        problems.setdefault("limits", str(error))
    used = await _used(client, runs, stored)
    found = [
        LimitUse(
            key,
            getattr(limits, key),
            limit.unit,
            limit.meaning,
            ceiling=limit.ceiling,
            default=limit.default,
            used=used[key][0] if key in used else None,
            by=used[key][1] if key in used else "",
        )
        for key, limit in SETTABLE.items()
    ]
    for key, owners, value, unit, meaning in (
        ("captured_bytes", stored.captured, CAPTURED_BYTES_PER_OWNER, "bytes", "captured files of one owner"),
        ("saved_versions", stored.versions, VERSIONS_PER_OWNER, "versions", "saved versions of one owner"),
    ):
        most, by = _largest(owners)
        found.append(LimitUse(key, value, unit, meaning, used=most, by=by))
    return sorted(found, key=lambda limit: limit.used is None)


async def _used(client: Client, runs: Sequence[RunSummary], stored: Stored) -> dict[str, tuple[int, str]]:
    active = [run for run in runs if run.state in ACTIVE]
    names = {run.run_id: run.name or run.run_id for run in runs}
    held: Counter[str] = Counter(call.workflow_run for call in stored.active)
    steps = [f"{call.step_id} of {names.get(call.workflow_run, call.workflow_run)}" for call in stored.active]
    unsettled, calls = await _steps(client, runs, active)
    steps += [f"{step}, not settled" for step in unsettled]
    widest = max(held, key=lambda run: held[run], default=None)
    most = max(calls, key=lambda run: calls[run], default=None)
    return {
        "max_workflows": (len(active), _named([names[run.run_id] for run in active])),
        "max_workflows_per_owner": _largest(Counter(run.owner for run in active)),
        "retained_runs": _largest(Counter(run.owner for run in runs)),
        "global_concurrency": (len(steps), _named(steps)),
        "concurrency": (0, "") if widest is None else (held[widest], names.get(widest, widest)),
        "max_calls": (0, "") if most is None else (calls[most], names[most]),
    }


async def _steps(
    client: Client, runs: Sequence[RunSummary], active: Sequence[RunSummary]
) -> tuple[list[str], dict[str, int]]:
    """Steps whose outcome is not known and which hold a place, and the calls of each active run so far."""
    unsettled: list[str] = []
    calls: dict[str, int] = {}
    broken = [run for run in runs if run.state is RunState.NEEDS_RECONCILIATION]
    for run in [*active, *broken][:_READ]:
        try:
            view = await client.view(run.run_id)
        except WorkflowError:
            continue  # deleted meanwhile, or unreadable: the Runs screen says why
        if run.state is RunState.NEEDS_RECONCILIATION:
            unsettled += [
                f"{step.step_id} of {run.name or run.run_id}"
                for step in view.steps
                if step.status is StepStatus.UNCERTAIN
            ]
        else:
            calls[run.run_id] = sum(step.kind is StepKind.AGENT for step in view.steps)
    return unsettled, calls


def _largest(owners: Mapping[str, int]) -> tuple[int, str]:
    """The largest use of any owner, and whose it is."""
    owner = max(owners, key=lambda each: owners[each], default=None)
    return (0, "") if owner is None else (owners[owner], owner)


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
