"""Execution leases on a clock that the test moves."""

from __future__ import annotations

from dataclasses import replace

from ..execution_leases import (
    LEASE_SECONDS_MAX,
    LEASE_SECONDS_MIN,
    ExecutionLease,
    ExecutionLeaseLost,
    ExecutionLeases,
)


class FakeExecutionLeases(ExecutionLeases):
    """Leases in memory. ``now`` is the database's clock in microseconds; ``advance`` moves it."""

    def __init__(self, *, now: int = 1_000_000) -> None:
        self.now = now
        self._leases: dict[str, ExecutionLease] = {}
        self._epochs: dict[str, int] = {}

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.now += int(seconds * 1_000_000)

    async def acquire(self, execution_id: str, *, owner_id: str, seconds: int) -> ExecutionLease | None:
        duration = _microseconds(seconds)
        if self._valid(execution_id) is not None:
            return None
        self._epochs[execution_id] = epoch = self._epochs.get(execution_id, 0) + 1
        lease = ExecutionLease(execution_id, owner_id, epoch, self.now, self.now + duration)
        self._leases[execution_id] = lease
        return lease

    async def renew(self, lease: ExecutionLease, *, seconds: int) -> ExecutionLease:
        duration = _microseconds(seconds)
        if not self._holds(lease):
            raise ExecutionLeaseLost(f"the lease of {lease.execution_id!r} in epoch {lease.epoch} is over")
        renewed = replace(self._leases[lease.execution_id], expires_at=self.now + duration)
        self._leases[lease.execution_id] = renewed
        return renewed

    async def release(self, lease: ExecutionLease) -> bool:
        if not self._holds(lease):
            return False
        del self._leases[lease.execution_id]
        return True

    async def holder(self, execution_id: str) -> ExecutionLease | None:
        return self._valid(execution_id)

    def _valid(self, execution_id: str) -> ExecutionLease | None:
        lease = self._leases.get(execution_id)
        return lease if lease is not None and self.now < lease.expires_at else None

    def _holds(self, lease: ExecutionLease) -> bool:
        valid = self._valid(lease.execution_id)
        return valid is not None and (valid.epoch, valid.owner_id) == (lease.epoch, lease.owner_id)


def _microseconds(seconds: object) -> int:
    if type(seconds) is not int or not LEASE_SECONDS_MIN <= seconds <= LEASE_SECONDS_MAX:
        raise ValueError(f"seconds must be an integer from {LEASE_SECONDS_MIN} to {LEASE_SECONDS_MAX}")
    return seconds * 1_000_000
