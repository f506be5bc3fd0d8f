"""The agents of a workspace: what each was assembled from last, and what has changed since the time before.

Versions in the evidence are keyed with a secret of one host lifetime, so that those of two lifetimes cannot be
compared: equal components have other versions there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from . import words
from .hostview_stores import AssemblyRow

if TYPE_CHECKING:
    from .host.config import WorkbenchConfig

#: How the latest assembly of an agent compares: never assembled; the only one; the same as all before it in
#: its lifetime; changed within its lifetime; the first of its lifetime, after others of an earlier one.
NONE: Final = "none"
ONLY: Final = "only"
SAME: Final = "same"
CHANGED: Final = "changed"
NOT_COMPARABLE: Final = "not comparable"


class Change(NamedTuple):
    """One component that differs. ``what`` is added, removed or changed; ``numbers`` says 0.2 → 0.7."""

    component: str
    what: str
    numbers: str = ""


@dataclass(frozen=True)
class AgentUse:
    """One agent. ``available`` says whether this build has the backend, ``allowed`` whether scripts may call it.

    ``since`` is when the present versions came first, ``assemblies`` how often in a row they were seen,
    ``before`` when the versions before them were seen last, ``earlier`` when an assembly of another lifetime was.
    ``past`` is true where the latest assembly itself belongs to an earlier lifetime than the host of now.
    """

    name: str
    backend: str
    available: bool = True
    allowed: bool = True
    comparison: str = NONE
    fingerprint: str = ""
    components: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    changes: Sequence[Change] = ()
    badge: str = ""
    workflow_run: str = ""
    at: int = 0
    since: int = 0
    assemblies: int = 0
    before: int | None = None
    earlier: int | None = None
    past: bool = False

    def told(self, now: int) -> str:
        """How the latest assembly compares with the one before, in words."""
        if self.comparison == NONE:
            return "not assembled in the latest child runs"
        times = words.count(self.assemblies, "assembly", "assemblies")
        if self.comparison == CHANGED and self.before is not None:
            told = f"changed {words.ago(self.since, now)}, was another until {words.ago(self.before, now)}"
        elif self.comparison == SAME:
            told = f"the same in {times} since {words.ago(self.since, now)}"
        elif self.comparison == NOT_COMPARABLE and self.earlier is not None:
            told = f"not comparable with that of {words.ago(self.earlier, now)}: another lifetime of the host"
        elif self.comparison == ONLY:
            told = "the only assembly so far"
        else:
            told = "not comparable"
        if self.past:
            told += "; of an earlier lifetime of the host: the next one is not comparable with it"
        return told


def agent_uses(
    config: WorkbenchConfig, rows: Iterable[AssemblyRow], lifetime: str | None = None
) -> list[AgentUse]:
    """The configured agents in their order, then others that were assembled (subagents, agents taken out).

    ``lifetime`` is that of the host in this process, None where it runs elsewhere or nowhere.
    """
    from .agents.registry import available_backends

    backends = available_backends()
    record = config.workflows
    allowed = ["lead_agent"] if record is None else record.config.get("agents", ["lead_agent"])
    by_agent: dict[str, list[AssemblyRow]] = {}
    for row in rows:
        by_agent.setdefault(row.agent, []).append(row)
    found = [
        _used(
            AgentUse(
                name,
                agent.backend,
                available=agent.backend in backends,
                allowed=isinstance(allowed, list | tuple) and name in allowed,
            ),
            by_agent.pop(name, []),
            lifetime,
        )
        for name, agent in config.agents.items()
    ]
    return found + [
        _used(AgentUse(name, "", available=False, allowed=False), each, lifetime)
        for name, each in sorted(by_agent.items())
    ]


def _used(agent: AgentUse, rows: Sequence[AssemblyRow], lifetime: str | None) -> AgentUse:
    if not rows:
        return agent
    newest = sorted(rows, key=lambda row: row.at, reverse=True)
    latest = newest[0]
    value = _evidence(latest.evidence)
    of_lifetime = [row for row in newest if row.lifetime == latest.lifetime]
    equal = 1
    while equal < len(of_lifetime) and _same(of_lifetime[equal].evidence, latest.evidence, value):
        equal += 1
    earlier = next((row.at for row in newest if row.lifetime != latest.lifetime), None)
    if equal < len(of_lifetime):
        comparison, before = CHANGED, of_lifetime[equal]
    else:
        before = None
        comparison = SAME if equal > 1 else ONLY if earlier is None else NOT_COMPARABLE
    return replace(
        agent,
        comparison=comparison,
        fingerprint=str(value.get("fingerprint", "")),
        components=_mapping(value, "components"),
        numbers=_mapping(value, "numbers"),
        changes=() if before is None else changes(_evidence(before.evidence), value),
        badge=latest.badge,
        workflow_run=latest.workflow_run,
        at=latest.at,
        since=of_lifetime[equal - 1].at,
        assemblies=equal,
        before=None if before is None else before.at,
        earlier=earlier,
        past=lifetime is not None and latest.lifetime != lifetime,
    )


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """What differs between two pieces of evidence of one lifetime, by component."""
    was, now = _mapping(old, "components"), _mapping(new, "components")
    old_numbers, new_numbers = _mapping(old, "numbers"), _mapping(new, "numbers")
    found: list[Change] = []
    for name in sorted({*was, *now}):
        if name not in was:
            found.append(Change(name, "added"))
        elif name not in now:
            found.append(Change(name, "removed"))
        elif was[name] != now[name]:
            number = name.removeprefix("parameter:")
            both = number in old_numbers and number in new_numbers
            told = f"{old_numbers[number]} → {new_numbers[number]}" if both else ""
            found.append(Change(name, "changed", told))
    return found


def _same(text: str, other: str, value: Mapping[str, Any]) -> bool:
    return text == other or _evidence(text) == value


def _evidence(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}
