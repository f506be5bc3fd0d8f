"""What one row of the table of keys says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """One row: what ``keys`` do in ``pane``.

    ``keys`` is a comma-separated list in Textual's names. ``shown`` puts the verb into the bottom line.
    ``priority`` keys act before the focused widget sees them, text fields included.
    """

    id: str
    pane: str
    keys: str
    action: str
    verb: str
    tooltip: str
    shown: bool = False
    priority: bool = False
