"""What a script will do, for people who are about to launch it: its steps by line, and a bound on its calls."""

from __future__ import annotations

import msgspec

from .analysis import Analysis
from .counting import Counter


class StepSite(msgspec.Struct, frozen=True):
    """Where a literal stepId is used: ``kind`` is agent, pause, checkpoint or capture; the place is the call's."""

    step_id: str
    kind: str
    line: int
    column: int


def calls_bound(script: str) -> tuple[int, bool]:
    """The most agent() calls one run can make as written, and whether a loop leaves that open.

    Branches that exclude each other count once; loops whose rounds are constants count as often as they run; any
    other loop counts one round and makes the answer open. A script too deep to follow gives its number of calls.
    """
    analysis = Analysis(script)
    counter = Counter(analysis)
    try:
        return counter.total(), counter.open
    except RecursionError:
        return sum(call.name == "agent" for call in analysis.calls), True


def api_steps(script: str) -> list[StepSite]:
    """The literal stepIds of ``script``, in the order of their places."""
    analysis = Analysis(script)
    sites: list[StepSite] = []
    for call in analysis.calls:
        step = analysis.step_id(call)
        if call.api.step is not None and step is not None:
            line, column = analysis.source.position(call.node.start)
            sites.append(StepSite(step, call.api.step, line, column))
    return sorted(sites, key=lambda site: (site.line, site.column))
