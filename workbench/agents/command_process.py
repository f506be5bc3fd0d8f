"""One program of a command agent from the outside: start, feed, read, stop, and the end on every path.

All of it runs in the asyncio loop of the caller and blocks nothing. The program runs behind a guard process (see
``command_guard``) that kills whatever is left of it once it ends, is stopped, or this process is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_GUARD: Final = Path(__file__).with_name("command_guard.py")
_READ_BYTES: Final = 65_536
STDERR_KEPT: Final = 4096
#: How long the guard may take to end everything once it was told to, beyond the grace.
_GUARD_SECONDS: Final = 8.0


class Ended(NamedTuple):
    """How a program ended: by an exit code, by a signal, or ``unstarted`` (in words why); else nobody knows.

    ``stdout`` is whole unless ``too_much``; ``stderr`` is the end of it, ``STDERR_KEPT`` bytes at most.
    ``timed_out`` and ``too_much`` say why it was killed.
    """

    code: int | None
    signal: int | None
    unstarted: str | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    too_much: bool


class CommandProcess:
    """One execution. ``run`` it once; being cancelled there stops the program and waits for its end."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        max_output: int,
        stop_seconds: float,
    ) -> None:
        """``argv[0]`` is the absolute path of the program, ``folder`` its current directory."""
        self._argv = list(argv)
        self._folder = folder
        self._environment = dict(environment)
        self._max_output = max_output
        self._stop_seconds = stop_seconds
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pipes: dict[str, int] = {}
        self._input = b""
        self._said = bytearray()
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._too_much = False

    async def run(self, given: bytes, timeout_seconds: float) -> Ended:
        """Start the program, give it ``given``, and wait until it and all it started are gone.

        Raises OSError where it cannot be started.
        """
        timed_out = False
        try:
            self._spawn(given)
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._wait()
            except TimeoutError:
                timed_out = True
                await self._stop()
            except asyncio.CancelledError:
                await self._stop()
                raise
        finally:
            self._close()
        return self._result(timed_out=timed_out)

    async def _wait(self) -> None:
        await asyncio.shield(self._ended)

    async def _stop(self) -> None:
        """Ask, then kill; return once nothing of it is left, or once the guard does not answer any more."""
        self._tell(b"T")
        try:
            async with asyncio.timeout(self._stop_seconds + _GUARD_SECONDS):
                await self._wait()
        except TimeoutError:
            self._kill_hard()

    def _tell(self, what: bytes) -> None:
        if self._control is not None:
            try:
                self._control.send(what)
            except OSError:
                pass  # it is ending already

    # ---- the process ----------------------------------------------------------------------------------

    def _spawn(self, given: bytes) -> None:
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            control, guards = socket.socketpair()
            theirs.callback(guards.close)
            ours.callback(control.close)
            ends: list[tuple[int, int]] = []
            for child_writes in (False, True, True):
                ends.append(pair := os.pipe())
                theirs.callback(os.close, pair[child_writes])
                ours.callback(os.close, pair[not child_writes])
            (child_in, stdin), (stdout, child_out), (stderr, child_err) = ends
            for fd in (stdin, stdout, stderr):
                os.set_blocking(fd, False)
            control.setblocking(False)
            guard = [sys.executable, "-I", "-S", str(_GUARD), str(guards.fileno()), str(self._stop_seconds)]
            self._process = subprocess.Popen(
                [*guard, *self._argv],
                stdin=child_in,
                stdout=child_out,
                stderr=child_err,
                cwd=self._folder,
                env=self._environment,
                close_fds=True,
                pass_fds=(guards.fileno(),),
                start_new_session=True,
            )
            ours.pop_all()
        self._control = control
        self._pipes = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        self._input = given
        self._loop.add_reader(control, self._on_control)
        self._loop.add_reader(stdout, self._on_stream, "stdout", self._take_output)
        self._loop.add_reader(stderr, self._on_stream, "stderr", self._take_error)
        self._loop.add_writer(stdin, self._on_input)

    def _on_control(self) -> None:
        """The guard's words; its end means that it has ended, and everything that it guarded before it."""
        assert self._control is not None
        try:
            data = self._control.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._said += data
        if data:
            return
        self._loop.remove_reader(self._control)
        # What the program wrote is in the pipes by now. Their own end may never come, where something that
        # escaped holds them.
        for name, take in (("stdout", self._take_output), ("stderr", self._take_error)):
            while name in self._pipes and self._read(name, take):
                pass
        if not self._ended.done():
            self._ended.set_result(None)

    def _kill_hard(self) -> None:
        """The guard does not do its work: without it only the program's group can be reached."""
        assert self._process is not None
        self._process.kill()
        pid = self._word("pid")
        if pid is not None:
            try:
                os.killpg(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass

    def _close(self) -> None:
        """Let go of everything. Where the program still runs, the end of the control makes the guard kill it."""
        process, control = self._process, self._control
        for name in list(self._pipes):
            self._close_pipe(name)
        if control is not None:
            self._loop.remove_reader(control)
            control.close()
            self._control = None
        if process is None:
            return
        if self._ended.done():
            process.wait()
            if self._word("exit") is None and self._word("signal") is None:
                self._kill_hard()
        else:
            # Cancelled for a second time: the guard ends within its own bound, and is reaped then.
            threading.Thread(target=process.wait, name="workbench-reap").start()

    def _result(self, *, timed_out: bool) -> Ended:
        code, number, failed = self._word("exit"), self._word("signal"), self._word("failed")
        unstarted = None
        if failed is not None:
            code = number = None
            unstarted = os.strerror(failed)
            if failed == errno.ENOEXEC:
                unstarted += "; a script needs its first line, such as #!/bin/sh"
        return Ended(
            code, number, unstarted, bytes(self._stdout), bytes(self._stderr), timed_out, self._too_much
        )

    def _word(self, name: str) -> int | None:
        """The number that the guard said under this name."""
        for line in bytes(self._said).split(b"\n")[:-1]:
            word, _, number = line.partition(b" ")
            if word == name.encode() and number.isdigit():
                return int(number)
        return None

    # ---- the bytes ------------------------------------------------------------------------------------

    def _on_input(self) -> None:
        try:
            self._input = self._input[os.write(self._pipes["stdin"], self._input) :]
        except BlockingIOError:
            return
        except OSError:  # the program does not read, which is its own affair
            self._input = b""
        if not self._input:
            self._close_pipe("stdin")

    def _on_stream(self, name: str, take: Callable[[bytes], None]) -> None:
        self._read(name, take)

    def _read(self, name: str, take: Callable[[bytes], None]) -> bool:
        """Read once. False where there is nothing now, or never will be."""
        try:
            data = os.read(self._pipes[name], _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            take(data)
        else:
            self._close_pipe(name)
        return bool(data)

    def _take_output(self, data: bytes) -> None:
        """Keep what is admitted; what goes beyond it is read and dropped, and ends the program."""
        room = self._max_output - len(self._stdout)
        self._stdout += data[:room]
        if len(data) > room and not self._too_much:
            self._too_much = True
            self._tell(b"K")

    def _take_error(self, data: bytes) -> None:
        self._stderr += data
        del self._stderr[:-STDERR_KEPT]

    def _close_pipe(self, name: str) -> None:
        fd = self._pipes.pop(name, None)
        if fd is not None:
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
            os.close(fd)
