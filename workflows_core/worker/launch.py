"""How a worker process is made: what it is sent, what surrounds it, and what ends it with us."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import marshal
import os
import secrets
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import _quickjs

from .. import limits as table
from ..errors import ScriptRefused
from ..jsontext import encode, sha256
from ..limits import Limits
from ..script.lexing import line_starts
from . import protocol
from .protocol import pack

#: How much laxer a replay worker is held: probes cost time, and a limit must not look like a divergence.
REPLAY_FACTOR: Final = 10
DISTRIBUTION: Final = "quickjs-ng"
PRELUDE_PARTS: Final = ("prelude.js", "prelude_json.js", "prelude_calls.js", "prelude_end.js")
CHILD_PARTS: Final = ("protocol.py", "child.py")
_HERE: Final = Path(__file__).parent
#: Reads the compiled modules off standard input, which the set-up follows: nothing is read from disk, and
#: nothing is compiled at a start but these lines.
_BOOT: Final = (
    "import posix,marshal\n"
    "b=b''\n"
    "while len(b)<{0}:b+=posix.read(0,{0}-len(b))or posix._exit(0)\n"
    "n={{}}\n"
    "for c in marshal.loads(b):exec(c,n)\n"
    "n['main']()"
)


class Program(NamedTuple):
    """The sources that make up a worker: modules of the child, and parts of the prelude, in their order."""

    child: tuple[str, ...]
    prelude: tuple[str, ...]


#: What runs scripts, live and in replay. Other programs only look on; they are not in the runtime signature.
PLAIN: Final = Program(CHILD_PARTS, PRELUDE_PARTS)


@functools.cache
def child_code(program: Program = PLAIN) -> bytes:
    """The child's modules, compiled once in the life of this process."""
    return marshal.dumps(
        [
            compile((_HERE / name).read_bytes(), name, "exec", dont_inherit=True, optimize=2)
            for name in program.child
        ]
    )


@functools.cache
def prelude(program: Program = PLAIN) -> bytes:
    """The JavaScript that runs before the script: an expression that yields the child's way in."""
    parts = [(_HERE / name).read_bytes() for name in program.prelude]
    return b'(() => {\n"use strict";\n' + b"\n".join(parts) + b"\nreturn bridge;\n})()"


@functools.cache
def runtime_signature() -> str:
    """SHA-256 of all that decides how a script runs: our worker sources, the engine's name and version."""
    from importlib import metadata  # costs as much as the rest of this module, and a check needs no signature

    sources = {name: sha256((_HERE / name).read_bytes()) for name in (*CHILD_PARTS, *PRELUDE_PARTS)}
    return sha256(encode({"sources": sources, "engine": [DISTRIBUTION, metadata.version(DISTRIBUTION)]}))


def set_up(script: str, last: bytes, limits: Limits, factor: int, program: Program = PLAIN) -> bytes:
    """Everything a worker reads before it answers that it is ready, in one piece.

    ``last`` is the frame that says what is wanted. Raises ScriptRefused for text that no engine can be given.
    """
    source = _encoded(script)
    if len(source) > protocol.SETUP_BYTES:
        raise ScriptRefused(
            f"The script takes {len(source)} bytes, and a worker accepts {protocol.SETUP_BYTES}. Shorten it."
        )
    numbers = (
        limits.memory_bytes,
        limits.cpu_seconds * factor,
        round(table.ENTRY_SECONDS * 1000) * factor,
        round(table.TURN_CPU_SECONDS * 1000) * factor,
        table.JOBS_PER_TURN,
        table.STACK_BYTES,
        # A script cannot know where its lines start, and so cannot write code that claims to be one of them.
        protocol.SCRIPT_LINES + secrets.randbelow(4096),
        len(line_starts(script)),
    )
    return b"".join(
        (
            child_code(program),
            pack(protocol.LIMITS, " ".join(map(str, numbers)).encode()),
            pack(protocol.LIBRARY, os.fsencode(_quickjs.__file__)),
            pack(protocol.PRELUDE, prelude(program)),
            pack(protocol.SCRIPT, source),
            last,
        )
    )


def _encoded(script: str) -> bytes:
    try:
        return script.encode("utf-8")
    except UnicodeEncodeError as error:
        line = script.count("\n", 0, error.start) + 1
        column = error.start - script.rfind("\n", 0, error.start)
        raise ScriptRefused(
            f"The script holds a lone surrogate at line {line}, column {column}, which is not text. Remove it.",
            line=line,
            column=column,
        ) from None


@dataclass(slots=True)
class Spawned:
    """A started process and our ends of its pipes; ``lifeline`` is only held."""

    process: subprocess.Popen[bytes]
    stdin: int
    stdout: int
    stderr: int
    lifeline: int

    def close(self) -> None:
        for fd in (self.stdin, self.stdout, self.stderr, self.lifeline):
            os.close(fd)


def spawn(first: bytes, program: Program = PLAIN) -> tuple[Spawned, int]:
    """Start a process with as much of ``first`` on its standard input as the pipe takes, and say how much.

    The process has its own session, an empty directory, the smallest environment, and no open file beside its
    standard ones and the lifeline. Raises OSError, leaving nothing behind.
    """
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        ends: list[tuple[int, int]] = []
        for _ in range(4):
            reading, writing = os.pipe()
            ends.append((reading, writing))
            child_writes = len(ends) in (2, 3)
            theirs.callback(os.close, writing if child_writes else reading)
            ours.callback(os.close, reading if child_writes else writing)
        (child_in, stdin), (stdout, child_out), (stderr, child_err), (child_life, lifeline) = ends
        for fd in (stdin, stdout, stderr):
            os.set_blocking(fd, False)
        written = os.write(stdin, first)
        directory = tempfile.mkdtemp(prefix="workflow-worker-")
        # The process keeps the directory it started in, although nothing leads there any more.
        theirs.callback(_remove, directory)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOT.format(len(child_code(program)))],
            stdin=child_in,
            stdout=child_out,
            stderr=child_err,
            cwd=directory,
            env=_environment(),
            close_fds=True,
            pass_fds=(child_life,),
            start_new_session=True,
        )
        _tie(child_life, process.pid)
        ours.pop_all()
        return Spawned(process, stdin, stdout, stderr, lifeline), written


def _remove(directory: str) -> None:
    """Remove an empty directory. One that stays does no harm; an error would lose the process that was started."""
    with contextlib.suppress(OSError):
        Path(directory).rmdir()


def _environment() -> dict[str, str]:
    """A worker's whole environment. A library path is kept for interpreters that cannot start without it."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    return {"LC_ALL": "C.UTF-8", **kept}


def _tie(lifeline: int, pid: int) -> None:
    """Make ``pid`` end when this process ends, also in the middle of a computation.

    The child holds the reading end of a pipe that nothing is ever written to. When this process is gone, the
    kernel closes the only writing end and signals SIGIO, whose default action ends the child. Unlike
    PR_SET_PDEATHSIG this needs no code in the child, and is not bound to the thread that started it. Where the
    system refuses it, the end of standard input and the CPU limits remain.
    """
    try:
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, pid)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    except OSError:
        return
