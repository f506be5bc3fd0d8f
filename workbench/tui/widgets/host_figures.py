"""What the Host screen shows of agents and of limits, as blocks of lines for a width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ... import words
from ...hostview import AgentUse, HostView, LimitUse
from ...hostview_assembly import NONE
from ...inert import cells, inert
from .host_blocks import Block, indented, labelled
from .lines import Line, Span, fit

_CHANGES: Final = {"added": ("+", "good"), "removed": ("-", "bad"), "changed": ("~", "waiting")}
#: Changed components that show without opening.
_FIRST: Final = 6
#: Cells of a bar that shows how far a limit is used.
_BAR: Final = 10
#: With fewer cells than this there is no bar.
_WIDE: Final = 64


def agent_blocks(view: HostView, width: int, *, unicode: bool = True) -> list[Block]:
    """Each agent with its backend, its fingerprint, and what changed since the last assembly."""
    size = min(28, max((cells(inert(each.name)) for each in view.agents), default=0))
    return [_agent(each, view.at, size, width, unicode=unicode) for each in view.agents]


def _agent(agent: AgentUse, now: int, size: int, width: int, *, unicode: bool) -> Block:
    glyph, tone = (("✓ ", "+ "), "good") if agent.available else (("✗ ", "x "), "bad")
    head = [
        Span(glyph[0 if unicode else 1], tone),
        Span(fit(agent.name, size), "strong"),
        Span(f"  {inert(agent.backend) or 'not configured'}"),
    ]
    body: list[Line] = []
    if agent.backend and not agent.available:
        body += indented("this backend is not part of this workbench yet", width, "bad")
    if agent.backend and not agent.allowed:
        body += indented("scripts may not call it: it is not in the workflow plugin's agents", width, "quiet")
    if agent.comparison == NONE:
        body += indented(agent.told(now), width, "quiet")
        return Block(agent.name, head, body, (), "the agent's name", agent.name)
    told = f"{words.hash7(agent.fingerprint)}, {words.ago(agent.at, now)}" + (
        f" ({agent.badge})" if agent.badge else ""
    )
    body += labelled("fingerprint", told, width)
    body += labelled("compared", agent.told(now), width, "waiting" if agent.changes else "")
    body += _changed(agent.changes[:_FIRST], width)
    more = _changed(agent.changes[_FIRST:], width)
    if more:
        rest = words.count(len(agent.changes) - _FIRST, "more change")
        body += labelled("", f"{rest}: enter", width, "quiet")
    for name, version in agent.components.items():
        number = agent.numbers.get(name.removeprefix("parameter:"))
        more += labelled(
            "", f"{name} {words.hash7(version)}" + ("" if number is None else f" = {number}"), width
        )
    return Block(
        agent.name,
        head,
        body,
        more,
        f"the fingerprint of {agent.name}",
        agent.fingerprint,
        run_id=agent.workflow_run or None,
    )


def _changed(changes: Sequence[tuple[str, str, str]], width: int) -> list[Line]:
    lines: list[Line] = []
    for component, what, numbers in changes:
        sign, tone = _CHANGES[what]
        told = f"{sign} {component} {what}" + (f" {numbers}" if numbers else "")
        lines += labelled("", told, width, tone)
    return lines


def limit_blocks(view: HostView, width: int, *, unicode: bool = True) -> list[Block]:
    """Each limit: what is used of it, by what, and up to where it can be set. What is in use comes first."""
    size = min(27, max((len(each.key) for each in view.limits), default=0))
    return [_limit(each, size, width, unicode=unicode) for each in view.limits]


def _limit(limit: LimitUse, size: int, width: int, *, unicode: bool) -> Block:
    value = _amount(limit.value, limit.unit)
    bar, gap = (_BAR, "  ") if width >= _WIDE else (0, "")
    head = [Span(fit(limit.key, size), "strong"), Span("  ")]
    if limit.used is None:
        head.append(Span(" " * bar + gap + value))
    else:
        tone = (
            "bad" if limit.used >= limit.value else "waiting" if limit.used * 4 >= limit.value * 3 else "good"
        )
        filled = min(bar, -(-limit.used * bar // limit.value))
        used, empty = ("█", "░") if unicode else ("#", ".")
        shown = "" if limit.used < limit.value else "  all used"
        head += [
            Span(used * filled, tone),
            Span(empty * (bar - filled), "quiet"),
            Span(f"{gap}{_used(limit)} of {value}"),
            Span(shown, "bad"),
        ]
    told = limit.meaning
    if limit.by and limit.used:
        told += f" · by {limit.by}"
    body = indented(told, width, "quiet")
    more: list[Line] = []
    if limit.ceiling is not None and limit.default is not None:
        bounds = (
            f"{_amount(limit.default, limit.unit)} by default, at most {_amount(limit.ceiling, limit.unit)}"
        )
        more = indented(f"plugins: config.{limit.key} in workbench.yaml: {bounds}", width)
    else:
        more = indented("part of the format; it cannot be set", width)
    return Block(limit.key, head, body, more, "the setting", f"{limit.key}: {limit.value}")


def _used(limit: LimitUse) -> str:
    return words.kib(limit.used or 0) if limit.unit == "bytes" else f"{limit.used:,}"


def _amount(value: int, unit: str) -> str:
    if unit == "bytes":
        return words.kib(value)
    return words.span(value * words.SECOND) if unit == "s" and value >= 120 else f"{value:,} {inert(unit)}"
