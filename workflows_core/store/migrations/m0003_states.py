"""Runs by state: the owner looks for waits that expired every few seconds, among up to 10,000 kept runs."""

from __future__ import annotations

STATEMENTS: tuple[str, ...] = ("CREATE INDEX runs_by_state ON runs (state)",)
