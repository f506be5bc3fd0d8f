"""What became of a worker, in values: why its process is gone, and what keeps a script from compiling."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ..jsontext import JsonRefused, encode, parse
from ..limits import TURN_CPU_SECONDS
from . import protocol
from .protocol import FrameRefused
from .turns import Source, read_places

_UNEXPECTED: Final = re.compile(r"SyntaxError: ([Uu]nexpected token|expecting)")


class WorkerDeath(StrEnum):
    """Why a worker is gone."""

    CPU_LIMIT = "cpu_limit"
    TURN_LIMIT = "turn_limit"
    MEMORY = "memory"
    EXITED = "exited"
    PROTOCOL = "protocol"
    KILLED = "killed"


class WorkerDied(Exception):
    """The worker process is gone. ``reason`` is the cause, ``message`` a sentence for people."""

    def __init__(self, reason: WorkerDeath, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """Why the engine cannot compile a script. Line and column start at 1; the column counts characters.

    ``code`` is ``script_error``, or the limit that compiling reached.
    """

    message: str
    line: int
    column: int
    code: str = "script_error"


def judged(script: str, kind: int, payload: bytes) -> SyntaxProblem | None:
    """What the first frame of a worker says of its script: None where it compiles. Raises WorkerDied."""
    if kind == protocol.READY:
        return None
    try:
        body = parse(payload, "the problem")
        (place,) = read_places(encode(body["places"]))
        source = Source(script)
        position = source.position(place)
        message, code = body["message"], body["code"]
        if kind != protocol.PROBLEM or type(message) is not str or type(code) is not str:
            raise FrameRefused("a problem that is none")
    except (JsonRefused, FrameRefused, TypeError, KeyError, ValueError):
        raise WorkerDied(
            WorkerDeath.PROTOCOL, "The worker broke the protocol with an answer that is none."
        ) from None
    if source.is_behind(place) and _UNEXPECTED.match(message):
        message = "SyntaxError: The script ends where more is expected: a bracket is not closed."
    line, column = position or (1, 1)
    return SyntaxProblem(message, line, column, code)


def broken(error: FrameRefused) -> WorkerDied:
    """The death of a worker that sent ``error``."""
    return WorkerDied(WorkerDeath.PROTOCOL, f"The worker broke the protocol with {error}.")


def not_started(error: OSError) -> WorkerDied:
    """What is said where no process could be started."""
    return WorkerDied(WorkerDeath.EXITED, f"The worker process could not be started: {error.strerror}.")


def death(code: int) -> WorkerDied:
    """What an exit status says that we did not cause."""
    reason, message = _DEATHS.get(code) or (
        WorkerDeath.EXITED,
        f"The worker process ended by itself with status {code}."
        if code >= 0
        else f"The worker process was ended by {_signal_name(-code)}.",
    )
    return WorkerDied(reason, message)


_DEATHS: Final = {
    -signal.SIGXCPU: (WorkerDeath.CPU_LIMIT, "The worker used up its CPU time (limit cpu_seconds)."),
    -signal.SIGPROF: (
        WorkerDeath.TURN_LIMIT,
        f"The script computed for {TURN_CPU_SECONDS} s of CPU time without waiting for a call.",
    ),
    -signal.SIGKILL: (WorkerDeath.KILLED, "The worker process was killed from outside."),
    protocol.EXIT_MEMORY: (WorkerDeath.MEMORY, "The worker ran out of memory (limit memory_bytes)."),
    protocol.EXIT_PROTOCOL: (WorkerDeath.PROTOCOL, "The worker was given a frame that it cannot use."),
}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
