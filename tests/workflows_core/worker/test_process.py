"""The worker process from the outside: what surrounds it, and that it always ends."""

from __future__ import annotations

import asyncio
import marshal
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from workflows_core.limits import Limits
from workflows_core.worker import launch, process, protocol
from workflows_core.worker.process import Worker, WorkerDeath, WorkerDied, compile_script, runtime_signature

from .support import response, result, run, start

linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")

WAITS = "await agent({stepId: 'a', agentRef: 'x', task: 1}); return 1"
SPINS = "for (;;) Promise.try(() => { for (;;); })"
ROOT = Path(__file__).parents[3]


def state(pid: int) -> str:
    """The state letter of a process, or an empty string when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_child(pid: int) -> bool:
    """Whether ``pid`` is a child of ours that nobody has reaped."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# ---- surroundings ----------------------------------------------------------------------------------------


@linux
async def test_a_worker_has_nothing_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "value-of-the-token")
    inherited = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    worker = await start(WAITS)
    try:
        await worker.first_turn()
        proc = Path(f"/proc/{worker.pid}")
        environment = {
            entry.split(b"=")[0] for entry in (proc / "environ").read_bytes().split(b"\0") if entry
        }
        assert environment <= {b"LC_ALL", b"LD_LIBRARY_PATH"}
        files = {path.name: str(path.readlink()).partition(":")[0] for path in (proc / "fd").iterdir()}
        assert sorted(files.values()) == ["pipe"] * 4
        assert {"0", "1", "2"} <= files.keys()
        assert str((proc / "cwd").readlink()).endswith(" (deleted)")
        assert list((proc / "cwd").iterdir()) == []
        assert os.getsid(worker.pid) == worker.pid
        arguments = (proc / "cmdline").read_bytes().split(b"\0")
        assert arguments[1:4] == [b"-I", b"-S", b"-c"]
    finally:
        await worker.close()
        os.close(inherited)


@linux
async def test_the_limits_of_the_process_are_set() -> None:
    worker = await start(WAITS, limits=Limits(cpu_seconds=3, memory_bytes=8_388_608))
    try:
        lines = Path(f"/proc/{worker.pid}/limits").read_text().splitlines()
        values = {line[:25].strip(): tuple(line[25:].split()[:2]) for line in lines[1:]}
        assert values["Max cpu time"] == ("3", "4")
        assert values["Max core file size"] == ("0", "0")
        assert values["Max file size"] == ("0", "0")
        assert values["Max open files"] == ("3", "3")
        assert values["Max processes"] == ("0", "0")
        space = int(values["Max address space"][0])
        assert 8_388_608 + 64 * 1024**2 <= space <= 8_388_608 + 128 * 1024**2
    finally:
        await worker.close()


async def test_nothing_is_compiled_or_read_again_at_a_start() -> None:
    await run("return 1")
    before = launch.child_code.cache_info().misses, launch.prelude.cache_info().misses
    await run("return 1")
    assert (launch.child_code.cache_info().misses, launch.prelude.cache_info().misses) == before


# ---- the end -----------------------------------------------------------------------------------------------


async def test_closing_kills_reaps_and_may_be_repeated() -> None:
    worker = await start(WAITS)
    await worker.first_turn()
    assert is_child(worker.pid)
    await worker.close()
    await worker.close()
    assert not is_child(worker.pid)
    assert worker.exited.result().reason is WorkerDeath.KILLED
    with pytest.raises(WorkerDied):
        await worker.give([response(result(1, 1))])


async def test_a_death_while_idle_is_noticed() -> None:
    worker = await start(WAITS)
    try:
        await worker.first_turn()
        assert not worker.exited.done()
        os.kill(worker.pid, signal.SIGKILL)
        died = await asyncio.wait_for(asyncio.shield(worker.exited), 60)
        assert died.reason is WorkerDeath.KILLED
        assert died.message == "The worker process was killed from outside."
        with pytest.raises(WorkerDied):
            await worker.give([response(result(1, 1))])
    finally:
        await worker.close()


