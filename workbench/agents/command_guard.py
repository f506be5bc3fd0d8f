"""What stands between the workbench and one program of a command agent. Run as a script of its own process.

    python -I -S command_guard.py CONTROL GRACE_SECONDS PROGRAM [ARGUMENT …]

It starts PROGRAM in a session of its own with the standard input, output and error that it was given, and stays
until nothing of it is left: whatever the program leaves behind is killed with it. CONTROL is a socket to the
workbench. It reads ``T`` (ask the program to end, kill it after the grace) and ``K`` (kill it); at its end, which
comes when the workbench has ended in whatever way, everything is killed. It writes lines: ``pid N``, then one of
``exit CODE``, ``signal NUMBER``, ``failed ERRNO`` (the program could not be started).

On Linux descendants that left the process group and the session are found too, because they become children of
this process when their parents end. Elsewhere only the process group is killed. Imports the standard library only.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import socket
import sys
import time

_SUBREAPER = 36
_PARENT_DEATH = 1
#: How long what is left may take to die before this process gives up on it.
_LAST_SECONDS = 5.0
_LOOK_SECONDS = 0.005


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    grace, program = float(sys.argv[2]), sys.argv[3:]
    waking, woken = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waking, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    _prctl(_SUBREAPER, 1)
    pid = _start(program, control)
    _let_go_of_streams()
    _say(control, f"pid {pid}")
    ended = _watch(pid, control, waking, grace)
    _kill_group(pid)
    if ended is None:
        ended = _reap_program(pid)
    _kill_rest()
    if ended is not None:
        _say(control, ended)
    os._exit(0)


def _prctl(option: int, value: int) -> bool:
    """Set a property of this process. False where the system has none such."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _start(program: list[str], control: socket.socket) -> int:
    me = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        if _prctl(_PARENT_DEATH, int(signal.SIGKILL)) and os.getppid() != me:
            os._exit(127)
        # Python ignores these, and what is ignored stays ignored in the program.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o077)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.execve(program[0], program, os.environ)
    except OSError as error:
        _say(control, f"failed {error.errno}")
    finally:
        os._exit(127)


def _let_go_of_streams() -> None:
    """Only the program holds them: their end is its end."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)


def _say(control: socket.socket, line: str) -> None:
    try:
        control.sendall(line.encode() + b"\n")
    except OSError:
        pass  # the workbench has ended; there is nobody to tell


def _watch(pid: int, control: socket.socket, waking: int, grace: float) -> str | None:
    """How the program ended; None where it has to be killed."""
    deadline: float | None = None
    while True:
        ended = _program_end(pid)
        if ended is not None:
            return ended
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([control.fileno(), waking], [], [], wait)
        if waking in ready:
            try:
                os.read(waking, 4096)
            except BlockingIOError:
                pass
        if control.fileno() in ready:
            try:
                asked = control.recv(16)
            except OSError:
                asked = b""
            if not asked or b"K" in asked:
                return None
            if deadline is None:
                deadline = time.monotonic() + grace
                _signal_group(pid, signal.SIGTERM)
        if deadline is not None and time.monotonic() >= deadline:
            return None


def _program_end(pid: int) -> str | None:
    """How the program ended, or None. Reaps orphans that have ended.

    The program itself is only looked at where the system can: unreaped, its group id stays its own.
    """
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return _reaped(pid)
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return "exit 127"  # cannot be: the program was not reaped yet
        if found is None:
            return None
        if found.si_pid == pid:
            return _words(found)
        os.waitpid(found.si_pid, os.WNOHANG)


def _reaped(pid: int) -> str | None:
    while True:
        try:
            found, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if found == pid:
            code = os.waitstatus_to_exitcode(status)
            return f"exit {code}" if code >= 0 else f"signal {-code}"
        if not found:
            return None


def _reap_program(pid: int) -> str | None:
    """How the killed program ended; None where it does not die."""
    end = time.monotonic() + _LAST_SECONDS
    while time.monotonic() < end:
        ended = _program_end(pid)
        if ended is not None:
            return ended
        time.sleep(_LOOK_SECONDS)
    return None


def _words(found: os.waitid_result) -> str:
    return f"exit {found.si_status}" if found.si_code == os.CLD_EXITED else f"signal {found.si_status}"


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _kill_group(pid: int) -> None:
    _signal_group(pid, signal.SIGKILL)


def _kill_rest() -> None:
    """Kill and reap until this process has no child left; each kill hands the next generation to us."""
    end = time.monotonic() + _LAST_SECONDS
    while time.monotonic() < end:
        for pid in _descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_LOOK_SECONDS)


def _descendants(pid: int) -> list[int]:
    """Children first, then theirs; empty where the system does not say."""
    found: list[int] = []
    todo = [pid]
    while todo:
        parent = todo.pop()
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208 - pathlib takes half the start
                with open(f"/proc/{parent}/task/{thread}/children") as file:  # noqa: PTH123 - as above
                    todo += (children := [int(child) for child in file.read().split()])
                    found += children
        except (OSError, ValueError):
            continue
    return found


if __name__ == "__main__":
    main()
