"""The inside of a worker process: it runs one script in the engine and exchanges frames with its parent.

Sent to the process as compiled code, after ``protocol.py`` in the same namespace, so that nothing is read from
disk. It imports resource, modules that are built into the interpreter, and the engine's library: anything else
would cost more than the whole start. It holds no JSON parser; the prelude builds every body.
"""

import _imp
import _signal  # type: ignore[import-not-found]  # typeshed has no stub for the C module
import posix
import resource
import time
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .protocol import (
        ARGS,
        COMPILE,
        END,
        EXIT_MEMORY,
        EXIT_PROTOCOL,
        FRAME_BYTES,
        GO,
        HEADER_BYTES,
        IDLE,
        LIBRARY,
        LIMITS,
        PLACES,
        PRELUDE,
        PRELUDE_LINES,
        PROBLEM,
        READY,
        REQUEST,
        RESPONSE,
        RESPONSE_LAST,
        SCRIPT,
        FrameRefused,
        length_of,
        pack,
    )

MEBIBYTE = 1024 * 1024
#: Address space beside the script's memory: the interpreter and the engine map about 15 MiB of it.
SPARE_BYTES = 64 * MEBIBYTE

SENTENCES = {
    "time_limit": "The script computed for more than %d ms without awaiting anything.",
    "memory_limit": "The script used more memory than its limit.",
    "stack_limit": "The script called functions too deeply.",
    "job_limit": "The script went through more than %d promise reactions in one turn.",
    "call_limit": "The script made too many calls in one turn.",
    "frame_too_large": "A call or a result of the script is larger than a frame.",
}


def stop(status: int, reason: str) -> "NoReturn":
    """Leave at once; the reason goes to standard error, which the parent drains."""
    try:
        posix.write(2, reason.encode("utf-8", "replace")[:1000])
    finally:
        posix._exit(status)


def read_exactly(size: int) -> bytes:
    """Read ``size`` bytes; end of file means that the parent is gone or has no more use for the worker."""
    data = posix.read(0, size)
    while len(data) < size:
        more = posix.read(0, size - len(data))
        if not more:
            posix._exit(0)
        data += more
    return data


def read_frame() -> "tuple[int, bytes]":
    header = read_exactly(HEADER_BYTES)
    return header[0], read_exactly(length_of(header))


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[posix.write(1, view) :]


def load(path: str) -> "Any":
    """The engine's library, by path: there is no search path for it in an isolated interpreter."""
    spec = ModuleSpec("_quickjs", ExtensionFileLoader("_quickjs", path), origin=path)
    module = _imp.create_dynamic(spec)
    _imp.exec_dynamic(module)
    return module


def mapped_bytes() -> int:
    """How much address space is mapped now, or 0 where the system does not tell."""
    try:
        file = posix.open("/proc/self/statm", posix.O_RDONLY)
    except OSError:
        return 0
    try:
        return int(posix.read(file, 64).split()[0]) * resource.getpagesize()
    finally:
        posix.close(file)


