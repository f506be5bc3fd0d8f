"""Leaving the application: what is asked first, and what becomes of live runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from workflows_core.model import RunSummary

from .. import words
from ..inert import inert
from .screens.dialogs import Answer, Dialog


class LeaveDialog(Dialog):
    """Asks whether to leave although runs are live."""

    def __init__(self, text: str) -> None:
        super().__init__("Leave the workbench?", text, [Answer("stay", "Stay"), Answer("leave", "Leave")])


def farewell(
    live: Sequence[RunSummary],
    *,
    owner: bool,
    ending: Mapping[str, Sequence[str]] = MappingProxyType({}),
    unicode: bool = True,
) -> str:
    """What becomes of each live run when this process ends. The text is inert.

    ``ending`` are the steps by run whose calls end with this process.
    """
    lines = []
    for run in live:
        mark = words.run_mark(run.state)
        name = f"{mark.text(unicode=unicode)}  {inert(run.name or run.run_id)}"
        if not owner:
            fate = "goes on: another process owns this workspace"
        elif run.waiting is not None:
            fate = "becomes recoverable and keeps its wait: recover it, then answer"
        elif steps := ending.get(run.run_id):
            fate = f"stops; {inert(', '.join(steps))} ends without an outcome, and you must say what became of it"
        else:
            fate = "stops and becomes recoverable; recorded answers are kept"
        lines.append(f"{name}\n  {fate}")
    count = words.count(len(live), "run is", "runs are")
    return f"{count} live.\n\n" + "\n".join(lines)
