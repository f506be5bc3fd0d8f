"""Child runs and assemblies in words, the same on the Runs screen and in ``step``, and as JSON documents.

Lines are pieces of (text, tone); the tones are ``quiet``, ``good``, ``waiting``, ``bad`` and, for none, empty. Texts
of Agents are as they were recorded: who shows them makes them inert.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from . import words
from .child_runs import MOST_CONTENT, MOST_EVENTS, Assembled, ChildEvent, ChildRun
from .hostview_assembly import CHANGED, NOT_COMPARABLE, ONLY
from .inert import shorten

if TYPE_CHECKING:
    from workflows_core.model import StepView

Told: TypeAlias = "tuple[tuple[str, str], ...]"

_SUMMARY: Final = 400
_NO_CHILD: Final = "The host's store of this workspace holds no child run {id}. The journal still holds what was asked and answered."


# Child runs


def unknown(child_run_id: str) -> str:
    """What is said of a child run that the host's store does not know."""
    return _NO_CHILD.format(id=child_run_id)


def facts(child: ChildRun, now: int) -> Iterator[tuple[str, str]]:
    """What is known of a child run, each with its name."""
    yield "status", child.status
    yield "agent", f"{child.agent}, backend {child.backend}, {child.badge}"
    yield "step", f"{child.step_id}, attempt {child.attempt}, of {child.workflow_run}"
    yield "child run", child.run_id
    yield "thread", child.thread_id
    yield "asked", f"{words.absolute(child.created_at)}, {words.ago(child.created_at, now)}"
    yield (
        "lives",
        "outside this host: it outlives it" if child.durable else "inside this host: it ends with it",
    )


def counted(child: ChildRun) -> str:
    """How many events a child run has, and how many of them are shown."""
    more = "" if not child.more else f"; the first {MOST_EVENTS:,} are shown"
    return f"{words.count(len(child.events), 'event')}{more}"


def since(child: ChildRun, event: ChildEvent) -> str:
    """When an event came, from when the child run was asked."""
    return words.after(event.at - child.created_at)


def summary(event: ChildEvent) -> str:
    """One inert line of an event: its content, else its metadata."""
    text = event.content if event.content is not None else event.metadata if event.metadata != "{}" else ""
    return shorten(" ".join(text[: _SUMMARY * 2].split()), _SUMMARY)


def parts(event: ChildEvent) -> Iterator[tuple[str, str]]:
    """What an event holds, each with its name: its content and its metadata, where there are any."""
    if event.content is not None:
        yield "content", event.content
    if event.metadata != "{}":
        yield "metadata", event.metadata


def cut(event: ChildEvent) -> str:
    """That an event's content is longer than what is shown; empty where it is not."""
    return f"The first {words.kib(MOST_CONTENT)} are shown." if event.cut else ""


def child_document(child: ChildRun) -> dict[str, Any]:
    """A child run with its events. Contents and metadata are parsed; a cut or broken one is text."""
    from workflows_core.model import iso

    return {
        "child_run_id": child.run_id,
        "thread_id": child.thread_id,
        "agent_ref": child.agent,
        "run_id": child.workflow_run,
        "step_id": child.step_id,
        "attempt": child.attempt,
        "backend": child.backend,
        "badge": child.badge,
        "durable": child.durable,
        "status": child.status,
        "created_at": iso(child.created_at),
        "updated_at": iso(child.updated_at),
        "events": [
            {
                "seq": event.seq,
                "at": iso(event.at),
                "event_type": event.event_type,
                "category": event.category,
                "content": None if event.content is None else _parsed(event.content),
                "metadata": _parsed(event.metadata),
                "cut": event.cut,
            }
            for event in child.events
        ],
        "more": child.more,
    }


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# Assemblies


def evidence_head(step: StepView) -> list[str]:
    """Whose evidence a step has: Agent, badge and fingerprint."""
    fingerprint = (step.evidence or {}).get("fingerprint")
    known = [step.agent_ref or "", step.badge or ""]
    if isinstance(fingerprint, str):
        known.append(f"fingerprint {words.hash7(fingerprint)}")
    return [part for part in known if part]


def compared(told: Assembled | None, step: StepView, run_id: str, now: int) -> Iterator[Told]:
    """How the assembly of a step's Agent compares with the one before it; None: the host does not know its child run."""
    if told is None:
        yield (
            ("The host's store does not hold its child run, so there is nothing to compare with.", "quiet"),
        )
        return
    if told.comparison == ONLY:
        agent = step.agent_ref or "the Agent"
        yield ((f"The first assembly of {agent} that this host knows.", "quiet"),)
        return
    before = f"{told.before_step} of {'this run' if told.before_run == run_id else told.before_run}"
    when = "" if told.before_at is None else f", {words.ago(told.before_at, now)}"
    if told.comparison == NOT_COMPARABLE:
        yield ("not comparable", "waiting"), (f"  with {before}{when}", "quiet")
        yield (("  Another lifetime of the host: its versions have other keys.", "quiet"),)
        return
    if told.comparison != CHANGED:
        yield ("the same", "good"), (f"  as for {before}{when}", "quiet")
        return
    yield (words.count(len(told.changes), "change"), "waiting"), (f"  since {before}{when}", "quiet")
    signs = {"added": ("+", "good"), "removed": ("-", "bad")}
    for change in told.changes:
        sign, tone = signs.get(change.what, ("~", "waiting"))
        numbers = f"  {change.numbers}" if change.numbers else ""
        yield (f"  {sign} ", tone), (change.component, ""), (f"  {change.what}{numbers}", "quiet")


def assembly_document(told: Assembled | None, evidence: Mapping[str, Any] | None) -> dict[str, Any]:
    """What ``step --evidence --json`` adds; ``comparison`` is null where the host does not know the child run."""
    from workflows_core.model import iso

    before = None
    if told is not None and told.before_run:
        at = None if told.before_at is None else iso(told.before_at)
        before = {"run_id": told.before_run, "step_id": told.before_step, "at": at}
    changes = () if told is None else told.changes
    return {
        "evidence": None if evidence is None else dict(evidence),
        "comparison": None if told is None else told.comparison,
        "before": before,
        "changes": [{"component": it.component, "what": it.what, "numbers": it.numbers} for it in changes],
    }
