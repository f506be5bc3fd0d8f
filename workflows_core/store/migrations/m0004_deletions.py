"""Tombstones name the control that asked for the deletion: where its owner dies half-way, the next one tells all of it."""

from __future__ import annotations

STATEMENTS: tuple[str, ...] = ("ALTER TABLE tombstones ADD COLUMN control INTEGER",)
