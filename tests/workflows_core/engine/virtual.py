"""A world without chance: time that passes only while nothing can be done, and workers that answer when told to.

What runs in a ``VirtualLoop`` runs the same way each time. A sleep costs nothing: when no callback is left, time
jumps to the next timer. Nothing else may wake the loop, so workers are read by blocking, at a moment that a seeded
generator chooses; between the question and that moment everything else goes on. Identifiers are drawn from the same
generator, and the clock moves on by a microsecond whenever it is read.
"""

from __future__ import annotations

import asyncio
import os
import random
import selectors
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

import pytest

from workflows_core.worker.outcome import not_started
from workflows_core.worker.process import Worker, WorkerDied

from .nursery import nursery

#: How long a worker may really take for a turn before the test gives up.
PATIENCE_SECONDS: Final = 60.0
#: Virtual seconds that a worker takes.
TURN_SECONDS: Final = (0.0, 0.0, 0.0005, 0.002, 0.02)
_EPOCH: Final = 1_700_000_000 * 10**9


class _Selector(selectors.SelectSelector):
    """Never looks at a file: the time until the next timer passes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing can ever happen again: every task waits, and no timer is set")
        self.now += max(0.0, timeout)
        return []


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], *, number: int, **named: Any) -> None:
        self._number = number
        super().__init__(coroutine, **named)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, for coroutines that wait for tasks and timers only."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)
        numbers = count()

        def task(loop: Any, coroutine: Any, **named: Any) -> asyncio.Future[Any]:
            return _Task(coroutine, number=next(numbers), loop=loop, **named)

        self.set_task_factory(task)

    def time(self) -> float:
        return self._virtual.now


class SteppedWorker(Worker):
    """A real worker process that is read by blocking, a drawn time after it was asked."""

    draw: random.Random

    def _spawn(self, first: bytes) -> None:
        try:
            self._spawned, written = nursery().spawn(first, self._program)
        except OSError as error:
            raise not_started(error) from error
        self._outgoing += first[written:]

    def _flush(self) -> None:
        """Nothing is written before the worker is read."""

    def _wait(self) -> asyncio.Future[Any]:
        answer = super()._wait()
        self._loop.call_later(self.draw.choice(TURN_SECONDS), self._pump, answer)
        return answer

    def _pump(self, answer: asyncio.Future[Any]) -> None:
        """Write all there is to write and read until the question is answered or the process is gone."""
        spawned = self._spawned
        assert spawned is not None
        while not answer.done() and not self._exited.done() and self._died is None:
            with selectors.PollSelector() as ready:
                ready.register(spawned.stdout, selectors.EVENT_READ)
                if self._outgoing:
                    ready.register(spawned.stdin, selectors.EVENT_WRITE)
                found = {key.fd for key, _ in ready.select(PATIENCE_SECONDS)}
            assert found, "the worker does not answer"
            if spawned.stdin in found:
                try:
                    del self._outgoing[: os.write(spawned.stdin, self._outgoing)]
                except BrokenPipeError:
                    self._outgoing.clear()
            if spawned.stdout in found and not self._read(spawned.stdout, self._take):
                spawned.process.wait()
                self._reap()

    def _kill(self, died: WorkerDied) -> None:
        super()._kill(died)
        self._ended()

    def perish(self) -> None:
        """Let the process die as one that somebody kills from outside."""
        if self._spawned is not None and self._spawned.process.poll() is None:
            os.kill(self._spawned.process.pid, signal.SIGKILL)
            self._ended()

    def _ended(self) -> None:
        if self._spawned is not None:
            self._spawned.process.wait()
            self._loop.call_soon(self._reap)


class Clock:
    """Stands in for the clocks of the machine: boot time, which never jumps, and wall-clock time, which may."""

    def __init__(self, loop: Callable[[], float]) -> None:
        self.offset = 0
        self._loop = loop
        self._reads = 0

    def boot_ns(self) -> int:
        self._reads += 1
        return self._reads * 1_000 + int(self._loop() * 1e9)

    def wall_ns(self) -> int:
        return _EPOCH + self.offset + self.boot_ns()


class _Drawn:
    """Stands in for the secrets module inside workflows_core.model."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def token_hex(self, size: int) -> str:
        return self._draw.randbytes(size).hex()


@contextmanager
def virtual_world(seed: int) -> Iterator[tuple[asyncio.Runner, Clock]]:
    """A loop, a clock and an engine in which nothing but ``seed`` decides."""
    draw = random.Random(f"world {seed}")
    worker = type("SeededWorker", (SteppedWorker,), {"draw": draw})
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        clock = Clock(loop.time)
        replaced: Mapping[str, Any] = {
            "clock.boot_ns": clock.boot_ns,
            "clock.wall_ns": clock.wall_ns,
            "clock._offset": None,
            "model.secrets": _Drawn(draw),
            "engine.budget.boot_time": loop.time,
            "engine.supervisor.Worker": worker,
            "engine.recovery.Worker": worker,
        }
        for name, value in replaced.items():
            patch.setattr(f"workflows_core.{name}", value)
        yield runner, clock
