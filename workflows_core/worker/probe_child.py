"""The inside of a worker that looks on while a recorded run is replayed. Sent after ``child.py``, like it.

All recorded responses are handed over before the script starts. Then the parent sends commands: ``go`` runs turn
after turn, each with the next batch, until a stop that it names; at a stop, and inside JavaScript while it is
paused, the parent may ask for values.
"""

import _signal  # type: ignore[import-not-found]  # typeshed has no stub for the C module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .ahead_child import flush, stop, write
    from .child import Worker, read_frame
    from .protocol import (
        ARGS,
        EXIT_PROTOCOL,
        PROBLEM,
        READY,
        RESPONSE,
        RESPONSE_LAST,
        SCRIPT,
        pack,
    )

#: Frames of this mode alone: the probe's name, a command, an answer in parts, and how many statements have begun.
PROBE = 79  # O
COMMAND = 75  # K
ANSWER_PART = 110  # n
ANSWER = 78  # N
BEGAN = 116  # t

#: How the command ``go`` begins: it has the key ``turns`` first.
GO_COMMAND = '{"turns":'
ANSWER_BYTES = 40 * 1024
MEMORY_FACTOR = 4
#: CPU time for the expressions of one question.
LOOK_SECONDS = 0.5


def send(answer: str) -> None:
    data = answer.encode("utf-8", "replace")
    parts = [data[at : at + ANSWER_BYTES] for at in range(0, len(data), ANSWER_BYTES)] or [b""]
    write(b"".join([pack(ANSWER_PART, part) for part in parts[:-1]]) + pack(ANSWER, parts[-1]))


class ProbeWorker(Worker):
    """A worker whose script has probes, and whose responses are here already."""

    def __init__(self, setup: "dict[int, bytes]") -> None:
        super().__init__(setup)
        # A time limit and calls out of JavaScript exclude each other: the parent's clock bounds this worker.
        self.context.set_time_limit(-1)
        self.context.set_memory_limit(self.memory_bytes * MEMORY_FACTOR)
        self.context.add_callable("__wait", self.wait)
        self.context.add_callable("__tell", self.tell)
        self.bridge("probes")
        self.probe = setup[PROBE].decode()
        self.batches: list[list[str]] = []
        self.batch: list[str] = []
        self.turns = 0
        self.wanted = 0

    def compile(self, script: str) -> "str | None":
        problem: str | None = self.bridge("compileProbed", script, self.lines, self.line_count, self.probe)
        return problem

    def next_command(self) -> str:
        while True:
            kind, payload = read_frame()
            if kind == COMMAND:
                return payload.decode()
            if kind not in (RESPONSE, RESPONSE_LAST):
                stop(EXIT_PROTOCOL, "a frame of an unknown kind")
            self.batch.append(payload.decode())
            if kind == RESPONSE_LAST:
                self.batches.append(self.batch)
                self.batch = []

    def tell(self, statements: int) -> None:
        """Called by JavaScript that is traced, which may be killed before the next statement."""
        write(pack(BEGAN, str(statements).encode()))
        flush()

    def wait(self, answer: str) -> str:
        """Called by paused JavaScript."""
        send(answer)
        command = self.next_command()
        if command.startswith(GO_COMMAND):
            self.wanted = turns_of(command)
            self.arm()
        else:
            _signal.setitimer(_signal.ITIMER_PROF, LOOK_SECONDS)
        return command

    def go(self, turns: int) -> None:
        """Run until ``turns`` turns have been run in all, the script ended, or nothing is left to give it."""
        reason = "idle"
        self.wanted = turns
        while self.turns != self.wanted:
            if self.turns == 0:
                name, frames = "run", []
            elif self.turns <= len(self.batches):
                name, frames = "deliver", self.batches[self.turns - 1]
            else:
                reason = "waiting"
                break
            self.turns += 1
            self.arm()
            data = self.turn(name, frames)
            self.disarm()
            write(data)
            if self.bridge("ended"):
                reason = "end"
                break
        send(self.bridge("state", reason))


def serve() -> "NoReturn":
    setup: dict[int, bytes] = {}
    while ARGS not in setup:
        kind, payload = read_frame()
        setup[kind] = payload
    worker = ProbeWorker(setup)
    worker.arm()
    problem = worker.compile(setup[SCRIPT].decode())
    if problem is None:
        worker.bridge("args", setup[ARGS].decode())
    worker.disarm()
    write(pack(READY, b"") if problem is None else pack(PROBLEM, problem.encode()))
    setup.clear()
    while True:
        command = worker.next_command()
        _signal.setitimer(_signal.ITIMER_PROF, LOOK_SECONDS)
        answer = worker.bridge("command", command)
        worker.disarm()
        if answer:
            send(answer)
        else:
            worker.go(turns_of(command))


def turns_of(command: str) -> int:
    """The number of turns in the command ``go``; there is no JSON parser here."""
    begin = end = len(GO_COMMAND)
    while command[end] in "-0123456789":
        end += 1
    return int(command[begin:end])