async def test_a_death_is_noticed_where_there_are_no_process_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(pid: int) -> int:
        raise OSError(38, "not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    worker = await start(WAITS)
    await worker.first_turn()
    os.kill(worker.pid, signal.SIGTERM)
    died = await asyncio.wait_for(asyncio.shield(worker.exited), 60)
    assert (died.reason, died.message) == (WorkerDeath.EXITED, "The worker process was ended by SIGTERM.")
    await worker.close()
    assert (await run("return 1")).value == 1


async def test_a_turn_that_is_cancelled_leaves_a_worker_that_closes() -> None:
    worker = await start(SPINS, replay=True)
    turn = asyncio.ensure_future(worker.first_turn())
    await asyncio.sleep(0.02)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await worker.close()
    assert not is_child(worker.pid)


async def test_closing_while_a_turn_runs_ends_the_turn() -> None:
    worker = await start(SPINS, replay=True)
    turn = asyncio.ensure_future(worker.first_turn())
    await asyncio.sleep(0.01)
    await worker.close()
    with pytest.raises(WorkerDied) as died:
        await turn
    assert died.value.reason is WorkerDeath.KILLED


async def test_closing_finishes_although_it_is_cancelled() -> None:
    worker = await start(WAITS)
    closing = asyncio.ensure_future(worker.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert worker.exited.done()
    assert not is_child(worker.pid)


@linux
@pytest.mark.parametrize("cycles", [40, pytest.param(200, marks=pytest.mark.soak)])
async def test_no_start_leaks_however_it_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cycles: int
) -> None:
    """Cancelled at any moment, killed, closed, or left to end: no file, no process, no directory stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pids: list[int] = []
    spawned = launch.spawn

    def remember(first: bytes, *program: launch.Program) -> tuple[launch.Spawned, int]:
        made = spawned(first, *program)
        pids.append(made[0].process.pid)
        return made

    monkeypatch.setattr(process, "spawn", remember)
    random = Random(3)
    await run("return 1")
    files = open_files()

    async def one(how: int) -> None:
        worker = await start(WAITS if how else "for (let i = 0; i < 1e5; i++);")
        try:
            await worker.first_turn()
            if how == 1:
                os.kill(worker.pid, signal.SIGKILL)
            elif how == 2:
                await worker.give([response(result(1, 1))])
        except WorkerDied:
            pass
        finally:
            await worker.close()

    for number in range(cycles):
        task = asyncio.ensure_future(one(number % 4))
        if number % 2:
            await asyncio.sleep(random.random() * 0.03)
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
    assert len(pids) >= cycles // 2
    assert open_files() == files
    assert not any(is_child(pid) for pid in pids)
    assert list(tmp_path.iterdir()) == []


async def test_a_directory_that_cannot_be_removed_loses_no_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(path: object) -> None:
        raise OSError("busy")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as broken:
        broken.setattr(launch.os, "rmdir", refuse)
        worker = await start(WAITS)
    await worker.close()
    assert not is_child(worker.pid)


async def test_a_process_that_cannot_be_started_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    before = open_files() if Path("/proc/self/fd").exists() else 0
    with pytest.raises(WorkerDied, match=r"could not be started: No such file or directory\.") as died:
        await start(WAITS)
    assert died.value.reason is WorkerDeath.EXITED
    assert (open_files() if Path("/proc/self/fd").exists() else 0) == before


async def test_no_file_is_left_open_when_there_are_too_many() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.dup(0)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe + 5, hard))
    try:
        with pytest.raises(WorkerDied, match="Too many open files"):
            await start(WAITS)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    again = os.dup(0)
    os.close(again)
    assert again == probe


PARENT = """
import asyncio, sys
from workflows_core.limits import Limits
from workflows_core.worker.process import Worker

async def main():
    worker = await Worker.start(script=sys.argv[1], args=b"{}", limits=Limits(), replay=True)
    turn = asyncio.ensure_future(worker.first_turn())
    await asyncio.sleep(0.05)
    print(worker.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@linux
@pytest.mark.parametrize("script", [WAITS, SPINS], ids=["idle", "computing"])
def test_a_worker_ends_with_its_parent(script: str) -> None:
    """Killed without a chance to clean up, also while the script computes (for five seconds, if it were let)."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, script], stdout=subprocess.PIPE, cwd=ROOT, text=True, bufsize=1
    )
    assert parent.stdout is not None
    try:
        pid = int(parent.stdout.readline())
        assert state(pid) in ("R", "S", "D")
        used_before = cpu_seconds(pid)
        parent.kill()
        parent.wait()
        while state(pid) not in ("", "Z"):
            assert cpu_seconds(pid) - used_before < 2
            time.sleep(0.005)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- a process that is not ours ------------------------------------------------------------------------------


@pytest.fixture
def impostor(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces what runs in the process: ``body`` is the source of its main function."""

    def install(body: str) -> None:
        lines = "\n".join("    " + line for line in body.strip().splitlines())
        source = f"import posix, time\ndef pack(k, p): return k + len(p).to_bytes(4, 'big') + p\ndef main():\n{lines}\n"
        code = marshal.dumps([compile(source, "impostor", "exec")])
        monkeypatch.setattr(launch, "child_code", lambda *_: code)

    return install


READY = "posix.write(1, pack(b'Y', b''))\n"


@pytest.mark.parametrize(
    "said",
    [
        "posix.write(1, b'Q' + (1 << 30).to_bytes(4, 'big'))",
        "posix.write(1, pack(b'?', b''))",
        "posix.write(1, pack(b'Y', b''))",
        "posix.write(1, pack(b'I', b'5 0'))",
        "posix.write(1, pack(b'P', b'[]') + pack(b'Q', b'{}'))",
        "posix.write(1, pack(b'P', b'[[[],[]]]') + pack(b'E', b'{\"by\":\"engine\"}'))",
        "posix.write(1, b'\\xff' * 100)",
        "for _ in range(100): posix.write(1, pack(b'P', b'[]') + pack(b'Q', b'x' * 48000))",
    ],
)
async def test_a_worker_that_breaks_the_protocol_is_killed(
    impostor: Callable[[str], None], said: str
) -> None:
    impostor(f"{READY}time.sleep(0.02)\n{said}\ntime.sleep(60)")
    worker = await start(WAITS)
    try:
        with pytest.raises(WorkerDied, match="broke the protocol") as died:
            await worker.first_turn()
        assert died.value.reason is WorkerDeath.PROTOCOL
    finally:
        await worker.close()
    assert not is_child(worker.pid)


async def test_what_is_said_out_of_turn_breaks_the_protocol(impostor: Callable[[str], None]) -> None:
    impostor(f"{READY}posix.write(1, pack(b'I', b'0 0'))\ntime.sleep(60)")
    worker = await start(WAITS)
    died = await asyncio.wait_for(asyncio.shield(worker.exited), 60)
    assert died.reason is WorkerDeath.PROTOCOL
    await worker.close()


async def test_half_a_frame_and_an_exit_is_a_death(impostor: Callable[[str], None]) -> None:
    impostor(f"{READY}posix.write(1, b'Q\\0\\0')\nposix._exit(3)")
    worker = await start(WAITS)
    with pytest.raises(WorkerDied) as died:
        await worker.first_turn()
    assert (died.value.reason, died.value.message) == (
        WorkerDeath.EXITED,
        "The worker process ended by itself with status 3.",
    )
    await worker.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("posix.write(1, pack(b'B', b'{}'))", WorkerDeath.PROTOCOL),
        ("posix.write(1, pack(b'B', b'nonsense'))", WorkerDeath.PROTOCOL),
        (
            'posix.write(1, pack(b\'B\', b\'{"code":1,"message":"m","places":[[[],[]]]}\'))',
            WorkerDeath.PROTOCOL,
        ),
        ("posix.write(1, pack(b'Z', b''))", WorkerDeath.PROTOCOL),
        ("posix._exit(71)", WorkerDeath.MEMORY),
        ("posix._exit(70)", WorkerDeath.PROTOCOL),
        ("posix._exit(0)", WorkerDeath.EXITED),
        ("posix.kill(posix.getpid(), 24)", WorkerDeath.CPU_LIMIT),
        ("posix.kill(posix.getpid(), 11)", WorkerDeath.EXITED),
    ],
)
async def test_a_worker_that_fails_to_start_is_told_apart(
    impostor: Callable[[str], None], answer: str, reason: WorkerDeath
) -> None:
    impostor(answer + "\ntime.sleep(60)")
    with pytest.raises(WorkerDied) as died:
        await start(WAITS)
    assert died.value.reason is reason


