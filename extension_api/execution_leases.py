"""Execution leases: exclusive ownership of one execution among several hosts (added in 0.2.8).

A lease is valid until ``expires_at`` on the database's clock; no other clock decides. Each acquisition of the
same execution raises ``epoch``, which is the fence: an owner keeps the epoch beside its record, makes every
write conditional on it, and names the lease in :class:`AgentRunRequest`, so that the host checks it in the
transaction that creates the run. Asking first and acting afterwards proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

LEASE_SECONDS_MIN: Final = 5
LEASE_SECONDS_MAX: Final = 60


class ExecutionLeaseLost(RuntimeError):
    """The lease has expired, was released, or belongs to a later epoch. Stop at once and write nothing."""


@dataclass(frozen=True)
class ExecutionLease:
    """Ownership of one execution. Times are microseconds since the epoch on the database's clock."""

    execution_id: str
    owner_id: str
    epoch: int
    acquired_at: int
    expires_at: int


@runtime_checkable
class ExecutionLeases(Protocol):
    """Leases that the host keeps in the database it shares with its peers.

    ``seconds`` is from 5 to 60; ValueError otherwise. Whatever else a method raises means "not known": the
    caller stops, and never assumes that it still owns the execution.
    """

    async def acquire(self, execution_id: str, *, owner_id: str, seconds: int) -> ExecutionLease | None:
        """Take the execution where nobody holds it, under a new epoch; None where somebody does."""
        raise NotImplementedError

    async def renew(self, lease: ExecutionLease, *, seconds: int) -> ExecutionLease:
        """Extend a lease that is still valid; the epoch stays. Raises ExecutionLeaseLost otherwise."""
        raise NotImplementedError

    async def release(self, lease: ExecutionLease) -> bool:
        """Give the execution back. False where the lease was no longer valid; releasing never raises that."""
        raise NotImplementedError

    async def holder(self, execution_id: str) -> ExecutionLease | None:
        """The valid lease of this execution, for display only; None where there is none."""
        raise NotImplementedError
