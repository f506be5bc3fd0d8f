"""The stub backend: answers from the stub set that a run keeps, decided once, at admission.

The answer and its due time are recorded with the child run, so a stub child outlives a crash of the workbench
as a remote one would. ``options`` hold the set by content (``stubs``) and by hash (``stubs_hash``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final

from extension_api.agent_runs import AgentRunStatus
from extension_api.hashing import canonical_hash
from workflows_core.errors import UsageError

from .base import (
    AgentDescription,
    Answer,
    BackendUnavailable,
    Call,
    ChildRef,
    EarlierCalls,
    FileRefused,
    Started,
    Turn,
)
from .names import STUB
from .stubcheck import decode_file, path_problem
from .stuborder import Orders
from .stubset import StubSet

SECOND: Final = 1_000_000
_KEPT_SETS: Final = 32
_USER_DATA: Final = "mnt/user-data/"

_MEDIA_TYPES: Final[Mapping[str, str]] = {
    "md": "text/markdown", "txt": "text/plain", "csv": "text/csv", "html": "text/html",
    "json": "application/json", "pdf": "application/pdf", "xml": "application/xml",
    "yaml": "application/yaml", "yml": "application/yaml", "js": "text/javascript",
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
    "webp": "image/webp", "svg": "image/svg+xml",
}  # fmt: skip


class StubBackend:
    """Answers without asking anybody."""

    name = STUB
    durable = True

    def __init__(self) -> None:
        self._sets: dict[str, StubSet] = {}
        self._orders = Orders()

    def stub_set(self, options: Mapping[str, Any]) -> StubSet:
        """The set that ``options`` hold, parsed once per hash.

        Raises BackendUnavailable where it is not a stub set or is not what its hash says.
        """
        digest = options.get("stubs_hash")
        known = self._sets.get(digest) if isinstance(digest, str) else None
        if known is not None:
            return known
        entries = options.get("stubs", [])
        if not isinstance(entries, list | tuple):
            raise BackendUnavailable("the run's stub set is not a list of entries")
        try:
            made = StubSet(entries)
        except UsageError as error:
            raise BackendUnavailable(error.message) from None
        if digest is not None and digest != made.hash:
            raise BackendUnavailable("the run's stub set is not the one that its hash names")
        if len(self._sets) >= _KEPT_SETS:
            self._sets.pop(next(iter(self._sets)))
        self._sets[made.hash] = made
        return made

    def pins(self, options: Mapping[str, Any]) -> bool:
        """Whether every entry of the set has the hash of its request. Raises BackendUnavailable."""
        return all(entry.request is not None for entry in self.stub_set(options).entries)

    def pinned(
        self, options: Mapping[str, Any], agent_ref: str, step_id: str, child_input: Mapping[str, Any]
    ) -> bool:
        """Whether the set holds the recorded result of exactly this request. Raises BackendUnavailable."""
        entry = self.stub_set(options).match(agent_ref, step_id, child_input)
        return entry is not None and entry.request is not None

    def describe(
        self, agent_ref: str, settings: Mapping[str, Any], options: Mapping[str, Any]
    ) -> AgentDescription:
        return AgentDescription(effective_model=f"stub/{self.stub_set(options).hash}")

    def start(self, call: Call, earlier: EarlierCalls, now: int) -> Started:
        task = call.input.get("task")
        entry = self.stub_set(call.options).match(call.agent_ref, call.step_id, call.input)
        if entry is None:
            return Started(
                badge="stub", durable=True, answer=Answer(AgentRunStatus.SUCCESS, output=task), due=now
            )
        answer = entry.answer(task, earlier(call.run_id, entry.index) if entry.counted else 0)
        waits = (
            entry.after
            + sum(part.after for part in entry.system)
            + sum(part.after for part in entry.subagents)
        )
        return Started(
            badge=entry.badge,
            durable=True,
            answer=answer,
            due=None if answer is None else now + round(waits * SECOND),
            counted=entry.index if entry.counted else None,
            files=entry.files,
            system=entry.system,
            compact=entry.compact,
            subagents=entry.subagents,
            turn=None if answer is None or entry.turn is None else self._turn(call, entry.turn),
        )

    def _turn(self, call: Call, turn: int) -> Turn:
        order = self._orders.of(call.run_id, self.stub_set(call.options).turns, whole=True)
        return Turn(turn, lambda: order.turn(call.step_id, turn))

    def rejoin(self, run_id: str, step_id: str, turn: int, still_open: Mapping[str, int]) -> Turn:
        order = self._orders.of(run_id, still_open, whole=False)
        return Turn(turn, lambda: order.turn(step_id, turn))

    def delivered(self, run_id: str, step_ids: Collection[str]) -> None:
        self._orders.delivered(run_id, step_ids)

    async def observe(self, child: ChildRef, call: Call | None) -> Answer:
        """A stub without an answer hangs: only an interruption ends the wait."""
        answer: Answer = await asyncio.get_running_loop().create_future()
        return answer

    async def interrupt(self, child: ChildRef) -> None:
        """Nothing runs that could be stopped."""

    async def read_file(
        self, child: ChildRef, files: Mapping[str, str] | None, path: str, *, max_bytes: int
    ) -> tuple[bytes, str]:
        problem = path_problem(path)
        if problem is not None:
            raise FileRefused("bad_path", f"the path {problem}")
        for name, content in (files or {}).items():
            if _plain(name) == _plain(path):
                data = decode_file(content)
                if len(data) > max_bytes:
                    raise FileRefused(
                        "file_too_large", f"the file is {len(data):,} bytes; admitted are {max_bytes:,}"
                    )
                return data, media_type(name)
        have = ", ".join(sorted(files or {})) or "none"
        raise FileRefused("file_not_found", f"the stub left no file of that name (files: {have})")


def media_type(name: str) -> str:
    """The media type by the name's ending, from a fixed table, so that it is the same on every machine."""
    return _MEDIA_TYPES.get(name.rpartition(".")[2].lower(), "application/octet-stream")


def _plain(path: str) -> str:
    """The path inside the child's folder: a real Agent's folder is called ``/mnt/user-data``."""
    return path.removeprefix("/").removeprefix(_USER_DATA)


def empty_stub_options() -> dict[str, Any]:
    """Launch options without a stub set: every agent echoes its task."""
    return {"agents": "stub", "stubs": [], "stubs_hash": canonical_hash([]), "label": "no stub set"}
