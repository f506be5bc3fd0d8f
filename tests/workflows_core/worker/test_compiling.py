"""Compiling without an event loop: the same verdicts as with one, nothing before the word to go on, nothing left."""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from workflows_core.errors import ScriptRefused
from workflows_core.worker import compiling, launch, protocol
from workflows_core.worker.compiling import Compiling
from workflows_core.worker.outcome import SyntaxProblem, WorkerDeath, WorkerDied
from workflows_core.worker.process import compile_script


def verdict(script: str) -> SyntaxProblem | None:
    with Compiling(script) as running:
        return running.verdict()


def is_child(pid: int) -> bool:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def open_files() -> set[str]:
    return {path.name for path in Path("/dev/fd").iterdir()}


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bytes]]:
    """The pid of each process, and what it was handed at its start."""
    made: list[tuple[int, bytes]] = []
    spawn = launch.spawn

    def remember(first: bytes) -> tuple[launch.Spawned, int]:
        result = spawn(first)
        made.append((result[0].process.pid, first))
        return result

    monkeypatch.setattr(compiling, "spawn", remember)
    return made


@pytest.fixture
def impostor(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces what runs in the process: ``body`` is the source of its main function."""

    def install(body: str) -> None:
        lines = "\n".join("    " + line for line in body.strip().splitlines())
        source = f"import posix, time\ndef pack(k, p): return k + len(p).to_bytes(4, 'big') + p\ndef main():\n{lines}\n"
        code = marshal.dumps([compile(source, "impostor", "exec")])
        monkeypatch.setattr(launch, "child_code", lambda *_: code)

    return install


@pytest.mark.parametrize(
    "script",
    ["", "return 1", "for (;;);", "return (", "let a = 1;\nlet é = 2; let a;", "await 1 2", "x = `", "}"],
)
async def test_the_verdict_is_that_of_the_event_loop(script: str) -> None:
    assert verdict(script) == await compile_script(script)


def test_the_engine_has_not_seen_the_script_before_go(spawned: list[tuple[int, bytes]]) -> None:
    with Compiling("return 1") as running:
        ((_, first),) = spawned
        kinds = [kind for kind, _ in protocol.split(bytearray(first[len(launch.child_code()) :]))]
        assert kinds == [protocol.LIMITS, protocol.LIBRARY, protocol.PRELUDE, protocol.SCRIPT]
        running.go()
        running.go()
        assert running.verdict() is None


def test_nothing_is_left_however_it_ends(spawned: list[tuple[int, bytes]]) -> None:
    before = open_files()
    assert verdict("return 1") is None
    with Compiling("return 1"):
        pass
    with pytest.raises(KeyError), Compiling("return 1") as running:
        running.go()
        raise KeyError
    running.close()
    assert len(spawned) == 3
    assert not any(is_child(pid) for pid, _ in spawned)
    assert open_files() == before


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("posix.write(1, pack(b'B', b'{}'))", WorkerDeath.PROTOCOL),
        ("posix.write(1, pack(b'Z', b''))", WorkerDeath.PROTOCOL),
        ("posix.write(1, b'Q' + (1 << 30).to_bytes(4, 'big'))", WorkerDeath.PROTOCOL),
        ("posix._exit(71)", WorkerDeath.MEMORY),
        ("posix._exit(0)", WorkerDeath.EXITED),
        ("posix.kill(posix.getpid(), 24)", WorkerDeath.CPU_LIMIT),
        ("posix.kill(posix.getpid(), 27)", WorkerDeath.TURN_LIMIT),
    ],
)
def test_a_worker_that_fails_is_told_apart(
    impostor: Callable[[str], None], answer: str, reason: WorkerDeath
) -> None:
    impostor(answer + "\ntime.sleep(60)")
    with pytest.raises(WorkerDied) as died:
        verdict("return 1")
    assert died.value.reason is reason


def test_noise_is_drained_and_a_script_larger_than_the_pipe_arrives(impostor: Callable[[str], None]) -> None:
    impostor(
        "for _ in range(40): posix.write(2, b'noise ' * 1000)\n"
        "while posix.read(0, 65536)[-5:] != b'C\\0\\0\\0\\0': pass\n"
        "posix.write(1, pack(b'Y', b'')[:2])\n"
        "time.sleep(0.01)\n"
        "posix.write(1, pack(b'Y', b'')[2:])\n"
        "time.sleep(60)"
    )
    assert verdict("// " + "x" * 400_000) is None


def test_what_fails_at_the_start_is_said_by_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ScriptRefused, match="lone surrogate at line 2, column 1"):
        verdict("return 1\n\ud800")
    with pytest.raises(ScriptRefused, match="Shorten it"):
        verdict("x" * (protocol.SETUP_BYTES + 1))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerDied, match="could not be started: No such file") as died:
        verdict("return 1")
    assert died.value.reason is WorkerDeath.EXITED
