"""Stub sets: parsing, matching and the answers they give.

A stub set is a list of entries; the first entry that matches a call answers it. ``parse_stub_set`` is strict
about a file and reports the line; ``StubSet`` is what a run keeps, made from the plain JSON of the entries.
Without a match the agent echoes its task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from extension_api.agent_runs import AgentRunStatus
from extension_api.hashing import canonical_hash
from workflows_core.errors import UsageError

from ..inert import inert
from ..yamltext import Document, YamlRefused, parse
from .base import Answer, Compaction, Subagent, SystemCall
from .stubcheck import ANSWERS, check_entry
from .template import TemplateError, fill

STUB_SET_BYTES: Final = 3 * 1024 * 1024
#: The code of a failure whose entry names none.
STUB_FAILED: Final = "stub_failed"


class StubEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry, ready to match. ``index`` is its place in the list, from 0."""

    index: int
    agent: str
    step: str
    has_task: bool
    task: Any
    request: str | None
    turn: int | None
    kind: str
    value: Any
    code: str
    after: float
    files: Mapping[str, str] | None
    system: tuple[SystemCall, ...]
    compact: Compaction | None
    subagents: tuple[Subagent, ...]

    @property
    def counted(self) -> bool:
        """Whether its answer depends on how often it has answered before."""
        return self.kind == "replies"

    @property
    def badge(self) -> str:
        """``recorded`` for an entry that carries the hash of the request it was recorded from."""
        return "stub" if self.request is None else "recorded"

    def matches(self, agent_ref: str, step_id: str, child_input: Mapping[str, Any]) -> bool:
        return (
            fnmatchcase(agent_ref, self.agent)
            and fnmatchcase(step_id, self.step)
            and (not self.has_task or covers(self.task, child_input.get("task")))
            and (self.request is None or self.request == request_hash(agent_ref, child_input))
        )

    def answer(self, task: Any, earlier: int) -> Answer | None:
        """What the call gets; None where it hangs. ``earlier`` counts the calls it answered in this run."""
        if self.kind == "hang":
            return None
        if self.kind == "fail":
            return Answer(AgentRunStatus.ERROR, error_code=self.code, error_message=self.value)
        if self.kind == "needs_input":
            return Answer(AgentRunStatus.WAITING_INPUT, error_code="needs_input", error_message=self.value)
        reply = self.value
        if self.kind == "replies":
            if earlier >= len(reply):
                return Answer(
                    AgentRunStatus.ERROR,
                    error_code="stub_exhausted",
                    error_message=f"stub entry {self.index + 1} has {len(reply)} replies and was called "
                    f"{earlier + 1} times in this run; add a reply or another entry",
                )
            reply = reply[earlier]
        if self.request is not None:  # what was recorded is said as it was said, braces included
            return Answer(AgentRunStatus.SUCCESS, output=reply)
        try:
            return Answer(AgentRunStatus.SUCCESS, output=fill(reply, task))
        except TemplateError as error:
            return Answer(
                AgentRunStatus.ERROR,
                error_code="stub_template",
                error_message=f"stub entry {self.index + 1}: {error}",
            )


class StubSet:
    """The entries of one set. ``hash`` is the SHA-256 of their canonical JSON."""

    def __init__(self, entries: Sequence[Any]) -> None:
        """``entries`` as ``parse_stub_set`` returns them. Raises UsageError where an entry breaks a rule."""
        plain = list(entries)
        try:
            _check(Document("the stub set", plain, {}))
            self.hash = canonical_hash(plain)
        except (YamlRefused, TypeError, UnicodeEncodeError) as error:
            raise UsageError(str(error), code="stub_set") from None
        self.entries = tuple(_entry(index, item) for index, item in enumerate(plain))
        #: The batch of each recorded call that has one, by its step.
        self.turns = {entry.step: entry.turn for entry in self.entries if entry.turn is not None}

    def match(self, agent_ref: str, step_id: str, child_input: Mapping[str, Any]) -> StubEntry | None:
        """The entry that answers this call, or None: then the agent echoes its task."""
        for entry in self.entries:
            if entry.matches(agent_ref, step_id, child_input):
                return entry
        return None


def request_hash(agent_ref: str, child_input: Mapping[str, Any]) -> str:
    """What a recording keeps of the request: the hash of the agent's name and the child's whole input."""
    return canonical_hash({"agent": agent_ref, "input": dict(child_input)})


def covers(pattern: Any, value: Any) -> bool:
    """Whether ``pattern`` is a subset of ``value``: mappings by their keys, all else by JSON equality."""
    if isinstance(pattern, dict):
        return isinstance(value, Mapping) and all(
            key in value and covers(part, value[key]) for key, part in pattern.items()
        )
    if isinstance(pattern, list):
        return (
            isinstance(value, list | tuple)
            and len(pattern) == len(value)
            and all(covers(part, item) for part, item in zip(pattern, value, strict=True))
        )
    if isinstance(pattern, bool) or isinstance(value, bool):
        return pattern is value
    return bool(pattern == value)


def parse_stub_set(text: str | bytes, name: str) -> list[dict[str, Any]]:
    """The entries of a stub set file as plain JSON; ``name`` is the file as messages call it.

    Raises UsageError with file, line, column, path and what to write instead.
    """
    if len(text) > STUB_SET_BYTES:
        raise UsageError(f"{inert(name)} is larger than {STUB_SET_BYTES // 1024 // 1024} MiB")
    try:
        return _check(parse(text, name))
    except YamlRefused as error:
        raise UsageError(error.message, code="stub_set") from None


def _check(document: Document) -> list[dict[str, Any]]:
    value = document.value
    if value is None:
        return []
    if not isinstance(value, list):
        document.refuse((), "a stub set is a list of entries; start each entry with '- '")
    for index, item in enumerate(value):
        check_entry(document, (index,), item)
    return value


def _entry(index: int, item: Mapping[str, Any]) -> StubEntry:
    kind = next(key for key in ANSWERS if key in item)
    compact = item.get("compact")
    return StubEntry(
        index=index,
        agent=item.get("agent", "*"),
        step=item.get("step", "*"),
        has_task="task" in item,
        task=item.get("task"),
        request=item.get("request"),
        turn=item.get("turn"),
        kind=kind,
        value=item[kind],
        code=item.get("code", STUB_FAILED),
        after=item.get("after", 0),
        files=item.get("files"),
        system=tuple(SystemCall(**part) for part in item.get("system", ())),
        compact=None
        if compact is None
        else Compaction(**{**compact, "messages": tuple(compact["messages"])}),
        subagents=tuple(Subagent(**part) for part in item.get("subagents", ())),
    )
