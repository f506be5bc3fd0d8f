"""Numbered schema steps. Each is applied together with its record in one transaction."""

from __future__ import annotations

from . import m0001_runs, m0002_people, m0003_states, m0004_deletions

#: (number, name, statements), in order; numbers start at 1 and have no gaps.
MIGRATIONS: tuple[tuple[int, str, tuple[str, ...]], ...] = (
    (1, "runs", m0001_runs.STATEMENTS),
    (2, "people", m0002_people.STATEMENTS),
    (3, "states", m0003_states.STATEMENTS),
    (4, "deletions", m0004_deletions.STATEMENTS),
)

NEWEST = MIGRATIONS[-1][0]