async def test_standard_error_is_drained_and_its_end_is_kept(impostor: Callable[[str], None]) -> None:
    impostor(
        "for _ in range(40): posix.write(2, b'noise ' * 1000)\nposix.write(2, b'the end')\n"
        + READY
        + "time.sleep(60)"
    )
    worker = await start(WAITS)
    await worker.close()
    assert worker.stderr.endswith("the end")
    assert len(worker.stderr) <= 4096


async def test_a_worker_that_does_not_read_does_not_block_the_loop(impostor: Callable[[str], None]) -> None:
    impostor(READY + "time.sleep(0.1)\nwhile posix.read(0, 65536)[-2:] != b'\\n}': pass\ntime.sleep(60)")
    worker = await start("return 1\n" + "// " + "x" * 400_000)
    await worker.close()
    assert not is_child(worker.pid)


# ---- misuse --------------------------------------------------------------------------------------------------


async def test_a_batch_that_cannot_be_given_is_refused_before_anything_is_sent() -> None:
    worker = await start(WAITS)
    try:
        await worker.first_turn()
        with pytest.raises(ValueError, match="at least one"):
            await worker.give([])
        with pytest.raises(ValueError, match=str(protocol.FRAME_BYTES)):
            await worker.give([response(result(1, "x" * 60_000))])
        with pytest.raises(ValueError, match="call 7"):
            await worker.give([response(result(7, 1))])
        turn = await worker.give([response(result(1, 1))])
        assert turn.end is not None and turn.end.value == 1
    finally:
        await worker.close()


