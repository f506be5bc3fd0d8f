"""What a script will do, for people who are about to launch it: its steps by line, and a bound on its calls."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from .analysis import Analysis
from .api import API
from .counting import Counter


class StepSite(msgspec.Struct, frozen=True):
    """Where a literal stepId is used: ``kind`` is agent, pause, checkpoint or capture; the place is the call's."""

    step_id: str
    kind: str
    line: int
    column: int


class Completion(msgspec.Struct, frozen=True):
    """A word that may be meant. ``kind`` is function, property, step or name; ``insert`` is what to type for it."""

    label: str
    kind: str
    detail: str
    insert: str


@lru_cache(maxsize=4)
def _analysis(script: str) -> Analysis:
    return Analysis(script)


def calls_bound(script: str) -> tuple[int, bool]:
    """The most agent() calls one run can make as written, and whether a loop leaves that open.

    Branches that exclude each other count once; loops whose rounds are constants count as often as they run; any
    other loop counts one round and makes the answer open. A script too deep to follow gives its number of calls.
    """
    analysis = _analysis(script)
    counter = Counter(analysis)
    try:
        return counter.total(), counter.open
    except RecursionError:
        return sum(call.name == "agent" for call in analysis.calls), True


def api_steps(script: str) -> list[StepSite]:
    """The literal stepIds of ``script``, in the order of their places."""
    analysis = _analysis(script)
    sites: list[StepSite] = []
    for call in analysis.calls:
        step = analysis.step_id(call)
        if call.api.step is not None and step is not None:
            line, column = analysis.source.position(call.node.start)
            sites.append(StepSite(step, call.api.step, line, column))
    return sorted(sites, key=lambda site: (site.line, site.column))


def api_completions(script: str) -> tuple[Completion, ...]:
    """Everything that may be typed in ``script``: the API, its properties, the script's steps and names."""
    analysis = _analysis(script)
    found: dict[tuple[str, str], Completion] = {}

    def add(label: str, kind: str, detail: str, insert: str | None = None) -> None:
        found.setdefault((kind, label), Completion(label, kind, detail, insert or label))

    for api in API.values():
        if api.name == "parallel":
            insert = "parallel([() => ])"
        elif not api.properties:
            insert = f"{api.name}()"
        else:
            insert = f"{api.name}({{{', '.join(f'{name}: ' for name in api.required)}}})"
        add(api.name, "function", api.summary, f"await {insert}" if api.promise else insert)
    for api in API.values():
        for name in api.properties:
            add(name, "property", f"of {api.name}()", f"{name}: ")
        for name in api.result:
            add(name, "property", f"of what {api.name}() resolves to")
    add("args", "name", "the arguments of the run, frozen")
    for site in api_steps(script):
        add(site.step_id, "step", f"{site.kind} at line {site.line}")
    for binding in analysis.scopes.bindings:
        add(binding.name, "name", f"{binding.kind} at line {analysis.line(binding.node)}")
    return tuple(found.values())
