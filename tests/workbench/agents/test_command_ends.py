"""Command agents: however a program ends, nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workbench.agents.test_command import ask, call, child_of, shell
from tests.workbench.crash.kit import gone, wait_until
from tests.workbench.host.kit import eventually
from workbench.agents import command_process
from workbench.agents.command import CommandBackend
from workbench.agents.command_process import CommandProcess


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".workbench").mkdir(mode=0o700)
    return tmp_path


STUBBORN = """
trap '' TERM
echo $$ > pids
(trap '' TERM; echo $(sh -c 'echo $PPID') >> pids; sleep 600) &
setsid sh -c 'trap "" TERM; echo $$ >> pids; sleep 600' &
(setsid sh -c 'echo $$ >> pids; exec sleep 600' &)
while [ $(wc -l < pids) -lt 4 ]; do sleep 0.01; done
touch ready
sleep 600
"""


def pids(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "pids").read_text("utf-8").split()]


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere only the process group is reached"
)
async def test_an_interrupted_program_is_gone_with_all_that_it_started(root: Path) -> None:
    backend = CommandBackend(root)
    made = call(shell(STUBBORN))
    folder = root / ".workbench" / "children" / "cr_1"
    work = asyncio.create_task(backend.observe(child_of(made), made))
    await eventually((folder / "ready").exists)
    left = pids(folder)
    assert len(left) == 4 and not any(map(gone, left))
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert all(map(gone, left))


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere only the process group is reached"
)
async def test_what_a_program_leaves_behind_ends_with_it(root: Path) -> None:
    answer = await ask(
        root, shell("(setsid sh -c 'echo $$ > pid; exec sleep 600' &); until [ -s pid ]; do sleep 0.01; done")
    )
    assert answer.output == ""
    assert gone(int((root / ".workbench" / "children" / "cr_1" / "pid").read_text("utf-8")))


async def test_a_program_may_end_in_order_when_it_is_asked_to(root: Path) -> None:
    backend = CommandBackend(root)
    made = call(
        shell("trap 'echo bye > bye; exit 0' TERM; touch ready; while :; do sleep 0.01; done", stop_seconds=5)
    )
    folder = root / ".workbench" / "children" / "cr_1"
    work = asyncio.create_task(backend.observe(child_of(made), made))
    await eventually((folder / "ready").exists)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (folder / "bye").read_text("utf-8") == "bye\n"


async def test_a_second_cancellation_ends_the_waiting_and_the_program(root: Path) -> None:
    """The host gives a child run that many seconds when it closes, and then cancels once more."""
    process = CommandProcess(
        ["/bin/sh", "-c", "trap '' TERM; echo $$ > pid; touch ready; sleep 600"],
        folder=root,
        environment={"PATH": os.environ["PATH"]},
        max_output=100,
        stop_seconds=5,
    )
    work = asyncio.create_task(process.run(b"", 600))
    await eventually((root / "ready").exists)
    work.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not work.done()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    pid = int((root / "pid").read_text("utf-8"))
    await eventually(lambda: gone(pid))


async def test_a_program_that_stops_its_guard_is_killed_all_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_process, "_GUARD_SECONDS", 0.2)
    backend = CommandBackend(root)
    made = call(shell("trap '' TERM; kill -STOP $PPID; echo $$ > pid; touch ready; sleep 600"))
    folder = root / ".workbench" / "children" / "cr_1"
    work = asyncio.create_task(backend.observe(child_of(made), made))
    await eventually((folder / "ready").exists)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await eventually(functools.partial(gone, int((folder / "pid").read_text("utf-8"))))


HOST = """
import asyncio, sys
from pathlib import Path
from workbench.agents.command_process import CommandProcess
process = None
async def main():
    process = CommandProcess(["/bin/sh", "-c", sys.argv[2]], folder=Path(sys.argv[1]),
        environment={"PATH": "/usr/bin:/bin"}, max_output=100, stop_seconds=0.2)
    await process.run(b"", 600)
asyncio.run(main())
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere only the process group is reached"
)
def test_when_the_host_is_killed_nothing_of_its_programs_is_left(root: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOST, str(root), STUBBORN]) as host:
        try:
            wait_until((root / "ready").exists, "the program runs")
            left = pids(root)
            host.send_signal(signal.SIGKILL)
            host.wait()
            wait_until(lambda: all(map(gone, left)), "the program and its descendants are gone")
        finally:
            with contextlib.suppress(ProcessLookupError):
                host.kill()


OTHER_SYSTEM = """
import os, runpy, sys
del os.waitid
sys.platform = "darwin"
runpy.run_path({guard!r}, run_name="__main__")
"""


async def test_where_the_system_offers_less_the_process_group_is_still_killed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = root / "guard.py"
    guard.write_text(OTHER_SYSTEM.format(guard=str(command_process._GUARD)), "utf-8")
    monkeypatch.setattr(command_process, "_GUARD", guard)
    group = "trap '' TERM; (trap '' TERM; sleep 600) & echo $! > pid; echo said; "
    for number, (end, timeout_seconds, expected) in enumerate(
        (
            ("exit 3", 60, (3, None, False)),
            ("kill -KILL $$", 60, (None, signal.SIGKILL, False)),
            ("touch ready; sleep 600", 3, (None, signal.SIGKILL, True)),
        )
    ):
        folder = root / f"{number}"
        folder.mkdir()
        process = CommandProcess(
            ["/bin/sh", "-c", group + end],
            folder=folder,
            environment={"PATH": os.environ["PATH"]},
            max_output=100,
            stop_seconds=0.1,
        )
        ended = await process.run(b"", timeout_seconds)
        assert (ended.code, ended.signal, ended.timed_out) == expected
        assert ended.stdout == b"said\n"
        left = int((folder / "pid").read_text("utf-8"))
        await eventually(functools.partial(gone, left))