async def test_a_worker_runs_one_turn_at_a_time() -> None:
    worker = await start(SPINS)
    first = asyncio.ensure_future(worker.first_turn())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="one turn"):
        await worker.first_turn()
    await worker.close()
    with pytest.raises(WorkerDied):
        await first


async def test_workers_run_side_by_side() -> None:
    outcomes = await asyncio.gather(*[run(f"return {number}") for number in range(6)])
    assert [outcome.value for outcome in outcomes] == list(range(6))


async def test_a_large_batch_reaches_the_script() -> None:
    """More than a pipe holds at once."""
    worker = await start(
        "const all = await parallel(args.ids.map((stepId) => () => agent({stepId, agentRef: 'x', task: 1})));"
        " return all.map((r) => r.length)",
        {"ids": [f"s{number}" for number in range(12)]},
    )
    try:
        await worker.first_turn()
        frames = [response(result(number, "é" * 12_000)) for number in range(1, 13)]
        turn = await worker.give(frames)
        assert turn.end is not None and turn.end.value == [12_000] * 12
    finally:
        await worker.close()


# ---- identity ------------------------------------------------------------------------------------------------


def test_the_signature_depends_on_sources_and_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    signature = runtime_signature()
    assert len(signature) == 64
    assert signature == launch.runtime_signature.__wrapped__()
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0")
    assert launch.runtime_signature.__wrapped__() != signature
    monkeypatch.undo()
    monkeypatch.setattr(launch, "PRELUDE_PARTS", launch.PRELUDE_PARTS[:-1])
    assert launch.runtime_signature.__wrapped__() != signature


async def test_compiling_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    workers: list[Worker] = []
    opened = Worker._open

    async def remember(*arguments: object) -> object:
        made = await opened(*arguments)  # type: ignore[arg-type]
        workers.append(made[0])
        return made

    monkeypatch.setattr(Worker, "_open", remember)
    assert await compile_script("return 1") is None
    assert await compile_script("return (") is not None
    assert len(workers) == 2
    assert all(worker.exited.done() and not is_child(worker.pid) for worker in workers)
