"""Generated runs: replay is the same every time, any changed byte is found, and nothing is touched on the way."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.workflows_core.script.scripts import generated
from workflows_core.errors import ScriptRefused
from workflows_core.journal.bundle import write
from workflows_core.journal.frames import Frame, FrameKind
from workflows_core.journal.verify import verify
from workflows_core.jsontext import encode, parse

from .recording import rechained, record
from .runs import bundle, members


async def recorded(seeds: range) -> AsyncIterator[tuple[str, list[Frame]]]:
    for seed in seeds:
        script = generated(seed)
        try:
            frames = await record(script, order=lambda waiting: waiting[-1:])
        except ScriptRefused:
            continue
        if len(frames) > 2:
            yield script, frames


async def is_sensitive(script: str, frames: list[Frame], rng: random.Random) -> None:
    """One byte of each frame is changed, with and without a new chain: always found, requests by execution."""
    for frame in frames:
        body = bytearray(frame.body)
        body[rng.randrange(len(body))] ^= 1 << rng.randrange(7)
        broken = [*frames]
        broken[frame.number] = msgspec.structs.replace(frame, body=bytes(body))
        assert (await verify(script, broken)).verdict == "incompatible"
    requests = [frame for frame in frames if frame.kind is FrameKind.REQUEST]
    frame = rng.choice(requests)
    altered = parse(frame.body)
    call = rng.choice(altered["calls"])
    key = rng.choice([key for key in call if key not in ("op", "id")])
    call[key] = "altered" if isinstance(call[key], str) else ["altered"]
    found = await verify(script, rechained(frames, {frame.number: encode(altered)}))
    assert found.verdict == "diverged"
    assert found.divergence is not None and found.divergence.frame == frame.number


async def test_generated_runs_replay_alike_and_notice_every_change() -> None:
    rng = random.Random(11)
    count = 0
    async for script, frames in recorded(range(500, 526)):
        count += 1
        first = await verify(script, frames)
        assert first.verdict == "complete"
        assert await verify(script, frames) == first
        await is_sensitive(script, frames, rng)
    assert count > 4


@pytest.mark.soak
async def test_two_thousand_scripts_replay_alike_five_times() -> None:
    async for script, frames in recorded(range(2_000)):
        for _ in range(5):
            assert (await verify(script, frames)).verdict == "complete"


@pytest.mark.soak
async def test_five_hundred_journals_notice_every_change() -> None:
    rng = random.Random(12)
    count = 0
    async for script, frames in recorded(range(10_000, 12_000)):
        await is_sensitive(script, frames, rng)
        count += 1
    assert count >= 500


WATCHED = """
import asyncio, sys, tempfile
from pathlib import Path
from workflows_core.journal.bundle import open_bundle
from workflows_core.journal.debugger import Debugger
from workflows_core.journal.verify import verify_bundle
tempfile.gettempdir()  # finding it tries a file
touched = []
def watch(event, values):
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "sqlite3.connect"):
        touched.append((event, str(values)))
    if event == "open" and isinstance(values[1], str) and set(values[1]) & set("wax+"):
        touched.append((event, str(values)))
    if event in ("os.rename", "os.remove", "os.truncate", "shutil.copyfile"):
        touched.append((event, str(values)))
sys.addaudithook(watch)
async def main():
    bundle = open_bundle(Path(sys.argv[1]))
    verdict = await verify_bundle(bundle)
    debugger = await Debugger.open(bundle.script, bundle.frames)
    await debugger.go_to_frame(3)
    await debugger.watch(["evidence.output"])
    await debugger.close()
    print(verdict.verdict, touched)
asyncio.run(main())
"""


def test_i09_replay_touches_no_network_no_store_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "run.wfrun"
    path.write_bytes(write(asyncio.run(bundle())))
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "complete []"
    assert [file.name for file in tmp_path.iterdir()] == ["run.wfrun"]


async def test_i09_replay_stops_at_the_first_difference_before_anything_else_is_asked() -> None:
    script = """
    const one = await agent({stepId: 'one', agentRef: 'lead_agent', task: 1});
    const two = await agent({stepId: 'two', agentRef: 'lead_agent', task: one.output});
    return await agent({stepId: 'three', agentRef: 'lead_agent', task: two.output});
    """
    frames = await record(script)
    body = parse(frames[3].body)
    body["calls"][0]["task"] = 2
    verdict = await verify(script, rechained(frames, {3: encode(body)}))
    assert verdict.divergence is not None
    assert (verdict.divergence.frame, verdict.divergence.agreed) == (3, 2)
    assert parse(encode(verdict.divergence.now))["calls"][0]["step_id"] == "two"


async def test_i14_no_credential_of_the_environment_is_in_a_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = "sk-planted-7f3a9c"
    monkeypatch.setenv("OPENAI_API_KEY", planted)
    script = """
    const reached = Object.getOwnPropertyNames(globalThis).join(' ');
    const one = await agent({stepId: 'evidence', agentRef: 'lead_agent', task: reached});
    return {text: one.output, error: (() => { try { return process.env; } catch (e) { return e.message; } })()};
    """
    data = write(await bundle(script, {}))
    assert planted.encode() not in b"".join(members(data).values())
