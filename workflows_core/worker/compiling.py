"""Letting the engine compile a script while the caller does something else, without an asyncio loop."""

from __future__ import annotations

import os
import select
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..errors import ScriptRefused
from ..limits import Limits
from . import protocol
from .launch import Spawned, set_up, spawn

if TYPE_CHECKING:
    from .outcome import SyntaxProblem

_READ_BYTES = 65536


class Compiling:
    """One throw-away worker with one script, which never runs. Use it in ``with``: the end reaps the process.

    The process starts at once and is handed everything but the word to go on: until ``go`` the engine has not
    seen the script. Whatever fails at the start is raised by ``verdict``.
    """

    def __init__(self, script: str) -> None:
        self._script = script
        self._unsent = b""
        self._gone = False
        self._spawned: Spawned | None = None
        self._failure: ScriptRefused | OSError | None = None
        try:
            first = set_up(script, b"", Limits(), 1)
            self._spawned, written = spawn(first)
            self._unsent = first[written:]
        except (ScriptRefused, OSError) as error:
            self._failure = error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def go(self) -> None:
        """Let the engine have the script. The caller has proved that it is one function body."""
        if not self._gone:
            self._gone = True
            self._unsent += protocol.pack(protocol.COMPILE, b"")
            self._send()

    def verdict(self) -> SyntaxProblem | None:
        """What the engine says of the script; None when it compiles. Waits for it, and lets it go on if need be.

        Raises ScriptRefused for text that no engine can be given, and WorkerDied when the process fails.
        """
        # Imported late: the process starts meanwhile.
        from .outcome import broken, death, judged, not_started

        if isinstance(self._failure, OSError):
            raise not_started(self._failure) from self._failure
        if self._failure is not None:
            raise self._failure
        assert self._spawned is not None
        self.go()
        incoming = bytearray()
        try:
            while self._receive(self._spawned, incoming):
                frames = protocol.split(incoming)
                if frames:
                    return judged(self._script, *frames[0])
        except protocol.FrameRefused as error:
            raise broken(error) from None
        raise death(self._spawned.process.wait())

    def close(self) -> None:
        """Kill the process and reap it. Idempotent."""
        spawned, self._spawned = self._spawned, None
        if spawned is not None:
            spawned.process.kill()
            spawned.process.wait()
            spawned.close()

    def _send(self) -> None:
        """Write what the pipe takes."""
        if self._spawned is None:
            return
        try:
            self._unsent = self._unsent[os.write(self._spawned.stdin, self._unsent) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # the process is going, and its exit says why
            self._unsent = b""

    def _receive(self, spawned: Spawned, incoming: bytearray) -> bool:
        """Wait until the process says something, sending on and draining its stderr; False once it has ended."""
        waiting = select.poll()
        waiting.register(spawned.stdout, select.POLLIN)
        waiting.register(spawned.stderr, select.POLLIN)
        if self._unsent:
            waiting.register(spawned.stdin, select.POLLOUT)
        ready = {fd for fd, _ in waiting.poll()}
        if spawned.stdin in ready:
            self._send()
        if spawned.stderr in ready:
            os.read(spawned.stderr, _READ_BYTES)
        if spawned.stdout not in ready:
            return True
        data = os.read(spawned.stdout, _READ_BYTES)
        incoming += data
        return bool(data)
