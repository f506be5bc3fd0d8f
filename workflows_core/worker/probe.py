"""A worker that looks on while a recorded run is replayed: it stops anywhere and tells what is in sight.

It is a worker of its own program: what it knows beside a plain one (``probe.js``, ``probe_child.py``) is not in the
runtime signature, and it never runs a live script. Probes cost time, so it is held laxer; whoever uses it compares
what the script asks with what was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from ..errors import ScriptRefused
from ..jsontext import encode
from ..limits import Limits
from . import protocol
from .ahead import Expected, ReplayWorker
from .launch import CHILD_PARTS, PRELUDE_PARTS, Program
from .protocol import FrameRefused, pack

PROBING: Final = Program((*CHILD_PARTS, "ahead_child.py", "probe_child.py"), (*PRELUDE_PARTS, "probe.js"))
#: How much laxer this worker is held: probes cost a busy loop most of its time.
PROBE_FACTOR = 4
_ANSWER_PARTS = 100
_PROBE, _COMMAND, _ANSWER_PART, _ANSWER, _BEGAN = 79, 75, 110, 78, 116  # as in probe_child.py


class Bounds(msgspec.Struct, frozen=True):
    """How much of values is shown: levels, members a level, characters a text, characters in all."""

    depth: int = 6
    keys: int = 100
    text: int = 4_000
    budget: int = 40_000


class Stop(msgspec.Struct, frozen=True):
    """Where the script stands. ``stop`` is statement, breakpoint or call (paused inside JavaScript), idle (as many
    turns as wanted were run), waiting (nothing is left to give it) or end. ``statements`` counts those begun,
    ``site`` is the number of the latest, ``queued`` counts the calls made. ``recorded`` is the statement count of
    the latest breakpoint passed without a stop, or -1.
    """

    stop: str
    statements: int
    site: int
    queued: int
    recorded: int
    ended: bool


class ProbedWorker(ReplayWorker):
    """Made by ``open``; ``go`` and ``look`` one at a time. Turns are collected for ``taken_turns``."""

    _program = PROBING

    @classmethod
    async def open(
        cls,
        *,
        script: str,
        probe: str,
        sites: int,
        args: bytes,
        limits: Limits,
        batches: Sequence[Sequence[bytes]],
        expected: Iterable[Expected] = (),
    ) -> ProbedWorker:
        """Start the worker with a script whose probes are called ``probe`` (empty: it has none) and hand all
        responses over; ``expected`` as for ``run_ahead``. Raises ScriptRefused and WorkerDied as ``Worker.start`` does.
        """
        last = pack(_PROBE, probe.encode()) + pack(protocol.ARGS, args)
        worker, problem = await cls._open(script, last, limits, PROBE_FACTOR)
        if problem is not None:
            await worker.close()
            raise ScriptRefused(problem.message, code=problem.code, line=problem.line, column=problem.column)
        try:
            worker._sites = sites
            worker._expecting.expected.extend(expected)
            worker._outgoing += worker._laid_ahead(batches)
            worker._flush()
        except BaseException:  # what was recorded cannot be handed over
            await worker.close()
            raise
        return worker

    def __init__(self, script: str) -> None:
        super().__init__(script)
        self._sites = 0
        self._parts: list[bytes] = []
        self.ran = False
        #: How many statements had begun as far as a traced worker has told.
        self.began = 0

    async def go(
        self,
        *,
        turns: int = -1,
        statement: int = -1,
        call: int = -1,
        stops: Sequence[int] = (),
        after: int = 0,
        capture: bool = True,
        count: bool = False,
        trace: bool = False,
    ) -> Stop:
        """Run until the first stop: ``turns`` turns in all (-1: to the end), the ``statement``-th statement, the
        ``call``-th call from 0, or a statement of the numbers ``stops`` when more than ``after`` have begun.
        ``capture`` keeps what is in sight at each statement, which the three need; ``count`` counts statements;
        ``trace`` keeps ``began`` true also of a worker that is killed on the way.
        Raises WorkerDied.
        """
        plan = {
            "turns": turns, "op": "go", "statement": statement, "call": call, "stops": list(stops), "from": after,
            "capture": capture, "count": count, "trace": trace, "sites": self._sites,
        }  # fmt: skip
        answer = await self._ask(json.dumps(plan, separators=(",", ":")).encode())
        return msgspec.convert(answer, Stop)

    async def look(
        self,
        expressions: Sequence[str],
        *,
        call: int | None = None,
        site: int | None = None,
        bounds: Bounds | None = None,
    ) -> list[Any]:
        """The values of ``expressions`` where the script stands, where call number ``call`` was made, or where
        statement number ``site`` began the last time.

        What JSON cannot say appears as ``{"$type": …}``; an expression that throws as its error. ``ran`` says
        afterwards whether they ran a statement of the script. Raises WorkerDied where one does not end.
        """
        within = bounds if bounds is not None else Bounds()
        command = {
            "op": "look", "expressions": list(expressions), "call": call, "site": -1 if site is None else site,
            **msgspec.structs.asdict(within),
        }  # fmt: skip
        answer = await self._ask(encode(command))
        self.ran = bool(answer["ran"])
        found: list[Any] = answer["values"]
        return found

    async def tell_sites(self, sites: Sequence[int]) -> None:
        """Say by which statement each call, from 0, is made (-1: unknown), so that its variables are found."""
        await self._ask(encode({"op": "calls", "sites": list(sites)}))

    async def site_of(self, call: int) -> int:
        """The number of the statement that made the call with this id; -1 where no statement has begun."""
        found: int = await self._ask(encode({"op": "where", "call": call, "site": -1}))
        return found

    async def latest(self, sites: Sequence[int]) -> int:
        """Which of the statements of these numbers began last; -1 where none has begun."""
        found: int = await self._ask(encode({"op": "latest", "sites": list(sites)}))
        return found

    async def hits(self) -> list[int]:
        """How often each statement began, by its number, since the first ``go`` with ``count``."""
        found: list[int] = await self._ask(b'{"op":"hits"}')
        return found

    def taken_turns(self) -> list[Any]:
        """The turns that ended since the last call, in order."""
        turns = [*self._turns]
        self._turns.clear()
        return turns

    async def _ask(self, command: bytes) -> Any:
        answer = self._wait()
        self._outgoing += pack(_COMMAND, command)
        self._flush()
        return json.loads(await answer)

    def _frame(self, kind: int, payload: bytes) -> None:
        if kind == _BEGAN:
            self.began = int(payload)
            return
        if self._starting or kind not in (_ANSWER_PART, _ANSWER):
            super()._frame(kind, payload)
            return
        self._parts.append(payload)
        if len(self._parts) > _ANSWER_PARTS:
            raise FrameRefused("an answer without an end")
        if kind == _ANSWER and self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(b"".join(self._parts))
            self._parts = []

    def _turn_done(self, turn: Any) -> None:
        self._turns.append(turn)