def restrict(memory_bytes: int, cpu_seconds: int) -> None:
    """Take away what the script does not need. Called when everything is imported and open."""
    space = memory_bytes + max(SPARE_BYTES, mapped_bytes() + SPARE_BYTES // 2)
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1),  # apart, so that SIGXCPU names the cause
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_AS, space, space),
        (resource.RLIMIT_NPROC, 0, 0),
        (resource.RLIMIT_NOFILE, 3, 3),
    ):
        try:
            resource.setrlimit(kind, (soft, hard))
        except (OSError, ValueError):
            if kind in (resource.RLIMIT_CPU, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
                raise  # the others are refused by some systems, and JavaScript has its own memory limit


class Worker:
    """One engine with one script: it is entered by ``turn`` and says what came of it."""

    def __init__(self, setup: "dict[int, bytes]") -> None:
        numbers = [int(number) for number in setup[LIMITS].split()]
        self.memory_bytes, cpu_seconds, entry_ms, turn_ms, self.most_jobs, stack_bytes, lines, count = numbers
        self.entry_seconds = entry_ms / 1000
        self.turn_seconds = turn_ms / 1000
        self.lines = lines
        self.line_count = count
        quickjs = load(setup[LIBRARY].decode())
        self.error = quickjs.JSException
        context = self.context = quickjs.Context()
        context.set_max_stack_size(stack_bytes)
        self.bridge = context.eval("\n" * PRELUDE_LINES + setup[PRELUDE].decode())
        restrict(self.memory_bytes, cpu_seconds)
        context.set_memory_limit(self.memory_bytes)
        context.set_time_limit(self.entry_seconds)
        self.touched = touched_bytes()

    def arm(self) -> None:
        """Bound the CPU time of what follows: its signal has the default action, which nothing can catch."""
        _signal.setitimer(_signal.ITIMER_PROF, self.turn_seconds)

    def disarm(self) -> None:
        _signal.setitimer(_signal.ITIMER_PROF, 0)

    def compile(self, script: str) -> "str | None":
        problem: str | None
        try:
            problem = self.bridge("compile", script, self.lines, self.line_count)
        except self.error as error:
            code = self.cause(error) or "memory_limit"
            problem = '{"code":"' + code + '","message":"' + self.sentence(code) + '","places":[[[],[]]]}'
        return problem

    def turn(self, name: str, frames: "list[str]") -> bytes:
        """Enter the engine once, run every job that follows, and return the frames of the turn."""
        fault = None
        jobs = 0
        begun = time.process_time()
        try:
            self.bridge(name, *frames)
            run = self.context.execute_pending_job
            most = self.most_jobs
            while run():
                jobs += 1
                if jobs >= most:
                    fault = "job_limit"
                    break
        except self.error as error:
            fault = self.cause(error)
        # An error that only says "interrupted" takes no time; an interruption takes a whole entry.
        slow = time.process_time() - begun >= self.entry_seconds
        return self.collect(fault, slow, jobs)

    def cause(self, error: BaseException) -> "str | None":
        """Which limit an exception out of the engine stands for; None when it says that the script ended."""
        text = str(error)
        if text.startswith("InternalError: interrupted"):
            return "time_limit"
        if text.startswith("InternalError: out of memory"):
            return "memory_limit"
        if "Maximum call stack size exceeded" in text:
            return "stack_limit"
        if not text.startswith("null"):
            stop(EXIT_PROTOCOL, text)
        # The end of the script, or an error that no memory was left for.
        try:
            ended: bool = self.bridge("ended")
        except self.error:
            ended = False
        return None if ended else "memory_limit"

    def collect(self, fault: "str | None", slow: bool, jobs: int) -> bytes:
        """The frames of a turn. When they cannot all be had, only the end is said: a round is never cut."""
        out = []
        outstanding = 0
        places = "[[[],[]]]"
        try:
            bridge = self.bridge
            cut = slow and bridge("interrupted")
            if cut:
                fault = "time_limit"
            while (frame := bridge("frame", cut)) is not None:
                out += [pack(PLACES, bridge("framePlaces").encode()), fitting(REQUEST, frame)]
            outstanding = bridge("outstanding")
            if bridge("overflowed"):
                out = []
                fault = "call_limit"
            if bridge("ended"):
                places = bridge("endPlaces")
                fault = fault or self.end_fault()
                if fault is None:
                    out += [pack(PLACES, places.encode()), fitting(END, bridge("end"))]
            elif fault == "time_limit":
                places = bridge("interruptedPlaces")
            elif fault is None and outstanding == 0 and self.has_filled_memory():
                fault = "memory_limit"  # what should have gone on could not even be queued
        except self.error as error:
            out = []
            fault = self.cause(error) or "memory_limit"
        except FrameRefused:
            out = []
            fault = "frame_too_large"
        if fault is not None:
            body = '{"code":"' + fault + '","message":"' + self.sentence(fault) + '","name":"WorkflowError"}'
            out += [
                pack(PLACES, places.encode()),
                pack(END, ('{"by":"script","error":' + body + ',"ok":false}').encode()),
            ]
        out.append(pack(IDLE, b"%d %d" % (outstanding, jobs)))
        return b"".join(out)

    def end_fault(self) -> "str | None":
        """The limit that ended the script although it says so only indirectly, or not at all."""
        limit: str | None = self.bridge("endLimit")
        if limit is None and self.bridge("end") is None:
            return "memory_limit"  # there was none left to say how it ended
        if limit is None and self.bridge("threwNull") and self.has_filled_memory():
            return "memory_limit"  # out of memory is thrown as null when no memory is left for an error
        return limit

    def has_filled_memory(self) -> bool:
        return (touched_bytes() - self.touched) * 4 > self.memory_bytes

    def sentence(self, code: str) -> str:
        text = SENTENCES[code]
        if code == "time_limit":
            return text % (self.entry_seconds * 1000)
        return text % self.most_jobs if code == "job_limit" else text


def fitting(kind: int, text: str) -> bytes:
    payload = text.encode()
    if len(payload) > FRAME_BYTES:
        raise FrameRefused("a frame is too large")
    return pack(kind, payload)


def touched_bytes() -> int:
    """How much memory this process has touched so far. (Its peak would count that of the parent too.)"""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt * resource.getpagesize()


def serve() -> "NoReturn":
    setup: dict[int, bytes] = {}
    while ARGS not in setup and COMPILE not in setup:
        kind, payload = read_frame()
        setup[kind] = payload
    worker = Worker(setup)
    worker.arm()
    problem = worker.compile(setup[SCRIPT].decode())
    if problem is None and ARGS in setup:
        worker.bridge("args", setup[ARGS].decode())
    worker.disarm()
    write(pack(READY, b"") if problem is None else pack(PROBLEM, problem.encode()))
    setup.clear()
    while True:
        kind, payload = read_frame()
        if kind == GO:
            name, frames = "run", []
        elif kind in (RESPONSE, RESPONSE_LAST):
            name, frames = "deliver", [payload.decode()]
            while kind != RESPONSE_LAST:
                kind, payload = read_frame()
                frames.append(payload.decode())
        else:
            stop(EXIT_PROTOCOL, "a frame of an unknown kind")
        worker.arm()
        data = worker.turn(name, frames)
        worker.disarm()
        write(data)


def main() -> "NoReturn":
    try:
        serve()
    except MemoryError:
        posix._exit(EXIT_MEMORY)
    except FrameRefused as error:
        stop(EXIT_PROTOCOL, str(error))
    except BrokenPipeError:
        posix._exit(0)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the process must not outlive it
        stop(1, type(error).__name__ + ": " + str(error))
    posix._exit(0)
