"""Worker processes by the thousand: one process that has loaded what a worker needs forks each of them.

What a worker runs and what it is sent are as ever; only the start of an interpreter, which is most of what a worker
costs, is paid once. The process ends with this one, at the end of its socket.
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import socket
import subprocess
import sys
import tempfile
from typing import Any

import _quickjs

from workflows_core.worker.launch import Program, Spawned, child_code

_MOTHER = """
import marshal, os, socket, sys

mother = socket.socket(fileno=int(sys.argv[1]))
size, library = int(sys.argv[2]), sys.argv[3]
code = b""
while len(code) < size:
    code += mother.recv(size - len(code))
worker = {}
for part in marshal.loads(code):
    exec(part, worker)
worker["load"](library)
while True:
    asked, files, _, _ = socket.recv_fds(mother, 64, 3)
    if not asked:
        os._exit(0)
    word, _, number = asked.decode().partition(" ")
    if word == "wait":
        mother.send(str(os.waitpid(int(number), 0)[1]).encode())
        continue
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for place, file in enumerate(files):
            os.dup2(file, place)
        os.closerange(3, 64)
        worker["read_exactly"](size)  # the code that it has already
        worker["main"]()
    for file in files:
        os.close(file)
    mother.send(str(pid).encode())
"""


class Nursery:
    """The process that forks workers. Its questions are answered in order."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        code = child_code()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-I", "-S", "-c", _MOTHER,
                    str(theirs.fileno()), str(len(code)), _quickjs.__file__,
                ],
                pass_fds=(theirs.fileno(),),
                cwd=tempfile.gettempdir(),
                env={"LC_ALL": "C.UTF-8"},
            )  # fmt: skip
        self._socket = ours
        ours.sendall(code)
        atexit.register(self.close)

    def spawn(self, first: bytes, program: Program) -> tuple[Spawned, int]:
        """As ``launch.spawn``, for the plain program."""
        (child_in, stdin), (stdout, child_out), (stderr, child_err) = (os.pipe() for _ in range(3))
        for file in (stdin, stdout, stderr):
            os.set_blocking(file, False)
        written = os.write(stdin, first)
        pid = int(self.ask("fork", [child_in, child_out, child_err]))
        for file in (child_in, child_out, child_err):
            os.close(file)
        process: Any = Forked(pid, self)
        return Spawned(process, stdin, stdout, stderr, os.open(os.devnull, os.O_RDONLY)), written

    def ask(self, question: str, files: list[int]) -> str:
        socket.send_fds(self._socket, [question.encode()], files)
        answer = self._socket.recv(64).decode()
        assert answer, "the process that forks workers is gone"
        return answer

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


class Forked:
    """A worker process, with as much of subprocess.Popen as a Worker uses."""

    def __init__(self, pid: int, nursery: Nursery) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._nursery = nursery

    def poll(self) -> int | None:
        """None until ``wait``: nobody else asks."""
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            status = int(self._nursery.ask(f"wait {self.pid}", []))
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


@functools.cache
def nursery() -> Nursery:
    """The one of this process."""
    return Nursery()
