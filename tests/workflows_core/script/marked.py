"""Scripts with marks: ``⟦rule⟧`` stands right before the place where that rule must report a problem.

``ASK(id)`` is a complete agent() call and ``OK(id, step, version)`` a complete humanCheckpoint() call, so that an
example shows only what it is about.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from workflows_core.script.check import Problem, check_static

_MARK = re.compile(r"⟦([a-z-]+)⟧")


def expanded(text: str) -> str:
    text = re.sub(
        r"ASK\(((?:[^()]|\([^()]*\))*)\)", r"agent({stepId: \1, agentRef: 'lead_agent', task: 1})", text
    )
    return re.sub(
        r"OK\(([^,()]*), ([^,()]*), ([^()]*)\)",
        r"humanCheckpoint({stepId: \1, sourceStepId: \2, artifactVersion: \3})",
        text,
    )


def split(text: str) -> tuple[str, list[tuple[str, int, int]]]:
    """The script without its marks, and (rule, line, column) of each mark."""
    script, expected = "", []
    at = 0
    text = expanded(text)
    for match in _MARK.finditer(text):
        script += text[at : match.start()]
        at = match.end()
        line = script.count("\n") + 1
        expected.append((match[1], line, len(script) - (script.rfind("\n") + 1) + 1))
    return script + text[at:], expected


def problems_of(
    script: str,
    *,
    agents: Collection[str] | None = ("lead_agent",),
    max_calls: int = 16,
    args: Any | None = None,
) -> list[Problem]:
    return check_static(script, agents=agents, max_calls=max_calls, args=args)


def check_marked(text: str, **options: Any) -> list[Problem]:
    """Check a marked script: every mark must be reported, and nothing else. Returns the problems."""
    script, expected = split(text)
    problems = problems_of(script, **options)
    found = [(problem.rule, problem.line, problem.column) for problem in problems]
    assert sorted(found) == sorted(expected), "\n".join(
        f"{p.line}:{p.column} {p.rule}: {p.message}" for p in problems
    )
    return problems
