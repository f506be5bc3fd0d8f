"""Worker processes from the outside: start, one turn at a time, and the end on every path.

All of it runs in the asyncio loop of the caller. A worker is one process that holds one script; it answers
``first_turn`` and each ``give`` with a Turn, and costs nothing while it waits.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

import msgspec

from ..errors import ScriptRefused
from ..limits import EXIT_WATCH_SECONDS, Limits
from . import protocol
from .launch import PLAIN, REPLAY_FACTOR, Spawned, runtime_signature, set_up, spawn
from .outcome import SyntaxProblem, WorkerDeath, WorkerDied, broken, death, judged, not_started
from .protocol import FrameRefused, pack
from .turns import EndFrame, RequestFrame, Turn, TurnReader

__all__ = [
    "EndFrame",
    "RequestFrame",
    "SyntaxProblem",
    "Turn",
    "Worker",
    "WorkerDeath",
    "WorkerDied",
    "compile_script",
    "runtime_signature",
]

_READ_BYTES = 65536
_STDERR_KEPT = 4096


class _Result(msgspec.Struct):
    id: int


class _Results(msgspec.Struct):
    results: list[_Result]


_RESULTS: Final = msgspec.json.Decoder(_Results)


class Worker:
    """One worker process. Made by ``start``; whatever happens then, ``close`` it."""

    _program = PLAIN

    def __init__(self, script: str) -> None:
        self._script = script
        self._loop = asyncio.get_running_loop()
        self._reader = TurnReader(script)
        self._spawned: Spawned | None = None
        self._pidfd: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._writing = False
        self._stderr = bytearray()
        self._starting = True
        self._waiting: asyncio.Future[Any] | None = None
        self._died: WorkerDied | None = None
        self._exited: asyncio.Future[WorkerDied] = self._loop.create_future()

    @classmethod
    async def start(cls, *, script: str, args: bytes, limits: Limits, replay: bool = False) -> Self:
        """Start a worker, compile the script in it and hand over ``args``, the canonical JSON of an object.

        Nothing of the script runs before ``first_turn``. ``replay`` holds it ten times laxer. Raises
        ScriptRefused, with the position, when the script is not one function body that the engine compiles,
        and WorkerDied when the process cannot be started or fails.
        """
        last = pack(protocol.ARGS, args)
        worker, problem = await cls._open(script, last, limits, REPLAY_FACTOR if replay else 1)
        if problem is not None:
            await worker.close()
            raise ScriptRefused(problem.message, code=problem.code, line=problem.line, column=problem.column)
        return worker

    @classmethod
    async def _open(
        cls, script: str, last: bytes, limits: Limits, factor: int
    ) -> tuple[Self, SyntaxProblem | None]:
        first = set_up(script, last, limits, factor, cls._program)
        worker = cls(script)
        try:
            worker._spawn(first)
            kind, payload = await worker._wait()
            return worker, judged(script, kind, payload)
        except BaseException:
            await worker.close()
            raise

    @property
    def pid(self) -> int:
        """The process id; the process may be gone already."""
        assert self._spawned is not None
        return self._spawned.process.pid

    @property
    def exited(self) -> asyncio.Future[WorkerDied]:
        """Done once the process is gone, also when it dies idle. The result says why; it never raises."""
        return self._exited

    @property
    def stderr(self) -> str:
        """The end of what the process wrote to standard error: for a log, never for a journal or a screen."""
        return self._stderr.decode("utf-8", "replace")

    async def first_turn(self) -> Turn:
        """Run the script from its start until it waits or ends. Raises WorkerDied."""
        return await self._turn(pack(protocol.GO, b""))

    async def give(self, frames: Sequence[bytes]) -> Turn:
        """Hand over one batch of responses, in one entry, and run the script until it waits or ends.

        ``frames`` are canonical bodies ``{"results":[…]}``, exactly as journaled. Raises WorkerDied; ValueError
        for a batch that is empty, too large for a frame, or answers a call that is not outstanding.
        """
        if self._died is not None:
            raise self._died
        if not frames:
            raise ValueError("a response batch has at least one frame")
        data = bytearray()
        answered: list[int] = []
        for number, frame in enumerate(frames, 1):
            if len(frame) > protocol.FRAME_BYTES:
                raise ValueError(f"a response frame of {len(frame)} bytes; at most {protocol.FRAME_BYTES}")
            answered += [result.id for result in _RESULTS.decode(frame).results]
            data += pack(protocol.RESPONSE_LAST if number == len(frames) else protocol.RESPONSE, frame)
        self._reader.answer(answered)
        return await self._turn(data)

    def kill(self) -> None:
        """Kill the process at once; whoever waits for a turn gets WorkerDied. ``close`` still reaps it."""
        if self._died is None:
            self._kill(WorkerDied(WorkerDeath.KILLED, "The worker was stopped."))

    async def close(self) -> None:
        """Kill the process and reap it. Idempotent; when cancelled, it finishes first and raises then."""
        if self._spawned is not None and not self._exited.done():
            self._kill(WorkerDied(WorkerDeath.KILLED, "The worker was stopped."))
            try:
                await asyncio.shield(self._exited)
            finally:
                if not self._exited.done():
                    self._spawned.process.wait()
                    self._reap()
        elif not self._exited.done():
            self._finish(WorkerDied(WorkerDeath.EXITED, "The worker process could not be started."))

    # ---- the process ----------------------------------------------------------------------------------

    def _spawn(self, first: bytes) -> None:
        try:
            self._spawned, written = spawn(first, self._program)
        except OSError as error:
            raise not_started(error) from error
        self._loop.add_reader(self._spawned.stdout, self._on_output)
        self._loop.add_reader(self._spawned.stderr, self._on_stderr)
        if written < len(first):
            self._outgoing += first[written:]
            self._flush()
        try:
            self._pidfd = os.pidfd_open(self._spawned.process.pid)
        except (AttributeError, OSError):  # not Linux, or a system that filters the call
            self._poll()
        else:
            self._loop.add_reader(self._pidfd, self._reap)

    def _poll(self) -> None:
        self._reap()
        if not self._exited.done():
            self._timer = self._loop.call_later(EXIT_WATCH_SECONDS, self._poll)

    def _kill(self, died: WorkerDied) -> None:
        """End the process and remember why; the exit watch does the rest."""
        if self._died is None:
            self._died = died
        if self._spawned is not None and self._spawned.process.poll() is None:
            os.kill(self._spawned.process.pid, signal.SIGKILL)

    def _reap(self) -> None:
        """When the process is gone: take what it still said, and let go of everything."""
        spawned = self._spawned
        if spawned is None or self._exited.done() or (code := spawned.process.poll()) is None:
            return
        while self._died is None and self._read(spawned.stdout, self._take):
            pass
        while self._read(spawned.stderr, self._keep):
            pass
        for fd in (spawned.stdout, spawned.stderr):
            self._loop.remove_reader(fd)
        self._loop.remove_writer(spawned.stdin)
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        if self._timer is not None:
            self._timer.cancel()
        spawned.close()
        self._finish(self._died or death(code))

    def _finish(self, died: WorkerDied) -> None:
        self._died = died
        self._exited.set_result(died)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(died)

    # ---- the bytes ------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Write what the pipe takes; the rest follows when the child has read."""
        assert self._spawned is not None
        stdin = self._spawned.stdin
        try:
            del self._outgoing[: os.write(stdin, self._outgoing)]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # the process is going, and its exit says why
            self._outgoing.clear()
        if bool(self._outgoing) is not self._writing:
            self._writing = not self._writing
            if self._writing:
                self._loop.add_writer(stdin, self._flush)
            else:
                self._loop.remove_writer(stdin)

    def _on_output(self) -> None:
        assert self._spawned is not None
        if not self._read(self._spawned.stdout, self._take):
            self._loop.remove_reader(self._spawned.stdout)

    def _on_stderr(self) -> None:
        assert self._spawned is not None
        if not self._read(self._spawned.stderr, self._keep):
            self._loop.remove_reader(self._spawned.stderr)

    def _read(self, fd: int, take: Callable[[bytes], None]) -> bool:
        """Read once. False when there is nothing now and, as the pipe was reported readable, never will be."""
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            take(data)
        return bool(data)

    def _keep(self, data: bytes) -> None:
        self._stderr += data
        del self._stderr[:-_STDERR_KEPT]

    def _take(self, data: bytes) -> None:
        if self._died is not None:
            return
        self._incoming += data
        try:
            for kind, payload in protocol.split(self._incoming):
                self._frame(kind, payload)
        except FrameRefused as error:
            self._kill(broken(error))

    def _frame(self, kind: int, payload: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            raise FrameRefused("a frame out of turn")
        if self._starting:
            self._starting = False
            self._waiting.set_result((kind, payload))
        elif (turn := self._reader.feed(kind, payload)) is not None:
            self._waiting.set_result(turn)

    def _wait(self) -> asyncio.Future[Any]:
        if self._died is not None:
            raise self._died
        if self._waiting is not None and not self._waiting.done():
            raise RuntimeError("a worker runs one turn at a time")
        self._waiting = self._loop.create_future()
        return self._waiting

    async def _turn(self, data: bytes | bytearray) -> Turn:
        answer: asyncio.Future[Turn] = self._wait()
        self._outgoing += data
        self._flush()
        return await answer


async def compile_script(script: str) -> SyntaxProblem | None:
    """What the engine says of a script, in a throw-away worker that never runs it; None when it compiles.

    Raises ScriptRefused for text that no engine can be given, and WorkerDied when the process fails.
    """
    worker, problem = await Worker._open(script, pack(protocol.COMPILE, b""), Limits(), 1)
    await worker.close()
    return problem
